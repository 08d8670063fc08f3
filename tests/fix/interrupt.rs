//! SIGINT for programs that tests start.

use nix::sys::signal::{SigHandler, Signal, signal};

/// Programs that this process starts from now on are ended by SIGINT, even if this process ignores it because whoever started the
/// tests did (a shell does so for `command &` in a script): a program inherits what is ignored.
pub fn let_sigint_end_programs() {
    // SAFETY: the default action runs no code of this process.
    #[allow(unsafe_code, reason = "a handler would have to be vouched for; the default action is none")]
    let changed = unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) };
    changed.expect("SIGINT has a default action");
}
