//! A mount that is live: how it is served, changed and ended.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use fuser::Session;

use super::adapter::Adapter;
use super::attach::Attachment;
use super::dispatch::RequestCore;
use super::error::Error;
use super::reroot::numbers;
use super::serve_config::ServeConfig;
use super::server::Server;
use crate::sys::process::take_away;
use crate::telemetry::metrics::Op;
use crate::workers::RequestInProgress;

/// A mount that is live and not served yet: requests wait. It goes when it is dropped.
#[derive(Debug)]
pub struct Mounted {
    session: Session<Adapter>,
    attachment: Arc<Attachment>,
    core: Arc<RequestCore>,
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
    core: Weak<RequestCore>,
    attachment: Weak<Attachment>,
    place: Arc<Path>,
    ends: Sender<Ending>,
}

impl Mounted {
    /// A mount whose requests come to `session`, and are served by `core`.
    pub(super) fn new(
        session: Session<Adapter>,
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
        };
        Self { session, attachment, core, handle, endings }
    }

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
    pub fn config(&self) -> Option<ServeConfig> {
        Some(self.server.upgrade()?.config())
    }

    /// Serves every request that comes from now on on other terms, and returns those that held; `None` if the mount has
    /// ended. No request waits, and none is served on both. What the kernel keeps of names that are seen otherwise now it is
    /// made to forget: mostly that is done when this returns, and for very many directories it goes on for a while. It would
    /// forget by itself in the time that it was told.
    pub fn swap(&self, config: ServeConfig) -> Option<ServeConfig> {
        let server = self.server.upgrade()?;
        let before = server.swap(config.clone());
        if config.show_otherwise(&before)
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

    /// Goes on in a new audit log where the old one was moved away.
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
fn in_words(stuck: &[RequestInProgress]) -> String {
    let mut by_name = BTreeMap::<&str, usize>::new();
    for work in stuck {
        *by_name.entry(Op::by_number(work.kind).map_or("request", Op::name)).or_default() += 1;
    }
    let kinds: Vec<String> = by_name.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let oldest = stuck.iter().map(|work| work.age).max().unwrap_or_default();
    format!("{}, for up to {} s", kinds.join(", "), oldest.as_secs())
}
