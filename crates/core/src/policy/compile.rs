//! Compiles profiles and settings into one immutable policy.
//!
//! Rules with the same test are merged; the stricter severity wins. [`Tables`] then stores what a check needs of the rules,
//! and [`Prefilter`] what single bytes can rule out.

use std::collections::BTreeMap;
use std::fmt;

use super::active_rule::ActiveRule;
use super::prefilter::Prefilter;
use super::profile::{Limit, Profile, ProfileRule, ProfileSet, Test, Unit};
use super::rule::{RuleId, Severity};
use super::suggest::RepairScope;
use super::tables::Tables;
use crate::name::normalize::Form;

/// The longest name that Linux stores, in bytes.
const NAME_MAX: usize = 255;
/// The source of a limit that only [`PolicyBuilder::reserve`] asks for.
pub(super) const NAME_MAX_SOURCE: &str = "Linux include/uapi/linux/limits.h (NAME_MAX), for the reserve";

/// What happens to a name that is not in the required normalization form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnMismatch {
    /// The name is refused.
    Refuse,
    /// The name is converted to the form and stored so.
    Convert,
    /// The name is stored as given and found under every equivalent spelling.
    Match,
}

impl OnMismatch {
    /// All variants.
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

/// The normalization that a policy requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Normalization {
    /// The form.
    pub form: Form,
    /// What happens to a name in another form.
    pub on_mismatch: OnMismatch,
}

/// Decides which names are allowed. Immutable; made by [`Policy::from_profiles`] or [`Policy::builder`].
#[derive(Clone, Debug)]
pub struct Policy {
    pub(super) profiles: Vec<&'static Profile>,
    pub(super) rules: Vec<ActiveRule>,
    pub(super) normalization: Option<Normalization>,
    /// All profiles of the policy: each of them requires UTF-8.
    pub(super) everyone: ProfileSet,
    pub(super) tables: Tables,
    pub(super) prefilter: Prefilter,
    /// What suggested names have instead of characters that are not allowed; chosen from what is allowed if `None`.
    pub(super) replacement: Option<char>,
    pub(super) library_depth: Option<usize>,
    pub(super) reserve: usize,
    /// Which violations suggested names repair.
    pub(super) repairs: RepairScope,
}

