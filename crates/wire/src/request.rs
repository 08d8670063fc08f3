//! Requests, taken apart without copying.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use zerocopy::{FromBytes, IntoBytes};

use super::abi::{
    BatchForgetIn, CopyFileRangeIn, CreateIn, ExtHeader, FallocateIn, FlushIn, ForgetIn, ForgetOne, FsyncIn,
    GetxattrIn, InHeader, InitIn, InterruptIn, IoctlIn, LinkIn, LkIn, LseekIn, MkdirIn, MknodIn, OpenIn,
    ReadIn, ReleaseIn, Rename2In, RenameIn, SetattrIn, SetxattrIn, StatxIn, SuppGroups, WriteIn, ext, opcode,
};

#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Who asks, and for which node.
    pub head: InHeader,
    /// What is asked for.
    pub operation: Operation<'a>,
    /// For an operation that creates something: the group of the directory, if it is one of the client's supplementary groups.
    pub group: Option<u32>,
}

/// What a request asks for, of the node in its header.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "operations and fields have the names that linux/fuse.h explains")]
pub enum Operation<'a> {
    Lookup {
        name: &'a OsStr,
    },
    Forget {
        lookups: u64,
    },
    BatchForget(Forgets<'a>),
    Getattr,
    Statx(StatxIn),
    Setattr(SetattrIn),
    Readlink,
    Symlink {
        name: &'a OsStr,
        target: &'a OsStr,
    },
    Mknod {
        arg: MknodIn,
        name: &'a OsStr,
    },
    Mkdir {
        arg: MkdirIn,
        name: &'a OsStr,
    },
    Unlink {
        name: &'a OsStr,
    },
    Rmdir {
        name: &'a OsStr,
    },
    Rename {
        name: &'a OsStr,
        new_parent: u64,
        new_name: &'a OsStr,
        flags: u32,
    },
    Link {
        node: u64,
        name: &'a OsStr,
    },
    Open(OpenIn),
    Read(ReadIn),
    Write {
        arg: WriteIn,
        data: &'a [u8],
    },
    Statfs,
    Release(ReleaseIn),
    Fsync(FsyncIn),
    Setxattr {
        flags: u32,
        name: &'a OsStr,
        value: &'a [u8],
    },
    Getxattr {
        size: u32,
        name: &'a OsStr,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a OsStr,
    },
    Flush(FlushIn),
    Init {
        arg: InitIn,
        flags2: u32,
    },
    Opendir(OpenIn),
    Readdir(ReadIn),
    Readdirplus(ReadIn),
    Releasedir(ReleaseIn),
    Fsyncdir(FsyncIn),
    Getlk(LkIn),
    Setlk {
        arg: LkIn,
        /// The reply comes when the lock is free.
        waits: bool,
    },
    Create {
        arg: CreateIn,
        name: &'a OsStr,
    },
    /// The kernel sends `/` for a name, which nothing has.
    Tmpfile(CreateIn),
    Interrupt {
        unique: u64,
    },
    Destroy,
    Ioctl {
        arg: IoctlIn,
        data: &'a [u8],
    },
    Fallocate(FallocateIn),
    Lseek(LseekIn),
    CopyFileRange(CopyFileRangeIn),
    /// Anything else: it is not served.
    Unknown,
}

/// A malformed message; the kernel never sends one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The number by which it can be answered, if that much could be read.
    pub unique: Option<u64>,
    /// What it asks for, likewise.
    pub opcode: Option<u32>,
}

/// The nodes of a BATCH_FORGET, with the number of lookups to subtract.
#[derive(Clone, Copy, Debug)]
pub struct Forgets<'a>(&'a [u8]);

impl Iterator for Forgets<'_> {
    type Item = ForgetOne;

    fn next(&mut self) -> Option<ForgetOne> {
        let (one, rest) = ForgetOne::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(one)
    }
}

