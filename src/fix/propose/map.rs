//! Mappings that SMB clients and servers use for the characters that Windows does not allow in names.
//!
//! | mapping | substitutes |
//! |---|---|
//! | `sfm` | U+F001..F01F for controls, U+F020..F027 for `" * : < > ? \ \|`, U+F028 and U+F029 for a space and a dot at the end |
//! | `sfu` | U+F000 and the character: F022 F02A F03A F03C F03E F03F F05C F07C, F001..F01F, and at the end F020 and F02E |
//! | `catia` | `¨ ¤ ÷ « » ¿ ÿ ¦` for `" * : < > ? \ \|`; `ø`, which stood for `/`, is a letter and stays one |
//!
//! Control characters are encoded and never decoded: no name should get them back. Sources: Linux
//! fs/smb/client/cifs_unicode.h (the SFM map, and the SFU map of `mapchars`); vfs_catia(8) of Samba.

use std::fmt;
use std::str::FromStr;

use crate::name::scalar::meant_by_smb;
use crate::policy::Confidence;

/// A mapping and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CharMap {
    table: MapTable,
    /// Encode: names get the substitutes. Otherwise decode them.
    is_encoding: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MapTable {
    Sfm,
    Sfu,
    Catia,
}

/// The characters that Windows reserves, in the order of the SFM map.
const RESERVED: [char; 8] = ['"', '*', ':', '<', '>', '?', '\\', '|'];
/// Their substitutes in catia.
const CATIA: [char; 8] = ['¨', '¤', '÷', '«', '»', '¿', 'ÿ', '¦'];

impl CharMap {
    /// The words for all mappings.
    pub const WORDS: [&str; 6] = ["sfm", "sfu", "catia", "to-sfm", "to-sfu", "to-catia"];

    /// Reports whether names get private use characters.
    pub fn makes_private_use(self) -> bool {
        self.is_encoding && self.table != MapTable::Catia
    }

    /// How certain a decoded name is: only mappings use these private use characters, but people use the characters of catia.
    pub fn confidence(self) -> Confidence {
        match self.table {
            MapTable::Catia => Confidence::Likely,
            MapTable::Sfm | MapTable::Sfu => Confidence::Certain,
        }
    }

    /// The mapped name; `None` if no character is mapped.
    ///
    /// ```
    /// use namegate::fix::propose::map::CharMap;
    /// let sfm: CharMap = "sfm".parse().unwrap();
    /// assert_eq!(sfm.apply("a\u{F022}b\u{F029}").as_deref(), Some("a:b."));
    /// let to_sfm: CharMap = "to-sfm".parse().unwrap();
    /// assert_eq!(to_sfm.apply("a:b.").as_deref(), Some("a\u{F022}b\u{F029}"));
    /// assert_eq!(to_sfm.apply("plain.txt"), None);
    /// ```
    pub fn apply(self, name: &str) -> Option<String> {
        let mut mapped = String::new();
        let mut is_changed = false;
        let mut chars = name.chars().peekable();
        while let Some(c) = chars.next() {
            let is_last = chars.peek().is_none();
            let new = if self.is_encoding { self.encode(c, is_last) } else { self.decode(c) };
            is_changed |= new.is_some();
            mapped.push(new.unwrap_or(c));
        }
        is_changed.then_some(mapped)
    }

    /// The substitute of `c`.
    fn encode(self, c: char, is_last: bool) -> Option<char> {
        let at = RESERVED.iter().position(|&reserved| reserved == c);
        let private = |offset: u32| char::from_u32(0xF000 + offset);
        match self.table {
            MapTable::Catia => at.map(|at| CATIA[at]),
            _ if matches!(c, '\u{1}'..='\u{1F}') => private(c.into()),
            MapTable::Sfm if c == ' ' && is_last => Some('\u{F028}'),
            MapTable::Sfm if c == '.' && is_last => Some('\u{F029}'),
            MapTable::Sfm => at.and_then(|at| private(0x20 + u32::try_from(at).ok()?)),
            MapTable::Sfu if at.is_some() || is_last && matches!(c, ' ' | '.') => private(c.into()),
            MapTable::Sfu => None,
        }
    }

    /// The character that `c` substitutes.
    fn decode(self, c: char) -> Option<char> {
        match self.table {
            MapTable::Catia => CATIA.iter().position(|&written| written == c).map(|at| RESERVED[at]),
            MapTable::Sfm => meant_by_smb(c).filter(|meant| !meant.is_control()),
            MapTable::Sfu => {
                let meant = char::from_u32(u32::from(c).checked_sub(0xF000)?)?;
                (RESERVED.contains(&meant) || matches!(meant, ' ' | '.')).then_some(meant)
            }
        }
    }
}

impl fmt::Display for CharMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = match self.table {
            MapTable::Sfm => "sfm",
            MapTable::Sfu => "sfu",
            MapTable::Catia => "catia",
        };
        write!(f, "{}{table}", if self.is_encoding { "to-" } else { "" })
    }
}

impl FromStr for CharMap {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let (is_encoding, table) = match word.strip_prefix("to-") {
            Some(table) => (true, table),
            None => (false, word),
        };
        let table = match table {
            "sfm" => MapTable::Sfm,
            "sfu" => MapTable::Sfu,
            "catia" => MapTable::Catia,
            _ => return Err("unknown character mapping"),
        };
        Ok(Self { table, is_encoding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(word: &str) -> CharMap {
        word.parse().unwrap()
    }

    #[test]
    fn encoded_names_decode_to_the_original() {
        for word in ["sfm", "sfu", "catia"] {
            let (from, to) = (map(word), map(&format!("to-{word}")));
            for name in ["a:b", "\"*:<>?\\|", "é*é"] {
                let written = to.apply(name).unwrap();
                assert!(!written.contains(RESERVED), "{word}: {written}");
                assert_eq!(from.apply(&written).as_deref(), Some(name), "{word}");
                assert_eq!(to.apply(&written), None, "a second time nothing is left");
            }
        }
        for word in ["sfm", "sfu"] {
            for (name, end) in [("a b. ", ' '), (" a..", '.')] {
                let written = map(&format!("to-{word}")).apply(name).unwrap();
                assert!(!written.ends_with(end) && written.starts_with(&name[..2]), "{word}: {written}");
                assert_eq!(map(word).apply(&written).as_deref(), Some(name));
            }
        }
    }

    #[test]
    fn the_tables_are_those_of_the_sources() {
        assert_eq!(
            map("to-sfm").apply("\"*:<>?\\|\u{1}\u{1F}").unwrap(),
            "\u{F020}\u{F021}\u{F022}\u{F023}\u{F024}\u{F025}\u{F026}\u{F027}\u{F001}\u{F01F}"
        );
        assert_eq!(
            map("to-sfu").apply("\"*:<>?\\|.").unwrap(),
            "\u{F022}\u{F02A}\u{F03A}\u{F03C}\u{F03E}\u{F03F}\u{F05C}\u{F07C}\u{F02E}"
        );
        assert_eq!(map("to-catia").apply("\"*:<>?\\| .").unwrap(), "¨¤÷«»¿ÿ¦ .");
        assert_eq!(map("sfm").apply("\u{F001}\u{F01F}\u{F02A}"), None, "controls stay where they are");
        assert_eq!(map("catia").apply("smørrebrød"), None);
        for word in CharMap::WORDS {
            assert_eq!(map(word).to_string(), word);
        }
        assert!("smb".parse::<CharMap>().is_err());
    }
}
