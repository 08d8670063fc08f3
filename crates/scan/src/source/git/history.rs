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

use namegate_findings::location::Container;
use namegate_sys::process::processors;
use parking_lot::Mutex;

use self::commits::{Commit, Commits, read_commits};
use self::directory::{
    CommitSpan, DirectoryVersion, HistoryNames, ReadDirectory, VersionsOfDirectory, add_names, distinct,
    names_in,
};
use super::objects::{ObjectNumber, ObjectReader, ObjectTable};
use super::repository::Repository;
use super::tree::{Places, TreePath, path_bytes, too_deep};
use crate::source::VersionedDirectory;
use crate::source::work_stack::{WorkStack, run_in_threads};

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
    let top =
        VersionsOfDirectory { path: TreePath::top(), depth: 0, is_repeated: false, versions: distinct(tops) };
    let (stack, places) = (WorkStack::new(), Mutex::default());
    let history = History { commits, container, tell, directory, table, stack, places };
    history.stack.add(top.parts());
    in_threads(&mut readers, |reader| history.work(reader));
    if history.stack.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Has a thread for each reader do `work`; this thread is one of them.
fn in_threads<'t>(readers: &mut [ObjectReader<'t>], work: impl Fn(&mut ObjectReader<'t>) + Sync) {
    let (count, readers) = (readers.len(), Mutex::new(readers.iter_mut()));
    run_in_threads(count, || {
        let reader = readers.lock().next();
        reader.into_iter().for_each(&work);
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

    /// Removes the versions that are in too many places. Returns whether each of the others was in another place before.
    fn limit_places(&self, versions: &mut Vec<DirectoryVersion>) -> ControlFlow<(), bool> {
        let (mut places, mut refused, mut is_repeated) = (self.places.lock(), Vec::new(), true);
        versions.retain(|version| match places.add(version.tree) {
            Ok(was_there) => {
                is_repeated &= was_there;
                true
            }
            Err(too_many) => {
                refused.extend(too_many.error(&self.table.id(version.tree)));
                false
            }
        });
        drop(places);
        refused.into_iter().try_for_each(self.tell)?;
        ControlFlow::Continue(is_repeated)
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
        let dir = directory.of.path.joined();
        if directory.of.is_repeated {
            let bytes = path_bytes(&dir, names.keys().map(|name| &**name));
            let tree = directory.of.versions[0].tree;
            if let Err(too_many) = self.places.lock().add_repeated(tree, bytes) {
                return too_many.error(&self.table.id(tree)).map_or(ControlFlow::Continue(()), self.tell);
            }
        }
        let versions = &directory.of.versions;
        let mut read = ReadDirectory::new(reader, &dir, versions, &names, &self.commits, self.container);
        (self.directory)(&mut read)?;
        drop(read);
        self.descend(&dir, directory.of.depth + 1, names)
    }

    /// Has the subdirectories of `dir` read.
    fn descend(&self, dir: &Arc<[u8]>, depth: usize, names: HistoryNames) -> ControlFlow<()> {
        for (name, found) in names.into_iter().filter(|(_, found)| !found.trees.is_empty()) {
            let path = TreePath::new(dir, &name);
            let mut versions = distinct(found.trees);
            if !path.is_taken(depth) {
                versions
                    .iter()
                    .try_for_each(|version| (self.tell)(too_deep(&self.table.id(version.tree))))?;
                continue;
            }
            let is_repeated = self.limit_places(&mut versions)?;
            self.stack.add(VersionsOfDirectory { path, depth, is_repeated, versions }.parts());
        }
        ControlFlow::Continue(())
    }
}
