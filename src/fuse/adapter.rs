//! `fuser`'s trait: decode, weigh, call, reply. A trait's implementation cannot be divided, so nothing is decided in it; where
//! a request is served, by this thread or by another one, `dispatch` decides by the weight that is given here.
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

use super::RequestFailure;
use super::dispatch::{RequestCore, TRANSFER, Weight};
use super::reply::RequestContext;
use super::reroot::node;
use super::translate::requested_time;
use crate::passthrough::{Caller, Changes, CopyRange, ELSEWHERE, Fh, LookupEntry, NodeId, OpenNode, SetId};
use crate::telemetry::metrics::Op;
use crate::workers::{Domain, Load};

/// What the kernel is asked for, beside what `fuser` asks for by itself. What it does not know it does not do.
const WANTED: &[InitFlags] = &[
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_AUTO_INVAL_DATA,
    // What a symbolic link holds never changes: another target is another inode.
    InitFlags::FUSE_CACHE_SYMLINKS,
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
pub(super) const MAX_TRANSFER: u32 = 1 << 20;

/// How many requests that nobody waits for in the kernel (reading ahead, writing asynchronously, closing) are sent at once. When
/// it is reached those of everybody wait for one to be answered: more than one user has stuck, and so few that they are passed
/// on to the pool in the time that a lookup can wait behind them.
const MAX_BACKGROUND: u16 = 1024;

#[derive(Debug)]
pub(super) struct Adapter {
    core: Arc<RequestCore>,
}

impl Adapter {
    pub(super) fn new(core: Arc<RequestCore>) -> Self {
        Self { core }
    }

    fn on(&self, ino: INodeNo) -> Weight {
        self.core.on(node(ino))
    }

    /// Serves what is asked for of `ino`.
    fn serve(
        &self,
        op: Op,
        request: &Request,
        ino: INodeNo,
        job: impl FnOnce(&RequestContext<'_>) + Send + 'static,
    ) {
        self.weighed(op, request, self.on(ino), job);
    }

    fn weighed(
        &self,
        op: Op,
        request: &Request,
        weight: Weight,
        job: impl FnOnce(&RequestContext<'_>) + Send + 'static,
    ) {
        self.core.serve((op, request.uid(), weight), job);
    }
}

fn caller(request: &Request, umask: u32) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), pid: request.pid(), umask }
}

fn fh(handle: FileHandle) -> Fh {
    Fh(handle.0)
}

