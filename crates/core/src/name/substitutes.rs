//! Substitutes for the characters that Windows does not allow in names, as SMB clients, SMB servers and rclone write them.
//!
//! | mapping | substitutes |
//! |---|---|
//! | `sfm` | U+F001..F01F for controls, U+F020..F027 for `" * : < > ? \ \|`, U+F028 and U+F029 for a space and a dot at the end |
//! | `sfu` | U+F000 and the character: F022 F02A F03A F03C F03E F03F F05C F07C, F001..F01F, and at the end F020 and F02E |
//! | `catia` | `¨ ¤ ÷ « » ¿ ÿ ¦` for `" * : < > ? \ \|`; `ø`, which stood for `/`, is a letter and stays one |
//! | `rclone` | the fullwidth forms U+FF02 FF0A FF1A FF1C FF1E FF1F FF3C FF5C; U+2401..241F for controls; at the end U+2420 for a space and U+FF0E for a dot |
//!
//! [`KnownMap::apply`] encodes control characters and never decodes them: no name should get them back. rclone puts U+201B in front of a
//! character that was there before it encoded the name; such a character is not decoded. `apply` does not add U+201B: a name that was
//! encoded once would change again. A gate that encodes does both.
//!
//! Sources: Linux fs/smb/client/cifs_unicode.h (the SFM map, and the SFU map of `mapchars`); vfs_catia(8) of Samba; rclone
//! lib/encoder/os_windows.go and lib/encoder/encoder.go, commit 1b9217bc7831.

use std::fmt;
use std::str::FromStr;

use super::scalar::meant_by_smb;

/// A well-known mapping and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownMap {
    scheme: MapScheme,
    /// Encode: names get the substitutes. Otherwise decode them.
    is_encoding: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MapScheme {
    Sfm,
    Sfu,
    Catia,
    Rclone,
}

/// The characters that Windows reserves, in the order of the SFM map.
const RESERVED: [char; 8] = ['"', '*', ':', '<', '>', '?', '\\', '|'];
/// Their substitutes in catia.
const CATIA: [char; 8] = ['¨', '¤', '÷', '«', '»', '¿', 'ÿ', '¦'];

/// The distance of the fullwidth forms from ASCII.
const FULLWIDTH: u32 = 0xFEE0;
/// The distance of the symbols for controls from the controls.
const CONTROL_PICTURE: u32 = 0x2400;
/// What rclone puts in front of a character that is no substitute.
pub const QUOTE: char = '\u{201B}';

impl KnownMap {
    /// `to-sfm`.
    pub const TO_SFM: Self = Self::encoding(MapScheme::Sfm);
    /// `to-sfu`.
    pub const TO_SFU: Self = Self::encoding(MapScheme::Sfu);
    /// `to-catia`.
    pub const TO_CATIA: Self = Self::encoding(MapScheme::Catia);
    /// `to-rclone`.
    pub const TO_RCLONE: Self = Self::encoding(MapScheme::Rclone);

    const fn encoding(scheme: MapScheme) -> Self {
        Self { scheme, is_encoding: true }
    }

    /// The words for all mappings.
    pub const WORDS: [&str; 8] =
        ["sfm", "sfu", "catia", "rclone", "to-sfm", "to-sfu", "to-catia", "to-rclone"];

    /// The mapped name; `None` if no character is mapped.
    ///
    /// ```
    /// use namegate_core::name::substitutes::KnownMap;
    /// let sfm: KnownMap = "sfm".parse().unwrap();
    /// assert_eq!(sfm.apply("a\u{F022}b\u{F029}").as_deref(), Some("a:b."));
    /// let to_sfm: KnownMap = "to-sfm".parse().unwrap();
    /// assert_eq!(to_sfm.apply("a:b.").as_deref(), Some("a\u{F022}b\u{F029}"));
    /// assert_eq!(to_sfm.apply("plain.txt"), None);
    /// ```
    pub fn apply(self, name: &str) -> Option<String> {
        let mut mapped = String::new();
        let mut is_changed = false;
        let mut before = None;
        let mut chars = name.chars().peekable();
        while let Some(c) = chars.next() {
            let is_last = chars.peek().is_none();
            let new = match self.is_encoding {
                true => self.encode(c, is_last),
                false => self.decode(c, is_last).filter(|_| !self.is_quoted_by(before)),
            };
            is_changed |= new.is_some();
            mapped.push(new.unwrap_or(c));
            before = Some(c);
        }
        is_changed.then_some(mapped)
    }

