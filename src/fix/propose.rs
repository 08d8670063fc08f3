//! Making a plan: what is below some paths is read, judged, and given names that the policy accepts.
//!
//! Directories are read by the engine that scans trees, each judged by the thread that read it. Only what is to be
//! renamed is looked at closer. In memory stay the renames, and the paths of the directories that hold symbolic links: those
//! are opened a second time, once it is known what is renamed.
//!
//! The same tree gives the same plan: what threads found is put in order, deepest first.

mod directory;
mod guess;
mod links;
pub mod map;
mod places;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use parking_lot::Mutex;

use self::directory::{Findings, Proposal, Unplanned};
use self::guess::{Prior, Whose};
use self::map::Map;
use self::places::Places;
use super::plan::{Directory, Rename, Retarget, Root, Skipped, path_in, post_order};
use crate::name::reading::Encoding;
use crate::policy::rule::RuleId;
use crate::policy::{Confidence, Policy};
use crate::source::scope::{Exclude, Scope};
use crate::source::tree::Tree;
use crate::source::{DirectoryBatch, Fault, Source, SourceEvent};

/// A longer path does not fit into a line of a plan.
const MAX_PATH_BYTES: usize = 128 << 10;

/// What is to be looked at.
#[derive(Debug)]
pub struct Request {
    /// The paths: what lies below them, and their own names.
    pub paths: Vec<PathBuf>,
    /// What is left out.
    pub exclude: Exclude,
    /// How many levels below the paths are looked at: 0 for their own names alone.
    pub max_depth: usize,
    /// Whether other file systems are entered.
    pub crosses_file_systems: bool,
    /// How many threads read.
    pub jobs: usize,
}

/// What is not the policy's business.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The encoding of names that are not UTF-8; guessed for each directory if `None`.
    pub encoding: Option<Encoding>,
    /// A mapping of characters.
    pub map: Option<Map>,
    /// What stands before each path on the target, without a separator at its end. Lengths of paths count it.
    pub prefix: Vec<u8>,
}

/// Who looks on while a tree is read.
pub trait Onlooker: Sync {
    /// So many names of a directory were judged, and so many of them found wanting.
    fn judged(&self, dir: &Path, names: u64, found: u64);
    /// Something could not be read.
    fn fault(&self, fault: &Fault);
    /// Whether the reading is to end.
    fn is_stopped(&self) -> bool;
}

/// A plan in the making.
#[derive(Debug)]
pub struct Draft {
    /// What was looked at.
    pub roots: Vec<Root>,
    /// The directories in which there is something to do, deepest first.
    pub directories: Vec<Planned>,
    places: Places,
    exclude: Exclude,
    /// The directories that hold symbolic links.
    linked: Vec<Vec<u8>>,
    /// Paths that are too long as they are: directory and name.
    long: Vec<(Arc<Directory>, Vec<u8>)>,
}

/// What is planned in one directory.
#[derive(Debug)]
pub struct Planned {
    /// The directory.
    pub directory: Arc<Directory>,
    /// Its renames, by old name.
    pub renames: Vec<Rename>,
    /// What is left out in it.
    pub skipped: Vec<Skipped>,
}

/// Reads and judges what was asked for.
pub fn propose(request: &Request, policy: &Policy, settings: &Settings, onlooker: &dyn Onlooker) -> Draft {
    let places = Places::new(&request.paths);
    let scope = Scope {
        max_depth: request.max_depth,
        one_file_system: !request.crosses_file_systems,
        exclude: request.exclude.clone(),
    };
    let tree = Tree::new(places.paths(), scope, request.jobs);
    let reading = Reading { policy, settings, onlooker, places: &places, found: Mutex::default() };
    tree.read(&|event| reading.take(event));
    reading.decide_again(&request.exclude);
    let Found { mut planned, mut linked, long, .. } = reading.found.into_inner();
    planned.sort_by(|a, b| post_order(&a.directory.path, &b.directory.path));
    linked.sort_by(|a, b| post_order(a, b));
    let mut draft = Draft {
        roots: places.roots(),
        directories: planned,
        places,
        exclude: request.exclude.clone(),
        linked,
        long,
    };
    draft.join();
    draft
}

