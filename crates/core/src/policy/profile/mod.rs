//! Profiles: what each target allows, as data.
//!
//! A profile is a list of [`ProfileRule`]s. Each rule has a test with parameters, a severity, and the source that it is based
//! on. Profiles contain no code; [`Policy::from_profiles`](super::Policy::from_profiles) combines the rules of several profiles
//! into one policy. A rule whose source could not be checked is [`ProfileRule::unverified`]: it warns and never rejects a name.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::UnknownWord;
use super::entry::AppliesTo;
use super::rule::{RuleId, Severity};
use crate::name::casefold::Fold;
use crate::name::normalize::Form;

mod base;
mod cloud;
mod encrypted;
mod filesystem;
mod git;
mod macos;
mod optical;
mod portable;
mod windows;

pub use base::{SECURITY, STRICT, UTF8};
pub use portable::PORTABLE;

/// A named set of rules, mostly those of one target.
#[derive(Debug)]
pub struct Profile {
    /// The name, lower case with hyphens.
    pub name: &'static str,
    /// A description in one line.
    pub title: &'static str,
    /// Profiles whose rules belong to this one too.
    pub includes: &'static [&'static Profile],
    /// The profile's own rules.
    pub rules: &'static [ProfileRule],
}

impl Profile {
    /// The profile's own rules, those of all profiles that it includes, and the warning about damaged names: a migration is when such
    /// names are found and repaired, whatever the target. `utf8` alone asks for nothing but the encoding.
    pub fn all_rules(&'static self) -> Vec<&'static ProfileRule> {
        let damage = (self.name != UTF8.name).then_some(&base::DAMAGE);
        damage.into_iter().chain(self.included_rules()).collect()
    }

    fn included_rules(&'static self) -> Vec<&'static ProfileRule> {
        let included = self.includes.iter().flat_map(|p| p.included_rules());
        included.chain(self.rules).collect()
    }

    /// Whether the target accepts names that break `rule` but stores or shows other names.
    pub fn stores_otherwise(&'static self, rule: RuleId) -> bool {
        self.all_rules().iter().any(|own| own.stored_otherwise && own.test.rule() == rule)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// A rule of a profile: a test, a severity and a source.
#[derive(Clone, Debug)]
pub struct ProfileRule {
    /// The test that a name must pass.
    pub test: Test,
    /// How serious a violation is.
    pub severity: Severity,
    /// The standard, manual or source code that the rule is based on.
    pub source: &'static str,
    /// Whether the source was checked. An unverified rule is never more than a warning.
    pub verified: bool,
    /// Whether the target accepts such a name but stores or shows another one.
    pub stored_otherwise: bool,
}

impl ProfileRule {
    /// A rule whose violation rejects the name.
    pub const fn error(test: Test, source: &'static str) -> Self {
        Self { test, severity: Severity::Error, source, verified: true, stored_otherwise: false }
    }

    /// A rule whose violation is reported while the name is allowed.
    pub const fn warn(test: Test, source: &'static str) -> Self {
        Self { test, severity: Severity::Warn, source, verified: true, stored_otherwise: false }
    }

    /// A warning that is based on a source which could not be checked.
    pub const fn unverified(test: Test, source: &'static str) -> Self {
        Self { test, severity: Severity::Warn, source, verified: false, stored_otherwise: false }
    }

    /// The same rule, for a target that accepts such a name but stores or shows another one.
    pub const fn stored_otherwise(mut self) -> Self {
        self.stored_otherwise = true;
        self
    }
}

/// What a rule looks for in a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Test {
    /// A rule that needs no parameter.
    Plain(RuleId),
    /// `reserved-character`: characters that the target does not allow.
    Reserved(Chars),
    /// `reserved-name`: names that the target reserves.
    Named(ReservedNames),
    /// `left-behind`: names that the programs of the target skip.
    Skipped(ReservedNames),
    /// `name-too-long`.
    Length(Limit),
    /// `path-too-long`.
    PathLength(Limit),
    /// `path-too-long`, for some entries.
    PathLengthOf(AppliesTo, Limit),
    /// `not-in-form`.
    Form(Form),
    /// `unassigned`: code points that this version of Unicode does not assign; `None` for the built-in version.
    Unassigned(Option<(u8, u8)>),
    /// `collision-normalization`: two names in a directory with the same normal form.
    SameForm(Form),
    /// `collision-case`: two names in a directory that are equal after case folding (and normalization, if `form` is set),
    /// but not after normalization alone.
    SameFold {
        /// How the target folds case.
        fold: Fold,
        /// The form in which the target also compares names, if any.
        form: Option<Form>,
    },
}

impl Test {
    /// The rule that a violation is reported under.
    pub fn rule(&self) -> RuleId {
        match self {
            Self::Plain(rule) => *rule,
            Self::Reserved(_) => RuleId::ReservedCharacter,
            Self::Named(_) => RuleId::ReservedName,
            Self::Skipped(_) => RuleId::LeftBehind,
            Self::Length(_) => RuleId::NameTooLong,
            Self::PathLength(_) | Self::PathLengthOf(..) => RuleId::PathTooLong,
            Self::Form(_) => RuleId::NotInForm,
            Self::Unassigned(_) => RuleId::Unassigned,
            Self::SameForm(_) => RuleId::CollisionNormalization,
            Self::SameFold { .. } => RuleId::CollisionCase,
        }
    }
}

/// A set of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chars {
    /// Each of these.
    OneOf(Cow<'static, str>),
    /// Every character but these.
    AllBut(&'static str),
    /// From the first to the last, both included.
    Range(char, char),
}

impl Chars {
    /// Characters listed one by one.
    pub const fn one_of(chars: &'static str) -> Self {
        Self::OneOf(Cow::Borrowed(chars))
    }

    /// Whether the set contains `c`.
    pub fn contains(&self, c: char) -> bool {
        match self {
            Self::OneOf(chars) => chars.contains(c),
            Self::AllBut(chars) => !chars.contains(c),
            Self::Range(first, last) => (*first..=*last).contains(&c),
        }
    }

    /// Whether all characters of the set are ASCII.
    pub fn is_ascii(&self) -> bool {
        match self {
            Self::OneOf(chars) => chars.is_ascii(),
            Self::AllBut(_) => false,
            Self::Range(_, last) => last.is_ascii(),
        }
    }
}

/// Names that a target reserves or skips. ASCII letters match in either case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedNames {
    /// Which part of a name is compared.
    pub part: NamePart,
    /// The words, separated by `/`, which no name can contain.
    pub words: Cow<'static, str>,
    /// The entries that cannot have such a name.
    pub applies_to: AppliesTo,
}

impl ReservedNames {
    /// Reserved names; `words` are separated by `/`.
    pub const fn new(part: NamePart, words: &'static str) -> Self {
        Self::only_for(AppliesTo::Everything, part, words)
    }

    /// Reserved names of some entries.
    pub const fn only_for(applies_to: AppliesTo, part: NamePart, words: &'static str) -> Self {
        Self { part, words: Cow::Borrowed(words), applies_to }
    }

    /// The words one by one.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.words.split('/').filter(|word| !word.is_empty())
    }
}

/// Which part of a name is compared with a reserved word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NamePart {
    /// The whole name.
    Whole,
    /// The part before the first `.` or `:`, without trailing spaces, by which Windows finds devices.
    Base,
    /// The beginning.
    Prefix,
    /// The end.
    Suffix,
    /// Anywhere in the name.
    Anywhere,
    /// The whole name, which repeats the word: a name of nothing but spaces.
    Repeated,
}

/// A maximum length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The greatest length that is allowed.
    pub max: usize,
    /// What is counted.
    pub unit: Unit,
}

