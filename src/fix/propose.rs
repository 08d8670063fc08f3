//! Makes a plan: reads trees, checks their names, and suggests valid ones.
//!
//! The scanner of trees reads the directories; the thread that reads a directory checks it. Only entries that get a new name are
//! looked up. The lines of the plan are sorted records, and so are the paths of directories with symbolic links: those are
//! opened a second time when all renames are known.
//!
//! The same tree gives the same plan: the results of the threads are sorted, deepest first.

mod directory;
mod draft;
mod guess;
mod links;
pub mod map;
mod root_set;

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::hash::BuildHasher;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use parking_lot::Mutex;

use self::directory::{DirectoryProposals, Proposal, Unplanned};
pub use self::draft::{DirectoryPlan, DraftCounts, PlanDraft};
use self::draft::{LineRecord, parse_rename, rename_payload, tag, too_long};
use self::guess::{PriorChoice, PriorSource};
use self::map::CharMap;
use self::root_set::RootSet;
use super::plan::{Rename, SeenEntry, Skipped, path_in};
use super::records::{EntryRecord, RecordSorter};
use crate::name::reading::Encoding;
use crate::policy::{Confidence, Policy};
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
    /// A character mapping.
    pub map: Option<CharMap>,
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
    /// The encodings of directories, by the hashes of their paths.
    choices: HashMap<u64, (Encoding, Confidence)>,
    hash: RandomState,
    /// The number of names of each likely encoding.
    likely: BTreeMap<&'static str, PriorChoice>,
    /// Directories whose encoding is a guess.
    uncertain: UncertainDirectories,
    /// Why a temporary file cannot be written.
    failure: Option<io::Error>,
}

