//! Bytes of any length, displayed in little space.

use namegate_core::name::display::display;

/// Bytes for people, shortened to about `most` bytes: the beginning and the end of longer ones. Also reports whether
/// something was left out.
pub(super) fn shortened(bytes: &[u8], most: usize) -> (String, bool) {
    if bytes.len() <= most {
        let shown = display(bytes).to_string();
        if shown.len() <= most {
            return (shown, false);
        }
    }
    let half = most / 2;
    let (head, tail) = (fitting(bytes, half, false), fitting(bytes, half, true));
    (format!("{head}\u{2026}{tail}"), true)
}

/// As much of the beginning, or of the end, as can be displayed in `most` bytes. Characters are never split.
fn fitting(bytes: &[u8], most: usize, is_end: bool) -> String {
    let is_inside = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    // Reduces the length so that no character is split: a character has at most three bytes after its first. A longer run of
    // such bytes, or one without a first byte, is not a character.
    let whole = |len: usize| {
        let at = if is_end { bytes.len() - len } else { len };
        let moved = match is_end {
            true => (0..=3).find(|&by| at + by < bytes.len() && !is_inside(at + by)),
            false if is_inside(at) => (1..=3).find(|&by| at >= by && bytes[at - by] >= 0xC0),
            false => Some(0),
        };
        len.saturating_sub(moved.unwrap_or(0))
    };
    // The displayed text is never shorter than its bytes.
    let mut len = whole(most.min(bytes.len()));
    loop {
        let part = if is_end { &bytes[bytes.len() - len..] } else { &bytes[..len] };
        let shown = display(part).to_string();
        match shown.len().checked_sub(most) {
            // No byte is displayed in more than eight.
            Some(excess @ 1..) => len = whole(len.saturating_sub(excess.div_ceil(8).max(1))),
            _ => return shown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_shortened_between_characters_to_its_beginning_and_its_end() {
        let cut = |text: &[u8], most: usize| shortened(text, most);
        assert_eq!(cut(b"abc", 3), ("abc".into(), false));
        assert_eq!(cut(b"abcdefgh", 6), ("abc\u{2026}fgh".into(), true));
        assert_eq!(cut("\u{e4}\u{e4}\u{e4}\u{e4}".as_bytes(), 6), ("\u{e4}\u{2026}\u{e4}".into(), true));
        assert_eq!(cut(b"\xFF\xFFxx\xFF\xFF", 10), ("\\xFF\u{2026}\\xFF".into(), true));
        assert_eq!(cut(&[0x80; 100], 10), ("\\x80\u{2026}\\x80".into(), true));
        assert_eq!(cut(b"\x1b\x1b", 4), ("\u{2026}".into(), true));
        for most in 0..40 {
            for text in ["\u{1F600}".repeat(20), "a\u{301}".repeat(20), "\u{202e}".repeat(20)] {
                assert!(cut(text.as_bytes(), most).0.len() <= most + '\u{2026}'.len_utf8());
            }
        }
    }
}
