//! `fuser`'s trait: decode, call, reply. A trait's implementation cannot be divided, so nothing is decided in it.
//!
//! What is not here is not served: `access` (the kernel checks permissions by itself), locks (the kernel keeps them, so
//! that no worker ever waits for one), `bmap` (for block devices only) and `poll` (regular files are always ready).

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, Generation, INodeNo, InitFlags, IoctlFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::backing::{Backing, Opened};
use super::readers::Readers;
use super::reply::Serving;
use super::server::Server;
use super::translate::{attributes, requested_time};
use crate::daemon::metrics::{Gauges, Metrics, Op};
use crate::passthrough::{Caller, Changes, CopyRange, Entry, Fh, NodeId, OpenNode, SetId};

/// What the kernel is asked for, beside what `fuser` asks for by itself. What it does not know it does not do.
const WANTED: &[InitFlags] = &[
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // Set-id bits and capabilities go where content is changed, here, and the kernel need not ask before every write.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    // The caller's umask is applied where the file is made, which knows of default ACLs.
    InitFlags::FUSE_DONT_MASK,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_POSIX_ACL,
];

/// Longest read and write of one request.
const MAX_TRANSFER: u32 = 1 << 20;

#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) server: Arc<Server>,
    pub(super) backing: Arc<Backing>,
    pub(super) readers: Readers,
    metrics: Arc<Metrics>,
}

impl Adapter {
    /// What `server` holds can be read from `metrics` from now on.
    pub(super) fn new(server: Arc<Server>, metrics: Arc<Metrics>) -> Self {
        let backing = Arc::new(Backing::new(metrics.clone()));
        let (served, lent) = (Arc::downgrade(&server), Arc::downgrade(&backing));
        metrics.read_gauges_by(move || {
            let (server, backing) = (served.upgrade()?, lent.upgrade()?);
            Some(Gauges {
                inodes: server.tree.nodes() as u64,
                open_files: server.tree.open_files() as u64,
                open_directories: server.tree.open_directories() as u64,
                backing_ids: backing.lent() as u64,
                has_passthrough: backing.is_offered(),
            })
        });
        Self { server, backing, readers: Readers::default(), metrics }
    }

    fn serving(&self, op: Op) -> Serving<'_> {
        Serving::new(self, self.metrics.begin(op))
    }
}

fn caller(request: &Request, umask: u32) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid(), umask }
}

pub(super) fn node(ino: INodeNo) -> NodeId {
    NodeId(ino.0)
}

fn fh(handle: FileHandle) -> Fh {
    Fh(handle.0)
}

