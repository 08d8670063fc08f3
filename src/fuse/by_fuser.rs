//! Requests and replies of `fuser`: decodes them, passes them to the operations, encodes the results. Nothing is decided
//! here.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, TimeOrNow, WriteFlags,
};
use namegate_sys::fuse::{answer_create, answer_open};
use nix::errno::Errno;
use nix::sys::statvfs::Statvfs;

use super::dispatch::RequestCore;
use super::operations::WriteRequest;
use super::replies::{
    AttributeSize, EntryList, FileOffset, FoundEntry, IoctlOutput, ListedEntry, NameList, NodeAttributes,
    OpenedNode, Responder, Responds, RespondsBytes, WrittenBytes,
};
use super::reroot::node;
use super::translate::{attributes, bare, file_type_of_entry, requested_time};
use crate::passthrough::{Caller, Changes, CopyRange, Fh, OpenNode};
use crate::wire::{InitRequest, Negotiated};

/// Serves requests that `fuser` reads.
#[derive(Debug)]
pub(super) struct FuserService {
    core: Arc<RequestCore>,
    wanted: InitRequest,
}

impl FuserService {
    /// Serves requests by `core`; `wanted` is what is requested from the kernel.
    pub(super) fn new(core: Arc<RequestCore>, wanted: InitRequest) -> Self {
        Self { core, wanted }
    }
}

fn caller(request: &fuser::Request, umask: u32) -> Caller {
    Caller { umask, ..Caller::of_request((request.uid(), request.gid()), request.pid(), None) }
}

fn at(ino: INodeNo) -> crate::passthrough::NodeId {
    node(ino.0)
}

fn fh(handle: FileHandle) -> Fh {
    Fh(handle.0)
}

impl Filesystem for FuserService {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = &self.wanted;
        let flags = InitFlags::from_bits_retain(wanted.flags) & config.capabilities();
        // The nearest supported value is good enough.
        let _ = config.add_capabilities(flags);
        let _ = config.set_max_write(wanted.max_transfer);
        let _ = config.set_max_background(wanted.max_background);
        let _ = config.set_max_stack_depth(flags.contains(InitFlags::FUSE_PASSTHROUGH).into());
        self.core.set_negotiated(Negotiated { minor: config.kernel_abi().1, flags: flags.bits() }, wanted);
        Ok(())
    }

    fn lookup(&self, request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.core.lookup(&caller(request, 0), at(parent), name, reply);
    }

    fn forget(&self, _: &fuser::Request, ino: INodeNo, nlookup: u64) {
        self.core.forget(std::iter::once((at(ino), nlookup)));
    }

    fn getattr(&self, request: &fuser::Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.core.getattr(&caller(request, 0), at(ino), reply);
    }

    fn setattr(
        &self,
        request: &fuser::Request,
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
        self.core.setattr(caller(request, 0), at(ino), handle.map(fh), changes, reply);
    }

    fn readlink(&self, request: &fuser::Request, ino: INodeNo, reply: ReplyData) {
        self.core.readlink(&caller(request, 0), at(ino), reply);
    }

    fn mknod(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.core.mknod(caller(request, umask), (at(parent), name), (mode, rdev), reply);
    }

    fn mkdir(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.core.mkdir(caller(request, umask), (at(parent), name), mode, reply);
    }

    fn unlink(&self, request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.core.unlink(&caller(request, 0), at(parent), name, reply);
    }

    fn rmdir(&self, request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.core.rmdir(&caller(request, 0), at(parent), name, reply);
    }

    fn symlink(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.core.symlink(caller(request, 0), (at(parent), name), target.as_os_str(), reply);
    }

    fn rename(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((at(parent), name), (at(newparent), newname));
        self.core.rename(caller(request, 0), from, to, flags.bits(), reply);
    }

    fn link(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        self.core.link(caller(request, 0), at(ino), (at(newparent), newname), reply);
    }

    fn open(&self, request: &fuser::Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.core.open(caller(request, 0), at(ino), flags.0, reply);
    }

    fn create(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.core.create(caller(request, umask), (at(parent), name), mode, flags, reply);
    }

    fn read(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.core.read(&caller(request, 0), at(ino), fh(handle), (offset, size), reply);
    }

    fn write(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        open_flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let writing = WriteRequest {
            node: at(ino),
            fh: fh(handle),
            offset,
            is_cached: flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            clears_set_id: flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            open_flags: open_flags.0,
        };
        self.core.write(caller(request, 0), &writing, data, reply);
    }

    fn flush(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.core.flush(&caller(request, 0), at(ino), fh(handle), owner.0, reply);
    }

    fn release(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.core.release(&caller(request, 0), at(ino), fh(handle), reply);
    }

    fn fsync(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.core.fsync(&caller(request, 0), at(ino), fh(handle), datasync, reply);
    }

    fn opendir(&self, request: &fuser::Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.core.opendir(&caller(request, 0), at(ino), reply);
    }

    fn readdir(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.core.readdir(&caller(request, 0), at(ino), fh(handle), offset, reply);
    }

    fn readdirplus(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.core.readdirplus(&caller(request, 0), at(ino), fh(handle), offset, reply);
    }

    fn releasedir(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.core.releasedir(&caller(request, 0), at(ino), fh(handle), reply);
    }

    fn fsyncdir(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.core.fsyncdir(&caller(request, 0), at(ino), fh(handle), datasync, reply);
    }

    fn statfs(&self, request: &fuser::Request, ino: INodeNo, reply: ReplyStatfs) {
        self.core.statfs(&caller(request, 0), at(ino), reply);
    }

    fn setxattr(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        self.core.setxattr(caller(request, 0), at(ino), (name, value), flags, reply);
    }

    fn getxattr(&self, request: &fuser::Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.core.getxattr(&caller(request, 0), at(ino), (name, size), reply);
    }

    fn listxattr(&self, request: &fuser::Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.core.listxattr(caller(request, 0), at(ino), size, reply);
    }

    fn removexattr(&self, request: &fuser::Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.core.removexattr(&caller(request, 0), at(ino), name, reply);
    }

    fn fallocate(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.core.fallocate(caller(request, 0), (at(ino), fh(handle)), mode, (offset, length), reply);
    }

    fn lseek(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.core.lseek(&caller(request, 0), (at(ino), fh(handle)), offset, whence, reply);
    }

    fn copy_file_range(
        &self,
        request: &fuser::Request,
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
        let range =
            CopyRange { from: fh(fh_in), from_offset: offset_in, to: fh(fh_out), to_offset: offset_out, len };
        self.core.copy_file_range(caller(request, 0), (at(ino_in), at(ino_out)), range, reply);
    }

    fn ioctl(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        flags: IoctlFlags,
        command: u32,
        data: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let open = match flags.contains(IoctlFlags::FUSE_IOCTL_DIR) {
            true => OpenNode::Dir(fh(handle)),
            false => OpenNode::File(fh(handle)),
        };
        self.core.ioctl(caller(request, 0), (at(ino), open), command, data, reply);
    }
}

