//! Checkpoints: what a scan has reported, as a line of JSON for each directory with findings and for each fault, so that the scan
//! that resumes it can report everything.
//!
//! Only the release that wrote the lines can read them. They have everything that reports receive, so every format can be
//! written from them.

use std::ffi::OsString;
use std::io::{self, BufRead};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use namegate_core::name::Span;
use namegate_core::name::reading::NotLegacy;
use namegate_core::policy::profile::ProfileSet;
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_core::policy::{Confidence, DecodedAs, SuggestedName, UnknownWord, Violation};
use namegate_files::json::Base64;
use namegate_findings::location::DirectoryPath;
use namegate_findings::record::UnlistedViolations;
use serde::{Deserialize, Serialize};

use crate::report::{CollisionGroup, DirectoryFindings, ReportedName, ReportedViolation};
use crate::source::{Fault, Frontier};

/// Stores checkpoints, from which another scan can resume.
pub trait CheckpointSink: std::fmt::Debug + Sync {
    /// Appends a line for the scan that resumes this one; `line` has no line feed at its end.
    ///
    /// # Errors
    /// The line cannot be written; the scan ends.
    fn append(&self, line: &[u8]) -> io::Result<()>;

    /// Saves that everything but `frontier` has been checked and reported.
    ///
    /// # Errors
    /// The checkpoint cannot be written; the scan ends.
    fn save(&self, frontier: &Frontier, counts: &CheckpointCounts) -> io::Result<()>;
}

/// What a scan resumes from.
pub struct Checkpoint {
    pub counts: CheckpointCounts,
    /// The lines that were appended before it.
    pub lines: Box<dyn BufRead>,
}

/// Counts that cannot be made from the lines: they include directories and names without findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointCounts {
    /// Directories read.
    pub directories: u64,
    pub names: u64,
    /// Entries that were gone before they were read.
    pub vanished: u64,
    /// Entries of the baseline that were found.
    pub accepted: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CheckpointLine {
    Directory {
        dir: Base64,
        inode: Option<u64>,
        groups: Vec<StoredGroup>,
        records: Vec<StoredName>,
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        accepted: Vec<StoredName>,
    },
    Fault {
        path: Base64,
        message: String,
    },
}

#[derive(Serialize, Deserialize)]
struct StoredGroup {
    violation: StoredViolation,
    members: Vec<Base64>,
}

