//! The messages of the protocol as they are in memory, and its numbers, by linux/fuse.h.
//!
//! All numbers have the byte order of the machine. Names are those of the header, without `fuse_`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `FUSE_KERNEL_VERSION`.
pub const MAJOR: u32 = 7;
/// The minor version that this file describes: that of Linux 6.18.
pub const MINOR: u32 = 45;
/// The oldest minor version that is served: that of Linux 5.6.
pub const OLDEST_MINOR: u32 = 31;
/// The node id of the root of the file system (`FUSE_ROOT_ID`).
pub const ROOT: u64 = 1;

macro_rules! messages {
    ($($name:ident { $($field:ident: $type:ty),* })*) => {$(
        #[doc = concat!("`", stringify!($name), "` in the protocol.")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        #[allow(missing_docs, reason = "the fields have the names that linux/fuse.h explains")]
        pub struct $name { $(pub $field: $type),* }
    )*};
}

messages! {
    InHeader {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16
    }
    OutHeader { len: u32, error: i32, unique: u64 }

    Attr {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32
    }
    EntryOut {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: Attr
    }
    AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    OpenOut { fh: u64, open_flags: u32, backing_id: u32 }
    WriteOut { size: u32, padding: u32 }
    StatxTime { tv_sec: i64, tv_nsec: u32, reserved: i32 }
    StatxOut {
        attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], mask: u32, blksize: u32, attributes: u64,
        nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64,
        atime: StatxTime, btime: StatxTime, ctime: StatxTime, mtime: StatxTime, rdev_major: u32, rdev_minor: u32,
        dev_major: u32, dev_minor: u32, spare2: [u64; 14]
    }
    StatfsOut {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6]
    }
    GetxattrOut { size: u32, padding: u32 }
    IoctlOut { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
    LseekOut { offset: u64 }
    Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }

    InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    InitOut {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11]
    }
    ForgetIn { nlookup: u64 }
    BatchForgetIn { count: u32, dummy: u32 }
    ForgetOne { nodeid: u64, nlookup: u64 }
    SetattrIn {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32
    }
    MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    MkdirIn { mode: u32, umask: u32 }
    RenameIn { newdir: u64 }
    Rename2In { newdir: u64, flags: u32, padding: u32 }
    LinkIn { oldnodeid: u64 }
    OpenIn { flags: u32, open_flags: u32 }
    CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    FsyncIn { fh: u64, fsync_flags: u32, padding: u32 }
    SetxattrIn { size: u32, flags: u32 }
    GetxattrIn { size: u32, padding: u32 }
    InterruptIn { unique: u64 }
    IoctlIn { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }
    FileLock { start: u64, end: u64, kind: u32, pid: u32 }
    LkIn { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32 }
    FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }
    CopyFileRangeIn {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64
    }
    StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
    ExtHeader { size: u32, kind: u32 }
    SuppGroups { nr_groups: u32, first: u32 }

    NotifyInvalInodeOut { ino: u64, off: i64, len: i64 }
    NotifyInvalEntryOut { parent: u64, namelen: u32, flags: u32 }
    NotifyPruneOut { count: u32, padding: u32, spare: u64 }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $module:ident: $type:ty { $($name:ident = $value:expr),* $(,)? })*) => {$(
        $(#[$doc])*
        #[allow(missing_docs, reason = "linux/fuse.h explains them by the same names")]
        pub mod $module {
            $(pub const $name: $type = $value;)*

            /// All of them, with their names.
            pub const ALL: &[(&str, $type)] = &[$((stringify!($name), $name)),*];
        }
    )*};
}

