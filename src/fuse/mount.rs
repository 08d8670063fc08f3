//! Mounting, serving, unmounting.
//!
//! The source is opened before anything is mounted, so that a mount over the source itself serves what it covers.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::stat::{Mode, umask};
use nix::sys::statfs::statfs;
use nix::unistd::geteuid;

use super::adapter::Adapter;
use super::server::Server;
use super::timeouts::Timeouts;
use crate::gate::Gate;
use crate::passthrough::{Passthrough, Settings};

/// How a tree is mounted.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the mount table shows as the source; the source's path if not given.
    pub fsname: Option<String>,
    /// No change goes through.
    pub read_only: bool,
    /// Nothing is executed from the mount.
    pub no_exec: bool,
    /// Users other than the one who mounts have access, as permissions say. Always so for root.
    pub allow_other: bool,
    /// What the creation of a name that breaks the policy fails with.
    pub for_violations: Errno,
    /// How long the kernel may take for granted that a name leads to a file; a change made directly in the source shows
    /// by then.
    pub entry_timeout: Duration,
    /// The same for the attributes of a file.
    pub attr_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            fsname: None,
            read_only: false,
            no_exec: false,
            allow_other: false,
            for_violations: Errno::EILSEQ,
            entry_timeout: Duration::from_secs(1),
            attr_timeout: Duration::from_secs(1),
        }
    }
}

/// Why a tree could not be mounted, or the mount ended.
#[derive(Debug)]
pub enum Error {
    /// The source cannot be opened or served.
    Source(PathBuf, io::Error),
    /// The mount point cannot be used.
    Mountpoint(PathBuf, io::Error),
    /// The mount point lies inside the source: whoever walked the mount would come through it again and again.
    Inside {
        /// Below this…
        source: PathBuf,
        /// …lies this.
        mountpoint: PathBuf,
    },
    /// The system did not mount it.
    Mount(PathBuf, io::Error),
    /// Serving ended with an error.
    Serving(io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |path: &Path| path.as_os_str().as_encoded_bytes().escape_ascii().to_string();
        match self {
            Self::Source(path, error) => write!(f, "cannot serve {}: {error}", shown(path)),
            Self::Mountpoint(path, error) => write!(f, "cannot mount on {}: {error}", shown(path)),
            Self::Inside { source, mountpoint } => write!(
                f,
                "cannot mount {} on {}, which lies inside it: mount it beside the source, or over it",
                shown(source),
                shown(mountpoint)
            ),
            Self::Mount(path, error) => write!(f, "cannot mount on {}: {error}", shown(path)),
            Self::Serving(error) => write!(f, "the mount ended: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source(_, error)
            | Self::Mountpoint(_, error)
            | Self::Mount(_, error)
            | Self::Serving(error) => Some(error),
            Self::Inside { .. } => None,
        }
    }
}

/// Mounts `source` on `mountpoint` behind `gate`, and serves it until it is unmounted or the process gets SIGINT, SIGTERM or
/// SIGHUP. While the mount is in use, such a signal only detaches it, and what is open is served to its end; a second one
/// ends at once.
///
/// It changes the process: signals are blocked, the umask is 0, the limit of open files is the highest allowed.
///
/// # Errors
/// [`Error`] says what could not be done.
pub fn mount(source: &Path, mountpoint: &Path, gate: Gate, options: &Options) -> Result<(), Error> {
    let source_error = |error: io::Error| Error::Source(source.into(), error);
    let mountpoint_error = |error: io::Error| Error::Mountpoint(mountpoint.into(), error);
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
    let is_root = |dir: &Path| {
        let same = |a: fs::Metadata, b: fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        fs::metadata(dir).ok().zip(root.metadata().ok()).is_some_and(|(a, b)| same(a, b))
    };
    if target.ancestors().skip(1).any(is_root) {
        return Err(Error::Inside { source: canonical_source, mountpoint: target });
    }

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
    let server = Server::new(tree, gate, options.for_violations);
    let config = config(&canonical_source, options);
    let timeouts = Timeouts { entry: options.entry_timeout, attr: options.attr_timeout };
    let mut session = Session::new(Adapter::new(server, timeouts), &target, &config)
        .map_err(|error| Error::Mount(mountpoint.into(), error))?;
    let unmounter = session.unmount_callable();
    let at = target.clone();
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || unmount_on_signal(&signals, unmounter, &at))
        .map_err(Error::Serving)?;
    log::info!("mounted");
    match session.run() {
        // So the kernel may end a connection whose mount is gone, detached or aborted (fuse.rst): nothing is left to serve.
        Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
        result => result.map_err(Error::Serving),
    }
}

fn config(source: &Path, options: &Options) -> Config {
    let fsname = options.fsname.clone().unwrap_or_else(|| match source.to_str() {
        Some(path) => path.into(),
        None => source.as_os_str().as_encoded_bytes().escape_ascii().to_string(),
    });
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(fsname),
        MountOption::Subtype("namegate".into()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    if options.no_exec {
        config.mount_options.push(MountOption::NoExec);
    }
    if options.allow_other || geteuid().is_root() {
        config.acl = SessionACL::All;
    }
    // More threads than processors wait for each other.
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    config.n_threads = Some(threads);
    config.clone_fd = threads > 1;
    config
}

/// Takes away what a server that was killed has left on `mountpoint`.
fn detach_dead(mountpoint: &Path) -> io::Result<()> {
    // Attributes may still be cached; statfs(2) always asks the server.
    match statfs(mountpoint) {
        Err(Errno::ENOTCONN) => {
            log::warn!("the mount that was here has lost its server and is replaced");
            Ok(umount2(mountpoint, MntFlags::MNT_DETACH)?)
        }
        _ => Ok(()),
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
            if let Err(errno) = umount2(mountpoint, MntFlags::MNT_DETACH) {
                log::error!("cannot detach the mount: {errno}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Mode as GateMode;

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
            mount(source, mountpoint, gate(), &Options::default()).unwrap_err()
        };
        assert!(matches!(refused(dir.path(), &inside), Error::Inside { .. }));
        assert!(matches!(refused(&file, &inside), Error::Source(..)));
        assert!(matches!(refused(&dir.path().join("none"), &inside), Error::Source(..)));
        assert!(matches!(refused(&inside, &file), Error::Mountpoint(..)));
        assert!(matches!(refused(&inside, &dir.path().join("none")), Error::Mountpoint(..)));
    }
}
