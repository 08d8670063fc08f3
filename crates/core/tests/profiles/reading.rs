//! Cases of the profiles without a target.

use super::ProfileTester;

const ILL_FORMED: [(&[u8], &str); 14] = [
    (b"a\x80", "unexpected-continuation"),
    (b"caf\xE9", "truncated"),
    (b"\xC1\x81", "overlong"),
    (b"\xC0\x80", "nul-smuggling"),
    (b"a\0b", "nul-smuggling"),
    (b"..\xC0\xAF", "separator-smuggling"),
    (b"..\xE0\x80\xAF", "separator-smuggling"),
    (b"a/b", "separator-smuggling"),
    (b"\xED\xA0\x80", "surrogate"),
    (b"\xED\xA1\x8C\xED\xBE\xB4", "surrogate-pair"),
    (b"\xF4\x90\x80\x80", "above-max"),
    (b"\xF8\x88\x80\x80\x80", "five-or-six-octets"),
    (b"a\xFF", "invalid-octet"),
    (b"", "empty-name"),
];

pub fn utf8(tester: &ProfileTester) {
    for (name, rule) in ILL_FORMED {
        tester.finds(name, &format!("error {rule}"));
    }
    tester.finds_each([".", ".."], "error dot-name");
    tester.passes(["a", "...", " ", "-rf", "CON", "a\n\u{7F}\u{85}", "\u{2044}\u{2215}\u{FF0F}\u{2024}"]);
    tester.passes(["\u{FFFE}\u{10FFFF}\u{D7FF}\u{E000}", "日本.txt", "\u{1F600}"]);
    tester.tells_apart(&["a", "A"]);
}

pub fn strict(tester: &ProfileTester) {
    for (name, rule) in ILL_FORMED {
        tester.finds(name, &format!("error {rule}"));
    }
    tester.finds_inside('\u{1}'..='\u{1F}', "error c0-control");
    tester.finds_inside(['\u{7F}'], "error delete");
    tester.finds_inside('\u{80}'..='\u{9F}', "error c1-control");
    tester.finds_inside(['\u{2028}', '\u{2029}'], "error line-separator");
    tester.finds_inside('\u{FDD0}'..='\u{FDEF}', "error noncharacter");
    let last_two = (0..=0x10_u32).flat_map(|plane| [plane << 16 | 0xFFFE, plane << 16 | 0xFFFF]);
    tester.finds_inside(last_two.filter_map(char::from_u32), "error noncharacter");
    tester.finds_each(["\u{1B}%G", "a\u{1B}%@b"], "error c0-control, error iso-2022-escape");
    tester.finds("\u{1B}%/I", "error c0-control, error iso-2022-escape, error separator-smuggling");
    tester.finds("\u{1B}%F", "error c0-control");
    tester.finds_each(["invoice\u{202E}fdp.exe", "a\u{2066}"], "warn bidi-control");
    tester.finds_each(["\u{200B}", "a\u{AD}b"], "warn default-ignorable");
    tester.finds("\u{FEFF}a", "warn byte-order-mark");
    tester.finds("a\u{E0041}", "warn tag-character");
    tester.finds(" ~!", "warn leading-space");
    tester.finds("minutes.txt ", "warn trailing-space");
    tester.finds_each(["M\u{C3}\u{BC}ller.txt", "├£bersicht"], "warn mojibake");
    tester.finds_each(["??.txt", "?", "a ?? b"], "warn lost-characters");
    tester.finds_each(["caf\u{FFFD}.txt"], "warn replacement-character");
    tester.passes([
        "%G",
        "\u{A0}",
        "\u{FDCF}\u{FDF0}",
        "\u{2027}",
        "می\u{200C}خواهم",
        "-x",
        "a.",
        "\u{E000}",
    ]);
}

pub fn security(tester: &ProfileTester) {
    tester.finds_inside(('\u{1}'..='\u{1F}').filter(|&c| c != '\u{1B}'), "warn c0-control");
    tester.finds_inside(['\u{7F}'], "warn delete");
    tester.finds_inside('\u{80}'..='\u{9F}', "warn c1-control");
    let bidi = ['\u{61C}', '\u{200E}', '\u{200F}'];
    tester.finds_inside(bidi.into_iter().chain('\u{202A}'..='\u{202E}'), "warn bidi-control");
    tester.finds_inside('\u{2066}'..='\u{2069}', "warn bidi-control");
    let zero_width = ['\u{200B}', '\u{200C}', '\u{200D}', '\u{2060}', '\u{34F}', '\u{FE00}', '\u{FE0F}'];
    tester.finds_inside(zero_width.into_iter().chain(['\u{E0100}', '\u{E01EF}']), "warn default-ignorable");
    // A Mongolian code point among Latin letters.
    tester.finds_inside(['\u{180E}'], "warn default-ignorable, warn mixed-script");
    tester.finds_inside(['\u{FEFF}'], "warn byte-order-mark");
    tester.finds_inside('\u{E0000}'..='\u{E007F}', "warn tag-character");
    tester.finds_inside(['\u{FDD0}', '\u{FDEF}', '\u{FFFE}', '\u{1FFFF}', '\u{10FFFE}'], "warn noncharacter");
    tester.finds_inside(['\u{E000}', '\u{F8FF}', '\u{F0000}', '\u{10FFFD}', '\u{F02A}'], "warn private-use");
    tester.finds_inside(['\u{F001}', '\u{F029}'], "warn smb-private-use");
    tester.finds_inside(['\u{FFFD}'], "warn replacement-character");
    tester.finds_inside(['\u{2028}', '\u{2029}'], "warn line-separator");
    tester.finds_inside(['\u{A0}', '\u{2003}', '\u{202F}', '\u{3000}'], "warn non-ascii-space");
    tester.finds("a\u{1B}%Gb", "warn c0-control, warn iso-2022-escape");
    tester.finds_together(&["é", "e\u{301}"], "warn collision-confusable, warn collision-normalization");
    tester.finds_each(["-rf", "--", "-"], "warn leading-dash");
    tester.finds_each(["~", "~root"], "warn leading-tilde");
    tester.finds_each([" a", "  a"], "warn leading-space");
    tester.finds_each(["a ", "a.txt  "], "warn trailing-space");
    tester.finds("p\u{430}ypal.txt", "warn mixed-script");
    tester.finds("a\u{200D}b", "warn default-ignorable");
    tester.passes([
        "می\u{200C}خواهم",
        "क\u{94D}\u{200D}ष",
        "\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467}",
        "\u{2764}\u{FE0F}",
    ]);
    let scotland = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}";
    tester.passes([scotland, "a-b~c d", "a.", "пример.txt", "日本語テスト", "\u{378}", "CON", "a\u{300}"]);
    tester.finds_together(&["scope", "ѕсоре"], "warn collision-confusable");
    tester.tells_apart(&["scope", "SCOPE", "scopes"]);
}
