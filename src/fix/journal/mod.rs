//! The journal: what is going to be done is on the disk before it is done, and what was done is told behind it.
//!
//! A file of lines that only grows. Before a batch its intentions are written and brought to the disk; what became of them is
//! written with the next batch. So the last batch may be done in any part when a process ends, and only looking at the
//! directories tells which; of everything else the journal tells by itself. `docs/JOURNAL.md` describes the lines.

mod batch;
mod read;
mod record;
pub mod shelf;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, fsync, geteuid, unlinkat};

pub use batch::{Batch, Entry, Place};
pub use read::{Damage, Reading, Told, Unreadable, header};
pub use record::{Base64, Header, Hex, Left, Moment, Record, Remainder, Root};

use super::watcher::{Point, Watcher};
use crate::sys::stat;
use crate::sys::trust::{check_guarded, is_trusted, others_can_write};

/// The version of the format.
pub const VERSION: u64 = 1;

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: Flock<File>,
    path: PathBuf,
    home: Home,
    /// What was not written yet.
    buffer: Vec<u8>,
    /// The check of the last line.
    check: u32,
    /// How much of the file is whole and on the disk.
    len: u64,
}

/// Locks `file`, so that nobody else writes it; `None` if somebody does.
fn lock(file: File) -> io::Result<Option<Flock<File>>> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => Ok(Some(file)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error.into()),
    }
}

/// The directory of a journal, open, and the name of the file in it.
#[derive(Debug)]
struct Home {
    dir: OwnedFd,
    name: OsString,
}

impl Home {
    /// That of the journal `path`. A journal says what is renamed, so root takes none from where others could exchange it, nor
    /// leaves one there.
    fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_os_string();
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = openat(AT_FDCWD, dir, flags, Mode::empty())?;
        if geteuid().is_root() {
            check_guarded(&dir)?;
        }
        Ok(Self { dir, name })
    }

    /// Opens the file, and follows no link.
    fn open(&self, flags: OFlag) -> io::Result<File> {
        let flags = flags | OFlag::O_RDWR | OFlag::O_APPEND | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(&self.dir, &*self.name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?.into())
    }

    fn remove(&self) {
        let _ = unlinkat(&self.dir, &*self.name, UnlinkatFlags::NoRemoveDir);
    }
}

/// Looks whether somebody else may have written what is in the journal `file`.
fn check_owner(file: &File) -> io::Result<()> {
    let stat = stat::at(file, OsStr::new(""))?;
    let what = match () {
        () if stat.kind != libc::S_IFREG => "it is not a regular file".to_owned(),
        () if !is_trusted(stat.uid) => {
            format!("it belongs to user {}, who may have chosen what is in it", stat.uid)
        }
        () if geteuid().is_root() && others_can_write(stat.mode) => {
            format!("others can write it: its mode is {:o}", stat.mode)
        }
        () => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process is writing it")
}

impl Journal {
    /// Begins a journal in the new file `path`, which nobody else can read. When this returns, the file and its name are on
    /// the disk.
    ///
    /// # Errors
    /// It cannot be made, or is there already; for root, others can write its directory.
    pub fn create(path: &Path, header: Header, watcher: &mut dyn Watcher) -> io::Result<Self> {
        let home = Home::of(path)?;
        let file = home.open(OFlag::O_CREAT | OFlag::O_EXCL)?;
        let file = lock(file)?.ok_or_else(in_use)?;
        let mut journal = Self { file, path: path.to_path_buf(), home, buffer: Vec::new(), check: 0, len: 0 };
        journal.push(&Record::Journal(header));
        let begun = journal.commit(watcher).and_then(|()| Ok(fsync(&journal.home.dir)?));
        match begun {
            Ok(()) => Ok(journal),
            Err(error) => {
                journal.discard();
                Err(error)
            }
        }
    }

    /// Removes a journal of which nothing was done: it says nothing, and would be in the way.
    pub fn discard(self) {
        self.home.remove();
    }

    /// Opens a journal to go on with it, and reads it. What is torn at its end is cut off: it was never acted on.
    ///
    /// # Errors
    /// It cannot be read, is none, is damaged, or another process is writing it; it belongs to somebody else, or, for root, others
    /// can write it or its directory.
    pub fn resume(path: &Path) -> Result<(Self, Reading), Unreadable> {
        let home = Home::of(path)?;
        // What would hold us up, if it is a FIFO, is none.
        let file = home.open(OFlag::O_NONBLOCK)?;
        check_owner(&file)?;
        let file = lock(file)?.ok_or_else(in_use)?;
        let reading = Reading::of(&file)?;
        file.set_len(reading.len)?;
        let journal = Self {
            file,
            path: path.to_path_buf(),
            home,
            buffer: Vec::new(),
            check: reading.check,
            len: reading.len,
        };
        Ok((journal, reading))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for reading batches again.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Appends a record; it is not written yet.
    pub fn push(&mut self, record: &Record) {
        self.check = record.write(self.check, &mut self.buffer);
    }

    /// Appends the records of a batch.
    pub fn push_batch(&mut self, batch: &Batch) {
        batch.records().for_each(|record| self.push(&record));
    }

    /// Writes what was appended, and brings it to the disk.
    ///
    /// # Errors
    /// That cannot be done; then nothing that was appended since the last time may be acted on.
    pub fn commit(&mut self, watcher: &mut dyn Watcher) -> io::Result<()> {
        let written = self.file.write_all(&self.buffer).and_then(|()| {
            watcher.reached(Point::Written);
            self.file.sync_data()
        });
        if written.is_err() {
            // A torn line is known for what it is; without it the next reader has less to explain.
            let _ = self.file.set_len(self.len);
            return written;
        }
        self.len += self.buffer.len() as u64;
        self.buffer.clear();
        watcher.reached(Point::Synced(self.len));
        Ok(())
    }
}
