//! Mappings of the characters that Windows does not take in names, by which SMB clients and servers wrote them as others.
//!
//! | mapping | what stood for what |
//! |---|---|
//! | `sfm` | U+F001..F01F for controls, U+F020..F027 for `" * : < > ? \ \|`, U+F028 and U+F029 for a space and a dot at the end |
//! | `sfu` | U+F000 and the character: F022 F02A F03A F03C F03E F03F F05C F07C, F001..F01F, and at the end F020 and F02E |
//! | `catia` | `¨ ¤ ÷ « » ¿ ÿ ¦` for `" * : < > ? \ \|`; `ø`, which stood for `/`, is a letter and stays one |
//!
//! Controls are written in a mapping and never read from one: no name should get them back. Sources: Linux
//! fs/smb/client/cifs_unicode.h (the SFM map, and the SFU map of `mapchars`); vfs_catia(8) of Samba.

use std::fmt;
use std::str::FromStr;

use crate::name::scalar::meant_by_smb;
use crate::policy::Confidence;

/// Which mapping, and in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    table: Table,
    /// Whether names get the mapping's characters, instead of what these stood for.
    is_into: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Table {
    Sfm,
    Sfu,
    Catia,
}

/// What Windows reserves, in the order of the SFM map.
const RESERVED: [char; 8] = ['"', '*', ':', '<', '>', '?', '\\', '|'];
/// What catia writes for each of them.
const CATIA: [char; 8] = ['¨', '¤', '÷', '«', '»', '¿', 'ÿ', '¦'];

impl Map {
    /// The words for all of them.
    pub const WORDS: [&str; 6] = ["sfm", "sfu", "catia", "to-sfm", "to-sfu", "to-catia"];

    /// Whether names get characters of private use.
    pub fn makes_private_use(self) -> bool {
        self.is_into && self.table != Table::Catia
    }

    /// How sure it is that a mapped name is what was meant: nothing but a mapping writes these code points of private use,
    /// but people write what catia uses.
    pub fn confidence(self) -> Confidence {
        match self.table {
            Table::Catia => Confidence::Likely,
            Table::Sfm | Table::Sfu => Confidence::Certain,
        }
    }

    /// `name` mapped; `None` if nothing in it is.
    ///
    /// ```
    /// use namegate::fix::propose::map::Map;
    /// let sfm: Map = "sfm".parse().unwrap();
    /// assert_eq!(sfm.apply("a\u{F022}b\u{F029}").as_deref(), Some("a:b."));
    /// let to_sfm: Map = "to-sfm".parse().unwrap();
    /// assert_eq!(to_sfm.apply("a:b.").as_deref(), Some("a\u{F022}b\u{F029}"));
    /// assert_eq!(to_sfm.apply("plain.txt"), None);
    /// ```
    pub fn apply(self, name: &str) -> Option<String> {
        let mut mapped = String::new();
        let mut is_changed = false;
        let mut chars = name.chars().peekable();
        while let Some(c) = chars.next() {
            let is_last = chars.peek().is_none();
            let new = if self.is_into { self.written(c, is_last) } else { self.meant(c) };
            is_changed |= new.is_some();
            mapped.push(new.unwrap_or(c));
        }
        is_changed.then_some(mapped)
    }

    /// What stands for `c`.
    fn written(self, c: char, is_last: bool) -> Option<char> {
        let at = RESERVED.iter().position(|&reserved| reserved == c);
        let private = |offset: u32| char::from_u32(0xF000 + offset);
        match self.table {
            Table::Catia => at.map(|at| CATIA[at]),
            _ if matches!(c, '\u{1}'..='\u{1F}') => private(c.into()),
            Table::Sfm if c == ' ' && is_last => Some('\u{F028}'),
            Table::Sfm if c == '.' && is_last => Some('\u{F029}'),
            Table::Sfm => at.and_then(|at| private(0x20 + u32::try_from(at).ok()?)),
            Table::Sfu if at.is_some() || is_last && matches!(c, ' ' | '.') => private(c.into()),
            Table::Sfu => None,
        }
    }

    /// What `c` stands for.
    fn meant(self, c: char) -> Option<char> {
        match self.table {
            Table::Catia => CATIA.iter().position(|&written| written == c).map(|at| RESERVED[at]),
            Table::Sfm => meant_by_smb(c).filter(|meant| !meant.is_control()),
            Table::Sfu => {
                let meant = char::from_u32(u32::from(c).checked_sub(0xF000)?)?;
                (RESERVED.contains(&meant) || matches!(meant, ' ' | '.')).then_some(meant)
            }
        }
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = match self.table {
            Table::Sfm => "sfm",
            Table::Sfu => "sfu",
            Table::Catia => "catia",
        };
        write!(f, "{}{table}", if self.is_into { "to-" } else { "" })
    }
}

impl FromStr for Map {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let (is_into, table) = match word.strip_prefix("to-") {
            Some(table) => (true, table),
            None => (false, word),
        };
        let table = match table {
            "sfm" => Table::Sfm,
            "sfu" => Table::Sfu,
            "catia" => Table::Catia,
            _ => return Err("no mapping of characters"),
        };
        Ok(Self { table, is_into })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(word: &str) -> Map {
        word.parse().unwrap()
    }

    #[test]
    fn what_is_written_in_a_mapping_reads_back() {
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
        for word in Map::WORDS {
            assert_eq!(map(word).to_string(), word);
        }
        assert!("smb".parse::<Map>().is_err());
    }
}
