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
mod root_set;

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::BuildHasher;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use parking_lot::Mutex;

use self::conversion::NameConversion;
use self::directory::{DirectoryProposals, EarlierNames, Proposal, Unplanned};
pub use self::draft::{DirectoryPlan, DraftCounts, PlanDraft};
use self::draft::{LineRecord, tag, too_long};
use self::root_set::RootSet;
use super::plan::{Rename, SeenEntry, Skipped, path_in};
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
    let reader = PlanReader { policy, settings, observer, root_set: &root_set, found: Mutex::default() };
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

/// An uncertain directory.
#[derive(Default)]
struct UncertainDirectory {
    path: Vec<u8>,
    number: u64,
    root_len: usize,
    lines: Vec<LineRecord>,
}

struct PlanReader<'r> {
    policy: &'r Policy,
    settings: &'r PlanSettings,
    observer: &'r dyn Observer,
    root_set: &'r RootSet,
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
        let findings = directory::propose_names(&batch, self.policy, self.settings, &earlier);
        let found = findings.proposals.len() + findings.unplanned.len();
        self.observer.checked(&batch.dir, batch.count as u64, found as u64);
        // A directory that was listed for the name of a root has links outside of the request.
        let is_linked = batch.has_links && batch.is_whole();
        if found == 0 && findings.long.is_empty() && findings.encodings.is_none() {
            return if is_linked { self.found().add_linked(dir) } else { Ok(()) };
        }
        let (encodings, is_uncertain) = (findings.encodings.clone(), findings.is_uncertain);
        let lines = self.look_up(dir, findings);
        let mut found = self.found();
        if is_linked {
            found.add_linked(dir)?;
        }
        if let Some(encodings) = encodings {
            found.add_encodings(dir, encodings);
        }
        match is_uncertain {
            true => found.uncertain.add(batch, &lines),
            false => add_lines(&mut found.lines, dir, &lines),
        }
    }

    /// Checks the directories with guesses again, with the other names of the tree as evidence.
    fn review_encodings(&self, exclude: &Exclude) -> io::Result<()> {
        let (UncertainDirectories { records, mut singles, .. }, mut tree) = {
            let mut found = self.found();
            (std::mem::take(&mut found.uncertain), std::mem::take(&mut found.tree))
        };
        let records = records.finish()?;
        let mut cursor = records.cursor()?;
        let mut uncertain: Option<UncertainDirectory> = None;
        while !self.observer.is_stopped() {
            cursor.advance()?;
            let record = cursor.record();
            let begins = record.is_none_or(|record| record.name.get(8) == Some(&UNCERTAIN));
            if begins && let Some(mut directory) = uncertain.take() {
                let single = singles.remove(&directory.number);
                self.review_directory(&mut directory, single, exclude, &mut tree);
                add_lines(&mut self.found().lines, &directory.path, &directory.lines)?;
            }
            let Some(EntryRecord { dir, name, payload }) = record else { break };
            match &mut uncertain {
                Some(directory) => directory.lines.push((name[8..].to_vec(), payload.to_vec())),
                none => *none = Some(UncertainDirectory::from_record(dir, name, payload)),
            }
        }
        Ok(())
    }

    /// Gives an uncertain directory the lines that it has with more evidence: `tree` has the names of the whole tree.
    fn review_directory(
        &self,
        directory: &mut UncertainDirectory,
        single: Option<DirectoryBatch>,
        exclude: &Exclude,
        tree: &mut EncodingCounts,
    ) {
        let own = self.found().encodings_of(&directory.path).cloned().unwrap_or_default();
        tree.remove(&own);
        if tree.names() >= 1.0 {
            let place = "in the rest of the tree";
            let earlier = EarlierNames { encodings: std::mem::take(tree), place };
            self.review_with(directory, single, exclude, &earlier);
            *tree = earlier.encodings;
        }
        tree.add(&own);
    }

    fn review_with(
        &self,
        directory: &mut UncertainDirectory,
        single: Option<DirectoryBatch>,
        exclude: &Exclude,
        earlier: &EarlierNames,
    ) {
        let path = &directory.path;
        // A directory that cannot be read again keeps its first suggestions.
        let batch = single.or_else(|| self.root_set.read_batch(path, directory.root_len, exclude).ok());
        let Some(batch) = batch else { return };
        let findings = directory::propose_names(&batch, self.policy, self.settings, earlier);
        let lines = self.look_up(path, DirectoryProposals { long: Vec::new(), ..findings });
        // The batch may have only some names of the directory, if a root lies in it.
        let names: HashSet<&[u8]> = batch.names.iter().map(|(_, name)| name).collect();
        directory.lines.retain(|(key, _)| key[0] == tag::LONG || !names.contains(&key[1..]));
        directory.lines.extend(lines);
    }

    /// Looks up the entries that get new names, and returns the lines; none if the directory cannot be opened.
    fn look_up(&self, dir: &[u8], findings: DirectoryProposals) -> Vec<LineRecord> {
        let DirectoryProposals { proposals, unplanned, long, .. } = findings;
        if proposals.is_empty() && unplanned.is_empty() && long.is_empty() {
            return Vec::new();
        }
        let path = || PathBuf::from(OsStr::from_bytes(dir));
        if dir.len() > MAX_PATH_BYTES {
            let error = io::Error::other("the path is too long for a plan");
            self.observer.problem(&Fault { path: path(), attempt: "plan renames in", error });
            return Vec::new();
        }
        let opened = match self.root_set.open_directory(dir) {
            Ok(opened) => opened,
            // It was removed or replaced.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Vec::new(),
            Err(error) => {
                self.observer.problem(&Fault {
                    path: path(),
                    attempt: "open the directory",
                    error: error.into(),
                });
                return Vec::new();
            }
        };
        let directory = Arc::new(opened.describe(dir));
        let long = long.into_iter().map(|name| too_long(&directory, name)).collect();
        let mut planned = DirectoryPlan {
            directory: Arc::clone(&directory),
            renames: Vec::new(),
            skipped: Vec::new(),
            long,
        };
        for proposal in proposals {
            match opened.look_up(&proposal.old) {
                Ok(Some(entry)) => planned.renames.push(planned.make_rename(proposal, entry)),
                Ok(None) => {
                    let why = "a file system is mounted on it; unmount it first";
                    planned.skip(Unplanned {
                        name: proposal.old,
                        reasons: proposal.reasons,
                        why: why.to_owned(),
                    });
                }
                Err(Errno::ENOENT) => {}
                Err(error) => {
                    let path = PathBuf::from(OsStr::from_bytes(&path_in(dir, &proposal.old)));
                    self.observer.problem(&Fault {
                        path,
                        attempt: "read the metadata of",
                        error: error.into(),
                    });
                }
            }
        }
        unplanned.into_iter().for_each(|one| planned.skip(one));
        planned.records()
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
    fn add(&mut self, batch: DirectoryBatch, lines: &[LineRecord]) -> io::Result<()> {
        let number = self.count;
        self.count += 1;
        let dir = batch.dir.as_os_str().as_bytes();
        let key = |rest: &[u8]| [&number.to_be_bytes()[..], rest].concat();
        let payload = (batch.root_len as u64).to_le_bytes();
        self.records.push(EntryRecord { dir, name: &key(&[UNCERTAIN]), payload: &payload })?;
        for (line, payload) in lines {
            self.records.push(EntryRecord { dir, name: &key(line), payload })?;
        }
        if !batch.is_whole() {
            self.singles.insert(number, batch);
        }
        Ok(())
    }
}

