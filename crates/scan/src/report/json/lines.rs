//! The objects of JSON Lines, to write and to read. The fields are part of the interface: `docs/JSON.md`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use namegate_core::policy::profile::{self, ProfileSet};
use namegate_core::policy::{UnknownWord, Violation};
use namegate_files::json::{Base64, FORMAT_VERSION, Hex, known_version};
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::location::{Container, Location};
use namegate_findings::record::UnlistedViolations;
use namegate_findings::unmarked::{UnmarkedNames, UnmarkedReading};
use serde::{Deserialize, Serialize};

use crate::report::readiness::{Readiness, TargetCounts};
use crate::report::summary::RuleCounts;
use crate::report::{CollisionGroup, ReportedName, ReportedViolation, Summary};

/// The `type` of a name with violations, in a directory.
pub(crate) const FINDING: &str = "finding";
/// The `type` of a name by itself.
pub const NAME: &str = "name";
/// The `type` of a group of names that become one.
pub(crate) const COLLISION: &str = "collision";
/// The `type` of something that could not be read.
pub(crate) const FAULT: &str = "error";
/// The `type` of a row of a table of counts.
pub const COUNT: &str = "count";
/// The `type` of the summary of a run.
pub(crate) const SUMMARY: &str = "summary";

/// The `source` of names in a list.
pub(crate) const FROM_LIST: &str = "list";
/// The `source` of names in a repository.
pub(crate) const FROM_GIT: &str = "git";
/// The `source` of names in an archive.
pub(crate) const FROM_ARCHIVE: &str = "archive";

type NameBytes<'l> = Hex<Cow<'l, [u8]>>;
type PathBytes<'l> = Base64<Cow<'l, [u8]>>;
type Words<'l> = Vec<Cow<'l, str>>;

/// What every object begins with.
#[derive(Deserialize)]
pub struct JsonLineType<'l> {
    /// One of the constants above.
    pub r#type: Cow<'l, str>,
}

/// A name and its violations.
#[derive(Default, Serialize, Deserialize)]
pub struct RecordLine<'l> {
    /// `FINDING` or `NAME`.
    pub r#type: Cow<'l, str>,
    /// The path, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Cow<'l, str>>,
    /// Its exact bytes; `None` for a name by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_base64: Option<PathBytes<'l>>,
    pub name_hex: NameBytes<'l>,
    /// The inode number of its directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_inode: Option<u64>,
    /// The kind of the container, if the directory is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Cow<'l, str>>,
    /// The path of the container, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Cow<'l, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_base64: Option<PathBytes<'l>>,
    /// The revision in a repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<Cow<'l, str>>,
    /// The number of the item in a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<u64>,
    /// The number of the member in an archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<u64>,
    /// The earliest commit that has the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_commit: Option<Cow<'l, str>>,
    /// The latest commit that has the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_commit: Option<Cow<'l, str>>,
    /// `accept`, `warn` or `reject`, which follows from the violations.
    pub verdict: Cow<'l, str>,
    pub violations: Vec<ViolationLine<'l>>,
    /// Further violations, which are only counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted: Vec<UnlistedLine<'l>>,
    /// The suggested name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Cow<'l, str>>,
    /// How certain it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair_confidence: Option<Cow<'l, str>>,
    /// For a name that is not UTF-8 and has a suggested name: how its bytes were decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<Cow<'l, str>>,
    /// How certain the reading is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading_confidence: Option<Cow<'l, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Cow<'l, str>>,
}

/// Violations of a name that are only counted.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct UnlistedLine<'l> {
    pub rule: Cow<'l, str>,
    pub severity: Cow<'l, str>,
    /// Their number.
    pub count: u64,
}

impl From<&UnlistedViolations> for UnlistedLine<'_> {
    fn from(&UnlistedViolations { rule, severity, count }: &UnlistedViolations) -> Self {
        Self { rule: rule.name().into(), severity: severity.as_str().into(), count }
    }
}

