//! Mounting, serving, unmounting.
//!
//! The source is opened before anything is mounted, so that a mount over the source itself serves what it covers.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use fuser::Session;
use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;

use super::adapter::Adapter;
use super::attach::{Attaching, Attachment};
use super::dispatch::Core;
use super::error::Error;
use super::mountpoint::{detach_dead, source_of};
use super::options::Options;
use super::reroot::numbers;
use super::server::Server;
use super::terms::Terms;
use crate::daemon::audit::{self, Audit};
use crate::daemon::metrics::Op;
use crate::gate::Mode as GateMode;
use crate::passthrough::{Passthrough, Settings};
use crate::sys::process::take_away;
use crate::sys::tree::{clone_tree, keep_access_times};
use crate::workers::InWork;

/// A mount that is live and not served yet: requests wait. It goes when it is dropped.
#[derive(Debug)]
pub struct Mounted {
    session: Session<Adapter>,
    attachment: Arc<Attachment>,
    core: Arc<Core>,
    handle: Handle,
    endings: Receiver<Ending>,
}

/// How serving ends.
#[derive(Debug)]
enum Ending {
    /// All that was asked for has been answered, or an error has come up.
    Served(io::Result<()>),
    /// These requests are stuck, and whoever ends the mount does not wait for them.
    Stuck(String),
}

/// What can be done with a mount while it is served, from any thread. Holding one keeps nothing alive.
#[derive(Clone, Debug)]
pub struct Handle {
    server: Weak<Server>,
    core: Weak<Core>,
    attachment: Weak<Attachment>,
    place: Arc<Path>,
    ends: Sender<Ending>,
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
    let root = match options.flags.contains(MsFlags::MS_NOATIME) {
        true => {
            without_access_times(source).map_err(|errno| Error::AccessTimes(source.into(), errno.into()))?
        }
        false => OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
            .open(source)
            .map_err(source_error)?,
    };
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
    use_open_files();
    let settings = Settings { cached_fds: CACHED_FDS };
    let tree = Passthrough::new(root.try_clone().map_err(source_error)?.into(), settings)
        .map_err(|errno| source_error(errno.into()))?;
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
    let core = Arc::new(Core::new(server.clone(), metrics).map_err(Error::Serving)?);
    let adapter = Adapter::new(core.clone());
    let not_mounted = |error: io::Error| match error.kind() {
        // All that was named is there: what is missing is the program that mounts for other users.
        io::ErrorKind::NotFound => Error::Helper(mountpoint.into()),
        _ => Error::Mount(mountpoint.into(), error),
    };
    let (attaching, requests) =
        Attaching::begin(&target, &canonical_source, &root.into(), options).map_err(not_mounted)?;
    let session =
        Session::from_fd(adapter, requests, options.access(), options.config()).map_err(not_mounted)?;
    let attachment = attaching.finish().map_err(not_mounted)?;
    log::info!("mounted");
    server.notify_by(session.notifier());
    server.pruning.ask_on(attachment.device().map_err(not_mounted)?);
    let attachment = Arc::new(attachment);
    let (ends, endings) = mpsc::channel();
    let handle = Handle {
        server: Arc::downgrade(&server),
        core: Arc::downgrade(&core),
        attachment: Arc::downgrade(&attachment),
        place: target.into(),
        ends,
    };
    Ok(Mounted { session, attachment, core, handle, endings })
}

