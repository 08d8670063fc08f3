//! The directories of control sockets: one for root, and one for each other user.
//!
//! The socket of a killed server remains. Whether a server listens on a socket shows only when a client connects. This check
//! and the replacement of the socket are done under a lock, so that two servers that start at once notice each other.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use namegate_core::name::display::shown;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::geteuid;

use super::directory::SocketDirectory;
use super::name::InstanceName;
use super::server::ReservedSocket;

/// The directory for the sockets of this user: `$NAMEGATE_RUNTIME_DIR` if that is set, else `/run/namegate` for root and
/// `$XDG_RUNTIME_DIR/namegate` for others; `None` if that is not set either.
pub fn directory() -> Option<PathBuf> {
    let of = |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    of("NAMEGATE_RUNTIME_DIR").or_else(|| match geteuid().is_root() {
        true => Some("/run/namegate".into()),
        false => Some(of("XDG_RUNTIME_DIR")?.join("namegate")),
    })
}

/// An instance of that name is running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTaken(pub InstanceName);

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an instance called {} is running already: `namegate status {0}` shows it", self.0)
    }
}

impl std::error::Error for NameTaken {}

/// Creates the socket of the instance `name` in `directory`, and the directory too. A socket of that name is replaced if no
/// server listens on it, and sockets of other killed servers are removed. If a server does listen, a number is appended to
/// the name if `is_any` allows another name.
///
/// # Errors
/// [`NameTaken`], as the inner error, if `is_any` is false; otherwise the call that failed.
pub fn reserve(directory: &Path, name: &InstanceName, is_any: bool) -> io::Result<ReservedSocket> {
    make(directory)?;
    let directory = SocketDirectory::open(directory)?;
    // Sockets are created and listened on, or found dead and removed, only under the lock, so that a socket on which a server
    // is about to listen is not mistaken for a dead one. A server that ends removes its socket while it still listens, so
    // that no other server takes the name in between.
    let _lock = lock(&directory)?;
    let mut candidate = name.clone();
    let mut number = 1;
    loop {
        match directory.is_alive(&candidate) {
            Err(Errno::ENOENT) => break,
            Err(errno) => return Err(errno.into()),
            Ok(false) => {
                let path = shown(&directory.path().join(candidate.file()));
                log::info!("replacing the socket {path} of an instance that has ended");
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
    // The path may lead elsewhere by now: the new socket must be in the directory that was checked.
    let id = directory.id(&candidate)?;
    Ok(ReservedSocket { name: candidate, directory, listener, id, is_removed: false })
}

/// A limit of instances of one mount point: more than this are an error.
const MANY: u32 = 100;

/// Creates the directory, if it does not exist.
fn make(directory: &Path) -> io::Result<()> {
    let mode = if geteuid().is_root() { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(directory) {
        // Regardless of the umask.
        Ok(()) => fs::set_permissions(directory, fs::Permissions::from_mode(mode))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Excludes other servers while the socket is created. The file stays: two processes could lock a file that is removed.
fn lock(directory: &SocketDirectory) -> io::Result<Flock<File>> {
    /// The lock is held only as long as connection attempts take.
    const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
    let begin = Instant::now();
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut file = File::from(directory.open_file(".lock", flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Ok(lock),
            Err((again, Errno::EWOULDBLOCK)) if begin.elapsed() < LOCK_TIMEOUT => file = again,
            Err((_, errno)) => return Err(errno.into()),
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // The socket in the directory gets the mode of this one (unix(7)), so other users can never connect.
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    // The longest queue that the kernel allows. If it is full, clients have to try again; clients that wait in connect(2)
    // come first.
    listen(&socket, Backlog::MAXCONN)?;
    Ok(socket.into())
}
