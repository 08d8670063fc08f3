//! Text that a program encoded in a name: percent-encoding (RFC 3986), encoded words of mail (RFC 2047) and parameters (RFC 2231), and
//! character references of HTML, and backslashes that separated names. Decoded only on request: no name shows whether its owner meant the text as it is.

use data_encoding::BASE64_NOPAD;
use namegate_core::name::arena::Arena;
use namegate_core::name::reading::Encoding;

/// A way to encode text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodedText {
    Percent,
    Mime,
    Html,
    Backslash,
}

/// The references by name of the characters that names have most often (HTML Living Standard, section 13.5).
const REFERENCES: [(&str, char); 31] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("auml", 'ä'),
    ("ouml", 'ö'),
    ("uuml", 'ü'),
    ("Auml", 'Ä'),
    ("Ouml", 'Ö'),
    ("Uuml", 'Ü'),
    ("szlig", 'ß'),
    ("aacute", 'á'),
    ("eacute", 'é'),
    ("iacute", 'í'),
    ("oacute", 'ó'),
    ("uacute", 'ú'),
    ("agrave", 'à'),
    ("egrave", 'è'),
    ("acirc", 'â'),
    ("ecirc", 'ê'),
    ("icirc", 'î'),
    ("ocirc", 'ô'),
    ("ccedil", 'ç'),
    ("ntilde", 'ñ'),
    ("atilde", 'ã'),
    ("otilde", 'õ'),
    ("aring", 'å'),
    ("oslash", 'ø'),
    ("euro", '€'),
];

impl EncodedText {
    /// The word of each on the command line and in plans, and its help; in the order of the variants.
    pub const WORDS: &[(&str, Self, &str)] = &[
        ("percent", Self::Percent, "`%E5%85%A8` as `全`, if the bytes are UTF-8"),
        ("mime", Self::Mime, "`=?utf-8?B?w6k=?=` and `utf-8''%C3%A9` as `é`"),
        ("html", Self::Html, "`&amp;` as `&`, `&#233;` as `é`"),
        (
            "backslash",
            Self::Backslash,
            r"`dir\sub\file` as the file `file` in the directory `dir/sub`, which is made",
        ),
    ];

    fn all() -> impl Iterator<Item = Self> {
        Self::WORDS.iter().map(|&(_, kind, _)| kind)
    }

    pub const fn as_str(self) -> &'static str {
        Self::WORDS[self as usize].0
    }

    /// The decoded name; `None` if it has no such text, or text that no name can have.
    pub fn decode(self, name: &str) -> Option<String> {
        let decoded = match self {
            Self::Percent => String::from_utf8(percent(name)?).ok(),
            Self::Mime => parameter(name).or_else(|| words(name)),
            Self::Html => references(name),
            // It becomes a path: `separators`.
            Self::Backslash => None,
        };
        decoded.filter(|text| text != name && !text.contains(|c: char| c == '/' || c.is_control()))
    }
}

/// The bytes of `name` with its percent-encoded ones decoded; `None` if there is none.
fn percent(name: &str) -> Option<Vec<u8>> {
    let (mut decoded, mut rest, mut is_changed) = (Vec::with_capacity(name.len()), name.as_bytes(), false);
    while let [first, behind @ ..] = rest {
        let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                is_changed = true;
                rest = &behind[2..];
            }
            _ => {
                decoded.push(*first);
                rest = behind;
            }
        }
    }
    is_changed.then_some(decoded)
}

/// The parts of a path with backslashes.
///
/// # Errors
/// Why `text` is no such path, as a sentence that begins with `it`.
pub fn path_parts(text: &str) -> Result<Vec<&str>, &'static str> {
    let is_drive = |part: &str| matches!(part.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    let parts: Vec<&str> = text.split('\\').collect();
    match () {
        () if parts[0].is_empty() => Err("it begins with a backslash, so it would be an absolute path"),
        () if is_drive(parts[0]) => Err("it begins with the letter of a drive"),
        () if parts.iter().any(|part| part.is_empty()) => {
            Err("it ends with a backslash or has two side by side, so a name of its path would be empty")
        }
        () if parts.iter().any(|part| matches!(*part, "." | "..")) => {
            Err("its path would have `.` or `..` in it")
        }
        () => Ok(parts),
    }
}

/// How many names have encoded text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodedNames {
    /// Names with any.
    pub names: u64,
    /// Names by the kind, in the order of its variants.
    by_kind: [u64; 4],
}

impl EncodedNames {
    /// Counts the names of `arena`. Costs nearly nothing if they have no character that encoded text has.
    pub fn count(arena: &Arena) -> Self {
        let mut counts = Self::default();
        arena.each_with(*b"%&\\", b"=?", &mut |name| {
            let Ok(name) = std::str::from_utf8(name) else { return };
            let kinds = EncodedText::all().map(|kind| match kind {
                EncodedText::Backslash => name.contains('\\') && path_parts(name).is_ok(),
                kind => kind.decode(name).is_some(),
            });
            let mut is_any = false;
            for (count, has) in counts.by_kind.iter_mut().zip(kinds) {
                *count += u64::from(has);
                is_any |= has;
            }
            counts.names += u64::from(is_any);
        });
        counts
    }

    /// Adds the counts of other names.
    pub fn add(&mut self, other: Self) {
        self.names += other.names;
        self.by_kind.iter_mut().zip(other.by_kind).for_each(|(count, other)| *count += other);
    }

    /// The kinds of the text that was found.
    pub fn kinds(&self) -> impl Iterator<Item = EncodedText> {
        EncodedText::all().zip(self.by_kind).filter(|(_, count)| *count > 0).map(|(kind, _)| kind)
    }
}

