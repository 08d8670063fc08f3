//! Reads one directory: its names into a batch, and its subdirectories into a list.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use namegate_core::check::EntryKind;
use namegate_core::name::arena::Arena;
use namegate_sys::directory::{self, RawDirEntry};
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstatat};
use nix::unistd::{Whence, lseek};

use super::node::push_name;
use crate::source::repository_signs::RepositorySigns;
use crate::source::scope::Exclude;
use crate::source::{DirectoryBatch, Fault, Parts, SiblingNames, SourceEvent};

/// Bytes of names of one directory that are held at a time; a larger directory is handed over in parts.
const MOST_HELD: usize = 1 << 18;

/// Buffer for one call: some 2,000 entries of ordinary length.
pub(super) const BUFFER: usize = 64 * 1024;

/// A directory that is being read.
pub(super) struct DirectoryReader<'r> {
    dir: BorrowedFd<'r>,
    buffer: &'r mut [u8],
    exclude: &'r Exclude,
    tell: &'r dyn Fn(SourceEvent<'_>),
    batch: DirectoryBatch,
    excluded: Arena,
    /// The path relative to the root, and space to append a name.
    below_root: Vec<u8>,
    dir_len: usize,
    descends: bool,
    signs: RepositorySigns,
    /// The subdirectories to read, each followed by a NUL.
    below: Vec<u8>,
    has_ended: bool,
    is_again: bool,
}

impl fmt::Debug for DirectoryReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("dir", &self.batch.dir).finish_non_exhaustive()
    }
}

/// A request to read a directory.
#[derive(Clone, Copy)]
pub(super) struct ReadRequest<'o> {
    pub(super) path: &'o [u8],
    /// Number of bytes of the path up to the root.
    pub(super) prefix_len: usize,
    /// Excluded entries.
    pub(super) exclude: &'o Exclude,
    /// Whether its subdirectories are read too.
    pub(super) descends: bool,
    /// Whether it is inside a repository.
    pub(super) in_repository: bool,
}

/// Reads the directory `dir`, hands over its names, and returns its subdirectories, each followed by a NUL, and whether they are inside a
/// repository.
pub(super) fn read(
    dir: BorrowedFd<'_>,
    order: ReadRequest<'_>,
    buffer: &mut [u8],
    tell: &dyn Fn(SourceEvent<'_>),
) -> (Vec<u8>, bool) {
    let ReadRequest { path, prefix_len, exclude, descends, in_repository } = order;
    let below_root = match exclude.is_empty() {
        true => Vec::new(),
        false => path.get(prefix_len..).unwrap_or_default().to_vec(),
    };
    let mut reading = DirectoryReader {
        dir,
        buffer,
        exclude,
        tell,
        batch: DirectoryBatch::new(PathBuf::from(OsString::from_vec(path.to_vec())), prefix_len)
            .of_known_kinds(),
        excluded: Arena::new(),
        dir_len: below_root.len(),
        below_root,
        descends,
        signs: RepositorySigns::default(),
        below: Vec::new(),
        has_ended: false,
        is_again: false,
    };
    reading.batch.in_repository |= in_repository;
    match reading.fill() {
        Filled::Nothing => {}
        Filled::All => {
            reading.close_part();
            let in_repository = reading.batch.in_repository;
            tell(SourceEvent::Directory(reading.batch));
            return (reading.below, in_repository);
        }
        Filled::Part => tell(SourceEvent::Large(&mut reading)),
    }
    (reading.below, reading.batch.in_repository)
}

/// Progress of reading a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filled {
    /// Nothing could be read.
    Nothing,
    /// The directory is at its end.
    All,
    /// There may be more.
    Part,
}

