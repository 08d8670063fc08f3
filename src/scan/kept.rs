//! What a scan has told, kept so that another that goes on from there can tell it again: a line of JSON for each directory
//! with findings and for each fault.
//!
//! The lines are read by the release that wrote them and by nobody else. They hold what reports get and not what reports
//! write, so that every format can be made of them.

use std::ffi::OsString;
use std::io::{self, BufRead};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use super::directory::Findings;
use crate::name::Span;
use crate::policy::profile::ProfileSet;
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{Confidence, SuggestedName, Violation};
use crate::report::{Group, Objection, Record};
use crate::source::location::DirectoryPath;
use crate::source::{Fault, Frontier};

/// Keeps how far a scan has come and what it has told, so that another can go on from there.
pub trait Keeper: std::fmt::Debug + Sync {
    /// `line`, without a line feed at its end, is to be told again by whoever goes on.
    ///
    /// # Errors
    /// It cannot be kept; the scan ends.
    fn tell(&self, line: &[u8]) -> io::Result<()>;

    /// Everything but `frontier` has been judged, and the report of it has been written.
    ///
    /// # Errors
    /// It cannot be kept; the scan ends.
    fn keep(&self, frontier: &Frontier, counts: &Counts) -> io::Result<()>;
}

/// What a scan goes on from.
pub struct Kept {
    /// What was counted.
    pub counts: Counts,
    /// The lines that were told.
    pub lines: Box<dyn BufRead>,
}

/// What was counted of what is not told: directories and names without findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Directories read.
    pub directories: u64,
    /// Names judged.
    pub names: u64,
    /// Entries that were gone when their turn came.
    pub vanished: u64,
    /// Entries of the baseline that were met.
    pub accepted: u64,
}

/// Any bytes, in base64.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Octets(pub Vec<u8>);

impl TryFrom<String> for Octets {
    type Error = data_encoding::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        BASE64.decode(text.as_bytes()).map(Self)
    }
}

impl From<Octets> for String {
    fn from(octets: Octets) -> Self {
        BASE64.encode(&octets.0)
    }
}

