//! A scan: names from a source, judged by a policy, findings to a report.
//!
//! Threads of the source judge the directories that they read; only what is found gets a path and passes the one lock in
//! front of the report.

mod standing;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::name::Span;
use crate::name::display::display;
use crate::name::place::{Holder, Place};
use crate::name::reading::Encoding;
use crate::policy::profile::Profile;
use crate::policy::rule::RuleId;
use crate::policy::{Collision, NameCheck, Policy, Violation};
use crate::report::baseline::Baseline;
use crate::report::summary::Accepted;
use crate::report::{Group, Objection, Record, Report, Summary};
use crate::source::{Batch, Beside, Event, Source, Version};

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
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The encoding in which names that are not UTF-8 are read for repairs; guessed per directory if `None`.
    pub encoding: Option<Encoding>,
    /// The targets whose readiness is told; the profiles of the policy if there are none.
    pub targets: Vec<&'static Profile>,
    /// What stands before each path on the target, without a separator at its end. Lengths of paths count it.
    pub prefix: Vec<u8>,
    /// Findings that are known: they are not reported.
    pub baseline: Option<Baseline>,
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
    settings: &Settings,
    report: &mut dyn Report,
    progress: &Progress,
) -> io::Result<Summary> {
    let targets = if settings.targets.is_empty() { policy.profiles() } else { &settings.targets };
    let mut summary = Summary::for_targets(targets);
    summary.baseline = settings.baseline.as_ref().map(|known| Accepted { accepted: 0, stale: known.len() });
    let sink = Mutex::new(Sink { report, summary, failure: None, told: Told::default() });
    source.read(&|event| {
        let found = match &event {
            Event::Directory(batch) => {
                let found = judge(batch, policy, settings);
                progress.directories.fetch_add(1, Relaxed);
                progress.names.fetch_add(batch.count as u64, Relaxed);
                progress.findings.fetch_add(found.records.len() as u64, Relaxed);
                progress.current.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&batch.dir);
                found
            }
            Event::Fault(_) | Event::Vanished => Findings::default(),
        };
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        match sink.take(&event, &found) {
            Ok(()) if sink.failure.is_none() => ControlFlow::Continue(()),
            Ok(()) => ControlFlow::Break(()),
            Err(error) => {
                sink.failure.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    });
    let Sink { report, summary, failure, .. } = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failure {
        Some(error) => Err(error),
        None => report.finish(policy, &summary).map(|()| summary),
    }
}

struct Sink<'r> {
    report: &'r mut dyn Report,
    summary: Summary,
    failure: Option<io::Error>,
    told: Told,
}

/// What was said of directories that have several versions.
#[derive(Default)]
struct Told {
    /// Of their names, by path.
    names: HashMap<Vec<u8>, Vec<(RuleId, Span)>>,
    /// Of names that become one.
    groups: HashSet<String>,
}

