//! Runs a server in the background. The process forks before it has threads. The parent waits until the child reports that it
//! is ready or has failed.
//!
//! Sources: daemon(7), "SysV Daemons"; setsid(2).

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use namegate_sys::process::fork;
use namegate_telemetry::log;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

/// The role of a process after the fork.
#[derive(Debug)]
pub enum DaemonRole {
    /// The process that was started. The server `is_ready`, or it has ended and has reported the error.
    Starter { is_ready: bool },
    /// The process that stays.
    Server(ReadySender),
}

/// Reports to the starter that the server is ready.
#[derive(Debug)]
pub struct ReadySender(PipeWriter);

/// Forks. The starter waits until the server is ready.
///
/// # Errors
/// The process has more than one thread, the fork fails, or the server was killed.
pub fn divide() -> io::Result<DaemonRole> {
    let (mut reader, writer) = io::pipe()?;
    let server = match fork()? {
        ForkResult::Child => return Ok(DaemonRole::Server(ReadySender(writer))),
        ForkResult::Parent { child } => child,
    };
    drop(writer);
    if reader.read(&mut [0])? > 0 {
        return Ok(DaemonRole::Starter { is_ready: true });
    }
    match waitpid(server, None)? {
        WaitStatus::Signaled(_, signal, _) => {
            Err(io::Error::other(format!("the server was ended by {signal}")))
        }
        _ => Ok(DaemonRole::Starter { is_ready: false }),
    }
}

fn open_null() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open("/dev/null")
}

fn replace_standard_streams(null: &File) -> io::Result<()> {
    dup2_stdin(null)?;
    dup2_stdout(null)?;
    Ok(dup2_stderr(null)?)
}

/// Leaves the standard streams to other processes: whoever reads them must not wait for this one.
///
/// # Errors
/// There is no /dev/null.
pub fn leave_standard_streams() -> io::Result<()> {
    replace_standard_streams(&open_null()?)
}

impl ReadySender {
    /// The number of its descriptor.
    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Drops this value in a process in which another one owns the descriptor.
    pub(super) fn disown(self) {
        let _number = OwnedFd::from(self.0).into_raw_fd();
    }

    /// Leaves terminal, session and working directory, logs to the system log from now on, and reports to the starter.
    ///
    /// # Errors
    /// There is no /dev/null.
    pub fn detach(mut self) -> io::Result<()> {
        let null = open_null()?;
        setsid()?;
        env::set_current_dir("/")?;
        // From here on the user sees no messages.
        log::to_system();
        replace_standard_streams(&null)?;
        // The starter may have ended.
        let _ = self.0.write_all(&[1]);
        Ok(())
    }
}
