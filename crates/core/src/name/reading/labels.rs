//! The labels of encodings, as standards and programs write them.
//!
//! Sources: the WHATWG Encoding Standard, section 4.2 (Names and labels); the IANA registry Character Sets; the aliases of
//! GNU libiconv (`iconv -l`) and of Python (the module `encodings.aliases`); the code page identifiers of Windows.

use crate::nearest::nearest;

/// Each encoding by its name, with other labels. Case, spaces and punctuation do not matter ([`key`]), and neither does a word for the
/// vendor before the number of a code page ([`page_number`]).
pub(super) static LABELS: [(&str, &[&str]); 57] = [
    ("windows-1250", &["ms-ee"]),
    ("windows-1251", &["ms-cyrl"]),
    (
        "windows-1252",
        &[
            "ansi",
            "ascii",
            "us-ascii",
            "ansi_x3.4-1968",
            "ms-ansi",
            "latin1",
            "l1",
            "iso-8859-1",
            "iso_8859-1:1987",
            "8859-1",
            "iso-ir-100",
            "cp819",
            "csisolatin1",
            "latin",
        ],
    ),
    ("windows-1253", &["ms-greek"]),
    (
        "windows-1254",
        &["ms-turk", "iso-8859-9", "iso_8859-9:1989", "8859-9", "latin5", "l5", "iso-ir-148", "csisolatin5"],
    ),
    ("windows-1255", &["ms-hebr"]),
    ("windows-1256", &["ms-arab"]),
    ("windows-1257", &["winbaltrim"]),
    ("windows-1258", &[]),
    ("windows-874", &["dos-874", "tis-620", "tis620-0", "iso-8859-11", "iso8859-11", "thai", "iso-ir-166"]),
    ("ISO-8859-2", &["iso_8859-2:1987", "8859-2", "latin2", "l2", "iso-ir-101", "csisolatin2"]),
    ("ISO-8859-3", &["iso_8859-3:1988", "8859-3", "latin3", "l3", "iso-ir-109", "csisolatin3"]),
    ("ISO-8859-4", &["iso_8859-4:1988", "8859-4", "latin4", "l4", "iso-ir-110", "csisolatin4"]),
    ("ISO-8859-5", &["iso_8859-5:1988", "8859-5", "cyrillic", "iso-ir-144", "csisolatincyrillic"]),
    (
        "ISO-8859-6",
        &[
            "iso_8859-6:1987",
            "8859-6",
            "iso-8859-6-e",
            "iso-8859-6-i",
            "arabic",
            "asmo-708",
            "ecma-114",
            "iso-ir-127",
            "csisolatinarabic",
            "csiso88596e",
            "csiso88596i",
        ],
    ),
    (
        "ISO-8859-7",
        &[
            "iso_8859-7:1987",
            "8859-7",
            "greek",
            "greek8",
            "sun_eu_greek",
            "ecma-118",
            "elot_928",
            "iso-ir-126",
            "csisolatingreek",
        ],
    ),
    (
        "ISO-8859-8",
        &[
            "iso_8859-8:1988",
            "8859-8",
            "iso-8859-8-e",
            "hebrew",
            "visual",
            "iso-ir-138",
            "csisolatinhebrew",
            "csiso88598e",
        ],
    ),
    ("ISO-8859-8-I", &["logical", "csiso88598i"]),
    ("ISO-8859-10", &["iso_8859-10:1992", "8859-10", "latin6", "l6", "iso-ir-157", "csisolatin6"]),
    ("ISO-8859-13", &["8859-13", "latin7", "l7", "iso-ir-179"]),
    ("ISO-8859-14", &["iso_8859-14:1998", "8859-14", "latin8", "l8", "iso-celtic", "iso-ir-199"]),
    ("ISO-8859-15", &["iso_8859-15:1998", "8859-15", "latin9", "l9", "iso-ir-203", "csisolatin9"]),
    ("ISO-8859-16", &["iso_8859-16:2001", "8859-16", "latin10", "l10", "iso-ir-226"]),
    ("KOI8-R", &["koi8", "cskoi8r"]),
    ("KOI8-U", &["koi8-ru"]),
    ("macintosh", &["mac", "x-mac-roman", "mac-roman", "csmacintosh"]),
    ("x-mac-cyrillic", &["mac-cyrillic", "x-mac-ukrainian", "mac-ukrainian", "mac-ukraine", "mac-uk"]),
    ("x-mac-ce", &["mac-ce", "mac-central-europe", "mac-centraleurope", "mac-latin2"]),
    ("x-mac-croatian", &["mac-croatian"]),
    ("x-mac-greek", &["mac-greek"]),
    ("x-mac-icelandic", &["mac-icelandic", "mac-iceland"]),
    ("x-mac-romanian", &["mac-romanian", "mac-romania"]),
    ("x-mac-turkish", &["mac-turkish"]),
    ("cp437", &["cspc8codepage437", "dos-latin-us"]),
    ("cp720", &[]),
    ("cp737", &[]),
    ("cp775", &["cspc775baltic"]),
    ("cp850", &["cspc850multilingual"]),
    ("cp852", &["cspcp852"]),
    ("cp855", &["csibm855"]),
    ("cp857", &["csibm857"]),
    ("cp858", &["csibm858", "pc-multilingual-850+euro"]),
    ("cp860", &["csibm860"]),
    ("cp861", &["cp-is", "csibm861"]),
    ("cp862", &["cspc862latinhebrew"]),
    ("cp863", &["csibm863"]),
    ("cp864", &["csibm864"]),
    ("cp865", &["csibm865"]),
    ("IBM866", &["csibm866", "alt"]),
    ("cp869", &["cp-gr", "csibm869"]),
    ("cp1125", &["cp866u", "ruscii"]),
    ("Shift_JIS", &["sjis", "s-jis", "x-sjis", "ms-kanji", "mskanji", "windows-31j", "csshiftjis"]),
    ("EUC-JP", &["x-euc-jp", "ujis", "u-jis", "cseucpkdfmtjapanese"]),
    (
        "GBK",
        &[
            "x-gbk",
            "gb2312",
            "gb_2312-80",
            "gb2312-1980",
            "euc-cn",
            "euccn",
            "eucgb2312-cn",
            "chinese",
            "csgb2312",
            "iso-ir-58",
            "csiso58gb231280",
        ],
    ),
    ("gb18030", &["gb18030-2000"]),
    ("Big5", &["big5-hkscs", "big5hkscs", "hkscs", "big5-tw", "cn-big5", "x-x-big5", "csbig5"]),
    (
        "EUC-KR",
        &[
            "korean",
            "ks_c_5601-1987",
            "ks_c_5601-1989",
            "ksc5601",
            "ksc_5601",
            "ks_x-1001",
            "uhc",
            "windows-949",
            "iso-ir-149",
            "cseuckr",
            "csksc56011987",
        ],
    ),
];