impl DirectoryReader<'_> {
    /// Reads entries until the directory ends or enough names are held.
    fn fill(&mut self) -> Filled {
        while self.batch.names.len() + self.excluded.len() < MOST_HELD {
            let filled = match directory::read(self.dir, self.buffer) {
                Ok(0) => return Filled::All,
                Ok(filled) => filled,
                Err(Errno::EINTR) => continue,
                Err(error) => {
                    if !self.is_again {
                        (self.tell)(match error {
                            // The directory itself was removed.
                            Errno::ENOENT => SourceEvent::Vanished,
                            _ => self.fault(self.batch.dir.clone(), "read the directory", error),
                        });
                    }
                    return if self.batch.count == 0 { Filled::Nothing } else { Filled::All };
                }
            };
            let mut at = 0;
            // At least half of the buffer is not names.
            self.batch.names.reserve(filled / 2);
            // The entry borrows the buffer, so take the buffer out of `self` meanwhile.
            let buffer = std::mem::take(&mut self.buffer);
            while let Some((entry, len)) = directory::first(&buffer[at..filled]) {
                self.add(entry);
                at += len;
            }
            self.buffer = buffer;
        }
        Filled::Part
    }

    fn add(&mut self, entry: RawDirEntry<'_>) {
        let name = entry.name;
        if matches!(name.as_bytes(), b"." | b"..") {
            return;
        }
        self.signs.add(name.as_bytes());
        let is_dir = (self.descends || !self.exclude.is_empty()) && self.is_dir(entry);
        if !self.exclude.is_empty() && self.is_excluded(name, is_dir) {
            self.excluded.push_c_str(entry.c_name);
            return;
        }
        let at = self.batch.names.push_c_str(entry.c_name);
        if is_dir || entry.kind == libc::DT_DIR {
            self.batch.names.mark(at, EntryKind::Directory);
        }
        self.batch.count += 1;
        self.batch.has_links |= matches!(entry.kind, libc::DT_LNK | libc::DT_UNKNOWN);
        if is_dir && self.descends && !self.is_again {
            self.below.extend_from_slice(entry.c_name.to_bytes_with_nul());
        }
    }

    fn is_dir(&self, entry: RawDirEntry<'_>) -> bool {
        match entry.kind {
            libc::DT_DIR => true,
            libc::DT_UNKNOWN => match fstatat(self.dir, entry.name, AtFlags::AT_SYMLINK_NOFOLLOW) {
                Ok(stat) => SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR,
                Err(Errno::ENOENT) => false,
                Err(error) => {
                    if !self.is_again {
                        let path = self.batch.dir.join(entry.name);
                        (self.tell)(self.fault(path, "determine the type of", error));
                    }
                    false
                }
            },
            _ => false,
        }
    }

    fn is_excluded(&mut self, name: &OsStr, is_dir: bool) -> bool {
        self.below_root.truncate(self.dir_len);
        push_name(&mut self.below_root, name.as_bytes());
        self.exclude.matches(Path::new(OsStr::from_bytes(&self.below_root)), is_dir)
    }

    fn fault(&self, path: PathBuf, attempt: &'static str, error: Errno) -> SourceEvent<'static> {
        SourceEvent::Fault(Fault { path, attempt, error: error.into() })
    }

    /// Adds the excluded names to the batch.
    fn close_part(&mut self) {
        self.batch.in_repository |= self.signs.is_bare();
        self.batch.has_work_tree |= self.signs.has_work_tree;
        let excluded = std::mem::take(&mut self.excluded);
        self.batch.siblings =
            if excluded.is_empty() { SiblingNames::None } else { SiblingNames::Excluded(excluded) };
    }
}

impl Parts for DirectoryReader<'_> {
    fn each(&mut self, take: &mut dyn FnMut(&DirectoryBatch)) {
        if self.has_ended {
            self.is_again = true;
            if let Err(error) = lseek(self.dir, 0, Whence::SeekSet) {
                (self.tell)(self.fault(self.batch.dir.clone(), "read again the directory", error));
                return;
            }
        }
        let mut filled = if self.has_ended { self.fill() } else { Filled::Part };
        loop {
            self.close_part();
            take(&self.batch);
            self.batch.names.clear();
            self.batch.count = 0;
            self.batch.has_links = false;
            if filled != Filled::Part {
                break;
            }
            filled = self.fill();
        }
        self.has_ended = true;
    }
}
