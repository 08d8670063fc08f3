//! Every tree of every commit that a ref leads to.
//!
//! A version of a directory (a tree at a path) is read at most twice, however many commits have it: once backward, from the
//! latest commit to the earliest, which gives each name its last commit, and once forward, which gives it its first. This needs
//! about 100 bytes of memory for each commit, each version of a directory and each path that ever existed.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;

use gix::ObjectId;
use gix::objs::{CommitRefIter, Kind, TagRefIter};

use super::batch_at;
use super::repository::{Repository, unread};
use super::tree::{MAX_DEPTH, MAX_PLACES, Tell, entries, joined, too_many};
use crate::source::DirectoryVersion;
use crate::source::location::{self, Location};

/// Reads the whole history. The batches have locations, and say which of their names are new.
pub(super) fn read(repository: &Repository, tell: Tell<'_>) -> ControlFlow<()> {
    let commits = commits(repository, tell)?;
    let mut history = History { repository, commits, paths: vec![Directory::default()] };
    for at in (0..history.commits.len()).rev() {
        history.visit(at, Pass::Backward, tell)?;
    }
    for directory in &mut history.paths {
        directory.seen = HashSet::new();
    }
    (0..history.commits.len()).try_for_each(|at| history.visit(at, Pass::Forward, tell))
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
fn commits(repository: &Repository, tell: Tell<'_>) -> ControlFlow<(), Vec<Commit>> {
    let mut waiting = Vec::new();
    match repository.refs() {
        Ok(refs) => {
            for found in refs {
                match found {
                    Ok(id) => waiting.push(id),
                    Err(error) => tell(Err(error))?,
                }
            }
        }
        Err(error) => tell(Err(error))?,
    }
    let mut ends = HashSet::new();
    match repository.shallow() {
        Ok(shallow) => ends.extend(shallow),
        Err(error) => tell(Err(error))?,
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
            Err(error) => tell(Err(error))?,
        }
    }
    if cut > 0 {
        let text = format!("it is a shallow clone: the parents of {cut} of its commits are missing");
        tell(Err(io::Error::other(text)))?;
    }
    commits.sort_unstable();
    ControlFlow::Continue(commits)
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

/// A directory in all its versions.
#[derive(Default)]
struct Directory {
    /// Its versions that were read in this direction.
    seen: HashSet<ObjectId>,
    names: HashMap<Box<[u8]>, Name>,
}

/// A name in all versions of its directory.
struct Name {
    /// Index of the directory with this name, if it ever was one.
    directory: Option<u32>,
    /// Index of the first commit that has it; unknown while reading backward.
    first: Option<u32>,
    last: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Backward,
    Forward,
}

struct History<'r> {
    repository: &'r Repository,
    commits: Vec<Commit>,
    /// The first is the top directory.
    paths: Vec<Directory>,
}

impl History<'_> {
    /// Reads the versions of directories in the commit at index `at` that were not read before.
    fn visit(&mut self, at: usize, pass: Pass, tell: Tell<'_>) -> ControlFlow<()> {
        let number = u32::try_from(at).expect("more commits than fit into memory");
        let mut waiting = vec![(0_u32, Vec::new(), self.commits[at].tree, 0)];
        let (mut buffer, mut places) = (Vec::new(), HashMap::<ObjectId, u32>::new());
        while let Some((directory, path, id, depth)) = waiting.pop() {
            if !self.paths[directory as usize].seen.insert(id) {
                continue;
            }
            let count = places.entry(id).or_default();
            *count += 1;
            if *count > MAX_PLACES || depth > MAX_DEPTH {
                if pass == Pass::Backward && (depth > MAX_DEPTH || *count == MAX_PLACES + 1) {
                    tell(Err(too_many(&id, depth)))?;
                }
                continue;
            }
            let (found, damage) = match entries(self.repository, &id, &mut buffer) {
                Ok(found) => found,
                // Both directions meet the damage; only one reports it.
                Err(_) if pass == Pass::Forward => continue,
                Err(error) => {
                    tell(Err(error))?;
                    continue;
                }
            };
            if let Some(damage) = damage.filter(|_| pass == Pass::Backward) {
                tell(Err(damage))?;
            }
            let mut batch = batch_at(&path);
            let is_first = self.paths[directory as usize].seen.len() == 1;
            let mut again = 0;
            for entry in &found {
                let next = u32::try_from(self.paths.len()).expect("more directories than fit into memory");
                let names = &mut self.paths[directory as usize].names;
                let filename: &[u8] = entry.filename;
                let name = match names.get_mut(filename) {
                    Some(name) => name,
                    None => names.entry(filename.into()).or_insert(Name {
                        directory: None,
                        first: None,
                        last: number,
                    }),
                };
                let mut is_new_directory = false;
                if entry.mode.is_tree() {
                    is_new_directory = name.directory.is_none();
                    let below = *name.directory.get_or_insert(next);
                    waiting.push((below, joined(&path, entry.filename), entry.oid.to_owned(), depth + 1));
                }
                if pass == Pass::Forward {
                    again += usize::from(name.first.is_some());
                    let first = *name.first.get_or_insert(number);
                    let ids = [first, name.last].map(|at| self.commits[at as usize].id);
                    let [first, last] =
                        ids.map(|id| location::ObjectId::new(id.as_slice()).expect("no hash is longer"));
                    batch.push_located(entry.filename, Location::Commits { first, last });
                }
                if is_new_directory {
                    self.paths.push(Directory::default());
                }
            }
            if pass == Pass::Forward {
                batch.version = Some(DirectoryVersion { is_first, again });
                tell(Ok(batch))?;
            }
        }
        ControlFlow::Continue(())
    }
}
