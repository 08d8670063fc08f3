//! The health check: a separate process checks through the kernel whether a mount answers.
//!
//! A thread of the server must not do this. A process cannot be killed while it waits for a reply to a request that a worker
//! has already read. So a server that is killed at that moment would wait for itself: the device is closed with the last
//! thread, and the last thread waits for the device. The health check process shares only one end of a socket with the
//! server. When the server ends, the kernel fails the request with an error, and this process ends too.
//!
//! The request is statfs(2), which is never answered from a cache. The mount is in use while it runs, so an umount(8) at that
//! moment fails with EBUSY.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{self, Path, PathBuf};
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use libc::dev_t;
use namegate_sys::process::{close_all_but, fork};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, fstat};
use nix::sys::statfs::{FUSE_SUPER_MAGIC, fstatfs};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid};

use super::confinement;
use super::detach::leave_standard_streams;
use super::notify::ServiceManager;

/// The result of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// The mount answers.
    Alive,
    /// Another file system is visible at the mount point: the mount was detached, or covered. Whether it answers is unknown.
    Away,
    /// The mount answers with an error: ENOTCONN when the kernel has closed the connection.
    Failed(Errno),
}

/// A result in four bytes: an errno, which is always positive, or one of these.
const ALIVE: i32 = 0;
const AWAY: i32 = -1;

impl Answer {
    fn to_bytes(self) -> [u8; 4] {
        match self {
            Self::Alive => ALIVE,
            Self::Away => AWAY,
            Self::Failed(errno) => errno as i32,
        }
        .to_ne_bytes()
    }

    fn of_bytes(bytes: [u8; 4]) -> Self {
        match i32::from_ne_bytes(bytes) {
            ALIVE => Self::Alive,
            AWAY => Self::Away,
            errno => Self::Failed(Errno::from_raw(errno)),
        }
    }
}

/// The health check process.
#[derive(Debug)]
pub struct Prober {
    line: UnixStream,
    process: Pid,
    /// Whether a check is still running.
    is_asked: bool,
}

impl Prober {
    /// Starts the process, for a mount that will be at `mountpoint`.
    ///
    /// # Errors
    /// This process has more than one thread, or the fork fails.
    pub fn start(mountpoint: &Path) -> io::Result<Self> {
        let mountpoint = path::absolute(mountpoint)?;
        let (line, other_end) = UnixStream::pair()?;
        match fork()? {
            ForkResult::Parent { child } => Ok(Self { line, process: child, is_asked: false }),
            ForkResult::Child => {
                // Errors are not reported from here: the server notices when this process ends.
                let _ = answer_all(other_end.into(), mountpoint);
                process::exit(0)
            }
        }
    }

