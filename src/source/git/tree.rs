//! One tree and everything below it.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;

use gix::ObjectId;
use gix::objs::{Kind, TreeRefIter, tree::EntryRef};

use super::repository::{Repository, unread};
use super::{batch_at, without};
use crate::source::DirectoryBatch;

/// Deeper directories are not read. git itself reads 2048 levels (`core.maxTreeDepth`).
pub(super) const MAX_DEPTH: usize = 4096;

/// Maximum number of directories that one tree object may be. With a few objects, each a subdirectory of the next many times
/// over, a repository can have more directories than can ever be read.
pub(super) const MAX_PLACES: u32 = 1 << 16;

/// The receiver of each directory and of each error.
pub(super) type Tell<'t> = &'t mut dyn FnMut(io::Result<DirectoryBatch>) -> ControlFlow<()>;

/// The entries of a tree, sorted by name, and its damage, if any.
pub(super) fn entries<'b>(
    repository: &Repository,
    id: &ObjectId,
    buffer: &'b mut Vec<u8>,
) -> io::Result<(Vec<EntryRef<'b>>, Option<io::Error>)> {
    match repository.find(id, buffer)? {
        Kind::Tree => {}
        other => return Err(unread(id, format!("it is a {other}, not a tree"))),
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
    // If two entries have the same name, either will do.
    entries.dedup_by_key(|entry| entry.filename);
    if entries.len() < count {
        damage = damage.or_else(|| Some(unread(id, "it has two entries with the same name")));
    }
    Ok((entries, damage))
}

/// Reads the tree `top` and everything below it. Names that are at the same place below `base` are not checked.
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

/// The names in the directory at `path` below `top`; `None` if there is no such directory.
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

/// Joins the path `dir` and `name`.
pub(super) fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

/// The error for a tree that exceeds a limit.
pub(super) fn too_many(id: &ObjectId, depth: usize) -> io::Error {
    io::Error::other(if depth > MAX_DEPTH {
        format!("the tree {id} is more than {MAX_DEPTH} directories deep, and its entries were not checked")
    } else {
        format!("the tree {id} is in more than {MAX_PLACES} places, and was checked only in so many")
    })
}
