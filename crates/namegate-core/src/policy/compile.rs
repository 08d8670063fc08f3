//! From profiles and settings to one immutable policy.
//!
//! Lines with the same test become one, the stricter severity wins. What a check needs of the lines is then sorted into
//! [`Tables`], and what a look at single bytes can rule out into [`Prefilter`].

use std::collections::BTreeMap;
use std::fmt;

use super::prefilter::Prefilter;
use super::profile::{Profile, ProfileRule, ProfileSet, Test};
use super::rule::{RuleId, Severity};
use super::tables::{RuleWeight, Tables};
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
pub struct ActiveRule {
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

impl ActiveRule {
    pub(super) fn weight(&self) -> RuleWeight {
        RuleWeight { severity: self.severity, profiles: self.profiles, refused_by: self.refused_by }
    }
}

/// The whole decision about names, immutable. Made by [`Policy::from_profiles`] or [`Policy::builder`].
#[derive(Clone, Debug)]
pub struct Policy {
    pub(super) profiles: Vec<&'static Profile>,
    pub(super) rules: Vec<ActiveRule>,
    pub(super) normalization: Option<Normalization>,
    /// Everyone who asks for anything: all of them ask for UTF-8.
    pub(super) everyone: ProfileSet,
    pub(super) tables: Tables,
    pub(super) prefilter: Prefilter,
}

impl Policy {
    /// The policy of some profiles together; of none of them, UTF-8 alone.
    pub fn from_profiles(profiles: &[&'static Profile]) -> Self {
        Self::builder().profiles(profiles).build().expect("the rules of profiles have their parameters")
    }

    /// Starts a policy that is more than profiles.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// The profiles of the policy.
    pub fn profiles(&self) -> &[&'static Profile] {
        &self.profiles
    }

    /// All lines in effect, in the order of their rules.
    pub fn rules(&self) -> &[ActiveRule] {
        &self.rules
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
        self.rules.is_empty() && self.normalization.is_none_or(|n| n.on_mismatch == OnMismatch::Match)
    }
}

/// Collects what a policy is made of.
#[derive(Clone, Debug, Default)]
pub struct PolicyBuilder {
    profiles: Vec<&'static Profile>,
    rules: Vec<ProfileRule>,
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
                "characters: choose a profile that reserves some, or set `reserved-characters`"
            }
            RuleId::ReservedName => "names: choose a profile that reserves some, or set `reserved-names`",
            RuleId::NotInForm => "form: set `normalization.form`",
            RuleId::NameTooLong | RuleId::PathTooLong => {
                "length: choose a profile that has one, or set one in `limits`"
            }
            _ => "equivalence: choose a profile whose target treats names as equal",
        };
        write!(f, "rule `{}` is on but has no {what}", self.0)
    }
}

impl std::error::Error for MissingParameter {}

impl PolicyBuilder {
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
    pub fn rule(mut self, rule: ProfileRule) -> Self {
        self.rules.push(rule);
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
        let mut rules: Vec<ActiveRule> = Vec::new();
        for profile in &self.profiles {
            let by = ProfileSet::from_profile(profile);
            profile.all_rules().into_iter().for_each(|rule| activate(&mut rules, rule, by));
        }
        for rule in &self.rules {
            activate(&mut rules, rule, ProfileSet::CONFIG);
        }
        if let Some(Normalization { form, on_mismatch }) = self.normalization {
            let rule = match on_mismatch {
                OnMismatch::Refuse => {
                    Some(ProfileRule::error(Test::Form(form), "the policy's normalization"))
                }
                OnMismatch::Convert => {
                    Some(ProfileRule::warn(Test::Form(form), "the policy's normalization"))
                }
                OnMismatch::Match => None,
            };
            if let Some(rule) = rule {
                activate(&mut rules, &rule, ProfileSet::CONFIG);
            }
        }
        for (&id, &severity) in &self.severities {
            override_severity(&mut rules, id, severity)?;
        }
        rules.sort_by_key(|rule| rule.test.rule());
        let everyone = self
            .profiles
            .iter()
            .map(|p| ProfileSet::from_profile(p))
            .chain(rules.iter().map(|rule| rule.profiles))
            .collect::<ProfileSet>();
        let everyone = if everyone == ProfileSet::EMPTY { ProfileSet::CONFIG } else { everyone };
        Ok(assemble(self.profiles, rules, self.normalization, everyone))
    }
}

/// Activates a rule, or merges it with the one that has the same test.
fn activate(rules: &mut Vec<ActiveRule>, rule: &ProfileRule, by: ProfileSet) {
    let refused_by = if rule.severity == Severity::Error { by } else { ProfileSet::EMPTY };
    match rules.iter_mut().find(|active| active.test == rule.test) {
        Some(active) => {
            if rule.severity > active.severity {
                (active.severity, active.source, active.verified) =
                    (rule.severity, rule.source, rule.verified);
            }
            active.profiles = active.profiles.union(by);
            active.refused_by = active.refused_by.union(refused_by);
            active.stored_otherwise |= rule.stored_otherwise;
        }
        None => rules.push(ActiveRule {
            test: rule.test.clone(),
            severity: rule.severity,
            profiles: by,
            refused_by,
            source: rule.source,
            verified: rule.verified,
            stored_otherwise: rule.stored_otherwise,
        }),
    }
}

fn override_severity(
    rules: &mut Vec<ActiveRule>,
    id: RuleId,
    severity: Option<Severity>,
) -> Result<(), MissingParameter> {
    let Some(severity) = severity else {
        rules.retain(|rule| rule.test.rule() != id);
        return Ok(());
    };
    let mut found = false;
    for rule in rules.iter_mut().filter(|rule| rule.test.rule() == id) {
        rule.severity = severity;
        rule.refused_by = if severity == Severity::Error { rule.profiles } else { ProfileSet::EMPTY };
        found = true;
    }
    if !found {
        let test = match id {
            _ if id.needs_parameter() => return Err(MissingParameter(id)),
            RuleId::Unassigned => Test::Unassigned(None),
            _ => Test::Plain(id),
        };
        let source = id.rule().source;
        let rule = ProfileRule { test, severity, source, verified: true, stored_otherwise: false };
        activate(rules, &rule, ProfileSet::CONFIG);
    }
    Ok(())
}

fn assemble(
    profiles: Vec<&'static Profile>,
    rules: Vec<ActiveRule>,
    normalization: Option<Normalization>,
    everyone: ProfileSet,
) -> Policy {
    let converts = normalization.is_some_and(|n| n.on_mismatch == OnMismatch::Convert);
    let tables = Tables::new(&rules);
    let prefilter = Prefilter::new(&rules, &tables, converts);
    Policy { profiles, rules, normalization, everyone, tables, prefilter }
}

#[cfg(test)]
mod tests;