impl Sink<'_> {
    fn take(&mut self, event: &Event, found: &Findings) -> io::Result<()> {
        match event {
            Event::Directory(batch) => {
                let version = batch.version.unwrap_or(Version { is_first: true, again: 0 });
                self.summary.directories += u64::from(batch.is_whole() && version.is_first);
                self.summary.names += (batch.count - version.again) as u64;
                if let Some(Accepted { accepted, stale }) = &mut self.summary.baseline {
                    *accepted += found.accepted;
                    *stale = stale.saturating_sub(found.accepted);
                }
                for group in &found.groups {
                    if batch.version.is_none() || self.told.groups.insert(group.id.clone()) {
                        self.summary.collisions += 1;
                        self.report.collision(group)?;
                    }
                }
                for record in &found.records {
                    if batch.version.is_none() {
                        self.summary.count(record);
                        self.report.record(record)?;
                    } else if let Some(news) = self.news(record) {
                        self.report.record(&news)?;
                    }
                }
                if !found.records.is_empty() {
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

    /// What was not said of the name yet, counted; `None` if everything was.
    fn news(&mut self, record: &Record) -> Option<Record> {
        let told = self.told.names.entry(record.path()).or_default();
        let is_known = !told.is_empty();
        let mut news = record.clone();
        news.objections.retain(|o| !told.contains(&(o.violation.rule, o.violation.span)));
        told.extend(news.objections.iter().map(|o| (o.violation.rule, o.violation.span)));
        if news.objections.is_empty() {
            return None;
        }
        if is_known {
            self.summary.count_rules(&news)
        } else {
            self.summary.count(&news)
        }
        Some(news)
    }
}

/// What is found in one directory.
#[derive(Default)]
struct Findings {
    /// Names that become one.
    groups: Vec<Arc<Group>>,
    /// The findings, in the order of their names.
    records: Vec<Record>,
    /// How many pairs of a name and a rule the baseline accepts.
    accepted: u64,
}

/// The findings of one directory.
fn judge(batch: &Batch, policy: &Policy, settings: &Settings) -> Findings {
    let mut suspects = policy.check_arena(&batch.names).peekable();
    if suspects.peek().is_none()
        && batch.holder.is_none()
        && !policy.finds_collisions()
        && !policy.judges_paths()
    {
        return Findings::default();
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
    if let Some(holder) = batch.holder.as_deref() {
        judge_standing(holder, policy, batch, &names, &mut found);
    }
    let all = with_others(batch, &names);
    let mut collisions = policy.collisions(&all);
    collisions.retain(|collision| collision.members.iter().any(|&at| at < names.len()));
    if policy.judges_paths() {
        judge_paths(batch, policy, &settings.prefix, &names, &mut found);
    }
    if found.is_empty() && collisions.is_empty() {
        return Findings::default();
    }
    let place = Arc::new(Place {
        holder: batch.holder.clone(),
        dir: batch.dir.as_os_str().as_bytes().to_vec(),
        inode: batch.inode(),
    });
    let mut groups = Vec::with_capacity(collisions.len());
    for collision in &collisions {
        let twins = Twins::of(collision, &all);
        let group = Arc::new(group_of(collision, &all, &place));
        for (&at, &violation) in collision.members.iter().zip(&collision.violations) {
            // What stands beside is a member, and nobody asked for a finding about it.
            if at < names.len() {
                let group = Some(Arc::clone(&group));
                found.entry(at).or_default().push(Objection { violation, message: twins.message(at), group });
            }
        }
        groups.push(group);
    }
    let accepted = settings.baseline.as_ref().map_or(0, |known| accept(known, &place, &names, &mut found));
    if accepted > 0 {
        let told: HashSet<*const Group> =
            found.values().flatten().filter_map(|o| o.group.as_ref().map(Arc::as_ptr)).collect();
        groups.retain(|group| told.contains(&Arc::as_ptr(group)));
    }
    if found.is_empty() {
        return Findings { accepted, ..Findings::default() };
    }
    let mut repairs = match &batch.beside {
        // None of them may be the name of anything else in the directory.
        Beside::Nothing | Beside::Names(_) => policy.repair_all(&all, settings.encoding),
        Beside::Unknown => vec![None; names.len()],
    };
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
    Findings { groups, records, accepted }
}

/// Takes out what is known; how many pairs of a name and a rule that is.
fn accept(known: &Baseline, place: &Place, names: &[&[u8]], found: &mut Found) -> u64 {
    let mut accepted = 0;
    found.retain(|&at, objections| {
        let path = place.path_of(names[at]);
        let (old, new): (Vec<_>, Vec<_>) =
            std::mem::take(objections).into_iter().partition(|o| known.accepts(&path, o.violation.rule));
        let mut rules: Vec<RuleId> = old.iter().map(|o| o.violation.rule).collect();
        rules.sort_unstable();
        rules.dedup();
        accepted += rules.len() as u64;
        *objections = new;
        !objections.is_empty()
    });
    accepted
}

fn group_of(collision: &Collision, names: &[&[u8]], place: &Arc<Place>) -> Group {
    let members = collision.members.iter().map(|&at| names[at].to_vec()).collect();
    Group::new(Arc::clone(place), collision.violations[0], members)
}

/// Objections by the place of the name in its directory.
type Found = BTreeMap<usize, Vec<Objection>>;

/// Judges the paths that lead to `names`, from the root of the scan, behind `prefix`.
fn judge_paths(batch: &Batch, policy: &Policy, prefix: &[u8], names: &[&[u8]], found: &mut Found) {
    let below_root = batch.dir.as_os_str().as_bytes().get(batch.root_len..).unwrap_or_default();
    let mut path = prefix.to_vec();
    for part in [below_root, b""] {
        if !path.is_empty() && path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(part.strip_prefix(b"/").unwrap_or(part));
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

/// `names` and what stands beside them in the directory, behind them.
fn with_others<'b>(batch: &'b Batch, names: &[&'b [u8]]) -> Vec<&'b [u8]> {
    let mut all = names.to_vec();
    if let Beside::Names(others) = &batch.beside {
        all.extend(others.iter().map(|(_, name)| name));
    }
    all
}

/// Judges `names` by where they stand, if that is not a directory on disk.
fn judge_standing(holder: &Holder, policy: &Policy, batch: &Batch, names: &[&[u8]], found: &mut Found) {
    let dir = batch.dir.as_os_str().as_bytes();
    for objections in found.values_mut() {
        for objection in objections {
            if let Some(message) = standing::message(holder, dir, objection.violation.rule) {
                objection.message = message.to_owned();
            }
        }
    }
    for (at, name) in names.iter().enumerate() {
        let objections = standing::objections(policy, holder, name);
        if !objections.is_empty() {
            found.entry(at).or_default().extend(objections);
        }
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
    Objection { violation: Violation { span: Span::new(0, name.len()), ..*violation }, message, group: None }
}