impl Policy {
    /// Combines profiles into one policy. Without profiles the policy checks UTF-8 only.
    pub fn from_profiles(profiles: &[&'static Profile]) -> Self {
        Self::builder().profiles(profiles).build().expect("the rules of profiles have their parameters")
    }

    /// Starts a policy of profiles, own rules, severities and a normalization.
    pub fn builder() -> PolicyBuilder {
        PolicyBuilder::default()
    }

    /// Sets what suggested names have instead of characters that are not allowed, and between a name and a number; `None` if the
    /// policy does not allow the character everywhere in a name.
    ///
    /// ```
    /// # use namegate_core::policy::{EncodingHint, Policy, profile};
    /// let windows = Policy::from_profiles(&[profile::by_name("windows")?]);
    /// assert!(windows.clone().with_replacement('?').is_none() && windows.clone().with_replacement(' ').is_none());
    /// let policy = windows.with_replacement('~').unwrap();
    /// let suggested = policy.suggest_name(b"a:b", EncodingHint::Unknown, &mut |_| false);
    /// assert_eq!(suggested.unwrap().name, "a~b");
    /// # Ok::<(), namegate_core::policy::UnknownWord>(())
    /// ```
    #[must_use]
    pub fn with_replacement(self, replacement: char) -> Option<Self> {
        let is_allowed = [format!("{replacement}x"), format!("x{replacement}x"), format!("x{replacement}")]
            .iter()
            .all(|name| self.is_spotless(name.as_bytes()));
        is_allowed.then_some(Self { replacement: Some(replacement), ..self })
    }

    /// Sets which violations suggested names repair.
    ///
    /// ```
    /// # use namegate_core::policy::{EncodingHint, Policy, RepairScope, profile};
    /// # use namegate_core::policy::rule::Severity;
    /// let s3 = Policy::from_profiles(&[profile::by_name("s3")?]);
    /// let suggested = |policy: &Policy| policy.suggest_name("Größe 3".as_bytes(), EncodingHint::Unknown, &mut |_| false);
    /// assert_eq!(suggested(&s3), None, "S3 advises against spaces and letters beyond ASCII, and stores them");
    /// let advice = s3.with_repairs(RepairScope { min_severity: Severity::Warn, ..RepairScope::default() });
    /// assert_eq!(suggested(&advice).unwrap().name, "Große_3");
    /// # Ok::<(), namegate_core::policy::UnknownWord>(())
    /// ```
    #[must_use]
    pub fn with_repairs(self, repairs: RepairScope) -> Self {
        Self { repairs, ..self }
    }

    /// Which violations suggested names repair.
    pub fn repairs(&self) -> RepairScope {
        self.repairs
    }

    /// The profiles of the policy.
    pub fn profiles(&self) -> &[&'static Profile] {
        &self.profiles
    }

    /// All rules in effect, in the order of their ids.
    pub fn rules(&self) -> &[ActiveRule] {
        &self.rules
    }

    /// The profiles of the policy as a set, with [`ProfileSet::CONFIG`] if a configuration adds rules.
    pub fn profile_set(&self) -> ProfileSet {
        self.everyone
    }

    /// The number of directories above the entries of a document library's root; `None` if unknown.
    pub fn library_depth(&self) -> Option<usize> {
        self.library_depth
    }

    /// The units by which the limits of names are lower, for programs that add to a name.
    pub fn reserve(&self) -> usize {
        self.reserve
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

/// Builds a [`Policy`].
#[derive(Clone, Debug, Default)]
pub struct PolicyBuilder {
    profiles: Vec<&'static Profile>,
    rules: Vec<ProfileRule>,
    severities: BTreeMap<RuleId, Option<Severity>>,
    normalization: Option<Normalization>,
    library_depth: Option<usize>,
    reserve: usize,
}

/// A rule has a severity, but no profile and no setting supplies its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingParameter(pub RuleId);

impl fmt::Display for MissingParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.0 {
            RuleId::ReservedCharacter => {
                "characters: choose a profile that reserves some, or set `reserved-characters`"
            }
            RuleId::ReservedName => "names: choose a profile that reserves some, or set `reserved-names`",
            RuleId::LeftBehind => "names: choose a profile whose programs skip some",
            RuleId::NotInForm => "form: set `normalization.form`",
            RuleId::NameTooLong | RuleId::PathTooLong => {
                "length: choose a profile that has one, or set one in `limits`"
            }
            _ => {
                "equivalence: choose a profile whose target treats names as equal, or set one in `equal-names`"
            }
        };
        write!(f, "rule `{}` is on but has no {what}", self.0)
    }
}

impl std::error::Error for MissingParameter {}

impl PolicyBuilder {
    /// Adds profiles. Adding a profile twice has no effect.
    pub fn profiles(mut self, profiles: &[&'static Profile]) -> Self {
        for &profile in profiles {
            if !self.profiles.iter().any(|p| p.name == profile.name) {
                self.profiles.push(profile);
            }
        }
        self
    }

    /// Adds a rule that is in no profile.
    pub fn rule(mut self, rule: ProfileRule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Overrides the severity that the profiles give a rule; `None` switches the rule off. Encoding rules stay errors.
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

    /// Sets how many directories are above the entries of a document library's root: 0 if the checked tree is a library.
    pub fn library_depth(mut self, depth: Option<usize>) -> Self {
        self.library_depth = depth;
        self
    }

    /// Lowers each limit of the length of names by so many units, for programs that add to a name. Without a limit that of Linux is
    /// lowered, 255 bytes.
    ///
    /// ```
    /// # use namegate_core::policy::{Policy, profile};
    /// let windows = Policy::builder().profiles(&[profile::by_name("windows")?]).reserve(20).build().unwrap();
    /// assert!(windows.check("é".repeat(235).as_bytes()).violations.is_empty());
    /// assert_eq!(windows.check("é".repeat(236).as_bytes()).violations[0].rule.name(), "name-too-long");
    /// # Ok::<(), namegate_core::policy::UnknownWord>(())
    /// ```
    pub fn reserve(mut self, units: usize) -> Self {
        self.reserve = units;
        self
    }

    /// Compiles the policy.
    ///
    /// # Errors
    /// [`MissingParameter`] if a rule is switched on but no profile and no setting supplies its parameter.
    pub fn build(self) -> Result<Policy, MissingParameter> {
        let mut rules: Vec<ActiveRule> = Vec::new();
        for profile in &self.profiles {
            let by = ProfileSet::from_profile(profile);
            let reserving = |rule| reserving(rule, self.reserve);
            profile.all_rules().into_iter().for_each(|rule| activate(&mut rules, &reserving(rule), by));
        }
        for rule in &self.rules {
            activate(&mut rules, &reserving(rule, self.reserve), ProfileSet::CONFIG);
        }
        let is_limited =
            rules.iter().any(|rule| matches!(rule.test, Test::Length(limit) if limit.counts_all()));
        if self.reserve > 0 && !is_limited {
            let name_max = Test::Length(Limit { max: NAME_MAX, unit: Unit::Bytes });
            let rule = ProfileRule::error(name_max, NAME_MAX_SOURCE);
            activate(&mut rules, &reserving(&rule, self.reserve), ProfileSet::CONFIG);
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
            let profiles: ProfileSet =
                self.profiles.iter().map(|profile| ProfileSet::from_profile(profile)).collect();
            override_severity(&mut rules, id, severity, profiles)?;
        }
        rules.sort_by_key(|rule| rule.test.rule());
        let everyone = self
            .profiles
            .iter()
            .map(|p| ProfileSet::from_profile(p))
            .chain(rules.iter().map(|rule| rule.profiles))
            .collect::<ProfileSet>();
        let everyone = if everyone == ProfileSet::EMPTY { ProfileSet::CONFIG } else { everyone };
        let policy = assemble(self.profiles, rules, self.normalization, everyone);
        Ok(Policy { library_depth: self.library_depth, reserve: self.reserve, ..policy })
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

/// The rule with a limit of names that is lower by `units`, if it has one.
fn reserving(rule: &ProfileRule, units: usize) -> ProfileRule {
    let mut rule = rule.clone();
    if let Test::Length(limit) = &mut rule.test
        && units > 0
        && limit.counts_all()
    {
        limit.max = limit.max.saturating_sub(units).max(1);
    }
    rule
}

fn override_severity(
    rules: &mut Vec<ActiveRule>,
    id: RuleId,
    severity: Option<Severity>,
    profiles: ProfileSet,
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
        // No target wants a damaged name.
        let by = if id.is_damage() && profiles != ProfileSet::EMPTY { profiles } else { ProfileSet::CONFIG };
        activate(rules, &rule, by);
    }
    Ok(())
}

fn assemble(
    profiles: Vec<&'static Profile>,
    rules: Vec<ActiveRule>,
    normalization: Option<Normalization>,
    everyone: ProfileSet,
) -> Policy {
    let converted = normalization.filter(|n| n.on_mismatch == OnMismatch::Convert);
    let tables = Tables::new(&rules);
    let prefilter = Prefilter::new(&rules, &tables, converted.map(|n| n.form));
    Policy {
        profiles,
        rules,
        normalization,
        everyone,
        tables,
        prefilter,
        replacement: None,
        library_depth: None,
        reserve: 0,
        repairs: RepairScope::default(),
    }
}

#[cfg(test)]
mod tests;
