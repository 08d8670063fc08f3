//! One tree and everything below it.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use gix::ObjectId;
use gix::objs::Kind;
use namegate_core::check::EntryKind;
use namegate_findings::split::MAX_NAME;

use super::repository::{Repository, unread};
use super::{batch_at, without};
use crate::source::DirectoryBatch;

/// Deeper directories are not read. git itself reads 2048 levels (`core.maxTreeDepth`).
pub(super) const MAX_DEPTH: usize = 4096;

/// Maximum number of directories that one tree object may be. With a few objects, each a subdirectory of the next many times
/// over, a repository can have more directories than can ever be read.
pub(super) const MAX_PLACES: u32 = 1 << 16;

/// Maximum number of bytes in the paths of all names in directories beyond the first of each tree object. A chain of trees of which each has
/// the next one twice would reach the limit of each tree at every level.
const MAX_REPEATED: usize = 1 << 28;

/// What a directory counts beside the paths of its names.
const DIRECTORY: usize = 512;

/// Counts of how many directories each tree object is.
pub(super) struct Places<K> {
    counts: HashMap<K, u32>,
    /// Bytes of directories beyond the first of each tree.
    repeated: usize,
}

impl<K> Default for Places<K> {
    fn default() -> Self {
        Self { counts: HashMap::new(), repeated: 0 }
    }
}

/// There are too many directories that are this tree, or that are repeated.
#[derive(Debug, PartialEq)]
pub(super) struct TooMany {
    /// It was not reported of this tree before.
    pub(super) is_new: bool,
}

impl TooMany {
    /// The error for the tree `id`; `None` if it was reported before.
    pub(super) fn error(&self, id: &ObjectId) -> Option<io::Error> {
        let text = format!(
            "the tree {id} was not checked in all its places: it is in more than {MAX_PLACES}, or the names in repeated directories have \
             paths of more than {} MiB together",
            MAX_REPEATED >> 20
        );
        self.is_new.then(|| io::Error::other(text))
    }
}

impl<K: Copy + Eq + Hash> Places<K> {
    /// The count of a tree that is refused.
    const REFUSED: u32 = u32::MAX;

    /// Counts another directory that is `tree`. Returns whether there was one before.
    pub(super) fn add(&mut self, tree: K) -> Result<bool, TooMany> {
        let count = self.counts.entry(tree).or_default();
        if *count >= MAX_PLACES {
            return Err(self.refuse(tree));
        }
        let is_repeated = *count > 0;
        *count += 1;
        if is_repeated { self.add_repeated(tree, DIRECTORY).map(|()| true) } else { Ok(false) }
    }

    /// Counts bytes of a directory that is `tree`, and not the first one.
    pub(super) fn add_repeated(&mut self, tree: K, bytes: usize) -> Result<(), TooMany> {
        if self.repeated >= MAX_REPEATED {
            return Err(self.refuse(tree));
        }
        self.repeated = self.repeated.saturating_add(bytes);
        Ok(())
    }

    fn refuse(&mut self, tree: K) -> TooMany {
        TooMany { is_new: self.counts.insert(tree, Self::REFUSED) != Some(Self::REFUSED) }
    }
}

/// The path of a directory. Those beside it share the path of the one above, so that waiting directories take little memory.
#[derive(Debug)]
pub(super) struct TreePath {
    above: Arc<[u8]>,
    name: Box<[u8]>,
}

impl TreePath {
    pub(super) fn new(above: &Arc<[u8]>, name: &[u8]) -> Self {
        Self { above: Arc::clone(above), name: name.into() }
    }

    /// The path of the tree itself.
    pub(super) fn top() -> Self {
        Self::new(&[].into(), &[])
    }

    /// Whether the directory is not too deep to be read.
    pub(super) fn is_taken(&self, depth: usize) -> bool {
        depth <= MAX_DEPTH && self.above.len() + self.name.len() < MAX_NAME
    }

    pub(super) fn joined(&self) -> Arc<[u8]> {
        match self.above.is_empty() {
            true => (&*self.name).into(),
            false => [&self.above, &b"/"[..], &self.name].concat().into(),
        }
    }
}

/// The bytes of the paths of all names in the directory at `dir`.
pub(super) fn path_bytes<'n>(dir: &[u8], names: impl Iterator<Item = &'n [u8]>) -> usize {
    names.map(|name| dir.len() + 1 + name.len()).sum()
}

/// The receiver of each directory and of each error.
pub(super) type Tell<'t> = &'t mut dyn FnMut(io::Result<DirectoryBatch>) -> ControlFlow<()>;

