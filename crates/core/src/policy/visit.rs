//! Finds the violations of one name. All checks of names go through this module.
//!
//! [`Policy::visit`] reports each violation to a visitor and stops when the visitor breaks. [`Policy::verdict`] stops at the
//! first error, [`Policy::check`] never stops. [`Prefilter::is_suspect`](super::prefilter::Prefilter::is_suspect) runs first
//! and accepts ordinary names after one lookup per byte and code point; tests keep the two consistent.

use std::ops::ControlFlow::{self, Break, Continue};

use super::active_rule::RuleWeight;
use super::compile::OnMismatch;
use super::entry::{AppliesTo, Entry, EntryKind};
use super::profile::NamePart;
use super::rule::{RuleId, Severity};
use super::tables::{RULES_LEN, ReservedWord};
use super::{NameCheck, Policy, Verdict, Violation, dotgit, length};
use crate::name::arena::Arena;
use crate::name::normalize::{self, first_difference, is_in_form};
use crate::name::scalar::{Class, class};
use crate::name::{Span, context, misread, script, utf8};

type Flow = ControlFlow<Violation>;

impl Policy {
    /// Decides whether `name`, one path component, is allowed. Accepting a name allocates nothing.
    ///
    /// ```
    /// # use namegate_core::policy::{Policy, Verdict, profile};
    /// let windows = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
    /// assert!(matches!(windows.verdict(b"aux.h"), Verdict::Reject(v) if v.rule.name() == "reserved-name"));
    /// ```
    pub fn verdict<'n>(&self, name: &'n [u8]) -> Verdict<'n> {
        let text = std::str::from_utf8(name);
        // As a warning, damage decides nothing, and to find it takes memory.
        if let Ok(text) = text
            && self.tables.plain[RuleId::Mojibake as usize]
                .is_some_and(|weight| weight.severity == Severity::Error)
            && let Some(damage) = self.damage(text)
        {
            return Verdict::Reject(damage);
        }
        if let Ok(text) = text
            && !self.prefilter.is_suspect(text, &self.tables)
        {
            return Verdict::Accept(text);
        }
        let first_error =
            self.each_violation(name, text.ok(), Entry::UNKNOWN, &mut |violation| match violation.severity {
                Severity::Error => Break(violation),
                Severity::Warn => Continue(()),
            });
        if let Break(violation) = first_error {
            return Verdict::Reject(violation);
        }
        let text = text.expect("a name that is not UTF-8 has a violation that is an error");
        match self.rewritten(text) {
            Some(stored) => Verdict::Rewrite(stored),
            None => Verdict::Accept(text),
        }
    }

    /// Finds all violations of `name`, one path component, in the order of its bytes.
    ///
    /// ```
    /// # use namegate_core::policy::{Policy, profile};
    /// let windows = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
    /// let rules: Vec<_> = windows.check(b"what?.").violations.iter().map(|v| v.rule.name()).collect();
    /// assert_eq!(rules, ["reserved-character", "trailing-dot"]);
    /// ```
    pub fn check<'n>(&self, name: &'n [u8]) -> NameCheck<'n> {
        self.check_entry(name, Entry::UNKNOWN)
    }

    /// [`Policy::check`] for the name of an entry of which more is known.
    ///
    /// ```
    /// # use namegate_core::policy::{Entry, EntryKind, Policy, profile, rule::Severity};
    /// let sharepoint = Policy::from_profiles(&[profile::by_name("sharepoint").unwrap()]);
    /// let severity = |kind| Some(sharepoint.check_entry(b"~old", Entry::of_kind(kind)).violations.first()?.severity);
    /// assert_eq!(severity(EntryKind::Directory), Some(Severity::Error));
    /// assert_eq!(severity(EntryKind::File), None);
    /// assert_eq!(severity(EntryKind::Unknown), Some(Severity::Warn));
    /// ```
    pub fn check_entry<'n>(&self, name: &'n [u8], entry: Entry) -> NameCheck<'n> {
        let mut violations = Vec::new();
        self.find_violations(name, std::str::from_utf8(name).ok(), entry, &mut violations);
        NameCheck { name, violations }
    }

    /// Replaces `found` by the violations of a name that was decoded already.
    fn find_violations(&self, name: &[u8], text: Option<&str>, entry: Entry, found: &mut Vec<Violation>) {
        found.clear();
        let damage = text.and_then(|text| self.damage(text));
        if damage.is_none() && text.is_some_and(|text| !self.prefilter.is_suspect(text, &self.tables)) {
            return;
        }
        found.extend(damage);
        let end = self.each_violation(name, text, entry, &mut |violation| {
            found.push(violation);
            Continue(())
        });
        debug_assert!(end.is_continue(), "this visitor never stops");
        found.sort_by_key(|v| (v.span, v.rule));
    }

    /// Checks all names of an arena in one pass. Gives the names with violations, each with the offset of its first byte.
    ///
    /// ```
    /// # use namegate_core::{name::arena::Arena, policy::Policy};
    /// let mut arena = Arena::new();
    /// for name in [&b"good"[..], b"caf\xE9", b"fine"] {
    ///     arena.push(name).unwrap();
    /// }
    /// let policy = Policy::from_profiles(&[]);
    /// let found: Vec<_> = policy.check_arena(&arena).map(|(at, check)| (at, check.name)).collect();
    /// assert_eq!(found, [(5, &b"caf\xE9"[..])]);
    /// ```
    pub fn check_arena<'n>(&'n self, arena: &'n Arena) -> impl Iterator<Item = (usize, NameCheck<'n>)> {
        self.check_arena_with(arena, None, |_| {})
    }

    /// [`Policy::check_arena`] that also calls `take` with each name that is text when it comes to it, so that the names are decoded once;
    /// with none of them if the policy checks the encoding alone. `in_library_root` is as in [`Entry`].
    pub(crate) fn check_arena_with<'a, 'n: 'a>(
        &'a self,
        arena: &'n Arena,
        in_library_root: Option<bool>,
        mut take: impl FnMut(&'n str) + 'a,
    ) -> impl Iterator<Item = (usize, NameCheck<'n>)> + 'a {
        // If only the encoding matters, one SIMD pass finds the few names to check.
        let in_one_pass = self.is_encoding_only() && !arena.holds_impossible();
        let texts = if in_one_pass { None } else { arena.texts() };
        // A directory can have millions of names with violations, most of them one or two: each gets the memory for its own, once.
        let mut found = Vec::new();
        let mut check = move |at: usize, name: &'n [u8], text: Option<&'n str>| {
            let entry = Entry { kind: arena.kind_at(at), in_library_root };
            self.find_violations(name, text, entry, &mut found);
            (!found.is_empty()).then(|| NameCheck { name, violations: found.clone() })
        };
        match texts {
            None if in_one_pass => {
                Box::new(arena.ill_formed().filter_map(move |(at, name)| Some((at, check(at, name, None)?))))
                    as Box<dyn Iterator<Item = (usize, NameCheck<'n>)> + 'a>
            }
            Some(texts) => Box::new(texts.filter_map(move |(at, text)| {
                take(text);
                Some((at, check(at, text.as_bytes(), Some(text))?))
            })),
            None => Box::new(arena.iter().filter_map(move |(at, name)| {
                let text = std::str::from_utf8(name).ok();
                text.inspect(|text| take(text));
                Some((at, check(at, name, text)?))
            })),
        }
    }

    /// Whether names are converted to a normalization form.
    pub(crate) fn converts(&self) -> bool {
        self.stored_form().is_some()
    }

    /// The normalization form to which names are converted; `None` if they are stored as they are.
    pub(super) fn stored_form(&self) -> Option<normalize::Form> {
        self.normalization.filter(|n| n.on_mismatch == OnMismatch::Convert).map(|n| n.form)
    }

    /// The spelling that is stored instead of `name`; `None` if the name is stored as it is.
    fn rewritten(&self, name: &str) -> Option<String> {
        let form = self.stored_form()?;
        (!is_in_form(name, form)).then(|| normalize::to_form(name, form).into_owned())
    }

    /// All violations of `name`, and the errors of the spelling that is stored instead: NFKC converts U+FF0F to `/`. `text` is
    /// the name if it is UTF-8.
    fn each_violation(
        &self,
        name: &[u8],
        text: Option<&str>,
        entry: Entry,
        emit: &mut dyn FnMut(Violation) -> Flow,
    ) -> Flow {
        let Some(stored) = text.and_then(|text| self.rewritten(text)) else {
            return self.visit(name, text, entry, emit);
        };
        let whole = Span::new(0, name.len());
        let mut objected = [false; RULES_LEN];
        self.visit(name, text, entry, &mut |v| {
            objected[v.rule as usize] |= v.span == whole && v.severity == Severity::Error;
            emit(v)
        })?;
        // Offsets into the stored spelling mean nothing in the given one, so the violation covers the whole name.
        self.visit(stored.as_bytes(), Some(&stored), entry, &mut |v| {
            if v.severity < Severity::Error || std::mem::replace(&mut objected[v.rule as usize], true) {
                return Continue(());
            }
            emit(Violation { span: whole, ..v })
        })
    }

    /// The spelling that is stored instead of `name`, with its violation, if only that spelling has `violation`.
    pub(super) fn in_stored_spelling(
        &self,
        name: &[u8],
        violation: &Violation,
    ) -> Option<(String, Violation)> {
        self.stored_form()?;
        let given = std::str::from_utf8(name).ok()?;
        let stored = self.rewritten(given)?;
        let first = |text: &str, wanted: &dyn Fn(&Violation) -> bool| {
            let find = &mut |v| if wanted(&v) { Break(v) } else { Continue(()) };
            self.visit(text.as_bytes(), Some(text), Entry::UNKNOWN, find).break_value()
        };
        if first(given, &|v| v == violation).is_some() {
            return None;
        }
        let found = first(&stored, &|v| v.rule == violation.rule && v.severity == violation.severity)?;
        Some((stored, found))
    }

    /// Reports every violation of `name` alone: encoding, then code points, then shape. Allocates nothing.
    fn visit(
        &self,
        name: &[u8],
        text: Option<&str>,
        entry: Entry,
        emit: &mut dyn FnMut(Violation) -> Flow,
    ) -> Flow {
        self.visit_encoding(name, text.is_some(), emit)?;
        if self.tables.reads_scalars {
            match text {
                Some(text) => self.visit_scalars(text, 0, emit)?,
                None => {
                    for (offset, part) in utf8::well_formed_parts(name) {
                        self.visit_scalars(part, offset, emit)?;
                    }
                }
            }
        }
        self.visit_shape(name, entry, emit)?;
        text.map_or(Continue(()), |text| self.visit_text(text, emit))
    }

    fn visit_encoding(&self, name: &[u8], is_utf8: bool, emit: &mut dyn FnMut(Violation) -> Flow) -> Flow {
        let weight = RuleWeight::error(self.everyone);
        let whole = Span::new(0, name.len());
        match name {
            b"" => report(RuleId::EmptyName, whole, weight, emit)?,
            b"." | b".." => report(RuleId::DotName, whole, weight, emit)?,
            _ => {}
        }
        if !is_utf8 {
            for found in utf8::ill_formed(name) {
                report(found.kind.into(), found.span, weight, emit)?;
            }
        }
        for at in memchr::memchr2_iter(0, b'/', name) {
            let rule = if name[at] == 0 { RuleId::NulSmuggling } else { RuleId::SeparatorSmuggling };
            report(rule, Span::new(at, at + 1), weight, emit)?;
        }
        Continue(())
    }

    fn visit_scalars(&self, part: &str, offset: usize, emit: &mut dyn FnMut(Violation) -> Flow) -> Flow {
        for (at, c) in part.char_indices() {
            // Most ASCII costs one lookup. NUL and `/` were reported with the encoding.
            let is_ascii = c.is_ascii();
            if is_ascii && (!self.prefilter.is_suspect_anywhere(c as u8) || matches!(c, '\0' | '/')) {
                continue;
            }
            let span = Span::new(offset + at, offset + at + c.len_utf8());
            let class = self.tables.reads_classes.then(|| class(c)).flatten();
            // Unassigned code points are checked together with those of other versions of Unicode.
            if let Some(class) = class.filter(|&class| class != Class::Unassigned) {
                self.visit_class(part, at, class, span, emit)?;
            }
            if c == '\u{1B}'
                && let Some(weight) = self.tables.plain[RuleId::Iso2022Escape as usize]
                && let Some(len) = announcement_len(&part.as_bytes()[at..])
            {
                report(RuleId::Iso2022Escape, Span::new(span.start, span.start + len), weight, emit)?;
            }
            if !is_ascii {
                self.visit_age(c, class, span, emit)?;
            }
            let reserved = match is_ascii {
                true => self.tables.reserved_ascii[c as usize],
                false => {
                    let sets = self.tables.reserved_beyond_ascii.iter().filter(|(set, _)| set.contains(c));
                    sets.map(|&(_, weight)| weight).reduce(RuleWeight::merge)
                }
            };
            if let Some(weight) = reserved {
                report(RuleId::ReservedCharacter, span, weight, emit)?;
            }
        }
        Continue(())
    }

    fn visit_class(
        &self,
        part: &str,
        at: usize,
        class: Class,
        span: Span,
        emit: &mut dyn FnMut(Violation) -> Flow,
    ) -> Flow {
        let rule = RuleId::from(class);
        let Some(weight) = self.tables.plain[rule as usize] else { return Continue(()) };
        let can_be_needed = matches!(class, Class::DefaultIgnorable | Class::TagCharacter);
        if can_be_needed && context::is_needed(part, at) {
            return Continue(());
        }
        report(rule, span, weight, emit)
    }

    fn visit_age(
        &self,
        c: char,
        class: Option<Class>,
        span: Span,
        emit: &mut dyn FnMut(Violation) -> Flow,
    ) -> Flow {
        let older = self.tables.ages.iter().filter(|(assigned, _)| !assigned.contains(c));
        let never =
            self.tables.plain[RuleId::Unassigned as usize].filter(|_| class == Some(Class::Unassigned));
        match older.map(|&(_, weight)| weight).chain(never).reduce(RuleWeight::merge) {
            Some(weight) => report(RuleId::Unassigned, span, weight, emit),
            None => Continue(()),
        }
    }

    fn visit_shape(&self, name: &[u8], entry: Entry, emit: &mut dyn FnMut(Violation) -> Flow) -> Flow {
        let (len, plain) = (name.len(), |rule: RuleId| self.tables.plain[rule as usize]);
        let first = Span::new(0, len.min(1));
        let leading =
            [(RuleId::LeadingSpace, b' '), (RuleId::LeadingDash, b'-'), (RuleId::LeadingTilde, b'~')];
        for (rule, byte) in leading {
            if let Some(weight) = plain(rule).filter(|_| name.first() == Some(&byte)) {
                report(rule, first, weight, emit)?;
            }
        }
        for (rule, byte) in [(RuleId::TrailingSpace, b' '), (RuleId::TrailingDot, b'.')] {
            // `.` and `..` have a rule of their own.
            let ends = name.last() == Some(&byte) && !matches!(name, b"." | b"..");
            if let Some(weight) = plain(rule).filter(|_| ends) {
                report(rule, Span::new(len - 1, len), weight, emit)?;
            }
        }
        if let Some(weight) = plain(RuleId::LostCharacters)
            && let Some(span) = misread::find_lost(name)
        {
            report(RuleId::LostCharacters, span, weight, emit)?;
        }
        self.visit_reserved_names(name, entry, emit)?;
        let too_long = self.tables.lengths.iter();
        let too_long = too_long.filter_map(|&(limit, weight)| Some((length::excess(name, limit)?, weight)));
        report_merged(RuleId::NameTooLong, too_long, emit)?;
        if let Some(weight) = plain(RuleId::DotGitLookalike)
            && dotgit::is_lookalike(name)
        {
            report(RuleId::DotGitLookalike, Span::new(0, len), weight, emit)?;
        }
        Continue(())
    }

    /// The rules that apply only to well-formed names.
    fn visit_text(&self, text: &str, emit: &mut dyn FnMut(Violation) -> Flow) -> Flow {
        let forms = self.tables.forms.iter();
        let not_in_form = forms.filter_map(|&(form, weight)| Some((first_difference(text, form)?, weight)));
        report_merged(RuleId::NotInForm, not_in_form, emit)?;
        if let Some(weight) = self.tables.plain[RuleId::MixedScript as usize]
            && let Some(span) = script::mixed(text)
        {
            report(RuleId::MixedScript, span, weight, emit)?;
        }
        Continue(())
    }

    /// What is damaged in a name that is UTF-8.
    fn damage(&self, text: &str) -> Option<Violation> {
        let weight = self.tables.plain[RuleId::Mojibake as usize]?;
        let span = misread::find(text)?;
        let mut found = None;
        let _ = report(RuleId::Mojibake, span, weight, &mut |violation| {
            found = Some(violation);
            Continue(())
        });
        found
    }

    fn visit_reserved_names(
        &self,
        name: &[u8],
        entry: Entry,
        emit: &mut dyn FnMut(Violation) -> Flow,
    ) -> Flow {
        let find = |ReservedWord { part, word, applies_to, weight }: &ReservedWord| {
            Some((reserved_in(name, *part, word)?, weight.for_entry(*applies_to, entry)?))
        };
        if !matches!(name, b"." | b"..") {
            report_merged(RuleId::LeftBehind, self.tables.skipped.iter().filter_map(find), emit)?;
        }
        let bases: &[ReservedWord] =
            if self.prefilter.may_have_reserved_base(name) { &self.tables.bases } else { &[] };
        let found = self.tables.words.iter().chain(bases);
        report_merged(RuleId::ReservedName, found.filter_map(find), emit)
    }

    /// The word that is reserved at `span` of `name`, if possible one for all entries.
    pub(super) fn reserved_at(&self, name: &[u8], span: Span) -> Option<&ReservedWord> {
        word_at(self.tables.words.iter().chain(&self.tables.bases), name, span)
    }

    /// The word at `span` of `name` for which a target skips the entry, if possible one for all entries.
    pub(super) fn skipped_at(&self, name: &[u8], span: Span) -> Option<&ReservedWord> {
        word_at(self.tables.skipped.iter(), name, span)
    }

    /// Whether any rule of the policy checks whole paths.
    pub fn checks_paths(&self) -> bool {
        !self.tables.path_lengths.is_empty()
    }

    /// Paths of up to this many bytes have no violation.
    pub fn harmless_path_bytes(&self) -> usize {
        let limits = self.tables.path_lengths.iter().map(|(_, limit, _)| limit.harmless_bytes());
        limits.min().unwrap_or(usize::MAX)
    }

    /// Finds the violations of the whole path of an entry. Spans are bytes of `path`.
    ///
    /// ```
    /// # use namegate_core::policy::{EntryKind, Policy, profile};
    /// let s3 = Policy::from_profiles(&[profile::by_name("s3").unwrap()]);
    /// let found = s3.check_path("d/".repeat(513).as_bytes(), EntryKind::Directory);
    /// assert_eq!((found[0].rule.name(), found[0].span.start), ("path-too-long", 1024));
    /// ```
    pub fn check_path(&self, path: &[u8], kind: EntryKind) -> Vec<Violation> {
        let mut violations = Vec::new();
        let entry = Entry::of_kind(kind);
        let too_long = self.tables.path_lengths.iter().filter_map(|&(applies_to, limit, weight)| {
            Some((length::excess(path, limit)?, weight.for_entry(applies_to, entry)?))
        });
        let end = report_merged(RuleId::PathTooLong, too_long, &mut |violation| {
            violations.push(violation);
            Continue(())
        });
        debug_assert!(end.is_continue(), "this visitor never stops");
        violations.sort_by_key(|v| v.span);
        // Of limits that differ by kind the highest is exceeded last: it is the mildest statement.
        let is_covered = |v: &Violation, others: &[Violation]| {
            !v.is_certain && others.iter().any(|other| other.profiles.contains(v.profiles))
        };
        while let [first, others @ ..] = &violations[..]
            && is_covered(first, others)
        {
            violations.remove(0);
        }
        violations
    }
}

fn report(rule: RuleId, span: Span, weight: RuleWeight, emit: &mut dyn FnMut(Violation) -> Flow) -> Flow {
    emit(weight.violation(rule, span))
}

/// Reports each span once, with all profiles that object. Searches the few violations again instead of storing them: an
/// accepted name may have warnings and must cost no allocation.
fn report_merged(
    rule: RuleId,
    found: impl Iterator<Item = (Span, RuleWeight)> + Clone,
    emit: &mut dyn FnMut(Violation) -> Flow,
) -> Flow {
    for (at, (span, weight)) in found.clone().enumerate() {
        let same = |&(other, _): &(Span, RuleWeight)| other == span;
        if found.clone().take(at).any(|other| same(&other)) {
            continue;
        }
        let others = found.clone().skip(at + 1).filter(same).map(|(_, weight)| weight);
        report(rule, span, others.fold(weight, RuleWeight::merge), emit)?;
    }
    Continue(())
}

/// The word that matches at `span` of `name`, if possible one for all entries.
fn word_at<'w>(
    words: impl Iterator<Item = &'w ReservedWord>,
    name: &[u8],
    span: Span,
) -> Option<&'w ReservedWord> {
    let found = words.filter(|word| reserved_in(name, word.part, &word.word) == Some(span));
    found.reduce(|a, b| if b.applies_to == AppliesTo::Everything { b } else { a })
}

