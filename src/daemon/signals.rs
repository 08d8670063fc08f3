//! The signals that a server is told what to do by: threads wait for them, so that whatever they ask for is done as ordinary
//! code, and nothing that hangs delays the end.
//!
//! SIGHUP has two meanings. Service managers and log rotation send it for "read your files again"; the kernel sends it when
//! the terminal goes from which a program was started. They are told apart by looking whether the terminal is still there.
//!
//! Sources: signal(7), sigwait(3), tty(4), daemon(7).

use std::fs::File;
use std::io;
use std::process;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
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

    /// Calls `act` for every signal, in threads of their own: one waits for signals and for nothing else, one reads
    /// configuration again, and one brings the service to its end. So a reload that hangs, because of a file that it reads, or
    /// an unmounting that does, keeps nobody from ending the process. Reloads that are asked for while one goes on become one.
    /// When a second signal asks for the end, the process ends at once: whoever asks twice does not want to wait.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn watch(self, act: impl Fn(Wish) + Send + Sync + 'static) -> io::Result<()> {
        let act = Arc::new(act);
        let (reload, reloads) = sync_channel::<()>(1);
        let reloading = act.clone();
        let carry_out = move || reloads.iter().for_each(|()| reloading(Wish::Reload));
        thread::Builder::new().name("reload".into()).spawn(carry_out)?;
        let (end, ends) = sync_channel::<()>(1);
        let carry_out = move || ends.iter().for_each(|()| act(Wish::End));
        thread::Builder::new().name("end".into()).spawn(carry_out)?;
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
                // One that waits already stands for this one, too.
                let _ = match wish {
                    Wish::Reload => reload.try_send(()),
                    Wish::End => end.try_send(()),
                };
            }
        };
        thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
    }
}

/// Whether this process has a controlling terminal that still works.
pub fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}
