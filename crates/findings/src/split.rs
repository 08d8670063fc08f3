//! Splits a path into its name, the directory of the name, and the directories above.

use std::collections::HashSet;

use namegate_core::policy::EntryKind;

/// The maximum length of a name or path in bytes. A longer one is an error, such as a list with another separator, and must not
/// fill the memory.
pub const MAX_NAME: usize = 1 << 16;

/// Maximum number of components in a path. Each is a directory with a path of its own, so the work grows with the
/// square of their number.
pub const MAX_PARTS: usize = 1024;

/// Maximum number of bytes of a path, times its components: each component is reported with all of the path before it.
pub const MAX_EXPANDED: usize = 1 << 20;

/// What a path has that [`takes`] refuses.
pub const TOO_DEEP: &str = "more than 1024 components, or bytes times components of more than 1048576";

/// Reports whether a path has few enough components.
pub fn takes(path: &[u8]) -> bool {
    let most = MAX_PARTS.min(MAX_EXPANDED / path.len().max(1));
    memchr::memchr_iter(b'/', path).nth(most).is_none()
}

/// How an item is split into names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A path as the system reads it: `a//b` and `./a/b` are `a/b`, and `..` is not a name.
    Path,
    /// As [`Shape::Path`], of a file: only a path with a `/` at its end is that of a directory.
    File,
    /// A path of which every component counts, such as the key of an object or the name of an archive member: `.`, `..`
    /// and the empty component count too. One `/` at the end marks a directory.
    Key,
    /// One name: a `/` is part of it.
    Name,
}

impl Shape {
    /// The components of an item, joined by `/`: the item itself, without the `/` that marks a key as a directory.
    pub fn components(self, item: &[u8]) -> impl Iterator<Item = &[u8]> {
        let whole = match self {
            Self::Key => item.strip_suffix(b"/").unwrap_or(item),
            Self::Path | Self::File | Self::Name => item,
        };
        whole.split(move |&byte| byte == b'/' && self != Self::Name)
    }

    /// Whether a component is a name.
    pub fn is_name(self, component: &[u8]) -> bool {
        !matches!(self, Self::Path | Self::File) || !matches!(component, b"" | b"." | b"..")
    }

    /// The components of an item, each with the kind of its entry: what something is below is a directory.
    pub fn entries(self, item: &[u8]) -> Vec<(&[u8], EntryKind)> {
        let mut entries: Vec<_> = self.components(item).map(|part| (part, EntryKind::Directory)).collect();
        if let Some((_, kind)) = entries.iter_mut().rev().find(|(part, _)| self.is_name(part)) {
            *kind = self.kind_of(item);
        }
        entries
    }

    /// The kind of the entry at the end of an item.
    pub fn kind_of(self, item: &[u8]) -> EntryKind {
        let is_marked = item.ends_with(b"/") || self != Self::Key && item.ends_with(b"/.");
        match self {
            Self::Name => EntryKind::Unknown,
            _ if is_marked => EntryKind::Directory,
            Self::Path => EntryKind::Unknown,
            Self::File | Self::Key => EntryKind::File,
        }
    }
}

/// Receives the names of paths, each with its directory.
pub trait PairSink {
    /// Why a name cannot be received.
    type Error;

    /// Whether a name of this directory was received: then its own name was received too, and those of the directories above.
    /// `false` if unknown: names are then received again.
    fn knows(&self, dir: &[u8]) -> bool;

    /// Receives a name, and what the path says of its entry: it is a directory if something is below it or a `/` follows it.
    ///
    /// # Errors
    /// It cannot be received; the other names of the path are not received.
    fn put(&mut self, dir: &[u8], name: &[u8], kind: EntryKind) -> Result<(), Self::Error>;
}

/// Splits paths of one shape.
#[derive(Clone, Debug)]
pub struct PathSplitter {
    shape: Shape,
    path: Vec<u8>,
}

impl PathSplitter {
    /// Creates a splitter.
    pub fn new(shape: Shape) -> Self {
        Self { shape, path: Vec::new() }
    }

    /// How paths are split.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Hands `sink` the name of `path` and those of all directories above that it does not know.
    ///
    /// # Errors
    /// As of [`PairSink::put`].
    pub fn split<S: PairSink>(&mut self, path: &[u8], sink: &mut S) -> Result<(), S::Error> {
        let whole = match self.shape {
            Shape::Name => return sink.put(b"", path, EntryKind::Unknown),
            Shape::Key => path.strip_suffix(b"/").unwrap_or(path),
            Shape::Path | Shape::File => {
                self.path.clear();
                if path.starts_with(b"/") {
                    self.path.push(b'/');
                }
                for part in path.split(|&b| b == b'/').filter(|part| !matches!(*part, b"" | b".")) {
                    if !matches!(self.path.last(), None | Some(b'/')) {
                        self.path.push(b'/');
                    }
                    self.path.extend_from_slice(part);
                }
                if matches!(&self.path[..], b"" | b"/") {
                    return Ok(());
                }
                &self.path
            }
        };
        let mut kind = self.shape.kind_of(path);
        let (mut dir, mut name) = split_last(whole);
        loop {
            // A known directory was named by the path that added it.
            let is_known = sink.knows(dir);
            if self.shape.is_name(name) {
                sink.put(dir, name, kind)?;
            }
            kind = EntryKind::Directory;
            if is_known || dir.is_empty() {
                return Ok(());
            }
            // The directory is a `/` at the beginning of the path: it has no name.
            (dir, name) = split_last(dir.strip_suffix(b"/").unwrap_or(dir));
        }
    }
}

/// Splits a path into its directory and its last name. The directory of `/a` is `/`, and that of `a//b` is `a//`: without the
/// last separator they would be other directories.
fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    let Some(at) = memchr::memrchr(b'/', path) else { return (b"", path) };
    let dir = if at == 0 || path[at - 1] == b'/' { &path[..=at] } else { &path[..at] };
    (dir, &path[at + 1..])
}

/// Bytes of known directories that are kept. Beyond this limit all are forgotten, and their names come again.
const KNOWN_BYTES: usize = 64 << 20;

/// Directories of which a name was handed over, in bounded memory.
#[derive(Debug, Default)]
pub struct KnownDirectories {
    dirs: HashSet<Box<[u8]>>,
    size: usize,
    /// The directory of the last name: most inventories are sorted.
    last: Option<Vec<u8>>,
}

impl KnownDirectories {
    /// Reports whether a name of this directory was handed over and is not forgotten.
    pub fn contains(&self, dir: &[u8]) -> bool {
        self.last.as_deref() == Some(dir) || self.dirs.contains(dir)
    }

    /// Adds a directory.
    pub fn insert(&mut self, dir: &[u8]) {
        if self.last.as_deref() == Some(dir) {
            return;
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(dir);
        if !self.dirs.contains(dir) {
            // A hash table has up to twice the entries that it needs.
            self.size += dir.len() + 4 * size_of::<Box<[u8]>>();
            if self.size > KNOWN_BYTES {
                self.dirs.clear();
                self.size = dir.len();
            }
            self.dirs.insert(dir.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_forgotten_before_they_fill_the_memory() {
        let mut known = KnownDirectories::default();
        let dir = |at: u32| format!("{at:01000}").into_bytes();
        known.insert(b"first");
        assert!(known.contains(b"first") && !known.contains(b""));
        (0..KNOWN_BYTES as u32 / 1000).for_each(|at| known.insert(&dir(at)));
        assert!(!known.contains(b"first") && known.size <= KNOWN_BYTES);
        assert!(known.contains(&dir(KNOWN_BYTES as u32 / 1000 - 1)));
    }
}
