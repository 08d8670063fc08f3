//! Supervision of a mount: reports to the service manager, and gives up privileges that serving does not need.

use std::sync::Arc;

use namegate_mount::DropProcess;

use super::confinement::{Confinement, confine, give_up, raise_open_files};
use super::drop_process::NameDropProcess;
use super::health::{Patient, Prober, Pulse};
use super::mount_config::MountConfig;
use super::notify::ServiceManager;
use super::serve_error::{ServeError, cannot};

/// The supervision of a server that is about to mount.
#[derive(Debug)]
pub(super) struct Supervision {
    manager: ServiceManager,
    prober: Option<Prober>,
    dropper: Option<Arc<dyn DropProcess>>,
    is_confined: bool,
}

impl Supervision {
    /// Starts supervision of a mount that is about to be made. Call this before there is a second thread.
    pub(super) fn begin(manager: ServiceManager, config: &MountConfig) -> Result<Self, ServeError> {
        raise_open_files();
        let is_confined = config.settings.sandbox();
        let prober = manager.is_there().then(|| Prober::start(&config.mountpoint)).transpose();
        let prober = prober.map_err(cannot("start the health check process"))?;
        let dropper = config.drops_names().then(NameDropProcess::start).transpose();
        let dropper = dropper.map_err(cannot("start the process that drops names"))?;
        if is_confined {
            give_up(config.must_see_calls()).map_err(|error| {
                ServeError::new(format!(
                    "cannot give up privileges: {error}; --sandbox=false mounts with all of them"
                ))
            })?;
        }
        let dropper = dropper.map(|dropper| Arc::new(dropper) as Arc<dyn DropProcess>);
        Ok(Self { manager, prober, dropper, is_confined })
    }

    /// What has the kernel drop names.
    pub(super) fn dropper(&self) -> Option<Arc<dyn DropProcess>> {
        self.dropper.clone()
    }

    /// Call this when the mount is live: confines the server, and reports its status to the service manager from the first
    /// successful check on, as long as the returned value exists. With that check, `before_ready` is called once.
    pub(super) fn mounted(
        self,
        status: impl Fn() -> String + Send + 'static,
        before_ready: impl FnOnce() + Send + 'static,
    ) -> Result<Option<Pulse>, ServeError> {
        if self.is_confined {
            match confine() {
                Ok(Confinement::Done) => {
                    log::info!("privileges and system calls are limited to what serving needs")
                }
                Ok(Confinement::NeedsHelper) => {
                    log::info!("not confined: fusermount3 could not unmount otherwise")
                }
                Ok(Confinement::NoFilters) => {
                    log::info!("system calls are not filtered on this processor architecture")
                }
                Err(error) => {
                    return Err(ServeError::new(format!(
                        "cannot confine the server: {error}; --sandbox=false mounts without that"
                    )));
                }
            }
        }
        let pulse = self
            .prober
            .map(|prober| Pulse::start(Patient::new(self.manager, status, before_ready), prober))
            .transpose();
        pulse.map_err(cannot("notify the service manager"))
    }
}
