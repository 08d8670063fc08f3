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
use namegate_sys::inherited::{Inherited, fork_with_common_descriptors, keep_for_next_program, open_numbers};
use namegate_telemetry::log as log_output;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, alarm, getpid, setsid};

use super::fd_store::{self, Notify};
use super::journal::{CRASHED, KILLED};
use super::predecessor::{LeftState, Predecessor, variable};
use super::state::{MountRequest, SurvivalState};

/// The signal by which a holder asks its server to hand over, and by which others ask the holder for an upgrade.
pub const UPGRADE: Signal = Signal::SIGUSR2;

/// The signal that asks a holder to leave the mount to the service manager, which starts it again.
pub const LEAVE: Signal = Signal::SIGUSR1;

/// The exit status of a Rust program that has panicked.
const PANICKED: i32 = 101;

/// Give up once servers that completed nothing reach this crash score.
const MAX_CRASH_SCORE: u64 = 512;

/// The exit status of a server that has finished its requests for a successor.
pub const HANDED_OVER: i32 = 77;

/// How long a server may serve others while the requests in its pool are finished, before it stops reading.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A server that has not handed over after these seconds is killed: clients wait for the difference at most, and then for the next server.
const HANDOVER_SECONDS: u32 = DRAIN_TIMEOUT.as_secs() as u32 + 3;

const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// How the first server was started, as far as it matters to its holder.
pub struct ServerStart<'s> {
    /// The descriptor that the first server closes when the mount is live, if a process waits for that.
    pub starter: Option<RawFd>,
    /// Whether holder and servers leave terminal and directory.
    pub is_detached: bool,
    /// Gives up the privileges that servers do not need, if they are confined.
    pub give_up: Option<&'s dyn Fn() -> io::Result<()>>,
    /// Sends a message with descriptors to the service manager, if there is one.
    pub notify: &'s Notify<'s>,
    pub has_manager: bool,
}

/// A server that a holder has started: what it knows of its holder, and of the server before it.
#[derive(Clone, Debug)]
pub struct HeldServer {
    pub state: &'static SurvivalState,
    pub holder: Pid,
    /// How the previous server has ended; `None` for the first server.
    pub previous: Option<String>,
    /// The settings that differ from those of the mount, and stay as they are until the next one.
    pub needs_mount: Vec<String>,
}

impl HeldServer {
    /// Whether a previous server has left a mount, with which this one goes on.
    pub fn has_mount(&self) -> bool {
        self.state.inherited().is_some()
    }
}

/// The process that starts servers, one after another.
struct Holder<'s> {
    state: &'static SurvivalState,
    start: ServerStart<'s>,
    /// Where the program is, and the directory that it was started in.
    program: PathBuf,
    directory: PathBuf,
    /// The signals that it waits for.
    signals: SigSet,
    /// The descriptors that were open before the first server, and are nobody else's.
    own: HashSet<RawFd>,
    /// How the last server has ended.
    previous: Option<String>,
    /// The signal that the last server died before it could obey.
    end: Option<Signal>,
    /// The crash score of servers that have finished no request.
    crash_score: u64,
}

/// Makes this process the holder of a mount that survives its server, and returns in each server that it starts; `None` for a mount that ends
/// with its server. The holder ends with the last server, with its status. A mount that is served already goes on.
///
/// # Errors
/// No server can be started, the state of the mount cannot be kept, or the mount of the predecessor neither goes on nor ends.
pub fn hold(
    predecessor: Option<Predecessor>,
    request: &MountRequest<'_>,
    start: ServerStart<'_>,
) -> Result<Option<HeldServer>, String> {
    let left = predecessor.map(|predecessor| predecessor.open(request, start.notify)).transpose()?.flatten();
    if !request.survives && left.is_none() {
        return Ok(None);
    }
    let place = env::current_exe().and_then(|program| Ok((program, env::current_dir()?)));
    let (program, directory) = place.map_err(|error| impossible("find the program", &error))?;
    let state = match &left {
        Some(left) => left.state,
        None => SurvivalState::new().map_err(|error| impossible("create the state of the mount", &error))?,
    };
    leave_surroundings(state, &start, left.as_ref())?;
    let signals =
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGCHLD, Signal::SIGALRM, UPGRADE, LEAVE];
    let signals = signals.into_iter().collect::<SigSet>();
    signals.thread_block().map_err(|errno| impossible("block signals", &errno.desc()))?;
    let mut own = open_numbers().map_err(|error| impossible("list descriptors", &error))?;
    let is_other = |number: &RawFd| {
        start.starter == Some(*number) || left.as_ref().is_some_and(|left| left.descriptors.contains(number))
    };
    own.retain(|number| !is_other(number));
    let previous = left.map(|left| {
        state.set_crash_score(left.crash_score);
        left.end.to_owned()
    });
    let (end, crash_score) = (None, 0);
    Holder { state, start, program, directory, signals, own, previous, end, crash_score }.run().map(Some)
}

