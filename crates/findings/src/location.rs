//! Locations of names: a directory of a file system, of a git tree, of an archive or of a list, and the position of each name
//! in its container.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A directory, shared by the names in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryPath {
    /// The container of the directory; `None` for the file system.
    pub container: Option<Arc<Container>>,
    /// The directory: on disk a path as seen from the working directory, otherwise relative to the top of the container.
    pub dir: Vec<u8>,
    /// Its inode number, if it has one.
    pub inode: Option<u64>,
}

/// A container of names other than a file system. Files are paths as seen from the working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Container {
    /// A list of names or paths; `-` for standard input.
    List {
        /// The list.
        file: Vec<u8>,
    },
    /// A git repository.
    Git {
        /// The repository.
        repository: Vec<u8>,
        /// The trees: a revision as given, `index`, or `all` for every commit of every ref.
        revision: Vec<u8>,
    },
    /// An archive.
    Archive {
        /// The archive.
        file: Vec<u8>,
        /// Its format.
        kind: ArchiveKind,
    },
}

/// The kinds of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveKind {
    /// Tar, compressed or not.
    Tar,
    /// Zip.
    Zip,
}

/// The position of a name in its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// The number of the item in a list, from 1; in a list separated by line feeds this is the line number.
    Item(u64),
    /// The number of the member of an archive, from 1.
    Member(u64),
    /// The commits with the earliest and the latest date that have the name.
    Commits {
        /// The earliest.
        first: ObjectId,
        /// The latest.
        last: ObjectId,
    },
}

/// The locations of the names of a directory, by the index of the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Locations {
    /// The names have no locations.
    #[default]
    None,
    /// Numbers of items of a list.
    Items(Vec<u64>),
    /// Numbers of members of an archive.
    Members(Vec<u64>),
    /// One location for each name.
    Each(Vec<Location>),
}

impl Locations {
    /// The location of the name at index `at`, if it has one.
    pub fn get(&self, at: usize) -> Option<Location> {
        match self {
            Self::None => None,
            Self::Items(numbers) => numbers.get(at).copied().map(Location::Item),
            Self::Members(numbers) => numbers.get(at).copied().map(Location::Member),
            Self::Each(locations) => locations.get(at).copied(),
        }
    }

    /// Inserts the location of the name at index `at`. The names of a directory have the same kind of location.
    ///
    /// # Panics
    /// If a name before has no location, or one of another kind.
    pub fn insert(&mut self, at: usize, location: Location) {
        if matches!(self, Self::None) {
            *self = match location {
                Location::Item(_) => Self::Items(Vec::new()),
                Location::Member(_) => Self::Members(Vec::new()),
                Location::Commits { .. } => Self::Each(Vec::new()),
            };
        }
        match (self, location) {
            (Self::Items(numbers), Location::Item(number))
            | (Self::Members(numbers), Location::Member(number)) => numbers.insert(at, number),
            (Self::Each(locations), location) => locations.insert(at, location),
            (locations, location) => panic!("{location:?} among {locations:?}"),
        }
    }
}

impl Locations {
    /// Inserts the locations `range` of `others` at index `at`.
    ///
    /// # Panics
    /// If a name before has no location, or one of another kind.
    pub fn insert_all(&mut self, at: usize, others: &Self, range: Range<usize>) {
        match (&mut *self, others) {
            (_, Self::None) => {}
            (Self::None, Self::Items(numbers)) => *self = Self::Items(numbers[range].to_vec()),
            (Self::None, Self::Members(numbers)) => *self = Self::Members(numbers[range].to_vec()),
            (Self::None, Self::Each(locations)) => *self = Self::Each(locations[range].to_vec()),
            (Self::Items(all), Self::Items(numbers)) | (Self::Members(all), Self::Members(numbers)) => {
                drop(all.splice(at..at, numbers[range].iter().copied()));
            }
            (Self::Each(all), Self::Each(locations)) => {
                drop(all.splice(at..at, locations[range].iter().copied()));
            }
            (all, others) => panic!("{others:?} among {all:?}"),
        }
    }
}

/// The id of a git object: 20 bytes (SHA-1) or 32 (SHA-256). Shown in hex.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    bytes: [u8; 32],
    len: u8,
}

impl ObjectId {
    /// Creates an id; `None` for more than 32 bytes.
    pub fn new(id: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(Self { bytes, len: u8::try_from(id.len()).ok()? })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A precision truncates, as for text.
        let digits = 2 * usize::from(self.len);
        (0..f.precision().map_or(digits, |most| most.min(digits))).try_for_each(|at| {
            let byte = self.bytes[at / 2];
            write!(f, "{:x}", if at % 2 == 0 { byte >> 4 } else { byte & 0xF })
        })
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl DirectoryPath {
    /// Reports whether both are the same directory of the same container.
    pub fn is_same(&self, other: &Self) -> bool {
        self.dir == other.dir && self.container == other.container
    }

    /// The path of `name` in this directory.
    pub fn join(&self, name: &[u8]) -> Vec<u8> {
        let mut path = self.dir.clone();
        if !path.is_empty() && path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    /// The heading for people: the path of a directory, `archive.zip: dir`, `repo HEAD: dir`. The bytes are not
    /// escaped.
    pub fn heading(&self) -> Vec<u8> {
        let dir = if self.dir.is_empty() { &b"."[..] } else { &self.dir };
        let mut heading = match self.container.as_deref() {
            None => return dir.to_vec(),
            Some(Container::List { file } | Container::Archive { file, .. }) => file.clone(),
            Some(Container::Git { repository, revision }) => [&repository[..], b" ", revision].concat(),
        };
        heading.extend_from_slice(b": ");
        heading.extend_from_slice(dir);
        heading
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item(number) => write!(f, "item {number}"),
            Self::Member(number) => write!(f, "member {number}"),
            Self::Commits { first, last } if first == last => write!(f, "in commit {first:.12}"),
            Self::Commits { first, last } => write!(f, "in commits {first:.12} to {last:.12}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_is_written_as_people_write_it() {
        let container = Container::Git { repository: b"repo.git".to_vec(), revision: b"HEAD".to_vec() };
        let mut place =
            DirectoryPath { container: Some(Arc::new(container)), dir: b"src".to_vec(), inode: None };
        assert_eq!(place.heading(), b"repo.git HEAD: src");
        place.container =
            Some(Arc::new(Container::Archive { file: b"a.zip".to_vec(), kind: ArchiveKind::Zip }));
        place.dir.clear();
        assert_eq!(place.heading(), b"a.zip: .");
        place.container = None;
        assert_eq!(place.heading(), b".");
    }

    #[test]
    fn ids_of_both_lengths_are_kept_and_shown_in_hex() {
        let (sha1, sha256) = (ObjectId::new(&[0xAB; 20]).unwrap(), ObjectId::new(&[1; 32]).unwrap());
        assert_eq!((sha1.to_string(), sha256.to_string()), ("ab".repeat(20), "01".repeat(32)));
        assert_eq!(ObjectId::new(&[0; 33]), None);
        let location = Location::Commits { first: sha1, last: sha256 };
        assert_eq!(location.to_string(), "in commits abababababab to 010101010101");
    }
}