impl<'l> From<&'l ReportedName> for RecordLine<'l> {
    fn from(record: &'l ReportedName) -> Self {
        let path = record.place.as_ref().map(|_| record.path());
        let decoded = record.repair.as_ref().and_then(|repair| repair.decoded);
        let mut line = Self {
            r#type: if record.place.is_some() { FINDING } else { NAME }.into(),
            path: path
                .as_deref()
                .and_then(|path| std::str::from_utf8(path).ok())
                .map(|path| path.to_owned().into()),
            path_base64: path.map(|path| Base64(path.into())),
            name_hex: Hex(record.name.as_slice().into()),
            parent_inode: record.place.as_ref().and_then(|place| place.inode),
            verdict: record.outcome().as_str().into(),
            violations: record.objections.iter().map(ViolationLine::from).collect(),
            unlisted: record.unlisted.iter().map(UnlistedLine::from).collect(),
            repair: record.repair.as_ref().map(|repair| repair.name.as_str().into()),
            repair_confidence: record.repair.as_ref().map(|repair| repair.confidence.as_str().into()),
            reading: decoded.map(|decoded| decoded.explanation.to_string().into()),
            reading_confidence: decoded.map(|decoded| decoded.confidence.as_str().into()),
            owner: record.owner.as_deref().map(Cow::Borrowed),
            ..Self::default()
        };
        if let Some(container) = record.place.as_ref().and_then(|place| place.container.as_deref()) {
            line.set_container(container);
        }
        match record.location {
            None => {}
            Some(Location::Item(number)) => line.item = Some(number),
            Some(Location::Member(number)) => line.member = Some(number),
            Some(Location::Commits { first, last }) => {
                line.first_commit = Some(first.to_string().into());
                line.last_commit = Some(last.to_string().into());
            }
        }
        line
    }
}

impl<'l> RecordLine<'l> {
    fn set_container(&mut self, container: &'l Container) {
        let (source, container) = match container {
            Container::List { file } => (FROM_LIST, file),
            Container::Archive { file, .. } => (FROM_ARCHIVE, file),
            Container::Git { repository, revision } => {
                self.revision = Some(String::from_utf8_lossy(revision));
                (FROM_GIT, repository)
            }
        };
        self.source = Some(source.into());
        self.container = std::str::from_utf8(container).ok().map(Cow::Borrowed);
        self.container_base64 = Some(Base64(container.as_slice().into()));
    }
}

#[derive(Serialize, Deserialize)]
pub struct ViolationLine<'l> {
    pub rule: Cow<'l, str>,
    /// `warn` or `error`.
    pub severity: Cow<'l, str>,
    /// The first byte of the name that breaks the rule.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
    pub message: Cow<'l, str>,
    /// `security` or `portability`; the rule says it too.
    #[serde(default)]
    pub concern: Cow<'l, str>,
    /// The profiles that object.
    pub profiles: Words<'l>,
    /// Those for which it is an error.
    pub refused_by: Words<'l>,
    /// For collisions: the id of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Cow<'l, str>>,
    /// `false`: the rule may not apply, which depends on the kind or the place of the entry. Written only then.
    #[serde(default = "is_certain", skip_serializing_if = "is_written_nowhere")]
    pub certain: bool,
}

const fn is_certain() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_written_nowhere(is_certain: &bool) -> bool {
    *is_certain
}

impl<'l> From<&'l ReportedViolation> for ViolationLine<'l> {
    fn from(objection: &'l ReportedViolation) -> Self {
        let group = objection.group.as_ref().map(|group| group.id.as_str().into());
        Self { group, ..Self::new(&objection.violation, &objection.message) }
    }
}

impl<'l> ViolationLine<'l> {
    pub(crate) fn new(violation: &Violation, message: &'l str) -> Self {
        Self {
            rule: violation.rule.name().into(),
            severity: violation.severity.as_str().into(),
            start: violation.span.start,
            end: violation.span.end,
            message: message.into(),
            concern: violation.rule.rule().concern.as_str().into(),
            profiles: words(violation.profiles),
            refused_by: words(violation.refused_by),
            group: None,
            certain: violation.is_certain,
        }
    }
}

fn words(set: ProfileSet) -> Words<'static> {
    set.names().map(Cow::Borrowed).collect()
}

/// Something that could not be read.
#[derive(Serialize, Deserialize)]
pub struct FaultLine<'l> {
    r#type: Cow<'l, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<Cow<'l, str>>,
    pub path_base64: PathBytes<'l>,
    pub message: Cow<'l, str>,
}

