//! Every tree of every commit that a ref leads to.
//!
//! A version of a directory (a tree at a path) is read once, however many commits have it, and compared with another version of
//! the same directory. So only changes cost more than reading. Directories are read from the top down: when all versions of a
//! directory are read, all versions of its subdirectories are known, with their commits. This needs memory for each commit, for
//! the versions of the directories that wait, and for the names of those that are being read.

mod changes;
mod directory;

use std::collections::{HashMap, HashSet};
use std::io;
use std::num::NonZeroUsize;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::thread;

use gix::ObjectId;
use gix::objs::{CommitRefIter, Kind, TagRefIter};
use parking_lot::Mutex;

use self::directory::{
    CommitSpan, DirectoryVersion, HistoryNames, ReadDirectory, VersionsOfDirectory, add_names, distinct,
    names_in,
};
use super::repository::{Repository, unread};
use super::tree::{MAX_DEPTH, MAX_PLACES, joined, too_many};
use crate::source::VersionedDirectory;
use crate::source::location::Container;
use crate::source::work_stack::WorkStack;

/// The receiver of each error.
type Tell<'t> = &'t (dyn Fn(io::Error) -> ControlFlow<()> + Sync);

/// The receiver of each directory.
type TellDirectory<'t> = &'t (dyn Fn(&mut dyn VersionedDirectory) -> ControlFlow<()> + Sync);

/// The versions of a directory that a thread reads at a time.
const TOGETHER: usize = 2048;

/// More threads would need more memory for the objects that they keep.
const MAX_THREADS: usize = 8;

/// Reads the whole history.
pub(super) fn read(
    repository: &Repository,
    container: &Arc<Container>,
    tell: Tell<'_>,
    directory: TellDirectory<'_>,
) -> ControlFlow<()> {
    let commits = read_commits(repository, tell)?;
    let tops = (0..).zip(&commits.0).map(|(at, commit)| (commit.tree, CommitSpan { first: at, last: at }));
    let top = VersionsOfDirectory { path: Vec::new(), depth: 0, versions: distinct(tops.collect()) };
    let (stack, places) = (WorkStack::new(), Mutex::default());
    let history = History { commits, container, tell, directory, stack, places };
    history.stack.add(top.parts());
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_THREADS);
    thread::scope(|scope| {
        for _ in 1..threads {
            let repository = repository.for_thread();
            let history = &history;
            // Without this thread the others read everything.
            let _ = thread::Builder::new().spawn_scoped(scope, move || history.work(&repository));
        }
        history.work(repository);
    });
    if history.stack.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// All commits, by date.
struct Commits(Vec<Commit>);

impl Commits {
    fn id(&self, at: u32) -> ObjectId {
        self.0[at as usize].id
    }
}

/// A commit, or a tree that a ref points to directly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Commit {
    /// Its commit time, in seconds since 1970; 0 if it has none.
    seconds: i64,
    id: ObjectId,
    tree: ObjectId,
}

/// All commits, by date.
fn read_commits(repository: &Repository, tell: Tell<'_>) -> ControlFlow<(), Commits> {
    let mut waiting = Vec::new();
    match repository.refs() {
        Ok(refs) => {
            for found in refs {
                match found {
                    Ok(id) => waiting.push(id),
                    Err(error) => tell(error)?,
                }
            }
        }
        Err(error) => tell(error)?,
    }
    let mut ends = HashSet::new();
    match repository.shallow() {
        Ok(shallow) => ends.extend(shallow),
        Err(error) => tell(error)?,
    }
    let (mut commits, mut known, mut buffer) = (Vec::new(), HashSet::new(), Vec::new());
    let mut cut = 0_u64;
    while let Some(id) = waiting.pop() {
        if !known.insert(id) {
            continue;
        }
        match commit(repository, id, &mut buffer) {
            Ok(Found::Commit(commit, parents)) => {
                if ends.contains(&id) && !parents.is_empty() {
                    cut += 1;
                } else {
                    waiting.extend(parents);
                }
                commits.push(commit);
            }
            Ok(Found::Leads(to)) => waiting.push(to),
            Ok(Found::Nothing) => {}
            Err(error) => tell(error)?,
        }
    }
    if cut > 0 {
        let text = format!("it is a shallow clone: the parents of {cut} of its commits are missing");
        tell(io::Error::other(text))?;
    }
    commits.sort_unstable();
    ControlFlow::Continue(Commits(commits))
}

enum Found {
    Commit(Commit, Vec<ObjectId>),
    Leads(ObjectId),
    Nothing,
}

