//! Reads TOML key by key and reports every error with its position.
//!
//! The reader knows no keys. Its caller requests the keys that a table may contain; any other key is reported as unknown,
//! with the nearest requested key. Missing tables are read as empty tables, so that all keys are requested in the end and a
//! key in the wrong table is reported with the right table.
//!
//! The other configuration files of namegate use this module. It is not part of the public API.
//!
//! Source: TOML 1.1. The parser bounds nesting.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, ConfigErrors, LineIndex, TextPosition};
use crate::name::display::display;
use crate::policy::UnknownWord;

/// Reads `text` with `body`, which requests the keys of the top table.
pub fn read<T>(text: &str, body: impl FnOnce(&mut TableReader<'_>) -> T) -> Result<T, ConfigErrors> {
    let (top, broken) = DeTable::parse_recoverable(text);
    let sink = Sink::new(text);
    for error in &broken {
        sink.add(error.span(), || error.message().to_owned());
    }
    sink.note_broken_lines();
    let mut table = TableReader {
        sink: &sink,
        path: String::new(),
        what: "key",
        entries: Some(top.get_ref()),
        asked: Vec::new(),
    };
    let value = body(&mut table);
    table.finish();
    sink.into_result(value)
}

/// Whether the top table of `text`, as far as it is TOML, has one of these keys.
pub fn has_key_of(text: &str, keys: &[&str]) -> bool {
    let (top, _) = DeTable::parse_recoverable(text);
    keys.iter().any(|key| top.get_ref().contains_key(*key))
}

/// A value and the bytes of the text where it stands.
pub type Spanned<T> = (T, Range<usize>);

/// A table that is being read.
pub struct TableReader<'s> {
    sink: &'s Sink<'s>,
    /// The keys that lead here, joined by dots.
    path: String,
    /// What the keys are, as in `unknown rule`.
    what: &'static str,
    entries: Option<&'s DeTable<'s>>,
    asked: Vec<&'static str>,
}

impl<'s> TableReader<'s> {
    fn get(&mut self, key: &'static str) -> Option<Spanned<&'s DeValue<'s>>> {
        self.asked.push(key);
        let value = self.entries?.get(key)?;
        Some((value.get_ref(), value.span()))
    }

    /// Reports an error.
    pub fn error(&self, at: Range<usize>, message: impl FnOnce() -> String) {
        self.sink.add(Some(at), message);
    }

    /// The position of some bytes, for errors that are found later.
    pub fn position(&self, at: Range<usize>) -> TextPosition {
        self.sink.positions.position(at)
    }

    fn wrong_type(&self, key: &str, at: Range<usize>, expected: &str, found: &DeValue<'_>) {
        self.error(at, || format!("`{key}` must be {expected}, not {}", article(found)));
    }

    /// A string.
    pub fn string(&mut self, key: &'static str) -> Option<Spanned<&'s str>> {
        let (value, at) = self.get(key)?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong_type(key, at.clone(), "a string", value);
        }
        Some((text?, at))
    }

