//! Sources of names.
//!
//! A [`Source`] hands over names, one directory at a time, and checks nothing. For anything that cannot be read it hands over a
//! fault, and continues.

#[cfg(feature = "archive")]
pub mod archive;
pub mod encodings;
#[cfg(feature = "git")]
pub mod git;
pub mod group;
pub mod list;
pub mod mounts;
pub mod repository_signs;
mod roots;
pub mod scope;
pub mod sizes;
pub mod tree;
pub mod walk;
pub(crate) mod work_stack;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use namegate_core::check::{DirectoryNames, EntryKind, Siblings};
use namegate_core::name::arena::Arena;
use namegate_core::name::reading::EncodingGuess;
use namegate_findings::group::Clashes;
use namegate_findings::located_names::LocatedNames;
use namegate_findings::location::{Container, Location, Locations};
use namegate_findings::unmarked::UnmarkedNames;

/// Receives what a source reads; breaks to stop it.
pub type Visit<'v> = &'v (dyn Fn(SourceEvent<'_>) -> ControlFlow<()> + Sync);

/// A source of names.
pub trait Source: Sync {
    /// Hands each directory, and each fault, to `visit`, from any thread and in any order. Stops early if `visit` breaks.
    fn read(&self, visit: Visit<'_>);

    /// The source if it is a tree. Each of its directories comes before those below it.
    fn as_tree(&self) -> Option<&dyn TreeSource> {
        None
    }
}

/// A tree, whose directories can be read once more.
pub trait TreeSource: Source {
    /// Reads the directory `dir` again, of which the first `root_len` bytes are those of the root, and hands over its names.
    ///
    /// # Errors
    /// The directory cannot be opened, or is not in this tree.
    fn read_again(&self, dir: &Path, root_len: usize, tell: &dyn Fn(SourceEvent<'_>)) -> io::Result<()>;

    /// Whether directories come in the order of their paths.
    fn is_ordered(&self) -> bool {
        false
    }
}

/// Several sources, one after the other.
impl Source for Vec<Box<dyn Source>> {
    fn as_tree(&self) -> Option<&dyn TreeSource> {
        match &self[..] {
            [source] => source.as_tree(),
            _ => None,
        }
    }

    fn read(&self, visit: Visit<'_>) {
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

/// An event that a source hands over.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "an event is handled at once and never kept")]
pub enum SourceEvent<'e> {
    /// A directory, as far as it could be read.
    Directory(DirectoryBatch),
    /// A directory with too many names to be held in memory at once.
    Large(&'e mut dyn Parts),
    /// A directory that had different names over time.
    History(&'e mut dyn VersionedDirectory),
    /// Something that could not be read.
    Fault(Fault),
    /// Several items that could not be read for the same reason: the first of them, and their number.
    RepeatedFault(Fault, u64),
    /// Names of an archive that are not marked as UTF-8.
    Unmarked(UnmarkedNames),
    /// An entry that disappeared before it was read. Another process removed it; this is not a fault.
    Vanished,
    /// Everything except this has been handed over, and nothing is in progress. Only from sources that can continue from there.
    Frontier(Frontier),
}

/// A directory whose names are handed over in parts.
pub trait Parts: fmt::Debug {
    /// Reads the directory from its beginning and hands over all its names in parts; can be called again.
    ///
    /// A fault is handed over as a separate event, once.
    fn each(&mut self, take: &mut dyn FnMut(&DirectoryBatch));
}

/// A directory that had different names over time. Names that it never had together do not collide.
pub trait VersionedDirectory: fmt::Debug {
    /// All names that it ever had.
    fn names(&self) -> &DirectoryBatch;

    /// Hands over which of `names` it had together: each set of at least two, once.
    fn each_set_of(&mut self, names: &Arena, take: &mut dyn FnMut(DirectoryBatch));
}

impl dyn Parts + '_ {
    /// Calls `take` with each name of the directory, excluded ones too.
    pub fn each_name(&mut self, take: &mut dyn FnMut(&[u8])) {
        self.each(&mut |part| {
            part.each_name(&mut |_, name| take(name));
            if let SiblingNames::Excluded(names) = &part.siblings {
                names.iter().for_each(|(_, name)| take(name));
            }
        });
    }

    /// All parts as one batch; `None` if the directory can no longer be read at all.
    pub fn whole(&mut self) -> Option<DirectoryBatch> {
        let mut whole: Option<DirectoryBatch> = None;
        let mut excluded = Arena::new();
        self.each(&mut |part| {
            whole.get_or_insert_with(|| part.without_names()).append(part);
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

/// Directories that wait to be read, with everything below them.
pub type Frontier = Vec<PendingDirectories>;

/// Directories below one directory that wait to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingDirectories {
    /// The root of the tree, as given; without `names`, the root itself waits.
    pub root: PathBuf,
    /// Their parent directory, as a path from the root.
    pub dir: PathBuf,
    /// Their names.
    pub names: Vec<OsString>,
}

/// Bytes of names of a large directory that are checked together: what is found out about a name takes many times its length.
const CHECKED_TOGETHER: usize = 1 << 14;

/// The names of one directory.
#[derive(Debug)]
pub struct DirectoryBatch {
    /// The container of the directory; `None` for the file system.
    pub container: Option<Arc<Container>>,
    pub dir: PathBuf,
    /// Number of bytes of `dir` up to the root of the source; the rest is the path that a migration keeps.
    pub root_len: usize,
    /// The names of its entries, except those that contain a NUL.
    pub names: Arena,
    /// The names that contain a NUL: no directory on disk has one.
    pub holding_nul: Vec<Vec<u8>>,
    /// The location of each name, in the order of `names` and then `holding_nul`.
    pub locations: Locations,
    /// The names that are those of a file and of a directory: only lists and archives have any.
    pub clashes: Clashes,
    /// The encodings of names that are not UTF-8, as the whole archive shows them; `None` where they are guessed for each directory.
    pub encodings: Option<Arc<EncodingGuess>>,
    /// Number of names.
    pub count: usize,
    /// Whether a symbolic link is among the names, or may be; set only by [`tree::Tree`].
    pub has_links: bool,
    /// Whether the directory is inside a repository of version control. No names are suggested there.
    pub in_repository: bool,
    /// Whether the directory is the top of a Git work tree; set only by [`tree::Tree`].
    pub has_work_tree: bool,
    /// Other entries of the directory.
    pub siblings: SiblingNames,
}

/// Names in a directory besides those that are checked: the owned form of [`Siblings`]. A suggested name must not be one of
/// these.
#[derive(Debug)]
pub enum SiblingNames {
    /// None: the directory was read, and all its names are checked.
    None,
    /// These are not checked: the names to check were given.
    Compared(Arena),
    /// These are excluded: the directory was read.
    Excluded(Arena),
    /// Unknown, so no name can be suggested.
    Unknown,
}

impl DirectoryBatch {
    /// Creates an empty batch for a directory that is checked as a whole.
    pub fn new(dir: PathBuf, root_len: usize) -> Self {
        Self {
            container: None,
            in_repository: repository_signs::is_metadata(&dir),
            has_work_tree: false,
            dir,
            root_len,
            names: Arena::new(),
            holding_nul: Vec::new(),
            locations: Locations::None,
            clashes: Clashes::new(),
            encodings: None,
            count: 0,
            has_links: false,
            siblings: SiblingNames::None,
        }
    }

    /// An empty batch for the same directory.
    pub(crate) fn without_names(&self) -> Self {
        let (container, encodings) = (self.container.clone(), self.encodings.clone());
        let (names, in_repository) = (self.names.empty_like(), self.in_repository);
        Self { container, names, in_repository, encodings, ..Self::new(self.dir.clone(), self.root_len) }
    }

    /// The directory in the form that the policy checks; `prefix` comes before each path on the target.
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

    /// Reports whether the directory was read: the batch has all its names except excluded ones.
    pub fn is_whole(&self) -> bool {
        matches!(self.siblings, SiblingNames::None | SiblingNames::Excluded(_))
    }

    pub(crate) fn name_bytes(&self) -> usize {
        self.names.len() + self.holding_nul.iter().map(Vec::len).sum::<usize>()
    }

    /// The same directory, for names of which it is known whether they are those of directories.
    #[must_use]
    pub(crate) fn of_known_kinds(self) -> Self {
        Self { names: Arena::of_known_kinds(), ..self }
    }

    /// Adds a name, of which is known what is known of most of them.
    pub fn push(&mut self, name: &[u8]) {
        self.push_entry(name, None);
    }

    /// Adds a name, with the kind of its entry if that is known.
    pub(crate) fn push_entry(&mut self, name: &[u8], kind: Option<EntryKind>) {
        match self.names.push(name) {
            Ok(at) => {
                if let Some(kind) = kind {
                    self.names.mark(at, kind);
                }
            }
            Err(_) => self.holding_nul.push(name.to_vec()),
        }
        self.count += 1;
    }

    /// Adds a name with its location; either all names of a batch have a location or none.
    pub fn push_located(&mut self, name: &[u8], location: Location) {
        self.push_located_entry(name, location, None);
    }

    fn push_located_entry(&mut self, name: &[u8], location: Location, kind: Option<EntryKind>) {
        let before_nul = self.count - self.holding_nul.len();
        self.push_entry(name, kind);
        let is_behind = self.count - self.holding_nul.len() == before_nul;
        self.locations.insert(if is_behind { self.count - 1 } else { before_nul }, location);
    }

    /// Adds the names of another part of the directory, with their locations.
    pub fn append(&mut self, part: &Self) {
        let [before_nul, before_nul_of_part] =
            [&*self, part].map(|batch| batch.count - batch.holding_nul.len());
        self.locations.insert_all(before_nul, &part.locations, 0..before_nul_of_part);
        self.names.append(&part.names);
        self.count += part.count;
        self.locations.insert_all(
            self.count - part.holding_nul.len(),
            &part.locations,
            before_nul_of_part..part.count,
        );
        self.holding_nul.extend_from_slice(&part.holding_nul);
        self.clashes.extend(part.clashes.iter().map(|(name, clash)| (name.clone(), *clash)));
        self.has_links |= part.has_links;
    }

    /// Calls `take` with each name and its index: those that contain a NUL come last.
    pub fn each_name(&self, take: &mut dyn FnMut(usize, &[u8])) {
        let names = self.names.iter().map(|(_, name)| name);
        names
            .chain(self.holding_nul.iter().map(Vec::as_slice))
            .enumerate()
            .for_each(|(at, name)| take(at, name));
    }

    /// The names for which `is_kept` returns `true`, with their locations. Its arguments are the index of a name and the name.
    pub fn filtered(&self, is_kept: &mut dyn FnMut(usize, &[u8]) -> bool) -> Self {
        let mut kept = self.without_names();
        self.each_name(&mut |at, name| {
            if is_kept(at, name) {
                kept.push_from(self, at, name);
            }
        });
        kept
    }

    /// Hands over all names in pieces of about 16 KiB, with their locations.
    pub fn each_piece(&self, take: &mut dyn FnMut(Self)) {
        let (mut piece, mut size) = (self.without_names(), 0);
        self.each_name(&mut |at, name| {
            piece.push_from(self, at, name);
            size += name.len() + 1;
            if size >= CHECKED_TOGETHER {
                take(mem::replace(&mut piece, self.without_names()));
                size = 0;
            }
        });
        if piece.count > 0 {
            take(piece);
        }
    }

    /// Adds the name at index `at` of another batch for the same directory, with its location if it has one.
    pub(crate) fn push_from(&mut self, other: &Self, at: usize, name: &[u8]) {
        let kind = Some(other.names.kind_of(name));
        if let Some(clash) = other.clashes.get(name) {
            self.clashes.insert(name.to_vec(), *clash);
        }
        match other.locations.get(at) {
            Some(location) => self.push_located_entry(name, location, kind),
            None => self.push_entry(name, kind),
        }
    }

    /// The directory with its location, as a scan checks it; `prefix` comes before each path on the target.
    pub fn located<'b>(&'b self, prefix: &'b [u8]) -> LocatedNames<'b> {
        LocatedNames {
            names: self.directory(prefix),
            dir: self.dir.as_os_str().as_bytes(),
            container: self.container.as_ref(),
            locations: &self.locations,
            in_repository: self.in_repository,
            clashes: &self.clashes,
            encodings: self.encodings.as_deref(),
        }
    }
}

/// The inode number of a directory on disk; `None` if it is no longer known.
pub(crate) fn inode_of(dir: &[u8]) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    // The name of a root that is not a directory is in a batch of its own, for the directory that contains it.
    let dir = if dir.is_empty() { Path::new(".") } else { Path::new(OsStr::from_bytes(dir)) };
    std::fs::metadata(dir).ok().map(|meta| meta.ino())
}

/// Something that could not be read.
#[derive(Debug)]
pub struct Fault {
    /// What could not be read.
    pub path: PathBuf,
    /// The attempted action, such as `read the directory`.
    pub attempt: &'static str,
    pub error: io::Error,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = namegate_core::name::display::shown(&self.path);
        write!(f, "cannot {} {path}: {}", self.attempt, self.error)
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Items of a list or members of an archive that cannot be checked, by reason: a report names the first of each reason and
/// counts the others.
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

    /// A fault for each reason, with the number of its items. `noun` is the word for an item.
    fn into_faults(
        self,
        noun: &str,
        fault: impl Fn(io::Error) -> Fault,
    ) -> impl Iterator<Item = (Fault, u64)> {
        self.0.into_iter().map(move |RejectedItem { reason, first, count }| {
            let more = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
            (fault(io::Error::other(format!("{noun} {first}{more}: {reason}"))), count)
        })
    }

    /// Reports each reason once. `noun` is the word for an item.
    fn report(self, noun: &str, fault: impl Fn(io::Error) -> Fault, visit: Visit<'_>) -> ControlFlow<()> {
        let mut faults = self.into_faults(noun, fault);
        faults.try_for_each(|(fault, count)| visit(SourceEvent::RepeatedFault(fault, count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_stays_with_its_name_when_names_with_nul_are_in_between() {
        let mut batch = DirectoryBatch::new(PathBuf::new(), 0);
        for (number, name) in (1..).zip([&b"a"[..], b"b\0c", b"d", b"\0", b"e"]) {
            batch.push_located(name, Location::Item(number));
        }
        let names =
            batch.names.iter().map(|(_, name)| name).chain(batch.holding_nul.iter().map(Vec::as_slice));
        let marked: Vec<_> = names.enumerate().map(|(at, name)| (name, batch.locations.get(at))).collect();
        let expected = [(&b"a"[..], 1), (b"d", 3), (b"e", 5), (b"b\0c", 2), (b"\0", 4)];
        assert_eq!(marked, expected.map(|(name, number)| (name, Some(Location::Item(number)))));
        assert_eq!(batch.count, 5);
    }

    #[test]
    fn parts_put_together_have_the_locations_of_their_names() {
        let parts = [&[&b"a"[..], b"b\0c"][..], &[], &[b"d", b"e", b"\0"], &[b"\0\0"], &[b"f"]];
        let (mut whole, mut expected) = (DirectoryBatch::new(PathBuf::new(), 0), Vec::new());
        for (number, part) in parts.iter().enumerate() {
            let mut batch = whole.without_names();
            for (at, name) in part.iter().enumerate() {
                let location = Location::Member(10 * number as u64 + at as u64);
                batch.push_located(name, location);
                expected.push((name.contains(&0), name.to_vec(), Some(location)));
            }
            whole.append(&batch);
        }
        // Names that contain a NUL come last.
        expected.sort_by_key(|(holds_nul, ..)| *holds_nul);
        let mut found = Vec::new();
        whole.each_name(&mut |at, name| {
            found.push((name.contains(&0), name.to_vec(), whole.locations.get(at)))
        });
        assert_eq!(found, expected);
        let kept = whole.filtered(&mut |at, _| at % 2 == 1);
        let locations: Vec<_> = (0..kept.count).map(|at| kept.locations.get(at)).collect();
        assert_eq!(locations, [expected[1].2, expected[3].2, expected[5].2]);
    }
}
