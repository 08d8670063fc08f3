//! All commits that a ref leads to, read by all threads.

use std::collections::HashSet;
use std::io;
use std::mem;
use std::ops::ControlFlow;

use gix::objs::{CommitRefIter, Kind, TagRefIter};
use parking_lot::Mutex;

use super::{Tell, in_threads};
use crate::source::git::objects::{ObjectNumber, ObjectReader, ObjectTable};
use crate::source::git::repository::{Repository, unread};
use crate::source::work_stack::WorkStack;

/// After so many commits a thread gives half of those that wait to the others.
const TOGETHER: usize = 512;

/// All commits, by date.
pub(super) struct Commits(pub(super) Vec<Commit>);

impl Commits {
    pub(super) fn object(&self, at: u32) -> ObjectNumber {
        self.0[at as usize].object
    }
}

/// A commit, or a tree that a ref points to directly.
#[derive(Clone, Copy)]
pub(super) struct Commit {
    /// Its commit time, in seconds since 1970; 0 if it has none.
    seconds: i64,
    object: ObjectNumber,
    pub(super) tree: ObjectNumber,
}

pub(super) fn read_commits(
    repository: &Repository,
    readers: &mut [ObjectReader<'_>],
    table: &ObjectTable,
    tell: Tell<'_>,
) -> ControlFlow<(), Commits> {
    let mut tips = HashSet::new();
    match repository.refs() {
        Ok(refs) => {
            for found in refs {
                match found {
                    Ok(id) => {
                        tips.insert(table.number(&id));
                    }
                    Err(error) => tell(error)?,
                }
            }
        }
        Err(error) => tell(error)?,
    }
    let mut ends = HashSet::new();
    match repository.shallow() {
        Ok(shallow) => ends.extend(shallow.iter().map(|id| table.number(id))),
        Err(error) => tell(error)?,
    }
    let walk = CommitWalk {
        table,
        tell,
        ends,
        stack: WorkStack::new(),
        known: Mutex::default(),
        found: Mutex::default(),
    };
    walk.stack.add([tips.iter().copied().collect()]);
    *walk.known.lock() = tips;
    in_threads(readers, |reader| walk.work(reader));
    if walk.stack.is_stopped() {
        return ControlFlow::Break(());
    }
    let FoundCommits { mut commits, cut } = walk.found.into_inner();
    if cut > 0 {
        let text = format!("it is a shallow clone: the parents of {cut} of its commits are missing");
        tell(io::Error::other(text))?;
    }
    commits.sort_unstable_by(|a, b| {
        a.seconds.cmp(&b.seconds).then_with(|| table.id(a.object).cmp(&table.id(b.object)))
    });
    ControlFlow::Continue(Commits(commits))
}

/// The shared state of the threads.
struct CommitWalk<'w> {
    table: &'w ObjectTable,
    tell: Tell<'w>,
    /// The commits whose parents a shallow clone does not have.
    ends: HashSet<ObjectNumber>,
    /// Objects to be read.
    stack: WorkStack<Vec<ObjectNumber>>,
    /// All objects that were found.
    known: Mutex<HashSet<ObjectNumber>>,
    found: Mutex<FoundCommits>,
}

#[derive(Default)]
struct FoundCommits {
    commits: Vec<Commit>,
    /// How many have parents that a shallow clone does not have.
    cut: u64,
}

enum Found {
    /// A commit, or a tree, and its parents.
    Commit(Commit, Vec<ObjectNumber>),
    Leads(ObjectNumber),
    Nothing,
}

impl CommitWalk<'_> {
    fn work(&self, reader: &mut ObjectReader<'_>) {
        let mut buffer = Vec::new();
        while let Some(mut turn) = self.stack.next() {
            let mut waiting = mem::take(&mut turn.work);
            while !waiting.is_empty() {
                if self.read_some(reader, &mut waiting, &mut buffer).is_break() {
                    self.stack.stop();
                    return;
                }
                let others = waiting.split_off(waiting.len().div_ceil(2));
                if !others.is_empty() {
                    self.stack.add([others]);
                }
            }
        }
    }

    /// Reads some of the objects that wait and adds those to which they lead.
    fn read_some(
        &self,
        reader: &mut ObjectReader<'_>,
        waiting: &mut Vec<ObjectNumber>,
        buffer: &mut Vec<u8>,
    ) -> ControlFlow<()> {
        let mut read = FoundCommits::default();
        while read.commits.len() < TOGETHER
            && let Some(object) = waiting.pop()
        {
            match self.read(reader, object, buffer) {
                Ok(Found::Commit(commit, parents)) => {
                    read.commits.push(commit);
                    if self.ends.contains(&object) && !parents.is_empty() {
                        read.cut += 1;
                    } else {
                        let mut known = self.known.lock();
                        waiting.extend(parents.into_iter().filter(|parent| known.insert(*parent)));
                    }
                }
                Ok(Found::Leads(to)) => waiting.extend(self.known.lock().insert(to).then_some(to)),
                Ok(Found::Nothing) => {}
                Err(error) => (self.tell)(error)?,
            }
        }
        let mut found = self.found.lock();
        found.commits.append(&mut read.commits);
        found.cut += read.cut;
        ControlFlow::Continue(())
    }

    fn read(
        &self,
        reader: &mut ObjectReader<'_>,
        object: ObjectNumber,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Found> {
        let (table, hash) = (self.table, reader.hash());
        Ok(match reader.find(object, buffer)? {
            Kind::Commit => {
                let iter = || CommitRefIter::from_bytes(buffer, hash);
                let tree = iter().tree_id().map_err(|error| unread(&table.id(object), error))?;
                let seconds = iter().committer().map_or(0, |committer| committer.seconds());
                let parents = iter().parent_ids().map(|id| table.number(&id)).collect();
                Found::Commit(Commit { seconds, object, tree: table.number(&tree) }, parents)
            }
            Kind::Tag => {
                let target = TagRefIter::from_bytes(buffer, hash).target_id();
                Found::Leads(table.number(&target.map_err(|error| unread(&table.id(object), error))?))
            }
            Kind::Tree => Found::Commit(Commit { seconds: 0, object, tree: object }, Vec::new()),
            Kind::Blob => Found::Nothing,
        })
    }
}
