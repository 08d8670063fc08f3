//! One look at each byte of a name, which lets ordinary names pass.
//!
//! What can be decided by looking a byte up in a table is put into that table, so that an ordinary name costs one pass
//! over its bytes. The table says "worth a look" too often rather than too rarely; it never says what is wrong.

use super::compile::ActiveRule;
use super::profile::{NamePart, Test, Unit};
use super::rule::RuleId;
use super::tables::Tables;

/// What one look at each byte can rule out.
#[derive(Clone, Debug)]
pub(super) struct Prefilter {
    /// Per byte: bits below.
    flags: [u8; 256],
    /// No name up to this many bytes breaks a limit, if it is ASCII.
    ascii_bytes: usize,
    /// The same for any name.
    any_bytes: usize,
    /// Per letter: bit `n` is set if a reserved base name begins with it and has `n` bytes.
    base_lengths: [u32; 26],
}

/// The byte alone makes the name worth a look.
const ANYWHERE: u8 = 1;
/// ... if it is the first.
const FIRST: u8 = 2;
/// ... if it is the last.
const LAST: u8 = 4;
/// The byte is not ASCII.
const NON_ASCII: u8 = 8;
/// A reserved base name that does not fit the table of lengths begins with it.
const BASE: u8 = 16;

impl Prefilter {
    /// Whether a closer look at `name` is needed. `false` means: no violation, if the name is UTF-8.
    pub(super) fn is_suspect(&self, name: &[u8]) -> bool {
        let (Some(&first), Some(&last)) = (name.first(), name.last()) else { return true };
        let seen = name.iter().fold(0, |seen, &b| seen | self.flags[usize::from(b)]);
        let limit = if seen & NON_ASCII == 0 { self.ascii_bytes } else { self.any_bytes };
        seen & ANYWHERE != 0
            || self.flags[usize::from(first)] & FIRST != 0
            || self.flags[usize::from(last)] & LAST != 0
            || name.len() > limit
            || self.may_have_reserved_base(name)
            || matches!(name, b"." | b"..")
    }

    /// Whether some rule objects to the ASCII byte `b` wherever it stands.
    pub(super) fn is_suspect_anywhere(&self, b: u8) -> bool {
        self.flags[usize::from(b)] & ANYWHERE != 0
    }

    /// Whether `name` can have a base that is a reserved word.
    pub(super) fn may_have_reserved_base(&self, name: &[u8]) -> bool {
        let Some(&first) = name.first() else { return false };
        if self.flags[usize::from(first)] & BASE != 0 {
            return true;
        }
        let letter = usize::from((first | 0x20).wrapping_sub(b'a'));
        let Some(&lengths) = self.base_lengths.get(letter) else { return false };
        if lengths == 0 {
            return false;
        }
        // The base ends at the first dot or colon, or where its trailing spaces begin.
        let len = name.iter().take(32).take_while(|b| !matches!(b, b'.' | b' ' | b':')).count();
        len < 32 && lengths & 1 << len != 0
    }

    pub(super) fn new(rules: &[ActiveRule], tables: &Tables, converts: bool) -> Self {
        let on = |rule: RuleId| tables.plain[rule as usize].is_some();
        let mut prefilter =
            Self { flags: [0; 256], ascii_bytes: usize::MAX, any_bytes: usize::MAX, base_lengths: [0; 26] };
        let mut mark = |byte: u8, bit: u8| {
            prefilter.flags[usize::from(byte.to_ascii_lowercase())] |= bit;
            prefilter.flags[usize::from(byte.to_ascii_uppercase())] |= bit;
        };
        mark(0, ANYWHERE);
        mark(b'/', ANYWHERE);
        for byte in 1..0x20 {
            if on(RuleId::C0Control) || byte == 0x1B && on(RuleId::Iso2022Escape) {
                mark(byte, ANYWHERE);
            }
        }
        let ends = [
            (RuleId::Delete, 0x7F, ANYWHERE),
            (RuleId::LeadingSpace, b' ', FIRST),
            (RuleId::LeadingDash, b'-', FIRST),
            (RuleId::LeadingTilde, b'~', FIRST),
            (RuleId::TrailingSpace, b' ', LAST),
            (RuleId::TrailingDot, b'.', LAST),
            (RuleId::DotGitLookalike, b'.', FIRST),
            (RuleId::DotGitLookalike, b'g', FIRST),
            (RuleId::DotGitLookalike, b'~', FIRST),
            (RuleId::DotGitLookalike, b'\\', ANYWHERE),
        ];
        ends.into_iter().filter(|end| on(end.0)).for_each(|(_, byte, bit)| mark(byte, bit));
        let mut bases: Vec<&str> = Vec::new();
        for rule in rules {
            match &rule.test {
                Test::Reserved(chars) => {
                    (0..0x80_u8).filter(|&b| chars.contains(char::from(b))).for_each(|b| mark(b, ANYWHERE));
                }
                Test::Named(names) => {
                    for word in names.iter() {
                        let bytes = word.as_bytes();
                        match names.part {
                            NamePart::Base => bases.push(word),
                            NamePart::Whole | NamePart::Prefix | NamePart::Repeated => mark(bytes[0], FIRST),
                            NamePart::Suffix => mark(bytes[bytes.len() - 1], LAST),
                            NamePart::Anywhere => mark(bytes[0], ANYWHERE),
                        }
                    }
                }
                _ => {}
            }
        }
        let names_beyond_ascii =
            rules.iter().any(|rule| matches!(&rule.test, Test::Named(n) if !n.words.is_ascii()));
        let shapes = [RuleId::MixedScript, RuleId::Mojibake, RuleId::DotGitLookalike];
        let reads_non_ascii = tables.reads_scalars
            || converts
            || names_beyond_ascii
            || shapes.into_iter().any(on)
            || !tables.forms.is_empty();
        prefilter.flags[0x80..].fill(if reads_non_ascii { ANYWHERE | NON_ASCII } else { NON_ASCII });
        for word in bases {
            let first = word.as_bytes()[0];
            let letter = usize::from(first.to_ascii_lowercase().wrapping_sub(b'a'));
            match prefilter.base_lengths.get_mut(letter) {
                Some(lengths) if word.len() < 32 => *lengths |= 1 << word.len(),
                // Too unusual for the table: every name with that first byte gets a closer look.
                _ => {
                    prefilter.flags[usize::from(first.to_ascii_lowercase())] |= BASE;
                    prefilter.flags[usize::from(first.to_ascii_uppercase())] |= BASE;
                }
            }
        }
        for (limit, _) in &tables.lengths {
            // ASCII does not grow in any form; an OSTA string has one byte more than its text.
            let extra = usize::from(limit.unit == Unit::OstaBytes);
            prefilter.ascii_bytes = prefilter.ascii_bytes.min(limit.max.saturating_sub(extra));
            prefilter.any_bytes = prefilter.any_bytes.min(limit.harmless_bytes());
        }
        prefilter
    }
}
