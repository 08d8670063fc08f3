//! The journal: every intention is on the disk before it is executed, and every result follows it.
//!
//! The file only grows. The intentions of a batch are written and flushed to the disk before the batch is executed; its results are
//! written with the next batch. So when a process ends, any part of the last batch may be executed, and only the directories show
//! which part; the journal describes everything else. `docs/JOURNAL.md` describes the lines.

mod batch;
mod batch_entry;
pub mod journal_dir;
mod read;
mod record;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use namegate_sys::stat;
use namegate_sys::trust::{check_guarded, is_trusted, others_can_write};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, fsync, geteuid, unlinkat};

use crate::progress::{ChangeObserver, KillPoint};

pub use batch::JournalBatch;
pub use batch_entry::BatchEntry;
pub use read::{BatchState, JournalContents, JournalError, read_header};
pub use record::{
    BatchDirectory, FailedEntry, JournalDecisions, JournalHeader, JournalRecord, RenderedRecords,
};

pub const VERSION: u64 = 1;

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    file: Flock<File>,
    path: PathBuf,
    home: JournalHome,
    /// Records that are not written yet.
    buffer: Vec<u8>,
    /// The check of the last record.
    check: u32,
    /// The length of the file that is on the disk.
    len: u64,
}

/// Locks `file` against other writers; `None` if another process has locked it.
fn lock(file: File) -> io::Result<Option<Flock<File>>> {
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(file) => Ok(Some(file)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, error)) => Err(error.into()),
    }
}

/// The open directory of a journal, and the name of the file in it.
#[derive(Debug)]
struct JournalHome {
    dir: OwnedFd,
    name: OsString,
}

impl JournalHome {
    /// Opens the directory of the journal `path`. A journal decides what is renamed, so root uses none in a directory where others
    /// could replace it.
    fn open_dir(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_os_string();
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let dir = openat(AT_FDCWD, dir, flags, Mode::empty())?;
        if geteuid().is_root() {
            check_guarded(&dir)?;
        }
        Ok(Self { dir, name })
    }

    /// Opens the file; follows no link.
    fn open(&self, flags: OFlag) -> io::Result<File> {
        let flags = flags | OFlag::O_RDWR | OFlag::O_APPEND | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(&self.dir, &*self.name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?.into())
    }

    fn remove(&self) {
        let _ = unlinkat(&self.dir, &*self.name, UnlinkatFlags::NoRemoveDir);
    }
}

/// Refuses a journal that another user may have written.
fn check_owner(file: &File) -> io::Result<()> {
    let stat = stat::at(file, OsStr::new(""))?;
    let what = match () {
        () if stat.kind != libc::S_IFREG => "not a regular file".to_owned(),
        () if !is_trusted(stat.uid) => {
            format!("it belongs to user {}, who may have written it", stat.uid)
        }
        () if geteuid().is_root() && others_can_write(stat.mode) => {
            format!("its mode {:o} lets others write it", stat.mode)
        }
        () => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

fn in_use() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "another process is writing it")
}

impl Journal {
    /// Creates a journal in the new file `path`, which only its owner can read. The file and its name are on the disk when this
    /// returns.
    ///
    /// # Errors
    /// The file cannot be created, or exists; for root, others can write the directory.
    pub fn create(path: &Path, header: JournalHeader, observer: &dyn ChangeObserver) -> io::Result<Self> {
        let home = JournalHome::open_dir(path)?;
        let file = home.open(OFlag::O_CREAT | OFlag::O_EXCL)?;
        let file = lock(file)?.ok_or_else(in_use)?;
        let mut journal = Self { file, path: path.to_path_buf(), home, buffer: Vec::new(), check: 0, len: 0 };
        journal.push(&JournalRecord::Journal(header));
        let begun = journal.commit(observer).and_then(|()| Ok(fsync(&journal.home.dir)?));
        match begun {
            Ok(()) => Ok(journal),
            Err(error) => {
                journal.discard();
                Err(error)
            }
        }
    }

    /// Removes a journal before any change was made.
    pub fn discard(self) {
        self.home.remove();
    }

    /// Opens a journal to continue it, and reads it. Cuts off a torn end: none of its changes was begun.
    ///
    /// # Errors
    /// The file cannot be read, is not a journal, is damaged, or another process is writing it; it belongs to another user or, for
    /// root, others can write it or its directory.
    pub fn resume(path: &Path) -> Result<(Self, JournalContents), JournalError> {
        let home = JournalHome::open_dir(path)?;
        // A FIFO must not block the program.
        let file = home.open(OFlag::O_NONBLOCK)?;
        check_owner(&file)?;
        let file = lock(file)?.ok_or_else(in_use)?;
        let contents = JournalContents::read_file(&file)?;
        file.set_len(contents.len)?;
        let journal = Self {
            file,
            path: path.to_path_buf(),
            home,
            buffer: Vec::new(),
            check: contents.check,
            len: contents.len,
        };
        Ok((journal, contents))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, for reading batches again.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Appends a record. [`commit`](Self::commit) writes it.
    pub fn push(&mut self, record: &JournalRecord<'_>) {
        self.check = record.write(self.check, &mut self.buffer);
    }

    /// Appends the records of a batch; `rendered` are those after the first one ([`JournalBatch::render`]).
    pub(crate) fn push_batch(&mut self, batch: &JournalBatch, rendered: &RenderedRecords) {
        self.push(&batch.head());
        self.check = rendered.write(self.check, &mut self.buffer);
    }

    /// Writes the appended records and flushes them to the disk.
    ///
    /// # Errors
    /// That failed; then none of the appended changes may be executed.
    pub fn commit(&mut self, observer: &dyn ChangeObserver) -> io::Result<()> {
        let written = self.file.write_all(&self.buffer).and_then(|()| {
            observer.reached(KillPoint::Written);
            self.file.sync_data()
        });
        if written.is_err() {
            // A torn line does no harm; without it `fix status` has less to explain.
            let _ = self.file.set_len(self.len);
            return written;
        }
        self.len += self.buffer.len() as u64;
        self.buffer.clear();
        observer.reached(KillPoint::Synced(self.len));
        Ok(())
    }
}