impl<'l> FaultLine<'l> {
    /// The line for a fault.
    pub fn new(path: &'l [u8], message: &'l str) -> Self {
        Self {
            r#type: FAULT.into(),
            path: std::str::from_utf8(path).ok().map(Cow::Borrowed),
            path_base64: Base64(path.into()),
            message: message.into(),
        }
    }
}

/// Names that become one.
#[derive(Serialize, Deserialize)]
pub struct CollisionLine<'l> {
    r#type: Cow<'l, str>,
    pub group: Cow<'l, str>,
    /// The rule that the names break.
    pub rule: Cow<'l, str>,
    /// `warn` or `error`.
    pub severity: Cow<'l, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: Option<Cow<'l, str>>,
    pub dir_base64: PathBytes<'l>,
    /// The profiles that object.
    pub profiles: Words<'l>,
    /// Those for which it is an error.
    pub refused_by: Words<'l>,
    pub members: Vec<MemberFields<'l>>,
}

#[derive(Serialize, Deserialize)]
pub struct MemberFields<'l> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'l, str>>,
    pub name_hex: NameBytes<'l>,
}

impl<'l> From<&'l CollisionGroup> for CollisionLine<'l> {
    fn from(group: &'l CollisionGroup) -> Self {
        let (violation, dir) = (&group.violation, group.place.dir.as_slice());
        let member = |name: &'l Vec<u8>| MemberFields {
            name: std::str::from_utf8(name).ok().map(Cow::Borrowed),
            name_hex: Hex(name.as_slice().into()),
        };
        Self {
            r#type: COLLISION.into(),
            group: group.id.as_str().into(),
            rule: violation.rule.name().into(),
            severity: violation.severity.as_str().into(),
            dir: std::str::from_utf8(dir).ok().map(Cow::Borrowed),
            dir_base64: Base64(dir.into()),
            profiles: words(violation.profiles),
            refused_by: words(violation.refused_by),
            members: group.members.iter().map(member).collect(),
        }
    }
}

/// The last line, which is also part of other formats.
#[derive(Serialize, Deserialize)]
pub struct SummaryLine<'l> {
    r#type: Cow<'l, str>,
    #[serde(deserialize_with = "known_version")]
    version: u32,
    namegate: Cow<'l, str>,
    unicode: Cow<'l, str>,
    policy: Cow<'l, str>,
    min_severity: Cow<'l, str>,
    profiles: Words<'l>,
    /// Directories that were checked as a whole.
    pub directories: u64,
    /// Names that were checked.
    pub names: u64,
    /// Names with a violation.
    pub findings: u64,
    violation_count: u64,
    rejected: u64,
    warned: u64,
    /// Things that could not be read.
    pub unreadable: u64,
    /// Entries that were gone before they were read.
    pub vanished: u64,
    /// The run was stopped early.
    pub interrupted: bool,
    complete: bool,
    insecure: u64,
    collisions: u64,
    /// Names that do not arrive unchanged at one or more of the targets.
    pub lost_or_changed: u64,
    /// Findings that the baseline accepts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_accepted: Option<u64>,
    /// Entries of the baseline without a finding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_stale: Option<u64>,
    violations_by_rule: BTreeMap<Cow<'l, str>, u64>,
    names_by_rule: BTreeMap<Cow<'l, str>, u64>,
    /// Names of archives that are not marked as UTF-8, by archive and encoding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmarked: Vec<UnmarkedLine<'l>>,
    /// What each target does with the names.
    pub targets: Vec<TargetLine<'l>>,
}

/// Members of an archive whose names are not marked as UTF-8.
#[derive(Serialize, Deserialize)]
pub struct UnmarkedLine<'l> {
    /// The path of the archive, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<Cow<'l, str>>,
    container_base64: PathBytes<'l>,
    /// The encoding in which the names were read.
    encoding: Cow<'l, str>,
    /// How certain it is.
    confidence: Cow<'l, str>,
    /// The number of members.
    members: u64,
    /// The names are checked as stored.
    stored: bool,
}