    /// Whether names get the substitutes.
    pub fn is_encoding(self) -> bool {
        self.is_encoding
    }

    /// Whether the substitutes are private use characters.
    pub fn is_private_use(self) -> bool {
        matches!(self.scheme, MapScheme::Sfm | MapScheme::Sfu)
    }

    fn is_quoted_by(self, before: Option<char>) -> bool {
        self.scheme == MapScheme::Rclone && before == Some(QUOTE)
    }

    /// The substitute of `c`, if this mapping encodes and has one; some characters have one only at the end of a name.
    pub fn substitute(self, c: char, is_last: bool) -> Option<char> {
        self.is_encoding.then(|| self.encode(c, is_last)).flatten()
    }

    /// The character of which `c` is the substitute, for the mapping in either direction; controls are not left out.
    pub fn substituted(self, c: char, is_last: bool) -> Option<char> {
        // In every table the substitute of a control ends with the bits of the control.
        let control = char::from_u32(u32::from(c) & 0x1F);
        let mut meant = [self.decode(c, is_last), control].into_iter().flatten();
        meant.find(|&meant| self.encode(meant, is_last) == Some(c))
    }

    /// The mapping in the other direction.
    pub fn inverse(self) -> Self {
        Self { is_encoding: !self.is_encoding, ..self }
    }

    fn encode(self, c: char, is_last: bool) -> Option<char> {
        let at = RESERVED.iter().position(|&reserved| reserved == c);
        let moved = |distance: u32| char::from_u32(distance + u32::from(c));
        let private = |offset: u32| char::from_u32(0xF000 + offset);
        let is_control = matches!(c, '\u{1}'..='\u{1F}');
        match self.scheme {
            MapScheme::Catia => at.map(|at| CATIA[at]),
            MapScheme::Rclone if is_control || c == ' ' && is_last => moved(CONTROL_PICTURE),
            MapScheme::Rclone if at.is_some() || c == '.' && is_last => moved(FULLWIDTH),
            MapScheme::Rclone => None,
            _ if is_control => private(c.into()),
            MapScheme::Sfm if c == ' ' && is_last => Some('\u{F028}'),
            MapScheme::Sfm if c == '.' && is_last => Some('\u{F029}'),
            MapScheme::Sfm => at.and_then(|at| private(0x20 + u32::try_from(at).ok()?)),
            MapScheme::Sfu if at.is_some() || is_last && matches!(c, ' ' | '.') => private(c.into()),
            MapScheme::Sfu => None,
        }
    }

    /// The character that `c` substitutes.
    fn decode(self, c: char, is_last: bool) -> Option<char> {
        let moved = |distance: u32| char::from_u32(u32::from(c).checked_sub(distance)?);
        match self.scheme {
            MapScheme::Catia => CATIA.iter().position(|&written| written == c).map(|at| RESERVED[at]),
            MapScheme::Rclone => match moved(FULLWIDTH) {
                Some(meant) if RESERVED.contains(&meant) || meant == '.' && is_last => Some(meant),
                _ => moved(CONTROL_PICTURE).filter(|&meant| meant == ' ' && is_last),
            },
            MapScheme::Sfm => meant_by_smb(c).filter(|meant| !meant.is_control()),
            MapScheme::Sfu => {
                let meant = moved(0xF000)?;
                (RESERVED.contains(&meant) || matches!(meant, ' ' | '.')).then_some(meant)
            }
        }
    }
}