impl<'a> Request<'a> {
    /// Takes one message apart.
    ///
    /// # Errors
    /// The message is too short for what it asks for, or a name in it does not end.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let unreadable = Malformed { unique: None, opcode: None };
        let (head, _) = InHeader::read_from_prefix(message).map_err(|_| unreadable)?;
        let malformed = Malformed { unique: Some(head.unique), opcode: Some(head.opcode) };
        let message = message.get(..head.len as usize).ok_or(malformed)?;
        let extensions = usize::from(head.total_extlen) * 8;
        let end = message.len().checked_sub(extensions).ok_or(malformed)?;
        let body = message.get(size_of::<InHeader>()..end).ok_or(malformed)?;
        let operation = Body(body).operation(head.opcode).ok_or(malformed)?;
        let group = group(Body(&message[end..]));
        Ok(Self { head, operation, group })
    }
}

/// The group in the extensions of a request. The kernel sends one at most.
fn group(mut extensions: Body<'_>) -> Option<u32> {
    loop {
        let ExtHeader { size, kind } = extensions.arg()?;
        let mut extension = Body(extensions.bytes(size.checked_sub(size_of::<ExtHeader>() as u32)?)?);
        if kind == ext::GROUPS {
            return extension
                .arg::<SuppGroups>()
                .filter(|groups| groups.nr_groups > 0)
                .map(|groups| groups.first);
        }
    }
}

/// The rest of a message.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn arg<T: FromBytes>(&mut self) -> Option<T> {
        let (arg, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(arg)
    }

    /// A string that ends with NUL.
    fn name(&mut self) -> Option<&'a OsStr> {
        let end = memchr::memchr(0, self.0)?;
        let name = OsStr::from_bytes(&self.0[..end]);
        self.0 = &self.0[end + 1..];
        Some(name)
    }

    fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len as usize)?;
        self.0 = rest;
        Some(bytes)
    }

    fn operation(mut self, opcode: u32) -> Option<Operation<'a>> {
        Some(match opcode {
            opcode::LOOKUP => Operation::Lookup { name: self.name()? },
            opcode::FORGET => Operation::Forget { lookups: self.arg::<ForgetIn>()?.nlookup },
            opcode::BATCH_FORGET => {
                let len = self.arg::<BatchForgetIn>()?.count.checked_mul(size_of::<ForgetOne>() as u32)?;
                Operation::BatchForget(Forgets(self.bytes(len)?))
            }
            opcode::GETATTR => Operation::Getattr,
            opcode::STATX => Operation::Statx(self.arg()?),
            opcode::SETATTR => Operation::Setattr(self.arg()?),
            opcode::READLINK => Operation::Readlink,
            opcode::SYMLINK => Operation::Symlink { name: self.name()?, target: self.name()? },
            opcode::MKNOD => Operation::Mknod { arg: self.arg()?, name: self.name()? },
            opcode::MKDIR => Operation::Mkdir { arg: self.arg()?, name: self.name()? },
            opcode::UNLINK => Operation::Unlink { name: self.name()? },
            opcode::RMDIR => Operation::Rmdir { name: self.name()? },
            opcode::RENAME => {
                let RenameIn { newdir } = self.arg()?;
                self.rename(newdir, 0)?
            }
            opcode::RENAME2 => {
                let Rename2In { newdir, flags, .. } = self.arg()?;
                self.rename(newdir, flags)?
            }
            opcode::LINK => Operation::Link { node: self.arg::<LinkIn>()?.oldnodeid, name: self.name()? },
            opcode::OPEN => Operation::Open(self.arg()?),
            opcode::READ => Operation::Read(self.arg()?),
            opcode::WRITE => {
                let arg: WriteIn = self.arg()?;
                Operation::Write { arg, data: self.bytes(arg.size)? }
            }
            opcode::STATFS => Operation::Statfs,
            opcode::RELEASE => Operation::Release(self.arg()?),
            opcode::FSYNC => Operation::Fsync(self.arg()?),
            opcode::SETXATTR => {
                let SetxattrIn { size, flags } = self.arg()?;
                Operation::Setxattr { flags, name: self.name()?, value: self.bytes(size)? }
            }
            opcode::GETXATTR => {
                Operation::Getxattr { size: self.arg::<GetxattrIn>()?.size, name: self.name()? }
            }
            opcode::LISTXATTR => Operation::Listxattr { size: self.arg::<GetxattrIn>()?.size },
            opcode::REMOVEXATTR => Operation::Removexattr { name: self.name()? },
            opcode::FLUSH => Operation::Flush(self.arg()?),
            opcode::INIT => {
                // The second word of flags comes since 7.36.
                Operation::Init { arg: self.arg()?, flags2: self.arg().unwrap_or_default() }
            }
            opcode::OPENDIR => Operation::Opendir(self.arg()?),
            opcode::READDIR => Operation::Readdir(self.arg()?),
            opcode::READDIRPLUS => Operation::Readdirplus(self.arg()?),
            opcode::RELEASEDIR => Operation::Releasedir(self.arg()?),
            opcode::FSYNCDIR => Operation::Fsyncdir(self.arg()?),
            opcode::GETLK => Operation::Getlk(self.arg()?),
            opcode::SETLK => Operation::Setlk { arg: self.arg()?, waits: false },
            opcode::SETLKW => Operation::Setlk { arg: self.arg()?, waits: true },
            opcode::CREATE => Operation::Create { arg: self.arg()?, name: self.name()? },
            opcode::TMPFILE => Operation::Tmpfile(self.arg()?),
            opcode::INTERRUPT => Operation::Interrupt { unique: self.arg::<InterruptIn>()?.unique },
            opcode::DESTROY => Operation::Destroy,
            opcode::IOCTL => {
                let arg: IoctlIn = self.arg()?;
                Operation::Ioctl { arg, data: self.bytes(arg.in_size)? }
            }
            opcode::FALLOCATE => Operation::Fallocate(self.arg()?),
            opcode::LSEEK => Operation::Lseek(self.arg()?),
            opcode::COPY_FILE_RANGE => Operation::CopyFileRange(self.arg()?),
            _ => Operation::Unknown,
        })
    }

    fn rename(&mut self, new_parent: u64, flags: u32) -> Option<Operation<'a>> {
        Some(Operation::Rename { name: self.name()?, new_parent, new_name: self.name()?, flags })
    }
}

