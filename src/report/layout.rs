//! How text for people is laid out: styles, columns, wrapped lines.
//!
//! Styles are escape sequences in the text; the writer of standard output strips them where they are not wanted.

use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

use crate::policy::rule::Severity;

/// Columns of text that is not written to a terminal: output that is kept or compared does not depend on a window.
const DEFAULT_WIDTH: usize = 80;
/// In fewer columns text is no longer readable; such a terminal breaks the lines itself.
const MIN_WIDTH: usize = 40;

static TERMINAL_WIDTH: OnceLock<usize> = OnceLock::new();

/// Sets the width of the terminal that standard output is. Without a call standard output is not a terminal.
pub fn set_terminal_width(columns: usize) {
    let _ = TERMINAL_WIDTH.set(columns.max(MIN_WIDTH));
}

/// The width of the terminal, if standard output is one.
pub fn terminal_width() -> Option<usize> {
    TERMINAL_WIDTH.get().copied()
}

/// The columns that paragraphs take at most: those of the terminal, or 80.
pub fn width() -> usize {
    terminal_width().unwrap_or(DEFAULT_WIDTH)
}

/// Text as it is.
pub const PLAIN: Style = Style::new();
/// Headings.
pub const BOLD: Style = Style::new().bold();
/// What is beside the point.
pub const DIM: Style = Style::new().dimmed();
/// What is right.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// What is wrong.
pub const ERROR: Style = AnsiColor::Red.on_default().bold();
/// What may be wrong.
pub const WARN: Style = AnsiColor::Yellow.on_default();
/// What rests on a source that was not checked.
pub const DOUBT: Style = AnsiColor::Magenta.on_default();
/// What holds other things together, such as the marker bits of an octet.
pub const MARKER: Style = AnsiColor::Cyan.on_default().bold();

/// The style of a severity.
pub const fn severity_style(severity: Severity) -> Style {
    match severity {
        Severity::Warn => WARN,
        Severity::Error => ERROR,
    }
}

/// Text in a style, padded behind it to `columns` so that what follows lines up.
pub fn styled(style: Style, text: impl fmt::Display, columns: usize) -> String {
    let text = text.to_string();
    let padding = columns.saturating_sub(text.width());
    format!("{style}{text}{style:#}{:padding$}", "")
}

/// Writes `text` in lines of at most [`width`] columns: the first continues at column `at`, the others begin there.
///
/// # Errors
/// Whatever writing meets.
pub fn write_wrapped(out: &mut dyn Write, at: usize, style: Style, text: &str) -> io::Result<()> {
    write_wrapped_to(out, width(), at, style, text)
}

/// Writes `text` in lines of at most `width` columns, as [`write_wrapped`] does.
///
/// # Errors
/// Whatever writing meets.
pub fn write_wrapped_to(
    out: &mut dyn Write,
    width: usize,
    at: usize,
    style: Style,
    text: &str,
) -> io::Result<()> {
    for (n, line) in wrap(text, width.saturating_sub(at)).iter().enumerate() {
        let indent = if n == 0 { 0 } else { at };
        writeln!(out, "{:indent$}{style}{line}{style:#}", "")?;
    }
    Ok(())
}

/// Lines of whole words of at most `columns`; a word that is longer has a line of its own. At least one line.
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
    fn lines_hold_whole_words_and_keep_to_their_columns() {
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a verylongwordindeed b", 6), ["a", "verylongwordindeed", "b"]);
        assert_eq!(wrap("日本 日本", 6), ["日本", "日本"]);
    }

    #[test]
    fn columns_are_padded_behind_the_colour() {
        let text = styled(DIM, "ab", 4);
        assert!(text.ends_with("  "), "{text:?}");
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), "ab  ");
    }
}
