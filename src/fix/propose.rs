//! Makes a plan: reads trees, checks their names, and suggests valid ones.
//!
//! The scanner of trees reads the directories; the thread that reads a directory checks it. Only entries that get a new name are
//! looked up. The renames stay in memory, and the paths of directories with symbolic links: those are opened a second time when
//! all renames are known.
//!
//! The same tree gives the same plan: the results of the threads are sorted, deepest first.

mod directory;
mod guess;
mod links;
pub mod map;
mod root_set;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use parking_lot::Mutex;

use self::directory::{DirectoryProposals, Proposal, Unplanned};
use self::guess::{PriorChoice, PriorSource};
use self::map::CharMap;
use self::root_set::RootSet;
use super::plan::{
    PlanDirectory, PlanRoot, Rename, Retarget, SeenEntry, Skipped, components, path_in, post_order,
};
use crate::name::reading::Encoding;
use crate::policy::rule::RuleId;
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

/// A plan that can still be changed.
#[derive(Debug)]
pub struct PlanDraft {
    /// The roots that were read.
    pub roots: Vec<PlanRoot>,
    /// The directories with renames or skipped entries, deepest first.
    pub directories: Vec<DirectoryPlan>,
    root_set: RootSet,
    exclude: Exclude,
    /// The directories with symbolic links.
    linked: Vec<Vec<u8>>,
    /// The paths that are too long without any rename: directory and name.
    long: Vec<(Arc<PlanDirectory>, Vec<u8>)>,
}

/// The plan for one directory.
#[derive(Debug)]
pub struct DirectoryPlan {
    /// The directory.
    pub directory: Arc<PlanDirectory>,
    /// Its renames, by old name.
    pub renames: Vec<Rename>,
    /// Its skipped entries.
    pub skipped: Vec<Skipped>,
}

/// Reads the requested trees and drafts a plan.
pub fn propose(
    request: &PlanRequest,
    policy: &Policy,
    settings: &PlanSettings,
    observer: &dyn Observer,
) -> PlanDraft {
    let root_set = RootSet::open(&request.paths);
    let scope = Scope {
        max_depth: request.max_depth,
        one_file_system: !request.crosses_file_systems,
        exclude: request.exclude.clone(),
    };
    let tree = Tree::new(root_set.paths(), scope, request.jobs);
    let reader = PlanReader { policy, settings, observer, root_set: &root_set, found: Mutex::default() };
    tree.read(&|event| reader.handle(event));
    reader.review_encodings(&request.exclude);
    let TreeFindings { mut planned, mut linked, long, .. } = reader.found.into_inner();
    planned.sort_by(|a, b| post_order(&a.directory.path, &b.directory.path));
    linked.sort_by(|a, b| post_order(a, b));
    let mut draft = PlanDraft {
        roots: root_set.roots(),
        directories: planned,
        root_set,
        exclude: request.exclude.clone(),
        linked,
        long,
    };
    draft.merge_directories();
    draft
}

/// The results of all threads.
#[derive(Default)]
struct TreeFindings {
    planned: Vec<DirectoryPlan>,
    linked: Vec<Vec<u8>>,
    long: Vec<(Arc<PlanDirectory>, Vec<u8>)>,
    /// The encodings of directories.
    choices: HashMap<Vec<u8>, PriorChoice>,
    /// Directories whose encoding is a guess.
    uncertain: Vec<UncertainDirectory>,
}

