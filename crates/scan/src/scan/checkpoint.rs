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

use serde::{Deserialize, Serialize};

use crate::collect::collected_directory::CollectedDirectory;
use crate::collect::record::{CollectedGroup, CollectedRecord, read_violation};
use crate::report::json::lines::{CollisionLine, FaultLine, RecordLine, ViolationLine};
use crate::report::{CollisionGroup, DirectoryFindings, ReportedName};
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

/// A line, made of the objects of JSON Lines.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CheckpointLine<'l> {
    Directory { groups: Vec<CollisionLine<'l>>, records: Vec<StoredName<'l>>, accepted: Vec<StoredName<'l>> },
    Fault(FaultLine<'l>),
}

/// A name, and its violations that the baseline accepts.
#[derive(Serialize, Deserialize)]
struct StoredName<'l> {
    reported: RecordLine<'l>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    accepted: Vec<ViolationLine<'l>>,
}

impl<'l> StoredName<'l> {
    /// A group of names is that of the part of the directory that lists it: further parts must not list it again.
    fn new(record: &'l ReportedName, listed: &[Arc<CollisionGroup>]) -> Self {
        let mut reported = RecordLine { path: None, ..RecordLine::from(record) };
        for (line, objection) in reported.violations.iter_mut().zip(&record.objections) {
            let is_listed = |of: &Arc<CollisionGroup>| listed.iter().any(|group| Arc::ptr_eq(group, of));
            if !objection.group.as_ref().is_some_and(is_listed) {
                line.group = None;
            }
        }
        let accepted = record.accepted.iter().map(|violation| ViolationLine::new(violation, ""));
        Self { reported, accepted: accepted.collect() }
    }

    fn read(self) -> Result<CollectedRecord, String> {
        let mut read = CollectedRecord::read(self.reported)?;
        let name_len = read.record.name.len();
        let accepted = self.accepted.iter().map(|line| Ok(read_violation(line, name_len)?.0.violation));
        read.record.accepted = accepted.collect::<Result<_, String>>()?;
        Ok(read)
    }
}

/// The contents of a line, for the report.
pub(super) enum Replay {
    Findings(DirectoryFindings),
    Fault { path: PathBuf, message: String },
}

/// The line for these findings; `None` if there are none.
pub(super) fn findings_line(findings: &DirectoryFindings) -> Option<Vec<u8>> {
    if findings.is_empty() {
        return None;
    }
    Some(written(&CheckpointLine::Directory {
        groups: findings.groups.iter().map(|group| CollisionLine::from(&**group)).collect(),
        records: stored(&findings.records, &findings.groups),
        accepted: stored(&findings.accepted, &findings.groups),
    }))
}

fn stored<'f>(records: &'f [ReportedName], listed: &[Arc<CollisionGroup>]) -> Vec<StoredName<'f>> {
    records.iter().map(|record| StoredName::new(record, listed)).collect()
}

pub(super) fn fault_line(fault: &Fault) -> Vec<u8> {
    written(&CheckpointLine::Fault(FaultLine::new(fault.path.as_os_str().as_bytes(), &fault.to_string())))
}

fn written(line: &CheckpointLine<'_>) -> Vec<u8> {
    serde_json::to_vec(line).expect("it has no map and no fallible serializer")
}

/// Reads a line.
///
/// # Errors
/// InvalidData: the line was not written by a scan of this release.
pub(super) fn read(line: &[u8]) -> io::Result<Replay> {
    let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    match serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))? {
        CheckpointLine::Directory { groups, records, accepted } => {
            read_findings(&groups, records, accepted).map(Replay::Findings).map_err(damaged)
        }
        CheckpointLine::Fault(fault) => {
            let path = OsString::from_vec(fault.path_base64.0.into_owned()).into();
            Ok(Replay::Fault { path, message: fault.message.into_owned() })
        }
    }
}

fn read_findings(
    groups: &[CollisionLine<'_>],
    records: Vec<StoredName<'_>>,
    accepted: Vec<StoredName<'_>>,
) -> Result<DirectoryFindings, String> {
    let read = |names: Vec<StoredName<'_>>| -> Result<Vec<CollectedRecord>, String> {
        names.into_iter().map(StoredName::read).collect()
    };
    let groups = groups.iter().map(CollectedGroup::read).collect::<Result<_, _>>()?;
    let (records, accepted) = (read(records)?, read(accepted)?);
    let place = records.iter().chain(&accepted).find_map(|of| of.record.place.clone());
    let findings = CollectedDirectory { groups, records }.into_findings(place);
    Ok(DirectoryFindings { accepted: accepted.into_iter().map(|of| of.record).collect(), ..findings })
}

#[cfg(test)]
mod tests {
    use namegate_core::policy::rule::RuleId;
    use namegate_core::policy::{Policy, profile};
    use namegate_findings::directory::{CheckedNames, DirectoryScan};
    use namegate_findings::location::DirectoryPath;

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
