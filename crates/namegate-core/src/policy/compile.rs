//! From profiles and settings to one immutable policy.
//!
//! Lines with the same test become one, the stricter severity wins. What a check needs of the lines is then sorted into
//! [`Tables`], and what a look at single bytes can rule out into [`Quick`].

use std::collections::BTreeMap;
use std::fmt;

use super::profile::{Line, Profile, ProfileSet, Test};
use super::quick::Quick;
use super::rule::{RuleId, Severity};
use super::tables::{Hit, Tables};
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
    /// Those of `profiles` to whom it is an error.
    pub refused_by: ProfileSet,
    /// Where it comes from.
    pub source: &'static str,
    /// Whether that was checked.
    pub verified: bool,
    /// Whether a target takes such a name and stores or shows another one instead.
    pub stored_otherwise: bool,
}

impl Active {
    pub(super) fn hit(&self) -> Hit {
        Hit { severity: self.severity, profiles: self.profiles, refused_by: self.refused_by }
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
    pub(super) tables: Tables,
    pub(super) quick: Quick,
}

impl Policy {
    /// The policy of some profiles together; of none of them, UTF-8 alone.
    pub fn of(profiles: &[&'static Profile]) -> Self {
        Self::builder().profiles(profiles).build().expect("a profile's lines carry their parameters")
    }

    /// Starts a policy that is more than profiles.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The profiles of the policy.
    pub fn profiles(&self) -> &[&'static Profile] {
        &self.profiles
    }

    /// All lines in effect, in the order of their rules.
    pub fn lines(&self) -> &[Active] {
        &self.lines
    }

    /// The profiles that have rules, and the configuration if it adds some.
    pub fn asked_by(&self) -> ProfileSet {
        self.everyone
    }

    /// The normalization of the policy.
    pub fn normalization(&self) -> Option<Normalization> {
        self.normalization
    }

    /// Whether the policy checks the encoding alone: every name of well-formed UTF-8 without NUL and `/` is valid.
    pub fn is_encoding_only(&self) -> bool {
        self.lines.is_empty() && self.normalization.is_none_or(|n| n.on_mismatch == OnMismatch::Match)
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
    let refused_by = if line.severity == Severity::Error { by } else { ProfileSet::EMPTY };
    match lines.iter_mut().find(|active| active.test == line.test) {
        Some(active) => {
            if line.severity > active.severity {
                (active.severity, active.source, active.verified) =
                    (line.severity, line.source, line.verified);
            }
            active.profiles = active.profiles.union(by);
            active.refused_by = active.refused_by.union(refused_by);
            active.stored_otherwise |= line.stored_otherwise;
        }
        None => lines.push(Active {
            test: line.test.clone(),
            severity: line.severity,
            profiles: by,
            refused_by,
            source: line.source,
            verified: line.verified,
            stored_otherwise: line.stored_otherwise,
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
        line.refused_by = if severity == Severity::Error { line.profiles } else { ProfileSet::EMPTY };
        found = true;
    }
    if !found {
        let test = match rule {
            _ if rule.needs_parameter() => return Err(MissingParameter(rule)),
            RuleId::Unassigned => Test::Unassigned(None),
            _ => Test::Plain(rule),
        };
        let source = rule.rule().source;
        let line = Line { test, severity, source, verified: true, stored_otherwise: false };
        activate(lines, &line, ProfileSet::CONFIG);
    }
    Ok(())
}

fn assemble(
    profiles: Vec<&'static Profile>,
    lines: Vec<Active>,
    normalization: Option<Normalization>,
    everyone: ProfileSet,
) -> Policy {
    let converts = normalization.is_some_and(|n| n.on_mismatch == OnMismatch::Convert);
    let tables = Tables::new(&lines);
    let quick = Quick::new(&lines, &tables, converts);
    Policy { profiles, lines, normalization, everyone, tables, quick }
}

#[cfg(test)]
mod tests;