/// A message with a header and these parts, as the kernel sends it: for tests.
pub fn message(head: InHeader, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let len = size_of::<InHeader>() + body.len();
    [InHeader { len: len as u32, ..head }.as_bytes(), &body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(opcode: u32) -> InHeader {
        InHeader { opcode, unique: 6, nodeid: 9, uid: 1, gid: 2, pid: 3, ..InHeader::default() }
    }

    #[test]
    fn names_and_arguments_are_where_the_kernel_puts_them() {
        let message = message(
            head(opcode::RENAME2),
            &[Rename2In { newdir: 7, flags: 2, padding: 0 }.as_bytes(), b"old\0n\xE9w\0"],
        );
        let request = Request::parse(&message).unwrap();
        assert_eq!((request.head.unique, request.head.nodeid, request.head.uid), (6, 9, 1));
        let Operation::Rename { name, new_parent, new_name, flags } = request.operation else { panic!() };
        assert_eq!((name.as_bytes(), new_parent, flags), (&b"old"[..], 7, 2));
        assert_eq!(new_name.as_bytes(), b"n\xE9w");
    }

    #[test]
    fn what_is_cut_off_is_malformed_and_can_be_answered() {
        let write = WriteIn { fh: 1, size: 4, ..WriteIn::default() };
        for (opcode, parts) in [
            (opcode::LOOKUP, &[&b"no end"[..]][..]),
            (opcode::WRITE, &[write.as_bytes(), b"abc"]),
            (opcode::SETATTR, &[b"short"]),
            (opcode::BATCH_FORGET, &[BatchForgetIn { count: u32::MAX, dummy: 0 }.as_bytes()]),
            (opcode::RENAME, &[&7u64.to_ne_bytes(), b"one\0"]),
        ] {
            let malformed = Request::parse(&message(head(opcode), parts)).unwrap_err();
            assert_eq!(malformed, Malformed { unique: Some(6), opcode: Some(opcode) });
        }
        // Shorter or longer than it says, and more extensions than bytes.
        let whole = message(head(opcode::LOOKUP), &[b"name\0"]);
        assert!(Request::parse(&whole).is_ok());
        assert!(Request::parse(&whole[..whole.len() - 1]).is_err());
        assert!(Request::parse(&whole[..39]).is_err_and(|malformed| malformed.unique.is_none()));
        for total_extlen in [1, 9, u16::MAX] {
            let head = InHeader { total_extlen, ..head(opcode::LOOKUP) };
            assert!(Request::parse(&message(head, &[b"name\0"])).is_err());
        }
        // Shorter than it says, by some of its extensions.
        let extended = message(InHeader { total_extlen: 4, ..head(opcode::LOOKUP) }, &[b"name\0", &[0; 32]]);
        assert!(Request::parse(&extended).is_ok());
        assert!(Request::parse(&extended[..extended.len() - 16]).is_err());
    }

    #[test]
    fn an_init_of_an_old_kernel_has_one_word_of_flags() {
        let init = InitIn { major: 7, minor: 31, max_readahead: 0, flags: 5 };
        for (parts, expected) in [(&[init.as_bytes()][..], 0), (&[init.as_bytes(), &7u32.to_ne_bytes()], 7)] {
            let message = message(head(opcode::INIT), parts);
            let Ok(Request { operation: Operation::Init { arg, flags2 }, .. }) = Request::parse(&message)
            else {
                panic!()
            };
            assert_eq!((arg, flags2), (init, expected));
        }
    }

    #[test]
    fn forgets_come_one_after_the_other() {
        let nodes = [(5, 1), (6, 2)].map(|(nodeid, nlookup)| ForgetOne { nodeid, nlookup });
        let count = BatchForgetIn { count: 2, dummy: 0 };
        let message = message(head(opcode::BATCH_FORGET), &[count.as_bytes(), nodes.as_bytes()]);
        let Ok(Request { operation: Operation::BatchForget(forgets), .. }) = Request::parse(&message) else {
            panic!()
        };
        assert!(forgets.eq(nodes));
    }

    #[test]
    fn the_group_of_the_directory_comes_after_the_name() {
        let arg = MkdirIn { mode: 0o755, umask: 0o22 };
        let groups = SuppGroups { nr_groups: 1, first: 2000 };
        let other = ExtHeader { size: 16, kind: 1 };
        let head = InHeader { total_extlen: 4, ..head(opcode::MKDIR) };
        let of = |header: ExtHeader| {
            let extensions = [other.as_bytes(), &[0; 8], header.as_bytes(), groups.as_bytes()].concat();
            let message = message(head, &[arg.as_bytes(), b"name\0", &extensions]);
            let request = Request::parse(&message).unwrap();
            let Operation::Mkdir { arg: parsed, name } = request.operation else { panic!() };
            assert_eq!((parsed, name.as_bytes()), (arg, &b"name"[..]));
            request.group
        };
        assert_eq!(of(ExtHeader { size: 16, kind: ext::GROUPS }), Some(2000));
        for (size, kind) in
            [(0, ext::GROUPS), (17, ext::GROUPS), (u32::MAX, ext::GROUPS), (12, ext::GROUPS), (16, 2)]
        {
            assert_eq!(of(ExtHeader { size, kind }), None, "{size} {kind}");
        }
    }

    #[test]
    fn what_is_not_known_is_a_request_all_the_same() {
        let message = message(head(4000), &[b"anything"]);
        assert!(matches!(Request::parse(&message).unwrap().operation, Operation::Unknown));
    }
}
