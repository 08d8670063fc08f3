//! Every tree of every commit that a ref leads to.
//!
//! A version of a directory (a tree at a path) is read twice and no more, however many commits have it: once on the way
//! from the latest commit to the earliest, which gives each name its last commit, and once on the way back, which gives it
//! its first. The memory needed is about 100 bytes for each commit, each version of a directory and each path that there
//! ever was.

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

/// Reads all there is. The batches have locations, and say what of them is new.
pub(super) fn read(repository: &Repository, tell: Tell<'_>) -> ControlFlow<()> {
    let commits = commits(repository, tell)?;
    let mut history = History { repository, commits, paths: vec![Directory::default()] };
    for at in (0..history.commits.len()).rev() {
        history.visit(at, Way::Back, tell)?;
    }
    for directory in &mut history.paths {
        directory.seen = HashSet::new();
    }
    (0..history.commits.len()).try_for_each(|at| history.visit(at, Way::Forth, tell))
}

/// A commit, or a tree that a ref names by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Commit {
    /// When it was made, in seconds since 1970; 0 if it does not say.
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
        let text = format!("it is a shallow clone: what was before {cut} of its commits is not there");
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

/// A directory in any of its versions.
#[derive(Default)]
struct Directory {
    /// Its versions that were read on this way.
    seen: HashSet<ObjectId>,
    names: HashMap<Box<[u8]>, Name>,
}

/// A name in any version of its directory.
struct Name {
    /// Its number, if it was ever a directory.
    directory: Option<u32>,
    /// The first commit that has it, as its place among all; not known on the way back.
    first: Option<u32>,
    last: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Back,
    Forth,
}

struct History<'r> {
    repository: &'r Repository,
    commits: Vec<Commit>,
    /// The first is the top.
    paths: Vec<Directory>,
}

impl History<'_> {
    /// Reads the versions of directories that the commit at `at` has, and that were not read before.
    fn visit(&mut self, at: usize, way: Way, tell: Tell<'_>) -> ControlFlow<()> {
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
                if way == Way::Back && (depth > MAX_DEPTH || *count == MAX_PLACES + 1) {
                    tell(Err(too_many(&id, depth)))?;
                }
                continue;
            }
            let (found, damage) = match entries(self.repository, &id, &mut buffer) {
                Ok(found) => found,
                // Both ways meet it; one tells.
                Err(_) if way == Way::Forth => continue,
                Err(error) => {
                    tell(Err(error))?;
                    continue;
                }
            };
            if let Some(damage) = damage.filter(|_| way == Way::Back) {
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
                if way == Way::Forth {
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
            if way == Way::Forth {
                batch.version = Some(DirectoryVersion { is_first, again });
                tell(Ok(batch))?;
            }
        }
        ControlFlow::Continue(())
    }
}
