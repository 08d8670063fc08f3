//! Conversions of names that the user requests, whatever the policy says of the names: reading again what was read in a wrong encoding,
//! decoding, a mapping, transliteration to ASCII.

use std::borrow::Cow;

use namegate_core::name::misread::Reread;
use namegate_core::name::scalar::is_invisible;
use namegate_core::policy::Confidence;
use namegate_scan::encoded_text::EncodedText;

use super::map::CharMap;

/// The conversions to make.
#[derive(Clone, Debug)]
pub struct NameConversion {
    /// How names in UTF-8 were read wrongly. Comes before anything else.
    pub reread: Option<Reread>,
    /// Encoded text to decode, before a mapping.
    pub decodes: Vec<EncodedText>,
    /// A mapping of characters. It comes first, so that a user can choose other letters than the transliteration would.
    pub map: Option<CharMap>,
    /// Write names in ASCII.
    pub transliterates: bool,
    /// Takes the place of characters that cannot be transliterated.
    pub replacement: char,
}

impl Default for NameConversion {
    fn default() -> Self {
        Self { reread: None, decodes: Vec::new(), map: None, transliterates: false, replacement: '_' }
    }
}

/// A name after its conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvertedName {
    pub text: String,
    /// How likely it is the intended name.
    pub confidence: Confidence,
    /// The conversions that changed the name.
    pub reading: String,
}

impl NameConversion {
    /// Reports whether a name in UTF-8 is converted.
    pub(crate) fn converts(&self, name: &str) -> bool {
        self.separates(name) || self.read_again(name).is_some() || self.apply(name).is_some()
    }

    /// Reports whether the name becomes a path.
    pub fn separates(&self, name: &str) -> bool {
        name.contains('\\') && self.decodes.contains(&EncodedText::Backslash)
    }

    /// The text of a name in UTF-8 that was read in the wrong encoding that the user named; `None` for another name.
    pub(crate) fn read_again(&self, name: &str) -> Option<(Reread, String)> {
        let reread = self.reread?;
        let text = reread.text(name).filter(|text| text != name && is_possible(text))?;
        Some((reread, text))
    }

    /// Converts a name; `None` if nothing changes.
    pub fn apply(&self, name: &str) -> Option<ConvertedName> {
        let mut text = Cow::Borrowed(name);
        let (mut confidence, mut steps) = (Confidence::Certain, Vec::new());
        // Parameters of mail have bytes as percent-encoding has: what is left of them after it would have no end.
        let mime = self.decodes.iter().filter(|&&kind| kind == EncodedText::Mime);
        for kind in mime.chain(&self.decodes) {
            if let Some(decoded) = kind.decode(&text) {
                steps.push(format!("decode {}", kind.as_str()));
                confidence = confidence.max(Confidence::Likely);
                text = decoded.into();
            }
        }
        if let Some(map) = &self.map
            && let Some(mapped) = map.apply(&text)
        {
            steps.push(format!("map {map}"));
            confidence = confidence.max(map.confidence(&text));
            text = mapped.into();
        }
        if self.transliterates
            && let Some(ascii) = transliterate(&text, self.replacement)
        {
            steps.push("transliterate".to_owned());
            confidence = confidence.max(Confidence::Likely);
            text = ascii.into();
        }
        (text != name && is_possible(&text)).then(|| ConvertedName {
            text: text.into_owned(),
            confidence,
            reading: steps.join(", "),
        })
    }
}

/// Whether a name can become `text`. One that would vanish stays.
fn is_possible(text: &str) -> bool {
    text.chars().any(|c| !is_invisible(c)) && !text.contains(['/', '\0']) && !matches!(text, "." | "..")
}

