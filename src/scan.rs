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
use std::sync::{Mutex, PoisonError};

use crate::name::Span;
use crate::name::display::display;
use crate::name::reading::Encoding;
use crate::policy::rule::RuleId;
use crate::policy::{NameCheck, Policy, Violation};
use crate::report::{Objection, Place, Record, Report, Summary};
use crate::source::{Batch, Event, Source};

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
                self.summary.directories += 1;
                self.summary.names += batch.count as u64;
                for record in records {
                    self.summary.count(record);
                    self.report.record(record)?;
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
    if suspects.peek().is_none() && !policy.finds_collisions() && !policy.judges_paths() {
        return Vec::new();
    }
    let offsets: Vec<usize> = batch.names.iter().map(|(offset, _)| offset).collect();
    let names: Vec<&[u8]> = batch.names.iter().map(|(_, name)| name).collect();
    let mut found: BTreeMap<usize, Vec<Objection>> = BTreeMap::new();
    for (offset, check) in suspects {
        let at = offsets.binary_search(&offset).expect("the arena gave the offset");
        found.entry(at).or_default().extend(Record::of(policy, &check).objections);
    }
    for collision in policy.collisions(&names) {
        for (&at, &violation) in collision.members.iter().zip(&collision.violations) {
            let message = collision_message(violation, at, &collision.members, &names);
            found.entry(at).or_default().push(Objection { violation, message });
        }
    }
    if policy.judges_paths() {
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
                found
                    .entry(at)
                    .or_default()
                    .extend(too_long.iter().map(|v| path_objection(policy, &path, v, name)));
            }
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    let place = Place { dir: batch.dir.as_os_str().as_bytes().to_vec(), inode: batch.inode() };
    let mut repairs = policy.repair_all(&names, settings.encoding);
    let record = |(at, mut objections): (usize, Vec<Objection>)| {
        objections.sort_by_key(|o| (o.violation.span, o.violation.rule));
        let (place, name) = (Some(place.clone()), names[at].to_vec());
        Record { place, name, objections, repair: repairs[at].take() }
    };
    let mut records: Vec<Record> = found.into_iter().map(record).collect();
    records.sort_by(|a, b| a.name.cmp(&b.name));
    records
}

/// Which names become one with the name at `at`.
fn collision_message(violation: Violation, at: usize, members: &[usize], names: &[&[u8]]) -> String {
    /// A message is one line: a few names show what happens.
    const SHOWN: usize = 3;
    let how = match violation.rule {
        RuleId::CollisionNormalization => "is canonically equivalent to",
        RuleId::CollisionCase => "differs in case alone from",
        _ => "looks like",
    };
    let mut others: Vec<&[u8]> =
        members.iter().filter(|&&other| other != at).map(|&other| names[other]).collect();
    others.sort_unstable();
    let shown: Vec<String> =
        others.iter().take(SHOWN).map(|name| format!("`{}`", spelt(violation.rule, name))).collect();
    let more = others.len().saturating_sub(SHOWN);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("{how} {}{more}", shown.join(", "))
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