/// `bytes` in the encoding of a label.
fn read(label: &str, bytes: &[u8]) -> Option<String> {
    match &*label.to_ascii_lowercase() {
        "utf-8" | "utf8" => String::from_utf8(bytes.to_vec()).ok(),
        label => label.parse::<Encoding>().ok()?.read(bytes),
    }
}

/// An extended parameter: `CHARSET'LANGUAGE'TEXT`.
fn parameter(name: &str) -> Option<String> {
    let mut parts = name.splitn(3, '\'');
    let (label, language, text) = (parts.next()?, parts.next()?, parts.next()?);
    let is_language = language.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    read(label, &percent(text)?).filter(|_| is_language)
}

/// A name with encoded words: `=?CHARSET?B?TEXT?=` or `=?CHARSET?Q?TEXT?=`.
fn words(name: &str) -> Option<String> {
    let (mut decoded, mut rest, mut is_after_word) = (String::new(), name, false);
    while let Some((before, behind)) = rest.split_once("=?") {
        let mut parts = behind.splitn(3, '?');
        let (label, how, behind) = (parts.next()?, parts.next()?, parts.next()?);
        let (text, after) = behind.split_once("?=")?;
        let bytes = match how {
            "B" | "b" => BASE64_NOPAD.decode(text.trim_end_matches('=').as_bytes()).ok()?,
            "Q" | "q" => {
                let text = text.replace('%', "=25").replace('_', " ");
                let text = text.replace('=', "%");
                percent(&text).unwrap_or_else(|| text.into_bytes())
            }
            _ => return None,
        };
        // A space between two words separates only their codes.
        if !(is_after_word && before.chars().all(|c| c == ' ')) {
            decoded.push_str(before);
        }
        // RFC 2231 adds a language to the charset.
        decoded.push_str(&read(label.split('*').next()?, &bytes)?);
        (rest, is_after_word) = (after, true);
    }
    is_after_word.then(|| decoded + rest)
}

/// A name with its character references replaced.
fn references(name: &str) -> Option<String> {
    let (mut decoded, mut rest, mut is_changed) = (String::new(), name, false);
    while let Some((before, behind)) = rest.split_once('&') {
        decoded.push_str(before);
        let found = behind.split_once(';').and_then(|(word, after)| Some((reference(word)?, after)));
        match found {
            Some((c, after)) => {
                decoded.push(c);
                is_changed = true;
                rest = after;
            }
            None => {
                decoded.push('&');
                rest = behind;
            }
        }
    }
    is_changed.then(|| decoded + rest)
}

/// The character of the reference `word`.
fn reference(word: &str) -> Option<char> {
    let number = match (word.strip_prefix("#x").or_else(|| word.strip_prefix("#X")), word.strip_prefix('#')) {
        (Some(digits), _) => u32::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) => digits.parse().ok(),
        (None, None) => return REFERENCES.iter().find(|(name, _)| *name == word).map(|&(_, c)| c),
    };
    number.and_then(char::from_u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encoded_text_is_decoded_as_its_standard_says_and_anything_else_stays() {
        use EncodedText::{Html, Mime, Percent};
        for (kind, name, expected) in [
            (Percent, "%E5%85%A8.txt", Some("全.txt")),
            (Percent, "100%25 sure", Some("100% sure")),
            (Percent, "caf%E9", None),
            (Percent, "a%2Fb", None),
            (Percent, "a%0Ab", None),
            (Percent, "100%", None),
            (Percent, "50%ig", None),
            (Mime, "=?utf-8?B?w4RyZ2VyLnBkZg==?=", Some("Ärger.pdf")),
            (Mime, "=?UTF-8?b?w4RyZ2VyLnBkZg?=", Some("Ärger.pdf")),
            (Mime, "=?iso-8859-1?Q?Gr=FC=DFe_100%.txt?=", Some("Grüße 100%.txt")),
            (Mime, "=?utf-8?Q?a?= =?utf-8?Q?=C3=A9?= b", Some("aé b")),
            (Mime, "utf-8'en'%e2%82%ac.txt", Some("€.txt")),
            (Mime, "l'art d'une %20", None),
            (Mime, "=?unknown?B?w6k=?=", None),
            (Mime, "a =? b", None),
            (Html, "Q&amp;A &lt;1&gt; &#233;&#xE9;.txt", Some("Q&A <1> éé.txt")),
            (Html, "AT&T; &unknown; &#0;", None),
            (Html, "&#x2F;", None),
        ] {
            assert_eq!(kind.decode(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn names_with_encoded_text_are_counted_once_and_others_never() {
        let mut arena = Arena::new();
        for name in [
            "plain",
            "100%",
            "Tom & Jerry",
            "AT&T",
            r"\absolute",
            r"C:\x",
            "a=b?",
            "%E5%85%A8.txt",
            r"a\b%20c",
            "Q&amp;A",
            "=?utf-8?B?w6k=?=",
            "last",
        ] {
            arena.push(name.as_bytes()).unwrap();
        }
        arena.push(b"%20caf\xE9").unwrap();
        let counts = EncodedNames::count(&arena);
        assert_eq!((counts.names, counts.by_kind), (4, [2, 1, 1, 1]));
        assert_eq!(
            counts.kinds().map(EncodedText::as_str).collect::<Vec<_>>(),
            ["percent", "mime", "html", "backslash"]
        );
        assert_eq!(EncodedNames::count(&Arena::new()), EncodedNames::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_name_is_decoded_to_a_name_or_stays(name in "[-%=?&;#x'a-fA-F0-9BQ_ é]{0,24}") {
            for kind in EncodedText::all() {
                if let Some(text) = kind.decode(&name) {
                    prop_assert!(!text.contains('/') && !text.contains(char::is_control));
                }
            }
        }
    }
}