/// A directory whose encoding may change when the names of the whole tree are known.
struct UncertainDirectory {
    dir: PathBuf,
    root_len: usize,
    /// The encoding of its names so far.
    encoding: Encoding,
    /// The batch of a root's own name. Other directories are read again.
    single: Option<DirectoryBatch>,
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
        match event {
            SourceEvent::Directory(batch) => self.check(batch),
            SourceEvent::Large(parts) => {
                if let Some(batch) = parts.whole() {
                    self.check(batch);
                }
            }
            SourceEvent::Fault(fault) | SourceEvent::RepeatedFault(fault, _) => self.observer.problem(&fault),
            SourceEvent::Vanished | SourceEvent::Frontier(_) => {}
        }
        if self.observer.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn found(&self) -> parking_lot::MutexGuard<'_, TreeFindings> {
        self.found.lock()
    }

    fn check(&self, batch: DirectoryBatch) {
        let dir = batch.dir.as_os_str().as_bytes();
        let prior = self.found().prior(dir);
        let findings = directory::propose_names(&batch, self.policy, self.settings, prior);
        let found = findings.proposals.len() + findings.unplanned.len();
        self.observer.checked(&batch.dir, batch.count as u64, found as u64);
        // A directory that was listed for the name of a root has links outside of the request.
        let is_linked = batch.has_links && batch.is_whole();
        if found == 0 && findings.long.is_empty() && findings.choice.is_none() {
            if is_linked {
                self.found().linked.push(dir.to_vec());
            }
            return;
        }
        let choice = findings.choice;
        let looked_up = self.look_up(dir, findings);
        let mut found = self.found();
        if is_linked {
            found.linked.push(dir.to_vec());
        }
        found.choices.extend(choice.map(|choice| (dir.to_vec(), choice)));
        found.add(looked_up);
        let guess = choice.filter(|choice| choice.confidence == Confidence::Guess);
        if let Some(PriorChoice { encoding, .. }) = guess.filter(|_| self.settings.encoding.is_none()) {
            let (dir, root_len) = (batch.dir.clone(), batch.root_len);
            let single = (!batch.is_whole()).then_some(batch);
            found.uncertain.push(UncertainDirectory { dir, root_len, encoding, single });
        }
    }

    /// Checks the directories with a guessed encoding again, with the encoding of most names of the tree.
    fn review_encodings(&self, exclude: &Exclude) {
        let (uncertain, most) = {
            let mut found = self.found();
            (std::mem::take(&mut found.uncertain), found.most_common_choice())
        };
        let Some(most) = most else { return };
        let (same, others): (Vec<_>, Vec<_>) =
            uncertain.into_iter().partition(|directory| directory.encoding == most.encoding);
        self.found().confirm(&same, most);
        for UncertainDirectory { dir, root_len, single, .. } in others {
            if self.observer.is_stopped() {
                return;
            }
            let path = dir.as_os_str().as_bytes();
            // A directory that cannot be read again keeps its first suggestions.
            let batch = single.or_else(|| self.root_set.read_batch(path, root_len, exclude).ok());
            let Some(batch) = batch else { continue };
            let findings = directory::propose_names(&batch, self.policy, self.settings, Some(most));
            if findings.choice.is_none_or(|choice| choice.encoding != most.encoding) {
                continue;
            }
            let looked_up = self.look_up(path, DirectoryProposals { long: Vec::new(), ..findings });
            let mut found = self.found();
            // The batch may have only some names of the directory, if a root lies in it.
            let names: HashSet<&[u8]> = batch.names.iter().map(|(_, name)| name).collect();
            for planned in found.planned.iter_mut().filter(|planned| planned.directory.path == path) {
                planned.renames.retain(|rename| !names.contains(&*rename.old));
                planned.skipped.retain(|skipped| !names.contains(&*skipped.name));
            }
            found.add(looked_up);
        }
    }

    /// Looks up the entries that get new names; `None` if the directory cannot be opened.
    fn look_up(&self, dir: &[u8], findings: DirectoryProposals) -> Option<(DirectoryPlan, Vec<Vec<u8>>)> {
        let DirectoryProposals { proposals, unplanned, long, .. } = findings;
        if proposals.is_empty() && unplanned.is_empty() && long.is_empty() {
            return None;
        }
        let path = || PathBuf::from(OsStr::from_bytes(dir));
        if dir.len() > MAX_PATH_BYTES {
            let error = std::io::Error::other("the path is too long for a plan");
            self.observer.problem(&Fault { path: path(), attempt: "plan renames in", error });
            return None;
        }
        let opened = match self.root_set.open_directory(dir) {
            Ok(opened) => opened,
            // It was removed or replaced.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return None,
            Err(error) => {
                self.observer.problem(&Fault {
                    path: path(),
                    attempt: "open the directory",
                    error: error.into(),
                });
                return None;
            }
        };
        let directory = Arc::new(opened.describe(dir));
        let mut planned = DirectoryPlan { directory, renames: Vec::new(), skipped: Vec::new() };
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
        planned.renames.sort_by(|a, b| a.old.cmp(&b.old));
        Some((planned, long))
    }
}

impl TreeFindings {
    fn add(&mut self, looked_up: Option<(DirectoryPlan, Vec<Vec<u8>>)>) {
        if let Some((planned, long)) = looked_up {
            self.long.extend(long.into_iter().map(|name| (Arc::clone(&planned.directory), name)));
            if !planned.renames.is_empty() || !planned.skipped.is_empty() {
                self.planned.push(planned);
            }
        }
    }

    /// The likely encoding of most names.
    fn most_common_choice(&self) -> Option<PriorChoice> {
        let mut names = BTreeMap::<&str, PriorChoice>::new();
        for choice in self.choices.values().filter(|choice| choice.confidence == Confidence::Likely) {
            let none = PriorChoice { names: 0, source: PriorSource::Tree, ..*choice };
            names.entry(choice.encoding.name()).or_insert(none).names += choice.names;
        }
        // Among equals the last by name, so that the result is stable.
        names.into_values().max_by_key(|prior| prior.names)
    }

    /// Makes guesses likely that agree with most names of the tree.
    fn confirm(&mut self, same: &[UncertainDirectory], most: PriorChoice) {
        let same: HashSet<&[u8]> =
            same.iter().map(|directory| directory.dir.as_os_str().as_bytes()).collect();
        let planned = self.planned.iter_mut().filter(|planned| same.contains(&*planned.directory.path));
        for rename in planned.flat_map(|planned| &mut planned.renames) {
            if rename.reading == most.encoding.name() && rename.confidence == Confidence::Guess {
                rename.confidence = Confidence::Likely;
                if let Some(evidence) = &mut rename.evidence {
                    evidence.push_str(", ");
                    evidence.push_str(most.source.as_str());
                }
            }
        }
    }

