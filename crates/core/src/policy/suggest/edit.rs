//! The change for each rule: the smallest edit at the position of the violation.
//!
//! | rule | change |
//! |---|---|
//! | tab, line feed and other controls that separate words, line separators | U+0020 between words, else removed |
//! | an escape sequence | removed, if it is one of ISO 2022 or a control sequence |
//! | other controls, noncharacters, byte order mark, bidi controls, ignorable and tag characters | removed |
//! | `non-ascii-space` | U+0020 |
//! | `smb-private-use` | the character that it replaces, if the policy allows that, else `_` |
//! | `reserved-character` | the other case or the bare letter, if the policy allows that, else `_`; other letters and digits only where they are errors; punctuation at the end of a word or beside a separator is removed |
//! | `private-use`, `replacement-character`, `unassigned`, `mixed-script` | `_` where they are errors, else nothing |
//! | `leading-space`, `trailing-space`, `trailing-dot` | removed |
//! | `leading-dash`, `leading-tilde`, `dot-git-lookalike` | `_` in front |
//! | `reserved-name` | `_` after the base, before the extension, or within the word |
//! | `empty-name`, `dot-name`, a raw NUL or `/` | `_` |
//!
//! What is replaced is a user-perceived character (UAX #29): with its marks, and a sequence of emoji as a whole.

use std::cmp::Reverse;
use std::iter;

use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointMapDataBorrowed};
use unicode_segmentation::GraphemeCursor;

use super::shorten::split;
use super::{Confidence, Step, Suggester};
use crate::name::Span;
use crate::name::normalize::{Form, to_form};
use crate::name::scalar::{is_default_ignorable, meant_by_smb};
use crate::name::script;
use crate::name::substitutes::meanings_of_private;
use crate::policy::profile::{NamePart, Test};
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{Policy, Violation};

const CATEGORY: CodePointMapDataBorrowed<'static, GeneralCategory> =
    CodePointMapData::<GeneralCategory>::new();

/// A replacement of a part of a name.
struct Edit {
    span: Span,
    with: char,
    /// How often the character stands in place of the part.
    times: usize,
    confidence: Confidence,
}

impl Edit {
    fn insert(at: usize, c: char) -> Self {
        Self::replace(Span::new(at, at), c)
    }

    fn replace(span: Span, with: char) -> Self {
        Self { span, with, times: 1, confidence: Confidence::Likely }
    }

    fn remove(span: Span) -> Self {
        Self { times: 0, ..Self::replace(span, ' ') }
    }

    fn with_confidence(self, confidence: Confidence) -> Self {
        Self { confidence, ..self }
    }
}

/// The replacement for characters that are not allowed: that of the policy, or the first of a few that are allowed.
pub(super) fn stand_in(policy: &Policy) -> char {
    let find = || ['_', '-', 'x', 'X', '0'].into_iter().find(|&c| is_unreserved(policy, c));
    // If all are reserved, any will do: the result is invalid, so no name is suggested.
    policy.replacement.or_else(find).unwrap_or('_')
}

fn is_unreserved(policy: &Policy, c: char) -> bool {
    if let Some(reserved) = policy.tables.reserved_ascii.get(c as usize) {
        return reserved.is_none();
    }
    !policy.rules.iter().any(|rule| matches!(&rule.test, Test::Reserved(set) if set.contains(c)))
}

