//! The callbacks of `fuser` as requests. Nothing is decided here.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, InitFlags, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    TimeOrNow, WriteFlags,
};
use namegate_wire::abi::{
    CopyFileRangeIn, CreateIn, FallocateIn, FlushIn, ForgetOne, FsyncIn, InHeader, IoctlIn, LseekIn, MkdirIn,
    MknodIn, OpenIn, ReadIn, ReleaseIn, SetattrIn, WriteIn, fattr, fsync,
};
use namegate_wire::{InitRequest, Negotiated, Operation, Reply, Request, Service};

use super::fuser_reply::{FuserReply, FuserSink, XattrReply};
use super::service::RequestService;

/// Serves requests that `fuser` reads.
#[derive(Debug)]
pub(super) struct FuserService {
    service: RequestService,
    wanted: InitRequest,
}

impl FuserService {
    /// Serves requests by `service`; `wanted` is what is requested from the kernel.
    pub(super) fn new(service: RequestService, wanted: InitRequest) -> Self {
        Self { service, wanted }
    }

    fn serve(
        &self,
        request: &fuser::Request,
        node: INodeNo,
        operation: Operation<'_>,
        reply: impl FuserReply,
    ) {
        let head = InHeader {
            unique: request.unique().0,
            nodeid: node.0,
            uid: request.uid(),
            gid: request.gid(),
            pid: request.pid(),
            ..InHeader::default()
        };
        let reply = Reply::to_sink(Box::new(FuserSink(reply)), head.unique);
        self.service.serve(&Request { head, operation, group: None }, reply);
    }
}

/// Seconds and nanoseconds of a time to set; `None` for now.
///
/// For times before the epoch, `fuser` 0.18 subtracts the nanoseconds, which must be added. Both numbers can still be
/// recovered.
fn requested_time(time: TimeOrNow) -> Option<(u64, u32)> {
    let TimeOrNow::SpecificTime(time) = time else { return None };
    let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
        Ok(after) => (0i64.saturating_add_unsigned(after.as_secs()), after.subsec_nanos()),
        Err(error) => {
            let before = error.duration();
            (0i64.saturating_sub_unsigned(before.as_secs()), before.subsec_nanos())
        }
    };
    Some((seconds.cast_unsigned(), nanoseconds))
}

/// The attributes to set, as the kernel sends them.
struct SetattrArguments {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    atime: Option<TimeOrNow>,
    mtime: Option<TimeOrNow>,
    fh: Option<FileHandle>,
}

impl From<SetattrArguments> for SetattrIn {
    fn from(set: SetattrArguments) -> Self {
        let SetattrArguments { mode, uid, gid, size, atime, mtime, fh } = set;
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let time = |time: Option<TimeOrNow>, set: u32, now: u32| match time.map(requested_time) {
            None => (0, (0, 0)),
            Some(None) => (set | now, (0, 0)),
            Some(Some(time)) => (set, time),
        };
        let (has_atime, (atime, atimensec)) = time(atime, fattr::ATIME, fattr::ATIME_NOW);
        let (has_mtime, (mtime, mtimensec)) = time(mtime, fattr::MTIME, fattr::MTIME_NOW);
        Self {
            valid: flag(mode.is_some(), fattr::MODE)
                | flag(uid.is_some(), fattr::UID)
                | flag(gid.is_some(), fattr::GID)
                | flag(size.is_some(), fattr::SIZE)
                | flag(fh.is_some(), fattr::FH)
                | has_atime
                | has_mtime,
            fh: fh.map_or(0, |fh| fh.0),
            size: size.unwrap_or_default(),
            mode: mode.unwrap_or_default(),
            uid: uid.unwrap_or_default(),
            gid: gid.unwrap_or_default(),
            atime,
            mtime,
            atimensec,
            mtimensec,
            ..Self::default()
        }
    }
}

fn fsync_in(fh: FileHandle, datasync: bool) -> FsyncIn {
    FsyncIn { fh: fh.0, fsync_flags: if datasync { fsync::FDATASYNC } else { 0 }, padding: 0 }
}

