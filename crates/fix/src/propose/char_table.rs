//! Tables of characters that users write: one character and its replacement on each line.
//!
//! ```text
//! # for Windows
//! : -> U+A789
//! ? ->
//! ä -> ae
//! & -> U+0020 and U+0020
//! ```

use std::collections::BTreeMap;
use std::fmt;

use namegate_core::name::display::display;
use namegate_core::name::scalar::is_invisible;

/// The largest file that is read, in bytes.
pub const MAX_BYTES: u64 = 1 << 20;

/// A table of characters and their replacements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CharTable {
    name: String,
    replacements: BTreeMap<char, String>,
}

/// An error in a line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CharTableError {
    /// The line, from 1.
    pub line: usize,
    /// A sentence, escaped for display.
    pub message: String,
}

impl fmt::Display for CharTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for CharTableError {}

impl fmt::Display for CharTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl CharTable {
    /// Parses the text of the file `name`.
    ///
    /// # Errors
    /// The first line that is not `CHARACTER -> REPLACEMENT`, or that has a replacement that no name can have.
    ///
    /// ```
    /// use namegate_fix::propose::char_table::CharTable;
    /// let table = CharTable::parse("map.txt", b"# comment\n: -> U+A789\n? ->\n").unwrap();
    /// assert_eq!(table.apply("a:b?").as_deref(), Some("a\u{A789}b"));
    /// assert_eq!(table.apply("plain"), None);
    /// ```
    pub fn parse(name: &str, text: &[u8]) -> Result<Self, CharTableError> {
        let mut found = BTreeMap::new();
        for (number, line) in (1..).zip(text.split(|&b| b == b'\n')) {
            let parsed = std::str::from_utf8(line)
                .map_err(|_| format!("{} is not UTF-8", display(line)))
                .and_then(parse_line);
            let failed = |message| CharTableError { line: number, message };
            let Some((c, replacement)) = parsed.map_err(failed)? else { continue };
            if found.insert(c, (number, replacement)).is_some() {
                return Err(failed(format!("a line above has the character {} too", shown(c))));
            }
        }
        // A second plan must find nothing to do.
        for (c, (line, replacement)) in &found {
            if let Some(other) = replacement.chars().find(|other| found.contains_key(other)) {
                let message = format!(
                    "the replacement of {} has {}, which the table replaces too",
                    shown(*c),
                    shown(other)
                );
                return Err(CharTableError { line: *line, message });
            }
        }
        let replacements = found.into_iter().map(|(c, (_, replacement))| (c, replacement)).collect();
        Ok(Self { name: name.to_owned(), replacements })
    }

    /// The name with its characters replaced, each with the invisible characters that belong to it; `None` if no character is in the
    /// table.
    pub fn apply(&self, name: &str) -> Option<String> {
        let mut mapped = String::with_capacity(name.len());
        let mut is_changed = false;
        // Whether what belongs to the character before is left out.
        let mut is_replaced = false;
        for c in name.chars() {
            let belongs = is_invisible(c) && !c.is_control() || is_emoji_modifier(c);
            match self.replacements.get(&c) {
                Some(replacement) => {
                    (is_changed, is_replaced) = (true, true);
                    // Nothing is left to be joined.
                    mapped.truncate(mapped.trim_end_matches(JOINER).len());
                    mapped.push_str(replacement);
                }
                None if is_replaced && belongs => {}
                None => {
                    is_replaced = false;
                    mapped.push(c);
                }
            }
        }
        is_changed.then_some(mapped)
    }

    /// Reports whether names get private use characters.
    pub fn makes_private_use(&self) -> bool {
        let is_private = |c: char| matches!(c, '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..);
        self.replacements.values().any(|replacement| replacement.contains(is_private))
    }
}

/// ZERO WIDTH JOINER.
const JOINER: char = '\u{200D}';

/// Whether `c` is a skin tone of the emoji before it.
fn is_emoji_modifier(c: char) -> bool {
    matches!(c, '\u{1F3FB}'..='\u{1F3FF}')
}

/// The character and the replacement of a line; `None` for an empty line and a comment.
fn parse_line(line: &str) -> Result<Option<(char, String)>, String> {
    if line.trim().is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (from, arrow) = (words.next().unwrap_or_default(), words.next());
    if !matches!(arrow, Some("->" | "→")) {
        return Err("must be `CHARACTER -> REPLACEMENT`; a `#` is U+0023, a space is U+0020".to_owned());
    }
    let from_text = parse_word(from)?;
    let mut chars = from_text.chars();
    let (Some(c), None) = (chars.next(), chars.next()) else {
        return Err(format!("`{}` is more than one character", display(from.as_bytes())));
    };
    let replacement = words.map(parse_word).collect::<Result<String, String>>()?;
    if let Some(wrong) = [c].into_iter().chain(replacement.chars()).find(|c| matches!(c, '/' | '\0')) {
        return Err(format!("no name can have {}", shown(wrong)));
    }
    Ok(Some((c, replacement)))
}

/// The text of a word: a code point as `U+HHHH`, or the word itself.
fn parse_word(word: &str) -> Result<String, String> {
    let Some(digits) = word.strip_prefix("U+").filter(|digits| !digits.is_empty()) else {
        return Ok(word.to_owned());
    };
    code_point(digits)
        .map(String::from)
        .ok_or_else(|| format!("`{}` is no code point", display(word.as_bytes())))
}

/// The character of a code point in hexadecimal digits, at most six.
pub fn code_point(digits: &str) -> Option<char> {
    let is_hex = digits.len() <= 6 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_hex).and_then(char::from_u32)
}

