//! The holder of a mount that survives its server (`--survive`).
//!
//! The server is a child of the holder. Both use the same table of descriptors and the same memory for the state of the mount
//! ([`SurvivalState`]). So the kernel's device, the descriptors of nodes and the open files stay when the server is killed: clients
//! wait. The holder starts another server, which finishes the requests that were out and goes on.
//!
//! After SIGUSR2 the holder kills the server and becomes the program that is now where its own was: an upgrade
//! (`namegate upgrade`).
//!
//! The holder does nothing else but to pass on signals. It opens nothing after the first server has started: the next server closes
//! descriptors that it does not know.
//!
//! Sources: clone(2), `CLONE_FILES`; proc_pid_oom_score_adj(5); waitpid(2).

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Command};
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, getpid, setsid};

use super::confinement::{give_up, raise_open_files};
use super::serve::ServeError;
use crate::fuse::{new_state, open_state};
use crate::name::display::shown;
use crate::state::SurvivalState;
use crate::state::journal::{CRASHED, KILLED};
use crate::sys::inherited::{
    Inherited, fork_with_common_descriptors, keep_for_next_program, of_previous_program, open_numbers,
};
use crate::telemetry::log as log_output;

/// The exit status of a Rust program that has panicked.
const PANICKED: i32 = 101;

/// After servers have ended so often without finishing any request, weighed like the blame for requests, there is no other one.
const MOST: u64 = 512;

/// What a holder leaves to the program that it becomes: the number of the descriptor of the state, and whether it has no terminal.
const LEFT: &str = "NAMEGATE_STATE";

/// The signal that asks for an upgrade.
pub const UPGRADE: Signal = Signal::SIGUSR2;

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// A server that has a holder.
#[derive(Clone, Debug)]
pub(super) struct HeldServer {
    /// The state of the mount.
    pub(super) state: &'static SurvivalState,
    /// The holder.
    pub(super) holder: Pid,
    /// How the previous server has ended; `None` for the first server.
    pub(super) previous: Option<String>,
}

/// What the previous program of this process has left: the number of a descriptor, and whether the process has no terminal.
fn left() -> Option<(RawFd, bool)> {
    let left = env::var(LEFT).ok()?;
    let (number, is_detached) = left.split_once(' ')?;
    Some((number.parse().ok()?, is_detached == "detached"))
}

/// Whether this process serves a mount already, by another program: nothing is mounted then.
pub(super) fn goes_on() -> bool {
    left().is_some()
}

/// Whether the previous program of this process has left its terminal.
pub(super) fn was_detached() -> bool {
    left().is_some_and(|(_, is_detached)| is_detached)
}

/// Makes this process the holder, and returns in each server that it starts. The holder ends with the last server, with its status.
///
/// `starter` is a descriptor that the first server closes when the mount is live; then the holder leaves terminal and directory.
///
/// # Errors
/// No server can be started, or the state of the mount cannot be kept.
pub(super) fn hold(starter: Option<RawFd>, is_confined: bool) -> Result<HeldServer, ServeError> {
    let impossible = |what: &str, error: &dyn std::fmt::Display| {
        ServeError::new(format!("cannot {what}, as --survive needs: {error}"))
    };
    let place = env::current_exe().and_then(|program| Ok((program, env::current_dir()?)));
    let place = place.map_err(|error| impossible("find the program", &error))?;
    let left = left();
    let state = match left {
        Some((number, _)) => {
            let fd = of_previous_program(number)
                .ok_or(Errno::EBADF)
                .map_err(|errno| impossible("go on", &errno))?;
            let other = |_| {
                ServeError::new(
                    "cannot go on with the mount: this version keeps its state in another way; unmount it and mount it again",
                )
            };
            open_state(fd).map_err(other)?
        }
        None => new_state().map_err(|error| impossible("create the state of the mount", &error))?,
    };
    raise_open_files();
    if left.is_none() {
        let score = fs::read_to_string(OOM_SCORE).ok().and_then(|score| score.trim().parse().ok());
        state.set_oom_score(score.unwrap_or_default());
        // Without the right to do so, it stays as likely to be ended as before.
        let _ = fs::write(OOM_SCORE, "-1000");
    }
    let is_detached = starter.is_some() || was_detached();
    if is_confined {
        give_up().map_err(|error| impossible("give up privileges", &error))?;
    }
    if is_detached {
        // The first server does the same for itself. The process of an earlier program has a session of its own.
        let has_session = if starter.is_some() { setsid().map(drop) } else { Ok(()) };
        let detached = has_session.map_err(io::Error::from).and_then(|()| env::set_current_dir("/"));
        detached.map_err(|error| impossible("go into the background", &error))?;
    }
    let child = SigSet::from(Signal::SIGCHLD);
    let passed_on = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let all = passed_on.into_iter().chain([Signal::SIGCHLD, UPGRADE]).collect::<SigSet>();
    all.thread_block().map_err(|errno| impossible("block signals", &errno.desc()))?;
    let mut own = open_numbers().map_err(|error| impossible("list descriptors", &error))?;
    if left.is_some() {
        let needed: HashSet<RawFd> = state.needed_descriptors().collect();
        own.retain(|number| !needed.contains(number));
    }
    if let Some(starter) = starter {
        own.remove(&starter);
    }
    let holder = getpid();
    let (mut previous, mut deaths, mut end) = (left.map(|_| "an upgrade".to_owned()), 0, None);
    loop {
        let progress = state.progress();
        state.begin_server();
        match fork_with_common_descriptors() {
            Err(errno) => return Err(impossible("start a server", &errno.desc())),
            Ok(ForkResult::Child) => {
                let _ = child.thread_unblock();
                let _ = fs::write(OOM_SCORE, state.oom_score().to_string());
                let server = HeldServer { state, holder, previous };
                return server.take_over(&own).map_err(|error| impossible("take over descriptors", &error));
            }
            Ok(ForkResult::Parent { child: server }) => {
                let Death { cause: mut death, blame, end: unmet } = wait(server, &all, end);
                end = unmet;
                let fail = |why: &str| {
                    if is_detached {
                        log_output::to_system();
                    }
                    log::error!("{why}");
                    process::exit(2);
                };
                if !state.is_serving() {
                    fail(&format!("the server was ended by {death} before it had mounted"));
                }
                deaths = if state.progress() == progress { deaths + blame } else { blame };
                if deaths >= MOST {
                    fail(&format!(
                        "servers end without serving, the last one by {death}: clients of the mount get errors"
                    ));
                }
                if deaths > blame {
                    sleep(Duration::from_millis(deaths.min(10)));
                }
                if blame == 0 && end.is_none() {
                    let error = become_next_program(state, &place, is_detached);
                    // This program goes on.
                    let _ = (all.thread_block(), is_detached.then(|| env::set_current_dir("/")));
                    death = format!("an upgrade that failed ({}: {error})", shown(&place.0));
                }
                state.set_blame(blame);
                previous = Some(death);
            }
        }
    }
}