    /// Checks the mount, unless an earlier check is still running, and waits at most `patience` for the result.
    ///
    /// # Errors
    /// The health check process has ended.
    fn ask(&mut self, patience: Duration) -> io::Result<Option<Answer>> {
        if !self.is_asked {
            self.line.write_all(&[1])?;
            self.is_asked = true;
        }
        // A timeout of 0 would mean no timeout.
        self.line.set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        let mut bytes = [0; 4];
        match self.line.read_exact(&mut bytes) {
            Ok(()) => {
                self.is_asked = false;
                Ok(Some(Answer::of_bytes(bytes)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // The process ends when the socket is closed, at once unless a check is running.
        let _ = self.line.shutdown(Shutdown::Both);
        if !self.is_asked {
            let _ = waitpid(self.process, None);
        }
    }
}

/// Runs checks until the server closes the socket.
fn answer_all(line: OwnedFd, mountpoint: PathBuf) -> io::Result<()> {
    leave_standard_streams()?;
    close_all_but(&line)?;
    // Signals that end the server reach the whole process group, but checks are still needed while it unmounts.
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect::<SigSet>().thread_block()?;
    confinement::keep_for_probing();
    let mut line = UnixStream::from(line);
    let mut device = None;
    while line.read(&mut [0])? > 0 {
        let answer = look(&mountpoint, &mut device);
        line.write_all(&answer.to_bytes())?;
    }
    Ok(())
}

/// Checks the mount. `device` is its device number, once it is known.
fn look(mountpoint: &Path, device: &mut Option<dev_t>) -> Answer {
    let asked = || {
        // Without O_DIRECTORY, which would have autofs mount what was unmounted (open(2), O_PATH).
        let held = open(mountpoint, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok((fstatfs(&held)?.filesystem_type(), fstat(&held)?.st_dev))
    };
    match asked() {
        Ok((FUSE_SUPER_MAGIC, found)) if *device.get_or_insert(found) == found => Answer::Alive,
        Ok(_) => Answer::Away,
        Err(errno) => Answer::Failed(errno),
    }
}

/// The longest time between two status messages to the service manager.
const REFRESH: Duration = Duration::from_secs(10);

/// Informs the service manager from a separate thread until dropped.
#[derive(Debug)]
pub struct Pulse {
    _ends: Sender<()>,
}

impl Pulse {
    /// Has `patient` report the results of checks by `prober`.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start<S, B>(mut patient: Patient<S, B>, mut prober: Prober) -> io::Result<Self>
    where
        S: Fn() -> String + Send + 'static,
        B: FnOnce() + Send + 'static,
    {
        let (ends, ended) = mpsc::channel::<()>();
        // Two results may be late before the manager considers the service dead.
        let period = patient.manager.watchdog().map_or(REFRESH, |watchdog| (watchdog / 3).min(REFRESH));
        thread::Builder::new().name("pulse".into()).spawn(move || {
            loop {
                let begin = Instant::now();
                match prober.ask(period) {
                    Ok(answer) => patient.take(answer, begin.elapsed()),
                    Err(error) => {
                        log::error!(
                            "the health check process has ended; the state of the mount is unknown: {error}"
                        );
                        return;
                    }
                }
                match ended.recv_timeout(period.saturating_sub(begin.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        })?;
        Ok(Self { _ends: ends })
    }
}

/// The state of the mount as reported to the manager: that it is ready when the first check succeeds, and after each later check that it is
/// alive, and its status.
pub struct Patient<S, B> {
    manager: ServiceManager,
    status: S,
    /// To be called before the service is ready; `None` when it is.
    before_ready: Option<B>,
    said: String,
    silent_for: Duration,
}

impl<S: Fn() -> String, B: FnOnce()> Patient<S, B> {
    pub fn new(manager: ServiceManager, status: S, before_ready: B) -> Self {
        let (before_ready, said, silent_for) = (Some(before_ready), String::new(), Duration::ZERO);
        Self { manager, status, before_ready, said, silent_for }
    }

    /// Reports the result of a check after that time; `None` if there was none.
    fn take(&mut self, answer: Option<Answer>, after: Duration) {
        let status = match answer {
            Some(Answer::Alive) => (self.status)(),
            Some(Answer::Away) => format!("out of reach at its place; {}", (self.status)()),
            Some(Answer::Failed(errno)) => format!("the mount answers: {}", errno.desc()),
            None => format!("the mount has not answered for {} s", (self.silent_for + after).as_secs()),
        };
        match answer {
            Some(Answer::Alive | Answer::Away) if !self.silent_for.is_zero() => {
                log::warn!("the mount answers again, after {} s", self.silent_for.as_secs());
                self.silent_for = Duration::ZERO;
            }
            Some(Answer::Alive | Answer::Away) => {}
            Some(Answer::Failed(_)) if self.said == status => {}
            Some(Answer::Failed(_)) => log::error!("{status}"),
            None => {
                if self.silent_for.is_zero() {
                    log::warn!("the mount has not answered for {} s", after.as_secs_f32().ceil());
                }
                self.silent_for += after;
            }
        }
        if self.said != status {
            self.manager.status(&status);
            self.said = status;
        }
        if answer == Some(Answer::Alive)
            && let Some(before_ready) = self.before_ready.take()
        {
            before_ready();
            self.manager.ready();
        }
        if matches!(answer, Some(Answer::Alive | Answer::Away)) && self.manager.watchdog().is_some() {
            self.manager.alive();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn the_manager_hears_that_the_mount_lives_when_it_has_answered_and_at_no_other_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let manager = ServiceManager::at(path.as_os_str(), Some(Duration::from_secs(3))).unwrap();
        let mut patient = Patient::new(manager, || "serving".into(), || {});
        let mut told = |answer| {
            patient.take(answer, Duration::from_secs(2));
            let mut message = [0; 256];
            let messages =
                std::iter::from_fn(|| socket.recv(&mut message).ok().map(|len| message[..len].to_vec()));
            messages.map(|bytes| String::from_utf8(bytes).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(told(None), ["STATUS=the mount has not answered for 2 s"]);
        let ready = format!("READY=1\nMAINPID={}", process::id());
        assert_eq!(told(Some(Answer::Alive)), ["STATUS=serving", ready.as_str(), "WATCHDOG=1"]);
        assert_eq!(told(Some(Answer::Alive)), ["WATCHDOG=1"]);
        assert_eq!(told(None), ["STATUS=the mount has not answered for 2 s"]);
        assert_eq!(told(None), ["STATUS=the mount has not answered for 4 s"]);
        assert_eq!(told(Some(Answer::Alive)), ["STATUS=serving", "WATCHDOG=1"]);
        assert_eq!(told(Some(Answer::Away)), ["STATUS=out of reach at its place; serving", "WATCHDOG=1"]);
        let failed = Some(Answer::Failed(Errno::ENOTCONN));
        assert_eq!(told(failed), ["STATUS=the mount answers: Transport endpoint is not connected"]);
        assert_eq!(told(failed), [""; 0]);
    }

    #[test]
    fn an_answer_is_what_it_was_when_it_has_been_sent() {
        for answer in [Answer::Alive, Answer::Away, Answer::Failed(Errno::ENOTCONN)] {
            assert_eq!(Answer::of_bytes(answer.to_bytes()), answer);
        }
    }

    #[test]
    fn a_place_without_a_mount_is_away_and_a_missing_one_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(look(dir.path(), &mut None), Answer::Away);
        assert_eq!(look(&dir.path().join("none"), &mut None), Answer::Failed(Errno::ENOENT));
    }
}
