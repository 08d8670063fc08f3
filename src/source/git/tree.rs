//! One tree and all below it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;

use gix::ObjectId;
use gix::objs::{Kind, TreeRefIter, tree::EntryRef};

use super::repository::{Repository, unread};
use super::{batch_at, without};
use crate::source::DirectoryBatch;

/// A directory that is deeper is not read. git itself reads 2048 levels (`core.maxTreeDepth`).
pub(super) const MAX_DEPTH: usize = 4096;

/// One tree may stand at so many places. A few objects can make a repository of more directories than can ever be read,
/// each a directory of the same directory many times over.
pub(super) const MAX_PLACES: u32 = 1 << 16;

/// Whoever is told of each directory, and of what cannot be read.
pub(super) type Tell<'t> = &'t mut dyn FnMut(io::Result<DirectoryBatch>) -> ControlFlow<()>;

/// The entries of a tree, by name, and what is wrong with it.
pub(super) fn entries<'b>(
    repository: &Repository,
    id: &ObjectId,
    buffer: &'b mut Vec<u8>,
) -> io::Result<(Vec<EntryRef<'b>>, Option<io::Error>)> {
    match repository.find(id, buffer)? {
        Kind::Tree => {}
        other => return Err(unread(id, format!("it is a {other}, and stands where a tree should"))),
    }
    let (mut entries, mut damage) = (Vec::new(), None);
    for entry in TreeRefIter::from_bytes(buffer, repository.hash()) {
        match entry {
            Ok(entry) => entries.push(entry),
            Err(error) => damage = Some(unread(id, error)),
        }
    }
    entries.sort_by_key(|entry| entry.filename);
    let count = entries.len();
    // Of two entries of one name the first by its mode is as good as the other.
    entries.dedup_by_key(|entry| entry.filename);
    if entries.len() < count {
        damage = damage.or_else(|| Some(unread(id, "it has two entries of one name")));
    }
    Ok((entries, damage))
}

/// Reads the tree `top` and all below it. What stands at the same place below `base` with the same name is not asked
/// about.
pub(super) fn read(
    repository: &Repository,
    top: ObjectId,
    base: Option<ObjectId>,
    tell: Tell<'_>,
) -> ControlFlow<()> {
    let mut waiting = vec![(Vec::new(), top, base, 0)];
    let mut places = HashMap::<ObjectId, u32>::new();
    let (mut buffer, mut old_buffer) = (Vec::new(), Vec::new());
    while let Some((dir, id, base, depth)) = waiting.pop() {
        let count = places.entry(id).or_default();
        *count += 1;
        if *count > MAX_PLACES || depth > MAX_DEPTH {
            if depth > MAX_DEPTH || *count == MAX_PLACES + 1 {
                tell(Err(too_many(&id, depth)))?;
            }
            continue;
        }
        let (found, damage) = match entries(repository, &id, &mut buffer) {
            Ok(found) => found,
            Err(error) => {
                tell(Err(error))?;
                continue;
            }
        };
        if let Some(damage) = damage {
            tell(Err(damage))?;
        }
        let mut old = HashMap::new();
        if let Some(base) = base {
            match entries(repository, &base, &mut old_buffer) {
                Ok((entries, _)) => {
                    old.extend(entries.iter().map(|entry| (entry.filename, entry)).map(|(name, entry)| {
                        (name.to_vec(), entry.mode.is_tree().then(|| entry.oid.to_owned()))
                    }))
                }
                Err(error) => tell(Err(error))?,
            }
        }
        let mut batch = batch_at(&dir);
        let first = waiting.len();
        for entry in &found {
            batch.push(entry.filename);
            let below = old.get::<[u8]>(entry.filename).copied().flatten();
            if entry.mode.is_tree() && below.is_none_or(|old| old != entry.oid) {
                waiting.push((joined(&dir, entry.filename), entry.oid.to_owned(), below, depth + 1));
            }
        }
        waiting[first..].reverse();
        let batch = if base.is_some() { without(batch, &old.into_keys().collect()) } else { Some(batch) };
        if let Some(batch) = batch {
            tell(Ok(batch))?;
        }
    }
    ControlFlow::Continue(())
}

/// The names in the directory at `path` below `top`; `None` if there is none.
pub(super) fn names_at(
    repository: &Repository,
    top: ObjectId,
    path: &[u8],
) -> io::Result<Option<HashSet<Vec<u8>>>> {
    let (mut id, mut buffer) = (top, Vec::new());
    for part in path.split(|&b| b == b'/').filter(|part| !part.is_empty()) {
        let (entries, _) = entries(repository, &id, &mut buffer)?;
        match entries.iter().find(|entry| entry.filename == part && entry.mode.is_tree()) {
            Some(entry) => id = entry.oid.to_owned(),
            None => return Ok(None),
        }
    }
    let (entries, _) = entries(repository, &id, &mut buffer)?;
    Ok(Some(entries.iter().map(|entry| entry.filename.to_vec()).collect()))
}

/// The path of `name` in `dir`.
pub(super) fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

/// Why a tree is not read at one more place.
pub(super) fn too_many(id: &ObjectId, depth: usize) -> io::Error {
    io::Error::other(if depth > MAX_DEPTH {
        format!("the tree {id} is more than {MAX_DEPTH} directories deep, and what it holds was not checked")
    } else {
        format!("the tree {id} stands at more than {MAX_PLACES} places, and was judged at so many only")
    })
}