impl From<&std::ffi::OsStr> for Octets {
    fn from(text: &std::ffi::OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<Octets> for OsString {
    fn from(octets: Octets) -> Self {
        Self::from_vec(octets.0)
    }
}

/// What a line says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Directory { dir: Octets, inode: Option<u64>, groups: Vec<KeptGroup>, records: Vec<KeptRecord> },
    Fault { path: Octets, message: String },
}

#[derive(Serialize, Deserialize)]
struct KeptGroup {
    violation: KeptViolation,
    members: Vec<Octets>,
}

#[derive(Serialize, Deserialize)]
struct KeptRecord {
    name: Octets,
    objections: Vec<KeptObjection>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    repair: Option<(String, Confidence)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    owner: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct KeptObjection {
    violation: KeptViolation,
    message: String,
    /// The place of its group among those of the directory.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    group: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct KeptViolation {
    rule: String,
    severity: Severity,
    start: usize,
    end: usize,
    profiles: ProfileSet,
    refused_by: ProfileSet,
}

/// What a line has told.
pub(super) enum Again {
    Findings(Findings),
    Fault { path: PathBuf, message: String },
}

/// The line that tells of these findings, of which there is at least one.
pub(super) fn of_findings(findings: &Findings) -> Option<Vec<u8>> {
    let place = findings.records.first()?.place.as_ref()?;
    let groups = findings.groups.iter().map(|group| KeptGroup {
        violation: (&group.violation).into(),
        members: group.members.iter().cloned().map(Octets).collect(),
    });
    let at = |group: &Arc<Group>| findings.groups.iter().position(|other| Arc::ptr_eq(group, other));
    let records = findings.records.iter().map(|record| KeptRecord {
        name: Octets(record.name.clone()),
        objections: record
            .objections
            .iter()
            .map(|objection| KeptObjection {
                violation: (&objection.violation).into(),
                message: objection.message.clone(),
                group: objection.group.as_ref().and_then(at),
            })
            .collect(),
        repair: record.repair.as_ref().map(|repair| (repair.name.clone(), repair.confidence)),
        owner: record.owner.clone(),
    });
    let (dir, inode) = (Octets(place.dir.clone()), place.inode);
    Some(written(&Line::Directory { dir, inode, groups: groups.collect(), records: records.collect() }))
}

/// The line that tells of a fault.
pub(super) fn of_fault(fault: &Fault) -> Vec<u8> {
    written(&Line::Fault { path: fault.path.as_os_str().into(), message: fault.to_string() })
}

fn written(line: &Line) -> Vec<u8> {
    serde_json::to_vec(line).expect("it has no map, and nothing in it can fail")
}

/// Reads a line.
///
/// # Errors
/// InvalidData: no scan has written it.
pub(super) fn read(line: &[u8]) -> io::Result<Again> {
    let damaged = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let line: Line = serde_json::from_slice(line).map_err(|error| damaged(error.to_string()))?;
    let (dir, inode, groups, records) = match line {
        Line::Directory { dir, inode, groups, records } => (dir, inode, groups, records),
        Line::Fault { path, message } => {
            return Ok(Again::Fault { path: OsString::from(path).into(), message });
        }
    };
    let place = Arc::new(DirectoryPath { container: None, dir: dir.0, inode });
    let group = |kept: KeptGroup| -> io::Result<Arc<Group>> {
        let members = kept.members.into_iter().map(|member| member.0).collect();
        Ok(Arc::new(Group::new(Arc::clone(&place), kept.violation.read()?, members)))
    };
    let groups = groups.into_iter().map(group).collect::<io::Result<Vec<_>>>()?;
    let objection = |kept: KeptObjection| -> io::Result<Objection> {
        let group = match kept.group {
            Some(at) => Some(groups.get(at).ok_or_else(|| damaged(format!("no group {at}")))?),
            None => None,
        };
        Ok(Objection { violation: kept.violation.read()?, message: kept.message, group: group.cloned() })
    };
    let record = |kept: KeptRecord| -> io::Result<Record> {
        Ok(Record {
            place: Some(Arc::clone(&place)),
            location: None,
            name: kept.name.0,
            objections: kept.objections.into_iter().map(objection).collect::<io::Result<_>>()?,
            repair: kept.repair.map(|(name, confidence)| SuggestedName { name, confidence }),
            owner: kept.owner,
        })
    };
    let records = records.into_iter().map(record).collect::<io::Result<_>>()?;
    Ok(Again::Findings(Findings { groups, records }))
}

impl From<&Violation> for KeptViolation {
    fn from(violation: &Violation) -> Self {
        let Violation { rule, severity, span, profiles, refused_by } = *violation;
        Self { rule: rule.name().into(), severity, start: span.start, end: span.end, profiles, refused_by }
    }
}

impl KeptViolation {
    fn read(self) -> io::Result<Violation> {
        let Self { rule, severity, start, end, profiles, refused_by } = self;
        let rule: RuleId = rule.parse().map_err(|error: crate::policy::UnknownWord| {
            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
        })?;
        Ok(Violation { rule, severity, span: Span::new(start, end), profiles, refused_by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Policy, profile};
    use crate::scan::{Settings, directory};
    use crate::source::Batch;

    #[test]
    fn what_is_read_is_what_was_written_collisions_and_repairs_included() {
        let mut batch = Batch::new("d\u{e9}".into(), 0);
        for name in [&b"README"[..], b"Readme", b"caf\xE9", b"a:b\n", b"nul", b"ok"] {
            batch.push(name);
        }
        let policy = Policy::from_profiles(&[profile::by_name("portable").unwrap()]);
        let findings = directory::judge(&batch, &policy, &Settings::default());
        assert!(findings.groups.len() == 1 && findings.records.iter().any(|r| r.repair.is_some()));
        let line = of_findings(&findings).unwrap();
        assert!(!line.contains(&b'\n'));
        let Again::Findings(again) = read(&line).unwrap() else { panic!("findings") };
        assert_eq!(format!("{:?}", again.records), format!("{:?}", findings.records));
        assert_eq!(format!("{:?}", again.groups), format!("{:?}", findings.groups));

        let error = io::Error::other("no");
        let fault = Fault { path: OsString::from_vec(b"\xFF".to_vec()).into(), attempt: "read", error };
        let Again::Fault { path, message } = read(&of_fault(&fault)).unwrap() else { panic!("a fault") };
        assert_eq!((path, message), (fault.path.clone(), fault.to_string()));
        for damaged in [&b""[..], b"{}", &line[..line.len() - 9], br#"{"fault":{"path":"?","message":""}}"#] {
            assert_eq!(read(damaged).err().map(|e| e.kind()), Some(io::ErrorKind::InvalidData));
        }
    }
}