pub(super) fn generation(entry: &Entry) -> Generation {
    Generation(entry.generation.into())
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for &flag in WANTED {
            if config.add_capabilities(flag).is_err() {
                log::info!("this kernel does not offer {flag:?}");
            }
        }
        // The nearest that succeeds is as good.
        let _ = config.set_max_write(MAX_TRANSFER);
        self.backing.negotiate(config);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let serving = self.serving(Op::Lookup);
        self.readers.looked_up(request.pid(), node(parent));
        serving.entry(parent, name, self.server.do_lookup(node(parent), name), reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        let _serving = self.serving(Op::Forget);
        self.backing.forget(node(ino), || self.server.tree.forget(node(ino), nlookup));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.serving(Op::Getattr).attr(self.server.tree.getattr(node(ino)), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let serving = self.serving(Op::Setattr);
        let (atime, mtime) = (atime.map(requested_time), mtime.map(requested_time));
        let changes = Changes { mode, uid, gid, size, atime, mtime };
        let set_id = caller(request, 0).set_id();
        let set = self.server.tree.setattr(node(ino), handle.map(fh), &changes, set_id);
        if mode.is_some_and(|mode| mode & (libc::S_ISUID | libc::S_ISGID) != 0) {
            // Whoever opens the file from now on writes with the rights that he has.
            self.backing.revoke(node(ino));
        }
        serving.attr(set, reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let serving = self.serving(Op::Readlink);
        match self.server.tree.readlink(node(ino)) {
            Ok(target) => reply.data(target.as_encoded_bytes()),
            Err(errno) => reply.error(serving.errno(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let serving = self.serving(Op::Mknod);
        let made = self.server.do_mknod(&caller(request, umask), node(parent), name, mode, rdev);
        serving.entry(parent, name, made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let serving = self.serving(Op::Mkdir);
        let made = self.server.do_mkdir(&caller(request, umask), node(parent), name, mode);
        serving.entry(parent, name, made, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serving(Op::Unlink).empty(self.server.do_unlink(node(parent), name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serving(Op::Rmdir).empty(self.server.do_rmdir(node(parent), name), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let serving = self.serving(Op::Symlink);
        let made = self.server.do_symlink(&caller(request, 0), node(parent), name, target.as_os_str());
        serving.entry(parent, name, made, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let serving = self.serving(Op::Rename);
        let (from, to) = ((node(parent), name), (node(newparent), newname));
        serving.empty(self.server.do_rename(&caller(request, 0), from, to, flags.bits()), reply);
    }

    fn link(&self, request: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let serving = self.serving(Op::Link);
        let made = self.server.do_link(&caller(request, 0), node(ino), node(newparent), newname);
        serving.entry(newparent, newname, made, reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let serving = self.serving(Op::Open);
        let opened = self.server.tree.open(node(ino), flags.0).and_then(|fh| {
            let opened =
                self.backing.open(&self.server.tree, node(ino), fh, flags.0, |fd| reply.open_backing(fd))?;
            Ok((FileHandle(fh.0), opened))
        });
        match opened {
            Ok((fh, Opened { backing: Some(id), flags })) => reply.opened_passthrough(fh, flags, &id),
            Ok((fh, Opened { backing: None, flags })) => reply.opened(fh, flags),
            Err(errno) => reply.error(serving.errno(errno)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let serving = self.serving(Op::Create);
        let made = self.server.do_create(&caller(request, umask), node(parent), name, mode, flags);
        let opened = made.and_then(|(entry, fh)| {
            match self.backing.open(&self.server.tree, entry.node, fh, flags, |fd| reply.open_backing(fd)) {
                Ok(opened) => Ok((entry, FileHandle(fh.0), opened)),
                Err(errno) => {
                    self.backing.forget(entry.node, || self.server.tree.forget(entry.node, 1));
                    Err(errno.into())
                }
            }
        });
        match opened {
            Ok((entry, fh, opened)) => {
                let (attr, generation) = (attributes(&entry.stat), generation(&entry));
                let may_be_kept = self.server.may_be_kept(node(parent), name);
                let timeout = self.server.now().timeouts().of_both(&entry, may_be_kept);
                match opened.backing {
                    Some(id) => reply.created_passthrough(&timeout, &attr, generation, fh, opened.flags, &id),
                    None => reply.created(&timeout, &attr, generation, fh, opened.flags),
                }
            }
            Err(failure) => reply.error(serving.errno(failure)),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let serving = self.serving(Op::Read);
        let mut buffer = vec![0; size as usize];
        match self.server.tree.read(fh(handle), offset, &mut buffer) {
            Ok(len) => reply.data(&buffer[..len]),
            Err(errno) => reply.error(serving.errno(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let serving = self.serving(Op::Write);
        let set_id = match flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            true => SetId::Cleared,
            false => SetId::Kept,
        };
        match self.server.tree.write(fh(handle), offset, data, set_id) {
            // No more was written than there was, and that came in one request.
            Ok(written) => reply.written(written as u32),
            Err(errno) => reply.error(serving.errno(errno)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.serving(Op::Flush).empty(self.server.tree.flush(fh(handle)), reply);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let _serving = self.serving(Op::Release);
        self.backing.release(&self.server.tree, node(ino), fh(handle));
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.serving(Op::Fsync).empty(self.server.tree.fsync(fh(handle), datasync), reply);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let serving = self.serving(Op::Opendir);
        match self.server.tree.opendir(node(ino)) {
            Ok((fh, listing)) => {
                let reading = self.readers.opens(request.pid(), node(ino));
                reply.opened(FileHandle(fh.0), reading.flags(listing));
            }
            Err(errno) => reply.error(serving.errno(errno)),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.serving(Op::Readdir).names(request.pid(), node(ino), fh(handle), offset, reply);
    }

    fn readdirplus(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.serving(Op::Readdirplus).entries(request.pid(), node(ino), fh(handle), offset, reply);
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        let _serving = self.serving(Op::Releasedir);
        self.server.tree.releasedir(fh(handle));
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, handle: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.serving(Op::Fsyncdir).empty(self.server.tree.fsyncdir(fh(handle), datasync), reply);
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let serving = self.serving(Op::Statfs);
        match self.server.tree.statfs(node(ino)) {
            Ok(stat) => reply.statfs(
                stat.blocks(),
                stat.blocks_free(),
                stat.blocks_available(),
                stat.files(),
                stat.files_free(),
                stat.block_size() as u32,
                stat.name_max() as u32,
                stat.fragment_size() as u32,
            ),
            Err(errno) => reply.error(serving.errno(errno)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let serving = self.serving(Op::Setxattr);
        let set = self.server.tree.setxattr(&caller(request, 0), node(ino), name, value, flags);
        serving.empty(set, reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.serving(Op::Getxattr)
            .xattr(size, reply, |value| self.server.tree.getxattr(node(ino), name, value));
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.serving(Op::Listxattr).xattr(size, reply, |names| self.server.tree.listxattr(node(ino), names));
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serving(Op::Removexattr).empty(self.server.tree.removexattr(node(ino), name), reply);
    }

    fn fallocate(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let serving = self.serving(Op::Fallocate);
        let set_id = caller(request, 0).set_id();
        serving.empty(self.server.tree.fallocate(fh(handle), mode, offset, length, set_id), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let serving = self.serving(Op::Lseek);
        match self.server.tree.lseek(fh(handle), offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(errno) => reply.error(serving.errno(errno)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        _: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let serving = self.serving(Op::CopyFileRange);
        let range =
            CopyRange { from: fh(fh_in), from_offset: offset_in, to: fh(fh_out), to_offset: offset_out, len };
        match self.server.tree.copy_file_range(&range, caller(request, 0).set_id()) {
            // The backing tree copies no more at once than fits.
            Ok(copied) => reply.written(copied as u32),
            Err(errno) => reply.error(serving.errno(errno)),
        }
    }

    fn ioctl(
        &self,
        request: &Request,
        _: INodeNo,
        handle: FileHandle,
        flags: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let serving = self.serving(Op::Ioctl);
        let open = match flags.contains(IoctlFlags::FUSE_IOCTL_DIR) {
            true => OpenNode::Dir(fh(handle)),
            false => OpenNode::File(fh(handle)),
        };
        match self.server.tree.ioctl(&caller(request, 0), open, command, data) {
            Ok(answer) => reply.ioctl(0, &answer),
            Err(errno) => reply.error(serving.errno(errno)),
        }
    }
}
