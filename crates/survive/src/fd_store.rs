//! Descriptors that the service manager keeps while no process of a mount runs: its FD store.
//!
//! - Those of the state, the source and the connection with the kernel are stored when the mount is ready. So the mount goes on even if
//!   all of its processes were killed.
//! - When the holder leaves the mount for a restart, those of nodes and open files follow. They are stored together, in a socket that
//!   nobody reads meanwhile: systemd compares each new descriptor with all that it has.
//!
//! The state refers to descriptors by their numbers. Each is stored under its number, and has it again in the next process.
//!
//! Sources: sd_notify(3), `FDSTORE`, `FDNAME`, `FDPOLL`, `FDSTOREREMOVE`; sd_listen_fds(3); unix(7), `SCM_RIGHTS`.

use std::collections::{HashMap, HashSet};
use std::env;
use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process;

use namegate_sys::inherited::{of_previous_program, renumber};
use namegate_sys::open_files::raise_limit;
use namegate_sys::socket::{MOST_DESCRIPTORS, receive_fds, send_fds};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;

use super::state::SurvivalState;

/// Sends a message with copies of descriptors to the service manager.
pub type Notify<'n> = dyn Fn(&str, &[RawFd]) -> io::Result<()> + 'n;

/// The names of stored descriptors: this and the number, but for two.
const PREFIX: &str = "namegate-";
/// The name of the state: this and the number.
const STATE: &str = "namegate-state-";
/// The name of the socket with the descriptors that are stored together.
const TOGETHER: &str = "namegate-more";

/// What the service manager had stored, and has given to this process.
#[derive(Debug)]
pub struct StoredDescriptors {
    pub(super) state: RawFd,
    pub(super) others: HashSet<RawFd>,
    /// Whether the previous holder has left the mount for a restart; otherwise it was killed.
    pub(super) was_left: bool,
}

/// What this process got at its start.
static RECEIVED: Mutex<Option<io::Result<StoredDescriptors>>> = Mutex::new(None);

/// Takes over what the service manager had stored. To be called first: the descriptors get their numbers back, which nothing else may have.
pub fn receive_stored() {
    let is_meant = env::var("LISTEN_PID").is_ok_and(|pid| pid.parse() == Ok(process::id()));
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    if is_meant && names.split(':').any(|name| name.starts_with(STATE)) {
        *RECEIVED.lock() = Some(sort(&names));
    }
}

/// What this process got at its start, for one caller.
///
/// # Errors
/// It is of no use.
pub(super) fn received() -> io::Result<Option<StoredDescriptors>> {
    RECEIVED.lock().take().transpose()
}

/// Gives the descriptors with these names, which are numbered from 3 on, the numbers that they had.
fn sort(names: &str) -> io::Result<StoredDescriptors> {
    /// SD_LISTEN_FDS_START.
    const FIRST: RawFd = 3;
    raise_limit();
    let (mut places, mut state, mut was_left) = (HashMap::new(), None, false);
    let mut add = |own: RawFd, number: u32| match RawFd::try_from(number) {
        // One that came twice is closed.
        Ok(number) if number >= FIRST => drop(places.insert(number, own).and_then(of_previous_program)),
        _ => drop(of_previous_program(own)),
    };
    for (own, name) in (FIRST..).zip(names.split(':')) {
        let number = |prefix| name.strip_prefix(prefix)?.parse().ok();
        if name == TOGETHER {
            let Some(socket) = of_previous_program(own).map(UnixStream::from) else { continue };
            socket.set_nonblocking(true)?;
            loop {
                let mut numbers = [0; MOST_DESCRIPTORS * size_of::<u32>()];
                let (len, fds) = receive_fds(&socket, &mut numbers)?;
                if len == 0 {
                    break;
                }
                was_left = true;
                let numbers = numbers[..len].as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes));
                fds.into_iter().zip(numbers).for_each(|(fd, number)| add(fd.into_raw_fd(), number));
            }
        } else if let Some(number) = number(STATE) {
            state = Some(number);
            add(own, number);
        } else if let Some(number) = number(PREFIX) {
            add(own, number);
        }
    }
    let places: Vec<_> = places.into_iter().map(|(number, own)| (own, number)).collect();
    renumber(&places)?;
    let mut others: HashSet<_> = places.into_iter().map(|(_, number)| number).collect();
    let state = state.and_then(|number| others.take(&RawFd::try_from(number).ok()?));
    let state = state.ok_or_else(|| io::Error::other("the state of the mount is missing"))?;
    Ok(StoredDescriptors { state, others, was_left })
}

