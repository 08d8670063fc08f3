//! From profiles and settings to one immutable policy.
//!
//! Lines with the same test become one, the stricter severity wins. What can be decided by looking a byte up in a table
//! is put into that table, so that an ordinary name costs one pass over its bytes ([`Policy::is_suspect`]).

use std::collections::BTreeMap;
use std::fmt;

use super::profile::{Limit, Line, Part, Profile, ProfileSet, Test, Unit};
use super::rule::{Kind, RuleId, Severity};
use crate::name::age::{self, Assigned};
use crate::name::normalize::Form;

/// What happens to a name that is not in the normalization form asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnMismatch {
    /// It is refused.
    Refuse,
    /// It is stored in the form.
    Convert,
    /// It is stored as given, and found by every equivalent spelling.
    Match,
}

impl OnMismatch {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Refuse, Self::Convert, Self::Match];

    /// `refuse`, `convert` or `match`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Convert => "convert",
            Self::Match => "match",
        }
    }
}

/// The normalization that a policy asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Normalization {
    /// The form.
    pub form: Form,
    /// What happens to a name in another form.
    pub on_mismatch: OnMismatch,
}

/// A line that is in force, with all profiles that ask for it.
#[derive(Clone, Debug)]
pub struct Active {
    /// What is looked for.
    pub test: Test,
    /// The strictest severity that a profile or the configuration gives it.
    pub severity: Severity,
    /// Who asks for it.
    pub profiles: ProfileSet,
    /// Where it comes from.
    pub source: &'static str,
    /// Whether that was checked.
    pub verified: bool,
}

/// Who objects, and how strongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) severity: Severity,
    pub(super) profiles: ProfileSet,
}

impl Hit {
    pub(super) fn merge(self, other: Self) -> Self {
        Self { severity: self.severity.max(other.severity), profiles: self.profiles.union(other.profiles) }
    }
}

impl Active {
    pub(super) fn hit(&self) -> Hit {
        Hit { severity: self.severity, profiles: self.profiles }
    }
}

/// The whole decision about names, immutable. Made by [`Policy::of`] or [`Policy::builder`].
#[derive(Clone, Debug)]
pub struct Policy {
    pub(super) profiles: Vec<&'static Profile>,
    pub(super) lines: Vec<Active>,
    pub(super) normalization: Option<Normalization>,
    /// Everyone who asks for anything: all of them ask for UTF-8.
    pub(super) everyone: ProfileSet,
    pub(super) plain: [Option<Hit>; RULES_LEN],
    /// Versions of Unicode other than the one compiled in, for `unassigned`.
    pub(super) ages: Vec<(Assigned, Hit)>,
    /// Whether any rule looks at single code points beyond ASCII.
    pub(super) reads_scalars: bool,
    pub(super) quick: Quick,
}

/// The number of rules, for tables indexed by [`RuleId`].
pub(super) const RULES_LEN: usize = RuleId::PathTooLong as usize + 1;

/// What one look at each byte can rule out.
#[derive(Clone, Debug)]
pub(super) struct Quick {
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

impl Policy {
    /// The policy of some profiles together; of none of them, UTF-8 alone.
    pub fn of(profiles: &[&'static Profile]) -> Self {
        Self::builder().profiles(profiles).build().expect("a profile's lines carry their parameters")
    }

    /// For a policy that is more than profiles.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The profiles that it was made of.
    pub fn profiles(&self) -> &[&'static Profile] {
        &self.profiles
    }

    /// All lines in force, in the order of their rules.
    pub fn lines(&self) -> &[Active] {
        &self.lines
    }

    /// All who ask for anything: the profiles, and the configuration if it asks for more.
    pub fn asked_by(&self) -> ProfileSet {
        self.everyone
    }

    /// The normalization asked for.
    pub fn normalization(&self) -> Option<Normalization> {
        self.normalization
    }

    /// Whether nothing but the encoding is judged, so that well-formed UTF-8 without NUL and `/` is all there is to it.
    pub fn is_encoding_only(&self) -> bool {
        self.lines.is_empty() && self.normalization.is_none_or(|n| n.on_mismatch == OnMismatch::Match)
    }

    /// Whether a closer look at `name` is needed. `false` means: no violation, if the name is UTF-8.
    pub(super) fn is_suspect(&self, name: &[u8]) -> bool {
        let quick = &self.quick;
        let (Some(&first), Some(&last)) = (name.first(), name.last()) else { return true };
        let seen = name.iter().fold(0, |seen, &b| seen | quick.flags[usize::from(b)]);
        let limit = if seen & NON_ASCII == 0 { quick.ascii_bytes } else { quick.any_bytes };
        seen & ANYWHERE != 0
            || quick.flags[usize::from(first)] & FIRST != 0
            || quick.flags[usize::from(last)] & LAST != 0
            || name.len() > limit
            || quick.may_be_reserved(name, first)
            || matches!(name, b"." | b"..")
    }
}

impl Quick {
    fn may_be_reserved(&self, name: &[u8], first: u8) -> bool {
        let letter = usize::from((first | 0x20).wrapping_sub(b'a'));
        let Some(&lengths) = self.base_lengths.get(letter) else { return false };
        if lengths == 0 {
            return false;
        }
        // The base ends at the first dot or colon, or where its trailing spaces begin.
        let len = name.iter().take(32).take_while(|b| !matches!(b, b'.' | b' ' | b':')).count();
        len < 32 && lengths & 1 << len != 0
    }
}

/// Collects what a policy is made of.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    profiles: Vec<&'static Profile>,
    lines: Vec<Line>,
    severities: BTreeMap<RuleId, Option<Severity>>,
    normalization: Option<Normalization>,
}

/// A severity was given to a rule whose parameter nothing supplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingParameter(pub RuleId);

impl fmt::Display for MissingParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.0 {
            RuleId::ReservedCharacter => {
                "characters: name a profile that reserves some, or set `reserved-characters`"
            }
            RuleId::ReservedName => "names: name a profile that reserves some, or set `reserved-names`",
            RuleId::NotInForm => "form: set `normalization.form`",
            RuleId::NameTooLong | RuleId::PathTooLong => {
                "length: name a profile that has one, or set one in `limits`"
            }
            _ => "equivalence: name a profile whose target treats names as equal",
        };
        write!(f, "rule `{}` is on and has no {what}", self.0)
    }
}