impl<'l> UnmarkedLine<'l> {
    fn for_archive(names: &'l UnmarkedNames) -> impl Iterator<Item = Self> {
        names.readings.iter().map(|reading| Self {
            container: std::str::from_utf8(&names.file).ok().map(Cow::Borrowed),
            container_base64: Base64(names.file.as_slice().into()),
            encoding: (&*reading.encoding).into(),
            confidence: reading.confidence.as_str().into(),
            members: reading.members,
            stored: names.are_stored,
        })
    }

    /// The archive, the reading, and whether the names are checked as stored.
    ///
    /// # Errors
    /// A word that this version does not know.
    pub fn reading(&self) -> Result<(&[u8], UnmarkedReading, bool), UnknownWord> {
        let reading = UnmarkedReading {
            encoding: self.encoding.to_string().into(),
            confidence: self.confidence.parse()?,
            members: self.members,
        };
        Ok((&self.container_base64.0, reading, self.stored))
    }
}

/// What a target does with the names.
#[derive(Serialize, Deserialize)]
pub struct TargetLine<'l> {
    pub target: Cow<'l, str>,
    verdict: Cow<'l, str>,
    ready: u64,
    #[serde(flatten)]
    counts: TargetCounts,
    names_by_rule: BTreeMap<Cow<'l, str>, u64>,
}

impl<'l> SummaryLine<'l> {
    pub fn new(basis: &'l CheckBasis, summary: &'l Summary) -> Self {
        let CheckBasis { namegate, unicode, policy, min_severity, profiles } = basis;
        Self {
            r#type: SUMMARY.into(),
            version: FORMAT_VERSION,
            namegate: namegate.as_str().into(),
            unicode: unicode.as_str().into(),
            policy: policy.as_str().into(),
            min_severity: min_severity.as_str().into(),
            profiles: words(*profiles),
            directories: summary.directories,
            names: summary.names,
            findings: summary.findings(),
            violation_count: summary.violations(),
            rejected: summary.rejected,
            warned: summary.warned,
            unreadable: summary.unreadable,
            vanished: summary.vanished,
            interrupted: summary.was_interrupted,
            complete: summary.is_complete(),
            insecure: summary.insecure,
            collisions: summary.collisions,
            lost_or_changed: summary.lost_or_changed,
            baseline_accepted: summary.baseline.map(|b| b.accepted),
            baseline_stale: summary.baseline.and_then(|b| b.stale),
            violations_by_rule: by_rule(summary, |counts| counts.violations),
            names_by_rule: by_rule(summary, |counts| counts.names),
            unmarked: summary.unmarked.iter().flat_map(UnmarkedLine::for_archive).collect(),
            targets: summary.targets.iter().map(|target| TargetLine::new(target, summary)).collect(),
        }
    }

    /// What names were checked with.
    ///
    /// # Errors
    /// A word that this version does not know.
    pub fn basis(&self) -> Result<CheckBasis, UnknownWord> {
        let profiles = ProfileSet::from_names(self.profiles.iter().map(|name| &**name));
        Ok(CheckBasis {
            namegate: self.namegate.to_string(),
            unicode: self.unicode.to_string(),
            policy: self.policy.to_string(),
            min_severity: self.min_severity.parse()?,
            profiles: profiles?,
        })
    }
}

fn by_rule(summary: &Summary, count: fn(&RuleCounts) -> u64) -> BTreeMap<Cow<'static, str>, u64> {
    summary.rules.iter().map(|(rule, counts)| (rule.name().into(), count(counts))).collect()
}

impl TargetLine<'_> {
    /// The counts, to be added to those of other runs.
    ///
    /// # Errors
    /// A word that this version does not know.
    pub fn read(&self) -> Result<Readiness, UnknownWord> {
        let mut readiness = Readiness::new(profile::by_name(&self.target)?);
        readiness.counts = self.counts;
        for (rule, &names) in &self.names_by_rule {
            readiness.rules.insert(rule.parse()?, names);
        }
        Ok(readiness)
    }

    fn new(readiness: &Readiness, summary: &Summary) -> Self {
        Self {
            target: readiness.target.name.into(),
            verdict: summary.verdict(readiness).as_str().into(),
            ready: readiness.ready(summary.names),
            counts: readiness.counts,
            names_by_rule: readiness.rules.iter().map(|(rule, count)| (rule.name().into(), *count)).collect(),
        }
    }
}
