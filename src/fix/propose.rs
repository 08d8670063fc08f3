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
mod draft;
mod links;
pub mod map;
mod meanings;
mod parts;
mod root_set;

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::BuildHasher;
use std::io;
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use parking_lot::Mutex;

use self::conversion::NameConversion;
use self::directory::{DirectoryProposals, EarlierNames, NameProposal, Proposal, Unplanned};
pub use self::draft::{DirectoryPlan, DraftCounts, PlanDraft};
use self::draft::{LineRecord, rename_record, skipped_record, tag, too_long};
use self::parts::in_parts;
use self::root_set::{OpenedDirectory, RootSet};
use super::plan::{PlanDirectory, Rename, SeenEntry, Skipped, path_in};
use super::records::{EntryRecord, RecordSorter};
use crate::name::reading::{Encoding, EncodingCounts};
use crate::policy::Policy;
use crate::progress::Observer;
use crate::source::scope::{Exclude, Scope};
use crate::source::tree::Tree;
use crate::source::{DirectoryBatch, Fault, Source, SourceEvent};

/// The longest path of a directory, in bytes: a longer path does not fit into a line of a plan.
const MAX_PATH_BYTES: usize = 128 << 10;

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

/// Settings that are no part of the policy.
#[derive(Clone, Debug, Default)]
pub struct PlanSettings {
    /// The encoding of names that are not UTF-8; guessed for each directory if `None`.
    pub encoding: Option<Encoding>,
    /// What is done with all names.
    pub conversion: NameConversion,
    /// The prefix of all paths on the target, without a separator at its end. It counts for path lengths.
    pub prefix: Vec<u8>,
}

/// Reads the requested trees and drafts a plan.
///
/// # Errors
/// A temporary file cannot be read or written.
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
    let reader = PlanReader {
        policy,
        settings,
        observer,
        root_set: &root_set,
        jobs: request.jobs,
        found: Mutex::default(),
    };
    tree.read(&|event| reader.handle(event));
    reader.review_encodings(&request.exclude)?;
    let TreeFindings { lines, linked, failure, .. } = reader.found.into_inner();
    if let Some(failure) = failure {
        return Err(failure);
    }
    Ok(PlanDraft::new(root_set, request.exclude.clone(), lines.finish()?, linked.finish()?))
}

/// The results of all threads.
#[derive(Default)]
struct TreeFindings {
    lines: RecordSorter,
    /// The directories with symbolic links.
    linked: RecordSorter,
    /// The encodings of the names of directories, as far as they were guessed, by the hashes of their paths.
    encodings: HashMap<u64, EncodingCounts>,
    hash: RandomState,
    /// Those of the whole tree.
    tree: EncodingCounts,
    /// Directories with guesses.
    uncertain: UncertainDirectories,
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

/// The names of an uncertain directory that was checked again. Their first lines are dropped.
#[derive(Default)]
struct ReviewedNames(HashSet<Vec<u8>>);

impl ReviewedNames {
    fn drops(&self, key: &[u8]) -> bool {
        key.first() != Some(&tag::LONG) && key.get(1..).is_some_and(|name| self.0.contains(name))
    }
}

/// Takes lines of one directory, from any thread.
type LineSink<'s> = dyn Fn(&[LineRecord]) -> io::Result<()> + Sync + 's;

struct PlanReader<'r> {
    policy: &'r Policy,
    settings: &'r PlanSettings,
    observer: &'r dyn Observer,
    root_set: &'r RootSet,
    /// The number of threads.
    jobs: usize,
    found: Mutex<TreeFindings>,
}

