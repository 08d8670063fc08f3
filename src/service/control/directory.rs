//! A directory of sockets, held open: connections go to the sockets that were found in it, even if paths change meanwhile.
//!
//! A name in such a directory can be anything: a symbolic link, a file, the socket of a killed server, or a trap for root. So
//! no path is followed twice. The directory is opened once, without following a link as its last component, and its owner is
//! checked. A socket in it is opened with `O_PATH`, its type is checked, and the connection is made through that descriptor.
//! The kernel reports who listens behind it ([`FoundSocket::connect`]).
//!
//! Sources: unix(7), `SO_PEERCRED`; open(2), `O_PATH`; openat2(2).

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namegate_sys::mounts::{MountEntry, holding, mounts};
use namegate_sys::open::{beneath, path_of};
use namegate_sys::trust::{is_trusted, others_can_write};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};

use super::name::InstanceName;

const PASS: OFlag = OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Maximum number of sockets used from the directory of one user.
const MOST_SOCKETS: usize = 64;
/// Maximum number of entries read to find them.
const MOST_ENTRIES: usize = 4096;

/// Device and inode number of a file.
pub(super) type SocketId = (u64, u64);

/// A directory of sockets that only its owner and root can change.
#[derive(Debug)]
pub(super) struct SocketDirectory {
    fd: OwnedFd,
    path: PathBuf,
    /// The owner, the only user other than root who can have created its entries.
    owner: u32,
}

/// A socket that exists. It is not known yet whether a server listens, and whose.
#[derive(Clone, Debug)]
pub struct FoundSocket {
    directory: Arc<SocketDirectory>,
    name: InstanceName,
}

/// The sockets to which a client can send requests.
#[derive(Debug, Default)]
pub struct FoundSockets {
    /// The sockets of this user, in order of their names.
    pub own: Vec<FoundSocket>,
    /// The sockets of other users; for root only.
    pub others: Vec<FoundSocket>,
    /// What was ignored, and why: lines for people.
    pub ignored: Vec<String>,
}

