//! Makes a plan: reads trees, checks their names, and suggests valid ones.
//!
//! The scanner of trees reads the directories; the thread that reads a directory checks it. Only entries that get a new name are
//! looked up. The lines of the plan are sorted records, and so are the paths of directories with symbolic links: those are
//! opened a second time when all renames are known.
//!
//! The same tree gives the same plan: the results of the threads are sorted, deepest first.

pub mod char_table;

pub mod conversion;
mod directory;
mod distinct;
mod draft;
mod large;
mod line_maker;
mod links;
pub mod map;
mod meanings;
#[cfg(feature = "archive")]
pub mod members;
mod root_set;
mod separators;
mod settings;
mod spill;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namegate_core::name::reading::EncodingCounts;
use namegate_core::policy::rule::Severity;
use namegate_core::policy::{Policy, RepairScope};
use namegate_findings::records::{EntryRecord, RecordSorter};
use namegate_scan::progress::{NoProgress, Observer};
use namegate_scan::source::encodings::{EarlierNames, TreeEncodings};
use namegate_scan::source::scope::{Exclude, Scope};
use namegate_scan::source::tree::Tree;
use namegate_scan::source::{DirectoryBatch, Parts, Source, SourceEvent};
use parking_lot::Mutex;

use self::directory::NameProposer;
pub use self::draft::{DirectoryPlan, DraftCounts, PlanDraft};
use self::large::LargeDirectory;
use self::line_maker::{LineMaker, report_unopened};
use self::root_set::RootSet;
pub use self::settings::PlanSettings;
use crate::plan_record::LineRecord;

/// The trees to read.
#[derive(Debug)]
pub struct PlanRequest {
    /// The paths: everything below them, and their own names.
    pub paths: Vec<PathBuf>,
    /// The entries to ignore.
    pub exclude: Exclude,
    /// The number of levels below the paths: 0 for their own names only.
    pub max_depth: usize,
    /// Enter other file systems.
    pub crosses_file_systems: bool,
    /// The number of threads.
    pub jobs: usize,
}

/// Reads the requested trees and drafts a plan.
pub fn propose(
    request: &PlanRequest,
    policy: &Policy,
    settings: &PlanSettings,
    observer: &dyn Observer,
) -> io::Result<PlanDraft> {
    let root_set = RootSet::open(&request.paths);
    let scope = Scope {
        max_depth: request.max_depth,
        one_file_system: !request.crosses_file_systems,
        exclude: request.exclude.clone(),
    };
    let tree = Tree::new(root_set.paths(), scope, request.jobs);
    let advice = advice_of(policy);
    let proposer = NameProposer { policy, settings, advice: advice.as_ref(), jobs: request.jobs };
    let reader = PlanReader { proposer, observer, root_set: &root_set, found: Mutex::default() };
    tree.read(&|event| reader.handle(event, None));
    reader.review_encodings(&request.exclude)?;
    let TreeFindings { lines, linked, left_out, mut work_trees, failure, .. } = reader.found.into_inner();
    if let Some(failure) = failure {
        return Err(failure);
    }
    work_trees.extend(root_set.roots().iter().filter_map(|root| work_tree_above(&root.path)));
    let mut draft = PlanDraft::new(root_set, request.exclude.clone(), lines.finish()?, linked.finish()?);
    (draft.left_out, draft.git_renames) = (left_out, draft.count_in(&work_trees)?);
    Ok(draft)
}

/// The policy that also suggests names for what the targets only advise against, if `policy` does not.
fn advice_of(policy: &Policy) -> Option<Policy> {
    let repairs = policy.repairs();
    (repairs.min_severity > Severity::Warn)
        .then(|| policy.clone().with_repairs(RepairScope { min_severity: Severity::Warn, ..repairs }))
}

/// The results of all threads.
#[derive(Default)]
struct TreeFindings {
    lines: RecordSorter,
    /// The directories with symbolic links.
    linked: RecordSorter,
    encodings: TreeEncodings,
    uncertain: Vec<UncertainDirectory>,
    /// The lines of uncertain directories that have some.
    uncertain_lines: RecordSorter,
    /// The number of names that get no new name because the targets only advise against them.
    left_out: u64,
    /// The tops of Git work trees.
    work_trees: BTreeSet<Vec<u8>>,
    /// Why a temporary file cannot be written.
    failure: Option<io::Error>,
}

