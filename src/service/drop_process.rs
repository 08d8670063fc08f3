//! A process that ends the connection with the kernel when the server has died.
//!
//! The kernel does that itself when the last descriptor of the connection is closed. But a thread of the server that has a name dropped
//! from the kernel's cache waits for the lock of a directory (`fuse_reverse_inval_entry`, fs/fuse/dir.c), which a client holds until it has its
//! reply. If the server is killed then, the thread waits for the client, the descriptors stay open as long as the thread is there, and the
//! client waits for ever. So another process must end the connection. It is told when the main thread of the server ends (PR_SET_PDEATHSIG):
//! that thread drops no names. It holds nothing that keeps the connection, nor its mount.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use namegate_mount::ConnectionAborter;
use namegate_sys::process::{close_all_but, fork, has_main_thread_ended};
use namegate_sys::tree::mount_nowhere;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid};

use super::confinement;
use super::detach::leave_standard_streams;

/// What the kernel sends when the main thread of the server has ended.
const SERVER_HAS_ENDED: Signal = Signal::SIGUSR1;

/// The process, as the server sees it. It ends with the server, or before if it is not needed.
#[derive(Debug)]
pub struct AbortProcess {
    line: UnixStream,
    process: Pid,
    is_needed: AtomicBool,
}

impl AbortProcess {
    /// Starts the process. To be called by the main thread.
    ///
    /// # Errors
    /// This process has more than one thread, or the fork fails.
    pub fn start() -> io::Result<Self> {
        let (line, other_end) = UnixStream::pair()?;
        let server = process::id();
        match fork()? {
            ForkResult::Parent { child } => {
                Ok(Self { line, process: child, is_needed: AtomicBool::new(false) })
            }
            ForkResult::Child => {
                // Errors are not reported from here: the server notices when this process ends.
                let _ = serve(other_end.into(), server);
                process::exit(0)
            }
        }
    }
}

impl ConnectionAborter for AbortProcess {
    fn abort_on_death(&self, connection: u32) -> io::Result<()> {
        let mut line = &self.line;
        line.write_all(&connection.to_ne_bytes())?;
        let mut answer = [0; 4];
        line.read_exact(&mut answer)?;
        match i32::from_ne_bytes(answer) {
            0 => {
                self.is_needed.store(true, Ordering::Relaxed);
                Ok(())
            }
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for AbortProcess {
    fn drop(&mut self) {
        if !self.is_needed.load(Ordering::Relaxed) {
            let _ = self.line.shutdown(Shutdown::Both);
            let _ = waitpid(self.process, None);
        }
    }
}

fn serve(line: OwnedFd, server: u32) -> io::Result<()> {
    leave_standard_streams()?;
    close_all_but(&line)?;
    // Signals that end the server reach the whole process group.
    SigSet::all().thread_block()?;
    set_pdeathsig(SERVER_HAS_ENDED)?;
    let mut line = UnixStream::from(line);
    let mut number = [0; 4];
    line.read_exact(&mut number)?;
    let connection = open_abort(u32::from_ne_bytes(number));
    confinement::keep_nothing();
    let errno = connection.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    line.write_all(&errno.to_ne_bytes())?;
    let mut connection = connection?;
    let signals = SigSet::from(SERVER_HAS_ENDED);
    loop {
        signals.wait()?;
        if has_ended(server) {
            return connection.write_all(b"1");
        }
    }
}

/// Opens the file that ends the connection when it is written to. It belongs to this connection, whichever gets its number later.
fn open_abort(connection: u32) -> io::Result<File> {
    let open = |directory: &Path| {
        OpenOptions::new().write(true).open(directory.join(connection.to_string()).join("abort"))
    };
    open(Path::new("/sys/fs/fuse/connections")).or_else(|_| {
        let directory = mount_nowhere(c"fusectl")?;
        open(&PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())))
    })
}

/// Whether the main thread of the process has ended, or is about to.
fn has_ended(process: u32) -> bool {
    // The signal comes a moment before the state. Anybody with the right may send one, too.
    const MOMENT: Duration = Duration::from_millis(10);
    (0..100).any(|_| {
        has_main_thread_ended(process) || {
            sleep(MOMENT);
            false
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_ended_when_its_main_thread_has() {
        assert!(!has_ended(process::id()));
        let mut child = process::Command::new("true").spawn().unwrap();
        // It stays a zombie until somebody waits for it.
        assert!(has_ended(child.id()));
        child.wait().unwrap();
        assert!(has_ended(child.id()));
    }

    #[test]
    fn a_connection_that_is_not_there_cannot_be_aborted() {
        assert!(open_abort(u32::MAX).is_err());
    }
}
