//! Open files.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{SFlag, fstat};
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::{dup, fdatasync, fsync};
use parking_lot::Mutex;

use super::budget::DescriptorShare;
use super::cached_version::CachedVersion;
use super::credentials::{Acting, RequestThread};
use super::descriptor::Stay;
use super::filesystems::{creates_twice, is_local, renames_removed};
use super::journal::{OpenData, OpenRecord};
use super::node::{TrackedNode, is_large};
use super::spares::CachedFd;
use super::{Caller, Fh, NodeId, Passthrough, Result};

/// An open file.
///
/// If the kernel reads and writes the backing file by itself, few requests need a descriptor: it is opened for the request and is
/// spare afterwards. The kernel keeps the inode open, so its handle stays valid even without a name. If the server reads and writes
/// the file, it keeps the file open as long as the client does, and charges the descriptor to the user.
#[derive(Debug)]
pub(super) struct OpenFile {
    /// The record for a successor. Declared before the descriptor, which is closed after it.
    record: Option<OpenRecord>,
    opener: Caller,
    flags: OFlag,
    backing: Mutex<BackingFile>,
    // Declared after the descriptor, which is closed first.
    node: OpenCount,
}

/// The descriptor of an open file in the server.
#[derive(Debug, Default)]
struct BackingFile {
    file: Option<Arc<File>>,
    /// The user to whom it is charged, if it stays open.
    share: Option<DescriptorShare>,
    /// Whether it was closed in between, so that errors since then were not reported to it.
    was_closed: bool,
    /// Number of write-back errors known to this open file.
    write_errors: u16,
    /// The version of the file when it was opened, until the first read: before that, the kernel may not have dropped what it had
    /// cached of an earlier version.
    version: Option<CachedVersion>,
}

/// A descriptor that stays open, and the user to whom it is charged.
pub(super) type KeptFile = Option<(OwnedFd, Option<DescriptorShare>)>;

/// Counts one open file of a node until dropped.
#[derive(Debug)]
struct OpenCount(Arc<TrackedNode>);

impl OpenCount {
    fn new(node: Arc<TrackedNode>, flags: OFlag) -> Self {
        {
            let mut opened = node.opened.lock();
            opened.opens += 1;
            if flags & OFlag::O_ACCMODE == OFlag::O_RDWR {
                node.may_be_mapped.store(true, Ordering::Relaxed);
            }
        }
        Self(node)
    }
}

impl Drop for OpenCount {
    fn drop(&mut self) {
        let _closed_behind_the_lock = {
            let mut opened = self.0.opened.lock();
            opened.opens = opened.opens.saturating_sub(1);
            if opened.opens == 0 {
                self.0.may_be_mapped.store(false, Ordering::Relaxed);
            }
            if opened.opens == 0 && opened.stay == Stay::UntilClosed { opened.take() } else { None }
        };
    }
}

/// The flags with which the server opens a file that a client opened with `flags`.
///
/// O_DIRECT would require aligned buffers. Creation and truncation are already done.
pub(super) fn opened_as(flags: OFlag) -> OFlag {
    flags & (OFlag::O_ACCMODE | OFlag::O_APPEND | OFlag::O_SYNC | OFlag::O_DSYNC | OFlag::O_NOATIME)
}

