//! Policies as configuration files in TOML. `docs/CONFIG.md` describes the files for their users.
//!
//! This module reads and writes text; it opens no file. It reports all errors of a file at once, each with its line and column.
//! A file is a complete policy and means the same to every command.
//!
//! ```
//! use namegate_core::policy::config::Config;
//! use namegate_core::policy::rule::{RuleId, Severity};
//! let config = Config::parse("[rules]\ntrailing-space = \"error\"\n")?;
//! let policy = config.policy()?;
//! let check = policy.check(b"report ");
//! assert_eq!(check.violations[0].rule, RuleId::TrailingSpace);
//! assert_eq!(check.violations[0].severity, Severity::Error);
//! # Ok::<(), namegate_core::policy::config::ConfigErrors>(())
//! ```

use std::collections::BTreeMap;
use std::ops::Range;

use super::profile::{self, Chars, Limit, NamePart, Profile, ProfileRule, ReservedNames, Test, Unit};
use super::rule::{RULES, RuleId, Severity};
use super::{AppliesTo, MissingParameter, Normalization, OnMismatch, Policy, PolicyBuilder};
use crate::name::casefold::Fold;
use crate::name::normalize::Form;
use reader::{Spanned, TableReader, shorten};

mod error;
#[doc(hidden)]
pub mod reader;
mod write;

pub use error::{ConfigError, ConfigErrors, TextPosition};
pub use write::Inexpressible;

/// The content of a configuration file.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The profiles; `None` for [`Config::DEFAULT_PROFILES`], an empty list for UTF-8 only.
    pub profiles: Option<Vec<&'static Profile>>,
    /// Characters that no name may contain (`reserved-character`), in addition to those of the profiles.
    pub reserved_characters: String,
    /// Whole names that are refused (`reserved-name`); ASCII letters match in either case.
    pub reserved_names: Vec<String>,
    /// Severities that override those of the profiles; `None` switches a rule off.
    pub severities: BTreeMap<RuleId, Option<Severity>>,
    /// The required normalization.
    pub normalization: Option<Normalization>,
    /// Which names are one name, in addition to the equivalences of the profiles.
    pub equal_names: EqualNames,
    /// Maximum lengths, in addition to those of the profiles.
    pub limits: LengthLimits,
    /// How many directories are above the entries of a document library's root ([`PolicyBuilder::library_depth`]).
    pub library_depth: Option<usize>,
    /// Where the severities were set, for errors that only [`Config::policy`] can find.
    positions: BTreeMap<RuleId, TextPosition>,
}

/// Maximum lengths of names and paths; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthLimits {
    /// Bytes of a name.
    pub name_bytes: Option<usize>,
    /// UTF-16 code units of a name.
    pub name_utf16: Option<usize>,
    /// Bytes of a path.
    pub path_bytes: Option<usize>,
    /// UTF-16 code units of a path.
    pub path_utf16: Option<usize>,
    /// Units by which each limit of names is lower ([`PolicyBuilder::reserve`]).
    pub reserve: Option<usize>,
}

/// Names that the target treats as one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EqualNames {
    /// How it folds case (`collision-case`).
    pub case: Option<Fold>,
    /// The normalization form in which it compares names (`collision-normalization`).
    pub form: Option<Form>,
}

impl EqualNames {
    fn tests(self) -> impl Iterator<Item = Test> {
        let case = self.case.map(|fold| Test::SameFold { fold, form: self.form });
        self.form.map(Test::SameForm).into_iter().chain(case)
    }
}

impl LengthLimits {
    /// The limit that is `max` after it was lowered.
    fn unreserved(&self, max: usize) -> usize {
        max.saturating_add(self.reserve.unwrap_or(0))
    }

    /// The limits that are set: their keys, values and tests.
    fn tests(&self) -> impl Iterator<Item = (&'static str, usize, Test)> {
        let test = |limit: fn(Limit) -> Test, max, unit| limit(Limit { max, unit });
        let all = [
            ("name-bytes", self.name_bytes, Test::Length as fn(Limit) -> Test, Unit::Bytes),
            ("name-utf16", self.name_utf16, Test::Length, Unit::Utf16),
            ("path-bytes", self.path_bytes, Test::PathLength, Unit::Bytes),
            ("path-utf16", self.path_utf16, Test::PathLength, Unit::Utf16),
        ];
        all.into_iter().filter_map(move |(key, max, limit, unit)| Some((key, max?, test(limit, max?, unit))))
    }
}

