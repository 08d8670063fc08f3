//! What an earlier process of a mount has left to this one: the previous program of this process, after an upgrade, or the service manager,
//! after a restart of the service or the end of all its processes.

use std::collections::HashSet;
use std::env;
use std::os::fd::RawFd;

use namegate_core::name::display::shown;
use namegate_mount::detach_dead;
use namegate_sys::inherited::of_previous_program;
use nix::errno::Errno;

use super::fd_store::{self, Notify, StoredDescriptors};
use super::journal::KILLED;
use super::state::{MountRequest, SurvivalState};

/// What a holder leaves to the program that it becomes: the number of the descriptor of the state, and whether it has no terminal.
const LEFT: &str = "NAMEGATE_STATE";

/// An earlier process of the same mount.
#[derive(Debug)]
pub enum Predecessor {
    /// The previous program of this process.
    Program { number: RawFd, is_detached: bool },
    /// Another process. The service manager has kept its descriptors.
    Process(StoredDescriptors),
}

/// The state of a mount that goes on.
#[derive(Debug)]
pub(super) struct LeftState {
    pub(super) state: &'static SurvivalState,
    /// Numbers of descriptors that this process must not use as its own: they are of the predecessor.
    pub(super) descriptors: HashSet<RawFd>,
    /// How the predecessor has ended.
    pub(super) end: &'static str,
    /// Whether this process was the predecessor, with another program.
    pub(super) is_same_process: bool,
    /// What that adds to the crash score of its requests.
    pub(super) crash_score: u64,
}

/// The variable for the next program of this process.
pub(super) fn variable(number: RawFd, is_detached: bool) -> (&'static str, String) {
    (LEFT, format!("{number} {}", if is_detached { "detached" } else { "attached" }))
}

impl Predecessor {
    /// The predecessor of this process, if it has one. To be called once.
    pub fn find() -> Option<Self> {
        if let Ok(left) = env::var(LEFT) {
            let (number, is_detached) = left.split_once(' ')?;
            return Some(Self::Program {
                number: number.parse().ok()?,
                is_detached: is_detached == "detached",
            });
        }
        match fd_store::received() {
            Ok(stored) => stored.map(Self::Process),
            Err(error) => {
                log::error!(
                    "the service manager has kept a mount that cannot go on; it is made anew: {error}"
                );
                None
            }
        }
    }

    /// Whether it has left its terminal.
    pub fn was_detached(&self) -> bool {
        matches!(self, Self::Program { is_detached: true, .. })
    }

    /// The state of the mount, to go on as `request` says. `None` if the mount is to be made anew, which was logged; what was left of the
    /// old one is gone then.
    ///
    /// # Errors
    /// Neither is possible.
    pub(super) fn open(
        self,
        request: &MountRequest<'_>,
        notify: &Notify<'_>,
    ) -> Result<Option<LeftState>, String> {
        match self {
            Self::Program { number, .. } => open_of_program(number).map(Some),
            Self::Process(stored) => open_stored(stored, request, notify),
        }
    }
}

const OTHER_LAYOUT: &str = "this version keeps its state in another way";

fn open_of_program(number: RawFd) -> Result<LeftState, String> {
    let fd = of_previous_program(number)
        .ok_or_else(|| format!("cannot go on with the mount: {}", Errno::EBADF))?;
    let state = SurvivalState::open(fd)
        .map_err(|_| format!("cannot go on with the mount: {OTHER_LAYOUT}; unmount it and mount it again"))?;
    let descriptors = state.needed_descriptors().collect();
    Ok(LeftState { state, descriptors, end: "an upgrade", is_same_process: true, crash_score: 0 })
}

fn open_stored(
    stored: StoredDescriptors,
    request: &MountRequest<'_>,
    notify: &Notify<'_>,
) -> Result<Option<LeftState>, String> {
    let state = of_previous_program(stored.state).and_then(|fd| SurvivalState::open(fd).ok());
    let why = match state {
        None => OTHER_LAYOUT,
        Some(_) if !request.survives => "`survive` is off now",
        Some(state) if !state.is_of(request) => "source or mount point have changed",
        Some(state) if !state.lasting_descriptors().all(|number| stored.others.contains(&number)) => {
            "the service manager has lost a part of it"
        }
        Some(state) => {
            // Without them, nodes are found by their handles. Their numbers may be those of others by now.
            state.forget_descriptors(|number| !stored.others.contains(&number));
            fd_store::forget_taken(notify);
            let (end, crash_score) = match stored.was_left {
                true => ("a restart of the service", 0),
                false => ("the end of all its processes", KILLED),
            };
            let descriptors = stored.others;
            return Ok(Some(LeftState { state, descriptors, end, is_same_process: false, crash_score }));
        }
    };
    log::warn!("the mount is made anew, and what is open in it fails: {why}");
    // The kernel ends the mount when its device has no descriptor any more.
    stored.others.iter().for_each(|&number| drop(of_previous_program(number)));
    fd_store::forget_all(notify, &stored)
        .map_err(|error| format!("the service manager still keeps the old mount: {error}"))?;
    if let Some((place, _)) = state.map(SurvivalState::place) {
        detach_dead(&place).map_err(|error| format!("cannot unmount {}: {error}", shown(&place)))?;
    }
    Ok(None)
}
