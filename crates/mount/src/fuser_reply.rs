//! Replies by the types of `fuser`, from the messages that /dev/fuse would get.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr,
};
use namegate_sys::fuse::{answer_create, answer_open};
use namegate_wire::ReplySink;
use namegate_wire::abi::{
    Attr, AttrOut, Dirent, EntryOut, GetxattrOut, LseekOut, OpenOut, StatfsOut, WriteOut, fopen,
};
use zerocopy::FromBytes;

/// A reply type of `fuser`.
pub(super) trait FuserReply: Debug + Send + 'static {
    fn fail(self, errno: fuser::Errno);

    /// Sends the message that consists of these parts.
    fn answer(self, parts: &[&[u8]]);

    /// Adds an entry to a list. Returns whether there was room.
    fn add(&mut self, _found: Option<&EntryOut>, _entry: &Dirent, _name: &OsStr) -> bool {
        false
    }
}

/// Sends replies by `R`.
#[derive(Debug)]
pub(super) struct FuserSink<R>(pub(super) R);

impl<R: FuserReply> ReplySink for FuserSink<R> {
    fn send(self: Box<Self>, error: i32, parts: &[&[u8]]) {
        match error {
            0 => self.0.answer(parts),
            error => self.0.fail(fuser::Errno::from_i32(-error)),
        }
    }

    fn add(&mut self, found: Option<&EntryOut>, entry: &Dirent, name: &OsStr) -> bool {
        self.0.add(found, entry, name)
    }

    /// `fuser` sends the inode number as node id. The kernel ignores the node id for `.` and `..` only.
    fn can_list_names(&self) -> bool {
        false
    }
}

/// The reply to GETXATTR and LISTXATTR.
#[derive(Debug)]
pub(super) struct XattrReply {
    pub(super) reply: ReplyXattr,
    /// The longest reply; 0 to ask for the length alone.
    pub(super) size: u32,
}

/// Implements [`FuserReply`] for types, each with what it does with `self` and the parts of a message.
macro_rules! replies {
    ($($reply:ty: |$this:ident, $parts:ident| $answer:expr;)*) => {$(
        impl FuserReply for $reply {
            fn fail(self, errno: fuser::Errno) {
                self.error(errno);
            }

            fn answer(self, $parts: &[&[u8]]) {
                let $this = self;
                $answer
            }
        }
    )*};
}

/// The message that `parts` begin with.
fn message<T: FromBytes>(parts: &[&[u8]]) -> Option<T> {
    T::read_from_prefix(parts.first()?).ok().map(|(message, _)| message)
}

replies! {
    ReplyEmpty: |reply, _parts| reply.ok();
    ReplyData: |reply, parts| reply.data(parts.first().copied().unwrap_or_default());
    ReplyEntry: |reply, parts| match message(parts) {
        Some(found) => {
            let (name, attributes, generation) = timeouts(&found);
            reply.entry_with_ttls(&attributes, &name, &file_attr(&found.attr), generation);
        }
        None => reply.error(fuser::Errno::EIO),
    };
    ReplyAttr: |reply, parts| match message::<AttrOut>(parts) {
        Some(out) => reply.attr(&Duration::new(out.attr_valid, out.attr_valid_nsec), &file_attr(&out.attr)),
        None => reply.error(fuser::Errno::EIO),
    };
    ReplyOpen: |reply, parts| match message::<OpenOut>(parts) {
        Some(OpenOut { fh, open_flags, backing_id }) if open_flags & fopen::PASSTHROUGH != 0 => {
            answer_open(reply, FileHandle(fh), without_passthrough(open_flags), backing_id);
        }
        Some(out) => reply.opened(FileHandle(out.fh), without_passthrough(out.open_flags)),
        None => reply.error(fuser::Errno::EIO),
    };
    ReplyCreate: |reply, parts| match (message(parts), message::<OpenOut>(parts.get(1..).unwrap_or_default())) {
        (Some(found), Some(OpenOut { fh, open_flags, backing_id })) => {
            // There is one timeout for both.
            let (name, attributes, generation) = timeouts(&found);
            let (timeout, attr) = (name.min(attributes), file_attr(&found.attr));
            let flags = without_passthrough(open_flags);
            if open_flags & fopen::PASSTHROUGH == 0 {
                reply.created(&timeout, &attr, generation, FileHandle(fh), flags);
            } else {
                answer_create(reply, (&timeout, &attr, generation), FileHandle(fh), flags, backing_id);
            }
        }
        _ => reply.error(fuser::Errno::EIO),
    };
    ReplyWrite: |reply, parts| match message::<WriteOut>(parts) {
        Some(out) => reply.written(out.size),
        None => reply.error(fuser::Errno::EIO),
    };
    ReplyLseek: |reply, parts| match message::<LseekOut>(parts) {
        Some(out) => reply.offset(out.offset.cast_signed()),
        None => reply.error(fuser::Errno::EIO),
    };
    // The first part is IoctlOut, which `fuser` adds.
    ReplyIoctl: |reply, parts| reply.ioctl(0, parts.get(1).copied().unwrap_or_default());
    ReplyStatfs: |reply, parts| match message::<StatfsOut>(parts) {
        Some(out) => reply.statfs(
            out.blocks, out.bfree, out.bavail, out.files, out.ffree, out.bsize, out.namelen, out.frsize,
        ),
        None => reply.error(fuser::Errno::EIO),
    };
}

