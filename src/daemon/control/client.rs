//! Who asks.
//!
//! Root asks the servers of other users too. What they answer is bounded in length and time, and shown escaped.

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fmt, fs};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt::SendTimeout,
};
use nix::sys::time::TimeVal;
use nix::unistd::geteuid;
use serde::de::DeserializeOwned;

use super::PATIENCE;
use super::name::Name;
use super::place::directory;
use super::protocol::{MAX_REPLY, Reply, Request, VERSION, harmless};
use super::server::left;

/// Why there is no answer.
#[derive(Debug)]
pub enum Failure {
    /// Nobody listens there.
    Gone,
    /// One may not ask there.
    Forbidden,
    /// It did not answer, or nothing that could be read.
    Unreachable(io::Error),
    /// It says no: lines for people, made fit for display.
    Refused(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("it is not running"),
            Self::Forbidden => f.write_str("it belongs to another user"),
            Self::Unreachable(error) if error.kind() == io::ErrorKind::WouldBlock => {
                f.write_str("it does not answer in time")
            }
            Self::Unreachable(error) => write!(f, "it cannot be asked: {error}"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Self::Gone,
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            io::ErrorKind::TimedOut => Self::Unreachable(io::ErrorKind::WouldBlock.into()),
            _ => Self::Unreachable(error),
        }
    }
}

/// The sockets that are there, with the names of their instances, in order: those of this user, and for root also those of
/// other users. Whether somebody listens is not known.
pub fn sockets() -> Vec<(Name, PathBuf)> {
    let mut directories: Vec<PathBuf> = directory().into_iter().collect();
    if geteuid().is_root() && env::var_os("NAMEGATE_RUNTIME_DIR").is_none() {
        let users = fs::read_dir("/run/user").into_iter().flatten().filter_map(Result::ok);
        directories.extend(users.map(|user| user.path().join("namegate")));
    }
    let entries =
        directories.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok));
    let mut sockets: Vec<_> =
        entries.filter_map(|entry| Some((Name::of_socket(&entry.file_name())?, entry.path()))).collect();
    sockets.sort();
    sockets
}

/// Asks the instance whose socket is at `path`.
///
/// # Errors
/// [`Failure`].
pub fn ask<T: DeserializeOwned>(path: &Path, request: Request) -> Result<T, Failure> {
    let deadline = Instant::now() + request.patience();
    let mut stream = open(path)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(&request.to_line())?;
    let mut line = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while !line.ends_with(b"\n") {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let len = match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            len => len?,
        };
        line.extend(&buffer[..len]);
        if len == 0 || line.len() > MAX_REPLY {
            return Err(Failure::Unreachable(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    let unreadable = |error: serde_json::Error| Failure::Unreachable(error.into());
    let reply: Reply = serde_json::from_slice(&line).map_err(unreadable)?;
    if reply.v != VERSION {
        let why = format!("it speaks version {} of the protocol, this program {VERSION}", reply.v);
        return Err(Failure::Refused(why));
    }
    match (reply.ok, reply.error) {
        (true, _) => serde_json::from_value(reply.result).map_err(unreadable),
        (false, why) => {
            let why = why.unwrap_or_else(|| "it does not say why".into());
            // The lines are its own; what is in them is not to act on a terminal.
            let lines = why.lines().map(harmless);
            Err(Failure::Refused(lines.collect::<Vec<_>>().join("\n")))
        }
    }
}

/// Whether somebody listens at the socket.
///
/// # Errors
/// There is none, or it cannot be told.
pub(super) fn is_alive(path: &Path) -> io::Result<bool> {
    match open(path) {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            // So says a file that is no socket, too.
            io::ErrorKind::ConnectionRefused if is_socket(path) => Ok(false),
            // So many wait that there is no room for one more.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Ok(true),
            _ => Err(error),
        },
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|stat| stat.file_type().is_socket())
}

/// A connection, or not, within a time: [`UnixStream::connect`] waits for as long as it takes the other side.
fn open(path: &Path) -> io::Result<UnixStream> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let seconds = i64::try_from(PATIENCE.as_secs()).unwrap_or_default();
    setsockopt(&socket, SendTimeout, &TimeVal::new(seconds, 0))?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket.into())
}