/// An entry of a tree object.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawEntry<'t> {
    pub(super) is_tree: bool,
    /// It becomes a directory when it is checked out.
    is_directory: bool,
    pub(super) name: &'t [u8],
    /// The bytes of the id of its object.
    pub(super) id: &'t [u8],
}

impl RawEntry<'_> {
    /// Compares entries as git sorts them: as if the name of a directory ended with a slash.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let key = |entry: &Self, from: usize| {
            let slash = entry.is_tree.then_some(b'/');
            entry.name.get(from..).unwrap_or_default().first().copied().or(slash)
        };
        let common = self.name.len().min(other.name.len());
        let by_name = self.name[..common].cmp(&other.name[..common]);
        let by_end = || key(self, common).cmp(&key(other, common));
        by_name
            .then_with(by_end)
            .then_with(|| self.name.cmp(other.name))
            .then(self.is_tree.cmp(&other.is_tree))
    }

    pub(super) fn object(&self) -> ObjectId {
        ObjectId::from_bytes_or_panic(self.id)
    }
}

/// The first entry of a tree object, and its length: a mode in octal digits, a space, the name, NUL, the id. `None` if it is
/// malformed, or its name longer than any that is checked.
pub(super) fn first_entry(bytes: &[u8], id_len: usize) -> Option<(RawEntry<'_>, usize)> {
    /// The bits of a mode that tell what the entry is, and their value for a directory.
    const KIND: u32 = 0o170_000;
    const TREE: u32 = 0o040_000;
    const SUBMODULE: u32 = 0o160_000;
    let space = bytes.iter().take(8).position(|&byte| byte == b' ').filter(|&len| len > 0)?;
    let mode = bytes[..space].iter().try_fold(0, |mode, digit| match digit {
        b'0'..=b'7' => Some(mode << 3 | u32::from(digit - b'0')),
        _ => None,
    })?;
    let (start, end) = (space + 1, space + 1 + memchr::memchr(0, &bytes[space + 1..])?);
    if end - start > MAX_NAME {
        return None;
    }
    let id = bytes.get(end + 1..end + 1 + id_len)?;
    let is_tree = mode & KIND == TREE;
    let is_directory = is_tree || mode & KIND == SUBMODULE;
    Some((RawEntry { is_tree, is_directory, name: &bytes[start..end], id }, end + 1 + id_len))
}

/// The entries of a tree object, sorted by name, and its damage, if any.
pub(super) fn sorted_entries<'b>(id: &ObjectId, bytes: &'b [u8]) -> (Vec<RawEntry<'b>>, Option<io::Error>) {
    let (mut entries, mut rest) = (Vec::new(), bytes);
    while let Some((entry, len)) = first_entry(rest, id.as_slice().len()) {
        entries.push(entry);
        rest = &rest[len..];
    }
    let mut damage = None;
    if !rest.is_empty() {
        let at = bytes.len() - rest.len();
        damage = Some(unread(
            id,
            format_args!("the entry at byte {at} is malformed, or its name has more than {MAX_NAME} bytes"),
        ));
    }
    entries.sort_by_key(|entry| entry.name);
    let count = entries.len();
    // If two entries have the same name, either will do.
    entries.dedup_by_key(|entry| entry.name);
    if entries.len() < count {
        damage = damage.or_else(|| Some(unread(id, "it has two entries with the same name")));
    }
    (entries, damage)
}

/// Fails unless an object is a tree.
pub(super) fn expect_tree(id: &ObjectId, kind: Kind) -> io::Result<()> {
    match kind {
        Kind::Tree => Ok(()),
        other => Err(unread(id, format!("it is a {other}, not a tree"))),
    }
}

/// The entries of a tree, sorted by name, and its damage, if any.
fn entries<'b>(
    repository: &Repository,
    id: &ObjectId,
    buffer: &'b mut Vec<u8>,
) -> io::Result<(Vec<RawEntry<'b>>, Option<io::Error>)> {
    expect_tree(id, repository.find(id, buffer)?)?;
    Ok(sorted_entries(id, buffer))
}

/// Reads the tree `top` and everything below it. Names that are at the same place below `base` are not checked.
pub(super) fn read(
    repository: &Repository,
    top: ObjectId,
    base: Option<ObjectId>,
    tell: Tell<'_>,
) -> ControlFlow<()> {
    let waiting = vec![WaitingTree { path: TreePath::top(), id: top, base, depth: 0 }];
    let mut reader = TreeReader {
        repository,
        waiting,
        places: Places::default(),
        buffer: Vec::new(),
        base_buffer: Vec::new(),
    };
    while let Some(tree) = reader.waiting.pop() {
        reader.read(&tree, tell)?;
    }
    ControlFlow::Continue(())
}