#[derive(Serialize, Deserialize)]
struct StoredName {
    name: Base64,
    objections: Vec<StoredObjection>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    unlisted: Vec<(String, String, u64)>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    accepted: Vec<StoredViolation>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    repair: Option<StoredSuggestion>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    owner: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct StoredSuggestion {
    name: String,
    confidence: Confidence,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    decoded: Option<(String, Confidence)>,
}

#[derive(Serialize, Deserialize)]
struct StoredObjection {
    violation: StoredViolation,
    message: String,
    /// The index of its group among those of the directory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    group: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct StoredViolation {
    rule: String,
    severity: Severity,
    start: usize,
    end: usize,
    profiles: ProfileSet,
    refused_by: ProfileSet,
    is_certain: bool,
}

/// The contents of a line, for the report.
pub(super) enum Replay {
    Findings(DirectoryFindings),
    Fault { path: PathBuf, message: String },
}

/// The line for these findings; `None` if there are none.
pub(super) fn findings_line(findings: &DirectoryFindings) -> Option<Vec<u8>> {
    let place = findings.records.iter().chain(&findings.accepted).next()?.place.as_ref()?;
    let groups = findings.groups.iter().map(|group| StoredGroup {
        violation: (&group.violation).into(),
        members: group.members.iter().cloned().map(Base64).collect(),
    });
    let at = |group: &Arc<CollisionGroup>| findings.groups.iter().position(|other| Arc::ptr_eq(group, other));
    let stored = |record: &ReportedName| StoredName {
        name: Base64(record.name.clone()),
        objections: record
            .objections
            .iter()
            .map(|objection| StoredObjection {
                violation: (&objection.violation).into(),
                message: objection.message.clone(),
                group: objection.group.as_ref().and_then(at),
            })
            .collect(),
        unlisted: record
            .unlisted
            .iter()
            .map(|of| (of.rule.name().to_owned(), of.severity.as_str().to_owned(), of.count))
            .collect(),
        accepted: record.accepted.iter().map(StoredViolation::from).collect(),
        repair: record.repair.as_ref().map(|repair| StoredSuggestion {
            name: repair.name.clone(),
            confidence: repair.confidence,
            decoded: repair.decoded.map(|of| (of.explanation.to_string(), of.confidence)),
        }),
        owner: record.owner.clone(),
    };
    let (dir, inode) = (Base64(place.dir.clone()), place.inode);
    Some(written(&CheckpointLine::Directory {
        dir,
        inode,
        groups: groups.collect(),
        records: findings.records.iter().map(stored).collect(),
        accepted: findings.accepted.iter().map(stored).collect(),
    }))
}

pub(super) fn fault_line(fault: &Fault) -> Vec<u8> {
    written(&CheckpointLine::Fault {
        path: Base64(fault.path.as_os_str().as_bytes().to_vec()),
        message: fault.to_string(),
    })
}

fn written(line: &CheckpointLine) -> Vec<u8> {
    serde_json::to_vec(line).expect("it has no map and no fallible serializer")
}

/// Reads a line.
///
/// # Errors
/// InvalidData: the line was not written by a scan of this release.
pub(super) fn read(line: &[u8]) -> io::Result<Replay> {
    let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let line: CheckpointLine = serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
    let (dir, inode, groups, records, accepted) = match line {
        CheckpointLine::Directory { dir, inode, groups, records, accepted } => {
            (dir, inode, groups, records, accepted)
        }
        CheckpointLine::Fault { path, message } => {
            return Ok(Replay::Fault { path: OsString::from_vec(path.0).into(), message });
        }
    };
    let place = Arc::new(DirectoryPath { container: None, dir: dir.0, inode });
    let group = |stored: StoredGroup| -> io::Result<Arc<CollisionGroup>> {
        let members = stored.members.into_iter().map(|member| member.0).collect();
        Ok(Arc::new(CollisionGroup::new(Arc::clone(&place), stored.violation.read()?, members)))
    };
    let groups = groups.into_iter().map(group).collect::<io::Result<Vec<_>>>()?;
    let objection = |stored: StoredObjection| -> io::Result<ReportedViolation> {
        let group = match stored.group {
            Some(at) => Some(groups.get(at).ok_or_else(|| damaged(format!("no group {at}")))?),
            None => None,
        };
        Ok(ReportedViolation {
            violation: stored.violation.read()?,
            message: stored.message,
            group: group.cloned(),
        })
    };
    let unlisted = |(rule, severity, count): (String, String, u64)| -> io::Result<UnlistedViolations> {
        let unknown = |word: UnknownWord| damaged(word.to_string());
        let (rule, severity) = (rule.parse().map_err(unknown)?, severity.parse().map_err(unknown)?);
        Ok(UnlistedViolations { rule, severity, count })
    };
    let record = |stored: StoredName| -> io::Result<ReportedName> {
        Ok(ReportedName {
            place: Some(Arc::clone(&place)),
            location: None,
            name: stored.name.0,
            objections: stored.objections.into_iter().map(objection).collect::<io::Result<_>>()?,
            unlisted: stored.unlisted.into_iter().map(unlisted).collect::<io::Result<_>>()?,
            accepted: stored.accepted.into_iter().map(StoredViolation::read).collect::<io::Result<_>>()?,
            repair: stored.repair.map(StoredSuggestion::read).transpose().map_err(damaged)?,
            owner: stored.owner,
        })
    };
    let records = records.into_iter().map(record).collect::<io::Result<_>>()?;
    let accepted = accepted.into_iter().map(record).collect::<io::Result<_>>()?;
    Ok(Replay::Findings(DirectoryFindings { groups, records, accepted }))
}

impl StoredSuggestion {
    fn read(self) -> Result<SuggestedName, String> {
        let Self { name, confidence, decoded } = self;
        let decoded =
            decoded.map(|(how, confidence)| Ok(DecodedAs { explanation: how.parse()?, confidence }));
        let decoded = decoded.transpose().map_err(|error: NotLegacy| error.to_string())?;
        Ok(SuggestedName { name, confidence, is_shortened: false, decoded })
    }
}

impl From<&Violation> for StoredViolation {
    fn from(violation: &Violation) -> Self {
        let Violation { rule, severity, span: Span { start, end }, profiles, refused_by, is_certain } =
            *violation;
        Self { rule: rule.name().into(), severity, start, end, profiles, refused_by, is_certain }
    }
}

impl StoredViolation {
    fn read(self) -> io::Result<Violation> {
        let Self { rule, severity, start, end, profiles, refused_by, is_certain } = self;
        let rule: RuleId = rule
            .parse()
            .map_err(|error: UnknownWord| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
        let span = Span::new(start, end);
        Ok(Violation { rule, severity, span, profiles, refused_by, is_certain })
    }
}

#[cfg(test)]
mod tests {
    use namegate_core::policy::{Policy, profile};
    use namegate_findings::directory::{CheckedNames, DirectoryScan};

    use super::*;
    use crate::report::Detail;
    use crate::source::DirectoryBatch;

    #[test]
    fn a_checkpoint_reads_back_as_it_was_written_with_collisions_and_repairs() {
        let mut batch = DirectoryBatch::new("d\u{e9}".into(), 0);
        for name in [&b"README"[..], b"Readme", b"caf\xE9", b"a:b\n", b"nul", b"ok"] {
            batch.push(name);
        }
        let policy = Policy::from_profiles(&[profile::by_name("portable").unwrap()]);
        let accepts = |_: &DirectoryPath, name: &[u8], rule| {
            name == b"nul" || name == b"a:b\n" && rule == RuleId::ReservedCharacter
        };
        let scan =
            DirectoryScan { accepts: Some(&accepts), ..DirectoryScan::new(&policy, Detail::Everything) };
        let mut findings = DirectoryFindings::default();
        scan.check(&batch.located(b""), CheckedNames::All, &mut |found| findings = found);
        assert!(findings.groups.len() == 1 && findings.records.iter().any(|r| r.encoding_note().is_some()));
        assert!(findings.accepted.len() == 1 && findings.records.iter().any(|r| !r.accepted.is_empty()));
        let line = findings_line(&findings).unwrap();
        assert!(!line.contains(&b'\n'));
        let Replay::Findings(again) = read(&line).unwrap() else { panic!("findings") };
        assert_eq!(format!("{:?}", again.records), format!("{:?}", findings.records));
        assert_eq!(format!("{:?}", again.groups), format!("{:?}", findings.groups));
        assert_eq!(format!("{:?}", again.accepted), format!("{:?}", findings.accepted));

        let error = io::Error::other("no");
        let fault = Fault { path: OsString::from_vec(b"\xFF".to_vec()).into(), attempt: "read", error };
        let Replay::Fault { path, message } = read(&fault_line(&fault)).unwrap() else { panic!("a fault") };
        assert_eq!((path, message), (fault.path.clone(), fault.to_string()));
        for damaged in [&b""[..], b"{}", &line[..line.len() - 9], br#"{"fault":{"path":"?","message":""}}"#] {
            assert_eq!(read(damaged).err().map(|e| e.kind()), Some(io::ErrorKind::InvalidData));
        }
    }
}