/// The source of a rule that a configuration adds.
const SOURCE: &str = "the configuration";

/// The words for severities in a configuration file.
const SEVERITIES: &[(&str, Option<Severity>)] =
    &[("error", Some(Severity::Error)), ("warn", Some(Severity::Warn)), ("off", None)];

impl Config {
    /// The profiles of a file without the key `profiles`.
    pub const DEFAULT_PROFILES: &[&str] = &["strict"];

    /// A configuration with these profiles and nothing else.
    pub fn based_on(profiles: &[&'static Profile]) -> Self {
        Self { profiles: Some(profiles.to_vec()), ..Self::default() }
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// All errors of the file: invalid TOML, unknown keys, rules, profiles and words, wrong types, and invalid values.
    /// [`Config::policy`] reports rules without a parameter, because the caller may replace the profiles first.
    pub fn parse(text: &str) -> Result<Self, ConfigErrors> {
        reader::read(text, read_policy)
    }

    /// The profiles, or the default profiles.
    pub fn profiles(&self) -> Vec<&'static Profile> {
        let default = || {
            let known =
                |name: &&str| profile::by_name(name).expect("a test holds that the default profiles exist");
            Self::DEFAULT_PROFILES.iter().map(known).collect()
        };
        self.profiles.clone().unwrap_or_else(default)
    }

    /// A builder with everything in the configuration, to which the caller can add.
    pub fn builder(&self) -> PolicyBuilder {
        let mut builder = self.builder_without_severities();
        for (&rule, &severity) in &self.severities {
            builder = builder.severity(rule, severity);
        }
        builder
    }

    fn builder_without_severities(&self) -> PolicyBuilder {
        let mut builder = Policy::builder().profiles(&self.profiles());
        for test in self.tests() {
            let severity = test.rule().rule().default;
            builder = builder.rule(ProfileRule {
                test,
                severity,
                source: SOURCE,
                verified: true,
                stored_otherwise: false,
            });
        }
        builder = builder.library_depth(self.library_depth).reserve(self.limits.reserve.unwrap_or(0));
        match self.normalization {
            Some(normalization) => builder.normalization(normalization),
            None => builder,
        }
    }

    /// The tests that the configuration adds to the profiles.
    fn tests(&self) -> Vec<Test> {
        let mut tests = Vec::new();
        if !self.reserved_characters.is_empty() {
            tests.push(Test::Reserved(Chars::OneOf(self.reserved_characters.clone().into())));
        }
        if !self.reserved_names.is_empty() {
            tests.push(Test::Named(ReservedNames {
                part: NamePart::Whole,
                words: self.reserved_names.join("/").into(),
                applies_to: AppliesTo::Everything,
            }));
        }
        tests.extend(self.equal_names.tests());
        tests.extend(self.limits.tests().map(|(_, _, test)| test));
        tests
    }

    /// Compiles the policy.
    ///
    /// # Errors
    /// All rules that are switched on but whose parameter neither a profile nor the configuration supplies, each with its
    /// position in the file.
    ///
    /// ```
    /// # use namegate_core::policy::config::Config;
    /// let error = Config::parse("[rules]\nnot-in-form = \"warn\"\n")?.policy().unwrap_err();
    /// let error = &error.errors()[0];
    /// assert_eq!(error.message, "rule `not-in-form` is on but has no form: set `normalization.form`");
    /// assert_eq!(error.position.as_ref().map(|p| (p.line(), p.column())), Some((2, 1)));
    /// # Ok::<(), namegate_core::policy::config::ConfigErrors>(())
    /// ```
    pub fn policy(&self) -> Result<Policy, ConfigErrors> {
        let mut config = self.clone();
        let mut errors = Vec::new();
        loop {
            match config.builder().build() {
                Ok(policy) if errors.is_empty() => return Ok(policy),
                Ok(_) => break,
                Err(missing @ MissingParameter(rule)) => {
                    let position = self.positions.get(&rule).cloned();
                    errors.push(ConfigError { message: missing.to_string(), position });
                    // Without this rule the next one is found; the loop ends when none is left.
                    config.severities.remove(&rule);
                }
            }
        }
        errors.sort_by_key(|error| error.position.as_ref().map(|at| (at.line(), at.column())));
        Err(ConfigErrors::new(errors, 0))
    }
}

/// Reads the keys of a policy from a table: the top table of a policy file, or a table of another configuration file.
#[doc(hidden)]
pub fn read_policy(table: &mut TableReader<'_>) -> Config {
    let mut config = Config {
        profiles: read_profiles(table),
        reserved_characters: read_characters(table),
        reserved_names: read_names(table),
        library_depth: table.whole("library-depth", 0),
        ..Config::default()
    };
    table.table("rules", "rule", |rules| read_rules(rules, &mut config));
    config.normalization = table.table("normalization", "key", read_normalization);
    config.equal_names = table.table("equal-names", "key", |equal| EqualNames {
        case: equal.word("case", "way of folding case", &Fold::ALL.map(|f| (f.as_str(), f))).map(|(f, _)| f),
        form: equal.word("form", "normalization form", &Form::ALL.map(|f| (f.as_str(), f))).map(|(f, _)| f),
    });
    config.limits = table.table("limits", "key", |limits| LengthLimits {
        name_bytes: limits.positive("name-bytes"),
        name_utf16: limits.positive("name-utf16"),
        path_bytes: limits.positive("path-bytes"),
        path_utf16: limits.positive("path-utf16"),
        reserve: limits.positive("reserve"),
    });
    config
}

fn read_profiles(table: &mut TableReader<'_>) -> Option<Vec<&'static Profile>> {
    let names = table.strings("profiles")?;
    let mut profiles: Vec<&'static Profile> = Vec::new();
    for (name, at) in names {
        match profile::by_name(&shorten(name)) {
            Ok(profile) if profiles.iter().any(|p| p.name == profile.name) => {}
            Ok(profile) => profiles.push(profile),
            Err(unknown) => table.error(at, || unknown.to_string()),
        }
    }
    Some(profiles)
}

fn read_characters(table: &mut TableReader<'_>) -> String {
    let Some((characters, at)) = table.string("reserved-characters") else { return String::new() };
    if characters.contains(['/', '\0']) {
        table.error(at, || {
            "`/` and U+0000 cannot occur in a name: remove them from `reserved-characters`".into()
        });
    }
    characters.to_owned()
}

fn read_names(table: &mut TableReader<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for (name, at) in table.strings("reserved-names").unwrap_or_default() {
        if name.is_empty() || name.contains(['/', '\0']) {
            table.error(at, || "a reserved name must not be empty or contain `/` or U+0000".into());
        }
        names.push(name.to_owned());
    }
    names
}

fn read_rules(rules: &mut TableReader<'_>, config: &mut Config) {
    for rule in RULES {
        let Some((severity, at)) = rules.word(rule.name, "severity", SEVERITIES) else { continue };
        if rule.id.is_always_on() && severity != Some(Severity::Error) {
            rules.error(at, || {
                format!("rule `{}` checks the encoding: it is always on and always an error", rule.name)
            });
            continue;
        }
        config.severities.insert(rule.id, severity);
        if let Some(key) = rules.key_at(rule.name) {
            config.positions.insert(rule.id, rules.position(key));
        }
    }
}

fn read_normalization(table: &mut TableReader<'_>) -> Option<Normalization> {
    let forms = Form::ALL.map(|form| (form.as_str(), form));
    let reactions = OnMismatch::ALL.map(|reaction| (reaction.as_str(), reaction));
    let form = table.word("form", "normalization form", &forms);
    let on_mismatch: Option<Spanned<OnMismatch>> = table.word("on-mismatch", "reaction", &reactions);
    let lonely: Option<Range<usize>> = table.key_at("on-mismatch").filter(|_| table.key_at("form").is_none());
    if let Some(at) = lonely {
        table.error(at, || "`on-mismatch` needs `form` in the same table".into());
    }
    let on_mismatch = on_mismatch.map_or(OnMismatch::Refuse, |(reaction, _)| reaction);
    Some(Normalization { form: form?.0, on_mismatch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_profiles_exist() {
        for name in Config::DEFAULT_PROFILES {
            assert!(profile::by_name(name).is_ok(), "{name}");
        }
    }
}
