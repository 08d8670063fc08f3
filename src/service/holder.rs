//! The holder of a mount that survives its server (`--survive`).
//!
//! The server is a child of the holder. Both use the same table of descriptors and the same memory for the state of the mount
//! ([`SurvivalState`]). So the kernel's device, the descriptors of nodes and the open files stay when the server is killed: clients
//! wait. The holder starts another server, which finishes the requests that were out and goes on.
//!
//! After SIGUSR2 the holder has the server finish its requests, and becomes the program that is now where its own was: an upgrade
//! (`namegate upgrade`). After SIGUSR1 it does the same, gives all descriptors to the service manager and ends: a restart of the service.
//! A server that has not finished in time is killed, and its requests are finished by the next one.
//!
//! The holder does nothing else but to pass on signals. It opens nothing after the first server has started: the next server closes
//! descriptors that it does not know.
//!
//! Sources: clone(2), `CLONE_FILES`; proc_pid_oom_score_adj(5); waitpid(2).

use std::collections::HashSet;
use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Command};
use std::thread::sleep;
use std::time::Duration;

use namegate_core::name::display::shown;
use namegate_survive::journal::{CRASHED, KILLED};
use namegate_survive::{SurvivalState, new_state};
use namegate_sys::inherited::{fork_with_common_descriptors, keep_for_next_program, open_numbers};
use namegate_telemetry::log as log_output;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, getpid, setsid};

use super::confinement::{give_up, raise_open_files};
use super::fd_store;
use super::held_server::HeldServer;
use super::notify::ServiceManager;
use super::predecessor::{LeftState, variable};
use super::serve_error::ServeError;
use super::signals::{LEAVE, UPGRADE};

/// The exit status of a Rust program that has panicked.
const PANICKED: i32 = 101;

/// Give up once servers that completed nothing reach this crash score.
const MAX_CRASH_SCORE: u64 = 512;

/// The exit status of a server that has finished its requests for a successor.
pub(super) const HANDED_OVER: i32 = 77;

/// How long a server may serve others while the requests in its pool are finished, before it stops reading.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that has not handed over after these seconds is killed: clients wait for the difference at most, and then for the next server.
const HANDOVER_SECONDS: u32 = DRAIN_TIMEOUT.as_secs() as u32 + 3;

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// Makes this process the holder, and returns in each server that it starts. The holder ends with the last server, with its status.
///
/// `starter` is a descriptor that the first server closes when the mount is live; then the holder leaves terminal and directory.
///
/// # Errors
/// No server can be started, or the state of the mount cannot be kept.
pub(super) fn hold(
    left: Option<LeftState>,
    (starter, is_detached): (Option<RawFd>, bool),
    manager: &ServiceManager,
    is_confined: bool,
) -> Result<HeldServer, ServeError> {
    let place = env::current_exe().and_then(|program| Ok((program, env::current_dir()?)));
    let place = place.map_err(|error| impossible("find the program", &error))?;
    let state = match &left {
        Some(left) => left.state,
        None => new_state().map_err(|error| impossible("create the state of the mount", &error))?,
    };
    leave_surroundings(state, left.as_ref(), starter.is_some(), is_detached, is_confined)?;
    let child = SigSet::from(Signal::SIGCHLD);
    let passed_on = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let own = [Signal::SIGCHLD, Signal::SIGALRM, UPGRADE, LEAVE];
    let all = passed_on.into_iter().chain(own).collect::<SigSet>();
    all.thread_block().map_err(|errno| impossible("block signals", &errno.desc()))?;
    let own = own_descriptors(left.as_ref(), starter)?;
    let mut previous = None;
    if let Some(LeftState { end, crash_score, .. }) = left {
        state.set_crash_score(crash_score);
        previous = Some(end.to_owned());
    }
    let holder = getpid();
    let (mut deaths, mut end) = (0, None);
    loop {
        let progress = state.progress();
        state.begin_server();
        match fork_with_common_descriptors() {
            Err(errno) => return Err(impossible("start a server", &errno.desc())),
            Ok(ForkResult::Child) => {
                let _ = child.thread_unblock();
                let _ = fs::write(OOM_SCORE, state.oom_score().to_string());
                let server = HeldServer { state, holder, previous, needs_mount: Vec::new() };
                return server.take_over(&own).map_err(|error| impossible("take over descriptors", &error));
            }
            Ok(ForkResult::Parent { child: server }) => {
                let Death { cause: mut death, crash_score, next } =
                    wait(server, &all, end, manager.is_there());
                end = if let Next::ToEnd(signal) = next { Some(signal) } else { None };
                if !state.is_serving() {
                    let why = format!("the server was ended by {death} before it had mounted");
                    exit_with_error(&why, is_detached);
                }
                deaths = if state.progress() == progress { deaths + crash_score } else { crash_score };
                if deaths >= MAX_CRASH_SCORE {
                    let why = format!(
                        "servers end without serving, the last one by {death}: clients of the mount get errors"
                    );
                    exit_with_error(&why, is_detached);
                }
                if deaths > crash_score {
                    sleep(Duration::from_millis(deaths.min(10)));
                }
                if next == Next::AnotherProcess {
                    match fd_store::store_all(manager, state) {
                        Ok(()) => process::exit(0),
                        Err(error) => {
                            log::error!("the service manager cannot keep the mount, which ends: {error}");
                            end = Some(Signal::SIGTERM);
                        }
                    }
                }
                if next == Next::AnotherProgram {
                    let error = become_next_program(state, &place, is_detached);
                    // This program goes on.
                    let _ = (all.thread_block(), is_detached.then(|| env::set_current_dir("/")));
                    death = format!("an upgrade that failed ({}: {error})", shown(&place.0));
                }
                state.set_crash_score(crash_score);
                previous = Some(death);
            }
        }
    }
}