/// What is found while threads read.
#[derive(Default)]
struct Found {
    planned: Vec<Planned>,
    linked: Vec<Vec<u8>>,
    long: Vec<(Arc<Directory>, Vec<u8>)>,
    /// What was decided on the encoding of a directory's names.
    choices: HashMap<Vec<u8>, Prior>,
    /// Directories whose names do not tell their encoding well.
    doubtful: Vec<Doubtful>,
}

/// A directory whose names may be read otherwise once those of the whole tree are known.
struct Doubtful {
    dir: PathBuf,
    root_len: usize,
    /// The encoding that its names were read in.
    encoding: Encoding,
    /// What was read of it, where that was for the sake of a root's own name; the others are read again.
    single: Option<DirectoryBatch>,
}

struct Reading<'r> {
    policy: &'r Policy,
    settings: &'r Settings,
    onlooker: &'r dyn Onlooker,
    places: &'r Places,
    found: Mutex<Found>,
}

impl Reading<'_> {
    fn take(&self, event: SourceEvent<'_>) -> ControlFlow<()> {
        match event {
            SourceEvent::Directory(batch) => self.judge(batch),
            SourceEvent::Large(parts) => {
                if let Some(batch) = parts.whole() {
                    self.judge(batch);
                }
            }
            SourceEvent::Fault(fault) | SourceEvent::RepeatedFault(fault, _) => self.onlooker.fault(&fault),
            SourceEvent::Vanished | SourceEvent::Frontier(_) => {}
        }
        if self.onlooker.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn found(&self) -> parking_lot::MutexGuard<'_, Found> {
        self.found.lock()
    }

    fn judge(&self, batch: DirectoryBatch) {
        let dir = batch.dir.as_os_str().as_bytes();
        let prior = self.found().prior(dir);
        let findings = directory::judge(&batch, self.policy, self.settings, prior);
        let found = findings.proposals.len() + findings.unplanned.len();
        self.onlooker.judged(&batch.dir, batch.count as u64, found as u64);
        // A directory that was only listed for the sake of a root's own name has links of which nobody asked.
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
        found.plan(looked_up);
        let doubt = choice.filter(|choice| choice.confidence == Confidence::Guess);
        if let Some(Prior { encoding, .. }) = doubt.filter(|_| self.settings.encoding.is_none()) {
            let (dir, root_len) = (batch.dir.clone(), batch.root_len);
            let single = (!batch.is_whole()).then_some(batch);
            found.doubtful.push(Doubtful { dir, root_len, encoding, single });
        }
    }

    /// Looks again at the directories whose names do not tell their encoding, with what most names of the tree tell.
    fn decide_again(&self, exclude: &Exclude) {
        let (doubtful, most) = {
            let mut found = self.found();
            (std::mem::take(&mut found.doubtful), found.most())
        };
        let Some(most) = most else { return };
        let (same, others): (Vec<_>, Vec<_>) =
            doubtful.into_iter().partition(|doubtful| doubtful.encoding == most.encoding);
        self.found().confirm(&same, most);
        for Doubtful { dir, root_len, single, .. } in others {
            if self.onlooker.is_stopped() {
                return;
            }
            let path = dir.as_os_str().as_bytes();
            // What cannot be read a second time keeps the names that were found for it.
            let batch = single.or_else(|| self.places.batch(path, root_len, exclude).ok());
            let Some(batch) = batch else { continue };
            let findings = directory::judge(&batch, self.policy, self.settings, Some(most));
            if findings.choice.is_none_or(|choice| choice.encoding != most.encoding) {
                continue;
            }
            let looked_up = self.look_up(path, Findings { long: Vec::new(), ..findings });
            let mut found = self.found();
            // One batch tells of some names, and another of others, where a root stands in another.
            let names: HashSet<&[u8]> = batch.names.iter().map(|(_, name)| name).collect();
            for planned in found.planned.iter_mut().filter(|planned| planned.directory.path == path) {
                planned.renames.retain(|rename| !names.contains(&*rename.old));
                planned.skipped.retain(|skipped| !names.contains(&*skipped.name));
            }
            found.plan(looked_up);
        }
    }

    /// Which entries these are; `None` if that could not be told of the directory.
    fn look_up(&self, dir: &[u8], findings: Findings) -> Option<(Planned, Vec<Vec<u8>>)> {
        let Findings { proposals, unplanned, long, .. } = findings;
        if proposals.is_empty() && unplanned.is_empty() && long.is_empty() {
            return None;
        }
        let path = || PathBuf::from(OsStr::from_bytes(dir));
        if dir.len() > MAX_PATH_BYTES {
            let error = std::io::Error::other("its path is too long for a plan");
            self.onlooker.fault(&Fault { path: path(), attempt: "plan anything in", error });
            return None;
        }
        let opened = match self.places.open(dir) {
            Ok(opened) => opened,
            // It was removed, or something else has taken its place.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return None,
            Err(error) => {
                self.onlooker.fault(&Fault {
                    path: path(),
                    attempt: "open the directory",
                    error: error.into(),
                });
                return None;
            }
        };
        let directory = Arc::new(opened.directory(dir));
        let mut planned = Planned { directory, renames: Vec::new(), skipped: Vec::new() };
        for proposal in proposals {
            match opened.identity(&proposal.old) {
                Ok(Some(identity)) => planned.renames.push(planned.rename(proposal, identity)),
                Ok(None) => {
                    let why = "a file system is mounted on it: what is mounted on has to be unmounted first";
                    planned.skip(Unplanned {
                        name: proposal.old,
                        reasons: proposal.reasons,
                        why: why.to_owned(),
                    });
                }
                Err(Errno::ENOENT) => {}
                Err(error) => {
                    let path = PathBuf::from(OsStr::from_bytes(&path_in(dir, &proposal.old)));
                    self.onlooker.fault(&Fault { path, attempt: "look at", error: error.into() });
                }
            }
        }
        unplanned.into_iter().for_each(|one| planned.skip(one));
        planned.renames.sort_by(|a, b| a.old.cmp(&b.old));
        Some((planned, long))
    }
}