fn shown(c: char) -> String {
    format!("`{}` (U+{:04X})", display(c.to_string().as_bytes()), u32::from(c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<CharTable, String> {
        CharTable::parse("t", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_replaces_each_character_once() {
        let table = parse(
            "# a comment\r\n\r\n: -> ꞉\r\n\" → '\n U+0020   ->  _ \n? ->\nä -> a U+0065\nU+0023 -> U+\n",
        )
        .unwrap();
        assert_eq!(table.apply("a: \"ä\"?#").as_deref(), Some("a꞉_'ae'U+"));
        assert_eq!(table.apply(""), None);
        assert!(!table.makes_private_use());
        assert!(parse(": -> U+F022").unwrap().makes_private_use());
        assert_eq!(parse("").unwrap().apply("a:b"), None);
    }

    #[test]
    fn a_character_is_replaced_with_the_invisible_ones_that_belong_to_it() {
        let table = parse("\u{1F468} ->\n\u{1F3F4} -> flag").unwrap();
        for (name, expected) in [
            ("\u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F468}.txt", "\u{1F469}.txt"),
            ("\u{1F468}\u{200D}\u{1F468}", ""),
            ("a\u{1F468}\u{1F3FD}\u{FE0F}b", "ab"),
            ("\u{1F3F4}\u{E0067}\u{E0062}\u{E007F}", "flag"),
        ] {
            assert_eq!(table.apply(name).as_deref(), Some(expected), "{name:?}");
        }
    }

    #[test]
    fn errors_name_their_line() {
        for (text, expected) in [
            (": -> a\nab -> c", "line 2: `ab` is more than one character"),
            ("\n\n:", "line 3: must be `CHARACTER -> REPLACEMENT`"),
            (": _", "line 1: must be"),
            (": -> a/b", "line 1: no name can have `/`"),
            ("U+0000 -> _", "line 1: no name can have"),
            ("/ -> _", "line 1: no name can have `/`"),
            ("U+D800 -> _", "line 1: `U+D800` is no code point"),
            ("U+110000 -> _", "line 1: `U+110000` is no code point"),
            ("U++41 -> _", "line 1: `U++41` is no code point"),
            ("x -> \u{1B}[2JU+xyz U+xyz", "line 1: `U+xyz` is no code point"),
            (": -> a\n: -> b", "line 2: a line above has the character `:` (U+003A) too"),
            ("U+001B -> x\nU+001B -> y", "line 2: a line above has the character `\\u{1B}` (U+001B) too"),
            (
                "? -> ??",
                "line 1: the replacement of `?` (U+003F) has `?` (U+003F), which the table replaces too",
            ),
            ("a -> x\nb -> xa", "line 2: the replacement of `b` (U+0062) has `a` (U+0061)"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.starts_with(expected), "{text:?}: {message}");
        }
        let error = CharTable::parse("t", b"a -> b\n\xE9 -> x").unwrap_err();
        assert_eq!(error.to_string(), "line 2: \\xE9 -> x is not UTF-8");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// No table gives a name a slash or a NUL, and no text of a table acts on a terminal.
        #[test]
        fn any_text_is_a_table_or_an_error(text in "([ -~\u{0}-\u{1F}é\u{202E}]{0,3} ?(->|→)? ?(U\\+[0-9A-F]{0,6}|.{0,3})\n?){0,6}", name in "[^/\u{0}]{0,12}") {
            match parse(&text) {
                Ok(table) => prop_assert!(!table.apply(&name).unwrap_or_default().contains(['/', '\0'])),
                Err(message) => prop_assert!(!message.contains(char::is_control), "{:?}", message),
            }
        }
    }
}