impl Mounted {
    /// For whoever has to do with it while it is served.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves it until it is unmounted.
    ///
    /// # Errors
    /// [`Error::Serving`]; [`Error::Stuck`] after [`Handle::end`], when requests are stuck. They still are: the process should
    /// end then. It does not wait for them.
    pub fn serve(self) -> Result<(), Error> {
        /// Files are closed by then, or a file system is stuck.
        const PATIENCE: Duration = Duration::from_secs(2);
        let Self { session, attachment: _taken_away_at_the_end, core, handle, endings } = self;
        let ends = handle.ends.clone();
        drop(handle);
        // In a thread of its own: it waits for the threads that read requests, and these may be stuck.
        let serving = move || {
            let served = catch_unwind(AssertUnwindSafe(|| session.run()));
            // Nobody may wait for it any more.
            let _ = ends.send(Ending::Served(served.unwrap_or_else(|_| Err(io::Error::other("a defect")))));
        };
        thread::Builder::new().name("session".into()).spawn(serving).map_err(Error::Serving)?;
        match endings.recv() {
            Ok(Ending::Stuck(what)) => {
                core.server.close_audit();
                // Or clients would wait as long as threads of this process are stuck.
                if let Err(error) = hang_up() {
                    log::warn!("clients of the mount may have to wait: {error}");
                }
                Err(Error::Stuck(what))
            }
            Ok(Ending::Served(result)) => {
                if !core.settle(PATIENCE) {
                    core.server.close_audit();
                }
                match result {
                    // So the kernel may end a connection whose mount is gone, detached or aborted (fuse.rst): nothing is
                    // left to serve.
                    Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
                    result => result.map_err(Error::Serving),
                }
            }
            Err(mpsc::RecvError) => Err(Error::Serving(io::Error::other("the serving thread has died"))),
        }
    }
}

/// Gives the kernel its device back, which answers everybody who waits with an error.
fn hang_up() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    take_away(Path::new("/dev/fuse"), &null.into())
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
                    for parent in numbers(directory) {
                        let forgotten = match name {
                            Some(name) => notifier.inval_entry(parent, name),
                            None => notifier.inval_inode(parent, 0, 0),
                        };
                        if let Err(error) = forgotten {
                            log::debug!("the kernel does not forget: {error}");
                        }
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

    /// Unmounts likewise, and ends serving when a request has been in work for as long as `grace` from now on: whatever it
    /// waits for may never come. What is open then is served no longer.
    ///
    /// # Errors
    /// There can be no thread that looks after that.
    pub fn end(&self, grace: Duration) -> io::Result<()> {
        const INTERVAL: Duration = Duration::from_millis(250);
        self.unmount();
        let (core, ends) = (self.core.clone(), self.ends.clone());
        let begun = Instant::now();
        let watching = move || {
            loop {
                thread::sleep(INTERVAL);
                let Some(core) = core.upgrade() else { return };
                if begun.elapsed() < grace {
                    continue;
                }
                let stuck = core.in_work_for(grace);
                if !stuck.is_empty() {
                    let _ = ends.send(Ending::Stuck(in_words(&stuck)));
                    return;
                }
            }
        };
        thread::Builder::new().name("ending".into()).spawn(watching).map(drop)
    }
}

/// How many requests of which kind, and how long the oldest of them has been in work.
fn in_words(stuck: &[InWork]) -> String {
    let mut by_name = BTreeMap::<&str, usize>::new();
    for work in stuck {
        *by_name.entry(Op::by_number(work.kind).map_or("request", Op::name)).or_default() += 1;
    }
    let kinds: Vec<String> = by_name.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let oldest = stuck.iter().map(|work| work.age).max().unwrap_or_default();
    format!("{}, for up to {} s", kinds.join(", "), oldest.as_secs())
}

/// How many descriptors may be kept for later, at most. Where only few can be open it is a quarter of those.
const CACHED_FDS: usize = 4096;

/// The source on mounts of its own, through which reading it sets no times of access: by the server, and by the kernel itself,
/// which opens backing files on the mount on which they were lent to it.
fn without_access_times(source: &Path) -> nix::Result<File> {
    let tree = clone_tree(source, true)?;
    keep_access_times(&tree)?;
    Ok(tree.into())
}

/// Lets this process open as many files as it may.
fn use_open_files() {
    // What cannot be raised is as it was, and is read again where it counts.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
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
