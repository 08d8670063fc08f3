//! Where names come from.
//!
//! A [`Source`] hands over names, a directory at a time; it judges nothing. What cannot be read takes the place of what
//! it would have held and the reading goes on.

#[cfg(feature = "archive")]
pub mod archive;
#[cfg(feature = "git")]
pub mod git;
pub mod group;
pub mod list;
pub mod location;
pub mod mounts;
mod roots;
pub mod scope;
pub mod tree;
pub mod walk;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::check::{DirectoryNames, Siblings};
use crate::name::arena::Arena;
use crate::source::location::{Container, Location};

/// Something that holds names.
pub trait Source: Sync {
    /// Hands each directory, and each thing that could not be read, to `visit`, from any thread and in any order. Ends
    /// early if `visit` breaks.
    fn read(&self, visit: &(dyn Fn(SourceEvent<'_>) -> ControlFlow<()> + Sync));
}

/// Several sources, one after the other.
impl Source for Vec<Box<dyn Source>> {
    fn read(&self, visit: &(dyn Fn(SourceEvent<'_>) -> ControlFlow<()> + Sync)) {
        let is_ended = AtomicBool::new(false);
        for source in self {
            source.read(&|event| {
                let answer = visit(event);
                is_ended.fetch_or(answer.is_break(), Relaxed);
                answer
            });
            if is_ended.load(Relaxed) {
                return;
            }
        }
    }
}

/// What a source meets.
#[derive(Debug)]
pub enum SourceEvent<'e> {
    /// A directory, read as far as it could be.
    Directory(DirectoryBatch),
    /// A directory with more names than should be held at a time.
    Large(&'e mut dyn Parts),
    /// Something that could not be read.
    Fault(Fault),
    /// Items that could not be read for one reason: the first of them, and how many there are.
    RepeatedFault(Fault, u64),
    /// Something that was gone when its turn came: another process removed it, which is no fault.
    Vanished,
    /// Everything but this has been handed over, and nothing is under way. Told by sources that can go on from there.
    Frontier(Frontier),
}

/// A directory whose names come in parts.
pub trait Parts: fmt::Debug {
    /// Reads the directory from its beginning and hands over all its names, some at a time; may be called again.
    ///
    /// What cannot be read is told as an event of its own, once.
    fn each(&mut self, take: &mut dyn FnMut(&DirectoryBatch));
}

impl dyn Parts + '_ {
    /// All parts in one; `None` if nothing of the directory can be read any more.
    pub fn whole(&mut self) -> Option<DirectoryBatch> {
        let mut whole: Option<DirectoryBatch> = None;
        let mut excluded = Arena::new();
        self.each(&mut |part| {
            let whole = whole.get_or_insert_with(|| DirectoryBatch::new(part.dir.clone(), part.root_len));
            whole.count += part.count;
            whole.names.append(&part.names);
            whole.has_links |= part.has_links;
            if let SiblingNames::Excluded(names) = &part.siblings {
                excluded.append(names);
            }
        });
        if let Some(whole) = whole.as_mut().filter(|_| !excluded.is_empty()) {
            whole.siblings = SiblingNames::Excluded(excluded);
        }
        whole
    }
}

/// Directories that wait to be read, with all that is below them.
pub type Frontier = Vec<PendingDirectories>;

/// Directories in one directory that wait to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDirectories {
    /// The root of the tree, as it was given; with no `names` it waits itself.
    pub root: PathBuf,
    /// The directory that they are in, as a path from the root.
    pub dir: PathBuf,
    /// Their names.
    pub names: Vec<OsString>,
}

/// The names of one directory.
#[derive(Debug)]
pub struct DirectoryBatch {
    /// What the directory is part of; `None` for the file system.
    pub container: Option<Arc<Container>>,
    /// The directory.
    pub dir: PathBuf,
    /// How many bytes of `dir` lead to the root of what is read; what follows is the path that a migration keeps.
    pub root_len: usize,
    /// Its entries' names, but for those that hold a NUL.
    pub names: Arena,
    /// The names that hold a NUL: no directory on disk has any.
    pub holding_nul: Vec<Vec<u8>>,
    /// Where each name is found, those that hold a NUL last; empty if there is nothing to say of that.
    pub locations: Vec<Location>,
    /// How many names there are.
    pub count: usize,
    /// Whether a symbolic link is among the names, or may be; told by [`tree::Tree`] alone.
    pub has_links: bool,
    /// What else the directory holds.
    pub siblings: SiblingNames,
    /// Which version of the directory this is; `None` if it has only one.
    pub version: Option<DirectoryVersion>,
}

/// One of several versions of a directory, handed over one after the other. What was said of a name in one is not said
/// again in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryVersion {
    /// Whether it is the first.
    pub is_first: bool,
    /// How many of its names earlier versions have.
    pub again: usize,
}

/// What a directory holds beside the names that are to be checked: as [`Siblings`] says, which borrows it. A suggested name
/// must not be one of these.
#[derive(Debug)]
pub enum SiblingNames {
    /// Nothing: the directory was read, and all of it is to be judged.
    None,
    /// These, of which nobody asked: the names that are to be judged were given.
    Compared(Arena),
    /// These, which are left out: the directory was read.
    Excluded(Arena),
    /// That cannot be told, so that nothing can be proposed.
    Unknown,
}

impl DirectoryBatch {
    /// An empty batch of a directory that is judged as a whole.
    pub fn new(dir: PathBuf, root_len: usize) -> Self {
        Self {
            container: None,
            dir,
            root_len,
            names: Arena::new(),
            holding_nul: Vec::new(),
            locations: Vec::new(),
            count: 0,
            has_links: false,
            siblings: SiblingNames::None,
            version: None,
        }
    }

    /// The directory as the policy checks it; `prefix` stands before each path on the target.
    pub fn directory<'b>(&'b self, prefix: &'b [u8]) -> DirectoryNames<'b> {
        let siblings = match &self.siblings {
            SiblingNames::None => Siblings::None,
            SiblingNames::Compared(names) => Siblings::Compared(names),
            SiblingNames::Excluded(names) => Siblings::Excluded(names),
            SiblingNames::Unknown => Siblings::Unknown,
        };
        let path = self.dir.as_os_str().as_bytes().get(self.root_len..).unwrap_or_default();
        DirectoryNames { names: &self.names, holding_nul: &self.holding_nul, siblings, prefix, path }
    }

    /// Whether the directory was read: these are all its names but for those that are left out.
    pub fn is_whole(&self) -> bool {
        matches!(self.siblings, SiblingNames::None | SiblingNames::Excluded(_))
    }

    /// Adds a name.
    pub fn push(&mut self, name: &[u8]) {
        if self.names.push(name).is_err() {
            self.holding_nul.push(name.to_vec());
        }
        self.count += 1;
    }

    /// Adds a name that is found at `location`; either all names of a batch have a mark or none.
    pub fn push_located(&mut self, name: &[u8], location: Location) {
        let before_nul = self.count - self.holding_nul.len();
        self.push(name);
        let is_behind = self.count - self.holding_nul.len() == before_nul;
        self.locations.insert(if is_behind { self.locations.len() } else { before_nul }, location);
    }

    /// The inode number of the directory; `None` if it has none, or it cannot be told any more.
    pub fn inode(&self) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        if self.container.is_some() {
            return None;
        }
        // A root that is not a directory has its name in a batch of its own, below the directory that holds it.
        let dir = if self.dir.as_os_str().is_empty() { Path::new(".") } else { &self.dir };
        std::fs::metadata(dir).ok().map(|meta| meta.ino())
    }
}

/// Something that could not be read.
#[derive(Debug)]
pub struct Fault {
    /// What was to be read.
    pub path: PathBuf,
    /// What was attempted, as in `read the directory`.
    pub attempt: &'static str,
    /// Why it failed.
    pub error: io::Error,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = crate::name::display::shown(&self.path);
        write!(f, "cannot {} {path}: {}", self.attempt, self.error)
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Items of a list or members of an archive that cannot be checked, by reason: a report names the first of each reason and counts
/// the others.
#[derive(Debug, Default)]
struct RejectedItems(Vec<RejectedItem>);

#[derive(Debug)]
struct RejectedItem {
    reason: String,
    first: u64,
    count: u64,
}

impl RejectedItems {
    /// Adds the item with this number.
    fn add(&mut self, number: u64, reason: String) {
        match self.0.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.count += 1,
            None => self.0.push(RejectedItem { reason, first: number, count: 1 }),
        }
    }