/// What a length counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Bytes as stored.
    Bytes,
    /// Bytes of UTF-8 in a normalization form.
    BytesIn(Form),
    /// UTF-16 code units as stored.
    Utf16,
    /// UTF-16 code units in a normalization form.
    Utf16In(Form),
    /// Code points.
    CodePoints,
    /// Code points before the last `.` (8.3 names).
    StemCodePoints,
    /// Code points after the last `.` (8.3 names).
    ExtensionCodePoints,
    /// Bytes of an OSTA compressed string: one each while all code points fit in a byte, else two for each UTF-16 unit.
    OstaBytes,
    /// Dots.
    Dots,
    /// Components of a path.
    Components,
}

impl Unit {
    /// The unit's name in messages, as in `255 UTF-16 units`.
    pub fn noun(self) -> Cow<'static, str> {
        match self {
            Self::Bytes => "bytes".into(),
            Self::BytesIn(form) => format!("bytes in {}", form.to_string().to_uppercase()).into(),
            Self::Utf16 => "UTF-16 units".into(),
            Self::Utf16In(form) => format!("UTF-16 units in {}", form.to_string().to_uppercase()).into(),
            Self::CodePoints => "code points".into(),
            Self::StemCodePoints => "code points before the dot".into(),
            Self::ExtensionCodePoints => "code points after the dot".into(),
            Self::OstaBytes => "bytes as OSTA compressed Unicode".into(),
            Self::Dots => "dots".into(),
            Self::Components => "components".into(),
        }
    }
}