/// A range to read; the lists of `fuser` know their length.
fn read_in(fh: FileHandle, offset: u64, size: u32) -> ReadIn {
    ReadIn { fh: fh.0, offset, size, ..ReadIn::default() }
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
        let negotiated = Negotiated { minor: config.kernel_abi().1, flags: flags.bits() };
        self.service.core().set_negotiated(negotiated, wanted);
        Ok(())
    }

    fn lookup(&self, request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.serve(request, parent, Operation::Lookup { name }, reply);
    }

    fn forget(&self, _: &fuser::Request, ino: INodeNo, nlookup: u64) {
        self.service.forget(&mut std::iter::once(ForgetOne { nodeid: ino.0, nlookup }));
    }

    fn getattr(&self, request: &fuser::Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.serve(request, ino, Operation::Getattr, reply);
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
        fh: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetattrArguments { mode, uid, gid, size, atime, mtime, fh };
        self.serve(request, ino, Operation::Setattr(set.into()), reply);
    }

    fn readlink(&self, request: &fuser::Request, ino: INodeNo, reply: ReplyData) {
        self.serve(request, ino, Operation::Readlink, reply);
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
        let arg = MknodIn { mode, rdev, umask, padding: 0 };
        self.serve(request, parent, Operation::Mknod { arg, name }, reply);
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
        self.serve(request, parent, Operation::Mkdir { arg: MkdirIn { mode, umask }, name }, reply);
    }

    fn unlink(&self, request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(request, parent, Operation::Unlink { name }, reply);
    }

    fn rmdir(&self, request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(request, parent, Operation::Rmdir { name }, reply);
    }

    fn symlink(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.serve(request, parent, Operation::Symlink { name, target: target.as_os_str() }, reply);
    }

    fn rename(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let operation = Operation::Rename { name, new_parent: new_parent.0, new_name, flags: flags.bits() };
        self.serve(request, parent, operation, reply);
    }

    fn link(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        new_parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.serve(request, new_parent, Operation::Link { node: ino.0, name }, reply);
    }

    fn open(&self, request: &fuser::Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let arg = OpenIn { flags: flags.0.cast_unsigned(), open_flags: 0 };
        self.serve(request, ino, Operation::Open(arg), reply);
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
        let arg = CreateIn { flags: flags.cast_unsigned(), mode, umask, open_flags: 0 };
        self.serve(request, parent, Operation::Create { arg, name }, reply);
    }

    fn read(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.serve(request, ino, Operation::Read(read_in(fh, offset, size)), reply);
    }

    fn write(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let arg = WriteIn {
            fh: fh.0,
            offset,
            size: data.len() as u32,
            write_flags: write_flags.bits(),
            flags: flags.0.cast_unsigned(),
            ..WriteIn::default()
        };
        self.serve(request, ino, Operation::Write { arg, data }, reply);
    }

    fn flush(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        let arg = FlushIn { fh: fh.0, lock_owner: owner.0, ..FlushIn::default() };
        self.serve(request, ino, Operation::Flush(arg), reply);
    }

    fn release(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let arg = ReleaseIn { fh: fh.0, ..ReleaseIn::default() };
        self.serve(request, ino, Operation::Release(arg), reply);
    }

    fn fsync(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(request, ino, Operation::Fsync(fsync_in(fh, datasync)), reply);
    }

    fn opendir(&self, request: &fuser::Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let arg = OpenIn { flags: flags.0.cast_unsigned(), open_flags: 0 };
        self.serve(request, ino, Operation::Opendir(arg), reply);
    }

    fn readdir(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.serve(request, ino, Operation::Readdir(read_in(fh, offset, 0)), reply);
    }

    fn readdirplus(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.serve(request, ino, Operation::Readdirplus(read_in(fh, offset, 0)), reply);
    }

    fn releasedir(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let arg = ReleaseIn { fh: fh.0, ..ReleaseIn::default() };
        self.serve(request, ino, Operation::Releasedir(arg), reply);
    }

    fn fsyncdir(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(request, ino, Operation::Fsyncdir(fsync_in(fh, datasync)), reply);
    }

    fn statfs(&self, request: &fuser::Request, ino: INodeNo, reply: ReplyStatfs) {
        self.serve(request, ino, Operation::Statfs, reply);
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
        let operation = Operation::Setxattr { flags: flags.cast_unsigned(), name, value };
        self.serve(request, ino, operation, reply);
    }

    fn getxattr(&self, request: &fuser::Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.serve(request, ino, Operation::Getxattr { size, name }, XattrReply { reply, size });
    }

    fn listxattr(&self, request: &fuser::Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.serve(request, ino, Operation::Listxattr { size }, XattrReply { reply, size });
    }

    fn removexattr(&self, request: &fuser::Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(request, ino, Operation::Removexattr { name }, reply);
    }

    fn fallocate(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let arg = FallocateIn { fh: fh.0, offset, length, mode: mode.cast_unsigned(), padding: 0 };
        self.serve(request, ino, Operation::Fallocate(arg), reply);
    }

    fn lseek(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let (offset, whence) = (offset.cast_unsigned(), whence.cast_unsigned());
        self.serve(request, ino, Operation::Lseek(LseekIn { fh: fh.0, offset, whence, padding: 0 }), reply);
    }

    fn copy_file_range(
        &self,
        request: &fuser::Request,
        ino_in: INodeNo,
        fh_in: FileHandle,
        off_in: u64,
        ino_out: INodeNo,
        fh_out: FileHandle,
        off_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let (fh_in, nodeid_out, fh_out) = (fh_in.0, ino_out.0, fh_out.0);
        let arg = CopyFileRangeIn { fh_in, off_in, nodeid_out, fh_out, off_out, len, flags: 0 };
        self.serve(request, ino_in, Operation::CopyFileRange(arg), reply);
    }

    fn ioctl(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        fh: FileHandle,
        flags: IoctlFlags,
        cmd: u32,
        data: &[u8],
        out_size: u32,
        reply: ReplyIoctl,
    ) {
        let in_size = data.len() as u32;
        let arg = IoctlIn { fh: fh.0, flags: flags.bits(), cmd, arg: 0, in_size, out_size };
        self.serve(request, ino, Operation::Ioctl { arg, data }, reply);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_before_the_epoch_are_those_that_the_kernel_has_sent() {
        let as_fuser_makes_it = UNIX_EPOCH - Duration::new(2, 800_000_000);
        let time = |time| requested_time(TimeOrNow::SpecificTime(time));
        assert_eq!(time(as_fuser_makes_it), Some(((-2i64).cast_unsigned(), 800_000_000)));
        let lowest = UNIX_EPOCH - Duration::from_secs(1 << 63);
        assert_eq!(time(lowest), Some((i64::MIN.cast_unsigned(), 0)));
        assert_eq!(requested_time(TimeOrNow::Now), None);
    }

    #[test]
    fn only_what_is_set_is_valid() {
        let [atime, mtime] = [Some(TimeOrNow::Now), Some(TimeOrNow::SpecificTime(UNIX_EPOCH))];
        let set =
            SetattrArguments { mode: Some(0), uid: None, gid: Some(7), size: None, atime, mtime, fh: None };
        let expected = fattr::MODE | fattr::GID | fattr::ATIME | fattr::ATIME_NOW | fattr::MTIME;
        let set = SetattrIn::from(set);
        assert_eq!((set.valid, set.gid, set.fh), (expected, 7, 0));
    }
}
