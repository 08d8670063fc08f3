//! Writes a policy as a configuration that reads back as the same policy.

use std::fmt::{self, Write as _};

use super::{Config, SEVERITIES};
use crate::policy::compile::NAME_MAX_SOURCE;
use crate::policy::profile::{Chars, Limit, NamePart, ProfileSet, Test, Unit};
use crate::policy::rule::{RULES, RuleId, Severity};
use crate::policy::{AppliesTo, Policy};

/// A policy has rules that a configuration file cannot express, because a program added them with
/// [`PolicyBuilder::rule`](crate::policy::PolicyBuilder::rule).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inexpressible;

impl fmt::Display for Inexpressible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the policy has rules that a configuration file cannot express")
    }
}

impl std::error::Error for Inexpressible {}

impl Policy {
    /// A text that equal policies have in common, whichever files or options they come from: the shortest configuration, or the rules
    /// of a policy that no configuration can express.
    pub fn to_text(&self) -> String {
        Config::from_policy(self).map_or_else(|_| format!("{:?}", self.rules()), |config| config.to_toml())
    }
}

impl Config {
    /// The shortest configuration of a policy: its profiles, and the differences from them.
    ///
    /// # Errors
    /// [`Inexpressible`] if a program added rules to the policy.
    ///
    /// ```
    /// use namegate_core::policy::{Policy, config::Config, profile};
    /// let policy = Policy::from_profiles(&[profile::by_name("strict").unwrap()]);
    /// assert_eq!(Config::from_policy(&policy)?.to_toml(), "profiles = [\"strict\"]\n");
    /// # Ok::<(), namegate_core::policy::config::Inexpressible>(())
    /// ```
    pub fn from_policy(policy: &Policy) -> Result<Self, Inexpressible> {
        let mut config = Self {
            profiles: Some(policy.profiles().to_vec()),
            normalization: policy.normalization(),
            library_depth: policy.library_depth(),
            ..Self::default()
        };
        config.limits.reserve = Some(policy.reserve()).filter(|&reserve| reserve > 0);
        let own = policy.rules().iter().filter(|rule| rule.profiles.contains(ProfileSet::CONFIG));
        for rule in own.filter(|rule| rule.source != NAME_MAX_SOURCE) {
            config.add_own(&rule.test);
        }
        let base = config.builder_without_severities().build().map_err(|_| Inexpressible)?;
        for rule in RULES {
            let (wanted, given) = (rules_for(policy, rule.id), rules_for(&base, rule.id));
            if wanted != given {
                config.severities.insert(rule.id, wanted.first().map(|rule| rule.1));
            }
        }
        // A rule that was overlooked above is found here.
        let same = config.policy().is_ok_and(|made| {
            RULES.iter().all(|rule| rules_for(&made, rule.id) == rules_for(policy, rule.id))
        });
        if same { Ok(config) } else { Err(Inexpressible) }
    }

    /// Adds a rule that is in no profile.
    fn add_own(&mut self, test: &Test) {
        match test {
            Test::Reserved(Chars::OneOf(characters)) => self.reserved_characters.push_str(characters),
            Test::Named(names)
                if names.part == NamePart::Whole && names.applies_to == AppliesTo::Everything =>
            {
                self.reserved_names.extend(names.iter().map(str::to_owned));
            }
            Test::Length(Limit { max, unit: Unit::Bytes }) => {
                self.limits.name_bytes = Some(self.limits.unreserved(*max))
            }
            Test::Length(Limit { max, unit: Unit::Utf16 }) => {
                self.limits.name_utf16 = Some(self.limits.unreserved(*max))
            }
            Test::PathLength(Limit { max, unit: Unit::Bytes }) => self.limits.path_bytes = Some(*max),
            Test::PathLength(Limit { max, unit: Unit::Utf16 }) => self.limits.path_utf16 = Some(*max),
            Test::SameFold { fold, form } => {
                self.equal_names.case = Some(*fold);
                self.equal_names.form = self.equal_names.form.or(*form);
            }
            Test::SameForm(form) => self.equal_names.form = Some(*form),
            // Severities and the normalization switch these on; they are compared as a whole.
            _ => {}
        }
    }

    /// The configuration as text that [`Config::parse`] reads back.
    ///
    /// ```
    /// use namegate_core::policy::config::Config;
    /// let config = Config::parse("limits = { name-bytes = 1_00 } # short\nprofiles = []")?;
    /// assert_eq!(config.to_toml(), "profiles = []\n\n[limits]\nname-bytes = 100\n");
    /// # Ok::<(), namegate_core::policy::config::ConfigErrors>(())
    /// ```
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        self.write_to(&mut text, "");
        text
    }

    /// Appends the configuration to `text`. The names of its tables begin with `within`.
    #[doc(hidden)]
    pub fn write_to(&self, text: &mut String, within: &str) {
        if let Some(profiles) = &self.profiles {
            push_key(text, "profiles", array(profiles.iter().map(|p| p.name)));
        }
        if !self.reserved_characters.is_empty() {
            push_key(text, "reserved-characters", self.reserved_characters.as_str().into());
        }
        if !self.reserved_names.is_empty() {
            push_key(text, "reserved-names", array(self.reserved_names.iter().map(String::as_str)));
        }
        // Every number that was read fits. A greater one, which a program set, limits nothing.
        let number = |max: usize| i64::try_from(max).unwrap_or(i64::MAX).into();
        if let Some(depth) = self.library_depth {
            push_key(text, "library-depth", number(depth));
        }
        let severities = self.severities.iter().map(|(rule, severity)| (rule.name(), word(*severity).into()));
        push_table(text, within, "rules", severities.collect());
        let normalization = self.normalization.iter();
        let normalization = normalization
            .flat_map(|n| [("form", n.form.as_str().into()), ("on-mismatch", n.on_mismatch.as_str().into())]);
        push_table(text, within, "normalization", normalization.collect());
        let case = self.equal_names.case.map(|fold| ("case", fold.as_str().into()));
        let form = self.equal_names.form.map(|form| ("form", form.as_str().into()));
        push_table(text, within, "equal-names", case.into_iter().chain(form).collect());
        let limits = self.limits.tests().map(|(key, max, _)| (key, number(max)));
        let reserve = self.limits.reserve.map(|units| ("reserve", number(units)));
        push_table(text, within, "limits", limits.chain(reserve).collect());
    }
}

/// The parts of a rule that are compared.
type Essence<'p> = (&'p Test, Severity, ProfileSet);

fn rules_for(policy: &Policy, rule: RuleId) -> Vec<Essence<'_>> {
    let active = policy.rules().iter().filter(|active| active.test.rule() == rule);
    active.map(|active| (&active.test, active.severity, active.profiles)).collect()
}

fn word(severity: Option<Severity>) -> &'static str {
    SEVERITIES.iter().find(|(_, s)| *s == severity).map_or("off", |(word, _)| word)
}

fn array<'s>(strings: impl Iterator<Item = &'s str>) -> toml::Value {
    toml::Value::Array(strings.map(Into::into).collect())
}

fn push_key(text: &mut String, key: &str, value: toml::Value) {
    let _ = writeln!(text, "{key} = {value}");
}

fn push_table(text: &mut String, within: &str, name: &str, keys: Vec<(&str, toml::Value)>) {
    if keys.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "[{within}{name}]");
    keys.into_iter().for_each(|(key, value)| push_key(text, key, value));
}