macro_rules! responders {
    ($($reply:ty),*) => {$(
        impl Responder for $reply {
            fn error(self, errno: Errno) {
                Self::error(self, fuser::Errno::from_i32(errno as i32));
            }
        }
    )*};
}

responders!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyIoctl,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

fn generation(found: &FoundEntry) -> Generation {
    Generation(found.generation.into())
}

impl Responds<()> for ReplyEmpty {
    fn respond(self, (): ()) {
        self.ok();
    }
}

impl RespondsBytes for ReplyData {
    fn respond_bytes(self, bytes: &[u8]) {
        self.data(bytes);
    }
}

impl Responds<FoundEntry> for ReplyEntry {
    fn respond(self, found: FoundEntry) {
        let attributes = attributes(&found.stat);
        self.entry_with_ttls(&found.attr_timeout, &found.name_timeout, &attributes, generation(&found));
    }
}

impl Responds<NodeAttributes> for ReplyAttr {
    fn respond(self, NodeAttributes { stat, timeout }: NodeAttributes) {
        self.attr(&timeout, &attributes(&stat));
    }
}

impl Responds<OpenedNode> for ReplyOpen {
    fn respond(self, opened: OpenedNode) {
        let (fh, flags) = (FileHandle(opened.fh.0), FopenFlags::from_bits_retain(opened.flags));
        match opened.backing {
            Some(backing) => answer_open(self, fh, flags, backing.number()),
            None => self.opened(fh, flags),
        }
    }
}

impl Responds<(FoundEntry, OpenedNode)> for ReplyCreate {
    fn respond(self, (found, opened): (FoundEntry, OpenedNode)) {
        let (attr, generation, timeout) = (attributes(&found.stat), generation(&found), found.timeout());
        let (fh, flags) = (FileHandle(opened.fh.0), FopenFlags::from_bits_retain(opened.flags));
        match opened.backing {
            Some(backing) => {
                answer_create(self, (&timeout, &attr, generation), fh, flags, backing.number());
            }
            None => self.created(&timeout, &attr, generation, fh, flags),
        }
    }
}

impl Responds<WrittenBytes> for ReplyWrite {
    fn respond(self, WrittenBytes(bytes): WrittenBytes) {
        self.written(bytes);
    }
}

impl Responds<AttributeSize> for ReplyXattr {
    fn respond(self, AttributeSize(size): AttributeSize) {
        self.size(size);
    }
}

impl RespondsBytes for ReplyXattr {
    fn respond_bytes(self, bytes: &[u8]) {
        self.data(bytes);
    }
}

impl Responds<FileOffset> for ReplyLseek {
    fn respond(self, FileOffset(offset): FileOffset) {
        self.offset(offset);
    }
}

impl Responds<IoctlOutput> for ReplyIoctl {
    fn respond(self, IoctlOutput(output): IoctlOutput) {
        self.ioctl(0, &output);
    }
}

impl Responds<Statvfs> for ReplyStatfs {
    fn respond(self, stat: Statvfs) {
        self.statfs(
            stat.blocks(),
            stat.blocks_free(),
            stat.blocks_available(),
            stat.files(),
            stat.files_free(),
            stat.block_size() as u32,
            stat.name_max() as u32,
            stat.fragment_size() as u32,
        );
    }
}

impl NameList for ReplyDirectory {
    fn add(&mut self, entry: &ListedEntry<'_>) -> bool {
        !Self::add(self, INodeNo(entry.ino), entry.next, file_type_of_entry(entry.kind), entry.name)
    }

    fn done(self) {
        self.ok();
    }
}

impl EntryList for ReplyDirectoryPlus {
    /// `fuser` sends the inode number as node id. The kernel ignores the node id for `.` and `..` only.
    const CAN_NAME_ONLY: bool = false;

    fn add(&mut self, entry: &ListedEntry<'_>, found: Option<&FoundEntry>) -> bool {
        let (attr, generation, timeout) = match found {
            Some(found) => (attributes(&found.stat), generation(found), found.timeout()),
            None => (bare(entry.ino, entry.kind), Generation(0), std::time::Duration::ZERO),
        };
        !Self::add(self, attr.ino, entry.next, entry.name, &timeout, &attr, generation)
    }

    fn done(self) {
        self.ok();
    }
}