impl SocketDirectory {
    /// Opens the directory at `path`. It must belong to this user or to root, and no other user may be able to change it.
    ///
    /// # Errors
    /// The owner or the permissions are wrong, it is no directory, or it cannot be opened.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let fd = nix::fcntl::open(path, PASS, Mode::empty())?;
        let owner = owner_of(&fd)?;
        if !is_trusted(owner) {
            return Err(io::Error::other(format!("it belongs to uid {owner}")));
        }
        Ok(Self { fd, path: path.into(), owner })
    }

    /// Opens the directory `namegate` in `of_user`, the runtime directory of the user `uid`. No mount is entered on the way:
    /// a file system that the user has mounted there could block forever.
    fn of_user(of_user: &OwnedFd, path: PathBuf, uid: u32) -> io::Result<Self> {
        if fstat(of_user)?.st_uid != uid {
            return Err(io::Error::other(format!("the directory above does not belong to uid {uid}")));
        }
        let stays =
            ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_XDEV;
        let fd = openat2(of_user, "namegate", OpenHow::new().flags(PASS).resolve(stays))?;
        match owner_of(&fd)? {
            owner if owner == uid => Ok(Self { fd, path, owner }),
            owner => Err(io::Error::other(format!("it belongs to uid {owner}"))),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The names in it that are valid names of sockets, in order; and whether there are more than are used.
    fn names(&self) -> io::Result<(Vec<InstanceName>, bool)> {
        let (mut names, mut read) = (Vec::new(), 0);
        for entry in fs::read_dir(path_of(&self.fd))? {
            read += 1;
            if read > MOST_ENTRIES {
                return Ok((names, true));
            }
            names.extend(InstanceName::from_socket(&entry?.file_name()));
        }
        names.sort();
        let has_more = names.len() > MOST_SOCKETS && self.owner != geteuid().as_raw();
        if has_more {
            names.truncate(MOST_SOCKETS);
        }
        Ok((names, has_more))
    }

    fn stat(&self, name: &InstanceName) -> Result<FileStat, Errno> {
        fstatat(&self.fd, name.file().as_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
    }

    /// Identifies the file with the name.
    pub(super) fn id(&self, name: &InstanceName) -> Result<SocketId, Errno> {
        self.stat(name).map(|stat| (stat.st_dev, stat.st_ino))
    }

    pub(super) fn remove(&self, name: &InstanceName) -> Result<(), Errno> {
        unlinkat(&self.fd, name.file().as_str(), UnlinkatFlags::NoRemoveDir)
    }

    pub(super) fn open_file(&self, name: &str, flags: OFlag, mode: Mode) -> Result<OwnedFd, Errno> {
        beneath(&self.fd, OsStr::new(name), flags, mode)
    }

    /// Connects to the socket `name`, without waiting.
    ///
    /// # Errors
    /// ENOENT if there is no such name; ENOTSOCK if it is no socket; ECONNREFUSED if no server listens; EAGAIN if the queue
    /// of connections is full; otherwise as connect(2) says.
    pub(super) fn connect(&self, name: &InstanceName) -> Result<UnixStream, Errno> {
        let held = self.open_file(&name.file(), OFlag::O_PATH, Mode::empty())?;
        if SFlag::from_bits_truncate(fstat(&held)?.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFSOCK {
            return Err(Errno::ENOTSOCK);
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
        connect(socket.as_raw_fd(), &UnixAddr::new(path_of(&held).as_str())?)?;
        Ok(socket.into())
    }

    /// Whether a server listens on the socket `name`. Sends no request and does not wait.
    ///
    /// # Errors
    /// It is no socket, or cannot be connected to for another reason.
    pub(super) fn is_alive(&self, name: &InstanceName) -> Result<bool, Errno> {
        match self.connect(name) {
            // A server listens, but its queue of connections is full.
            Ok(_) | Err(Errno::EAGAIN) => Ok(true),
            Err(Errno::ECONNREFUSED) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Removes the sockets that killed servers of this user have left, except that of `kept`. Call this while no other server
    /// can create a socket in this directory.
    pub(super) fn sweep(&self, kept: &InstanceName) {
        let Ok((names, _)) = self.names() else { return };
        for name in names.iter().filter(|name| *name != kept) {
            let is_ours = self.stat(name).is_ok_and(|stat| stat.st_uid == geteuid().as_raw());
            if is_ours && self.is_alive(name) == Ok(false) && self.remove(name).is_ok() {
                log::info!("removed the socket {name}, left by a server that was killed");
            }
        }
    }
}

/// The owner of the directory `fd`.
///
/// # Errors
/// Other users can change the directory.
fn owner_of(fd: &OwnedFd) -> io::Result<u32> {
    let stat = fstat(fd)?;
    match others_can_write(stat.st_mode) {
        false => Ok(stat.st_uid),
        true => Err(io::Error::other("other users can change what is in it")),
    }
}

impl FoundSocket {
    pub fn name(&self) -> &InstanceName {
        &self.name
    }

    /// The owner of the instance: only a server of this user is trusted.
    pub fn uid(&self) -> u32 {
        self.directory.owner
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path.join(self.name.file())
    }

    /// Connects without waiting, and returns the user whose process listens, by the credentials that the kernel recorded at
    /// listen(2) (unix(7), `SO_PEERCRED`).
    ///
    /// # Errors
    /// As [`SocketDirectory::connect`].
    pub(super) fn connect(&self) -> Result<(UnixStream, u32), Errno> {
        let stream = self.directory.connect(&self.name)?;
        let uid = getsockopt(&stream, PeerCredentials)?.uid();
        Ok((stream, uid))
    }
}

/// The sockets in `directory`, which is this user's; none if it does not exist.
///
/// # Errors
/// It cannot be read, or is not trusted.
pub(super) fn in_directory(directory: &Path) -> io::Result<Vec<FoundSocket>> {
    let directory = match SocketDirectory::open(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        directory => Arc::new(directory?),
    };
    let (names, _) = directory.names()?;
    Ok(names.into_iter().map(|name| FoundSocket { directory: directory.clone(), name }).collect())
}

/// Adds the sockets of the users that have directories below `users` (/run/user). The name of each is a user id.
pub(super) fn of_users(users: &Path, sockets: &mut FoundSockets) {
    let table = mounts().unwrap_or_default();
    let mut uids: Vec<u32> = fs::read_dir(users)
        .into_iter()
        .flatten()
        // Only in canonical form, so that no user is found twice.
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            name.to_str()?.parse().ok().filter(|uid: &u32| name == uid.to_string().as_str())
        })
        .collect();
    uids.sort_unstable();
    for uid in uids.into_iter().filter(|&uid| uid != geteuid().as_raw()) {
        let path = users.join(uid.to_string());
        match of_user(&path, uid, &table) {
            Ok((found, has_more)) => {
                sockets.others.extend(found);
                if has_more {
                    sockets.ignored.push(format!(
                        "uid {uid} has more than {MOST_SOCKETS} sockets; the others are ignored"
                    ));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => sockets.ignored.push(format!("the sockets of uid {uid} are ignored: {error}")),
        }
    }
}

fn of_user(path: &Path, uid: u32, table: &[MountEntry]) -> io::Result<(Vec<FoundSocket>, bool)> {
    // Access to a file system that the user serves could block.
    if holding(table, path).is_some_and(|mount| mount.kind.starts_with("fuse")) {
        return Err(io::Error::other("their runtime directory is a FUSE mount"));
    }
    let above = nix::fcntl::open(path, PASS, Mode::empty())?;
    let directory = SocketDirectory::of_user(&above, path.join("namegate"), uid)?;
    let directory = Arc::new(directory);
    let (names, has_more) = directory.names()?;
    Ok((names.into_iter().map(|name| FoundSocket { directory: directory.clone(), name }).collect(), has_more))
}
