//! A scan: names from a source, judged by a policy, findings to a report.
//!
//! Threads of the source judge the directories that they read; only what is found gets a path and passes the one lock in
//! front of the report.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::name::Span;
use crate::name::display::display;
use crate::name::place::Place;
use crate::name::reading::Encoding;
use crate::policy::rule::RuleId;
use crate::policy::{Collision, NameCheck, Policy, Repair, Violation};
use crate::report::{Objection, Record, Report, Summary};
use crate::source::{Batch, Beside, Event, Source};

/// How far a scan has come; another thread may look at it at any time.
#[derive(Debug, Default)]
pub struct Progress {
    /// Directories read.
    pub directories: AtomicU64,
    /// Names judged.
    pub names: AtomicU64,
    /// Names with violations.
    pub findings: AtomicU64,
    /// The directory that was read last.
    pub current: Mutex<PathBuf>,
}

/// What is not the policy's business.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// The encoding in which names that are not UTF-8 are read for repairs; guessed per directory if `None`.
    pub encoding: Option<Encoding>,
}

/// Judges all names of `source`.
///
/// What cannot be read is reported and counted, and never ends the scan.
///
/// # Errors
/// Writing the report failed; the scan ended there.
pub fn scan(
    source: &dyn Source,
    policy: &Policy,
    settings: Settings,
    report: &mut dyn Report,
    progress: &Progress,
) -> io::Result<Summary> {
    let sink = Mutex::new(Sink { report, summary: Summary::default(), failure: None });
    source.read(&|event| {
        let records = match &event {
            Event::Directory(batch) => {
                let records = judge(batch, policy, settings);
                progress.directories.fetch_add(1, Relaxed);
                progress.names.fetch_add(batch.count as u64, Relaxed);
                progress.findings.fetch_add(records.len() as u64, Relaxed);
                progress.current.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&batch.dir);
                records
            }
            Event::Fault(_) | Event::Vanished => Vec::new(),
        };
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        match sink.take(&event, &records) {
            Ok(()) if sink.failure.is_none() => ControlFlow::Continue(()),
            Ok(()) => ControlFlow::Break(()),
            Err(error) => {
                sink.failure.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    });
    let Sink { report, summary, failure } = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failure {
        Some(error) => Err(error),
        None => report.finish(policy, &summary).map(|()| summary),
    }
}

struct Sink<'r> {
    report: &'r mut dyn Report,
    summary: Summary,
    failure: Option<io::Error>,
}

impl Sink<'_> {
    fn take(&mut self, event: &Event, records: &[Record]) -> io::Result<()> {
        match event {
            Event::Directory(batch) => {
                self.summary.directories += u64::from(batch.is_whole());
                self.summary.names += batch.count as u64;
                for record in records {
                    self.summary.count(record);
                    self.report.record(record)?;
                }
                if !records.is_empty() {
                    self.report.pause()?;
                }
            }
            Event::Fault(fault) => {
                self.summary.unreadable += 1;
                self.report.fault(fault.path.as_os_str().as_bytes(), &fault.to_string())?;
            }
            Event::Vanished => self.summary.vanished += 1,
        }
        Ok(())
    }
}

/// The findings of one directory, in the order of their names.
fn judge(batch: &Batch, policy: &Policy, settings: Settings) -> Vec<Record> {
    let mut suspects = policy.check_arena(&batch.names).peekable();
    if suspects.peek().is_none()
        && batch.holding_nul.is_empty()
        && !policy.finds_collisions()
        && !policy.judges_paths()
    {
        return Vec::new();
    }
    let (offsets, mut names): (Vec<usize>, Vec<&[u8]>) = batch.names.iter().unzip();
    names.extend(batch.holding_nul.iter().map(Vec::as_slice));
    let mut found = Found::new();
    for (offset, check) in suspects {
        let at = offsets.binary_search(&offset).expect("the arena gave the offset");
        found.entry(at).or_default().extend(Record::of(policy, &check).objections);
    }
    for (at, name) in names.iter().enumerate().skip(offsets.len()) {
        found.entry(at).or_default().extend(Record::of(policy, &policy.check(name)).objections);
    }
    for collision in policy.collisions(&names) {
        let twins = Twins::of(&collision, &names);
        for (&at, &violation) in collision.members.iter().zip(&collision.violations) {
            found.entry(at).or_default().push(Objection { violation, message: twins.message(at) });
        }
    }
    if policy.judges_paths() {
        judge_paths(batch, policy, &names, &mut found);
    }
    if found.is_empty() {
        return Vec::new();
    }
    let mut repairs = repairs(batch, policy, settings, &names);
    let place = Arc::new(Place {
        holder: batch.holder.clone(),
        dir: batch.dir.as_os_str().as_bytes().to_vec(),
        inode: batch.inode(),
    });
    let record = |(at, mut objections): (usize, Vec<Objection>)| {
        objections.sort_by_key(|o| (o.violation.span, o.violation.rule));
        Record {
            place: Some(Arc::clone(&place)),
            mark: batch.marks.get(at).copied(),
            name: names[at].to_vec(),
            objections,
            repair: repairs[at].take(),
        }
    };
    let mut records: Vec<Record> = found.into_iter().map(record).collect();
    records.sort_by(|a, b| a.name.cmp(&b.name));
    records
}