impl Found {
    fn plan(&mut self, looked_up: Option<(Planned, Vec<Vec<u8>>)>) {
        if let Some((planned, long)) = looked_up {
            self.long.extend(long.into_iter().map(|name| (Arc::clone(&planned.directory), name)));
            if !planned.renames.is_empty() || !planned.skipped.is_empty() {
                self.planned.push(planned);
            }
        }
    }

    /// The encoding that was found likely for most names.
    fn most(&self) -> Option<Prior> {
        let mut names = BTreeMap::<&str, Prior>::new();
        for choice in self.choices.values().filter(|choice| choice.confidence == Confidence::Likely) {
            let none = Prior { names: 0, of: Whose::Tree, ..*choice };
            names.entry(choice.encoding.name()).or_insert(none).names += choice.names;
        }
        // Of equals the last by name, always the same.
        names.into_values().max_by_key(|prior| prior.names)
    }

    /// Takes what was guessed for some directories for likely: most names of the tree say the same.
    fn confirm(&mut self, same: &[Doubtful], most: Prior) {
        let same: HashSet<&[u8]> = same.iter().map(|doubtful| doubtful.dir.as_os_str().as_bytes()).collect();
        let planned = self.planned.iter_mut().filter(|planned| same.contains(&*planned.directory.path));
        for rename in planned.flat_map(|planned| &mut planned.renames) {
            if rename.reading == most.encoding.name() && rename.confidence == Confidence::Guess {
                rename.confidence = Confidence::Likely;
                if let Some(evidence) = &mut rename.evidence {
                    evidence.push_str(", ");
                    evidence.push_str(most.of.as_str());
                }
            }
        }
    }

