//! The change for each rule: the smallest edit at the position of the violation.
//!
//! | rule | change |
//! |---|---|
//! | tab, line feed and other controls that separate words, line separators | U+0020 between words, else removed |
//! | an escape sequence | removed, if it is one of ISO 2022 or a control sequence |
//! | other controls, noncharacters, byte order mark, bidi controls, ignorable and tag characters | removed |
//! | `non-ascii-space` | U+0020 |
//! | `smb-private-use` | the character that it replaces, if the policy allows that, else `_` |
//! | `reserved-character` | the other case or the bare letter, if the policy allows that, else `_`; other letters and digits only where they are errors |
//! | `private-use`, `replacement-character`, `unassigned`, `mixed-script` | `_` where they are errors, else nothing |
//! | `leading-space`, `trailing-space`, `trailing-dot` | removed |
//! | `leading-dash`, `leading-tilde`, `dot-git-lookalike` | `_` in front |
//! | `reserved-name` | `_` after the base, before the extension, or within the word |
//! | `empty-name`, `dot-name`, a raw NUL or `/` | `_` |

use std::cmp::Reverse;
use std::iter;

use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointMapDataBorrowed};

use super::shorten::split;
use super::{Confidence, Step, Suggester};
use crate::name::Span;
use crate::name::normalize::{Form, to_form};
use crate::name::scalar::meant_by_smb;
use crate::name::script;
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
        for violation in violations {
            self.edit(name, violation, &mut edits);
        }
        // Insertions first, and an escape sequence before the control that it begins with.
        edits.sort_by_key(|edit| (edit.span.start, !edit.span.is_empty(), Reverse(edit.span.end)));
        let confidence = edits.iter().map(|edit| edit.confidence).max()?;
        Some(Step { name: applied(name, &edits), confidence })
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
            RuleId::SmbPrivateUse => edits.extend(only(name, span).map(|c| self.restored(c, span))),
            RuleId::ReservedCharacter => {
                edits.extend(only(name, span).and_then(|c| self.unreserved(c, violation)))
            }
            RuleId::EmptyName | RuleId::LeadingDash | RuleId::LeadingTilde => edits.push(front()),
            RuleId::DotName | RuleId::NulSmuggling | RuleId::SeparatorSmuggling => {
                edits.push(Edit { times: span.len(), ..Edit::replace(span, self.stand_in) });
            }
            RuleId::PrivateUse | RuleId::ReplacementCharacter | RuleId::Unassigned
                if severity == Severity::Error =>
            {
                edits.push(Edit::replace(span, self.stand_in).with_confidence(Confidence::Guess));
            }
            RuleId::LeadingSpace => {
                let rest = name.trim_start_matches(' ');
                edits.push(Edit::remove(Span::new(0, name.len() - rest.len())));
            }
            RuleId::TrailingSpace | RuleId::TrailingDot => {
                let is_on = |rule: RuleId| self.policy.tables.plain[rule as usize].is_some();
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

    /// Restores the character that an SMB client replaced by `c`.
    fn restored(&self, c: char, span: Span) -> Edit {
        match meant_by_smb(c) {
            Some(meant) if is_unreserved(self.policy, meant) && !meant.is_control() => {
                Edit::replace(span, meant).with_confidence(Confidence::Certain)
            }
            Some(meant) if !meant.is_control() => Edit::replace(span, self.stand_in),
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
    fn unreserved(&self, c: char, violation: &Violation) -> Option<Edit> {
        let span = violation.span;
        if GeneralCategoryGroup::Mark.contains(CATEGORY.get(c)) {
            return Some(Edit::remove(span));
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
                .then(|| Edit::replace(span, self.stand_in).with_confidence(Confidence::Guess)),
            None => Some(Edit::replace(span, self.stand_in)),
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
            edits.push(match middle {
                0 => Edit::replace(Span::new(at, at + word.len()), self.stand_in),
                _ => Edit::insert(at + middle, self.stand_in),
            });
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
                edits.push(Edit::replace(word, self.stand_in).with_confidence(Confidence::Guess));
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

/// The length of the escape sequence at the start of `rest`, which follows an ESC: a control sequence (ISO/IEC 6429), which colours
/// text, or a designation of a character set (ISO/IEC 2022). They mean nothing without their ESC.
fn sequence_len(rest: &str) -> usize {
    match rest.as_bytes() {
        // Others would be digits and small letters, which begin words.
        [b'$', b'@'..=b'B', ..] | [b'(' | b')' | b'*' | b'+', b'0' | b'@'..=b'Z', ..] => return 2,
        [b'-', b'A'..=b'Z', ..] | [b'.', b'A' | b'F', ..] | [b'%', b'@'..=b'Z', ..] => return 2,
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
