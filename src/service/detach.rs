//! Going into the background, at the right moment: the process divides before there are threads, the part that was started
//! waits, and ends only when the other part has said that it is ready, or has failed.
//!
//! Sources: daemon(7), "SysV Daemons"; setsid(2).

use std::env;
use std::fs::OpenOptions;
use std::io::{self, PipeReader, PipeWriter, Read, Write};

use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, dup2_stderr, dup2_stdin, dup2_stdout, setsid};

use crate::sys::process::fork;
use crate::telemetry::log;

/// Which of the two a process is.
#[derive(Debug)]
pub enum DaemonRole {
    /// The one that was started.
    Starter(ReadyReceiver),
    /// The one that stays.
    Server(ReadySender),
}

/// Waits for the server.
#[derive(Debug)]
pub struct ReadyReceiver {
    server: Pid,
    pipe: PipeReader,
}

/// Tells the starter.
#[derive(Debug)]
pub struct ReadySender(PipeWriter);

/// Divides the process in two.
///
/// # Errors
/// It has more than one thread, or there can be no second process.
pub fn divide() -> io::Result<DaemonRole> {
    let (reader, writer) = io::pipe()?;
    Ok(match fork()? {
        ForkResult::Parent { child } => DaemonRole::Starter(ReadyReceiver { server: child, pipe: reader }),
        ForkResult::Child => DaemonRole::Server(ReadySender(writer)),
    })
}

impl ReadyReceiver {
    /// Whether the server has become ready; if not, it has ended and has said why.
    ///
    /// # Errors
    /// It was killed.
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
    /// Leaves terminal, session and working directory, logs to the system's log from now on, and tells the starter.
    ///
    /// # Errors
    /// There is no /dev/null.
    pub fn detach(mut self) -> io::Result<()> {
        let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
        setsid()?;
        env::set_current_dir("/")?;
        // The last words that the caller can hear.
        log::to_system();
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        dup2_stderr(&null)?;
        // Whoever has waited may have gone.
        let _ = self.0.write_all(&[1]);
        Ok(())
    }
}
