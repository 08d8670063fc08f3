//! Layout of text for people: styles, columns, wrapped lines.
//!
//! Styles are escape sequences in the text; the writer of standard output removes them if they are not wanted.

use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use namegate_core::policy::rule::Severity;
use unicode_width::UnicodeWidthStr;

/// The grouping of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// In the order of arrival.
    #[default]
    Directory,
    /// Keeps all findings in memory until the end.
    Rule,
}

impl GroupBy {
    /// The word of each on the command line, and its help.
    pub const WORDS: &[(&str, Self, &str)] =
        &[("dir", Self::Directory, "By directory"), ("rule", Self::Rule, "By rule, security first")];
}

/// What a text report contains, and in which order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    pub group_by: GroupBy,
    /// Whether to print the readiness for each target.
    pub readiness: bool,
    /// Whether to print faults, too.
    pub faults: bool,
    /// Whether lines are wrapped at the width of the terminal.
    pub is_wrapped: bool,
    /// Whether findings have colours. Colours that are taken out of the output again cost as much time as the rest.
    pub is_styled: bool,
}

impl Layout {
    /// `style`, if findings have one.
    pub(crate) const fn style(self, style: Style) -> Style {
        if self.is_styled { style } else { PLAIN }
    }
}

/// Width of text that is not written to a terminal: output that is stored or compared must not depend on a window.
const DEFAULT_WIDTH: usize = 80;
/// Text in fewer columns is not readable; such a terminal wraps the lines itself.
const MIN_WIDTH: usize = 40;

static TERMINAL_WIDTH: OnceLock<usize> = OnceLock::new();

/// Sets the width of the terminal. Without a call, standard output is not a terminal.
pub fn set_terminal_width(columns: usize) {
    let _ = TERMINAL_WIDTH.set(columns.max(MIN_WIDTH));
}

/// The width of the terminal, if standard output is a terminal.
pub(crate) fn terminal_width() -> Option<usize> {
    TERMINAL_WIDTH.get().copied()
}

/// Maximum width of paragraphs: that of the terminal, or 80.
pub fn width() -> usize {
    terminal_width().unwrap_or(DEFAULT_WIDTH)
}

/// Text without a style.
pub const PLAIN: Style = Style::new();
/// Headings.
pub const BOLD: Style = Style::new().bold();
/// Secondary information.
pub const DIM: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// Claims whose source was not checked.
pub const DOUBT: Style = AnsiColor::Magenta.on_default();
/// Structure, such as the marker bits of a byte.
pub const MARKER: Style = AnsiColor::Cyan.on_default().bold();

pub const fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Warn => WARN,
        Severity::Error => ERROR,
    }
}

/// Text in a style, padded on the right to `columns` so that following text is aligned.
pub fn styled<T: fmt::Display>(style: Style, text: T, columns: usize) -> StyledText<T> {
    StyledText { style, text, columns }
}

/// What [`styled`] returns.
pub struct StyledText<T> {
    style: Style,
    text: T,
    columns: usize,
}

impl<T: fmt::Display> fmt::Display for StyledText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { style, text, columns } = self;
        if *columns == 0 {
            return write!(f, "{style}{text}{style:#}");
        }
        let text = text.to_string();
        let padding = columns.saturating_sub(text.width());
        write!(f, "{style}{text}{style:#}{:padding$}", "")
    }
}

/// Writes `text` in lines of at most [`width`] columns: the first line continues at column `at`, the others begin there.
///
/// # Errors
/// As writing to `out`.
pub fn write_wrapped(out: &mut dyn Write, at: usize, style: Style, text: &str) -> io::Result<()> {
    write_wrapped_to(out, width(), at, style, text)
}

/// Writes `text` in lines of at most `width` columns, like [`write_wrapped`].
///
/// # Errors
/// As writing to `out`.
pub(crate) fn write_wrapped_to(
    out: &mut dyn Write,
    width: usize,
    at: usize,
    style: Style,
    text: &str,
) -> io::Result<()> {
    // Without a terminal nothing is wrapped.
    match width == usize::MAX {
        true if style == PLAIN => {
            out.write_all(text.as_bytes())?;
            return out.write_all(b"\n");
        }
        true => return writeln!(out, "{style}{text}{style:#}"),
        false => {}
    }
    for (n, line) in wrap(text, width.saturating_sub(at)).iter().enumerate() {
        let indent = if n == 0 { 0 } else { at };
        writeln!(out, "{:indent$}{style}{line}{style:#}", "")?;
    }
    Ok(())
}

/// Splits text into lines of whole words of at most `columns`; a longer word has its own line. At least one line.
fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let width = word.width();
        if used > 0 && used + 1 + width > columns {
            lines.push(String::new());
            used = 0;
        }
        let line = lines.last_mut().expect("there is a line from the start");
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += width;
    }
    lines
}

/// `1 name`, `1,234 names`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { one } else { many })
}

/// `1234567` as `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(n), text);
        }
        assert_eq!(
            (counted(1, "name", "names"), counted(0, "name", "names")),
            ("1 name".into(), "0 names".into())
        );
    }

    #[test]
    fn lines_have_whole_words_and_fit_their_columns() {
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a verylongwordindeed b", 6), ["a", "verylongwordindeed", "b"]);
        assert_eq!(wrap("日本 日本", 6), ["日本", "日本"]);
    }

    #[test]
    fn columns_are_padded_behind_the_colour() {
        let text = styled(DIM, "ab", 4).to_string();
        assert!(text.ends_with("  "), "{text:?}");
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), "ab  ");
    }
}