/// Directories whose encoding may change when the names of the whole tree are known. A directory with the name of a root may
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
    /// The name of the encoding of its names so far.
    encoding: String,
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
            SourceEvent::Vanished | SourceEvent::Frontier(_) => {}
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
        let prior = self.found().prior(dir);
        let findings = directory::propose_names(&batch, self.policy, self.settings, prior);
        let found = findings.proposals.len() + findings.unplanned.len();
        self.observer.checked(&batch.dir, batch.count as u64, found as u64);
        // A directory that was listed for the name of a root has links outside of the request.
        let is_linked = batch.has_links && batch.is_whole();
        if found == 0 && findings.long.is_empty() && findings.choice.is_none() {
            return if is_linked { self.found().add_linked(dir) } else { Ok(()) };
        }
        let choice = findings.choice;
        let lines = self.look_up(dir, findings);
        let mut found = self.found();
        if is_linked {
            found.add_linked(dir)?;
        }
        if let Some(choice) = choice {
            found.add_choice(dir, choice);
        }
        let guess = choice.filter(|choice| choice.confidence == Confidence::Guess);
        match guess.filter(|_| self.settings.encoding.is_none()) {
            Some(PriorChoice { encoding, .. }) => found.uncertain.add(encoding, batch, &lines),
            None => add_lines(&mut found.lines, dir, &lines),
        }
    }

    /// Checks the directories with a guessed encoding again, with the encoding of most names of the tree.
    fn review_encodings(&self, exclude: &Exclude) -> io::Result<()> {
        let (UncertainDirectories { records, mut singles, .. }, most) = {
            let mut found = self.found();
            (std::mem::take(&mut found.uncertain), found.most_common_choice())
        };
        let records = records.finish()?;
        let mut cursor = records.cursor()?;
        let mut uncertain: Option<UncertainDirectory> = None;
        while !self.observer.is_stopped() {
            cursor.advance()?;
            let record = cursor.record();
            let begins = record.is_none_or(|record| record.name.get(8) == Some(&UNCERTAIN));
            if begins && let Some(mut directory) = uncertain.take() {
                if let Some(most) = most {
                    let single = singles.remove(&directory.number);
                    self.review_directory(&mut directory, single, most, exclude)?;
                }
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

    /// Gives an uncertain directory the lines that it has in the encoding of most names.
    fn review_directory(
        &self,
        directory: &mut UncertainDirectory,
        single: Option<DirectoryBatch>,
        most: PriorChoice,
        exclude: &Exclude,
    ) -> io::Result<()> {
        if directory.encoding == most.encoding.name() {
            return directory.confirm(most);
        }
        let path = &directory.path;
        // A directory that cannot be read again keeps its first suggestions.
        let batch = single.or_else(|| self.root_set.read_batch(path, directory.root_len, exclude).ok());
        let Some(batch) = batch else { return Ok(()) };
        let findings = directory::propose_names(&batch, self.policy, self.settings, Some(most));
        if findings.choice.is_none_or(|choice| choice.encoding != most.encoding) {
            return Ok(());
        }
        let lines = self.look_up(path, DirectoryProposals { long: Vec::new(), ..findings });
        // The batch may have only some names of the directory, if a root lies in it.
        let names: HashSet<&[u8]> = batch.names.iter().map(|(_, name)| name).collect();
        directory.lines.retain(|(key, _)| key[0] == tag::LONG || !names.contains(&key[1..]));
        directory.lines.extend(lines);
        Ok(())
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

    fn add_choice(&mut self, dir: &[u8], choice: PriorChoice) {
        let PriorChoice { encoding, confidence, names, .. } = choice;
        self.choices.insert(self.hash.hash_one(dir), (encoding, confidence));
        if confidence == Confidence::Likely {
            let none = PriorChoice { names: 0, source: PriorSource::Tree, ..choice };
            self.likely.entry(encoding.name()).or_insert(none).names += names;
        }
    }

    /// The likely encoding of most names.
    fn most_common_choice(&self) -> Option<PriorChoice> {
        // Among equals the last by name, so that the result is stable.
        self.likely.values().copied().max_by_key(|prior| prior.names)
    }

    /// The choice for the nearest directory above `dir`. It exists already: a directory is checked before its subdirectories.
    fn prior(&self, dir: &[u8]) -> Option<PriorChoice> {
        if self.choices.is_empty() {
            return None;
        }
        let mut above = Path::new(OsStr::from_bytes(dir)).ancestors().skip(1);
        let choice = above.find_map(|dir| self.choices.get(&self.hash.hash_one(dir.as_os_str().as_bytes())));
        choice.map(|&(encoding, confidence)| PriorChoice {
            encoding,
            confidence,
            names: 0,
            source: PriorSource::Above,
        })
    }
}

impl UncertainDirectories {
    fn add(&mut self, encoding: Encoding, batch: DirectoryBatch, lines: &[LineRecord]) -> io::Result<()> {
        let number = self.count;
        self.count += 1;
        let dir = batch.dir.as_os_str().as_bytes();
        let key = |rest: &[u8]| [&number.to_be_bytes()[..], rest].concat();
        let payload = [&(batch.root_len as u64).to_le_bytes()[..], encoding.name().as_bytes()].concat();
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
        let encoding = payload.get(8..).unwrap_or_default();
        Self {
            path: dir.to_vec(),
            number: u64::from_be_bytes(number(name)),
            root_len: u64::from_le_bytes(number(payload)) as usize,
            encoding: String::from_utf8_lossy(encoding).into_owned(),
            lines: Vec::new(),
        }
    }

    /// Makes guesses likely that agree with most names of the tree.
    fn confirm(&mut self, most: PriorChoice) -> io::Result<()> {
        for (_, payload) in self.lines.iter_mut().filter(|(key, _)| key[0] == tag::RENAME) {
            let mut rename = parse_rename(payload, 0)?;
            if rename.reading == most.encoding.name() && rename.confidence == Confidence::Guess {
                rename.confidence = Confidence::Likely;
                if let Some(evidence) = &mut rename.evidence {
                    evidence.push_str(", ");
                    evidence.push_str(most.source.as_str());
                }
                *payload = rename_payload(&rename);
            }
        }
        Ok(())
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