fn commit(repository: &Repository, id: ObjectId, buffer: &mut Vec<u8>) -> io::Result<Found> {
    Ok(match repository.find(&id, buffer)? {
        Kind::Commit => {
            let iter = || CommitRefIter::from_bytes(buffer, repository.hash());
            let tree = iter().tree_id().map_err(|error| unread(&id, error))?;
            let seconds = iter().committer().map_or(0, |committer| committer.seconds());
            Found::Commit(Commit { seconds, id, tree }, iter().parent_ids().collect())
        }
        Kind::Tag => {
            let target = TagRefIter::from_bytes(buffer, repository.hash()).target_id();
            Found::Leads(target.map_err(|error| unread(&id, error))?)
        }
        Kind::Tree => Found::Commit(Commit { seconds: 0, id, tree: id }, Vec::new()),
        Kind::Blob => Found::Nothing,
    })
}

/// The shared state of the threads.
struct History<'h> {
    commits: Commits,
    container: &'h Arc<Container>,
    tell: Tell<'h>,
    directory: TellDirectory<'h>,
    stack: WorkStack<PartOfDirectory>,
    /// In how many places each tree was found.
    places: Mutex<HashMap<ObjectId, u32>>,
}

/// Some versions of a directory that are read together.
struct PartOfDirectory {
    directory: Arc<DirectoryWork>,
    versions: Range<usize>,
}

/// A directory that is being read.
struct DirectoryWork {
    of: VersionsOfDirectory,
    found: Mutex<FoundNames>,
}

/// The names that were found so far.
struct FoundNames {
    names: HistoryNames,
    /// How many parts are not read yet.
    parts_left: usize,
}

impl VersionsOfDirectory {
    /// The parts in which threads read it.
    fn parts(self) -> impl Iterator<Item = PartOfDirectory> {
        let len = self.versions.len();
        let found = FoundNames { names: HistoryNames::new(), parts_left: len.div_ceil(TOGETHER) };
        let directory = Arc::new(DirectoryWork { of: self, found: Mutex::new(found) });
        (0..len).step_by(TOGETHER).map(move |from| {
            let versions = from..len.min(from + TOGETHER);
            PartOfDirectory { directory: Arc::clone(&directory), versions }
        })
    }
}

impl History<'_> {
    fn work(&self, repository: &Repository) {
        while let Some(turn) = self.stack.next() {
            if self.read_part(repository, &turn.work).is_break() {
                self.stack.stop();
            }
        }
    }

    /// Removes the versions that are in too many places; returns the trees that are so for the first time.
    fn limit_places(&self, versions: &mut Vec<DirectoryVersion>) -> Vec<ObjectId> {
        let (mut places, mut too_many) = (self.places.lock(), Vec::new());
        versions.retain(|version| {
            let count = places.entry(version.tree).or_default();
            *count += 1;
            if *count == MAX_PLACES + 1 {
                too_many.push(version.tree);
            }
            *count <= MAX_PLACES
        });
        too_many
    }

    fn read_part(&self, repository: &Repository, part: &PartOfDirectory) -> ControlFlow<()> {
        let directory = &part.directory;
        let mut result = ControlFlow::Continue(());
        let damaged = &mut |error| {
            if result.is_continue() {
                result = (self.tell)(error);
            }
        };
        let names = names_in(repository, &directory.of.versions[part.versions.clone()], damaged);
        result?;
        let mut found = directory.found.lock();
        add_names(&mut found.names, names);
        found.parts_left -= 1;
        if found.parts_left > 0 {
            return ControlFlow::Continue(());
        }
        let names = std::mem::take(&mut found.names);
        drop(found);
        // No version could be read.
        if names.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut read = ReadDirectory::new(repository, &directory.of, &names, &self.commits, self.container);
        (self.directory)(&mut read)?;
        drop(read);
        self.descend(&directory.of, names)
    }

    /// Has the subdirectories read.
    fn descend(&self, parent: &VersionsOfDirectory, names: HistoryNames) -> ControlFlow<()> {
        let depth = parent.depth + 1;
        for (name, found) in names.into_iter().filter(|(_, found)| !found.trees.is_empty()) {
            let mut versions = distinct(found.trees);
            if depth > MAX_DEPTH {
                versions.iter().try_for_each(|version| (self.tell)(too_many(&version.tree, depth)))?;
                continue;
            }
            let too_often = self.limit_places(&mut versions);
            self.stack
                .add(VersionsOfDirectory { path: joined(&parent.path, &name), depth, versions }.parts());
            too_often.iter().try_for_each(|tree| (self.tell)(too_many(tree, depth)))?;
        }
        ControlFlow::Continue(())
    }
}
