//! Signals of a command that runs for long: taken up by a thread of its own, so that they interrupt nothing.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// Those that end the run, and the one that asks how far it has come.
const TAKEN: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1];

/// Signals that wait to be taken up.
#[derive(Debug)]
pub struct Signals {
    set: SigSet,
    fd: Option<SignalFd>,
}

impl Signals {
    /// Takes the signals from now on; to be called before there is a second thread. Those that whoever started the program
    /// wants ignored, as a shell does for what it runs in the background, stay ignored.
    pub fn take() -> Self {
        Self::take_all(&TAKEN)
    }

    /// The same, with the one that asks for things to be read again.
    pub fn take_with_hangup() -> Self {
        Self::take_all(&[&TAKEN[..], &[Signal::SIGHUP]].concat())
    }

    fn take_all(all: &[Signal]) -> Self {
        let ignored = ignored();
        let wanted = all.iter().copied().filter(|&signal| ignored >> (signal as u32 - 1) & 1 == 0);
        let set: SigSet = wanted.collect();
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        // Without a descriptor the signals act as they always do.
        let fd = SignalFd::with_flags(&set, flags).ok().filter(|_| set.thread_block().is_ok());
        Self { set, fd }
    }

    /// Lets the signals act as they always do: there is nobody to take them up.
    pub fn give_back(&self) {
        // It cannot fail for a set of signals that exist.
        let _ = self.set.thread_unblock();
    }

    /// What can be read when one has come.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    /// The next one, if one has come.
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
