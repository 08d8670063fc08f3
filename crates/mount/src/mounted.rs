//! A live mount: serves, changes and ends it.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use namegate_sys::process::replace_descriptors;
use namegate_telemetry::metrics::Op;
use namegate_wire::StopReading;

use super::attach::Attachment;
use super::coherence::CacheStatus;
use super::dropper::NameDrop;
use super::error::Error;
use super::holders::holders;
use super::node_number::numbers;
use super::request_core::RequestCore;
use super::serve_config::ServeConfig;
use super::server::Server;
use super::session::MountSession;
use crate::workers::RequestInProgress;

/// A live mount that is not served yet: requests wait. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct Mounted {
    session: MountSession,
    attachment: Arc<Attachment>,
    core: Arc<RequestCore>,
    handle: Handle,
    endings: Receiver<Ending>,
}

/// The reason why serving ends.
#[derive(Debug)]
enum Ending {
    /// All requests have been answered, or an error has occurred.
    Served(io::Result<()>),
    /// These requests are stuck, and serving ends without them.
    Stuck(String),
    /// The mount is still in use, and serving ends all the same, as was asked for.
    Cut,
}

/// How serving has ended without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfService {
    /// The mount is gone.
    Unmounted,
    /// No request is out any more, and a successor goes on: see [`Handle::hand_over`].
    HandedOver,
}

/// Controls a mount while it is served, from any thread. A handle keeps nothing alive.
#[derive(Clone, Debug)]
pub struct Handle {
    server: Weak<Server>,
    core: Weak<RequestCore>,
    attachment: Weak<Attachment>,
    place: Arc<Path>,
    ends: Sender<Ending>,
    stop: Option<Arc<StopReading>>,
}

impl Mounted {
    /// A mount whose requests come from `session` and are served by `core`.
    pub(super) fn new(
        session: MountSession,
        attachment: Attachment,
        core: Arc<RequestCore>,
        mountpoint: &Path,
    ) -> Self {
        let attachment = Arc::new(attachment);
        let (ends, endings) = mpsc::channel();
        let handle = Handle {
            server: Arc::downgrade(&core.server),
            core: Arc::downgrade(&core),
            attachment: Arc::downgrade(&attachment),
            place: mountpoint.into(),
            ends,
            stop: session.stop_handle(),
        };
        Self { session, attachment, core, handle, endings }
    }

    /// The handle for controlling the mount while it is served.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves the mount until it is unmounted or handed over. After a hand-over the process should end at once: what it has open belongs
    /// to the successor.
    ///
    /// # Errors
    /// [`Error::Serving`]; [`Error::Stuck`] after [`Handle::end`], when requests are stuck. This does not wait for them, so
    /// the process should end then.
    pub fn serve(self) -> Result<EndOfService, Error> {
        /// By then, files are closed or a file system is stuck.
        const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
        let Self { session, attachment, core, handle, endings } = self;
        let (ends, stop) = (handle.ends.clone(), handle.stop.clone());
        drop(handle);
        // In a separate thread: it waits for the threads that read requests, which may be stuck.
        let serving = move || {
            let served = catch_unwind(AssertUnwindSafe(|| session.run()));
            // The receiver may be gone already.
            let _ = ends.send(Ending::Served(served.unwrap_or_else(|_| Err(io::Error::other("a defect")))));
        };
        thread::Builder::new().name("session".into()).spawn(serving).map_err(Error::Serving)?;
        match endings.recv() {
            Ok(Ending::Stuck(what)) => {
                core.server.close_audit();
                hang_up(&core.server);
                Err(Error::Stuck(what))
            }
            Ok(Ending::Cut) => {
                core.server.close_audit();
                hang_up(&core.server);
                Ok(EndOfService::Unmounted)
            }
            Ok(Ending::Served(Ok(()))) if stop.is_some_and(|stop| stop.is_asked()) => {
                // Whoever has asked for it ends this process if it takes too long.
                while !core.wait_until_idle(DRAIN_TIMEOUT) {}
                core.server.close_audit();
                std::mem::forget((attachment, core));
                Ok(EndOfService::HandedOver)
            }
            Ok(Ending::Served(result)) => {
                core.wait_until_idle(DRAIN_TIMEOUT);
                // The thread that hears of changes may have the server for a moment longer.
                core.server.close_audit();
                match result {
                    // The kernel may end a connection whose mount is gone, detached or aborted in this way (fuse.rst):
                    // nothing is left to serve.
                    Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => {
                        Ok(EndOfService::Unmounted)
                    }
                    result => result.map(|()| EndOfService::Unmounted).map_err(Error::Serving),
                }
            }
            Err(mpsc::RecvError) => Err(Error::Serving(io::Error::other("the serving thread has died"))),
        }
    }
}

/// Ends the connection, so that the kernel answers all waiting clients with an error. Otherwise they would wait as long as threads of this
/// process are stuck.
fn hang_up(server: &Server) {
    if let Some(dropper) = server.dropper() {
        dropper.abort();
    }
    let null = OpenOptions::new().read(true).write(true).open("/dev/null");
    if let Err(error) = null.and_then(|null| replace_descriptors(Path::new("/dev/fuse"), &null.into())) {
        log::warn!("clients of the mount may have to wait: {error}");
    }
}