/// All profiles, in display order. The index of a profile is its bit in a [`ProfileSet`].
pub static ALL: &[&Profile] = &[
    &UTF8,
    &STRICT,
    &SECURITY,
    &filesystem::POSIX,
    &windows::WINDOWS,
    &windows::EXFAT,
    &windows::ANDROID,
    &windows::SMB,
    &macos::MACOS,
    &cloud::SHAREPOINT,
    &cloud::S3,
    &cloud::WASABI,
    &cloud::GCS,
    &cloud::AZURE,
    &cloud::GDRIVE,
    &cloud::DROPBOX,
    &cloud::BOX,
    &cloud::NEXTCLOUD,
    &optical::ISO9660,
    &optical::JOLIET,
    &optical::UDF,
    &filesystem::EXT4_CASEFOLD,
    &filesystem::ZFS_UTF8ONLY,
    &encrypted::ECRYPTFS,
    &encrypted::CRYPTOMATOR,
    &git::GIT,
    &PORTABLE,
];

/// Other names that people use, each with the name of its profile.
static ALIASES: &[(&str, &str)] = &[
    ("ntfs", "windows"),
    ("smb3", "smb"),
    ("cifs", "smb"),
    ("samba", "smb"),
    ("apfs", "macos"),
    ("hfsplus", "macos"),
    ("onedrive", "sharepoint"),
    ("synology-encrypted", "ecryptfs"),
];

impl Profile {
    /// Other names of the profile.
    pub fn aliases(&self) -> impl Iterator<Item = &'static str> + use<> {
        let name = self.name;
        ALIASES.iter().filter(move |(_, known)| *known == name).map(|&(alias, _)| alias)
    }
}

/// Finds a profile by its name or by another name of it.
///
/// # Errors
/// An unknown name, with the nearest known one.
///
/// ```
/// # use namegate_core::policy::profile::by_name;
/// assert_eq!(by_name("onedrive")?.name, "sharepoint");
/// # Ok::<(), namegate_core::policy::UnknownWord>(())
/// ```
pub fn by_name(name: &str) -> Result<&'static Profile, UnknownWord> {
    let meant = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |&(_, known)| known);
    let all = || ALL.iter().map(|p| p.name).chain(ALIASES.iter().map(|&(alias, _)| alias));
    ALL.iter().copied().find(|p| p.name == meant).ok_or_else(|| UnknownWord::new("profile", name, all()))
}

impl FromStr for &'static Profile {
    type Err = UnknownWord;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        by_name(s)
    }
}

/// A set of profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProfileSet(u32);

impl ProfileSet {
    /// No profile.
    pub const EMPTY: Self = Self(0);
    /// Stands for the rules of a configuration file or an option; shown as `config`.
    pub const CONFIG: Self = Self(1 << 31);
    const CONFIG_NAME: &'static str = "config";

    /// The set of one profile.
    ///
    /// # Panics
    /// If the profile is not one of [`ALL`].
    pub fn from_profile(profile: &Profile) -> Self {
        let at = ALL.iter().position(|p| p.name == profile.name).expect("every profile is listed in ALL");
        Self(1 << at)
    }

    /// The union of both sets.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set contains all of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set of these names, as [`ProfileSet::names`] gives them, in any order.
    ///
    /// # Errors
    /// An unknown name, with the nearest known one.
    pub fn from_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, UnknownWord> {
        let set = |name| match name {
            Self::CONFIG_NAME => Ok(Self::CONFIG),
            name => by_name(name).map(Self::from_profile),
        };
        names.into_iter().map(set).collect()
    }

    /// The names of the profiles in the set, in the order of [`ALL`].
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let listed = ALL.iter().enumerate().filter(move |(at, _)| self.0 & 1 << at != 0).map(|(_, p)| p.name);
        listed.chain(self.contains(Self::CONFIG).then_some(Self::CONFIG_NAME))
    }
}

impl FromIterator<ProfileSet> for ProfileSet {
    fn from_iter<I: IntoIterator<Item = ProfileSet>>(sets: I) -> Self {
        sets.into_iter().fold(Self::EMPTY, Self::union)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_have_distinct_names_that_read_back_and_a_bit_each() {
        assert!(ALL.len() < 31, "one bit is kept for the configuration");
        for profile in ALL {
            assert_eq!(by_name(profile.name).map(|p| p.name), Ok(profile.name));
            assert_eq!(ProfileSet::from_profile(profile).names().collect::<Vec<_>>(), [profile.name]);
        }
        let all: ProfileSet = ALL.iter().map(|p| ProfileSet::from_profile(p)).collect();
        assert_eq!(all.names().count(), ALL.len());
        let all = all.union(ProfileSet::CONFIG);
        assert_eq!(ProfileSet::from_names(all.names()), Ok(all));
        assert!(ProfileSet::from_names(["config", "window"]).is_err());
        assert!(by_name("window").unwrap_err().to_string().contains("unknown profile `window`"));
    }

    #[test]
    fn an_unverified_line_never_refuses_and_every_line_names_its_source() {
        for rule in ALL.iter().flat_map(|p| p.rules) {
            assert!(rule.verified || rule.severity == Severity::Warn, "{rule:?}");
            assert!(!rule.source.is_empty(), "{rule:?}");
        }
    }
}