pub(super) fn generation(entry: &LookupEntry) -> Generation {
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
        let _ = config.set_max_background(MAX_BACKGROUND);
        self.core.backing.negotiate(config);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (pid, parent, name) = (request.pid(), node(parent), name.to_owned());
        self.weighed(Op::Lookup, request, self.core.on(parent), move |serving| {
            serving.core.readers.looked_up(pid, parent);
            match serving.server.do_lookup(serving.reach(), parent, &name) {
                Err(RequestFailure::Backing(ELSEWHERE)) => {
                    // Which mount it is shows when it answers.
                    serving.hand_on(Domain::Other(!parent.0), move |serving| {
                        let found = serving.server.do_lookup(serving.reach(), parent, &name);
                        serving.entry(parent, &name, found, reply);
                    });
                }
                found => serving.entry(parent, &name, found, reply),
            }
        });
    }

    fn forget(&self, request: &Request, ino: INodeNo, nlookup: u64) {
        // Always here: it is all in memory, but for what goes with the node.
        let asked = self.core.asked(Op::Forget, request.uid(), self.on(ino));
        asked.among_others(|serving| serving.forget(node(ino), nlookup));
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let weight = self.on(ino).takes_if(node(ino) == NodeId::ROOT, Load::Probe);
        self.weighed(Op::Getattr, request, weight, move |serving| {
            serving.attr(node(ino), serving.core.server.tree.getattr(node(ino)), reply);
        });
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
        let (atime, mtime) = (atime.map(requested_time), mtime.map(requested_time));
        let changes = Changes { mode, uid, gid, size, atime, mtime };
        let caller = caller(request, 0);
        let weight = self.on(ino);
        let cuts_off =
            size.is_some() && self.core.is_local(weight) && self.core.server.tree.is_large(node(ino));
        self.weighed(Op::Setattr, request, weight.takes_if(cuts_off, Load::Light), move |serving| {
            let set = serving.core.server.tree.setattr(&caller, node(ino), handle.map(fh), &changes);
            if mode.is_some_and(|mode| mode & (libc::S_ISUID | libc::S_ISGID) != 0) {
                // Whoever opens the file from now on writes with the rights that he has.
                serving.core.backing.revoke(node(ino));
            }
            serving.attr(node(ino), set, reply);
        });
    }

    fn readlink(&self, request: &Request, ino: INodeNo, reply: ReplyData) {
        self.serve(Op::Readlink, request, ino, move |serving| {
            match serving.core.server.tree.readlink(node(ino)) {
                Ok(target) => reply.data(target.as_encoded_bytes()),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
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
        let (caller, dir, name) = (caller(request, umask), node(parent), name.to_owned());
        self.serve(Op::Mknod, request, parent, move |serving| {
            let made = serving.server.do_mknod(&caller, dir, &name, mode, rdev);
            serving.entry(dir, &name, made, reply);
        });
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
        let (caller, dir, name) = (caller(request, umask), node(parent), name.to_owned());
        self.serve(Op::Mkdir, request, parent, move |serving| {
            let made = serving.server.do_mkdir(&caller, dir, &name, mode);
            serving.entry(dir, &name, made, reply);
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(Op::Unlink, request, parent, move |serving| {
            serving.empty(serving.server.do_unlink(serving.user(), node(parent), &name), reply);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(Op::Rmdir, request, parent, move |serving| {
            serving.empty(serving.server.do_rmdir(serving.user(), node(parent), &name), reply);
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (caller, dir, name) = (caller(request, 0), node(parent), name.to_owned());
        let target = target.as_os_str().to_owned();
        self.serve(Op::Symlink, request, parent, move |serving| {
            let made = serving.server.do_symlink(&caller, dir, &name, &target);
            serving.entry(dir, &name, made, reply);
        });
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
        let weight = self.core.on_both(node(parent), node(newparent));
        let (caller, name, newname) = (caller(request, 0), name.to_owned(), newname.to_owned());
        self.weighed(Op::Rename, request, weight, move |serving| {
            let (from, to) = ((node(parent), &*name), (node(newparent), &*newname));
            serving.empty(serving.server.do_rename(&caller, from, to, flags.bits()), reply);
        });
    }

    fn link(&self, request: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let weight = self.core.on_both(node(ino), node(newparent));
        let (caller, dir, name) = (caller(request, 0), node(newparent), newname.to_owned());
        self.weighed(Op::Link, request, weight, move |serving| {
            let made = serving.server.do_link(&caller, node(ino), dir, &name);
            serving.entry(dir, &name, made, reply);
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let caller = caller(request, 0);
        self.serve(Op::Open, request, ino, move |serving| serving.open(&caller, node(ino), flags.0, reply));
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
        let (caller, dir, name) = (caller(request, umask), node(parent), name.to_owned());
        self.serve(Op::Create, request, parent, move |serving| {
            serving.create(&caller, (dir, &name), mode, flags, reply);
        });
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let weight = self.on(ino).takes_if(size as usize > TRANSFER, Load::Heavy);
        self.weighed(Op::Read, request, weight, move |serving| {
            serving.read(fh(handle), offset, size as usize, reply);
        });
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        open_flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let set_id = match flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            true => SetId::Cleared,
            false => SetId::Kept,
        };
        // What comes from the page cache comes from nobody.
        let writer = match flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            true => None,
            false => Some(caller(request, 0)),
        };
        // O_SYNC has the bit of O_DSYNC in it.
        let is_synchronous = open_flags.0 & libc::O_DSYNC != 0;
        let weight = self.on(ino).takes_if(data.len() > TRANSFER, Load::Heavy);
        let asked = self.core.asked(Op::Write, request.uid(), weight.takes_if(is_synchronous, Load::Light));
        match asked.lane {
            None => asked
                .here(|serving| serving.write((writer.as_ref(), set_id), fh(handle), offset, data, reply)),
            Some(lane) => {
                let data = data[..self.core.room(lane, data.len())].to_vec();
                asked.beside(lane, data.len(), move |serving| {
                    serving.write((writer.as_ref(), set_id), fh(handle), offset, &data, reply);
                });
            }
        }
    }

    fn flush(&self, request: &Request, ino: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.serve(Op::Flush, request, ino, move |serving| {
            serving.empty(serving.core.server.tree.flush(fh(handle)), reply);
        });
    }

    fn release(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let takes_long = self.core.server.tree.takes_long_to_release(fh(handle));
        let weight = self.on(ino).takes_if(takes_long, Load::Closing);
        // Nobody waits for it, but the kernel has so many in work at once and no more.
        reply.ok();
        self.weighed(Op::Release, request, weight, move |serving| {
            serving.core.backing.release(&serving.core.server.tree, node(ino), fh(handle));
        });
    }

    fn fsync(&self, request: &Request, ino: INodeNo, handle: FileHandle, datasync: bool, reply: ReplyEmpty) {
        self.weighed(Op::Fsync, request, self.on(ino).takes(Load::Light), move |serving| {
            serving.empty(serving.core.server.tree.fsync(fh(handle), datasync), reply);
        });
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let pid = request.pid();
        self.serve(Op::Opendir, request, ino, move |serving| {
            match serving.core.server.tree.opendir(node(ino), serving.user()) {
                Ok((fh, listing)) => {
                    let reading = serving.core.readers.opens(pid, node(ino));
                    reply.opened(FileHandle(fh.0), reading.flags(listing));
                }
                Err(errno) => {
                    reply.error(serving.errno(errno));
                    serving.core.server.give_back();
                }
            }
        });
    }

    fn readdir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let pid = request.pid();
        self.serve(Op::Readdir, request, ino, move |serving| {
            serving.names(pid, node(ino), fh(handle), offset, reply);
        });
    }

    fn readdirplus(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let pid = request.pid();
        self.serve(Op::Readdirplus, request, ino, move |serving| {
            serving.entries(pid, node(ino), fh(handle), offset, reply);
        });
    }

    fn releasedir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        reply.ok();
        self.serve(Op::Releasedir, request, ino, move |serving| {
            serving.core.server.tree.releasedir(fh(handle));
        });
    }

    fn fsyncdir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.weighed(Op::Fsyncdir, request, self.on(ino).takes(Load::Light), move |serving| {
            serving.empty(serving.core.server.tree.fsyncdir(fh(handle), datasync), reply);
        });
    }

    fn statfs(&self, request: &Request, ino: INodeNo, reply: ReplyStatfs) {
        // The watchdog asks this.
        let weight = self.on(ino).takes_if(node(ino) == NodeId::ROOT, Load::Probe);
        self.weighed(Op::Statfs, request, weight, move |serving| {
            match serving.core.server.tree.statfs(node(ino)) {
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
        });
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
        let (caller, name, value) = (caller(request, 0), name.to_owned(), value.to_owned());
        self.serve(Op::Setxattr, request, ino, move |serving| {
            let set = serving.core.server.tree.setxattr(&caller, node(ino), &name, &value, flags);
            serving.empty(set, reply);
        });
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.to_owned();
        self.serve(Op::Getxattr, request, ino, move |serving| {
            let tree = &serving.core.server.tree;
            serving.xattr(size, reply, |value| tree.getxattr(node(ino), &name, value));
        });
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let caller = caller(request, 0);
        self.serve(Op::Listxattr, request, ino, move |serving| {
            let tree = &serving.core.server.tree;
            serving.xattr(size, reply, |names| tree.listxattr(&caller, node(ino), names));
        });
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = name.to_owned();
        self.serve(Op::Removexattr, request, ino, move |serving| {
            serving.empty(serving.core.server.tree.removexattr(node(ino), &name), reply);
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let caller = caller(request, 0);
        self.weighed(Op::Fallocate, request, self.on(ino).takes(Load::Heavy), move |serving| {
            let tree = &serving.core.server.tree;
            serving.empty(tree.fallocate(&caller, fh(handle), mode, offset, length), reply);
        });
    }

    fn lseek(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.serve(Op::Lseek, request, ino, move |serving| {
            match serving.core.server.tree.lseek(fh(handle), offset, whence) {
                Ok(offset) => reply.offset(offset),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        ino_in: INodeNo,
        fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let caller = caller(request, 0);
        let range =
            CopyRange { from: fh(fh_in), from_offset: offset_in, to: fh(fh_out), to_offset: offset_out, len };
        let weight = self.core.on_both(node(ino_in), node(ino_out)).takes(Load::Heavy);
        self.weighed(Op::CopyFileRange, request, weight, move |serving| {
            match serving.core.server.tree.copy_file_range(&caller, &range) {
                // The backing tree copies no more at once than fits.
                Ok(copied) => reply.written(copied as u32),
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }

    fn ioctl(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        flags: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let (caller, data) = (caller(request, 0), data.to_owned());
        let open = match flags.contains(IoctlFlags::FUSE_IOCTL_DIR) {
            true => OpenNode::Dir(fh(handle)),
            false => OpenNode::File(fh(handle)),
        };
        self.serve(Op::Ioctl, request, ino, move |serving| {
            match serving.core.server.tree.ioctl(&caller, open, command, &data) {
                Ok(answer) => {
                    if answer.is_empty() {
                        // Something was set, which changes the time of change, and the kernel does not know it.
                        serving.forget_attributes(node(ino));
                    }
                    reply.ioctl(0, &answer);
                }
                Err(errno) => reply.error(serving.errno(errno)),
            }
        });
    }
}
