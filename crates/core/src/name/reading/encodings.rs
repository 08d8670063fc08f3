//! The legacy encodings: those of the Encoding Standard by `encoding_rs`, the OEM code pages of DOS by `oem_cp`, and a few more.

use std::borrow::Cow;
use std::str::FromStr;

use oem_cp::code_table::{DECODING_TABLE_CP_MAP, ENCODING_TABLE_CP_MAP};

use super::code_pages::{CODE_PAGES, CodePage};
use super::{Encoding, NotLegacy, labels};
use crate::name::normalize::{Form, to_form};

/// Where the characters of an encoding are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Characters {
    /// In the Encoding Standard.
    Standard(&'static encoding_rs::Encoding),
    /// In the OEM code page with this number and name.
    Oem(u16, &'static str),
    /// In a table of this crate.
    Own(&'static CodePage),
}

use Characters::{Oem, Own, Standard};

/// The OEM code pages that the Encoding Standard lacks; the others are IBM866 and windows-874.
const OEM: [(u16, &str); 16] = [
    (437, "cp437"),
    (720, "cp720"),
    (737, "cp737"),
    (775, "cp775"),
    (850, "cp850"),
    (852, "cp852"),
    (855, "cp855"),
    (857, "cp857"),
    (858, "cp858"),
    (860, "cp860"),
    (861, "cp861"),
    (862, "cp862"),
    (863, "cp863"),
    (864, "cp864"),
    (865, "cp865"),
    (869, "cp869"),
];

impl Encoding {
    /// All encodings, each with the labels by which it is known beside its name.
    pub fn all() -> impl Iterator<Item = (Self, Vec<String>)> {
        labels::LABELS.iter().filter_map(|&(name, others)| {
            let pages = labels::pages_of(name).map(|page| format!("cp{page}"));
            Some((Self::by_name(name)?, others.iter().map(|&label| label.to_owned()).chain(pages).collect()))
        })
    }

    /// The encoding with this name.
    fn by_name(name: &str) -> Option<Self> {
        if let Some(page) = CODE_PAGES.iter().find(|page| page.name == name) {
            return Some(Self(Own(page)));
        }
        if let Some(&(number, name)) = OEM.iter().find(|(_, oem)| *oem == name) {
            return Some(Self(Oem(number, name)));
        }
        let modern = [encoding_rs::UTF_8, encoding_rs::REPLACEMENT, encoding_rs::X_USER_DEFINED];
        let standard = encoding_rs::Encoding::for_label(name.as_bytes())?;
        (standard.is_ascii_compatible() && !modern.contains(&standard)).then_some(Self(Standard(standard)))
    }

    /// The known label that is nearest to `label`, which is unknown.
    pub(super) fn nearest_label(label: &str) -> Option<&'static str> {
        labels::nearest_to(label)
    }

    /// windows-1252, the superset of ISO-8859-1 that Western systems used.
    pub const WINDOWS_1252: Self = Self(Standard(encoding_rs::WINDOWS_1252));

    /// The name of the encoding: that in the Encoding Standard, such as `IBM866`, or else `cp850` and the like.
    pub fn name(self) -> &'static str {
        match self.0 {
            Standard(encoding) => encoding.name(),
            Oem(_, name) => name,
            Own(page) => page.name,
        }
    }

    /// Whether its characters beyond ASCII are mostly Latin letters.
    pub fn is_latin(self) -> bool {
        const OTHER: [&str; 28] = [
            "Big5",
            "EUC-JP",
            "EUC-KR",
            "GBK",
            "IBM866",
            "ISO-8859-5",
            "ISO-8859-6",
            "ISO-8859-7",
            "ISO-8859-8",
            "ISO-8859-8-I",
            "KOI8-R",
            "KOI8-U",
            "Shift_JIS",
            "cp1125",
            "cp720",
            "cp737",
            "cp855",
            "cp862",
            "cp864",
            "cp869",
            "gb18030",
            "windows-1251",
            "windows-1253",
            "windows-1255",
            "windows-1256",
            "windows-874",
            "x-mac-cyrillic",
            "x-mac-greek",
        ];
        !OTHER.contains(&self.name())
    }

    /// Whether each byte is a character. The tone marks of windows-1258 are composed with the letters before them.
    pub(super) fn is_single_byte(self) -> bool {
        match self.0 {
            Standard(encoding) => encoding.is_single_byte(),
            Oem(..) | Own(_) => true,
        }
    }

    /// `bytes` decoded in the encoding; `None` if they are not valid in it.
    pub(super) fn decode(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        match self.0 {
            Standard(encoding) => {
                let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
                // windows-1258 has tone marks apart from their letters; keyboards and other encodings do not.
                let is_decomposed = encoding == encoding_rs::WINDOWS_1258 && !text.is_ascii();
                Some(if is_decomposed { to_form(&text, Form::Nfc).into_owned().into() } else { text })
            }
            Oem(number, _) => {
                DECODING_TABLE_CP_MAP.get(&number)?.decode_string_checked(bytes).map(Cow::Owned)
            }
            Own(page) => page.decode(bytes).map(Cow::Owned),
        }
    }

    /// The character of `byte`; `None` if it has none of its own.
    pub(crate) fn character(self, byte: u8) -> Option<char> {
        self.decode(&[byte])?.chars().next()
    }

    /// The bytes of `text` in the encoding; `None` if it has a character that the encoding lacks.
    pub(crate) fn write(self, text: &str) -> Option<Vec<u8>> {
        match self.0 {
            Standard(encoding) => {
                let (bytes, _, is_lossy) = encoding.encode(text);
                (!is_lossy).then(|| bytes.into_owned())
            }
            Oem(number, _) => oem_cp::encode_string_checked(text, ENCODING_TABLE_CP_MAP.get(&number)?),
            Own(page) => page.encode(text),
        }
    }
}

