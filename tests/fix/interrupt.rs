//! SIGINT and SIGHUP for programs that tests start.

use nix::sys::signal::{SigHandler, Signal, signal};

/// Programs that this process starts from now on are ended by SIGINT and SIGHUP, even if this process ignores them because whoever started
/// the tests did (a shell does so for `command &` in a script, and nohup(1)): a program inherits what is ignored.
pub fn let_signals_end_programs() {
    for of in [Signal::SIGINT, Signal::SIGHUP] {
        // SAFETY: the default action runs no code of this process.
        #[allow(unsafe_code, reason = "a handler would have to be vouched for; the default action is none")]
        let changed = unsafe { signal(of, SigHandler::SigDfl) };
        changed.expect("it has a default action");
    }
}