impl UncertainDirectory {
    /// Reads what [`UncertainDirectories::add`] wrote.
    fn from_record(dir: &[u8], name: &[u8], payload: &[u8]) -> Self {
        let number = |bytes: &[u8]| bytes.first_chunk().copied().unwrap_or_default();
        Self {
            path: dir.to_vec(),
            number: u64::from_be_bytes(number(name)),
            root_len: u64::from_le_bytes(number(payload)) as usize,
            lines: Vec::new(),
        }
    }
}

impl DirectoryPlan {
    fn make_rename(&self, proposal: Proposal, entry: SeenEntry) -> Rename {
        let Proposal { old, new, reasons, confidence, reading, evidence, alternatives } = proposal;
        let directory = Arc::clone(&self.directory);
        Rename { id: 0, directory, old, new, entry, reasons, confidence, reading, evidence, alternatives }
    }

    fn skip(&mut self, unplanned: Unplanned) {
        let Unplanned { name, reasons, why } = unplanned;
        self.skipped.push(Skipped { directory: Arc::clone(&self.directory), name, reasons, why });
    }
}

/// A path on the target.
fn target_path(prefix: &[u8], below_root: &[u8]) -> Vec<u8> {
    let below_root = below_root.strip_prefix(b"/").unwrap_or(below_root);
    if prefix.is_empty() { below_root.to_vec() } else { path_in(prefix, below_root) }
}

#[cfg(test)]
mod tests;
