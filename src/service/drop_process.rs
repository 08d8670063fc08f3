//! A process that has the kernel drop names for the server ([`namegate_mount::DropProcess`]), and ends the connection when the server has died.
//!
//! The kernel ends a connection itself when its last descriptor is closed. But this process has one, and a thread of it may wait for a client that
//! waits for the server. So it ends the connection, unless another server goes on with it. It is told when the main
//! thread of the server ends (PR_SET_PDEATHSIG), which is the thread that has started it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use namegate_mount::{DropProcess, drop_names_for};
use namegate_sys::process::{close_all_but, fork, has_main_thread_ended};
use namegate_sys::socket::{receive_fds, send_fds};
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
pub struct NameDropProcess {
    control: UnixStream,
    process: Pid,
    is_needed: AtomicBool,
}

impl NameDropProcess {
    /// Starts the process. To be called by the main thread.
    ///
    /// # Errors
    /// This process has more than one thread, or the fork fails.
    pub fn start() -> io::Result<Self> {
        let (control, other_end) = UnixStream::pair()?;
        let server = process::id();
        match fork()? {
            ForkResult::Parent { child } => {
                Ok(Self { control, process: child, is_needed: AtomicBool::new(false) })
            }
            ForkResult::Child => {
                // Errors are not reported from here: the server notices when this process ends.
                let _ = serve(other_end.into(), server);
                process::exit(0)
            }
        }
    }
}

impl DropProcess for NameDropProcess {
    fn connect(
        &self,
        device: BorrowedFd<'_>,
        number: u32,
        goes_on: bool,
        lines: Vec<UnixStream>,
    ) -> io::Result<()> {
        let mut control = &self.control;
        let fds = [device.as_raw_fd()].into_iter().chain(lines.iter().map(AsRawFd::as_raw_fd));
        let [a, b, c, d] = number.to_ne_bytes();
        send_fds(control, None, &[a, b, c, d, goes_on.into()], &fds.collect::<Vec<_>>())?;
        let mut answer = [0; 4];
        control.read_exact(&mut answer)?;
        match i32::from_ne_bytes(answer) {
            0 => {
                self.is_needed.store(true, Ordering::Relaxed);
                Ok(())
            }
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    fn abort(&self) {
        if let Err(error) = (&self.control).write_all(b"x") {
            log::warn!("clients of the mount may have to wait: {error}");
        }
    }
}

impl Drop for NameDropProcess {
    fn drop(&mut self) {
        if !self.is_needed.load(Ordering::Relaxed) {
            let _ = self.control.shutdown(Shutdown::Both);
            let _ = waitpid(self.process, None);
        }
    }
}

fn serve(control: OwnedFd, server: u32) -> io::Result<()> {
    leave_standard_streams()?;
    close_all_but(&control)?;
    // Signals that end the server reach the whole process group.
    SigSet::all().thread_block()?;
    set_pdeathsig(SERVER_HAS_ENDED)?;
    let mut control = UnixStream::from(control);
    let mut message = [0; 5];
    let (len, mut fds) = receive_fds(&control, &mut message)?;
    if len != message.len() || fds.is_empty() {
        return Ok(());
    }
    let [a, b, c, d, goes_on] = message;
    let (device, lines) = (fds.remove(0), fds);
    let connection = open_abort(u32::from_ne_bytes([a, b, c, d]));
    confinement::keep_nothing();
    let started = connection.and_then(|connection| start_threads(&control, connection, &device, lines));
    let errno = started.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO));
    control.write_all(&errno.to_ne_bytes())?;
    let connection = started?;
    let signals = SigSet::from(SERVER_HAS_ENDED);
    loop {
        signals.wait()?;
        if !has_ended(server) {
            continue;
        }
        return if goes_on == 0 { abort(&connection) } else { Ok(()) };
    }
}

/// Starts the threads that drop names, and one that waits for the word to end the connection.
fn start_threads(
    control: &UnixStream,
    connection: File,
    device: &OwnedFd,
    lines: Vec<OwnedFd>,
) -> io::Result<Arc<File>> {
    for line in lines {
        let device = device.try_clone()?;
        thread::Builder::new().spawn(move || drop_names_for(line.into(), device))?;
    }
    let connection = Arc::new(connection);
    let (mut control, to_end) = (control.try_clone()?, connection.clone());
    thread::Builder::new().spawn(move || {
        if control.read_exact(&mut [0]).is_ok() {
            let _ = abort(&to_end);
        }
    })?;
    Ok(connection)
}

fn abort(mut connection: &File) -> io::Result<()> {
    connection.write_all(b"1")
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