impl PlanReader<'_> {
    fn handle(&self, event: SourceEvent<'_>) -> ControlFlow<()> {
        let mut result = Ok(());
        match event {
            SourceEvent::Directory(batch) => result = self.check(batch),
            SourceEvent::Large(parts) => {
                if let Some(batch) = parts.whole() {
                    result = self.check(batch);
                }
            }
            SourceEvent::Fault(fault) | SourceEvent::RepeatedFault(fault, _) => self.observer.problem(&fault),
            // Plans are for trees, which have no history.
            SourceEvent::Vanished | SourceEvent::Frontier(_) | SourceEvent::History(_) => {}
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

    fn check(&self, batch: DirectoryBatch) -> io::Result<()> {
        let dir = batch.dir.as_os_str().as_bytes();
        let earlier = self.found().above(dir);
        let proposals = directory::propose_names(&batch, self.policy, self.settings, &earlier, self.jobs);
        let count = proposals.count();
        self.observer.checked(&batch.dir, batch.count as u64, count as u64);
        // A directory that was listed for the name of a root has links outside of the request.
        let is_linked = batch.has_links && batch.is_whole();
        let has_lines = count > 0 || proposals.long().next().is_some();
        if !is_linked && !has_lines && proposals.encodings.is_none() {
            return Ok(());
        }
        let mut uncertain = None;
        {
            let mut found = self.found();
            if is_linked {
                found.add_linked(dir)?;
            }
            if let Some(encodings) = &proposals.encodings {
                found.add_encodings(dir, encodings.clone());
            }
            if proposals.is_uncertain {
                uncertain = Some(found.uncertain.begin(&batch)?);
            }
        }
        if has_lines {
            self.look_up(dir, &proposals, true, &|lines| {
                let mut found = self.found();
                match uncertain {
                    Some(number) => found.uncertain.add(dir, number, lines),
                    None => add_lines(&mut found.lines, dir, lines),
                }
            })?;
        }
        drop(proposals);
        if let Some(number) = uncertain.filter(|_| !batch.is_whole()) {
            self.found().uncertain.singles.insert(number, batch);
        }
        Ok(())
    }

    /// Checks the directories with guesses again, with the other names of the tree as evidence.
    fn review_encodings(&self, exclude: &Exclude) -> io::Result<()> {
        let (UncertainDirectories { records, mut singles, .. }, mut tree) = {
            let mut found = self.found();
            (std::mem::take(&mut found.uncertain), std::mem::take(&mut found.tree))
        };
        let records = records.finish()?;
        let mut cursor = records.cursor()?;
        let mut reviewed = ReviewedNames::default();
        while !self.observer.is_stopped() {
            cursor.advance()?;
            let Some(EntryRecord { dir, name, payload }) = cursor.record() else { break };
            let (number, key) = name.split_first_chunk().unwrap_or((&[0; 8], b""));
            if key == [UNCERTAIN] {
                let root_len = payload.first_chunk().map_or(0, |len| u64::from_le_bytes(*len)) as usize;
                let single = singles.remove(&u64::from_be_bytes(*number));
                // A directory that cannot be read again keeps its first suggestions.
                let batch = || single.or_else(|| self.root_set.read_batch(dir, root_len, exclude).ok());
                reviewed = self.review_directory(dir, batch, &mut tree)?;
            } else if !reviewed.drops(key) {
                self.found().lines.push(EntryRecord { dir, name: key, payload })?;
            }
        }
        Ok(())
    }

    /// Adds the lines that an uncertain directory has with more evidence, and returns the names of which these are: `tree` has the
    /// names of the whole tree.
    fn review_directory(
        &self,
        dir: &[u8],
        batch: impl FnOnce() -> Option<DirectoryBatch>,
        tree: &mut EncodingCounts,
    ) -> io::Result<ReviewedNames> {
        let own = self.found().encodings_of(dir).cloned().unwrap_or_default();
        tree.remove(&own);
        let mut reviewed = ReviewedNames::default();
        if tree.names() >= 1.0
            && let Some(batch) = batch()
        {
            let place = "in the rest of the tree";
            let earlier = EarlierNames { encodings: std::mem::take(tree), place };
            let proposals = directory::propose_names(&batch, self.policy, self.settings, &earlier, self.jobs);
            self.look_up(dir, &proposals, false, &|lines| add_lines(&mut self.found().lines, dir, lines))?;
            // The batch may have only some names of the directory, if a root lies in it.
            reviewed.0.extend(batch.names.iter().map(|(_, name)| name.to_vec()));
            drop(proposals);
            *tree = earlier.encodings;
        }
        tree.add(&own);
        Ok(reviewed)
    }

    /// Looks up the entries that get new names, and gives their lines to `take`; none if the directory cannot be opened. `has_long`:
    /// with the names whose paths are too long.
    fn look_up(
        &self,
        dir: &[u8],
        proposals: &DirectoryProposals<'_>,
        has_long: bool,
        take: &LineSink<'_>,
    ) -> io::Result<()> {
        let path = || PathBuf::from(OsStr::from_bytes(dir));
        if dir.len() > MAX_PATH_BYTES {
            let error = io::Error::other("the path is too long for a plan");
            self.observer.problem(&Fault { path: path(), attempt: "plan renames in", error });
            return Ok(());
        }
        let opened = match self.root_set.open_directory(dir) {
            Ok(opened) => opened,
            // It was removed or replaced.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(()),
            Err(error) => {
                self.observer.problem(&Fault {
                    path: path(),
                    attempt: "open the directory",
                    error: error.into(),
                });
                return Ok(());
            }
        };
        let directory = Arc::new(opened.describe(dir));
        let mut lines = LineBuffer::new(take);
        for name in proposals.long().filter(|_| has_long) {
            lines.add(skipped_record(tag::LONG, &too_long(&directory, name.to_vec())))?;
        }
        lines.finish()?;
        let look_up = |part: Range<usize>| {
            let mut lines = LineBuffer::new(take);
            for name in proposals.names(part) {
                if let Some(line) = self.line_of(name, &opened, &directory) {
                    lines.add(line)?;
                }
            }
            lines.finish()
        };
        in_parts(proposals.len(), self.jobs, &look_up).into_iter().collect()
    }

    /// The line of a name in the plan; `None` if the entry is gone or cannot be looked up.
    fn line_of(
        &self,
        name: NameProposal,
        opened: &OpenedDirectory,
        directory: &Arc<PlanDirectory>,
    ) -> Option<LineRecord> {
        let proposal = match name {
            NameProposal::Skip(unplanned) => {
                return Some(skipped_record(tag::SKIPPED, &unplanned.into_skipped(directory)));
            }
            NameProposal::Rename(proposal) => proposal,
        };
        match opened.look_up(&proposal.old) {
            Ok(Some(entry)) => Some(rename_record(&proposal.into_rename(directory, entry))),
            Ok(None) => {
                let why = "a file system is mounted on it; unmount it first".to_owned();
                let unplanned = Unplanned { name: proposal.old, reasons: proposal.reasons, why };
                Some(skipped_record(tag::SKIPPED, &unplanned.into_skipped(directory)))
            }
            Err(Errno::ENOENT) => None,
            Err(error) => {
                let path = PathBuf::from(OsStr::from_bytes(&path_in(&directory.path, &proposal.old)));
                let attempt = "read the metadata of";
                self.observer.problem(&Fault { path, attempt, error: error.into() });
                None
            }
        }
    }
}

/// Collects lines of one directory.
struct LineBuffer<'t> {
    lines: Vec<LineRecord>,
    take: &'t LineSink<'t>,
}