/// Objections by the place of the name in its directory.
type Found = BTreeMap<usize, Vec<Objection>>;

/// Judges the paths that lead to `names`, from the root of the scan.
fn judge_paths(batch: &Batch, policy: &Policy, names: &[&[u8]], found: &mut Found) {
    let mut path = batch.dir.as_os_str().as_bytes().get(batch.root_len..).unwrap_or_default().to_vec();
    if !path.is_empty() {
        path.push(b'/');
    }
    let dir_len = path.len();
    for (at, name) in names.iter().enumerate() {
        path.truncate(dir_len);
        path.extend_from_slice(name);
        let too_long = policy.check_path(&path);
        if !too_long.is_empty() {
            let objections = too_long.iter().map(|v| path_objection(policy, &path, v, name));
            found.entry(at).or_default().extend(objections);
        }
    }
}

/// Proposals for `names`, none of which may be the name of anything else in their directory.
fn repairs(batch: &Batch, policy: &Policy, settings: Settings, names: &[&[u8]]) -> Vec<Option<Repair>> {
    match &batch.beside {
        Beside::Nothing => policy.repair_all(names, settings.encoding),
        Beside::Names(others) => {
            let all: Vec<&[u8]> = names.iter().copied().chain(others.iter().map(|(_, name)| name)).collect();
            policy.repair_all(&all, settings.encoding)
        }
        Beside::Unknown => vec![None; names.len()],
    }
}

/// Names that become one, as each of them is told about the others.
struct Twins {
    how: &'static str,
    count: usize,
    /// The first by their bytes, each with its place: one more than are shown, because none is shown to itself.
    first: Vec<(usize, String)>,
}

impl Twins {
    /// A message is one line: a few names show what happens.
    const SHOWN: usize = 3;

    fn of(collision: &Collision, names: &[&[u8]]) -> Self {
        let rule = collision.violations[0].rule;
        let how = match rule {
            RuleId::CollisionNormalization => "is canonically equivalent to",
            RuleId::CollisionCase => "differs in case alone from",
            _ => "looks like",
        };
        let mut members = collision.members.clone();
        members.sort_unstable_by_key(|&at| names[at]);
        members.truncate(Self::SHOWN + 1);
        let first = members.into_iter().map(|at| (at, format!("`{}`", spelt(rule, names[at])))).collect();
        Self { how, count: collision.members.len(), first }
    }

    /// Which names become one with the name at `at`.
    fn message(&self, at: usize) -> String {
        let others = self.first.iter().filter(|(other, _)| *other != at);
        let shown: Vec<&str> = others.take(Self::SHOWN).map(|(_, name)| name.as_str()).collect();
        let more = match self.count - 1 - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{} {}{more}", self.how, shown.join(", "))
    }
}

/// The name as a reader can tell it from its twin: what only looks alike is shown by its code points.
fn spelt(rule: RuleId, name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if rule != RuleId::CollisionCase => text
            .chars()
            .map(|c| if matches!(c, ' '..='~') { c.to_string() } else { c.escape_unicode().to_string() })
            .collect(),
        _ => display(name).to_string(),
    }
}

/// The objection to a path, laid on the name at its end: that is what a reader of the record sees.
fn path_objection(policy: &Policy, path: &[u8], violation: &Violation, name: &[u8]) -> Objection {
    let message = NameCheck { name: path, violations: Vec::new() }.message(policy, violation);
    Objection { violation: Violation { span: Span::new(0, name.len()), ..*violation }, message }
}