impl FromStr for Encoding {
    type Err = NotLegacy;

    /// Reads a label, without regard to case and punctuation: one of the Encoding Standard, of GNU libiconv or of Python, or the
    /// number of a code page (`cp850`, `ibm850`, `850`).
    ///
    /// # Errors
    /// The label is unknown, or its encoding is UTF-8 or not an extension of ASCII (UTF-16, ISO-2022-JP).
    fn from_str(label: &str) -> Result<Self, NotLegacy> {
        let by_standard = encoding_rs::Encoding::for_label(label.as_bytes());
        let found = labels::name_for(label.trim()).or(by_standard.map(encoding_rs::Encoding::name));
        found
            .and_then(Self::by_name)
            .ok_or_else(|| NotLegacy { label: label.to_owned(), is_known: by_standard.is_some() })
    }
}

/// The encodings that a guess tries, each with how common names in it are compared to the others.
pub(super) const TRIED: [(&str, f32); 47] = [
    ("windows-1252", 3.0),
    ("iso-8859-15", 1.0),
    ("cp850", 0.5),
    ("cp437", 0.5),
    ("macintosh", 0.3),
    ("windows-1250", 0.6),
    ("iso-8859-2", 0.5),
    ("cp852", 0.3),
    ("x-mac-ce", 0.05),
    ("windows-1251", 0.8),
    ("koi8-r", 0.5),
    ("koi8-u", 0.3),
    ("ibm866", 0.5),
    ("cp1125", 0.1),
    ("cp855", 0.1),
    ("iso-8859-5", 0.15),
    ("x-mac-cyrillic", 0.1),
    ("windows-1253", 0.5),
    ("iso-8859-7", 0.3),
    ("cp737", 0.3),
    ("cp869", 0.1),
    ("x-mac-greek", 0.05),
    ("windows-1254", 0.5),
    ("cp857", 0.3),
    ("x-mac-turkish", 0.02),
    ("windows-1255", 0.5),
    ("cp862", 0.2),
    ("windows-1256", 0.5),
    ("iso-8859-6", 0.1),
    ("cp720", 0.1),
    ("windows-1257", 0.4),
    ("cp775", 0.2),
    ("iso-8859-13", 0.2),
    ("iso-8859-4", 0.02),
    ("iso-8859-3", 0.02),
    ("iso-8859-10", 0.02),
    ("windows-1258", 0.2),
    ("windows-874", 0.5),
    ("cp860", 0.05),
    ("cp861", 0.1),
    ("cp863", 0.05),
    ("cp865", 0.1),
    ("shift_jis", 0.8),
    ("euc-jp", 0.5),
    ("gbk", 0.8),
    ("big5", 0.6),
    ("euc-kr", 0.7),
];

/// Calls `take` with the characters of a national standard that has them in two levels, the common ones first, and with the level
/// of each. A character that the standard has twice comes last with the first of its codes.
///
/// `encoding` is the one that is made of the standard; `levels` are the last lead bytes of the two levels in it.
pub(super) fn each_of_two_levels(encoding: &str, levels: [u8; 2], mut take: impl FnMut(char, u8)) {
    let Some(encoding) = encoding_rs::Encoding::for_label(encoding.as_bytes()) else { return };
    for lead in (0xA1..=levels[1]).rev() {
        let codes: Vec<u8> = (0x40..=0xFE).rev().flat_map(|trail| [lead, trail, b' ']).collect();
        let (text, _) = encoding.decode_without_bom_handling(&codes);
        // A code that the encoding lacks gives no character, or two.
        let mut found = None;
        for (at, c) in text.chars().scan(0, |at, c| {
            *at = if c == ' ' { 0 } else { *at + 1 };
            Some((*at, c))
        }) {
            match at {
                0 => found.take().into_iter().for_each(|c| take(c, if lead <= levels[0] { 1 } else { 2 })),
                1 => found = Some(c),
                _ => found = None,
            }
        }
    }
}
