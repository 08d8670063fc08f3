//! Takes colours out of an output that cannot show them.
//!
//! Most output has none, so it is only searched for ESC, many bytes at a time. The state machine of `anstream`, which looks at each
//! byte, took more than half of the time in which a plan is written.

use std::io::{self, Write};

/// The control character that begins an escape sequence.
const ESC: u8 = 0x1B;

/// Removes escape sequences (ISO/IEC 6429, clause 5.4) from text that comes in pieces. Names have none: they are escaped for display.
#[derive(Debug, Default)]
pub struct ColourFilter {
    state: FilterState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FilterState {
    #[default]
    Text,
    /// After an ESC.
    Escape,
    /// In a control sequence.
    Sequence,
}

impl ColourFilter {
    /// Writes `bytes` without escape sequences to `out`. A sequence may begin in one piece and end in another.
    ///
    /// # Errors
    /// As writing to `out`.
    pub fn write_to(&mut self, out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while let [first, after @ ..] = rest {
            if self.state == FilterState::Text {
                let Some(end) = memchr::memchr(ESC, rest) else { return out.write_all(rest) };
                out.write_all(&rest[..end])?;
                rest = &rest[end + 1..];
                self.state = FilterState::Escape;
                continue;
            }
            self.state = match (self.state, first) {
                (FilterState::Escape, b'[') => FilterState::Sequence,
                // The parameters of a control sequence end with its final byte.
                (FilterState::Sequence, b' '..=b'?') => FilterState::Sequence,
                _ => FilterState::Text,
            };
            rest = after;
        }
        Ok(())
    }
}

/// An output without colours.
#[derive(Debug)]
pub struct UncolouredOutput<W> {
    out: W,
    filter: ColourFilter,
}

impl<W: Write> UncolouredOutput<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, filter: ColourFilter::default() }
    }
}

impl<W: Write> Write for UncolouredOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.filter.write_to(&mut self.out, bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use namegate_scan::report::layout::{BOLD, ERROR, styled};

    use super::*;

    #[test]
    fn what_is_left_is_what_anstream_leaves_wherever_the_pieces_end() {
        let text = format!(
            "a {}é\n\t{} \u{1B}[38;5;9mx\u{1B}[0m {BOLD}",
            styled(BOLD, "b[c", 6),
            styled(ERROR, "日本", 0)
        );
        let expected = anstream::adapter::strip_str(&text).to_string();
        assert!(!expected.contains('\u{1B}') && expected.contains("b[c"));
        for len in 1..=text.len() {
            let mut out = UncolouredOutput::new(Vec::new());
            for piece in text.as_bytes().chunks(len) {
                out.write_all(piece).unwrap();
            }
            assert_eq!(String::from_utf8(out.out).unwrap(), expected, "pieces of {len} bytes");
        }
    }
}
