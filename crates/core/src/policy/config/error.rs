//! Errors in a configuration file: their positions, and how they are shown.
//!
//! This module knows no keys. The text of a file is untrusted: excerpts are escaped and cut to one line of a terminal, and the
//! number of errors that are kept is limited.

use std::fmt;
use std::ops::Range;

use crate::name::display::{display, width};

/// A position in a text, with an excerpt of its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPosition {
    line: usize,
    column: usize,
    excerpt: String,
    /// The terminal columns of the marked part.
    mark: Range<usize>,
}

impl TextPosition {
    /// The number of the line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The number of the character within the line, from 1; a byte order mark does not count.
    pub fn column(&self) -> usize {
        self.column
    }
}

/// One error in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// What is wrong and what was expected, in one line.
    pub message: String,
    /// The position; `None` if the error is at no particular position.
    pub position: Option<TextPosition>,
}

impl fmt::Display for ConfigError {
    /// Shows the error as `LINE:COLUMN: message`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(TextPosition { line, column, .. }) = &self.position {
            write!(f, "{line}:{column}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}

/// All errors of a configuration, or the first [`ConfigErrors::MOST`] of more.
///
/// ```
/// use namegate_core::policy::config::Config;
/// let error = Config::parse("[rules]\ntrailing-spaces = \"error\"\n").unwrap_err();
/// assert_eq!(
///     error.in_file("site.toml").to_string(),
///     "site.toml:2:1: unknown rule `trailing-spaces`; did you mean `trailing-space`?\n\
///      2 | trailing-spaces = \"error\"\n  \
///        | ^^^^^^^^^^^^^^^"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
    left_out: usize,
}

impl ConfigErrors {
    /// How many errors are kept.
    pub const MOST: usize = 50;

    /// At least one error, and the number of errors beyond [`ConfigErrors::MOST`].
    #[doc(hidden)]
    pub fn new(errors: Vec<ConfigError>, left_out: usize) -> Self {
        Self { errors, left_out }
    }

    /// The errors, in the order of their positions.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// Shows each error as `FILE:LINE:COLUMN: message`, followed by its line of the file.
    ///
    /// `file` is shown as it is: escape it for display first.
    pub fn in_file<'e>(&'e self, file: &'e str) -> impl fmt::Display + 'e {
        InFile { error: self, file: Some(file) }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        InFile { error: self, file: None }.fmt(f)
    }
}

impl std::error::Error for ConfigErrors {}

struct InFile<'e> {
    error: &'e ConfigErrors,
    file: Option<&'e str>,
}

impl fmt::Display for InFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.error.errors.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            if let Some(file) = self.file {
                let gap = if error.position.is_some() { "" } else { " " };
                write!(f, "{file}:{gap}")?;
            }
            error.fmt(f)?;
            if let Some(TextPosition { line, excerpt, mark, .. }) = &error.position {
                let gutter = line.to_string();
                writeln!(f, "\n{gutter} | {excerpt}")?;
                let (before, marked) = (mark.start, "^".repeat(mark.len()));
                write!(f, "{:gutter$} | {:before$}{marked}", "", "", gutter = gutter.len())?;
            }
        }
        match self.error.left_out {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// Finds the positions of byte offsets in a text.
pub(crate) struct LineIndex<'t> {
    text: &'t str,
    /// Where each line begins.
    starts: Vec<usize>,
}

impl<'t> LineIndex<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let body = text.len() - text.trim_start_matches('\u{FEFF}').len();
        let starts =
            std::iter::once(body).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        Self { text, starts: starts.collect() }
    }

    /// The number of the line, from 0, that contains the byte at `offset`.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset).saturating_sub(1)
    }

    /// The position of a range of bytes. A range beyond the text is at its end; a range of several lines is marked on the
    /// first.
    pub(crate) fn position(&self, bytes: Range<usize>) -> TextPosition {
        let is_boundary = |at: &usize| self.text.is_char_boundary(*at);
        let len = self.text.len();
        let offset = (0..=bytes.start.min(len)).rev().find(is_boundary).unwrap_or(0);
        let line = self.line(offset);
        let start = self.starts[line];
        let offset = offset.max(start);
        let rest = &self.text[start..];
        let content = rest.split(['\n', '\r']).next().unwrap_or(rest);
        let line_end = (start + content.len()).max(offset);
        let end = (bytes.end.min(len)..len).find(is_boundary).unwrap_or(len).clamp(offset, line_end);
        let before = &self.text[start..offset];
        let (excerpt, mark) = excerpt(before, &self.text[offset..end], &self.text[end..line_end]);
        TextPosition { line: line + 1, column: before.chars().count() + 1, excerpt, mark }
    }
}

/// One line around `marked`, and the columns in which that is shown.
fn excerpt(before: &str, marked: &str, after: &str) -> (String, Range<usize>) {
    /// Characters of each part: together they fit on a line of 80 columns unless many are escaped.
    const MOST: usize = 24;
    const CUT: &str = "...";
    let mut text = String::new();
    let before = before.trim_start();
    let skipped = before.chars().count().saturating_sub(MOST);
    if skipped > 0 {
        text.push_str(CUT);
    }
    let mut columns = text.len();
    let mut push = |chars: &mut dyn Iterator<Item = char>| {
        for c in chars {
            let (shown, width) = shown(c);
            text.push_str(&shown);
            columns += width;
        }
        columns
    };
    let start = push(&mut before.chars().skip(skipped));
    let end = push(&mut marked.chars().take(2 * MOST));
    let after = if marked.chars().nth(2 * MOST).is_some() { CUT } else { after.trim_end() };
    push(&mut after.chars().take(MOST));
    if after.chars().nth(MOST).is_some() {
        text.push_str(CUT);
    }
    // An empty part, such as the end of a line where something is missing, still needs a mark.
    (text, start..end.max(start + 1))
}

/// A character as it is shown inside a line, and its columns. Unlike in names, a backslash stays one backslash: the reader
/// compares the line with the file.
fn shown(c: char) -> (String, usize) {
    match c {
        ' ' | '\t' => (" ".into(), 1),
        '\\' => ("\\".into(), 1),
        _ => {
            let mut buffer = [0; 4];
            let bytes = c.encode_utf8(&mut buffer).as_bytes();
            (display(bytes).to_string(), width(bytes))
        }
    }
}
