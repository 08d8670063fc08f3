//! Where the sockets are: one directory for root, one for each other user.
//!
//! A socket outlives a server that was killed. Whether somebody listens behind one is seen by connecting to it; the look and
//! the replacement are done under a lock, so that of two servers that start at once each sees the other.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::geteuid;

use super::directory::SocketDirectory;
use super::name::InstanceName;
use super::server::ReservedSocket;
use crate::name::display::shown;

/// The directory of the sockets of this user: `$NAMEGATE_RUNTIME_DIR` if that is set, else `/run/namegate` for root and
/// `$XDG_RUNTIME_DIR/namegate` for others; `None` if that is not set either.
pub fn directory() -> Option<PathBuf> {
    let of = |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    of("NAMEGATE_RUNTIME_DIR").or_else(|| match geteuid().is_root() {
        true => Some("/run/namegate".into()),
        false => Some(of("XDG_RUNTIME_DIR")?.join("namegate")),
    })
}

/// An instance of that name is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTaken(pub InstanceName);

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an instance called {} is running already: `namegate status {0}` shows it", self.0)
    }
}

impl std::error::Error for NameTaken {}

/// Makes the socket of the instance `name` in `directory`, which is made too. A socket of that name is replaced if nobody listens
/// behind it, and those of other servers that were killed are removed. If somebody does listen, the name gets a number where
/// `is_any` other name does as well.
///
/// # Errors
/// [`NameTaken`], as the inner error, if `is_any` is false; otherwise what could not be done.
pub fn reserve(directory: &Path, name: &InstanceName, is_any: bool) -> io::Result<ReservedSocket> {
    make(directory)?;
    let directory = SocketDirectory::open(directory)?;
    // A socket is made and listened at, or found dead and removed, under the lock alone: none that is about to be listened at
    // is taken for a dead one. A server that ends removes its socket while it still listens, so that no other takes its place
    // in between.
    let _lock = lock(&directory)?;
    let mut candidate = name.clone();
    let mut number = 1;
    loop {
        match directory.is_alive(&candidate) {
            Err(Errno::ENOENT) => break,
            Err(errno) => return Err(errno.into()),
            Ok(false) => {
                let path = shown(&directory.path().join(candidate.file()));
                log::info!("the socket {path} is left from an instance that has ended, and is replaced");
                directory.remove(&candidate)?;
                break;
            }
            Ok(true) if is_any && number < MANY => {
                number += 1;
                candidate = name.numbered(number);
            }
            Ok(true) => return Err(io::Error::other(NameTaken(candidate))),
        }
    }
    directory.sweep(&candidate);
    let listener = listen_at(&directory.path().join(candidate.file()))?;
    // The path may lead elsewhere by now: what was made has to be in the directory that was looked at.
    let id = directory.id(&candidate)?;
    Ok(ReservedSocket::new(candidate, directory, listener, id))
}

/// More instances of one mount point than that are a mistake.
const MANY: u32 = 100;

/// Makes the directory, unless it is there already.
fn make(directory: &Path) -> io::Result<()> {
    let mode = if geteuid().is_root() { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(directory) {
        // Whatever the umask takes away.
        Ok(()) => fs::set_permissions(directory, fs::Permissions::from_mode(mode))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Keeps other servers out while the socket is made. The file stays: one that is removed can be locked by two.
fn lock(directory: &SocketDirectory) -> io::Result<Flock<File>> {
    /// It is held for as long as a connection takes to be refused.
    const PATIENCE: Duration = Duration::from_secs(10);
    let begin = Instant::now();
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut file = File::from(directory.open_file(".lock", flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((again, Errno::EWOULDBLOCK)) if begin.elapsed() < PATIENCE => file = again,
            Err((_, errno)) => return Err(errno.into()),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // The socket in the directory gets the mode of this one (unix(7)): there is no moment in which others could connect.
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    // As many as the kernel allows may wait to be accepted. Whoever finds no room has to try again, and those that wait for room
    // in connect(2) come first.
    listen(&socket, Backlog::MAXCONN)?;
    Ok(socket.into())
}