impl std::error::Error for MissingParameter {}

impl Builder {
    /// Adds profiles; naming one twice changes nothing.
    pub fn profiles(mut self, profiles: &[&'static Profile]) -> Self {
        for &profile in profiles {
            if !self.profiles.iter().any(|p| p.name == profile.name) {
                self.profiles.push(profile);
            }
        }
        self
    }

    /// Adds a line of the configuration's own.
    pub fn line(mut self, line: Line) -> Self {
        self.lines.push(line);
        self
    }

    /// Sets the severity of a rule, `None` for off, whatever the profiles say. Encoding rules stay errors.
    pub fn severity(mut self, rule: RuleId, severity: Option<Severity>) -> Self {
        if !rule.is_always_on() {
            self.severities.insert(rule, severity);
        }
        self
    }

    /// Sets the normalization.
    pub fn normalization(mut self, normalization: Normalization) -> Self {
        self.normalization = Some(normalization);
        self
    }

    /// Compiles the policy.
    ///
    /// # Errors
    /// A rule was switched on that needs a parameter which no profile and no setting supplies.
    pub fn build(self) -> Result<Policy, MissingParameter> {
        let mut lines: Vec<Active> = Vec::new();
        for profile in &self.profiles {
            let by = ProfileSet::of(profile);
            profile.all_lines().into_iter().for_each(|line| activate(&mut lines, line, by));
        }
        for line in &self.lines {
            activate(&mut lines, line, ProfileSet::CONFIG);
        }
        if let Some(Normalization { form, on_mismatch }) = self.normalization {
            let line = match on_mismatch {
                OnMismatch::Refuse => Some(Line::error(Test::Form(form), "the policy's normalization")),
                OnMismatch::Convert => Some(Line::warn(Test::Form(form), "the policy's normalization")),
                OnMismatch::Match => None,
            };
            if let Some(line) = line {
                activate(&mut lines, &line, ProfileSet::CONFIG);
            }
        }
        for (&rule, &severity) in &self.severities {
            override_severity(&mut lines, rule, severity)?;
        }
        lines.sort_by_key(|line| line.test.rule());
        let everyone = self
            .profiles
            .iter()
            .map(|p| ProfileSet::of(p))
            .chain(lines.iter().map(|line| line.profiles))
            .collect::<ProfileSet>();
        let everyone = if everyone == ProfileSet::EMPTY { ProfileSet::CONFIG } else { everyone };
        Ok(assemble(self.profiles, lines, self.normalization, everyone))
    }
}

/// Puts a line in force, or joins it to the one with the same test.
fn activate(lines: &mut Vec<Active>, line: &Line, by: ProfileSet) {
    match lines.iter_mut().find(|active| active.test == line.test) {
        Some(active) => {
            if line.severity > active.severity {
                (active.severity, active.source, active.verified) =
                    (line.severity, line.source, line.verified);
            }
            active.profiles = active.profiles.union(by);
        }
        None => lines.push(Active {
            test: line.test.clone(),
            severity: line.severity,
            profiles: by,
            source: line.source,
            verified: line.verified,
        }),
    }
}

fn override_severity(
    lines: &mut Vec<Active>,
    rule: RuleId,
    severity: Option<Severity>,
) -> Result<(), MissingParameter> {
    let Some(severity) = severity else {
        lines.retain(|line| line.test.rule() != rule);
        return Ok(());
    };
    let mut found = false;
    for line in lines.iter_mut().filter(|line| line.test.rule() == rule) {
        line.severity = severity;
        found = true;
    }
    if !found {
        let test = match rule {
            RuleId::ReservedCharacter
            | RuleId::ReservedName
            | RuleId::NameTooLong
            | RuleId::PathTooLong
            | RuleId::NotInForm
            | RuleId::CollisionNormalization
            | RuleId::CollisionCase => return Err(MissingParameter(rule)),
            RuleId::Unassigned => Test::Unassigned(None),
            _ => Test::Plain(rule),
        };
        let source = rule.rule().source;
        lines.push(Active { test, severity, profiles: ProfileSet::CONFIG, source, verified: true });
    }
    Ok(())
}

fn assemble(
    profiles: Vec<&'static Profile>,
    lines: Vec<Active>,
    normalization: Option<Normalization>,
    everyone: ProfileSet,
) -> Policy {
    let mut plain = [None; RULES_LEN];
    let mut ages = Vec::new();
    for line in &lines {
        match line.test {
            Test::Plain(rule) => plain[rule as usize] = Some(line.hit()),
            Test::Unassigned(None) => plain[RuleId::Unassigned as usize] = Some(line.hit()),
            Test::Unassigned(Some((major, minor))) => {
                let assigned =
                    age::assigned_by((major, minor)).expect("profiles state known versions of Unicode");
                ages.push((assigned, line.hit()));
            }
            _ => {}
        }
    }
    let scalar = |line: &Active| line.test.rule().rule().kind == Kind::Scalar;
    let reads_scalars = lines.iter().any(scalar);
    let converts = normalization.is_some_and(|n| n.on_mismatch == OnMismatch::Convert);
    let quick = Quick::new(&lines, &plain, reads_scalars, converts);
    Policy { profiles, lines, normalization, everyone, plain, ages, reads_scalars, quick }
}

impl Quick {
    fn new(lines: &[Active], plain: &[Option<Hit>; RULES_LEN], reads_scalars: bool, converts: bool) -> Self {
        let on = |rule: RuleId| plain[rule as usize].is_some();
        let mut quick =
            Self { flags: [0; 256], ascii_bytes: usize::MAX, any_bytes: usize::MAX, base_lengths: [0; 26] };
        let mut mark = |byte: u8, bit: u8| {
            quick.flags[usize::from(byte.to_ascii_lowercase())] |= bit;
            quick.flags[usize::from(byte.to_ascii_uppercase())] |= bit;
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
        let mut limits: Vec<Limit> = Vec::new();
        for line in lines {
            match &line.test {
                Test::Reserved(chars) => {
                    (0..0x80_u8).filter(|&b| chars.contains(char::from(b))).for_each(|b| mark(b, ANYWHERE));
                }
                Test::Named(names) => {
                    for word in names.iter() {
                        let bytes = word.as_bytes();
                        match names.part {
                            Part::Base => bases.push(word),
                            Part::Whole | Part::Prefix | Part::Repeated => mark(bytes[0], FIRST),
                            Part::Suffix => mark(bytes[bytes.len() - 1], LAST),
                            Part::Anywhere => mark(bytes[0], ANYWHERE),
                        }
                    }
                }
                Test::Length(limit) => limits.push(*limit),
                _ => {}
            }
        }
        let names_beyond_ascii =
            lines.iter().any(|line| matches!(&line.test, Test::Named(n) if !n.words.is_ascii()));
        let shapes = [RuleId::MixedScript, RuleId::Mojibake, RuleId::DotGitLookalike];
        let reads_non_ascii = reads_scalars
            || converts
            || names_beyond_ascii
            || shapes.into_iter().any(on)
            || lines.iter().any(|line| matches!(line.test, Test::Form(_)));
        quick.flags[0x80..].fill(if reads_non_ascii { ANYWHERE | NON_ASCII } else { NON_ASCII });
        for word in bases {
            let letter = usize::from(word.as_bytes()[0].to_ascii_lowercase().wrapping_sub(b'a'));
            match quick.base_lengths.get_mut(letter) {
                Some(lengths) if word.len() < 32 => *lengths |= 1 << word.len(),
                // Too unusual for the table: every name with that first byte gets a closer look.
                _ => quick.flags[usize::from(word.as_bytes()[0])] |= FIRST,
            }
        }
        for limit in limits {
            // An OSTA string has one byte more than its ASCII text.
            let extra = usize::from(limit.unit == Unit::OstaBytes);
            quick.ascii_bytes = quick.ascii_bytes.min(limit.max.saturating_sub(extra));
            // A normal form can have up to three times the bytes (U+0390 in NFD: 2 to 6), with compatibility eleven times
            // (U+FDFA: 3 to 33), an OSTA string twice.
            let growth = match limit.unit {
                Unit::Bytes | Unit::Utf16 | Unit::CodePoints => 1,
                Unit::BytesIn(form) | Unit::Utf16In(form) if form.is_compatibility() => 11,
                _ => 4,
            };
            quick.any_bytes = quick.any_bytes.min(limit.max / growth);
        }
        // Stems and extensions are parts, and their limits are tiny: no name is too short to be looked at.
        quick
    }
}

#[cfg(test)]
mod tests;
