//! Names that the kernel is made to drop from its cache, by another process.
//!
//! Such a notification waits for the lock of the directory (`fuse_reverse_inval_entry`, fs/fuse/dir.c), which a client holds until it has its
//! reply, and a thread that waits for it cannot be killed. If it were one of the server and that was killed, it would keep the
//! server's descriptors and rings, its successor would not begin, and the client would wait for ever. So the threads that wait are those of
//! a process that has nothing but the connection.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use namegate_wire::Notifier;
use parking_lot::{Condvar, Mutex};

/// Threads that drop names at the same time: those of the coherent cache, and two for everything else.
pub(super) const DROPPING_THREADS: usize = 18;

/// What becomes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameDrop {
    /// It is asked for when it is used next. What is mounted on it stays, and a directory in use keeps its path (Linux 6.2).
    Expire,
    /// It is gone.
    Forget,
}

impl NameDrop {
    pub(super) fn drop_by(self, notifier: &Notifier, parent: u64, name: &OsStr) -> io::Result<()> {
        match self {
            Self::Expire => notifier.expire_entry(parent, name),
            Self::Forget => notifier.forget_entry(parent, name),
        }
    }
}

/// A process that drops names for this one.
pub trait DropProcess: fmt::Debug + Send + Sync {
    /// Has it [serve](drop_names_for) the connection of `device`, on one thread for each of `lines`. `number` is the minor number of the
    /// mount's device. If this process dies, it ends the connection, unless a successor of this process goes on with it (`goes_on`).
    ///
    /// # Errors
    /// It has ended, or has no way to end the connection.
    fn connect(
        &self,
        device: BorrowedFd<'_>,
        number: u32,
        goes_on: bool,
        lines: Vec<UnixStream>,
    ) -> io::Result<()>;

    /// Ends the connection: all clients get errors.
    fn abort(&self);
}

/// Drops names for the other end of `line`, until that is closed: a message is a length, a number of a directory, what becomes of the names, and the
/// names with their lengths. The answer is an error number.
pub fn drop_names_for(mut line: UnixStream, device: OwnedFd) {
    let notifier = Notifier::new(device);
    let mut message = Vec::new();
    while receive(&mut line, &mut message).is_ok() {
        let errno = drop_all_of(&notifier, &message).err().and_then(|error| error.raw_os_error());
        if line.write_all(&errno.unwrap_or_default().to_ne_bytes()).is_err() {
            return;
        }
    }
}

fn receive(line: &mut UnixStream, message: &mut Vec<u8>) -> io::Result<()> {
    let mut len = [0; 4];
    line.read_exact(&mut len)?;
    message.resize(u32::from_ne_bytes(len) as usize, 0);
    line.read_exact(message)
}

/// Drops the names of a message. The first error is returned when all were tried.
fn drop_all_of(notifier: &Notifier, message: &[u8]) -> io::Result<()> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let (parent, rest) = message.split_first_chunk().ok_or_else(malformed)?;
    let (how, mut rest) = rest.split_first().ok_or_else(malformed)?;
    let how = if *how == 0 { NameDrop::Expire } else { NameDrop::Forget };
    let mut result = Ok(());
    while let Some((len, behind)) = rest.split_first_chunk() {
        let (name, behind) =
            behind.split_at_checked(u16::from_ne_bytes(*len).into()).ok_or_else(malformed)?;
        rest = behind;
        result = result.and(how.drop_by(notifier, u64::from_ne_bytes(*parent), OsStr::from_bytes(name)));
    }
    result
}

/// The process that drops names, as this process sees it.
#[derive(Debug)]
pub(super) struct Dropper {
    process: Arc<dyn DropProcess>,
    /// Lines to its threads that are not in use; `None` when it has ended.
    lines: Mutex<Option<Vec<UnixStream>>>,
    returned: Condvar,
}

impl Dropper {
    /// As [`DropProcess::connect`].
    pub(super) fn connect(
        process: Arc<dyn DropProcess>,
        device: BorrowedFd<'_>,
        number: u32,
        goes_on: bool,
    ) -> io::Result<Self> {
        let pairs = (0..DROPPING_THREADS).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>()?;
        let (here, there) = pairs.into_iter().unzip();
        process.connect(device, number, goes_on, there)?;
        Ok(Self { process, lines: Mutex::new(Some(here)), returned: Condvar::new() })
    }

    /// Whether the process is there.
    pub(super) fn is_there(&self) -> bool {
        self.lines.lock().is_some()
    }

    pub(super) fn abort(&self) {
        self.process.abort();
    }

    /// Drops names in a directory. Waits for requests about its entries.
    ///
    /// # Errors
    /// The kernel's, of one of the names; BrokenPipe if the process has ended.
    pub(super) fn drop_names(&self, parent: u64, names: &[OsString], how: NameDrop) -> io::Result<()> {
        let ended = || io::Error::from(io::ErrorKind::BrokenPipe);
        let mut lines = self.lines.lock();
        let mut line = loop {
            match lines.as_mut().ok_or_else(ended)?.pop() {
                Some(line) => break line,
                None => self.returned.wait(&mut lines),
            }
        };
        drop(lines);
        let answer = send(&mut line, parent, names, how);
        let mut lines = self.lines.lock();
        match (&answer, &mut *lines) {
            (Ok(_), Some(lines)) => lines.push(line),
            _ => *lines = None,
        }
        drop(lines);
        self.returned.notify_all();
        match answer.map_err(|_| ended())? {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Sends names, and returns the error number of the answer.
fn send(line: &mut UnixStream, parent: u64, names: &[OsString], how: NameDrop) -> io::Result<i32> {
    /// Names in one message.
    const MANY: usize = 256;
    let mut first = 0;
    for names in names.chunks(MANY) {
        let mut message = vec![0; 4];
        message.extend(parent.to_ne_bytes());
        message.push((how != NameDrop::Expire).into());
        for name in names {
            let Ok(len) = u16::try_from(name.len()) else { continue };
            message.extend(len.to_ne_bytes());
            message.extend(name.as_bytes());
        }
        let len = (message.len() - 4) as u32;
        message[..4].copy_from_slice(&len.to_ne_bytes());
        line.write_all(&message)?;
        let mut answer = [0; 4];
        line.read_exact(&mut answer)?;
        if first == 0 {
            first = i32::from_ne_bytes(answer);
        }
    }
    Ok(first)
}