fn impossible(what: &str, error: &dyn fmt::Display) -> ServeError {
    ServeError::new(format!("--survive: cannot {what}: {error}"))
}

/// Makes this process one that only the last server ends: not likely to be killed for memory, without privileges, and without
/// terminal and directory if it `is_detached`.
fn leave_surroundings(
    state: &SurvivalState,
    left: Option<&LeftState>,
    has_starter: bool,
    is_detached: bool,
    is_confined: bool,
) -> Result<(), ServeError> {
    raise_open_files();
    if left.is_none_or(|left| !left.is_same_process) {
        let score = fs::read_to_string(OOM_SCORE).ok().and_then(|score| score.trim().parse().ok());
        state.set_oom_score(score.unwrap_or_default());
        // Without the right to do so, it stays as likely to be ended as before.
        let _ = fs::write(OOM_SCORE, "-1000");
    }
    if is_confined {
        give_up().map_err(|error| impossible("give up privileges", &error))?;
    }
    if is_detached {
        // The first server does the same for itself. The process of an earlier program has a session of its own.
        let has_session = if has_starter { setsid().map(drop) } else { Ok(()) };
        let detached = has_session.map_err(io::Error::from).and_then(|()| env::set_current_dir("/"));
        detached.map_err(|error| impossible("go into the background", &error))?;
    }
    Ok(())
}

/// The descriptors that were open before the first server, and are nobody else's.
fn own_descriptors(left: Option<&LeftState>, starter: Option<RawFd>) -> Result<HashSet<RawFd>, ServeError> {
    let mut own = open_numbers().map_err(|error| impossible("list descriptors", &error))?;
    if let Some(left) = left {
        own.retain(|number| !left.descriptors.contains(number));
    }
    if let Some(starter) = starter {
        own.remove(&starter);
    }
    Ok(own)
}

fn exit_with_error(why: &str, is_detached: bool) -> ! {
    if is_detached {
        log_output::to_system();
    }
    log::error!("{why}");
    process::exit(2)
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
    let (variable, left) = variable(state.number(), is_detached);
    let mut next = Command::new(program);
    next.arg0(name).args(arguments).current_dir(directory).env(variable, left);
    // It has not got anything from the service manager.
    for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
        next.env_remove(variable);
    }
    next.exec()
}

/// What comes after a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Another server.
    Server,
    /// One that has to unmount: the last one has died before it could obey this signal.
    ToEnd(Signal),
    /// The program that is installed now, in this process.
    AnotherProgram,
    /// Another process, which the service manager starts.
    AnotherProcess,
}

/// How a server has ended that another one is to follow.
struct Death {
    cause: String,
    /// How much its end adds to the crash score of its requests: nothing if it was to make room.
    crash_score: u64,
    next: Next,
}

/// Passes signals on to the server until it has ended; begins with `end`, which the previous server died before it could obey. If that is so
/// for this one, too, or it has unmounted, this process ends.
fn wait(server: Pid, signals: &SigSet, end: Option<Signal>, may_leave: bool) -> Death {
    // It may have ended just now.
    let pass_on = |signal| {
        let _ = kill(server, signal);
    };
    end.into_iter().for_each(pass_on);
    let mut next = end.map_or(Next::Server, Next::ToEnd);
    loop {
        match signals.wait() {
            Ok(Signal::SIGCHLD) | Err(_) => {}
            // The service manager asks for the end, too, while it waits for this process to leave.
            Ok(Signal::SIGTERM) if next == Next::AnotherProcess => {}
            Ok(Signal::SIGALRM) => pass_on(Signal::SIGKILL),
            Ok(signal @ (UPGRADE | LEAVE)) => {
                if signal == LEAVE && !may_leave {
                    log::warn!("{signal}: there is no service manager that could keep the mount");
                } else if next == Next::Server {
                    next = if signal == LEAVE { Next::AnotherProcess } else { Next::AnotherProgram };
                    pass_on(UPGRADE);
                    alarm::set(HANDOVER_SECONDS);
                }
            }
            Ok(signal) => {
                if signal != Signal::SIGHUP {
                    next = Next::ToEnd(signal);
                }
                pass_on(signal);
            }
        }
        let makes_room = matches!(next, Next::AnotherProgram | Next::AnotherProcess);
        let (cause, crash_score) = match waitpid(server, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, HANDED_OVER)) => ("an upgrade".to_owned(), 0),
            Ok(WaitStatus::Exited(_, PANICKED)) if end.is_none() => ("a panic".to_owned(), CRASHED),
            Ok(WaitStatus::Exited(_, status)) => process::exit(status),
            Ok(WaitStatus::Signaled(_, signal, _)) if end.is_some() => process::exit(128 + signal as i32),
            Ok(WaitStatus::Signaled(..)) if makes_room => ("an upgrade".to_owned(), 0),
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                let crash_score = if signal == Signal::SIGKILL { KILLED } else { CRASHED };
                (signal.to_string(), crash_score)
            }
            Err(Errno::ECHILD) => process::exit(2),
            _ => continue,
        };
        alarm::cancel();
        return Death { cause, crash_score, next };
    }
}