/// A directory whose guesses may change when the names of the whole tree are known.
struct UncertainDirectory {
    dir: Vec<u8>,
    /// The number of bytes of its path that are those of the root.
    root_len: usize,
    /// The name of a root. Other directories are read again.
    single: Option<DirectoryBatch>,
    /// Lines were made without evidence of other directories; they are right unless the review finds some.
    has_lines: bool,
}

struct PlanReader<'r> {
    proposer: NameProposer<'r>,
    observer: &'r dyn Observer,
    root_set: &'r RootSet,
    found: Mutex<TreeFindings>,
}

impl PlanReader<'_> {
    /// Plans a directory. In a review, `review` are the other names of the tree.
    fn handle(&self, event: SourceEvent<'_>, review: Option<&EarlierNames>) -> ControlFlow<()> {
        let mut result = Ok(());
        match event {
            SourceEvent::Directory(batch) => result = self.plan(batch, review),
            SourceEvent::Large(parts) => result = self.plan_large(parts, review),
            SourceEvent::Fault(fault) | SourceEvent::RepeatedFault(fault, _) => self.observer.problem(&fault),
            // Plans are for trees, which have no history.
            SourceEvent::Vanished
            | SourceEvent::Frontier(_)
            | SourceEvent::History(_)
            | SourceEvent::Unmarked(_) => {}
        }
        if let Err(error) = result {
            self.found().failure.get_or_insert(error);
            return ControlFlow::Break(());
        }
        if self.observer.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn found(&self) -> parking_lot::MutexGuard<'_, TreeFindings> {
        self.found.lock()
    }

    fn plan(&self, batch: DirectoryBatch, review: Option<&EarlierNames>) -> io::Result<()> {
        let dir = batch.dir.as_os_str().as_bytes();
        let above = review.map_or_else(|| Cow::Owned(self.found().encodings.above(dir)), Cow::Borrowed);
        let proposals = self.proposer.propose(&batch, &above);
        let count = proposals.count();
        if review.is_none() {
            self.observer.checked(&batch.dir, batch.count as u64, count as u64);
            self.found().add_counts(dir, batch.has_work_tree, proposals.left_out);
            // A directory that was listed for the name of a root has links outside of the request.
            self.found().add_directory(dir, batch.has_links && batch.is_whole(), proposals.encodings())?;
            if proposals.is_uncertain {
                let (dir, root_len, is_whole) = (dir.to_vec(), batch.root_len, batch.is_whole());
                drop(proposals);
                let single = Some(batch).filter(|_| !is_whole);
                let uncertain = UncertainDirectory { dir, root_len, single, has_lines: false };
                self.found().uncertain.push(uncertain);
                return Ok(());
            }
        }
        if count == 0 && proposals.long().next().is_none() {
            return Ok(());
        }
        let Some(lines) = LineMaker::open(self.root_set, dir, self.observer) else { return Ok(()) };
        let mut take = |lines: &[LineRecord]| self.found().add_lines(dir, lines);
        take(&proposals.long_lines(&lines))?;
        proposals.make_lines(&lines, self.proposer.jobs, &mut take)
    }

    /// [`PlanReader::plan`] for a directory that comes in parts.
    fn plan_large(&self, parts: &mut dyn Parts, review: Option<&EarlierNames>) -> io::Result<()> {
        let observer = if review.is_none() { self.observer } else { &NoProgress };
        let Some(mut large) = LargeDirectory::survey(self.proposer, parts, observer) else { return Ok(()) };
        let (path, root_len) = (large.directory.dir.clone(), large.directory.root_len);
        let dir = path.as_os_str().as_bytes();
        let above = review.map_or_else(|| Cow::Owned(self.found().encodings.above(dir)), Cow::Borrowed);
        let evidence = large.evidence(&above);
        if review.is_none() {
            self.found().add_counts(dir, large.directory.has_work_tree, 0);
            let encodings = evidence.as_ref().and_then(|evidence| evidence.counts());
            self.found().add_directory(dir, large.directory.has_links, encodings)?;
        }
        let Some(evidence) = evidence else { return Ok(()) };
        let Some(lines) = LineMaker::open(self.root_set, dir, self.observer) else { return Ok(()) };
        let proposals = large.propose(evidence, &lines)?;
        let is_uncertain = proposals.is_uncertain && review.is_none();
        if review.is_none() {
            self.found().add_counts(dir, false, proposals.left_out);
        }
        if is_uncertain {
            let has_lines = above.is_empty();
            let uncertain = UncertainDirectory { dir: dir.to_vec(), root_len, single: None, has_lines };
            self.found().uncertain.push(uncertain);
            if !has_lines {
                return Ok(());
            }
        }
        let count = large.write(proposals, &lines, &mut |lines| match is_uncertain {
            true => self.found().add_uncertain_lines(dir, lines),
            false => self.found().add_lines(dir, lines),
        })?;
        observer.checked(&path, 0, count);
        Ok(())
    }

    /// Plans the directories with guesses, with the other names of the tree as evidence. Lines that were made with the same evidence
    /// stay.
    fn review_encodings(&self, exclude: &Exclude) -> io::Result<()> {
        let (uncertain, lines, encodings) = {
            let TreeFindings { uncertain, uncertain_lines, encodings, .. } = &mut *self.found();
            (mem::take(uncertain), mem::take(uncertain_lines), mem::take(encodings))
        };
        let mut unchanged = HashSet::new();
        for UncertainDirectory { dir, root_len, single, has_lines } in uncertain {
            if self.observer.is_stopped() {
                return Ok(());
            }
            let earlier = encodings.elsewhere(&dir).unwrap_or_default();
            match single {
                _ if has_lines && earlier.is_empty() => _ = unchanged.insert(dir),
                Some(batch) => _ = self.handle(SourceEvent::Directory(batch), Some(&earlier)),
                None => self.review_directory(&dir, root_len, exclude, &earlier),
            }
        }
        let lines = lines.finish()?;
        let (mut cursor, mut found) = (lines.cursor()?, self.found());
        while let Some(line) = cursor.next()? {
            if unchanged.contains(line.dir) {
                found.lines.push(line)?;
            }
        }
        Ok(())
    }

    /// Reads an uncertain directory again, and plans it with `earlier` names as evidence.
    fn review_directory(&self, dir: &[u8], root_len: usize, exclude: &Exclude, earlier: &EarlierNames) {
        let handle = |event: SourceEvent<'_>| _ = self.handle(event, Some(earlier));
        if let Err(error) = self.root_set.read_again(dir, root_len, exclude, &handle) {
            report_unopened(dir, error, self.observer);
        }
    }
}

