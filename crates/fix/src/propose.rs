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
mod root_set;
mod separators;
mod settings;
mod spill;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
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
use namegate_scan::source::{DirectoryBatch, Source, SourceEvent};
use parking_lot::Mutex;

use self::directory::NameProposer;
pub use self::draft::{DirectoryPlan, DraftCounts, PlanDraft};
use self::large::LargeDirectory;
use self::line_maker::LineMaker;
use self::root_set::RootSet;
pub use self::settings::PlanSettings;
use crate::plan_record::{LineRecord, tag};

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
    let repairs = policy.repairs();
    let advice = (repairs.min_severity > Severity::Warn)
        .then(|| policy.clone().with_repairs(RepairScope { min_severity: Severity::Warn, ..repairs }));
    let reader = PlanReader {
        proposer: NameProposer { policy, settings, advice: advice.as_ref(), jobs: request.jobs },
        observer,
        root_set: &root_set,
        found: Mutex::default(),
    };
    tree.read(&|event| reader.handle(event));
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

/// The results of all threads.
#[derive(Default)]
struct TreeFindings {
    lines: RecordSorter,
    /// The directories with symbolic links.
    linked: RecordSorter,
    encodings: TreeEncodings,
    /// Directories with guesses.
    uncertain: UncertainDirectories,
    /// The number of names that get no new name because the targets only advise against them.
    left_out: u64,
    /// The tops of Git work trees.
    work_trees: BTreeSet<Vec<u8>>,
    /// Why a temporary file cannot be written.
    failure: Option<io::Error>,
}

/// Directories whose guesses may change when the names of the whole tree are known. A directory with the name of a root may
/// come a second time with a tree.
#[derive(Default)]
struct UncertainDirectories {
    /// The lines, and before them the directory itself. A number distinguishes directories with one path.
    records: RecordSorter,
    count: u64,
    /// The batches of the names of roots, by number. Other directories are read again.
    singles: HashMap<u64, DirectoryBatch>,
}

/// The key of an uncertain directory itself.
const UNCERTAIN: u8 = b'A';

struct PlanReader<'r> {
    proposer: NameProposer<'r>,
    observer: &'r dyn Observer,
    root_set: &'r RootSet,
    found: Mutex<TreeFindings>,
}