impl<'t> LineBuffer<'t> {
    /// So many lines are written together.
    const TOGETHER: usize = 256;

    fn new(take: &'t LineSink<'t>) -> Self {
        Self { lines: Vec::new(), take }
    }

    fn add(&mut self, line: LineRecord) -> io::Result<()> {
        self.lines.push(line);
        if self.lines.len() < Self::TOGETHER { Ok(()) } else { self.finish() }
    }

    fn finish(&mut self) -> io::Result<()> {
        (self.take)(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

/// Adds the lines of a directory.
fn add_lines(to: &mut RecordSorter, dir: &[u8], lines: &[LineRecord]) -> io::Result<()> {
    lines.iter().try_for_each(|(key, payload)| to.push(EntryRecord { dir, name: key, payload }))
}

impl TreeFindings {
    fn add_linked(&mut self, dir: &[u8]) -> io::Result<()> {
        self.linked.push(EntryRecord { dir, name: b"", payload: b"" })
    }

    fn add_encodings(&mut self, dir: &[u8], encodings: EncodingCounts) {
        self.tree.add(&encodings);
        self.encodings.insert(self.hash.hash_one(dir), encodings);
    }

    fn encodings_of(&self, dir: &[u8]) -> Option<&EncodingCounts> {
        self.encodings.get(&self.hash.hash_one(dir))
    }

    /// The names of the nearest directory above `dir` that has any in legacy encodings. A directory is checked before its
    /// subdirectories.
    fn above(&self, dir: &[u8]) -> EarlierNames {
        let mut above = Path::new(OsStr::from_bytes(dir)).ancestors().skip(1);
        let found = above.find_map(|dir| self.encodings_of(dir.as_os_str().as_bytes()));
        found.map_or_else(EarlierNames::default, |encodings| EarlierNames {
            encodings: encodings.clone(),
            place: "in a directory above",
        })
    }
}

impl UncertainDirectories {
    /// Begins a directory, and returns its number.
    fn begin(&mut self, batch: &DirectoryBatch) -> io::Result<u64> {
        let number = self.count;
        self.count += 1;
        let payload = (batch.root_len as u64).to_le_bytes();
        let dir = batch.dir.as_os_str().as_bytes();
        self.records.push(EntryRecord { dir, name: &Self::key(number, &[UNCERTAIN]), payload: &payload })?;
        Ok(number)
    }

    /// Adds lines of the directory with this number.
    fn add(&mut self, dir: &[u8], number: u64, lines: &[LineRecord]) -> io::Result<()> {
        lines.iter().try_for_each(|(key, payload)| {
            self.records.push(EntryRecord { dir, name: &Self::key(number, key), payload })
        })
    }

    fn key(number: u64, rest: &[u8]) -> Vec<u8> {
        [&number.to_be_bytes()[..], rest].concat()
    }
}

impl Proposal {
    fn into_rename(self, directory: &Arc<PlanDirectory>, entry: SeenEntry) -> Rename {
        let Self { old, new, reasons, confidence, reading, evidence, alternatives } = self;
        let directory = Arc::clone(directory);
        Rename { id: 0, directory, old, new, entry, reasons, confidence, reading, evidence, alternatives }
    }
}

impl Unplanned {
    fn into_skipped(self, directory: &Arc<PlanDirectory>) -> Skipped {
        let Self { name, reasons, why } = self;
        Skipped { directory: Arc::clone(directory), name, reasons, why }
    }
}

/// A path on the target.
fn target_path(prefix: &[u8], below_root: &[u8]) -> Vec<u8> {
    let below_root = below_root.strip_prefix(b"/").unwrap_or(below_root);
    if prefix.is_empty() { below_root.to_vec() } else { path_in(prefix, below_root) }
}

#[cfg(test)]
mod tests;
