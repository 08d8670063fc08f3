//! New entries: mkdir, mknod, symlink, link, create.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};

use namegate_core::gate::Admitted;
use namegate_sys::open::{again, beneath, path_of};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::sys::stat::{Mode, SFlag, mkdirat, mknodat};
use nix::unistd::{linkat, symlinkat};

use super::descriptor::Descriptor;
use super::file::{OpenFile, opened_as};
use super::journal::EntryAt;
use super::{Caller, Fh, LookupEntry, NodeId, Passthrough, Result};

/// The permission bits of a mode, with set-id and sticky bits.
fn permissions(mode: u32) -> Mode {
    Mode::from_bits_truncate(mode & 0o7777)
}

/// Whether the mode of a new file depends on the caller's groups: it has the set-group-id bit (open(2), S_ISGID).
fn groups_matter(mode: u32) -> bool {
    mode & libc::S_ISGID != 0
}

/// What mkdir(2), mknod(2) and symlink(2) create.
#[derive(Clone, Copy, Debug)]
pub enum NewEntry<'a> {
    Directory {
        mode: u32,
    },
    /// A file of the type in `mode`: a FIFO, a socket, a device with the number `rdev`, or a regular file.
    Node {
        mode: u32,
        rdev: u32,
    },
    /// A symbolic link to this target, byte for byte.
    Symlink(&'a OsStr),
}

impl NewEntry<'_> {
    fn create(self, dir: impl AsFd, name: &OsStr) -> Result<()> {
        match self {
            Self::Directory { mode } => mkdirat(dir, name, permissions(mode)),
            Self::Node { mode, rdev } => {
                let kind = SFlag::from_bits_truncate(mode) & SFlag::S_IFMT;
                mknodat(dir, name, kind, permissions(mode), device(rdev))
            }
            Self::Symlink(target) => symlinkat(target, dir, name),
        }
    }

    fn groups_matter(self) -> bool {
        match self {
            Self::Directory { mode } | Self::Node { mode, .. } => groups_matter(mode),
            Self::Symlink(_) => false,
        }
    }
}

impl Passthrough {
    /// Creates an entry and looks it up.
    ///
    /// # Errors
    /// As mkdir(2), mknod(2) and symlink(2) say.
    pub fn make(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &Admitted<'_>,
        new: NewEntry<'_>,
    ) -> Result<LookupEntry> {
        self.check_share_of_entry(caller.uid, 0)?;
        let dir = self.fd(parent)?;
        if !self.begin_or_recover_create(&dir, name, caller) {
            self.as_caller(caller, new.groups_matter(), || new.create(&*dir, name.as_os_str()))?;
        }
        self.lookup_in(&*dir, name)
    }

    /// Whether a previous server has created the entry that is about to be created.
    fn begin_or_recover_create(&self, dir: &Descriptor, name: &Admitted<'_>, caller: &Caller) -> bool {
        let entry = EntryAt { dir: dir.as_fd(), name: name.as_os_str() };
        self.nodes.journal.begin_or_recover_create(entry, caller.uid)
    }

    /// Creates a hard link to `node`.
    ///
    /// # Errors
    /// As link(2) says.
    pub fn link(
        &self,
        caller: &Caller,
        node: NodeId,
        parent: NodeId,
        name: &Admitted<'_>,
    ) -> Result<LookupEntry> {
        let (file, dir) = (self.fd(node)?, self.fd(parent)?);
        // AT_EMPTY_PATH would need CAP_DAC_READ_SEARCH; linkat(2) documents this alternative.
        let path = path_of(&*file);
        let entry = EntryAt { dir: dir.as_fd(), name: name.as_os_str() };
        if !self.nodes.journal.begin_or_recover_link(entry, file.as_fd()) {
            self.charged_to(caller, || {
                linkat(AT_FDCWD, path.as_str(), &*dir, name.as_os_str(), AtFlags::AT_SYMLINK_FOLLOW)
            })?;
        }
        self.lookup_in(&*dir, name)
    }