impl PlanReader<'_> {
    fn handle(&self, event: SourceEvent<'_>) -> ControlFlow<()> {
        let mut result = Ok(());
        match event {
            SourceEvent::Directory(batch) => result = self.plan(batch, None).map(drop),
            SourceEvent::Large(parts) => {
                let large = LargeDirectory::survey(self.proposer, parts, self.observer);
                result = self.plan_large(large, None).map(drop);
            }
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

    /// Plans a directory. `review` are the other names of the tree if it was planned before. Reports whether the directory could be read.
    fn plan(&self, batch: DirectoryBatch, review: Option<&EarlierNames>) -> io::Result<bool> {
        let dir = batch.dir.as_os_str().as_bytes();
        let above = review.map_or_else(|| Cow::Owned(self.found().encodings.above(dir)), Cow::Borrowed);
        let proposals = self.proposer.propose(&batch, &above);
        let mut uncertain = None;
        if review.is_none() {
            let count = proposals.count();
            self.observer.checked(&batch.dir, batch.count as u64, count as u64);
            self.found().add_counts(dir, batch.has_work_tree, proposals.left_out);
            // A directory that was listed for the name of a root has links outside of the request.
            let is_linked = batch.has_links && batch.is_whole();
            let has_lines = count > 0 || proposals.long().next().is_some();
            if is_linked || has_lines || proposals.encodings().is_some() {
                self.found().add_directory(dir, is_linked, proposals.encodings())?;
                let begin = || self.found().uncertain.begin(dir, batch.root_len);
                uncertain = proposals.is_uncertain.then(begin).transpose()?;
            }
            if !has_lines {
                return Ok(true);
            }
        }
        let Some(lines) = self.open(dir) else { return Ok(false) };
        let mut take = |lines: &[LineRecord]| self.found().add_lines(dir, uncertain, lines);
        if review.is_none() {
            take(&lines.long_lines(&proposals))?;
        }
        lines.make_lines(&proposals, self.proposer.jobs, &mut take)?;
        drop(proposals);
        if let Some(number) = uncertain.filter(|_| !batch.is_whole()) {
            self.found().uncertain.singles.insert(number, batch);
        }
        Ok(true)
    }

    /// [`PlanReader::plan`] for a directory that comes in parts; `None` if it can no longer be read.
    fn plan_large(
        &self,
        large: Option<LargeDirectory<'_>>,
        review: Option<&EarlierNames>,
    ) -> io::Result<bool> {
        let Some(mut large) = large else { return Ok(false) };
        let (dir, is_first) = (large.place.dir.clone(), review.is_none());
        let path = dir.as_os_str().as_bytes();
        let above = review.map_or_else(|| Cow::Owned(self.found().encodings.above(path)), Cow::Borrowed);
        let evidence = large.evidence(&above);
        if is_first {
            self.found().add_counts(path, large.place.has_work_tree, 0);
            let encodings = evidence.as_ref().and_then(|evidence| evidence.counts());
            self.found().add_directory(path, large.place.has_links, encodings)?;
        }
        let Some(evidence) = evidence else { return Ok(true) };
        let Some(lines) = self.open(path) else { return Ok(false) };
        let proposals = large.propose(evidence, is_first, &lines)?;
        let mut uncertain = None;
        if is_first {
            self.found().add_counts(path, false, proposals.left_out);
            let begin = || self.found().uncertain.begin(path, large.place.root_len);
            uncertain = proposals.is_uncertain.then(begin).transpose()?;
        }
        let take = &mut |lines: &[LineRecord]| self.found().add_lines(path, uncertain, lines);
        let count = large.write(proposals, &lines, take)?;
        if is_first {
            self.observer.checked(&dir, 0, count);
        }
        Ok(true)
    }

    fn open(&self, dir: &[u8]) -> Option<LineMaker<'_>> {
        LineMaker::open(self.root_set, dir, self.observer)
    }

    /// Checks the directories with guesses again, with the other names of the tree as evidence.
    fn review_encodings(&self, exclude: &Exclude) -> io::Result<()> {
        let (UncertainDirectories { records, mut singles, .. }, encodings) = {
            let mut found = self.found();
            (std::mem::take(&mut found.uncertain), std::mem::take(&mut found.encodings))
        };
        let records = records.finish()?;
        let mut cursor = records.cursor()?;
        let mut is_reviewed = false;
        while !self.observer.is_stopped() {
            cursor.advance()?;
            let Some(EntryRecord { dir, name, payload }) = cursor.record() else { break };
            let (number, key) = name.split_first_chunk().unwrap_or((&[0; 8], b""));
            if key == [UNCERTAIN] {
                let root_len = payload.first_chunk().map_or(0, |len| u64::from_le_bytes(*len)) as usize;
                let single = singles.remove(&u64::from_be_bytes(*number));
                is_reviewed = match (encodings.elsewhere(dir), single) {
                    (None, _) => false,
                    (Some(earlier), Some(batch)) => self.plan(batch, Some(&earlier))?,
                    (Some(earlier), None) => self.review_directory(dir, root_len, exclude, &earlier)?,
                };
            } else if !is_reviewed || key.first() == Some(&tag::LONG) {
                self.found().lines.push(EntryRecord { dir, name: key, payload })?;
            }
        }
        Ok(())
    }

    /// Reads an uncertain directory again, and adds the lines that it has with `earlier` names as evidence. Reports whether it could be read: if
    /// not, it keeps its first suggestions.
    fn review_directory(
        &self,
        dir: &[u8],
        root_len: usize,
        exclude: &Exclude,
        earlier: &EarlierNames,
    ) -> io::Result<bool> {
        let (has_fault, reviewed) = (Cell::new(false), RefCell::new(Ok(false)));
        let opened = self.root_set.read_again(dir, root_len, exclude, &|event| match event {
            SourceEvent::Directory(batch) if !has_fault.get() => {
                *reviewed.borrow_mut() = self.plan(batch, Some(earlier));
            }
            SourceEvent::Large(parts) => {
                let large = LargeDirectory::survey(self.proposer, parts, &NoProgress);
                *reviewed.borrow_mut() = self.plan_large(large.filter(|_| !has_fault.get()), Some(earlier));
            }
            _ => has_fault.set(true),
        });
        if opened.is_err() { Ok(false) } else { reviewed.into_inner() }
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

    /// Adds lines of a directory. `uncertain` is its number, if it is uncertain.
    fn add_lines(&mut self, dir: &[u8], uncertain: Option<u64>, lines: &[LineRecord]) -> io::Result<()> {
        let Self { lines: certain, uncertain: others, .. } = self;
        lines.iter().try_for_each(|line| match uncertain {
            Some(number) => {
                let name = &*UncertainDirectories::key(number, &line.key);
                others.records.push(EntryRecord { dir, name, payload: &line.payload })
            }
            None => certain.push(line.in_directory(dir)),
        })
    }
}

impl UncertainDirectories {
    /// Begins a directory, and returns its number.
    fn begin(&mut self, dir: &[u8], root_len: usize) -> io::Result<u64> {
        let number = self.count;
        self.count += 1;
        let payload = (root_len as u64).to_le_bytes();
        self.records.push(EntryRecord { dir, name: &Self::key(number, &[UNCERTAIN]), payload: &payload })?;
        Ok(number)
    }

    fn key(number: u64, rest: &[u8]) -> Vec<u8> {
        [&number.to_be_bytes()[..], rest].concat()
    }
}

/// The Git work tree in which `root` is, if its top is above.
fn work_tree_above(root: &[u8]) -> Option<Vec<u8>> {
    let mut above = Path::new(OsStr::from_bytes(root)).ancestors().skip(1);
    above.find(|dir| dir.join(".git").exists()).map(|dir| dir.as_os_str().as_bytes().to_vec())
}

#[cfg(test)]
mod tests;