impl SurvivalState {
    /// Has the service manager store what the mount needs to go on.
    pub fn store_lasting(&self, notify: &Notify<'_>) {
        let named = self.lasting_descriptors().map(|number| (PREFIX, number)).chain([(STATE, self.number())]);
        named.for_each(|(prefix, number)| store(notify, &format!("{prefix}{number}"), number));
    }
}

fn store(notify: &Notify<'_>, name: &str, fd: RawFd) {
    // By itself, systemd would wait for an end of each, which some of them do not have, and some have already.
    if let Err(error) = notify(&format!("FDSTORE=1\nFDNAME={name}\nFDPOLL=0"), &[fd]) {
        log::warn!("the service manager has not stored {name}: {error}");
    }
}

/// Waits until the service manager has handled all earlier messages.
///
/// # Errors
/// It has not after a few seconds.
fn wait_for_manager(notify: &Notify<'_>) -> io::Result<()> {
    const BARRIER_TIMEOUT: u16 = 5_000;
    let (read, written) = io::pipe()?;
    notify("BARRIER=1", &[written.as_raw_fd()])?;
    drop(written);
    // The manager closes its copy.
    let mut polled = [PollFd::new(read.as_fd(), PollFlags::empty())];
    match poll(&mut polled, PollTimeout::from(BARRIER_TIMEOUT))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// Has the service manager store everything that a successor needs, and waits until it has done so.
///
/// # Errors
/// A part may not be stored.
pub(super) fn store_all(notify: &Notify<'_>, state: &'static SurvivalState) -> io::Result<()> {
    /// Messages in one socket: fewer than its buffer has room for by default.
    const MESSAGES: usize = 64;
    state.store_lasting(notify);
    // At least one, which says that the mount was left.
    let all: Vec<RawFd> = [state.number()].into_iter().chain(state.needed_descriptors()).collect();
    for many in all.chunks(MESSAGES * MOST_DESCRIPTORS) {
        let (receiver, sender) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        for part in many.chunks(MOST_DESCRIPTORS) {
            let numbers: Vec<u8> = part.iter().flat_map(|number| number.to_ne_bytes()).collect();
            send_fds(&sender, None, &numbers, part)?;
        }
        store(notify, TOGETHER, receiver.as_raw_fd());
    }
    wait_for_manager(notify)
}

/// Has the service manager forget what it had stored together, which this process has taken.
pub(super) fn forget_taken(notify: &Notify<'_>) {
    forget(notify, TOGETHER);
}

/// Has the service manager forget all that it had stored, and waits until it has done so.
///
/// # Errors
/// It may still have some of it.
pub(super) fn forget_all(notify: &Notify<'_>, stored: &StoredDescriptors) -> io::Result<()> {
    forget_taken(notify);
    forget(notify, &format!("{STATE}{}", stored.state));
    stored.others.iter().for_each(|number| forget(notify, &format!("{PREFIX}{number}")));
    wait_for_manager(notify)
}

fn forget(notify: &Notify<'_>, name: &str) {
    if let Err(error) = notify(&format!("FDSTOREREMOVE=1\nFDNAME={name}"), &[]) {
        log::warn!("the service manager still has {name}: {error}");
    }
}
