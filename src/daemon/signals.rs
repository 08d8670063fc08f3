//! The signals that a server is told what to do by: one thread waits for them, so that whatever they ask for is done as
//! ordinary code.
//!
//! SIGHUP has two meanings. Service managers and log rotation send it for "read your files again"; the kernel sends it when
//! the terminal goes from which a program was started. They are told apart by looking whether the terminal is still there.
//!
//! Sources: signal(7), sigwait(3), tty(4), daemon(7).

use std::fs::File;
use std::io;
use std::process;
use std::thread;

use nix::sys::signal::{SigSet, Signal};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Read configuration again, and open log files anew.
    Reload,
    /// Come to an end.
    End,
}

/// The signals that are waited for; blocked, so that nothing else happens on them.
#[derive(Debug)]
pub struct Signals {
    set: SigSet,
    has_terminal: bool,
}

impl Signals {
    /// Blocks SIGINT, SIGTERM and SIGHUP in this thread and in those that it makes from now on.
    ///
    /// # Errors
    /// As pthread_sigmask(3) says.
    pub fn block() -> io::Result<Self> {
        let set = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect::<SigSet>();
        set.thread_block()?;
        Ok(Self { set, has_terminal: has_terminal() })
    }

    /// The same for a process that has left its terminal.
    #[must_use]
    pub fn without_terminal(self) -> Self {
        Self { has_terminal: false, ..self }
    }

    /// Calls `act` for every signal, in a thread of its own. When a second one asks for the end, the process ends at once:
    /// whoever asks twice does not want to wait.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn watch(self, mut act: impl FnMut(Wish) + Send + 'static) -> io::Result<()> {
        let wait = move || {
            let mut is_ending = false;
            while let Ok(signal) = self.set.wait() {
                let wish = match signal {
                    Signal::SIGHUP if !self.has_terminal || has_terminal() => Wish::Reload,
                    _ => Wish::End,
                };
                match wish {
                    Wish::Reload => log::info!("{signal}: reading the configuration again"),
                    Wish::End => log::info!("{signal}: unmounting"),
                }
                if wish == Wish::End && std::mem::replace(&mut is_ending, true) {
                    process::exit(128 + signal as i32);
                }
                act(wish);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
    }
}

/// Whether this process has a controlling terminal that still works.
pub fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