impl Suggester<'_> {
    /// Applies all edits that the `violations` of `name` need; `None` if there are none.
    pub(super) fn edited(&self, name: &str, violations: &[Violation]) -> Option<Step> {
        let mut edits = Vec::new();
        for violation in violations.iter().filter(|v| self.repairs(v.rule, v.severity)) {
            // It may be part of a character that is replaced already.
            let is_done = edits.last().is_some_and(|last: &Edit| {
                let Span { start, end } = violation.span;
                start < end && last.span.start <= start && end <= last.span.end
            });
            if !is_done {
                self.edit(name, violation, &mut edits);
            }
        }
        // Insertions first, and an escape sequence before the control that it begins with.
        edits.sort_by_key(|edit| (edit.span.start, !edit.span.is_empty(), Reverse(edit.span.end)));
        let confidence = edits.iter().map(|edit| edit.confidence).max()?;
        Some(Step::new(applied(name, &edits), confidence))
    }

    fn edit(&self, name: &str, violation: &Violation, edits: &mut Vec<Edit>) {
        let Violation { rule, span, severity, is_certain, .. } = *violation;
        if !is_certain {
            return;
        }
        let front = || Edit::insert(0, self.stand_in);
        match rule {
            RuleId::C0Control if span_of(name, span) == "\u{1B}" => {
                edits.push(Edit::remove(Span::new(span.start, span.end + sequence_len(&name[span.end..]))));
            }
            RuleId::C0Control | RuleId::C1Control | RuleId::LineSeparator => {
                edits.push(self.without_gap(name, span));
            }
            RuleId::Delete
            | RuleId::Iso2022Escape
            | RuleId::Noncharacter
            | RuleId::ByteOrderMark
            | RuleId::BidiControl
            | RuleId::DefaultIgnorable
            | RuleId::TagCharacter => edits.push(Edit::remove(span)),
            RuleId::NonAsciiSpace => edits.push(Edit::replace(span, ' ')),
            RuleId::SmbPrivateUse => edits.extend(only(name, span).map(|c| self.restored(name, c, span))),
            RuleId::ReservedCharacter => {
                edits.extend(only(name, span).and_then(|c| self.unreserved(name, c, violation)))
            }
            RuleId::EmptyName | RuleId::LeadingDash | RuleId::LeadingTilde => edits.push(front()),
            RuleId::DotName | RuleId::NulSmuggling | RuleId::SeparatorSmuggling => {
                edits.push(Edit { times: span.len(), ..Edit::replace(span, self.stand_in) });
            }
            RuleId::LostCharacters if severity == Severity::Error => {
                let edit = Edit { times: span.len(), ..Edit::replace(span, self.stand_in) };
                edits.push(edit.with_confidence(Confidence::Guess));
            }
            RuleId::PrivateUse | RuleId::ReplacementCharacter | RuleId::Unassigned
                if severity == Severity::Error =>
            {
                edits.push(self.replaced(name, span).with_confidence(Confidence::Guess));
            }
            RuleId::LeadingSpace => {
                let rest = name.trim_start_matches(' ');
                edits.push(Edit::remove(Span::new(0, name.len() - rest.len())));
            }
            RuleId::TrailingSpace | RuleId::TrailingDot => {
                let weight = |rule: RuleId| self.policy.tables.plain[rule as usize];
                let is_on = |rule| weight(rule).is_some_and(|weight| self.repairs(rule, weight.severity));
                let (space, dot) = (is_on(RuleId::TrailingSpace), is_on(RuleId::TrailingDot));
                let kept = name.trim_end_matches(|c| c == ' ' && space || c == '.' && dot);
                edits.push(Edit::remove(Span::new(kept.len(), name.len())));
            }
            RuleId::ReservedName => self.edit_reserved_name(name, span, edits),
            // For Windows another name begins after a backslash.
            RuleId::DotGitLookalike if name.contains('\\') => {
                let backslashes = name.match_indices('\\');
                edits.extend(backslashes.map(|(at, _)| Edit::replace(Span::new(at, at + 1), self.stand_in)));
            }
            RuleId::DotGitLookalike => edits.push(front()),
            RuleId::MixedScript if severity == Severity::Error => self.edit_mixed_words(name, edits),
            _ => {}
        }
    }

    /// Replaces the user-perceived character around `span`.
    fn replaced(&self, name: &str, span: Span) -> Edit {
        Edit::replace(character_around(name, span), self.stand_in)
    }

    /// Restores the character that an SMB client replaced by `c`.
    fn restored(&self, name: &str, c: char, span: Span) -> Edit {
        let mut meanings = meanings_of_private(c).map(|(_, meant)| meant);
        let confidence =
            if meanings.next() == meanings.next_back() { Confidence::Certain } else { Confidence::Guess };
        match meant_by_smb(c) {
            Some(meant) if is_unreserved(self.policy, meant) && !meant.is_control() => {
                Edit::replace(span, meant).with_confidence(confidence)
            }
            Some(meant) if !meant.is_control() => self.replaced(name, span),
            // No name gets a control back.
            _ => Edit::remove(span),
        }
    }

    /// Replaces a control or a separator between two words by a space, unless there is one; removes any other.
    fn without_gap(&self, name: &str, span: Span) -> Edit {
        let (before, rest) = name.split_at_checked(span.start).unwrap_or((name, ""));
        let parts_words = rest.starts_with(is_gap)
            && before.chars().rev().find(|&c| !vanishes(c)).is_some_and(|c| c != ' ' && !is_gap(c))
            && rest.chars().find(|&c| !vanishes(c) && !is_gap(c)).is_some_and(|c| c != ' ' && c != '.');
        match parts_words {
            true if is_unreserved(self.policy, ' ') => Edit::replace(span, ' '),
            true => Edit::replace(span, self.stand_in),
            false => Edit::remove(span),
        }
    }

    /// Replaces `c`, which is reserved.
    fn unreserved(&self, name: &str, c: char, violation: &Violation) -> Option<Edit> {
        let span = violation.span;
        if GeneralCategoryGroup::Mark.contains(CATEGORY.get(c)) {
            return Some(Edit::remove(with_ignorable(name, span)));
        }
        let bare = match c.is_ascii() {
            true => c,
            false => to_form(c.encode_utf8(&mut [0; 4]), Form::Nfd).chars().next().unwrap_or(c),
        };
        let other_case =
            if bare.is_ascii_lowercase() { bare.to_ascii_uppercase() } else { bare.to_ascii_lowercase() };
        let nearest = [bare, other_case]
            .into_iter()
            .find(|&other| other.is_ascii_alphanumeric() && is_unreserved(self.policy, other));
        match nearest {
            Some(nearest) => Some(Edit::replace(span, nearest)),
            // A replacement that is reserved itself would be replaced forever.
            None if c == self.stand_in => None,
            // A name without its letters is useless, which is worse than a warning.
            None if c.is_alphanumeric() => (violation.severity == Severity::Error)
                .then(|| self.replaced(name, span).with_confidence(Confidence::Guess)),
            None if self.is_left_out(name, c, span) => Some(Edit::remove(span)),
            None => Some(self.replaced(name, span)),
        }
    }

    /// Whether `c`, which is reserved, is punctuation whose place a reader sees without a replacement: `Was?.doc`, `Dr. Who: Ep. 1`.
    fn is_left_out(&self, name: &str, c: char, span: Span) -> bool {
        const PUNCTUATION: &[char] =
            &['?', '!', ':', ';', ',', '"', '\'', '*', '<', '>', '|', '“', '”', '„', '‘', '’'];
        /// More punctuation in a row is no punctuation.
        const MAX_RUN: usize = 4;
        let is_separator = |c: char| matches!(c, ' ' | '-' | '_');
        let is_left_out = |c: char| PUNCTUATION.contains(&c) && !is_unreserved(self.policy, c);
        if !self.leaves_out || !PUNCTUATION.contains(&c) {
            return false;
        }
        let (before, after) = (&name[..span.start], &name[span.end..]);
        // The first character that stays on each side; `None` at the end of the name.
        let stays = |side: &mut dyn Iterator<Item = char>| {
            let mut run = side.take(MAX_RUN + 1).skip_while(|&c| is_left_out(c));
            run.next()
        };
        let (last, first) = (stays(&mut before.chars().rev()), stays(&mut after.chars()));
        if last.is_none() && before.len() > MAX_RUN || first.is_none() && after.len() > MAX_RUN {
            return false;
        }
        let begins_word = last.is_none_or(is_separator);
        let is_extension = first == Some('.')
            && after.ends_with(split(name).1)
            && split(name).1.len() + MAX_RUN >= after.len();
        let ends_word = first.is_none_or(is_separator) || is_extension;
        match (begins_word, ends_word) {
            // A replacement would be all that stands there.
            (true, true) => false,
            (true, false) => last.is_some() || first.is_some_and(char::is_alphanumeric),
            (false, ends_word) => ends_word,
        }
    }

    /// Changes the reserved word at `span`.
    fn edit_reserved_name(&self, name: &str, span: Span, edits: &mut Vec<Edit>) {
        let found = span_of(name, span);
        let rules = self.policy.rules.iter().filter_map(|rule| match &rule.test {
            Test::Named(names) => Some(names),
            _ => None,
        });
        let words = rules.flat_map(|names| names.iter().map(move |word| (names.part, word)));
        for (part, word) in words.filter(|(_, word)| word.eq_ignore_ascii_case(found)) {
            let edit = match part {
                NamePart::Base if span.start == 0 => Edit::insert(span.end, self.stand_in),
                NamePart::Whole if span == Span::new(0, name.len()) => {
                    Edit::insert(split(name).0.len(), self.stand_in)
                }
                NamePart::Prefix if span.start == 0 => Edit::insert(0, self.stand_in),
                NamePart::Suffix if span.end == name.len() => Edit::insert(name.len(), self.stand_in),
                NamePart::Anywhere => return self.edit_every(name, word, edits),
                _ => continue,
            };
            edits.push(edit);
            return;
        }
    }

    /// Changes `word` wherever it occurs in `name`, not only where it was reported.
    fn edit_every(&self, name: &str, word: &str, edits: &mut Vec<Edit>) {
        let middle = word.char_indices().nth(word.chars().count() / 2).map_or(0, |(at, _)| at);
        let bytes = name.as_bytes();
        for at in 0..=bytes.len().saturating_sub(word.len()) {
            if !bytes[at..].get(..word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word.as_bytes())) {
                continue;
            }
            if word.len() > 1 && word.starts_with('_') && word.ends_with('_') {
                let end = at + word.len();
                edits.extend([at, end - 1].map(|at| self.without_underscore(name, at)));
                continue;
            }
            edits.push(match middle {
                0 => Edit::replace(Span::new(at, at + word.len()), self.stand_in),
                _ => Edit::insert(at + middle, self.stand_in),
            });
        }
    }

    /// Removes the underscore at `at`, or replaces it between two words.
    fn without_underscore(&self, name: &str, at: usize) -> Edit {
        let (before, after) = (&name[..at], &name[at + 1..]);
        let parts_words = before.ends_with(char::is_alphanumeric) && after.starts_with(char::is_alphanumeric);
        let other = ['-', ' ', '.'].into_iter().find(|&c| is_unreserved(self.policy, c));
        match other.filter(|_| parts_words) {
            Some(other) => Edit::replace(Span::new(at, at + 1), other),
            None => Edit::remove(Span::new(at, at + 1)),
        }
    }

    /// Keeps only the ASCII of each word that mixes scripts; replaces a word without ASCII letters.
    fn edit_mixed_words(&self, name: &str, edits: &mut Vec<Edit>) {
        let mut from = 0;
        while let Some(word) = script::mixed(&name[from..]) {
            let word = Span::new(from + word.start, from + word.end);
            from = word.end;
            let text = span_of(name, word);
            if !text.bytes().any(|b| b.is_ascii_alphabetic()) {
                edits.push(self.replaced(name, word).with_confidence(Confidence::Guess));
                continue;
            }
            let foreign = text.char_indices().filter(|(_, c)| !c.is_ascii());
            edits.extend(foreign.map(|(at, c)| {
                let start = word.start + at;
                Edit::replace(Span::new(start, start + c.len_utf8()), self.stand_in)
                    .with_confidence(Confidence::Guess)
            }));
        }
    }
}

