//! The legacy encodings, by `encoding_rs`, and the guess at them, by `chardetng`.

use std::borrow::Cow;
use std::str::FromStr;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

use super::{Encoding, NotLegacy, non_ascii};

impl Encoding {
    /// windows-1252, the superset of ISO-8859-1 that Western systems used.
    pub const WINDOWS_1252: Self = Self(encoding_rs::WINDOWS_1252);

    /// Encodings that many names of before were written in, the most common first.
    pub const COMMON: [Self; 16] = [
        Self(encoding_rs::WINDOWS_1252),
        Self(encoding_rs::WINDOWS_1251),
        Self(encoding_rs::SHIFT_JIS),
        Self(encoding_rs::GBK),
        Self(encoding_rs::KOI8_R),
        Self(encoding_rs::EUC_KR),
        Self(encoding_rs::BIG5),
        Self(encoding_rs::IBM866),
        Self(encoding_rs::EUC_JP),
        Self(encoding_rs::WINDOWS_1250),
        Self(encoding_rs::ISO_8859_2),
        Self(encoding_rs::WINDOWS_1253),
        Self(encoding_rs::WINDOWS_1254),
        Self(encoding_rs::WINDOWS_1255),
        Self(encoding_rs::WINDOWS_1256),
        Self(encoding_rs::MACINTOSH),
    ];

    /// ISO-8859-15, which differs from ISO-8859-1 and windows-1252 in the euro sign and seven letters.
    pub const ISO_8859_15: Self = Self(encoding_rs::ISO_8859_15);

    /// The name of the encoding in the Encoding Standard, such as `IBM866`.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// Whether each byte is a character of its own.
    pub fn is_single_byte(self) -> bool {
        self.0.is_single_byte()
    }

    /// Whether its characters beyond ASCII are mostly Latin letters.
    pub fn is_latin(self) -> bool {
        const LATIN: [&encoding_rs::Encoding; 14] = [
            encoding_rs::WINDOWS_1252,
            encoding_rs::WINDOWS_1250,
            encoding_rs::WINDOWS_1254,
            encoding_rs::WINDOWS_1257,
            encoding_rs::WINDOWS_1258,
            encoding_rs::ISO_8859_2,
            encoding_rs::ISO_8859_3,
            encoding_rs::ISO_8859_4,
            encoding_rs::ISO_8859_10,
            encoding_rs::ISO_8859_13,
            encoding_rs::ISO_8859_14,
            encoding_rs::ISO_8859_15,
            encoding_rs::ISO_8859_16,
            encoding_rs::MACINTOSH,
        ];
        LATIN.contains(&self.0)
    }

    /// `bytes` read in the encoding; `None` if they are not of it.
    pub(super) fn decode(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        self.0.decode_without_bom_handling_and_without_replacement(bytes)
    }
}

impl FromStr for Encoding {
    type Err = NotLegacy;

    /// Reads a label of the Encoding Standard without regard to case, or the number of a Windows code page of East Asia
    /// as other converters write it (`cp932`, `cp936`, `cp949`, `cp950`).
    ///
    /// # Errors
    /// The label is unknown, or its encoding is UTF-8 or not an extension of ASCII (UTF-16, ISO-2022-JP).
    fn from_str(label: &str) -> Result<Self, NotLegacy> {
        const CODE_PAGES: [(&str, &str); 4] =
            [("cp932", "shift_jis"), ("cp936", "gbk"), ("cp949", "euc-kr"), ("cp950", "big5")];
        let page = CODE_PAGES.iter().find(|(page, _)| page.eq_ignore_ascii_case(label.trim()));
        let standard = page.map_or(label, |&(_, standard)| standard);
        let found = encoding_rs::Encoding::for_label(standard.as_bytes());
        let modern = [encoding_rs::UTF_8, encoding_rs::REPLACEMENT, encoding_rs::X_USER_DEFINED];
        match found {
            Some(encoding) if encoding.is_ascii_compatible() && !modern.contains(&encoding) => {
                Ok(Self(encoding))
            }
            _ => Err(NotLegacy { label: label.to_owned(), is_known: found.is_some() }),
        }
    }
}

/// The likeliest encoding of `lines`.
pub(super) fn guess(lines: &[u8]) -> Option<Encoding> {
    /// So few letters say only that the text is Latin; then the most common encoding is the best guess.
    const TOO_FEW: usize = 2;
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(lines, true);
    let guess = Encoding(detector.guess(None, Utf8Detection::Deny));
    let mut beyond_ascii = lines.iter().copied().filter(|octet| !octet.is_ascii());
    let is_western_letter = |octet: u8| octet >= 0xC0 && char::from(octet).is_alphabetic();
    let is_thin = non_ascii(lines) <= TOO_FEW && beyond_ascii.all(is_western_letter);
    Some(if is_thin && guess.is_latin() { Encoding::WINDOWS_1252 } else { guess })
}