/// What the private use character `c` stands for, by the mappings that write it; controls are left out. U+F020 and U+F022 have two
/// meanings.
///
/// ```
/// use namegate_core::name::substitutes::meanings_of_private;
/// let meanings = |c| meanings_of_private(c).map(|(map, c)| format!("{map} {c}")).collect::<Vec<_>>().join(", ");
/// assert_eq!(meanings('\u{F022}'), "sfm :, sfu \"");
/// assert_eq!(meanings('\u{F03A}'), "sfu :");
/// assert_eq!(meanings('x'), "");
/// ```
pub fn meanings_of_private(c: char) -> impl DoubleEndedIterator<Item = (KnownMap, char)> {
    let maps = [MapScheme::Sfm, MapScheme::Sfu].map(|scheme| KnownMap { scheme, is_encoding: false });
    maps.into_iter().filter_map(move |map| Some((map, map.decode(c, true)?)))
}

impl fmt::Display for KnownMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            MapScheme::Sfm => "sfm",
            MapScheme::Sfu => "sfu",
            MapScheme::Catia => "catia",
            MapScheme::Rclone => "rclone",
        };
        write!(f, "{}{scheme}", if self.is_encoding { "to-" } else { "" })
    }
}

impl FromStr for KnownMap {
    type Err = &'static str;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let (is_encoding, scheme) = match word.strip_prefix("to-") {
            Some(scheme) => (true, scheme),
            None => (false, word),
        };
        let scheme = match scheme {
            "sfm" => MapScheme::Sfm,
            "sfu" => MapScheme::Sfu,
            "catia" => MapScheme::Catia,
            "rclone" => MapScheme::Rclone,
            _ => return Err("unknown character mapping"),
        };
        Ok(Self { scheme, is_encoding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(word: &str) -> KnownMap {
        word.parse().unwrap()
    }

    #[test]
    fn encoded_names_decode_to_the_original() {
        for word in ["sfm", "sfu", "catia", "rclone"] {
            let (from, to) = (map(word), map(&format!("to-{word}")));
            for name in ["a:b", "\"*:<>?\\|", "é*é"] {
                let written = to.apply(name).unwrap();
                assert!(!written.contains(RESERVED), "{word}: {written}");
                assert_eq!(from.apply(&written).as_deref(), Some(name), "{word}");
                assert_eq!(to.apply(&written), None, "a second time nothing is left");
                assert_eq!(from.apply(name), None, "{word}");
            }
        }
        for word in ["sfm", "sfu", "rclone"] {
            for (name, end) in [("a b. ", ' '), (" a..", '.')] {
                let written = map(&format!("to-{word}")).apply(name).unwrap();
                assert!(!written.ends_with(end) && written.starts_with(&name[..2]), "{word}: {written}");
                assert_eq!(map(word).apply(&written).as_deref(), Some(name));
            }
        }
    }

    #[test]
    fn no_mapping_writes_or_decodes_the_escape_character() {
        let escape = crate::name::escape::ESCAPE_CHARACTER;
        assert_ne!(escape, QUOTE);
        for word in KnownMap::WORDS {
            for name in [escape.to_string(), format!("a{escape}E9"), format!("{escape}~")] {
                assert_eq!(map(word).apply(&name), None, "{word}");
            }
            let all: String = ('\u{1}'..=char::MAX).collect();
            let written = |name: &str| map(word).apply(name).unwrap().matches(escape).count();
            assert_eq!(written(&all), 1, "{word}");
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
        assert_eq!(map("to-rclone").apply("\"*:<>?\\|\u{1}\u{1F} .").unwrap(), "＂＊：＜＞？＼｜␁␟ ．");
        assert_eq!(map("to-rclone").apply("a. ").unwrap(), "a.␠");
        assert_eq!(map("sfm").apply("\u{F001}\u{F01F}\u{F02A}"), None, "controls stay where they are");
        assert_eq!(map("catia").apply("smørrebrød"), None);
        // Fullwidth letters, a slash, controls, and substitutes that are not at the end.
        assert_eq!(map("rclone").apply("Ａ／␁．x␠y"), None);
        assert_eq!(
            map("rclone").apply("‛：：").as_deref(),
            Some("‛：:"),
            "rclone quotes what was there before"
        );
        for word in KnownMap::WORDS {
            assert_eq!(map(word).to_string(), word);
        }
        assert!("smb".parse::<KnownMap>().is_err());
    }
}
