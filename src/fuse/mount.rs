//! Mounting, serving, unmounting.
//!
//! The source is opened before anything is mounted, so that a mount over the source itself serves what it covers.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use fuser::{INodeNo, Session};
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;

use super::adapter::Adapter;
use super::attach::Attachment;
use super::error::Error;
use super::mountpoint::{detach_dead, source_of};
use super::options::Options;
use super::server::Server;
use super::terms::Terms;
use crate::daemon::audit::{self, Audit};
use crate::gate::Mode as GateMode;
use crate::passthrough::{Passthrough, Settings};

/// A mount that is live and not served yet: requests wait. It goes when it is dropped.
#[derive(Debug)]
pub struct Mounted {
    session: Session<Adapter>,
    attachment: Arc<Attachment>,
    handle: Handle,
}

/// What can be done with a mount while it is served, from any thread. Holding one keeps nothing alive.
#[derive(Clone, Debug)]
pub struct Handle {
    server: Weak<Server>,
    attachment: Weak<Attachment>,
    place: Arc<Path>,
}

/// Mounts `source` on `mountpoint`, to be served on `terms`.
///
/// It changes the process: the umask is 0, the limit of open files is the highest allowed. It makes threads: signals that one
/// thread is to wait for have to be blocked before.
///
/// # Errors
/// [`Error`] says what could not be done.
pub fn mount(
    source: &Path,
    mountpoint: &Path,
    terms: Terms,
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
    metrics.set_permissive(terms.gate.mode() == GateMode::Permissive);
    let audit = Audit::new(audit).map_err(Error::Serving)?;
    let server = Arc::new(Server::new(tree, terms).with_metrics(metrics.clone()).with_audit(audit));
    let adapter = Adapter::new(server.clone(), metrics);
    let not_mounted = |error: io::Error| match error.kind() {
        // All that was named is there: what is missing is the program that mounts for other users.
        io::ErrorKind::NotFound => Error::Helper(mountpoint.into()),
        _ => Error::Mount(mountpoint.into(), error),
    };
    let (attachment, requests) = Attachment::new(&target, &canonical_source, options).map_err(not_mounted)?;
    let session =
        Session::from_fd(adapter, requests, options.access(), options.config()).map_err(not_mounted)?;
    log::info!("mounted");
    server.notify_by(session.notifier());
    let attachment = Arc::new(attachment);
    let handle = Handle {
        server: Arc::downgrade(&server),
        attachment: Arc::downgrade(&attachment),
        place: target.into(),
    };
    Ok(Mounted { session, attachment, handle })
}

impl Mounted {
    /// For whoever has to do with it while it is served.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves it until it is unmounted.
    ///
    /// # Errors
    /// [`Error::Serving`].
    pub fn serve(self) -> Result<(), Error> {
        let Self { session, attachment: _taken_away_at_the_end, .. } = self;
        match session.run() {
            // So the kernel may end a connection whose mount is gone, detached or aborted (fuse.rst): nothing is left to
            // serve.
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
            result => result.map_err(Error::Serving),
        }
    }
}

impl Handle {
    /// The mount point, as it was called when it was mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.place
    }

    /// The terms in force; `None` if the mount has ended.
    pub fn terms(&self) -> Option<Terms> {
        Some(self.server.upgrade()?.terms())
    }

    /// Serves every request that comes from now on on other terms, and returns those that held; `None` if the mount has
    /// ended. No request waits, and none is served on both. What the kernel keeps of names that are seen otherwise now it is
    /// made to forget: mostly that is done when this returns, and for very many directories it goes on for a while. It would
    /// forget by itself in the time that it was told.
    pub fn swap(&self, terms: Terms) -> Option<Terms> {
        let server = self.server.upgrade()?;
        let before = server.swap(terms.clone());
        if terms.show_otherwise(&before)
            && let Some(notifier) = server.notifier().cloned()
        {
            /// Nobody waits any longer for what can take long.
            const PATIENCE: Duration = Duration::from_secs(1);
            let (server, gate) = (self.server.clone(), before.gate.clone());
            let (ends, ended) = mpsc::channel::<()>();
            // Not here: where a client waits in a directory, the kernel waits for the client.
            let forgetting = thread::Builder::new().name("forgetting".into()).spawn(move || {
                let _ends = ends;
                let Some(server) = server.upgrade() else { return };
                server.forget_names(&gate, |directory, name| {
                    let parent = INodeNo(directory.0);
                    let forgotten = match name {
                        Some(name) => notifier.inval_entry(parent, name),
                        None => notifier.inval_inode(parent, 0, 0),
                    };
                    if let Err(error) = forgotten {
                        log::debug!("the kernel does not forget: {error}");
                    }
                });
            });
            match forgetting {
                // It ends by the sender's end.
                Ok(_) => drop(ended.recv_timeout(PATIENCE)),
                Err(error) => log::warn!("names are seen as before until their timeout: {error}"),
            }
        }
        Some(before)
    }

    /// Goes on in a new audit trail where the old one was moved away.
    pub fn reopen_audit(&self) {
        if let Some(server) = self.server.upgrade() {
            server.reopen_audit();
        }
    }

    /// Unmounts. While the mount is in use it is detached only, and what is open is served to its end.
    pub fn unmount(&self) {
        if let Some(attachment) = self.attachment.upgrade() {
            attachment.take_away();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;

    #[test]
    fn what_cannot_be_mounted_is_said_before_anything_is_changed() {
        let terms = || {
            let policy = crate::policy::Policy::of(&[&crate::policy::profile::UTF8]);
            Terms::of(Gate::new(Arc::new(policy), GateMode::Enforcing))
        };
        let dir = tempfile::tempdir().unwrap();
        let (inside, file) = (dir.path().join("a/b"), dir.path().join("file"));
        fs::create_dir_all(&inside).unwrap();
        fs::write(&file, "").unwrap();
        let refused = |source: &Path, mountpoint: &Path| {
            mount(source, mountpoint, terms(), audit::Settings::default(), &Options::default()).unwrap_err()
        };
        assert!(matches!(refused(dir.path(), &inside), Error::Inside { .. }));
        assert!(matches!(refused(&file, &inside), Error::Source(..)));
        assert!(matches!(refused(&dir.path().join("none"), &inside), Error::Source(..)));
        assert!(matches!(refused(&inside, &file), Error::Mountpoint(..)));
        assert!(matches!(refused(&inside, &dir.path().join("none")), Error::Mountpoint(..)));
    }
}
