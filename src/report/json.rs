//! JSON Lines: one object per line, the summary last. The fields are part of the interface: `docs/JSON.md`.
//!
//! Exact bytes are always present, in base64 and hex; `path` is present only if it is UTF-8, because JSON text cannot
//! represent other bytes. Everything that could act on a terminal is escaped, so that the output can be displayed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::readiness::Readiness;
use super::{
    CollisionGroup, DirectoryFindings, RenderedFindings, Renderer, Report, ReportedName, ReportedViolation,
    Summary,
};
use crate::json::{self, Base64, Hex};
use crate::name::scalar::UNICODE_VERSION;
use crate::policy::Policy;
use crate::source::location::{Container, Location};

/// Writes records as JSON Lines.
pub struct Json<W> {
    out: W,
}

impl<W: Write + Send> Json<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    fn line(&mut self, object: &impl Serialize) -> io::Result<()> {
        json::write_line(&mut self.out, object)
    }
}

#[derive(Serialize)]
struct RecordLine<'r> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<Base64<&'r [u8]>>,
    name_hex: Hex<&'r [u8]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_inode: Option<u64>,
    #[serde(flatten)]
    standing: ContainerFields<'r>,
    verdict: &'static str,
    violations: Vec<ViolationLine<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repair_confidence: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'r str>,
}

/// The container of the name, if it is not a directory on disk.
#[derive(Default, Serialize)]
struct ContainerFields<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_base64: Option<Base64<&'r [u8]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_commit: Option<String>,
}

impl<'r> ContainerFields<'r> {
    fn of(record: &'r ReportedName) -> Self {
        let mut standing = Self::default();
        if let Some(container) = record.place.as_ref().and_then(|place| place.container.as_deref()) {
            let (source, container) = match container {
                Container::List { file } => ("list", file),
                Container::Archive { file, .. } => ("archive", file),
                Container::Git { repository, revision } => {
                    standing.revision = Some(String::from_utf8_lossy(revision));
                    ("git", repository)
                }
            };
            standing.source = Some(source);
            standing.container = std::str::from_utf8(container).ok();
            standing.container_base64 = Some(Base64(container));
        }
        match record.location {
            None => {}
            Some(Location::Item(number)) => standing.item = Some(number),
            Some(Location::Member(number)) => standing.member = Some(number),
            Some(Location::Commits { first, last }) => {
                standing.first_commit = Some(first.to_string());
                standing.last_commit = Some(last.to_string());
            }
        }
        standing
    }
}

#[derive(Serialize)]
struct ViolationLine<'r> {
    rule: &'static str,
    severity: &'static str,
    start: usize,
    end: usize,
    message: &'r str,
    concern: &'static str,
    profiles: Vec<&'static str>,
    refused_by: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'r str>,
}

impl<'r> From<&'r ReportedViolation> for ViolationLine<'r> {
    fn from(objection: &'r ReportedViolation) -> Self {
        let violation = &objection.violation;
        Self {
            rule: violation.rule.name(),
            severity: violation.severity.as_str(),
            start: violation.span.start,
            end: violation.span.end,
            message: &objection.message,
            concern: violation.rule.rule().concern.as_str(),
            profiles: violation.profiles.names().collect(),
            refused_by: violation.refused_by.names().collect(),
            group: objection.group.as_ref().map(|group| group.id.as_str()),
        }
    }
}

#[derive(Serialize)]
struct FaultLine<'r> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'r str>,
    path_base64: Base64<&'r [u8]>,
    message: &'r str,
}

#[derive(Serialize)]
struct CollisionLine<'r> {
    r#type: &'static str,
    group: &'r str,
    rule: &'static str,
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: Option<&'r str>,
    dir_base64: Base64<&'r [u8]>,
    profiles: Vec<&'static str>,
    refused_by: Vec<&'static str>,
    members: Vec<MemberFields<'r>>,
}

#[derive(Serialize)]
struct MemberFields<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'r str>,
    name_hex: Hex<&'r [u8]>,
}

/// The last line, which is also part of other formats.
#[derive(Serialize)]
pub(super) struct SummaryLine {
    r#type: &'static str,
    namegate: &'static str,
    unicode: String,
    profiles: Vec<&'static str>,
    directories: u64,
    names: u64,
    findings: u64,
    rejected: u64,
    warned: u64,
    unreadable: u64,
    vanished: u64,
    interrupted: bool,
    insecure: u64,
    collisions: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline_accepted: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline_stale: Option<u64>,
    rules: BTreeMap<&'static str, u64>,
    targets: Vec<TargetLine>,
}

#[derive(Serialize)]
struct TargetLine {
    target: &'static str,
    verdict: &'static str,
    ready: u64,
    refused: u64,
    changed: u64,
    merged: u64,
    path_too_long: u64,
    rejected: u64,
    warned: u64,
    rules: BTreeMap<&'static str, u64>,
}