    /// What was decided for the nearest directory above `dir`. It has been judged: a directory is read before those in it.
    fn prior(&self, dir: &[u8]) -> Option<Prior> {
        if self.choices.is_empty() {
            return None;
        }
        let mut above = Path::new(OsStr::from_bytes(dir)).ancestors().skip(1);
        above.find_map(|dir| self.choices.get(dir.as_os_str().as_bytes())).copied()
    }
}

impl Planned {
    fn rename(&self, proposal: Proposal, identity: super::plan::Identity) -> Rename {
        let Proposal { old, new, reasons, confidence, reading, evidence, alternatives } = proposal;
        let directory = Arc::clone(&self.directory);
        Rename { id: 0, directory, old, new, identity, reasons, confidence, reading, evidence, alternatives }
    }

    fn skip(&mut self, unplanned: Unplanned) {
        let Unplanned { name, reasons, why } = unplanned;
        self.skipped.push(Skipped { directory: Arc::clone(&self.directory), name, reasons, why });
    }
}

/// A path as it stands on the target.
fn on_target(prefix: &[u8], below_root: &[u8]) -> Vec<u8> {
    let below_root = below_root.strip_prefix(b"/").unwrap_or(below_root);
    if prefix.is_empty() { below_root.to_vec() } else { path_in(prefix, below_root) }
}

impl Draft {
    /// Puts together what is planned in one directory, which may be that of a root's own name and a tree's at once.
    fn join(&mut self) {
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

    /// Numbers the renames, and says which paths are too long when they are done. To be called when all renames are
    /// settled.
    pub fn settle(&mut self, policy: &Policy, settings: &Settings) {
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
            let Some(root) = self.places.root_of(&path) else { continue };
            let new = self.new_path(&path);
            let root_len = self.new_path(&root.path).len();
            let path = on_target(&settings.prefix, new.get(root_len..).unwrap_or_default());
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
                self.directories.insert(at, Planned { directory: Arc::clone(&directory), renames, skipped });
                at
            });
            self.directories[at].skip(Unplanned {
                name,
                reasons: vec![RuleId::PathTooLong],
                why: "its path stays longer than the target takes: a directory above has to be shortened or moved"
                    .to_owned(),
            });
        }
    }

    /// The rename of `name` in the directory `dir`.
    fn rename_of(&self, dir: &[u8], name: &[u8]) -> Option<&Rename> {
        let at = self.directories.binary_search_by(|p| post_order(&p.directory.path, dir)).ok()?;
        let renames = &self.directories[at].renames;
        renames.binary_search_by(|rename| (*rename.old).cmp(name)).ok().map(|at| &renames[at])
    }

    /// What `path` is called when everything planned is done.
    fn new_path(&self, path: &[u8]) -> Vec<u8> {
        let (mut old, mut new) = (b"/".to_vec(), b"/".to_vec());
        for name in super::plan::components(path) {
            let renamed = self.rename_of(&old, name);
            new = path_in(&new, renamed.map_or(name, |rename| rename.new.as_bytes()));
            old = path_in(&old, name);
        }
        new
    }

    /// The names in a directory as they are now.
    ///
    /// # Errors
    /// It cannot be read, or is not where it was.
    pub fn listing(&self, directory: &Directory) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = Vec::new();
        self.places.open(&directory.path)?.each(&mut |entry| names.push(entry.name.as_bytes().to_vec()))?;
        Ok(names)
    }

    /// How many renames there are.
    pub fn renames(&self) -> usize {
        self.directories.iter().map(|planned| planned.renames.len()).sum()
    }

    /// Finds the symbolic links that have to follow, in the order of their paths, deepest first. To be called when the
    /// renames have their numbers.
    pub fn retargets(
        &self,
        onlooker: &dyn Onlooker,
        take: &mut dyn FnMut(Retarget) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        links::retargets(self, onlooker, take)
    }
}

#[cfg(test)]
mod tests;