/// Becomes the program at `place`, started in the same directory with the same arguments. Returns why that is not possible.
fn become_next_program(
    state: &'static SurvivalState,
    (program, directory): &(PathBuf, PathBuf),
    is_detached: bool,
) -> io::Error {
    keep_for_next_program(state.needed_descriptors().chain([state.number()]));
    let mut arguments = env::args_os();
    let name = arguments.next().unwrap_or_default();
    let left = format!("{} {}", state.number(), if is_detached { "detached" } else { "attached" });
    Command::new(program).arg0(name).args(arguments).current_dir(directory).env(LEFT, left).exec()
}

/// How a server has ended that another one is to follow.
struct Death {
    cause: String,
    /// How much its requests are to blame: nothing for an upgrade.
    blame: u64,
    /// The signal that was to end the mount when the server died: the next one has to unmount.
    end: Option<Signal>,
}

/// Passes signals on to the server until it has ended; begins with `end`, which the previous server died before it could obey. If that is so
/// for this one, too, or it has unmounted, this process ends.
fn wait(server: Pid, signals: &SigSet, end: Option<Signal>) -> Death {
    // It may have ended just now.
    let pass_on = |signal| {
        let _ = kill(server, signal);
    };
    end.into_iter().for_each(pass_on);
    let (mut ending, mut is_upgrade) = (end, false);
    let death = |cause: String, blame, end| Death { cause, blame, end };
    loop {
        match signals.wait() {
            Ok(Signal::SIGCHLD) | Err(_) => {}
            Ok(UPGRADE) => {
                is_upgrade = true;
                pass_on(Signal::SIGKILL);
            }
            Ok(signal) => {
                if signal != Signal::SIGHUP {
                    ending = Some(signal);
                }
                pass_on(signal);
            }
        }
        match waitpid(server, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, PANICKED)) if end.is_none() => {
                return death("a panic".into(), CRASHED, ending);
            }
            Ok(WaitStatus::Exited(_, status)) => process::exit(status),
            Ok(WaitStatus::Signaled(_, signal, _)) if end.is_some() => process::exit(128 + signal as i32),
            Ok(WaitStatus::Signaled(..)) if is_upgrade => return death("an upgrade".into(), 0, ending),
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                let blame = if signal == Signal::SIGKILL { KILLED } else { CRASHED };
                return death(signal.to_string(), blame, ending);
            }
            Err(Errno::ECHILD) => process::exit(2),
            _ => {}
        }
    }
}

impl HeldServer {
    /// Takes over the descriptors of the previous server. Those in `own` were open before the first one.
    fn take_over(self, own: &HashSet<RawFd>) -> io::Result<Self> {
        if self.previous.is_some() {
            let needed = self.state.needed_descriptors().collect();
            self.state.inherit(Inherited::sort_out(own, &needed)?);
        }
        Ok(self)
    }
}
