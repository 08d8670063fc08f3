//! An audit record: a refused or allowed name, its client, its directory and the reason.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use namegate_core::name::Span;
use namegate_core::name::escape::stable_hash;
use namegate_core::policy::rule::RuleId;
use namegate_files::json::{self, Base64, FORMAT_VERSION, Hex};
use namegate_files::time::timestamp;
use serde::Serialize;

use super::cgroup::{self, Units};
use super::shorten::shortened;

/// The outcome for a name that breaks the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// The name was refused.
    Refused,
    /// A permissive gate let the name through.
    LetThrough,
    /// The gate allows the name, which looks as if a program had damaged it.
    Noticed,
    /// A watch saw the name; no gate checked it.
    Seen,
}

/// The process that asked for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// User id, if known.
    pub uid: Option<u32>,
    /// Group id, if known.
    pub gid: Option<u32>,
    /// Id of the thread; 0 if it is not visible from here.
    pub pid: u32,
    /// Name of the thread (proc_pid_comm(5)); its user can choose any name.
    pub command: Option<Vec<u8>>,
    /// Path of its control group (cgroups(7)), which identifies its service.
    pub cgroup: Option<Vec<u8>>,
}

impl Requester {
    /// A client with these ids; its command name and control group are read from /proc.
    pub fn new(uid: u32, gid: u32, pid: u32) -> Self {
        Self { uid: Some(uid), gid: Some(gid), ..Self::nobody(pid) }
    }

    /// The process `pid`, with the ids that it uses for file access (proc_pid_status(5)), as far as it is still running. 0
    /// stands for an unknown process.
    pub fn from_process(pid: u32) -> Self {
        let status = read_proc(pid, "status").unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let last_of = |field: &str| {
            // The command's name is in an earlier line, with its line feeds escaped.
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            line.and_then(|ids| ids.split_whitespace().nth(3)?.parse().ok())
        };
        Self { uid: last_of("Uid:"), gid: last_of("Gid:"), ..Self::nobody(pid) }
    }

    fn nobody(pid: u32) -> Self {
        let mut command = read_proc(pid, "comm");
        if let Some(command) = &mut command {
            // The last line feed is not part of the name; an earlier one is.
            command.pop();
        }
        let cgroup = read_proc(pid, "cgroup").and_then(|table| cgroup::path_in(&table).map(<[u8]>::to_vec));
        Self { uid: None, gid: None, pid, command, cgroup }
    }

    fn units(&self) -> Units<'_> {
        self.cgroup.as_deref().map(cgroup::units).unwrap_or_default()
    }
}

/// Reads a file of /proc for a thread; `None` for the thread 0.
fn read_proc(pid: u32, file: &str) -> Option<Vec<u8>> {
    (pid != 0).then(|| fs::read(format!("/proc/{pid}/{file}")).ok()).flatten()
}

/// A name that was refused or let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Time of the request.
    pub time: SystemTime,
    pub outcome: AuditOutcome,
    /// The operation, named after the system call.
    pub operation: &'static str,
    pub name: OsString,
    /// The target of a symbolic link, if the target breaks the policy.
    pub target: Option<OsString>,
    /// The directory, relative to the source; empty for the source itself. `None` if unknown.
    pub parent: Option<PathBuf>,
    /// The rule; `None` for a name that looks like the escape of another name, and, with an empty span, if the policy is not known
    /// any more.
    pub rule: Option<RuleId>,
    /// The bytes of the name, or of the target if there is one, that break the rule.
    pub span: Span,
    pub requester: Requester,
    /// How often it happened since the last record of the same refusal; the other fields are those of the last time.
    pub count: u64,
}

impl AuditOutcome {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::LetThrough => "let through",
            Self::Noticed => "noticed",
            Self::Seen => "seen",
        }
    }
}

/// Bytes for people, in quotation marks that nothing inside can close. Of more than about `most` bytes the middle is left
/// out.
fn quoted(bytes: &[u8], most: usize) -> String {
    // Backslashes are shown doubled.
    format!("\"{}\"", shortened(bytes, most).0.replace('"', "\\\""))
}

/// The message about a record, with about this many bytes of each long part.
pub(super) struct Sentence<'r>(pub(super) &'r AuditRecord, pub(super) usize);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self(record, most) = self;
        let quoted = |bytes: &[u8]| quoted(bytes, most);
        write!(f, "{}: {} of {}", record.outcome.as_str(), record.operation, quoted(record.name.as_bytes()))?;
        if let Some(target) = &record.target {
            write!(f, " to {}", quoted(target.as_bytes()))?;
        }
        match record.parent.as_deref() {
            Some(top) if top.as_os_str().is_empty() => f.write_str(" in \".\"")?,
            Some(parent) => write!(f, " in {}", quoted(parent.as_os_str().as_bytes()))?,
            None => {}
        }
        match record.rule {
            Some(rule) => write!(f, ": {rule}")?,
            None if record.span.start == record.span.end => {
                f.write_str(": the policy is not known any more")?
            }
            None => f.write_str(": the escape of another name")?,
        }
        if record.rule.is_some() || record.span.start < record.span.end {
            write!(f, " at bytes {}..{}", record.span.start, record.span.end)?;
        }
        let Requester { uid, gid, pid, command, cgroup: _ } = &record.requester;
        let is_known = *pid != 0 || uid.is_some();
        let mut separator = "; ";
        for (what, number) in [("uid", uid), ("gid", gid), ("pid", &Some(*pid).filter(|_| is_known))] {
            if let Some(number) = number {
                write!(f, "{separator}{what} {number}")?;
                separator = ", ";
            }
        }
        if let Some(command) = command {
            f.write_char(' ')?;
            f.write_str(&quoted(command))?;
        }
        if let Some(unit) = record.requester.units().nearest() {
            write!(f, " of {}", quoted(unit))?;
        }
        if record.count > 1 {
            write!(f, "; {} times since the last record of it", record.count)?;
        }
        Ok(())
    }
}