    /// An array of strings. Other elements are reported and left out.
    pub fn strings(&mut self, key: &'static str) -> Option<Vec<Spanned<&'s str>>> {
        const EXPECTED: &str = "an array of strings";
        let (value, at) = self.get(key)?;
        let Some(array) = value.as_array() else {
            self.wrong_type(key, at, EXPECTED, value);
            return None;
        };
        let mut strings = Vec::new();
        for item in array.iter() {
            match item.get_ref().as_str() {
                Some(text) => strings.push((text, item.span())),
                None => self.error(item.span(), || {
                    format!("`{key}` must be {EXPECTED}, but this element is {}", article(item.get_ref()))
                }),
            }
        }
        Some(strings)
    }

    /// One word of a few; `what` is what they are, as in `unknown severity`.
    pub fn word<T: Copy>(
        &mut self,
        key: &'static str,
        what: &'static str,
        known: &[(&str, T)],
    ) -> Option<Spanned<T>> {
        let (value, at) = self.get(key)?;
        let list = || known.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
        let Some(text) = value.as_str() else {
            self.wrong_type(key, at, &format!("one of {}", list()), value);
            return None;
        };
        match known.iter().find(|(word, _)| *word == text) {
            Some(&(_, value)) => Some((value, at)),
            None => {
                let unknown = || UnknownWord::new(what, &shorten(text), known.iter().map(|(word, _)| *word));
                self.error(at, || format!("{} (one of {})", unknown(), list()));
                None
            }
        }
    }

    /// A whole number from 1 to the greatest `isize`, so that a few of them can be added up.
    pub fn positive(&mut self, key: &'static str) -> Option<usize> {
        self.whole(key, 1)
    }

    /// A whole number from `least` to the greatest `isize`.
    pub fn whole(&mut self, key: &'static str, least: isize) -> Option<usize> {
        let (value, at) = self.get(key)?;
        let Some(integer) = value.as_integer() else {
            let expected = if least > 0 { "a positive integer" } else { "a whole number" };
            self.wrong_type(key, at, expected, value);
            return None;
        };
        let number = isize::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|&n| n >= least);
        if number.is_none() {
            self.error(at, || format!("`{key}` must be from {least} to {}", isize::MAX));
        }
        number.map(isize::unsigned_abs)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &'static str) -> Option<bool> {
        let (value, at) = self.get(key)?;
        let boolean = value.as_bool();
        if boolean.is_none() {
            self.wrong_type(key, at, "`true` or `false`", value);
        }
        boolean
    }