fn impossible(what: &str, error: &dyn fmt::Display) -> String {
    format!("--survive: cannot {what}: {error}")
}

/// Makes this process one that only the last server ends: not likely to be killed for memory, without privileges, and if it is detached
/// without terminal and directory.
fn leave_surroundings(
    state: &SurvivalState,
    start: &ServerStart<'_>,
    left: Option<&LeftState>,
) -> Result<(), String> {
    if left.is_none_or(|left| !left.is_same_process) {
        let score = fs::read_to_string(OOM_SCORE).ok().and_then(|score| score.trim().parse().ok());
        state.set_oom_score(score.unwrap_or_default());
        // Without the right to do so, it stays as likely to be ended as before.
        let _ = fs::write(OOM_SCORE, "-1000");
    }
    if let Some(give_up) = start.give_up {
        give_up().map_err(|error| impossible("give up privileges", &error))?;
    }
    if start.is_detached {
        // The first server does the same for itself. The process of an earlier program has a session of its own.
        let has_session = if start.starter.is_some() { setsid().map(drop) } else { Ok(()) };
        let detached = has_session.map_err(io::Error::from).and_then(|()| env::set_current_dir("/"));
        detached.map_err(|error| impossible("go into the background", &error))?;
    }
    Ok(())
}

impl Holder<'_> {
    fn run(mut self) -> Result<HeldServer, String> {
        let holder = getpid();
        loop {
            let progress = self.state.progress();
            self.state.begin_server();
            match fork_with_common_descriptors() {
                Err(errno) => return Err(impossible("start a server", &errno.desc())),
                Ok(ForkResult::Child) => return self.become_server(holder),
                Ok(ForkResult::Parent { child }) => {
                    let death = wait(child, &self.signals, self.end, self.start.has_manager);
                    self.prepare_next(death, self.state.progress() != progress);
                }
            }
        }
    }

    /// In a new process: takes over the descriptors of the previous server.
    fn become_server(self, holder: Pid) -> Result<HeldServer, String> {
        let Self { state, own, previous, .. } = self;
        let _ = SigSet::from(Signal::SIGCHLD).thread_unblock();
        let _ = fs::write(OOM_SCORE, state.oom_score().to_string());
        if previous.is_some() {
            let inherited = Inherited::sort_out(&own, &state.needed_descriptors().collect());
            state.inherit(inherited.map_err(|error| impossible("take over descriptors", &error))?);
        }
        Ok(HeldServer { state, holder, previous, needs_mount: Vec::new() })
    }

    /// Does what comes after the death of a server, before the next one starts. `has_progress`: it has finished requests.
    fn prepare_next(&mut self, Death { mut cause, crash_score, next }: Death, has_progress: bool) {
        self.end = if let Next::ToEnd(signal) = next { Some(signal) } else { None };
        if !self.state.is_serving() {
            self.exit_with_error(&format!("the server was ended by {cause} before it had mounted"));
        }
        let earlier = if has_progress { 0 } else { self.crash_score };
        self.crash_score = earlier + crash_score;
        if self.crash_score >= MAX_CRASH_SCORE {
            self.exit_with_error(&format!(
                "servers end without serving, the last one by {cause}: clients of the mount get errors"
            ));
        }
        if earlier > 0 {
            sleep(Duration::from_millis(self.crash_score.min(10)));
        }
        match next {
            Next::Server | Next::ToEnd(_) => {}
            Next::AnotherProcess => match fd_store::store_all(self.start.notify, self.state) {
                Ok(()) => process::exit(0),
                Err(error) => {
                    log::error!("the service manager cannot keep the mount, which ends: {error}");
                    self.end = Some(Signal::SIGTERM);
                }
            },
            Next::AnotherProgram => {
                let error = self.become_next_program();
                // This program goes on.
                let _ =
                    (self.signals.thread_block(), self.start.is_detached.then(|| env::set_current_dir("/")));
                cause = format!("an upgrade that failed ({}: {error})", shown(&self.program));
            }
        }
        self.state.set_crash_score(crash_score);
        self.previous = Some(cause);
    }

    fn exit_with_error(&self, why: &str) -> ! {
        if self.start.is_detached {
            log_output::to_system();
        }
        log::error!("{why}");
        process::exit(2)
    }

    /// Becomes the program that is now where this one was, started in the same directory with the same arguments. Returns why that is not
    /// possible.
    fn become_next_program(&self) -> io::Error {
        keep_for_next_program(self.state.needed_descriptors().chain([self.state.number()]));
        let mut arguments = env::args_os();
        let name = arguments.next().unwrap_or_default();
        let (variable, left) = variable(self.state.number(), self.start.is_detached);
        let mut next = Command::new(&self.program);
        next.arg0(name).args(arguments).current_dir(&self.directory).env(variable, left);
        // It has not got anything from the service manager.
        for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
            next.env_remove(variable);
        }
        next.exec()
    }
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
