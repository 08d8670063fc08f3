//! Accepts ordinary names after one table lookup per byte, and one per code point beyond ASCII.
//!
//! The tables mark the bytes and the code points that can break a rule of the policy. A name without marks has no violation; any
//! other name is checked in full. The tables may mark too much, but never too little.

use std::sync::OnceLock;

use super::active_rule::ActiveRule;
use super::dotgit;
use super::profile::{NamePart, Test, Unit};
use super::rule::RuleId;
use super::tables::Tables;
use crate::name::normalize::{self, Form};
use crate::name::scalar::class;

/// The tables of what can break a rule, with limits on the length.
#[derive(Clone, Debug)]
pub(super) struct Prefilter {
    /// For each byte, the bits below.
    flags: [u8; 256],
    /// No ASCII name of up to this many bytes exceeds a limit.
    ascii_bytes: usize,
    /// No name of up to this many bytes exceeds a limit.
    any_bytes: usize,
    /// For each letter: bit `n` is set if a reserved base name of `n` bytes begins with it.
    base_lengths: [u32; 26],
    code_points: CodePointTable,
}

/// The byte is suspect anywhere.
const ANYWHERE: u8 = 1;
/// The byte is suspect at the start.
const FIRST: u8 = 2;
/// The byte is suspect at the end.
const LAST: u8 = 4;
/// The byte is not ASCII.
const NON_ASCII: u8 = 8;
/// A reserved base name that the table of lengths cannot represent (32 bytes or more, a space within) begins with it.
const BASE: u8 = 16;
/// The byte is not ASCII, and its code point is looked up.
const LOOKED_UP: u8 = 32;

impl Prefilter {
    /// Whether `text` must be checked in full. `false` means that it has no violation. `tables` are those of the policy.
    pub(super) fn is_suspect(&self, text: &str, tables: &Tables) -> bool {
        let name = text.as_bytes();
        let (Some(&first), Some(&last)) = (name.first(), name.last()) else { return true };
        let seen = name.iter().fold(0, |seen, &b| seen | self.flags[usize::from(b)]);
        let limit = if seen & NON_ASCII == 0 { self.ascii_bytes } else { self.any_bytes };
        seen & ANYWHERE != 0
            || self.flags[usize::from(first)] & FIRST != 0
            || self.flags[usize::from(last)] & LAST != 0
            || name.len() > limit
            || self.may_have_reserved_base(name)
            || matches!(name, b"." | b"..")
            || seen & LOOKED_UP != 0 && self.has_marked_code_point(text, tables)
    }

    fn has_marked_code_point(&self, text: &str, tables: &Tables) -> bool {
        text.chars().any(|c| !c.is_ascii() && !self.code_points.is_harmless(c, tables))
    }

    /// Whether the ASCII byte `b` can break a rule at any position.
    pub(super) fn is_suspect_anywhere(&self, b: u8) -> bool {
        self.flags[usize::from(b)] & ANYWHERE != 0
    }

    /// Whether the base of `name` can be a reserved word.
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

    pub(super) fn new(rules: &[ActiveRule], tables: &Tables, stored_form: Option<Form>) -> Self {
        let mut prefilter = Self {
            flags: [0; 256],
            ascii_bytes: usize::MAX,
            any_bytes: usize::MAX,
            base_lengths: [0; 26],
            code_points: CodePointTable::new(tables, stored_form),
        };
        prefilter.mark_scalars(tables);
        let bases = prefilter.mark_names(rules);
        let beyond_ascii = match () {
            // Two scripts in a word are a property of no code point.
            () if tables.has(RuleId::MixedScript) => ANYWHERE,
            () if prefilter.code_points.marks_any(tables) => LOOKED_UP,
            () => 0,
        };
        prefilter.flags[0x80..].iter_mut().for_each(|flags| *flags |= NON_ASCII | beyond_ascii);
        bases.into_iter().for_each(|word| prefilter.add_base(word));
        for (limit, _) in &tables.lengths {
            // ASCII does not grow in any form; an OSTA string has one byte more than its text.
            let extra = usize::from(limit.unit == Unit::OstaBytes);
            prefilter.ascii_bytes = prefilter.ascii_bytes.min(limit.max.saturating_sub(extra));
            prefilter.any_bytes = prefilter.any_bytes.min(limit.harmless_bytes());
        }
        prefilter
    }

    fn mark(&mut self, byte: u8, bit: u8) {
        self.flags[usize::from(byte.to_ascii_lowercase())] |= bit;
        self.flags[usize::from(byte.to_ascii_uppercase())] |= bit;
    }

