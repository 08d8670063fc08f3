//! Asks a directory on a target which names it stores: what is tried there, and the policy that follows from it.
//!
//! A name that arrives as another one is found by reading the directory back. What could not be tried is unknown, and comes from the
//! profile that fits the type of the file system.

mod control;
mod fit;
mod samples;
mod target_facts;
mod trial_dir;
mod trials;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;

use self::control::Control;
pub use self::fit::{PolicyFit, is_stored};
pub use self::samples::sample_of;
pub use self::target_facts::TargetFacts;
pub use self::trial_dir::{Arrival, PREFIX};
pub use self::trials::{NamePair, Trials, TriedName};
use crate::progress::Observer;

/// How long the target may take for one answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long it may take for one answer after the run was stopped.
const GRACE: Duration = Duration::from_secs(5);

/// What is known of a target.
#[derive(Debug)]
pub struct Probe {
    pub facts: TargetFacts,
    pub trials: Trials,
    pub fit: PolicyFit,
}

/// Why a target could not be asked.
#[derive(Debug)]
pub enum ProbeError {
    Unreadable(io::Error),
    /// It gave no answer for so long.
    Silent(Duration),
    /// The run was stopped, and everything was removed.
    Stopped,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::Silent(time) => write!(
                f,
                "no answer for {} seconds; a directory whose name begins with {PREFIX} may be left there",
                time.as_secs()
            ),
            Self::Stopped => f.write_str("the probe was stopped; nothing is left behind"),
        }
    }
}

impl std::error::Error for ProbeError {}

/// Asks the directory `path`; nothing is created there unless it `writes`.
///
/// The target may hang: it is asked by a thread of its own, which is given up if no answer comes.
///
/// # Errors
/// The path is not a directory that can be read, the target does not answer, or the observer stopped the run.
pub fn probe(path: &Path, writes: bool, observer: &dyn Observer) -> Result<Probe, ProbeError> {
    let (control, path) = (Arc::new(Control::default()), path.to_path_buf());
    let shared = Arc::clone(&control);
    let (send, receive) = mpsc::channel();
    let ask = move || drop(send.send(ask(path, writes, &shared)));
    std::thread::Builder::new().name("probe".into()).spawn(ask).map_err(ProbeError::Unreadable)?;
    let mut last = (0, Instant::now());
    loop {
        match receive.recv_timeout(Duration::from_millis(50)) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ProbeError::Unreadable(io::Error::other("the probe ended early")));
            }
        }
        let is_stopped = observer.is_stopped();
        control.stop.fetch_or(is_stopped, Relaxed);
        let beats = control.beats.load(Relaxed);
        if beats != last.0 {
            last = (beats, Instant::now());
        }
        let patience = if is_stopped { GRACE } else { PATIENCE };
        if last.1.elapsed() >= patience {
            return Err(ProbeError::Silent(patience));
        }
    }
}

fn ask(path: PathBuf, writes: bool, control: &Control) -> Result<Probe, ProbeError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let dir = open(&path, flags, Mode::empty()).map_err(|error| ProbeError::Unreadable(error.into()))?;
    let mut facts = TargetFacts::read(&path, &dir).map_err(ProbeError::Unreadable)?;
    let _ = control.answered();
    facts.find_leftovers(&dir);
    let trials = match writes {
        true => Trials::run(dir, control).ok_or(ProbeError::Stopped)?,
        false => Trials::not_run("nothing was written, as requested".to_owned()),
    };
    let fit = PolicyFit::find(&facts, &trials);
    Ok(Probe { facts, trials, fit })
}