/// A directory that waits to be read.
struct WaitingTree {
    path: TreePath,
    id: ObjectId,
    /// The tree at the same place whose names are not checked.
    base: Option<ObjectId>,
    depth: usize,
}

struct TreeReader<'r> {
    repository: &'r Repository,
    waiting: Vec<WaitingTree>,
    places: Places<ObjectId>,
    buffer: Vec<u8>,
    base_buffer: Vec<u8>,
}

impl TreeReader<'_> {
    /// Reads a directory, and adds its subdirectories to those that wait.
    fn read(&mut self, tree: &WaitingTree, tell: Tell<'_>) -> ControlFlow<()> {
        let &WaitingTree { ref path, id, base, depth } = tree;
        if !path.is_taken(depth) {
            return tell(Err(too_deep(&id)));
        }
        let refuse = |refused: TooMany, tell: Tell<'_>| {
            refused.error(&id).map_or(ControlFlow::Continue(()), |error| tell(Err(error)))
        };
        let is_repeated = match self.places.add(id) {
            Ok(is_repeated) => is_repeated,
            Err(refused) => return refuse(refused, tell),
        };
        let dir = path.joined();
        let (found, damage) = match entries(self.repository, &id, &mut self.buffer) {
            Ok(found) => found,
            Err(error) => return tell(Err(error)),
        };
        damage.map_or(ControlFlow::Continue(()), |damage| tell(Err(damage)))?;
        let bytes = || path_bytes(&dir, found.iter().map(|entry| entry.name));
        if is_repeated && let Err(refused) = self.places.add_repeated(id, bytes()) {
            return refuse(refused, tell);
        }
        let mut old = HashMap::new();
        if let Some(base) = base {
            match entries(self.repository, &base, &mut self.base_buffer) {
                Ok((entries, _)) => old.extend(
                    entries.iter().map(|entry| (entry.name.to_vec(), entry.is_tree.then(|| entry.object()))),
                ),
                Err(error) => tell(Err(error))?,
            }
        }
        let mut batch = batch_at(&dir).of_known_kinds();
        let first = self.waiting.len();
        for entry in &found {
            batch.push_entry(entry.name, entry.is_directory.then_some(EntryKind::Directory));
            let base = old.get::<[u8]>(entry.name).copied().flatten();
            if entry.is_tree && base.is_none_or(|base| base != entry.object()) {
                let (path, id) = (TreePath::new(&dir, entry.name), entry.object());
                self.waiting.push(WaitingTree { path, id, base, depth: depth + 1 });
            }
        }
        self.waiting[first..].reverse();
        let batch = if base.is_some() { without(batch, &old.into_keys().collect()) } else { Some(batch) };
        batch.map_or(ControlFlow::Continue(()), |batch| tell(Ok(batch)))
    }
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
        match entries.iter().find(|entry| entry.name == part && entry.is_tree) {
            Some(entry) => id = entry.object(),
            None => return Ok(None),
        }
    }
    let (entries, _) = entries(repository, &id, &mut buffer)?;
    Ok(Some(entries.iter().map(|entry| entry.name.to_vec()).collect()))
}

/// The error for a directory that is too deep.
pub(super) fn too_deep(id: &ObjectId) -> io::Error {
    let text = format!(
        "the tree {id} was not checked in all its places: one is more than {MAX_DEPTH} directories deep, or its path has more than \
         {MAX_NAME} bytes"
    );
    io::Error::other(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_trees_that_each_have_the_next_one_twice_is_read_in_part() {
        let (mut places, mut waiting) = (Places::default(), vec![0]);
        let (mut repeated, mut refused) = (0, HashSet::new());
        while let Some(level) = waiting.pop() {
            match places.add(level) {
                Ok(is_repeated) => {
                    repeated += usize::from(is_repeated);
                    waiting.extend([level + 1; 2].into_iter().filter(|&next| next <= 41));
                }
                Err(TooMany { is_new }) => {
                    assert_eq!(is_new, refused.insert(level), "{level} is reported once")
                }
            }
        }
        assert_eq!(repeated, MAX_REPEATED / DIRECTORY);
        assert!(!refused.is_empty());
    }

    #[test]
    fn long_paths_of_repeated_directories_are_read_less_often() {
        let mut places = Places::default();
        places.add(1).unwrap();
        let read =
            (0..).take_while(|_| places.add(1).is_ok() && places.add_repeated(1, 1 << 20).is_ok()).count();
        assert_eq!(read, MAX_REPEATED >> 20, "one for each MiB: DIRECTORY beside it is too little to count");
    }
}