impl TreeFindings {
    /// Adds a directory that was checked. `encodings` are those of its names, if they were guessed.
    fn add_directory(
        &mut self,
        dir: &[u8],
        is_linked: bool,
        encodings: Option<&EncodingCounts>,
    ) -> io::Result<()> {
        if is_linked {
            self.linked.push(EntryRecord { dir, name: b"", payload: b"" })?;
        }
        if let Some(encodings) = encodings {
            self.encodings.add(dir, encodings);
        }
        Ok(())
    }

    /// Adds what a directory says without a line.
    fn add_counts(&mut self, dir: &[u8], has_work_tree: bool, left_out: u64) {
        self.left_out += left_out;
        if has_work_tree {
            self.work_trees.insert(dir.to_vec());
        }
    }

    /// Adds lines of a directory.
    fn add_lines(&mut self, dir: &[u8], lines: &[LineRecord]) -> io::Result<()> {
        lines.iter().try_for_each(|line| self.lines.push(line.in_directory(dir)))
    }

    /// Adds lines of an uncertain directory.
    fn add_uncertain_lines(&mut self, dir: &[u8], lines: &[LineRecord]) -> io::Result<()> {
        lines.iter().try_for_each(|line| self.uncertain_lines.push(line.in_directory(dir)))
    }
}

/// The Git work tree in which `root` is, if its top is above.
fn work_tree_above(root: &[u8]) -> Option<Vec<u8>> {
    let mut above = Path::new(OsStr::from_bytes(root)).ancestors().skip(1);
    above.find(|dir| dir.join(".git").exists()).map(|dir| dir.as_os_str().as_bytes().to_vec())
}

#[cfg(test)]
mod tests;