impl Handle {
    /// The mount point, as it was given when it was mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.place
    }

    /// Whether requests come over io_uring.
    pub fn has_rings(&self) -> bool {
        self.core.upgrade().is_some_and(|core| core.has_rings())
    }

    /// Which kind of cache the mount has; `None` if the mount has ended.
    pub fn cache(&self) -> Option<CacheStatus> {
        Some(self.server.upgrade()?.coherence.status())
    }

    /// The active configuration; `None` if the mount has ended.
    pub fn config(&self) -> Option<ServeConfig> {
        Some(self.server.upgrade()?.config())
    }

    /// Serves all later requests by `config`, and returns the previous configuration; `None` if the mount has ended. No
    /// request waits, and none is served by both. The kernel is made to forget cached names that mean something else now.
    /// This is usually done when this returns, but continues in the background for very many directories. Without it, cached
    /// names expire after their timeout.
    pub fn swap(&self, config: ServeConfig) -> Option<ServeConfig> {
        let server = self.server.upgrade()?;
        let before = server.swap(config.clone());
        if config.show_otherwise(&before) && server.notifier().is_some() {
            /// How long to wait for the kernel to forget names.
            const FORGET_TIMEOUT: Duration = Duration::from_secs(1);
            let (server, gate) = (self.server.clone(), before.gate.clone());
            let (ends, ended) = mpsc::channel::<()>();
            // In a separate thread: while a client waits in a directory, the kernel waits for the client.
            let forgetting = thread::Builder::new().name("forgetting".into()).spawn(move || {
                let _ends = ends;
                let Some(server) = server.upgrade() else { return };
                let Some(notifier) = server.notifier() else { return };
                // Also names of nothing, and names that were removed.
                let taken = server.coherence.take_names();
                for (parent, names) in &taken.names {
                    server.drop_names(*parent, names, NameDrop::Expire);
                }
                server.forget_names(&gate, |directory, names| {
                    server.drop_names(directory, names, NameDrop::Forget);
                    for number in numbers(directory) {
                        let forgotten = notifier.forget_inode(number, true);
                        forgotten.unwrap_or_else(|error| log::debug!("the kernel does not forget: {error}"));
                    }
                });
            });
            match forgetting {
                // The receiver wakes when the thread drops the sender.
                Ok(_) => drop(ended.recv_timeout(FORGET_TIMEOUT)),
                Err(error) => log::warn!("names are seen as before until their timeout: {error}"),
            }
        }
        Some(before)
    }

    /// Continues in a new audit log if the old one was moved away.
    pub fn reopen_audit(&self) {
        if let Some(server) = self.server.upgrade() {
            server.reopen_audit();
        }
    }

    /// Unmounts. A mount in use is only detached: open files are still served until they are closed.
    pub fn unmount(&self) {
        if let Some(attachment) = self.attachment.upgrade() {
            attachment.unmount();
        }
    }

    /// Ends serving so that a successor can go on with nothing in flight. Requests in the pool are waited for, at most `patience`, while
    /// others are served; then no more requests are read. Does nothing for a mount without a successor.
    pub fn hand_over(&self, patience: Duration) {
        let (Some(core), Some(stop)) = (self.core.upgrade(), &self.stop) else { return };
        core.wait_until_idle(patience);
        stop.stop();
    }

    /// Unmounts as [`Handle::unmount`] does, and ends serving when a request has been in progress for `grace`, counted from
    /// now at the earliest: it may never finish. With `most`, serving ends after that time whoever uses the mount. Files that are open then
    /// are no longer served. If the mount stays in use, the log says by whom.
    ///
    /// # Errors
    /// The thread that watches the requests cannot be created.
    pub fn end(&self, grace: Duration, most: Option<Duration>) -> io::Result<()> {
        const INTERVAL: Duration = Duration::from_millis(250);
        /// Clients that close their files at a signal of their own have done so by then.
        const NOTABLE: Duration = Duration::from_secs(2);
        let device = self.attachment.upgrade().and_then(|it| it.device_number().map(str::to_owned));
        self.unmount();
        let (core, ends) = (self.core.clone(), self.ends.clone());
        let begun = Instant::now();
        let watching = move || {
            let mut was_noted = false;
            loop {
                thread::sleep(INTERVAL.min(most.unwrap_or(INTERVAL)));
                let Some(core) = core.upgrade() else { return };
                let users = || holders(&core.server, device.as_deref());
                if most.is_some_and(|most| begun.elapsed() >= most) {
                    log::warn!("the mount is in use and ends as its stop timeout says: {}", users());
                    let _ = ends.send(Ending::Cut);
                    return;
                }
                if begun.elapsed() >= NOTABLE && !was_noted {
                    was_noted = true;
                    log::warn!("unmounted, and still served because it is in use: {}", users());
                }
                if begun.elapsed() < grace {
                    continue;
                }
                let stuck = core.in_progress_longer_than(grace);
                if !stuck.is_empty() {
                    let _ = ends.send(Ending::Stuck(in_words(&stuck)));
                    return;
                }
            }
        };
        thread::Builder::new().name("ending".into()).spawn(watching).map(drop)
    }
}

/// The number of requests of each kind, and how long the oldest of them has been in progress.
fn in_words(stuck: &[RequestInProgress]) -> String {
    let mut by_name = BTreeMap::<&str, usize>::new();
    for work in stuck {
        *by_name.entry(Op::by_number(work.kind).map_or("request", Op::name)).or_default() += 1;
    }
    let kinds: Vec<String> = by_name.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let oldest = stuck.iter().map(|work| work.age).max().unwrap_or_default();
    format!("{}, for up to {} s", kinds.join(", "), oldest.as_secs())
}
