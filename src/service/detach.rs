//! Runs a server in the background. The process forks before it has threads. The parent waits until the child reports that it
//! is ready or has failed.
//!
//! Sources: daemon(7), "SysV Daemons"; setsid(2).

use std::env;
use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};

use namegate_sys::process::fork;
use namegate_telemetry::log;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

/// The role of a process after the fork.
#[derive(Debug)]
pub enum DaemonRole {
    /// The process that was started.
    Starter(ReadyReceiver),
    /// The process that stays.
    Server(ReadySender),
}

/// Waits for the server to become ready.
#[derive(Debug)]
pub struct ReadyReceiver {
    server: Pid,
    pipe: PipeReader,
}

/// Reports to the starter that the server is ready.
#[derive(Debug)]
pub struct ReadySender(PipeWriter);

/// Forks.
///
/// # Errors
/// The process has more than one thread, or the fork fails.
pub fn divide() -> io::Result<DaemonRole> {
    let (reader, writer) = io::pipe()?;
    Ok(match fork()? {
        ForkResult::Parent { child } => DaemonRole::Starter(ReadyReceiver { server: child, pipe: reader }),
        ForkResult::Child => DaemonRole::Server(ReadySender(writer)),
    })
}

impl ReadyReceiver {
    /// Waits until the server is ready. Returns false if it has ended instead; it has reported the error then.
    ///
    /// # Errors
    /// The server was killed.
    pub fn wait(mut self) -> io::Result<bool> {
        if self.pipe.read(&mut [0])? > 0 {
            return Ok(true);
        }
        match waitpid(self.server, None)? {
            WaitStatus::Signaled(_, signal, _) => {
                Err(io::Error::other(format!("the server was ended by {signal}")))
            }
            _ => Ok(false),
        }
    }
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
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        setsid()?;
        env::set_current_dir("/")?;
        // From here on the user sees no messages.
        log::to_system();
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        // The starter may have ended.
        let _ = self.0.write_all(&[1]);
        Ok(())
    }
}