    /// Marks the bytes that rules about code points and ends of names look at.
    fn mark_scalars(&mut self, tables: &Tables) {
        let on = |rule: RuleId| tables.has(rule);
        self.mark(0, ANYWHERE);
        self.mark(b'/', ANYWHERE);
        for byte in 1..0x20 {
            if on(RuleId::C0Control) || byte == 0x1B && on(RuleId::Iso2022Escape) {
                self.mark(byte, ANYWHERE);
            }
        }
        let ends = [
            (RuleId::Delete, 0x7F, ANYWHERE),
            (RuleId::LeadingSpace, b' ', FIRST),
            (RuleId::LeadingDash, b'-', FIRST),
            (RuleId::LeadingTilde, b'~', FIRST),
            (RuleId::LostCharacters, b'?', ANYWHERE),
            (RuleId::TrailingSpace, b' ', LAST),
            (RuleId::TrailingDot, b'.', LAST),
            (RuleId::DotGitLookalike, b'.', FIRST),
            (RuleId::DotGitLookalike, b'g', FIRST),
            (RuleId::DotGitLookalike, b'~', FIRST),
            (RuleId::DotGitLookalike, b'\\', ANYWHERE),
        ];
        ends.into_iter().filter(|end| on(end.0)).for_each(|(_, byte, bit)| self.mark(byte, bit));
    }

    /// Marks the bytes of reserved characters and names. Returns the reserved words of which only the base counts.
    fn mark_names<'r>(&mut self, rules: &'r [ActiveRule]) -> Vec<&'r str> {
        let mut bases = Vec::new();
        for rule in rules {
            match &rule.test {
                Test::Reserved(chars) => {
                    (0..0x80_u8)
                        .filter(|&b| chars.contains(char::from(b)))
                        .for_each(|b| self.mark(b, ANYWHERE));
                }
                Test::Named(names) | Test::Skipped(names) => {
                    for word in names.iter() {
                        let bytes = word.as_bytes();
                        match names.part {
                            NamePart::Base => bases.push(word),
                            NamePart::Whole | NamePart::Prefix | NamePart::Repeated => {
                                self.mark(bytes[0], FIRST)
                            }
                            NamePart::Suffix => self.mark(bytes[bytes.len() - 1], LAST),
                            NamePart::Anywhere => self.mark(bytes[0], ANYWHERE),
                        }
                    }
                }
                _ => {}
            }
        }
        bases
    }

    /// Notes the length of a reserved word under its first letter.
    fn add_base(&mut self, word: &str) {
        let first = word.as_bytes()[0];
        let letter = usize::from(first.to_ascii_lowercase().wrapping_sub(b'a'));
        match self.base_lengths.get_mut(letter) {
            Some(lengths) if word.len() < 32 && !word.contains(' ') => *lengths |= 1 << word.len(),
            // The table cannot represent the word: every name with its first byte is checked in full.
            _ => self.mark(first, BASE),
        }
    }
}

/// Code points per page of a [`CodePointTable`], one bit each.
const PAGE: u32 = u64::BITS;
/// Code points from here on are rare, and not in the table.
const TABLE_END: u32 = 0x2_0000;

/// The code points beyond ASCII that can break no rule, wherever they stand. Most names have code points of a few pages, so a page is
/// filled when it is needed.
#[derive(Clone, Debug)]
struct CodePointTable {
    pages: Box<[OnceLock<u64>]>,
    /// The forms in which names should be, or are stored.
    forms: Box<[Form]>,
}

impl CodePointTable {
    fn new(tables: &Tables, stored_form: Option<Form>) -> Self {
        let forms = tables.forms.iter().map(|&(form, _)| form).chain(stored_form).collect();
        Self { pages: vec![OnceLock::new(); (TABLE_END / PAGE) as usize].into(), forms }
    }

    /// Whether any code point beyond ASCII can break a rule.
    fn marks_any(&self, tables: &Tables) -> bool {
        tables.reads_scalars || !self.forms.is_empty() || tables.has(RuleId::DotGitLookalike)
    }

    /// Whether `c`, which is not ASCII, can break no rule; `true` is certain.
    fn is_harmless(&self, c: char, tables: &Tables) -> bool {
        let point = u32::from(c);
        let Some(page) = self.pages.get((point / PAGE) as usize) else { return false };
        let page = page.get_or_init(|| {
            let first = point / PAGE * PAGE;
            let is_harmless =
                |low: &u32| char::from_u32(first + low).is_some_and(|c| self.find_harmless(c, tables));
            (0..PAGE).filter(is_harmless).fold(0, |page, low| page | 1 << low)
        });
        page & 1 << (point % PAGE) != 0
    }

    fn find_harmless(&self, c: char, tables: &Tables) -> bool {
        let is_ignored_by_git = tables.has(RuleId::DotGitLookalike)
            && dotgit::IGNORED.iter().any(|(first, last)| (first..=last).contains(&&c));
        !is_ignored_by_git
            && (!tables.reads_classes || class(c).is_none())
            && tables.ages.iter().all(|(assigned, _)| assigned.contains(c))
            && tables.reserved_beyond_ascii.iter().all(|(set, _)| !set.contains(c))
            && self.forms.iter().all(|&form| normalize::is_inert(c, form))
    }
}