numbers! {
    /// What a request asks for (`enum fuse_opcode`).
    opcode: u32 {
        LOOKUP = 1, FORGET = 2, GETATTR = 3, SETATTR = 4, READLINK = 5, SYMLINK = 6, MKNOD = 8, MKDIR = 9, UNLINK = 10,
        RMDIR = 11, RENAME = 12, LINK = 13, OPEN = 14, READ = 15, WRITE = 16, STATFS = 17, RELEASE = 18, FSYNC = 20,
        SETXATTR = 21, GETXATTR = 22, LISTXATTR = 23, REMOVEXATTR = 24, FLUSH = 25, INIT = 26, OPENDIR = 27,
        READDIR = 28, RELEASEDIR = 29, FSYNCDIR = 30, GETLK = 31, SETLK = 32, SETLKW = 33, CREATE = 35, INTERRUPT = 36, DESTROY = 38, IOCTL = 39,
        BATCH_FORGET = 42, FALLOCATE = 43, READDIRPLUS = 44, RENAME2 = 45, LSEEK = 46, COPY_FILE_RANGE = 47,
        TMPFILE = 51, STATX = 52,
    }
    /// What kernel and server agree on by INIT.
    init: u64 {
        ASYNC_READ = 1 << 0, POSIX_LOCKS = 1 << 1, EXPORT_SUPPORT = 1 << 4, BIG_WRITES = 1 << 5, DONT_MASK = 1 << 6, FLOCK_LOCKS = 1 << 10,
        AUTO_INVAL_DATA = 1 << 12,
        DO_READDIRPLUS = 1 << 13, READDIRPLUS_AUTO = 1 << 14, ASYNC_DIO = 1 << 15, PARALLEL_DIROPS = 1 << 18,
        POSIX_ACL = 1 << 20, MAX_PAGES = 1 << 22, CACHE_SYMLINKS = 1 << 23, HANDLE_KILLPRIV_V2 = 1 << 28,
        INIT_EXT = 1 << 30, CREATE_SUPP_GROUP = 1 << 34, DIRECT_IO_ALLOW_MMAP = 1 << 36, PASSTHROUGH = 1 << 37,
        ALLOW_IDMAP = 1 << 40, OVER_IO_URING = 1 << 41,
    }
    /// Which fields of [`SetattrIn`] are valid.
    fattr: u32 {
        MODE = 1 << 0, UID = 1 << 1, GID = 1 << 2, SIZE = 1 << 3, ATIME = 1 << 4, MTIME = 1 << 5, FH = 1 << 6,
        ATIME_NOW = 1 << 7, MTIME_NOW = 1 << 8,
    }
    /// Flags of the reply to OPEN and OPENDIR.
    fopen: u32 {
        DIRECT_IO = 1 << 0, KEEP_CACHE = 1 << 1, CACHE_DIR = 1 << 3, NOFLUSH = 1 << 5, PASSTHROUGH = 1 << 7,
    }
    /// Flags of [`WriteIn`].
    write: u32 { CACHE = 1 << 0, KILL_SUIDGID = 1 << 2 }
    /// Flags of [`LkIn`].
    lk: u32 { FLOCK = 1 << 0 }
    /// Flags of [`FsyncIn`].
    fsync: u32 { FDATASYNC = 1 << 0 }
    /// Flags of [`IoctlIn`].
    ioctl: u32 { DIR = 1 << 4 }
    /// Kinds of extensions of a request (`enum fuse_ext_type`).
    ext: u32 { GROUPS = 32 }
    /// Flags of [`NotifyInvalEntryOut`].
    inval_entry: u32 { EXPIRE_ONLY = 1 << 0 }
    /// Notifications (`enum fuse_notify_code`).
    notify: i32 { INVAL_INODE = 2, INVAL_ENTRY = 3, PRUNE = 9 }
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;

    use super::*;

    #[test]
    fn messages_have_the_sizes_of_the_header() {
        // `sizeof` of each structure in C, from linux/fuse.h.
        assert_eq!((size_of::<InHeader>(), size_of::<OutHeader>()), (40, 16));
        assert_eq!((size_of::<Attr>(), size_of::<EntryOut>(), size_of::<AttrOut>()), (88, 128, 104));
        assert_eq!((size_of::<OpenOut>(), size_of::<WriteOut>(), size_of::<StatfsOut>()), (16, 8, 80));
        assert_eq!((size_of::<GetxattrOut>(), size_of::<IoctlOut>(), size_of::<LseekOut>()), (8, 16, 8));
        assert_eq!((size_of::<Dirent>(), size_of::<InitIn>(), size_of::<InitOut>()), (24, 16, 64));
        assert_eq!((size_of::<ForgetIn>(), size_of::<BatchForgetIn>(), size_of::<ForgetOne>()), (8, 8, 16));
        assert_eq!((size_of::<SetattrIn>(), size_of::<MknodIn>(), size_of::<MkdirIn>()), (88, 16, 8));
        assert_eq!((size_of::<RenameIn>(), size_of::<Rename2In>(), size_of::<LinkIn>()), (8, 16, 8));
        assert_eq!((size_of::<OpenIn>(), size_of::<CreateIn>(), size_of::<ReadIn>()), (8, 16, 40));
        assert_eq!((size_of::<WriteIn>(), size_of::<ReleaseIn>(), size_of::<FlushIn>()), (40, 24, 24));
        assert_eq!((size_of::<FsyncIn>(), size_of::<SetxattrIn>(), size_of::<GetxattrIn>()), (16, 8, 8));
        assert_eq!((size_of::<InterruptIn>(), size_of::<IoctlIn>(), size_of::<FallocateIn>()), (8, 32, 32));
        assert_eq!((size_of::<LseekIn>(), size_of::<CopyFileRangeIn>(), size_of::<ExtHeader>()), (24, 56, 8));
        assert_eq!((size_of::<NotifyInvalInodeOut>(), size_of::<NotifyInvalEntryOut>()), (24, 16));
        assert_eq!((size_of::<FileLock>(), size_of::<LkIn>()), (24, 48));
        assert_eq!((size_of::<NotifyPruneOut>(), size_of::<StatxIn>(), size_of::<StatxOut>()), (16, 24, 288));
    }
}