    /// The choice for the nearest directory above `dir`. It exists already: a directory is checked before its subdirectories.
    fn prior(&self, dir: &[u8]) -> Option<PriorChoice> {
        if self.choices.is_empty() {
            return None;
        }
        let mut above = Path::new(OsStr::from_bytes(dir)).ancestors().skip(1);
        above.find_map(|dir| self.choices.get(dir.as_os_str().as_bytes())).copied()
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

impl PlanDraft {
    /// Merges plans for one directory: it may have come both with the name of a root and with a tree.
    fn merge_directories(&mut self) {
        self.directories.dedup_by(|later, earlier| {
            let is_same = later.directory.path == earlier.directory.path;
            if is_same {
                earlier.renames.append(&mut later.renames);
                earlier.skipped.append(&mut later.skipped);
                earlier.renames.sort_by(|a, b| a.old.cmp(&b.old));
                earlier.renames.dedup_by(|a, b| a.old == b.old);
            }
            is_same
        });
        self.directories.retain(|planned| !planned.renames.is_empty() || !planned.skipped.is_empty());
    }

    /// Numbers the renames, and adds the paths that are too long after all renames to the skipped entries. No rename changes
    /// after this.
    pub fn number_renames(&mut self, policy: &Policy, settings: &PlanSettings) {
        let renames = self.directories.iter_mut().flat_map(|planned| &mut planned.renames);
        (1..).zip(renames).for_each(|(id, rename)| rename.id = id);
        if !policy.checks_paths() {
            return;
        }
        let mut too_long = Vec::new();
        let renamed = self.directories.iter().flat_map(|planned| &planned.renames);
        let renamed = renamed.map(|rename| (&rename.directory, &rename.old));
        let long = self.long.iter().map(|(directory, name)| (directory, name));
        for (directory, name) in renamed.chain(long) {
            let path = path_in(&directory.path, name);
            let Some(root) = self.root_set.root_of(&path) else { continue };
            let new = self.new_path(&path);
            let root_len = self.new_path(&root.path).len();
            let path = target_path(&settings.prefix, new.get(root_len..).unwrap_or_default());
            if !policy.check_path(&path).is_empty() {
                too_long.push((Arc::clone(directory), name.clone()));
            }
        }
        too_long.sort_by(|a, b| post_order(&a.0.path, &b.0.path).then_with(|| a.1.cmp(&b.1)));
        too_long.dedup();
        for (directory, name) in too_long {
            let at = self.directories.binary_search_by(|p| post_order(&p.directory.path, &directory.path));
            let at = at.unwrap_or_else(|at| {
                let (renames, skipped) = (Vec::new(), Vec::new());
                self.directories
                    .insert(at, DirectoryPlan { directory: Arc::clone(&directory), renames, skipped });
                at
            });
            self.directories[at].skip(Unplanned {
                name,
                reasons: vec![RuleId::PathTooLong],
                why: "its path is too long for the target; shorten or move a directory above".to_owned(),
            });
        }
    }

    /// The rename of `name` in the directory `dir`.
    fn find_rename(&self, dir: &[u8], name: &[u8]) -> Option<&Rename> {
        let at = self.directories.binary_search_by(|p| post_order(&p.directory.path, dir)).ok()?;
        let renames = &self.directories[at].renames;
        renames.binary_search_by(|rename| (*rename.old).cmp(name)).ok().map(|at| &renames[at])
    }

    /// `path` after all renames.
    fn new_path(&self, path: &[u8]) -> Vec<u8> {
        let (mut old, mut new) = (b"/".to_vec(), b"/".to_vec());
        for name in components(path) {
            let renamed = self.find_rename(&old, name);
            new = path_in(&new, renamed.map_or(name, |rename| rename.new.as_bytes()));
            old = path_in(&old, name);
        }
        new
    }

    /// The current names in a directory.
    ///
    /// # Errors
    /// The directory cannot be read, or was moved.
    pub fn list_names(&self, directory: &PlanDirectory) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = Vec::new();
        self.root_set
            .open_directory(&directory.path)?
            .for_each_entry(&mut |entry| names.push(entry.name.as_bytes().to_vec()))?;
        Ok(names)
    }

    /// The number of renames.
    pub fn count_renames(&self) -> usize {
        self.directories.iter().map(|planned| planned.renames.len()).sum()
    }

    /// Finds the symbolic links whose targets change, deepest first. The renames must be numbered. Breaks if the observer stops
    /// the search.
    pub fn find_retargets(&self, observer: &dyn Observer) -> ControlFlow<(), Vec<Retarget>> {
        links::find_retargets(self, observer)
    }
}

#[cfg(test)]
mod tests;