impl fmt::Display for AuditRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Sentence(self, usize::MAX).fmt(f)
    }
}

impl AuditRecord {
    /// Whether it is the same refusal for the same client, at any time.
    pub(super) fn is_again(&self, other: &Self) -> bool {
        let Self { time: _, span: _, count: _, outcome, operation, name, target, parent, rule, requester } =
            self;
        let Requester { pid: _, gid: _, cgroup: _, uid, command } = requester;
        (name, target, parent) == (&other.name, &other.target, &other.parent)
            && (outcome, operation, rule) == (&other.outcome, &other.operation, &other.rule)
            && (uid, command) == (&other.requester.uid, &other.requester.command)
    }

    /// The time of the request, by RFC 3339.
    pub fn timestamp(&self) -> String {
        timestamp(self.time)
    }

    /// Writes the record to `out` as one line of JSON.
    ///
    /// # Errors
    /// As writing to `out`.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        json::write_line(out, &AuditLine::from(self))
    }
}

#[derive(Serialize)]
pub(super) struct AuditLine<'r> {
    r#type: &'static str,
    version: u32,
    time: String,
    outcome: &'static str,
    operation: &'static str,
    name: String,
    name_hex: Hex<&'r [u8]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_base64: Option<Base64<&'r [u8]>>,
    /// If the target is too long: its shortened text, its hash and its length instead of the exact bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Cow<'r, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_base64: Option<Base64<&'r [u8]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_bytes: Option<usize>,
    /// Absent for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    rule: Option<&'static str>,
    start: usize,
    end: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<u32>,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_unit: Option<String>,
}

impl<'r> From<&'r AuditRecord> for AuditLine<'r> {
    fn from(record: &'r AuditRecord) -> Self {
        Self::within(record, usize::MAX)
    }
}

impl<'r> AuditLine<'r> {
    /// Creates the line with about `most` bytes of each long part. The exact bytes of the name are always included.
    pub(super) fn within(record: &'r AuditRecord, most: usize) -> Self {
        let parent = record.parent.as_deref().map(Path::as_os_str);
        let units = record.requester.units();
        let shown = |bytes: &[u8]| shortened(bytes, most).0;
        let is_long = |bytes: &[u8]| bytes.len() > most;
        let hash = |bytes: &[u8]| format!("{:016x}", stable_hash(bytes));
        let (target, long_target) = divided(record.target.as_deref(), is_long);
        let (exact_parent, long_parent) = divided(parent, is_long);
        Self {
            r#type: match record.outcome {
                AuditOutcome::Refused | AuditOutcome::LetThrough => "refusal",
                AuditOutcome::Noticed | AuditOutcome::Seen => "appearance",
            },
            version: FORMAT_VERSION,
            time: timestamp(record.time),
            outcome: match record.outcome {
                AuditOutcome::Refused => "refused",
                AuditOutcome::LetThrough => "let-through",
                AuditOutcome::Noticed => "noticed",
                AuditOutcome::Seen => "seen",
            },
            operation: record.operation,
            name: shown(record.name.as_bytes()),
            name_hex: Hex(record.name.as_bytes()),
            target_base64: target.map(Base64),
            target: long_target.map(shown),
            target_hash: long_target.map(hash),
            target_bytes: long_target.map(<[u8]>::len),
            parent: match long_parent {
                Some(parent) => Some(shown(parent).into()),
                None => exact_parent.and_then(|parent| std::str::from_utf8(parent).ok()).map(Cow::Borrowed),
            },
            parent_base64: exact_parent.map(Base64),
            parent_hash: long_parent.map(hash),
            parent_bytes: long_parent.map(<[u8]>::len),
            count: (record.count > 1).then_some(record.count),
            rule: record.rule.map(RuleId::name),
            start: record.span.start,
            end: record.span.end,
            uid: record.requester.uid,
            gid: record.requester.gid,
            pid: record.requester.pid,
            command: record.requester.command.as_deref().map(shown),
            cgroup: record.requester.cgroup.as_deref().map(shown),
            unit: units.system.map(shown),
            user_unit: units.user.map(shown),
        }
    }
}

/// The bytes as exact ones if they are short, otherwise as ones to be shortened.
fn divided(bytes: Option<&OsStr>, is_long: impl Fn(&[u8]) -> bool) -> (Option<&[u8]>, Option<&[u8]>) {
    match bytes.map(OsStr::as_bytes) {
        Some(long) if is_long(long) => (None, Some(long)),
        exact => (exact, None),
    }
}
