//! Mounting, serving, unmounting.
//!
//! The source is opened before anything is mounted, so that a mount over the source itself serves what it covers.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;

use fuser::{Session, SessionUnmounter};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;

use super::adapter::Adapter;
use super::error::Error;
use super::mountpoint::{detach, detach_dead, source_of};
use super::options::Options;
use super::server::Server;
use super::timeouts::Timeouts;
use crate::daemon::audit::{self, Audit};
use crate::gate::{Gate, Mode as GateMode};
use crate::passthrough::{Passthrough, Settings};

/// A mount that is live and not served yet: requests wait. It goes when it is dropped.
#[derive(Debug)]
pub struct Mounted {
    session: Session<Adapter>,
    signals: SigSet,
    place: PathBuf,
}

/// Mounts `source` on `mountpoint` behind `gate`.
///
/// It changes the process: SIGINT, SIGTERM and SIGHUP are blocked, the umask is 0, the limit of open files is the highest
/// allowed.
///
/// # Errors
/// [`Error`] says what could not be done.
pub fn mount(
    source: &Path,
    mountpoint: &Path,
    gate: Gate,
    audit: audit::Settings,
    options: &Options,
) -> Result<Mounted, Error> {
    let source_error = |error: io::Error| Error::Source(source.into(), error);
    let mountpoint_error = |error: io::Error| Error::Mountpoint(mountpoint.into(), error);
    if options.is_for_root() && !geteuid().is_root() {
        return Err(Error::ForRoot);
    }
    detach_dead(mountpoint).map_err(mountpoint_error)?;
    let canonical_source = source.canonicalize().map_err(source_error)?;
    let root = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(source)
        .map_err(source_error)?;
    let target = mountpoint.canonicalize().map_err(mountpoint_error)?;
    if !fs::metadata(&target).map_err(mountpoint_error)?.is_dir() {
        return Err(mountpoint_error(Errno::ENOTDIR.into()));
    }
    if let Some(source) = source_of(&target) {
        return Err(Error::Mounted { mountpoint: target, source });
    }
    let is_root = |dir: &Path| {
        let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        fs::metadata(dir).ok().zip(root.metadata().ok()).is_some_and(|(a, b)| same(a, b))
    };
    if target.ancestors().skip(1).any(is_root) {
        return Err(Error::Inside { source: canonical_source, mountpoint: target });
    }
    // Whoever cannot open it cannot mount; found out here, because a mount that fails later says less.
    OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(Error::Device)?;

    let signals = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().collect::<SigSet>();
    // Before there is a second thread: threads inherit what is blocked.
    signals.thread_block().map_err(|errno| Error::Serving(errno.into()))?;
    umask(Mode::empty());
    let settings = Settings { cached_fds: cached_fds(raise_open_files()) };
    let tree = Passthrough::new(root.into(), settings).map_err(|errno| source_error(errno.into()))?;
    if !tree.holds_by_handle() {
        log::warn!(
            "every file in use costs an open file descriptor: no kernel file handles on this file system, or no right to \
             use them (CAP_DAC_READ_SEARCH)"
        );
    }
    let metrics = audit.metrics.clone();
    metrics.set_permissive(gate.mode() == GateMode::Permissive);
    let server = Server::new(tree, gate, options.for_violations)
        .with_metrics(metrics.clone())
        .with_audit(Audit::new(audit).map_err(Error::Serving)?)
        .with_target_checks(options.checks_targets);
    let timeouts = Timeouts { entry: options.entry_timeout, attr: options.attr_timeout };
    let adapter = Adapter::new(server, timeouts, metrics);
    let session = Session::new(adapter, &target, &options.config(&canonical_source)).map_err(|error| {
        match error.kind() {
            // All that was named is there: what is missing is the program that mounts for other users.
            io::ErrorKind::NotFound => Error::Helper(mountpoint.into()),
            _ => Error::Mount(mountpoint.into(), error),
        }
    })?;
    log::info!("mounted");
    Ok(Mounted { session, signals, place: target })
}

impl Mounted {
    /// Serves it until it is unmounted or the process gets SIGINT, SIGTERM or SIGHUP. While the mount is in use, such a
    /// signal only detaches it, and what is open is served to its end; a second one ends at once.
    ///
    /// # Errors
    /// [`Error::Serving`].
    pub fn serve(self) -> Result<(), Error> {
        let Self { mut session, signals, place } = self;
        let unmounter = session.unmount_callable();
        thread::Builder::new()
            .name("signals".into())
            .spawn(move || unmount_on_signal(&signals, unmounter, &place))
            .map_err(Error::Serving)?;
        match session.run() {
            // So the kernel may end a connection whose mount is gone, detached or aborted (fuse.rst): nothing is left to
            // serve.
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
            result => result.map_err(Error::Serving),
        }
    }
}

/// Lets this process open as many files as it may, and says how many.
fn raise_open_files() -> u64 {
    match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok((soft, hard)) => match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
            Ok(()) => hard,
            Err(_) => soft,
        },
        // It is always there to be read (getrlimit(2)); 1024 is what systems begin with.
        Err(_) => 1024,
    }
}

/// How many descriptors may be kept for later, of so many that can be open: clients' files come first.
fn cached_fds(open_files: u64) -> usize {
    const MOST: u64 = 4096;
    usize::try_from((open_files / 4).min(MOST)).unwrap_or_default()
}

fn unmount_on_signal(signals: &SigSet, mut unmounter: SessionUnmounter, mountpoint: &Path) {
    let mut is_first = true;
    while let Ok(signal) = signals.wait() {
        log::info!("{signal}: unmounting");
        if !is_first {
            // Whoever asks twice does not want to wait.
            process::exit(128 + signal as i32);
        }
        is_first = false;
        if let Err(error) = unmounter.unmount() {
            log::warn!("{error}: the mount is detached, and what is open is served until it is closed");
            if let Err(error) = detach(mountpoint) {
                log::error!("cannot detach the mount: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_mounted_is_said_before_anything_is_changed() {
        let gate = || {
            let policy = crate::policy::Policy::of(&[&crate::policy::profile::UTF8]);
            Gate::new(std::sync::Arc::new(policy), GateMode::Enforcing)
        };
        let dir = tempfile::tempdir().unwrap();
        let (inside, file) = (dir.path().join("a/b"), dir.path().join("file"));
        fs::create_dir_all(&inside).unwrap();
        fs::write(&file, "").unwrap();
        let refused = |source: &Path, mountpoint: &Path| {
            mount(source, mountpoint, gate(), audit::Settings::default(), &Options::default()).unwrap_err()
        };
        assert!(matches!(refused(dir.path(), &inside), Error::Inside { .. }));
        assert!(matches!(refused(&file, &inside), Error::Source(..)));
        assert!(matches!(refused(&dir.path().join("none"), &inside), Error::Source(..)));
        assert!(matches!(refused(&inside, &file), Error::Mountpoint(..)));
        assert!(matches!(refused(&inside, &dir.path().join("none")), Error::Mountpoint(..)));
    }
}
