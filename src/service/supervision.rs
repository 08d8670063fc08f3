//! Supervision of a mount: a service manager hears how it is, and it keeps no more privileges than it needs.

use std::path::Path;

use super::confinement::{Confinement, confine, give_up, raise_open_files};
use super::health::{Prober, Pulse};
use super::notify::ServiceManager;
use super::serve::ServeError;

/// The supervision of a server that is about to mount.
#[derive(Debug)]
pub(super) struct Supervision {
    manager: ServiceManager,
    prober: Option<Prober>,
    is_confined: bool,
}

impl Supervision {
    /// For what is going to be mounted on `mountpoint`. To be called before there is a second thread.
    pub(super) fn begin(
        manager: ServiceManager,
        mountpoint: &Path,
        is_confined: bool,
    ) -> Result<Self, ServeError> {
        raise_open_files();
        let no_prober = |error| {
            ServeError::new(format!(
                "cannot start the process that asks the mount whether it answers: {error}"
            ))
        };
        let prober =
            if manager.is_there() { Some(Prober::start(mountpoint).map_err(no_prober)?) } else { None };
        if is_confined {
            give_up().map_err(|error| {
                ServeError::new(format!(
                    "cannot give up privileges: {error}; --no-sandbox mounts with all of them"
                ))
            })?;
        }
        Ok(Self { manager, prober, is_confined })
    }

    /// Now that it is mounted: confines it, and lets the manager know as soon as it answers, and from then on how it is, as long
    /// as what is returned lives.
    pub(super) fn mounted(
        self,
        status: impl Fn() -> String + Send + 'static,
    ) -> Result<Option<Pulse>, ServeError> {
        if self.is_confined {
            match confine() {
                Ok(Confinement::Done) => log::info!("confined to what serving needs"),
                Ok(Confinement::NeedsHelper) => {
                    log::info!("not confined: it is fusermount3 that will unmount")
                }
                Ok(Confinement::NoFilters) => {
                    log::info!("no system call is filtered on this kind of processor")
                }
                Err(error) => {
                    return Err(ServeError::new(format!(
                        "cannot confine the server: {error}; --no-sandbox mounts without that"
                    )));
                }
            }
        }
        let pulse = self.prober.map(|prober| Pulse::start(self.manager, prober, status)).transpose();
        pulse.map_err(|error| ServeError::new(format!("cannot tell the service manager: {error}")))
    }
}