/// The user-perceived character around `span`, unless it has a letter or a digit besides.
fn character_around(name: &str, span: Span) -> Span {
    let (before, after) = (&name[..span.start], &name[span.end..]);
    // Nothing joins ASCII, which most neighbours are.
    if !before.ends_with(|c: char| !c.is_ascii()) && !after.starts_with(|c: char| !c.is_ascii()) {
        return span;
    }
    let cursor = || GraphemeCursor::new(span.start, name.len(), true);
    let start = match cursor().is_boundary(name, 0) {
        Ok(false) => cursor().prev_boundary(name, 0).ok().flatten().unwrap_or(span.start),
        _ => span.start,
    };
    let end = cursor().next_boundary(name, 0).ok().flatten().map_or(span.end, |end| end.max(span.end));
    let is_letter = |c: char| {
        let category = CATEGORY.get(c);
        GeneralCategoryGroup::Letter.contains(category) || GeneralCategoryGroup::Number.contains(category)
    };
    let has_letter = name[start..span.start].contains(is_letter) || name[span.end..end].contains(is_letter);
    if has_letter { span } else { Span::new(start, end) }
}

/// `span` with the invisible characters on both sides.
fn with_ignorable(name: &str, span: Span) -> Span {
    let before = name[..span.start].trim_end_matches(is_default_ignorable);
    let after = name[span.end..].trim_start_matches(is_default_ignorable);
    Span::new(before.len(), name.len() - after.len())
}