/// Where `name` matches the reserved `word`; ASCII letters match in either case.
fn reserved_in(name: &[u8], part: NamePart, word: &[u8]) -> Option<Span> {
    let same = |start: usize, end: usize| {
        let span = Span::new(start, end);
        name.get(start..end).is_some_and(|bytes| bytes.eq_ignore_ascii_case(word)).then_some(span)
    };
    match part {
        NamePart::Whole => same(0, name.len()),
        NamePart::Base => same(0, base_len(name)),
        NamePart::Prefix => same(0, word.len()),
        NamePart::Suffix => same(name.len().checked_sub(word.len())?, name.len()),
        NamePart::Anywhere => (0..name.len()).find_map(|at| same(at, at + word.len())),
        NamePart::Repeated => {
            let all = name.chunks(word.len()).all(|chunk| chunk.eq_ignore_ascii_case(word));
            (all && !name.is_empty()).then(|| Span::new(0, name.len()))
        }
    }
}

/// The length of the base by which Windows finds a device: up to the first dot or colon, without trailing spaces.
fn base_len(name: &[u8]) -> usize {
    let end = memchr::memchr2(b'.', b':', name).unwrap_or(name.len());
    name[..end].iter().rposition(|&b| b != b' ').map_or(0, |at| at + 1)
}

/// The length of the escape sequence at the start of `bytes`, if it switches to UTF-8 or back: ESC 2/5 4/7,
/// ESC 2/5 4/0, ESC 2/5 2/15 4/7..4/9 (ISO/IEC 10646-1 Amd. 2, R.6; utf-8(7)).
fn announcement_len(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [0x1B, b'%', b'G' | b'@', ..] => Some(3),
        [0x1B, b'%', b'/', b'G'..=b'I', ..] => Some(4),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