/// The summary of a run.
pub(super) fn summary_line(policy: &Policy, summary: &Summary) -> SummaryLine {
    let (major, minor, patch) = UNICODE_VERSION;
    SummaryLine {
        r#type: "summary",
        namegate: env!("CARGO_PKG_VERSION"),
        unicode: format!("{major}.{minor}.{patch}"),
        profiles: policy.profile_set().names().collect(),
        directories: summary.directories,
        names: summary.names,
        findings: summary.findings(),
        rejected: summary.rejected,
        warned: summary.warned,
        unreadable: summary.unreadable,
        vanished: summary.vanished,
        interrupted: summary.was_interrupted,
        insecure: summary.insecure,
        collisions: summary.collisions,
        baseline_accepted: summary.baseline.map(|b| b.accepted),
        baseline_stale: summary.baseline.map(|b| b.stale),
        rules: summary.rules.iter().map(|(rule, (count, _))| (rule.name(), *count)).collect(),
        targets: summary.targets.iter().map(|target| target_line(target, summary.names)).collect(),
    }
}

fn target_line(readiness: &Readiness, names: u64) -> TargetLine {
    TargetLine {
        target: readiness.target.name,
        verdict: readiness.verdict().as_str(),
        ready: readiness.ready(names),
        refused: readiness.refused,
        changed: readiness.changed,
        merged: readiness.merged,
        path_too_long: readiness.too_long,
        rejected: readiness.rejected,
        warned: readiness.warned,
        rules: readiness.rules.iter().map(|(rule, count)| (rule.name(), *count)).collect(),
    }
}

struct JsonRenderer;

impl Renderer for JsonRenderer {
    fn render(&self, findings: &DirectoryFindings) -> RenderedFindings {
        let mut lines = Vec::new();
        write_findings(&mut lines, findings).expect("memory takes every write");
        RenderedFindings::Bytes(lines)
    }
}

fn write_findings(out: &mut impl Write, findings: &DirectoryFindings) -> io::Result<()> {
    findings.groups.iter().try_for_each(|group| write_collision(out, group))?;
    findings.records.iter().try_for_each(|record| write_record(out, record))
}

fn write_collision(out: &mut impl Write, group: &CollisionGroup) -> io::Result<()> {
    let violation = &group.violation;
    let dir = &group.place.dir;
    let line = CollisionLine {
        r#type: "collision",
        group: &group.id,
        rule: violation.rule.name(),
        severity: violation.severity.as_str(),
        dir: std::str::from_utf8(dir).ok(),
        dir_base64: Base64(dir),
        profiles: violation.profiles.names().collect(),
        refused_by: violation.refused_by.names().collect(),
        members: (group.members.iter())
            .map(|name| MemberFields { name: std::str::from_utf8(name).ok(), name_hex: Hex(&**name) })
            .collect(),
    };
    json::write_line(out, &line)
}

fn write_record(out: &mut impl Write, record: &ReportedName) -> io::Result<()> {
    let path = record.place.as_ref().map(|_| record.path());
    let line = RecordLine {
        r#type: if record.place.is_some() { "finding" } else { "name" },
        path: path.as_deref().and_then(|path| std::str::from_utf8(path).ok()),
        path_base64: path.as_deref().map(Base64),
        name_hex: Hex(&record.name),
        parent_inode: record.place.as_ref().and_then(|place| place.inode),
        standing: ContainerFields::of(record),
        verdict: record.outcome().as_str(),
        violations: record.objections.iter().map(ViolationLine::from).collect(),
        repair: record.repair.as_ref().map(|repair| repair.name.as_str()),
        repair_confidence: record.repair.as_ref().map(|repair| repair.confidence.as_str()),
        owner: record.owner.as_deref(),
    };
    json::write_line(out, &line)
}

impl<W: Write + Send> Report for Json<W> {
    fn renderer(&self) -> Box<dyn Renderer> {
        Box::new(JsonRenderer)
    }

    fn directory(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        match rendered {
            RenderedFindings::Bytes(lines) => self.out.write_all(lines),
            _ => write_findings(&mut self.out, findings),
        }
    }

    fn collision(&mut self, group: &CollisionGroup) -> io::Result<()> {
        write_collision(&mut self.out, group)
    }

    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        write_record(&mut self.out, record)
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.line(&FaultLine {
            r#type: "error",
            path: std::str::from_utf8(path).ok(),
            path_base64: Base64(path),
            message,
        })
    }

    fn pause(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, policy: &Policy, summary: &Summary) -> io::Result<()> {
        self.line(&summary_line(policy, summary))?;
        self.out.flush()
    }
}