    /// Reports each reason once. `noun` says what an item is.
    fn report(
        self,
        noun: &str,
        fault: impl Fn(io::Error) -> Fault,
        visit: &(dyn Fn(SourceEvent<'_>) -> ControlFlow<()> + Sync),
    ) -> ControlFlow<()> {
        for RejectedItem { reason, first, count } in self.0 {
            let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            let error = io::Error::other(format!("{noun} {first}{more}: {reason}"));
            visit(SourceEvent::RepeatedFault(fault(error), count))?;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_stays_with_its_name_when_names_that_hold_nul_stand_between() {
        let mut batch = DirectoryBatch::new(PathBuf::new(), 0);
        for (number, name) in (1..).zip([&b"a"[..], b"b\0c", b"d", b"\0", b"e"]) {
            batch.push_located(name, Location::Item(number));
        }
        let names =
            batch.names.iter().map(|(_, name)| name).chain(batch.holding_nul.iter().map(Vec::as_slice));
        let marked: Vec<_> = names.zip(batch.locations.iter().copied()).collect();
        let expected = [(&b"a"[..], 1), (b"d", 3), (b"e", 5), (b"b\0c", 2), (b"\0", 4)];
        assert_eq!(marked, expected.map(|(name, number)| (name, Location::Item(number))));
        assert_eq!(batch.count, 5);
    }
}