/// The length of the escape sequence at the start of `rest`, which follows an ESC: a control sequence (ISO/IEC 6429), which colours
/// text, or a designation of a character set (ISO/IEC 2022). They mean nothing without their ESC.
fn sequence_len(rest: &str) -> usize {
    match rest.as_bytes() {
        // Others would be digits and small letters, which begin words. ESC % 8 was UTF-8 on the console (console_codes(4)).
        [b'$', b'@'..=b'B', ..] | [b'(' | b')' | b'*' | b'+', b'0' | b'@'..=b'Z', ..] => return 2,
        [b'-', b'A'..=b'Z', ..] | [b'.', b'A' | b'F', ..] | [b'%', b'8' | b'@'..=b'Z', ..] => return 2,
        [b'$', b'(' | b')' | b'*' | b'+', b'@'..=b'Z', ..] | [b'%', b'/', b'@'..=b'Z', ..] => return 3,
        _ => {}
    }
    let Some(parameters) = rest.strip_prefix('[') else { return 0 };
    let end = parameters.bytes().position(|b| !matches!(b, b' '..=b'?')).unwrap_or(parameters.len());
    match parameters.as_bytes().get(end) {
        Some(b'@'..=b'~') => end + 2,
        _ => 0,
    }
}

/// Whether a reader sees a space or a new line: tab to carriage return, next line, the separators.
fn is_gap(c: char) -> bool {
    matches!(c, '\t'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether `c` is removed without a replacement.
fn vanishes(c: char) -> bool {
    c.is_control() && !is_gap(c)
}

fn span_of(name: &str, span: Span) -> &str {
    name.get(span.start..span.end).unwrap_or_default()
}

/// The character at `span`, if it is one.
fn only(name: &str, span: Span) -> Option<char> {
    let mut chars = span_of(name, span).chars();
    chars.next().filter(|_| chars.as_str().is_empty())
}

/// Applies `edits`, which are sorted, to `name`. Of two edits at the same position only the first is applied; the next step
/// handles the other if it is still needed.
fn applied(name: &str, edits: &[Edit]) -> String {
    let mut edited = String::with_capacity(name.len() + edits.len());
    let (mut at, mut inserted_at) = (0, None);
    for &Edit { span, with, times, .. } in edits {
        if span.start < at || span.is_empty() && inserted_at == Some(span.start) {
            continue;
        }
        edited.push_str(span_of(name, Span::new(at, span.start)));
        edited.extend(iter::repeat_n(with, times));
        at = span.end;
        inserted_at = span.is_empty().then_some(span.start);
    }
    edited.push_str(span_of(name, Span::new(at, name.len())));
    edited
}
