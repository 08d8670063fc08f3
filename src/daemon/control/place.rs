//! Where the sockets are: one directory for root, one for each other user.
//!
//! A socket outlives a server that was killed. Whether somebody listens behind one is seen by connecting to it; the look and
//! the replacement are done under a lock, so that of two servers that start at once each sees the other.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Uid, geteuid};

use super::client::is_alive;
use super::name::Name;
use super::server::Reserved;
use crate::name::display::display;

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
pub struct Taken(pub Name);

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an instance called {} is running already: `namegate status {0}` tells of it", self.0)
    }
}

impl std::error::Error for Taken {}

/// Makes the socket of the instance `name` in `directory`, which is made too. It is replaced if nobody listens behind it. If
/// somebody does, the name gets a number where `is_any` other name does as well.
///
/// # Errors
/// [`Taken`], as the inner error, if `is_any` is false; otherwise what could not be done.
pub fn reserve(directory: &Path, name: &Name, is_any: bool) -> io::Result<Reserved> {
    make(directory)?;
    let _lock = lock(directory)?;
    let mut candidate = name.clone();
    let mut number = 1;
    loop {
        let path = directory.join(candidate.file());
        match is_alive(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
            Ok(false) => {
                log::info!(
                    "the socket {} is left from an instance that has ended, and is replaced",
                    shown(&path)
                );
                fs::remove_file(&path)?;
                break;
            }
            Ok(true) if is_any && number < MANY => {
                number += 1;
                candidate = name.numbered(number);
            }
            Ok(true) => return Err(io::Error::other(Taken(candidate))),
        }
    }
    let path = directory.join(candidate.file());
    let listener = listen_at(&path)?;
    Reserved::new(candidate, path, listener)
}

/// More instances of one mount point than that are a mistake.
const MANY: u32 = 100;

fn shown(path: &Path) -> String {
    display(path.as_os_str().as_encoded_bytes()).to_string()
}

/// The directory; if it is there already, nobody else must be able to change it.
fn make(directory: &Path) -> io::Result<()> {
    let mode = if geteuid().is_root() { 0o755 } else { 0o700 };
    match DirBuilder::new().mode(mode).create(directory) {
        // Whatever the umask takes away.
        Ok(()) => fs::set_permissions(directory, fs::Permissions::from_mode(mode))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let stat = fs::symlink_metadata(directory)?;
    let is_ours = stat.uid() == geteuid().as_raw() || Uid::from_raw(stat.uid()).is_root();
    if !stat.is_dir() || !is_ours || stat.mode() & 0o022 != 0 {
        return Err(io::Error::other("others can change what is in it, or it is no directory"));
    }
    Ok(())
}

/// Keeps other servers out while the socket is made. The file stays: one that is removed can be locked by two.
fn lock(directory: &Path) -> io::Result<Flock<File>> {
    /// It is held for as long as a connection takes to be refused.
    const PATIENCE: Duration = Duration::from_secs(10);
    let begin = Instant::now();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let mut file = options.open(directory.join(".lock"))?;
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
    listen(&socket, Backlog::new(16)?)?;
    Ok(socket.into())
}
