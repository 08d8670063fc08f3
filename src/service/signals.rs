//! Signals, received by threads as ordinary code. So they interrupt no system call, and the end is not delayed by code that
//! hangs.
//!
//! A long-running command polls [`Signals`]. A server has threads that handle [`ServerSignals`].
//!
//! SIGHUP has two meanings. Service managers and log rotation send it to request a reload; the kernel sends it when the
//! terminal of the process is closed. The two are distinguished by checking whether the terminal still works.
//!
//! Sources: signal(7), signalfd(2), sigwait(3), tty(4), daemon(7).

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use namegate_files::output::{remove_unfinished, writing};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// The signals of a long-running command: they stay pending until they are received.
#[derive(Debug)]
pub struct Signals {
    set: SigSet,
    fd: Option<SignalFd>,
}

impl Signals {
    /// Receives SIGINT, SIGTERM and SIGHUP, which end a run or request a reload, and SIGUSR1, which requests the progress, from now on. Call
    /// this before there is a second thread. Signals that were ignored when the program started stay ignored; a shell ignores some for
    /// background jobs.
    pub fn take() -> Self {
        let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGUSR1];
        let ignored = signal_set("SigIgn:");
        let wanted = signals.into_iter().filter(|&signal| ignored >> (signal as u32 - 1) & 1 == 0);
        let set: SigSet = wanted.collect();
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        // Without a descriptor, the signals keep their default actions.
        let fd = SignalFd::with_flags(&set, flags).ok().filter(|_| set.thread_block().is_ok());
        Self { set, fd }
    }

    /// Restores the default actions of the signals that end a run. Who asks for progress once it is over ends nothing.
    pub fn give_back(&self) {
        let ends = self.set.iter().filter(|&signal| signal != Signal::SIGUSR1);
        // This cannot fail for valid signals.
        let _ = ends.collect::<SigSet>().thread_unblock();
    }

    /// Ends the process at SIGTERM or SIGINT while a write to an output is stuck: whoever polls these signals may be the one that writes.
    pub fn end_stuck_writes(&self) {
        /// How long a write may take after a signal.
        const WRITE_GRACE: Duration = Duration::from_millis(700);
        const INTERVAL: Duration = Duration::from_millis(50);
        let Some(Ok(fd)) = self.fd().map(|fd| fd.try_clone_to_owned()) else { return };
        let end = move || {
            let mut stuck = None::<(u64, Instant)>;
            loop {
                let mut pending = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut pending, PollTimeout::NONE);
                let signals = signal_set("ShdPnd:");
                let mut ending = [Signal::SIGTERM, Signal::SIGINT].into_iter();
                let ending = ending.find(|&signal| signals >> (signal as u32 - 1) & 1 == 1);
                stuck = match (ending, writing(), stuck) {
                    (Some(signal), (ended, true), Some((before, since))) if ended == before => {
                        if since.elapsed() >= WRITE_GRACE {
                            remove_unfinished();
                            process::exit(128 + signal as i32);
                        }
                        Some((before, since))
                    }
                    (Some(_), (ended, true), _) => Some((ended, Instant::now())),
                    _ => None,
                };
                thread::sleep(INTERVAL);
            }
        };
        // Without the thread, a signal is handled when the write has ended.
        let _ = thread::Builder::new().name("signals".into()).spawn(end);
    }

    /// A descriptor that is readable when a signal is pending.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// Returns the next pending signal, if there is one.
    pub fn next(&self) -> Option<Signal> {
        let info = self.fd.as_ref()?.read_signal().ok()??;
        i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())
    }
}

impl Drop for Signals {
    /// What the command still writes may wait for its reader.
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A set of signals of proc_pid_status(5): bit 0 is signal 1.
fn signal_set(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix(field));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalRequest {
    /// Read the configuration again, and reopen log files.
    Reload,
    /// End the service.
    End,
    /// A signal that means something to this server alone.
    Other(Signal),
}

/// The signals of a server, which are blocked, so that only the threads receive them.
#[derive(Debug)]
pub struct ServerSignals {
    fd: SignalFd,
    has_terminal: bool,
    /// Whether signals may come twice: from their sender, and from a process that passes them on.
    may_come_twice: bool,
}

impl ServerSignals {
    /// Blocks SIGINT, SIGTERM, SIGHUP, and the signals in `also` in this thread and in all threads that it creates later.
    ///
    /// # Errors
    /// As pthread_sigmask(3) says.
    pub fn block(also: &[Signal], may_come_twice: bool) -> io::Result<Self> {
        let all = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter();
        let set = all.chain(also.iter().copied()).collect::<SigSet>();
        set.thread_block()?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { fd, has_terminal: has_terminal(), may_come_twice })
    }

    /// For a process that has left its terminal: SIGHUP always requests a reload.
    #[must_use]
    pub fn without_terminal(self) -> Self {
        Self { has_terminal: false, ..self }
    }

    /// Calls `act` for every signal, in separate threads: one only waits for signals, one reloads, one ends the service, and one does the rest.
    /// So a reload that hangs on a file, or an unmount that hangs, does not keep the process from ending. Requests for a
    /// reload while one is running are combined into one. A second signal to end makes the process end at once.
    ///
    /// # Errors
    /// A thread cannot be created.
    pub fn watch(self, act: impl Fn(SignalRequest) + Send + Sync + 'static) -> io::Result<()> {
        let act = Arc::new(act);
        let start_worker = |name: &str, most_pending| {
            let (sender, requests) = sync_channel::<SignalRequest>(most_pending);
            let act = act.clone();
            let work = move || requests.iter().for_each(|request| act(request));
            thread::Builder::new().name(name.into()).spawn(work).map(|_| sender)
        };
        // A pending reload, or end, also serves the next request for it. Other signals are few.
        let (reload, end, other) =
            (start_worker("reload", 1)?, start_worker("end", 1)?, start_worker("other", 4)?);
        let wait = move || {
            let (mut is_ending, mut senders) = (false, HashSet::new());
            while let Ok(Some(info)) = self.fd.read_signal() {
                let number = i32::try_from(info.ssi_signo).unwrap_or_default();
                let Ok(signal) = Signal::try_from(number) else { continue };
                // It fails if the same was requested before.
                let _ = match signal {
                    Signal::SIGHUP if !self.has_terminal || has_terminal() => {
                        log::info!("{signal}: reading the configuration again");
                        reload.try_send(SignalRequest::Reload)
                    }
                    Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP => {
                        log::info!("{signal}: unmounting");
                        let is_new = senders.insert(info.ssi_pid);
                        if mem::replace(&mut is_ending, true) && !(self.may_come_twice && is_new) {
                            process::exit(128 + signal as i32);
                        }
                        end.try_send(SignalRequest::End)
                    }
                    _ => other.try_send(SignalRequest::Other(signal)),
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