pub(super) fn errno(error: io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

impl OpenFile {
    pub(super) fn new(node: Arc<TrackedNode>, opener: &Caller, flags: OFlag, file: Option<OwnedFd>) -> Self {
        let write_errors = node.opened.lock().write_errors;
        let file = file.map(|file| Arc::new(File::from(file)));
        let backing = Mutex::new(BackingFile { file, write_errors, ..BackingFile::default() });
        Self { record: None, opener: *opener, flags, backing, node: OpenCount::new(node, flags) }
    }

    /// The open file that a predecessor has recorded, with the descriptor that it had to keep.
    pub(super) fn recovered(
        node: Arc<TrackedNode>,
        data: &OpenData,
        record: OpenRecord,
        kept: KeptFile,
    ) -> Self {
        let [uid, gid, pid, umask] = data.opener;
        let opener = Caller { uid, gid, pid, group: None, umask, uses_alias: false };
        let (file, share) =
            kept.map_or((None, None), |(file, share)| (Some(Arc::new(File::from(file))), share));
        let (write_errors, was_closed) = (node.opened.lock().write_errors, file.is_none());
        let backing = Mutex::new(BackingFile { file, share, was_closed, write_errors, version: None });
        let flags = OFlag::from_bits_truncate(data.flags);
        Self { record: Some(record), opener, flags, backing, node: OpenCount::new(node, flags) }
    }

    pub(super) fn appends(&self) -> bool {
        self.flags.contains(OFlag::O_APPEND)
    }

    pub(super) fn node(&self) -> &Arc<TrackedNode> {
        &self.node.0
    }

    pub(super) fn opener(&self) -> &Caller {
        &self.opener
    }

    /// Records that the kernel reads from this open file, and caches what it reads.
    pub(super) fn note_cached(&self) {
        let version = self.backing.lock().version.take();
        if let Some(version) = version {
            self.node.0.note_cached(version);
        }
    }

    pub(super) fn is_writable(&self) -> bool {
        self.flags & OFlag::O_ACCMODE != OFlag::O_RDONLY
    }

    /// The result of a sync to report to the client, when the file system has returned `synced`.
    ///
    /// A write-back error is reported once to every open file (errseq_t of the kernel). A descriptor that was opened after the error
    /// was reported to another one does not get it, and the descriptor of this file may have been reopened since.
    pub(super) fn heard(&self, synced: Result<()>) -> Result<()> {
        let (mut backing, mut opened) = (self.backing.lock(), self.node.0.opened.lock());
        let is_news = backing.write_errors == opened.write_errors;
        match synced {
            Err(errno) if !matches!(errno, Errno::EIO | Errno::ENOSPC | Errno::EDQUOT) => return synced,
            Err(_) if is_news => opened.write_errors = opened.write_errors.wrapping_add(1),
            Ok(()) if is_news || !backing.was_closed => return Ok(()),
            _ => {}
        }
        backing.write_errors = opened.write_errors;
        synced.and(Err(Errno::EIO))
    }
}

impl CachedFd for OpenFile {
    fn give_up(&self) {
        let _closed_behind_the_lock = match self.backing.try_lock() {
            Some(mut backing) if backing.share.is_none() => {
                backing.was_closed |= backing.file.is_some();
                backing.file.take()
            }
            _ => None,
        };
    }
}

impl Passthrough {
    /// The descriptor of an open file, opened if necessary.
    pub(super) fn file(&self, open: &Arc<OpenFile>) -> Result<Arc<File>> {
        let (file, is_new) = self.opened(open, &mut open.backing.lock())?;
        if is_new {
            self.keep_spare(open);
        }
        Ok(file)
    }

    /// The descriptor of an open file, and whether this call opened it. It stays open in either case.
    fn opened(&self, open: &OpenFile, backing: &mut BackingFile) -> Result<(Arc<File>, bool)> {
        if let Some(file) = &backing.file {
            return Ok((file.clone(), false));
        }
        let file = Arc::new(File::from(self.nodes.open(&open.node.0, opened_as(open.flags))?));
        backing.file = Some(file.clone());
        Ok((file, true))
    }

    /// A descriptor for operations that need no write permission. A file that was opened for writing may have become immutable, or
    /// its file system read-only, and can still be synced.
    pub(super) fn file_to_read(&self, open: &Arc<OpenFile>) -> Result<Arc<File>> {
        match self.file(open) {
            Err(Errno::EPERM | Errno::EACCES | Errno::EROFS | Errno::ETXTBSY) if open.is_writable() => {
                Ok(Arc::new(File::from(self.nodes.open(&open.node.0, OFlag::O_RDONLY)?)))
            }
            file => file,
        }
    }

    fn keep_spare(&self, open: &Arc<OpenFile>) {
        let spare: Weak<OpenFile> = Arc::downgrade(open);
        self.nodes.spares.keep(spare);
    }

    /// Opens a regular file; `flags` are those of open(2). The caller then calls [`Passthrough::open_here`] or
    /// [`Passthrough::open_elsewhere`].
    ///
    /// # Errors
    /// EINVAL for other file types, which no kernel sends.
    pub fn open(&self, opener: &Caller, node: NodeId, flags: i32) -> Result<Fh> {
        let node = self.nodes.node(node)?;
        if node.kind != SFlag::S_IFREG {
            return Err(Errno::EINVAL);
        }
        self.add_file(OpenFile::new(node, opener, OFlag::from_bits_truncate(flags), None))
    }

    /// Adds an open file, and records it for a successor.
    pub(super) fn add_file(&self, mut open: OpenFile) -> Result<Fh> {
        let fh = self.files.reserve();
        let Caller { uid, gid, pid, umask, .. } = open.opener;
        let (node, flags) = (open.node().id.0, open.flags.bits());
        let data = OpenData { fh: fh.0, node, flags, opener: [uid, gid, pid, umask], ..OpenData::default() };
        open.record = self.record_open(data)?;
        self.files.insert(fh, open);
        Ok(fh)
    }

    /// Opens the backing file, to read and write it in the server. Returns whether the content that the kernel has cached is still that
    /// of the file.
    ///
    /// # Errors
    /// As open(2) says; ENFILE for a user who is charged for too many descriptors.
    pub fn open_here(&self, fh: Fh) -> Result<bool> {
        let open = self.files.get(fh)?;
        let share = self.nodes.charge(open.opener.uid)?;
        let mut backing = open.backing.lock();
        let (file, _) = self.opened(&open, &mut backing)?;
        backing.share = Some(share);
        if let Some(record) = &open.record {
            record.set_fd(Some(file.as_raw_fd()));
        }
        backing.version = self.version(&open, &file);
        Ok(backing.version.is_some() && backing.version == open.node().cached())
    }

    /// The version of an open file, if a later change of the content will certainly change it.
    fn version(&self, open: &OpenFile, file: &File) -> Option<CachedVersion> {
        let age = self.keeps_content_after?;
        // Direct reads leave nothing in the cache.
        if open.flags.contains(OFlag::O_DIRECT) {
            return None;
        }
        let version = CachedVersion::of_file(&fstat(file).ok()?, age)?;
        let kind = match self.nodes.is_own(open.node().id) {
            true => self.kind,
            false => fstatfs(file).ok()?.filesystem_type(),
        };
        // On tmpfs, changes through a memory map never set the times.
        (kind != TMPFS_MAGIC).then_some(version)
    }

    /// Leaves reading and writing the file to the kernel. For a writer, checks that the file can be opened for writing at all, which
    /// chattr(1) +i and +a, a read-only mount, or a running program may prevent.
    ///
    /// # Errors
    /// As open(2) says.
    pub fn open_elsewhere(&self, fh: Fh) -> Result<()> {
        let open = self.files.get(fh)?;
        if open.is_writable() {
            // As long as it is open, the kernel reports write-back errors to it.
            self.opened(&open, &mut open.backing.lock())?;
            self.keep_spare(&open);
        } else {
            open.give_up();
        }
        Ok(())
    }

    /// Passes an `O_PATH` descriptor of a file to `take`, which registers it with the kernel for all clients that open the file. The
    /// kernel uses the rights that this thread has meanwhile, which are those of nobody: every change clears set-id bits and
    /// uses no blocks that are reserved for root.
    ///
    /// `None` for files that the server has to serve itself: on SMB, and those with set-id bits, which must stay
    /// where root makes the change.
    ///
    /// # Errors
    /// Those of `take`; ESTALE when the file is gone.
    pub fn lend<T>(
        &self,
        node: NodeId,
        take: impl FnOnce(&OwnedFd) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        let is_own = self.nodes.is_own(node);
        let node = self.nodes.node(node)?;
        let fd = self.nodes.fd(&node)?;
        // Its mode may have changed since, or is not known yet.
        if node.has_set_id() {
            node.note_mode(fstat(&*fd)?.st_mode);
            if node.has_set_id() {
                return Ok(None);
            }
        }
        let kind = if is_own { self.kind } else { fstatfs(&*fd)?.filesystem_type() };
        if creates_twice(kind) {
            return Ok(None);
        }
        let _acting = match self.acts_for_others {
            false => None,
            // On a file server, nobody might not be allowed to open it.
            true if !is_local(kind) || !RequestThread::current()?.switches() => {
                Some(Acting::without_fsetid()?)
            }
            true => Some(Acting::nobody()?),
        };
        take(&fd).map(Some)
    }

    /// Whether close(2) may report an error on the file system of `node`.
    pub fn has_flush(&self, node: NodeId) -> bool {
        !(self.closes_silently && self.nodes.is_own(node))
    }

    /// Whether the backing file of `node` may stay registered with the kernel when no client has the file open: not on file systems
    /// that rename removed files, nor where the file cannot be opened after the removal of the name by which it was registered.
    /// Where there are file handles, it can.
    pub fn may_be_held(&self, node: NodeId) -> bool {
        match self.nodes.is_own(node) {
            true if !self.nodes.has_handles() => false,
            true => !self.renames_removed,
            false => self
                .fd(node)
                .and_then(|fd| fstatfs(&*fd))
                .is_ok_and(|found| !renames_removed(found.filesystem_type())),
        }
    }

    /// Reports errors of the file system when a client closes a descriptor of the file.
    ///
    /// # Errors
    /// As close(2) says.
    pub fn flush(&self, fh: Fh) -> Result<()> {
        let open = self.files.get(fh)?;
        // Only written data can cause an error, including data written by other clients.
        let file = match open.is_writable() {
            true => self.file(&open).ok(),
            false => open.backing.lock().file.clone(),
        };
        match file {
            Some(file) => nix::unistd::close(self.nodes.with_room(|| dup(&file))?),
            None => Ok(()),
        }
    }

    /// Whether a client has the file open.
    pub fn is_open(&self, node: NodeId) -> bool {
        self.nodes.node(node).is_ok_and(|node| node.opened.lock().opens > 0)
    }

    /// Whether a client may have changed the content of `node` through a memory map: one has opened it for reading and writing since none
    /// had it open.
    pub fn may_be_mapped(&self, node: NodeId) -> bool {
        self.nodes.node(node).is_ok_and(|node| node.may_be_mapped.load(Ordering::Relaxed))
    }

    /// Whether the file is open for writing.
    pub fn is_writer(&self, fh: Fh) -> bool {
        self.files.get(fh).is_ok_and(|open| open.is_writable())
    }

    /// The generation of the inode that is open as `fh`; a later inode with the same number has another one.
    ///
    /// # Errors
    /// EBADF if nothing is open as `fh`.
    pub fn generation(&self, fh: Fh) -> Result<u32> {
        Ok(self.files.get(fh)?.node().generation())
    }

    /// The generation of the inode that is known as `node`.
    ///
    /// # Errors
    /// ESTALE for an unknown node.
    pub fn generation_of(&self, node: NodeId) -> Result<u32> {
        Ok(self.nodes.node(node)?.generation())
    }

    /// Whether the last close of the file may take long: on another mount, where close(2) reports errors, or if it frees the blocks
    /// of a removed file.
    pub fn takes_long_to_release(&self, fh: Fh) -> bool {
        let Ok(open) = self.files.get(fh) else { return false };
        let frees = |file: &File| fstat(file).is_ok_and(|stat| stat.st_nlink == 0 && is_large(&stat));
        // The thread that holds the lock may be stuck in open(2).
        let Some(backing) = open.backing.try_lock() else { return true };
        backing.file.as_ref().is_some_and(|file| self.has_flush(open.node().id) || frees(file))
    }

    /// Closes the file.
    pub fn release(&self, fh: Fh) {
        self.files.remove(fh);
    }

    /// Syncs the file to disk, or with `data_only` only its content.
    ///
    /// # Errors
    /// As fsync(2) says.
    pub fn fsync(&self, fh: Fh, data_only: bool) -> Result<()> {
        let open = self.files.get(fh)?;
        let file = self.file_to_read(&open)?;
        // Those of the standard library begin again after EINTR.
        open.heard(if data_only { fdatasync(&file) } else { fsync(&file) })
    }
}