/// Numbers of code pages that are not part of the name of their encoding.
const PAGES: [(u16, &str); 31] = [
    (932, "Shift_JIS"),
    (936, "GBK"),
    (949, "EUC-KR"),
    (950, "Big5"),
    (951, "Big5"),
    (10000, "macintosh"),
    (10006, "x-mac-greek"),
    (10007, "x-mac-cyrillic"),
    (10010, "x-mac-romanian"),
    (10017, "x-mac-cyrillic"),
    (10029, "x-mac-ce"),
    (10079, "x-mac-icelandic"),
    (10081, "x-mac-turkish"),
    (10082, "x-mac-croatian"),
    (20866, "KOI8-R"),
    (21866, "KOI8-U"),
    (28591, "windows-1252"),
    (28592, "ISO-8859-2"),
    (28593, "ISO-8859-3"),
    (28594, "ISO-8859-4"),
    (28595, "ISO-8859-5"),
    (28596, "ISO-8859-6"),
    (28597, "ISO-8859-7"),
    (28598, "ISO-8859-8"),
    (28599, "windows-1254"),
    (28603, "ISO-8859-13"),
    (28605, "ISO-8859-15"),
    (38598, "ISO-8859-8-I"),
    (51932, "EUC-JP"),
    (51949, "EUC-KR"),
    (54936, "gb18030"),
];

/// What labels of one encoding have in common: their letters and digits, in lower case.
fn key(label: &str) -> String {
    label.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The number of the code page in a label such as `cp437`, `IBM-437`, `windows-1252` or `437`.
fn page_number(key: &str) -> Option<u16> {
    const VENDORS: [&str; 8] = ["windows", "codepage", "ibm", "win", "dos", "oem", "cp", "ms"];
    let key = key.strip_prefix('x').unwrap_or(key);
    let number = VENDORS.iter().find_map(|vendor| key.strip_prefix(vendor)).unwrap_or(key);
    number.parse().ok().filter(|_| !number.starts_with('0'))
}

/// The numbers of code pages that stand for the encoding `name`, beside one in its name.
pub(super) fn pages_of(name: &str) -> impl Iterator<Item = u16> {
    PAGES.iter().filter(move |(_, other)| *other == name).map(|&(page, _)| page)
}

/// The name of the encoding with the label `label`; `None` if it is unknown.
pub(super) fn name_for(label: &str) -> Option<&'static str> {
    if !label.is_ascii() || label.contains(|c: char| c.is_ascii_control()) {
        return None;
    }
    let key = key(label);
    if let Some(number) = page_number(&key) {
        let is_page = |name: &&str| page_number(&self::key(name)) == Some(number);
        let by_name = || LABELS.iter().map(|&(name, _)| name).find(is_page);
        return PAGES.iter().find(|(page, _)| *page == number).map(|&(_, name)| name).or_else(by_name);
    }
    let is_label = |other: &str| self::key(other) == key;
    LABELS
        .iter()
        .find(|(name, labels)| is_label(name) || labels.iter().any(|label| is_label(label)))
        .map(|&(name, _)| name)
}

/// The label that is nearest to `label`, which is unknown.
pub(super) fn nearest_to(label: &str) -> Option<&'static str> {
    let wanted = key(label);
    if wanted.len() < 3 {
        return None;
    }
    let known = LABELS.iter().flat_map(|&(name, labels)| [name].into_iter().chain(labels.iter().copied()));
    let keyed: Vec<(String, &str)> = known.map(|label| (key(label), label)).collect();
    let nearest = nearest(&wanted, keyed.iter().map(|(key, _)| key.as_str()))?;
    keyed.iter().find(|(key, _)| key == nearest).map(|&(_, label)| label)
}
