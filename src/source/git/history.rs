//! Every tree of every commit that a ref leads to.
//!
//! A version of a directory (a tree at a path) is read once, however many commits have it, and compared with another version of
//! the same directory. So only changes cost more than reading. Directories are read from the top down: when all versions of a
//! directory are read, all versions of its subdirectories are known, with their commits. This needs memory for each commit, for
//! the versions of the directories that wait, and for the names of those that are being read.

mod changes;
mod commits;
mod directory;

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use self::commits::{Commit, Commits, read_commits};
use self::directory::{
    CommitSpan, DirectoryVersion, HistoryNames, ReadDirectory, VersionsOfDirectory, add_names, distinct,
    names_in,
};
use super::objects::{ObjectNumber, ObjectReader, ObjectTable};
use super::repository::Repository;
use super::tree::{MAX_DEPTH, Places, joined, too_many};
use crate::source::VersionedDirectory;
use crate::source::location::Container;
use crate::source::work_stack::WorkStack;
use crate::sys::process::processors;

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
    let table = &ObjectTable::new(repository);
    let threads = processors().min(MAX_THREADS);
    let reader = |_| ObjectReader::new(table, repository.for_thread());
    let mut readers: Vec<_> = (0..threads).map(reader).collect();
    let commits = read_commits(repository, &mut readers, table, tell)?;
    let top_of = |(at, commit): (u32, &Commit)| DirectoryVersion {
        tree: commit.tree,
        commits: CommitSpan { first: at, last: at },
    };
    let tops = (0..).zip(&commits.0).map(top_of).collect();
    let top = VersionsOfDirectory { path: Vec::new(), depth: 0, versions: distinct(tops) };
    let (stack, places) = (WorkStack::new(), Mutex::default());
    let history = History { commits, container, tell, directory, table, stack, places };
    history.stack.add(top.parts());
    in_threads(&mut readers, |reader| history.work(reader));
    if history.stack.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Has a thread for each reader do `work`; this thread is one of them.
fn in_threads<'t>(readers: &mut [ObjectReader<'t>], work: impl Fn(&mut ObjectReader<'t>) + Sync) {
    let work = &work;
    thread::scope(|scope| {
        let (first, others) = readers.split_first_mut().expect("there is one at least");
        for reader in others {
            // Without this thread the others do everything.
            let _ = thread::Builder::new().spawn_scoped(scope, move || work(reader));
        }
        work(first);
    });
}

/// The shared state of the threads.
struct History<'h> {
    commits: Commits,
    container: &'h Arc<Container>,
    tell: Tell<'h>,
    directory: TellDirectory<'h>,
    table: &'h ObjectTable,
    stack: WorkStack<PartOfDirectory>,
    /// In how many places each tree was found.
    places: Mutex<Places<ObjectNumber>>,
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
    fn work(&self, reader: &mut ObjectReader<'_>) {
        while let Some(turn) = self.stack.next() {
            if self.read_part(reader, &turn.work).is_break() {
                self.stack.stop();
            }
        }
    }

    /// Removes the versions that are in too many places; returns the trees that are so for the first time.
    fn limit_places(&self, versions: &mut Vec<DirectoryVersion>) -> Vec<ObjectNumber> {
        let (mut places, mut too_many) = (self.places.lock(), Vec::new());
        versions.retain(|version| {
            let added = places.add(version.tree);
            if added == Err(true) {
                too_many.push(version.tree);
            }
            added.is_ok()
        });
        too_many
    }

    fn read_part(&self, reader: &mut ObjectReader<'_>, part: &PartOfDirectory) -> ControlFlow<()> {
        let directory = &part.directory;
        let mut result = ControlFlow::Continue(());
        let damaged = &mut |error| {
            if result.is_continue() {
                result = (self.tell)(error);
            }
        };
        let names = names_in(reader, &directory.of.versions[part.versions.clone()], damaged);
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
        let mut read = ReadDirectory::new(reader, &directory.of, &names, &self.commits, self.container);
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
                versions
                    .iter()
                    .try_for_each(|version| (self.tell)(too_many(&self.table.id(version.tree), depth)))?;
                continue;
            }
            let too_often = self.limit_places(&mut versions);
            self.stack
                .add(VersionsOfDirectory { path: joined(&parent.path, &name), depth, versions }.parts());
            too_often.iter().try_for_each(|tree| (self.tell)(too_many(&self.table.id(*tree), depth)))?;
        }
        ControlFlow::Continue(())
    }
}
