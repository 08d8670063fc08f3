//! Signals, taken up by threads as ordinary code, so that they interrupt nothing and nothing that hangs delays the end.
//!
//! A command that runs for long polls [`Signals`]. A server has [`ServerSignals`] carried out by threads.
//!
//! SIGHUP has two meanings. Service managers and log rotation send it for "read your files again"; the kernel sends it when
//! the terminal goes from which a program was started. They are told apart by looking whether the terminal is still there.
//!
//! Sources: signal(7), signalfd(2), sigwait(3), tty(4), daemon(7).

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The signals of a command that runs for long: they wait until they are taken up.
#[derive(Debug)]
pub struct Signals {
    set: SigSet,
    fd: Option<SignalFd>,
}

impl Signals {
    /// SIGINT and SIGTERM, which end a run, and SIGUSR1, which asks for its progress.
    pub const RUN: &[Signal] = &[Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1];
    /// Likewise, and SIGHUP, which asks for files to be read again.
    pub const WATCH: &[Signal] = &[Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGHUP];

    /// Takes up `signals` from now on; to be called before there is a second thread. Signals that whoever started the program
    /// ignores, as a shell does for what it runs in the background, stay ignored.
    pub fn take(signals: &[Signal]) -> Self {
        let ignored = ignored();
        let wanted = signals.iter().copied().filter(|&signal| ignored >> (signal as u32 - 1) & 1 == 0);
        let set: SigSet = wanted.collect();
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        // Without a descriptor the signals act as they always do.
        let fd = SignalFd::with_flags(&set, flags).ok().filter(|_| set.thread_block().is_ok());
        Self { set, fd }
    }

    /// Restores the default actions of the signals.
    pub fn give_back(&self) {
        // It cannot fail for a set of signals that exist.
        let _ = self.set.thread_unblock();
    }

    /// The descriptor that is readable when a signal has come.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Returns the next signal, if one has come.
    pub fn next(&self) -> Option<Signal> {
        let info = self.fd.as_ref()?.read_signal().ok()??;
        i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())
    }
}

/// The set of signals that are ignored, as in proc_pid_status(5): the bit 0 is the signal 1.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// A request made by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    /// Read configuration again, and open log files anew.
    Reload,
    /// Come to an end.
    End,
}

/// The signals that are waited for; blocked, so that nothing else happens on them.
#[derive(Debug)]
pub struct ServerSignals {
    set: SigSet,
    has_terminal: bool,
}

impl ServerSignals {
    /// Blocks SIGINT, SIGTERM and SIGHUP in this thread and in those that it makes from now on.
    ///
    /// # Errors
    /// As pthread_sigmask(3) says.
    pub fn block() -> io::Result<Self> {
        let set = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect::<SigSet>();
        set.thread_block()?;
        Ok(Self { set, has_terminal: has_terminal() })
    }

    /// For a process that has left its terminal: SIGHUP always asks for a reload.
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
    pub fn watch(self, act: impl Fn(SignalRequest) + Send + Sync + 'static) -> io::Result<()> {
        let act = Arc::new(act);
        let (reload, reloads) = sync_channel::<()>(1);
        let reloading = act.clone();
        let carry_out = move || reloads.iter().for_each(|()| reloading(SignalRequest::Reload));
        thread::Builder::new().name("reload".into()).spawn(carry_out)?;
        let (end, ends) = sync_channel::<()>(1);
        let carry_out = move || ends.iter().for_each(|()| act(SignalRequest::End));
        thread::Builder::new().name("end".into()).spawn(carry_out)?;
        let wait = move || {
            let mut is_ending = false;
            while let Ok(signal) = self.set.wait() {
                let request = match signal {
                    Signal::SIGHUP if !self.has_terminal || has_terminal() => SignalRequest::Reload,
                    _ => SignalRequest::End,
                };
                match request {
                    SignalRequest::Reload => log::info!("{signal}: reading the configuration again"),
                    SignalRequest::End => log::info!("{signal}: unmounting"),
                }
                if request == SignalRequest::End && std::mem::replace(&mut is_ending, true) {
                    process::exit(128 + signal as i32);
                }
                // One that waits already stands for this one, too.
                let _ = match request {
                    SignalRequest::Reload => reload.try_send(()),
                    SignalRequest::End => end.try_send(()),
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