/// The name in ASCII; `None` if it is in ASCII already.
fn transliterate(name: &str, replacement: char) -> Option<String> {
    if name.is_ascii() {
        return None;
    }
    let mut ascii = String::with_capacity(name.len());
    let mut is_word_over = false;
    for c in name.chars() {
        let mut buffer = [0; 4];
        let text = deunicode::deunicode_char(c).unwrap_or_else(|| replacement.encode_utf8(&mut buffer));
        if is_word_over && text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            ascii.push(' ');
        }
        // Ideographs and emoji are words, which a space separates from the next word only.
        let word = text.strip_suffix(' ').filter(|word| !word.is_empty());
        is_word_over = word.is_some();
        // `½` is transliterated as `1/2`, which no name can be.
        let allowed = |c| if matches!(c, '/' | '\0') { replacement } else { c };
        ascii.extend(word.unwrap_or(text).chars().map(allowed));
    }
    Some(ascii)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::char_table::CharTable;
    use super::*;

    fn ascii(name: &str) -> String {
        transliterate(name, '_').unwrap()
    }

    #[test]
    fn names_are_transliterated_as_readers_expect() {
        for (name, expected) in [
            ("Žluťoučký kůň.txt", "Zlutoucky kun.txt"),
            ("Žlut\u{30C}oucky\u{301}.txt", "Zlutoucky.txt"),
            ("Straße", "Strasse"),
            ("Привет мир", "Privet mir"),
            ("北京.pdf", "Bei Jing.pdf"),
            ("北京x 2", "Bei Jing x 2"),
            ("中 国", "Zhong Guo"),
            ("½ Liter", "1_2 Liter"),
            ("a“b”", "a\"b\""),
        ] {
            assert_eq!(ascii(name), expected);
        }
        assert_eq!(transliterate("plain ASCII ", '_'), None);
        assert_eq!(transliterate("x\u{E000}y", '-').as_deref(), Some("x-y"), "there is no ASCII for it");
    }

    #[test]
    fn parameters_of_mail_are_decoded_also_beside_percent_encoding() {
        for decodes in [[EncodedText::Percent, EncodedText::Mime], [EncodedText::Mime, EncodedText::Percent]]
        {
            let conversion = NameConversion { decodes: decodes.into(), ..NameConversion::default() };
            let decoded = |name: &str| conversion.apply(name).map(|converted| converted.text);
            assert_eq!(decoded("utf-8''%C3%A9.txt").as_deref(), Some("é.txt"));
            assert_eq!(decoded("%C3%A9.txt").as_deref(), Some("é.txt"));
        }
    }

    #[test]
    fn a_table_comes_before_the_transliteration() {
        let table = CharTable::parse("de", "ä -> ae".as_bytes()).unwrap();
        let conversion = NameConversion {
            map: Some(CharMap::Table(table.into())),
            transliterates: true,
            ..NameConversion::default()
        };
        let converted = conversion.apply("Bär é").unwrap();
        assert_eq!((&*converted.text, &*converted.reading), ("Baer e", "map de, transliterate"));
        assert_eq!(conversion.apply("Bär").unwrap().reading, "map de");
        assert_eq!(conversion.apply("Bar"), None);
    }

    #[test]
    fn a_name_never_becomes_empty_or_a_directory_itself() {
        let table = CharTable::parse("t", b"x ->\n").unwrap();
        let conversion =
            NameConversion { map: Some(CharMap::Table(table.into())), ..NameConversion::default() };
        for name in ["x", "xxx", ".x", "x.x.x"] {
            assert_eq!(conversion.apply(name), None, "{name}");
        }
        assert_eq!(conversion.apply("axb").unwrap().text, "ab");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_name_gets_a_name_in_ascii_that_stays(name in "[^/\u{0}]{1,20}") {
            let conversion = NameConversion { transliterates: true, ..NameConversion::default() };
            if let Some(converted) = conversion.apply(&name) {
                let text = &*converted.text;
                prop_assert!(text.is_ascii() && !text.contains(['/', '\0']), "{:?}: {:?}", name, text);
                prop_assert!(!matches!(text, "" | "." | ".."), "{:?}", name);
                prop_assert_eq!(conversion.apply(text), None);
            }
        }
    }
}