    /// Creates a regular file without a name in `parent` and opens it; `flags` are those of open(2). It may get a name by
    /// [`Passthrough::link`].
    ///
    /// # Errors
    /// As open(2) says for O_TMPFILE.
    pub fn tmpfile(
        &self,
        caller: &Caller,
        parent: NodeId,
        mode: u32,
        flags: i32,
    ) -> Result<(LookupEntry, Fh)> {
        self.check_share_of_entry(caller.uid, 1)?;
        let dir = self.fd(parent)?;
        let flags = OFlag::from_bits_truncate(flags);
        let make = || {
            // Without O_EXCL: the kernel keeps what that forbids from the server.
            let nameless = opened_as(flags) | OFlag::O_TMPFILE;
            self.nodes.with_room(|| beneath(&*dir, OsStr::new("."), nameless, permissions(mode)))
        };
        let file = self.as_caller(caller, groups_matter(mode), make)?;
        let entry = self.nodes.count_opened(&file)?;
        self.opened_new(caller, entry, flags, file)
    }

    /// Creates a regular file and opens it; `flags` are those of open(2).
    ///
    /// If the name was created since the kernel looked it up, the file is opened under the caller's ids, unless `flags` has O_EXCL.
    ///
    /// # Errors
    /// As open(2) says. ESTALE if the name now belongs to another type of file: the kernel then repeats the lookup.
    pub fn create(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &Admitted<'_>,
        mode: u32,
        flags: i32,
    ) -> Result<(LookupEntry, Fh)> {
        self.check_share_of_entry(caller.uid, 1)?;
        let dir = self.fd(parent)?;
        let flags = OFlag::from_bits_truncate(flags);
        let make = || {
            let exclusive = opened_as(flags) | OFlag::O_CREAT | OFlag::O_EXCL;
            self.nodes.with_room(|| beneath(&*dir, name.as_os_str(), exclusive, permissions(mode)))
        };
        if self.begin_or_recover_create(&dir, name, caller) {
            let held = self.hold(&*dir, name)?;
            // By its mode, the one who has created it might not be allowed to open it again.
            let file = self.nodes.with_room(|| again(&held, opened_as(flags)))?;
            let entry = self.nodes.count(held)?;
            return self.opened_new(caller, entry, flags, file);
        }
        let (entry, file) = match self.as_caller(caller, groups_matter(mode), make) {
            // Use the new descriptor, not the name: the name may already belong to another file.
            Ok(file) => (self.nodes.count_opened(&file)?, file),
            Err(Errno::EEXIST) if !flags.contains(OFlag::O_EXCL) => {
                let held = self.hold(&*dir, name)?;
                let stat = nix::sys::stat::fstat(&held)?;
                if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
                    return Err(Errno::ESTALE);
                }
                let truncation = flags & OFlag::O_TRUNC;
                let open = || again(&held, opened_as(flags) | truncation);
                let may_lose_bits = !truncation.is_empty() && groups_matter(stat.st_mode);
                let file = self.as_caller(caller, may_lose_bits, || self.nodes.with_room(open))?;
                (self.nodes.count(held)?, file)
            }
            Err(error) => return Err(error),
        };
        self.opened_new(caller, entry, flags, file)
    }

    /// The open file of an entry that was just counted; its lookup is taken back on error.
    fn opened_new(
        &self,
        caller: &Caller,
        entry: LookupEntry,
        flags: OFlag,
        file: OwnedFd,
    ) -> Result<(LookupEntry, Fh)> {
        let opened = self.nodes.node(entry.node).map(|node| OpenFile::new(node, caller, flags, Some(file)));
        match opened.and_then(|opened| self.add_file(opened)) {
            Ok(fh) => Ok((entry, fh)),
            Err(error) => {
                self.forget(entry.node, 1);
                Err(error)
            }
        }
    }
}

/// Converts a device number of the kernel (`new_encode_dev`, linux/kdev_t.h) to one of the C library.
fn device(rdev: u32) -> libc::dev_t {
    let (major, minor) = ((rdev & 0xFFF00) >> 8, (rdev & 0xFF) | ((rdev >> 12) & 0xFFF00));
    libc::makedev(major, minor)
}