    /// A number, with or without a fraction; `what` is what it counts.
    pub fn number(&mut self, key: &'static str, what: &str) -> Option<Spanned<f64>> {
        let (value, at) = self.get(key)?;
        let number = match value {
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
            }
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => None,
        };
        if number.is_none() {
            self.wrong_type(key, at.clone(), what, value);
        }
        Some((number?, at))
    }

    /// A table, which `body` reads; an empty one if it is missing. `what` is what its keys are.
    pub fn table<T>(
        &mut self,
        key: &'static str,
        what: &'static str,
        body: impl FnOnce(&mut TableReader<'s>) -> T,
    ) -> T {
        let entries = self.get(key).and_then(|(value, at)| {
            if value.as_table().is_none() {
                self.wrong_type(key, at, &format!("a table: `[{}]`", self.path_to(key)), value);
            }
            value.as_table()
        });
        let mut table =
            TableReader { sink: self.sink, path: self.path_to(key), what, entries, asked: Vec::new() };
        let value = body(&mut table);
        table.finish();
        value
    }

    fn path_to(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The position of a key that the table contains.
    pub fn key_at(&self, key: &str) -> Option<Range<usize>> {
        Some(self.entries?.get_key_value(key)?.0.span())
    }

    /// Reports a key that must not stand here, with the reason instead of the nearest known key.
    pub fn refuse(&mut self, key: &'static str, why: impl FnOnce() -> String) {
        if let Some(at) = self.key_at(key) {
            self.asked.push(key);
            self.error(at, why);
        }
    }

    fn finish(self) {
        let asked = &self.asked;
        for (key, _) in self.entries.into_iter().flatten() {
            if asked.iter().any(|known| *known == key.get_ref()) {
                continue;
            }
            let word = shorten(key.get_ref());
            let unknown = || Stray {
                // The nearest of all words is looked for only for those that will be shown.
                message: UnknownWord::new(self.what, &word, asked.iter().copied()).to_string(),
                bare: format!("unknown {} `{}`", self.what, display(word.as_bytes())),
                key: word.clone(),
            };
            self.sink.add_stray(key.span(), unknown);
        }
        let mut known = self.sink.known.borrow_mut();
        known.extend(asked.iter().map(|&key| (key, self.path.clone())));
    }
}

fn article(value: &DeValue<'_>) -> String {
    match value.type_str() {
        "datetime" => "a date or time".into(),
        word @ ("integer" | "array") => format!("an {word}"),
        word => format!("a {word}"),
    }
}

/// Cuts a word of the file to a length that a message can show.
pub fn shorten(word: &str) -> String {
    /// No word that is known is nearly as long.
    const MOST: usize = 64;
    match word.char_indices().nth(MOST) {
        None => word.to_owned(),
        Some((end, _)) => format!("{}...", &word[..end]),
    }
}

/// A key that its table does not know.
struct Stray {
    key: String,
    message: String,
    /// The message without a suggestion.
    bare: String,
}

struct Found {
    at: Option<Range<usize>>,
    message: String,
    stray: Option<Stray>,
}

/// Collects the errors.
struct Sink<'s> {
    positions: LineIndex<'s>,
    found: RefCell<Vec<Found>>,
    left_out: Cell<usize>,
    /// Lines, from 0, that are not TOML: the parser guesses their content.
    broken: RefCell<Vec<usize>>,
    /// All requested keys, with the table that they belong to.
    known: RefCell<Vec<(&'static str, String)>>,
}

impl<'s> Sink<'s> {
    fn new(text: &'s str) -> Self {
        Self {
            positions: LineIndex::new(text),
            found: RefCell::default(),
            left_out: Cell::new(0),
            broken: RefCell::default(),
            known: RefCell::default(),
        }
    }

    fn add(&self, at: Option<Range<usize>>, message: impl FnOnce() -> String) {
        self.push(at, || (message(), None));
    }

    fn add_stray(&self, at: Range<usize>, stray: impl FnOnce() -> Stray) {
        self.push(Some(at), || (String::new(), Some(stray())));
    }

    fn push(&self, at: Option<Range<usize>>, make: impl FnOnce() -> (String, Option<Stray>)) {
        let line = at.as_ref().map(|at| self.positions.line(at.start));
        if line.is_some_and(|line| self.broken.borrow().contains(&line)) {
            return;
        }
        let mut found = self.found.borrow_mut();
        if found.len() < ConfigErrors::MOST {
            let (message, stray) = make();
            found.push(Found { at, message, stray });
        } else {
            self.left_out.set(self.left_out.get() + 1);
        }
    }

    fn note_broken_lines(&self) {
        let found = self.found.borrow();
        let lines = found.iter().filter_map(|f| Some(self.positions.line(f.at.as_ref()?.start)));
        self.broken.borrow_mut().extend(lines);
    }

    fn into_result<T>(self, value: T) -> Result<T, ConfigErrors> {
        let mut found = self.found.into_inner();
        if found.is_empty() {
            return Ok(value);
        }
        found.sort_by_key(|found| found.at.as_ref().map(|at| at.start));
        let known = self.known.into_inner();
        let errors = found.into_iter().map(|Found { at, message, stray }| ConfigError {
            message: stray.map_or(message, |stray| stray.send_home(&known)),
            position: at.map(|at| self.positions.position(at)),
        });
        Err(ConfigErrors::new(errors.collect(), self.left_out.get()))
    }
}

impl Stray {
    fn send_home(self, known: &[(&'static str, String)]) -> String {
        match known.iter().find(|(key, _)| *key == self.key) {
            None => self.message,
            Some((_, table)) if table.is_empty() => {
                format!("{}: this key belongs at the top of the file, before the first table", self.bare)
            }
            Some((_, table)) => format!("{}: this key belongs to the table `[{table}]`", self.bare),
        }
    }
}

/// All keys that `body` requests, each with the tables that lead to it, joined by dots.
pub fn keys(body: impl FnOnce(&mut TableReader<'_>)) -> Vec<String> {
    let sink = Sink::new("");
    let mut table =
        TableReader { sink: &sink, path: String::new(), what: "key", entries: None, asked: Vec::new() };
    body(&mut table);
    table.finish();
    let known = sink.known.into_inner();
    let path = |(key, table): &(&str, String)| match table.as_str() {
        "" => (*key).to_owned(),
        table => format!("{table}.{key}"),
    };
    known.iter().map(path).collect()
}