impl FuserReply for XattrReply {
    fn fail(self, errno: fuser::Errno) {
        self.reply.error(errno);
    }

    fn answer(self, parts: &[&[u8]]) {
        match message::<GetxattrOut>(parts) {
            Some(out) if self.size == 0 => self.reply.size(out.size),
            _ => self.reply.data(parts.first().copied().unwrap_or_default()),
        }
    }
}

impl FuserReply for ReplyDirectory {
    fn fail(self, errno: fuser::Errno) {
        self.error(errno);
    }

    fn answer(self, _: &[&[u8]]) {
        self.ok();
    }

    fn add(&mut self, _: Option<&EntryOut>, entry: &Dirent, name: &OsStr) -> bool {
        !Self::add(self, INodeNo(entry.ino), entry.off, file_type_of_entry(entry), name)
    }
}

impl FuserReply for ReplyDirectoryPlus {
    fn fail(self, errno: fuser::Errno) {
        self.error(errno);
    }

    fn answer(self, _: &[&[u8]]) {
        self.ok();
    }

    fn add(&mut self, found: Option<&EntryOut>, entry: &Dirent, name: &OsStr) -> bool {
        // Only `.` and `..` come without a node, and the kernel reads nothing else of them than number and type.
        let bare = EntryOut {
            attr: Attr { ino: entry.ino, mode: entry.kind << 12, nlink: 1, ..Attr::default() },
            ..EntryOut::default()
        };
        let found = found.filter(|found| found.nodeid != 0).unwrap_or(&bare);
        let (name_timeout, attributes, generation) = timeouts(found);
        let (timeout, attr) = (name_timeout.min(attributes), file_attr(&found.attr));
        !Self::add(self, attr.ino, entry.off, name, &timeout, &attr, generation)
    }
}

/// How long the kernel may cache the name and the attributes, and the generation.
fn timeouts(found: &EntryOut) -> (Duration, Duration, Generation) {
    let name = Duration::new(found.entry_valid, found.entry_valid_nsec);
    let attributes = Duration::new(found.attr_valid, found.attr_valid_nsec);
    (name, attributes, Generation(found.generation))
}

/// `fuser` adds the flag of passthrough.
fn without_passthrough(flags: u32) -> FopenFlags {
    FopenFlags::from_bits_retain(flags & !fopen::PASSTHROUGH)
}

fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime.cast_signed(), attr.atimensec),
        mtime: time(attr.mtime.cast_signed(), attr.mtimensec),
        ctime: time(attr.ctime.cast_signed(), attr.ctimensec),
        // Only macOS uses this field.
        crtime: UNIX_EPOCH,
        kind: file_type(attr.mode),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: attr.blksize,
        flags: 0,
    }
}

/// A time of a file. Times that `SystemTime` cannot hold, which no file system has, are shown as the epoch.
fn time(seconds: i64, nanoseconds: u32) -> SystemTime {
    let whole = match seconds >= 0 {
        true => UNIX_EPOCH.checked_add(Duration::from_secs(seconds.unsigned_abs())),
        false => UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs())),
    };
    let part = Duration::from_nanos(nanoseconds.into());
    whole.and_then(|whole| whole.checked_add(part)).unwrap_or(UNIX_EPOCH)
}

fn file_type(mode: u32) -> FileType {
    match mode & libc::S_IFMT {
        libc::S_IFIFO => FileType::NamedPipe,
        libc::S_IFCHR => FileType::CharDevice,
        libc::S_IFBLK => FileType::BlockDevice,
        libc::S_IFDIR => FileType::Directory,
        libc::S_IFLNK => FileType::Symlink,
        libc::S_IFSOCK => FileType::Socket,
        // Linux knows no other type.
        _ => FileType::RegularFile,
    }
}

/// The type of a directory entry: DTTOIF of dirent.h has the same numbers, shifted.
fn file_type_of_entry(entry: &Dirent) -> FileType {
    file_type(entry.kind << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_keep_their_nanoseconds() {
        assert_eq!(time(-2, 800_000_000), UNIX_EPOCH - Duration::from_millis(1200));
        assert_eq!(time(i64::MIN, 0), UNIX_EPOCH.checked_sub(Duration::from_secs(1 << 63)).unwrap());
    }
}
