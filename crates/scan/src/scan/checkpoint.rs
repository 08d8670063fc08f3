//! Checkpoints: what a scan has reported, as a line of JSON for each directory with findings and for each fault, so that the scan
//! that resumes it can report everything.
//!
//! Only the release that wrote the lines can read them. They have everything that reports receive, so every format can be
//! written from them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, BufRead};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::collect::collected_directory::{CollectedDirectory, GroupsById};
use crate::collect::record::{CollectedGroup, CollectedRecord, read_violation};
use crate::report::json::lines::{CollisionLine, FaultLine, RecordLine, ViolationLine};
use crate::report::{DirectoryFindings, ReportedName};
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
    Directory(StoredFindings<'l>),
    Fault(FaultLine<'l>),
}

/// Some findings of a directory, which may be in groups that earlier lines have listed.
#[derive(Serialize, Deserialize)]
struct StoredFindings<'l> {
    groups: Vec<CollisionLine<'l>>,
    records: Vec<StoredName<'l>>,
    accepted: Vec<StoredName<'l>>,
    has_more: bool,
}

/// A name, and its violations that the baseline accepts.
#[derive(Serialize, Deserialize)]
struct StoredName<'l> {
    reported: RecordLine<'l>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    accepted: Vec<ViolationLine<'l>>,
}

impl<'l> StoredName<'l> {
    fn new(record: &'l ReportedName) -> Self {
        let reported = RecordLine { path: None, ..RecordLine::from(record) };
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
    Some(written(&CheckpointLine::Directory(StoredFindings {
        groups: findings.groups.iter().map(|group| CollisionLine::from(&**group)).collect(),
        records: findings.records.iter().map(StoredName::new).collect(),
        accepted: findings.accepted.iter().map(StoredName::new).collect(),
        has_more: findings.has_more,
    })))
}

pub(super) fn fault_line(fault: &Fault) -> Vec<u8> {
    written(&CheckpointLine::Fault(FaultLine::new(fault.path.as_os_str().as_bytes(), &fault.to_string())))
}

fn written(line: &CheckpointLine<'_>) -> Vec<u8> {
    serde_json::to_vec(line).expect("it has no map and no fallible serializer")
}

/// Reads the lines of a checkpoint.
#[derive(Default)]
pub(super) struct CheckpointReader {
    /// The groups that were listed, of directories with more names: as many as there were threads.
    listed: HashMap<Vec<u8>, GroupsById>,
}

impl CheckpointReader {
    /// Reads a line.
    ///
    /// # Errors
    /// InvalidData: the line was not written by a scan of this release.
    pub(super) fn read(&mut self, line: &[u8]) -> io::Result<Replay> {
        let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        match serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))? {
            CheckpointLine::Directory(stored) => {
                self.read_findings(stored).map(Replay::Findings).map_err(damaged)
            }
            CheckpointLine::Fault(fault) => {
                let path = OsString::from_vec(fault.path_base64.0.into_owned()).into();
                Ok(Replay::Fault { path, message: fault.message.into_owned() })
            }
        }
    }

    fn read_findings(&mut self, stored: StoredFindings<'_>) -> Result<DirectoryFindings, String> {
        let read = |names: Vec<StoredName<'_>>| -> Result<Vec<CollectedRecord>, String> {
            names.into_iter().map(StoredName::read).collect()
        };
        let groups = stored.groups.iter().map(CollectedGroup::read).collect::<Result<_, _>>()?;
        let (records, accepted) = (read(stored.records)?, read(stored.accepted)?);
        let place = records.iter().chain(&accepted).find_map(|of| of.record.place.clone());
        let dir = place.as_ref().map(|place| place.dir.clone()).unwrap_or_default();
        let mut listed = self.listed.remove(&dir).unwrap_or_default();
        let found = CollectedDirectory { groups, records }.into_findings(place, &listed);
        if stored.has_more {
            listed.extend(found.groups.iter().map(|group| (group.id.clone(), group.clone())));
            self.listed.insert(dir, listed);
        }
        let accepted = accepted.into_iter().map(|of| of.record).collect();
        Ok(DirectoryFindings { accepted, has_more: stored.has_more, ..found })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
        let mut reader = CheckpointReader::default();
        let Replay::Findings(again) = reader.read(&line).unwrap() else { panic!("findings") };
        assert_eq!(format!("{:?}", again.records), format!("{:?}", findings.records));
        assert_eq!(format!("{:?}", again.groups), format!("{:?}", findings.groups));
        assert_eq!(format!("{:?}", again.accepted), format!("{:?}", findings.accepted));

        let error = io::Error::other("no");
        let fault = Fault { path: OsString::from_vec(b"\xFF".to_vec()).into(), attempt: "read", error };
        let Replay::Fault { path, message } = reader.read(&fault_line(&fault)).unwrap() else {
            panic!("a fault")
        };
        assert_eq!((path, message), (fault.path.clone(), fault.to_string()));
        for damaged in [&b""[..], b"{}", &line[..line.len() - 9], br#"{"fault":{"path":"?","message":""}}"#] {
            assert_eq!(reader.read(damaged).err().map(|e| e.kind()), Some(io::ErrorKind::InvalidData));
        }
    }

    #[test]
    fn names_are_in_the_groups_that_an_earlier_line_of_their_directory_lists() {
        let policy = Policy::from_profiles(&[profile::by_name("portable").unwrap()]);
        let check = |dir: &str, count: usize| {
            let mut batch = DirectoryBatch::new(dir.into(), 0);
            // Upper case comes before lower case: most names that become one are in different parts.
            for name in (0..count).flat_map(|number| [format!("NAME {number}"), format!("name {number}")]) {
                batch.push(name.as_bytes());
            }
            let (mut parts, scan) = (Vec::new(), DirectoryScan::new(&policy, Detail::Everything));
            scan.check(&batch.located(b""), CheckedNames::All, &mut |found| parts.push(found));
            parts
        };
        let (several, two) = (check("several", 600), check("two", 512));
        let counts = |parts: &[DirectoryFindings]| -> Vec<(usize, usize, bool)> {
            parts.iter().map(|part| (part.groups.len(), part.records.len(), part.has_more)).collect()
        };
        assert_eq!(counts(&several), [(600, 512, true), (0, 512, true), (0, 176, false)]);
        assert_eq!(counts(&two), [(512, 512, true), (0, 512, false)]);
        let mut reader = CheckpointReader::default();
        // Two threads have written them.
        for part in [&several[0], &two[0], &several[1], &two[1], &several[2]] {
            let Replay::Findings(again) = reader.read(&findings_line(part).unwrap()).unwrap() else {
                panic!("findings")
            };
            let lines = |part: &DirectoryFindings| {
                let groups = part.groups.iter().map(|group| format!("{group:?}"));
                groups.chain(part.records.iter().map(|name| format!("{name:?}"))).collect::<BTreeSet<_>>()
            };
            assert_eq!(lines(&again).symmetric_difference(&lines(part)).next(), None);
        }
        assert!(reader.listed.is_empty(), "nothing more is to come");
    }
}
