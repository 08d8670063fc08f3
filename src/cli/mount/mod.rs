//! `namegate mount`: a tree behind the gate.

mod helper;
mod remount;
mod served;
mod service;

use std::ffi::{OsStr, OsString};
use std::path::{self, Path};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use parking_lot::Mutex;

use self::served::Served;
use self::service::Service;
use super::setting_args::SettingArgs;
use super::{CliError, ExitStatus};
use crate::fuse;
use crate::name::display::shown;
use crate::service::control::{self, ControlHandler, InstanceName, NameTaken, ReservedSocket};
use crate::service::detach::{DaemonRole, ReadySender, divide};
use crate::service::mount_config::MountConfig;
use crate::service::notify::ServiceManager;
use crate::service::signals::{ServerSignals, SignalRequest};
use crate::settings::{MountOptions, MountSettings, Strictness};
use crate::telemetry::audit::{self, RecentRefusals};
use crate::telemetry::log::LogFormat;
use crate::telemetry::metrics::{Metrics, OperationCounts, RuleCount};

pub(super) use helper::{Helper, is_called as is_helper};

const EXAMPLES: &str = "\
Examples:
  namegate mount /srv/share /mnt/share
  namegate mount /srv/share /srv/share --daemon   # over itself: users see the mount only
  namegate mount /srv/share /mnt/share -o ro,profile=strict:windows
  namegate mount --config share                   # everything is in /etc/namegate/share.toml
  namegate mount --config share --check-targets=false
  namegate mount /srv/share /mnt/share --mode permissive --audit /var/log/namegate.jsonl
  mount -t namegate /srv/share /mnt/share -o profile=strict

Every option above except --daemon can be given to -o, with `_` for `-` and `:` between profiles. The words of mount(8) work \
too: ro, rw, exec, atime, nosuid, nodev. -o also takes verbose and log_format=FORMAT, and ignores words for fstab.

An option with true|false means true without a value; `=false` turns off what the file turns on. If options conflict, the long \
option wins, then the -o option given last, then the file. Profiles of -o and of --profile apply together.

The mount ends with `umount MOUNTPOINT` (users other than root: `fusermount3 -u MOUNTPOINT`), SIGINT (Ctrl-C) or SIGTERM. SIGHUP \
reloads the configuration, as `namegate reload` does.

Exit status: 0 unmounted, or with --daemon mounted; 2 not mounted, or the mount ended with an error.";

/// Mount a directory so that no name that breaks the policy can be created in it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingArgs,
    /// Mount options, as mount(8) takes them
    #[arg(short = 'o', long = "options", value_name = "OPTION,...", value_parser = mount_options())]
    options: Vec<OsString>,
}

/// Reads each list by itself, so that an error in it is one of usage.
fn mount_options() -> impl TypedValueParser<Value = OsString> {
    let read = |list| MountOptions::parse(slice::from_ref(&list), Strictness::Strict).map(|_| list);
    OsStringValueParser::new().try_map(read)
}

impl Args {
    /// All settings that were given.
    fn settings(&self) -> Result<MountSettings, String> {
        let options = MountOptions::parse(&self.options, Strictness::Strict)?;
        Ok(options.settings.followed_by(&self.settings.0))
    }

    /// The settings of the log.
    pub(super) fn log(&self) -> (bool, Option<LogFormat>) {
        self.settings().map_or_else(|_| (false, None), |settings| (settings.verbose(), settings.log_format))
    }
}

/// How long requests may take when the mount has been told to end. Less than service managers wait.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the command; it ends with the mount, or when the mount is live.
pub(super) fn run(args: &Args) -> Result<ExitStatus, CliError> {
    let given = args.settings().map_err(CliError::new)?;
    let manager = ServiceManager::from_environment();
    if given.daemon() { in_background(given, manager) } else { serve(given, manager, None) }
}

/// Metrics that are told from those of other mounts on the same machine.
fn metrics_of(mountpoint: &Path) -> Metrics {
    let place = path::absolute(mountpoint).unwrap_or(mountpoint.into());
    Metrics::default().with_label("mountpoint", shown(&place))
}

/// Mounts and serves; when the mount is live, `ready` is told.
fn serve(
    mut given: MountSettings,
    manager: ServiceManager,
    ready: Option<ReadySender>,
) -> Result<ExitStatus, CliError> {
    given
        .make_absolute()
        .map_err(|error| CliError::new(format!("cannot find the working directory: {error}")))?;
    let config = MountConfig::load(&given).map_err(CliError::new)?;
    let service = Service::begin(manager.clone(), &config.mountpoint, config.settings.sandbox())?;
    // Before there is a second thread: threads inherit what is blocked.
    let signals =
        ServerSignals::block().map_err(|error| CliError::new(format!("cannot block signals: {error}")))?;
    let reserved = reserve(&config)?;
    let metrics = Arc::new(metrics_of(&config.mountpoint));
    let outlets = config.open_outlets(metrics.clone()).map_err(CliError::new)?;
    let status = status(&config, metrics.clone());
    let recent = Arc::new(RecentRefusals::default());
    let audit = config.open_audit(metrics.clone()).map_err(CliError::new)?;
    let audit = audit::AuditSettings { recent: recent.clone(), ..audit };
    let source = path::absolute(&config.source).unwrap_or(config.source.clone());
    let mounted =
        fuse::mount(&config.source, &config.mountpoint, config.serve.clone(), audit, &config.options())
            .map_err(CliError::new)?;
    let _outlets = outlets.start().map_err(CliError::new)?;
    let is_detached = ready.is_some();
    if let Some(ready) = ready {
        ready.detach().map_err(|error| CliError::new(format!("cannot go into the background: {error}")))?;
    }
    let name = reserved.as_ref().map_or_else(|| name_of(&config), |reserved| reserved.name().clone());
    let served = Arc::new(Served::new((name, source), given, config, mounted.handle(), (metrics, recent)));
    let control = reserved.map(|reserved| reserved.serve(served.clone())).transpose();
    let control =
        control.map_err(|error| CliError::new(format!("cannot serve the control socket: {error}")))?;
    let _pulse = service.mounted(status)?;
    let control = Arc::new(Mutex::new(control));
    let (socket, told) = (control.clone(), manager.clone());
    let act = move |request| match request {
        SignalRequest::Reload => {
            told.reloading();
            // What came of it has been logged.
            drop(served.reload());
            told.reloaded();
        }
        SignalRequest::End => {
            told.stopping();
            // Another instance may have the name, while what is open here is served to its end.
            drop(socket.lock().take());
            if let Err(error) = served.handle().end(GRACE) {
                log::error!("cannot watch for requests that are stuck: {error}");
            }
        }
    };
    let signals = if is_detached { signals.without_terminal() } else { signals };
    signals.watch(act).map_err(|error| CliError::new(format!("cannot wait for signals: {error}")))?;
    let ended = mounted.serve();
    manager.stopping();
    drop(control.lock().take());
    ended.map(|()| ExitStatus::Clean).map_err(|error| match is_detached {
        true => {
            log::error!("{error}");
            CliError::AlreadyReported
        }
        false => CliError::new(error),
    })
}

/// What a service manager shows of a mount that works.
fn status(config: &MountConfig, metrics: Arc<Metrics>) -> impl Fn() -> String + Send + 'static {
    let what = format!("{} on {}", shown(&config.source), shown(&config.mountpoint));
    move || {
        let counted = metrics.snapshot();
        let requests: u64 = counted.requests.iter().map(OperationCounts::total).sum();
        let names = |judged: &[RuleCount]| judged.iter().map(|judged| judged.count).sum::<u64>();
        let (refused, let_through) = (names(&counted.refused), names(&counted.let_through));
        format!("{what}: {requests} requests, {refused} names refused, {let_through} let through")
    }
}

/// What the instance is called, unless others are called so.
fn name_of(config: &MountConfig) -> InstanceName {
    let of_place = || {
        InstanceName::from_mountpoint(
            &path::absolute(&config.mountpoint).unwrap_or(config.mountpoint.clone()),
        )
    };
    config.name.clone().unwrap_or_else(of_place)
}

/// The control socket. A mount without one is better than none, but of one mount configuration there is one mount.
fn reserve(config: &MountConfig) -> Result<Option<ReservedSocket>, CliError> {
    let Some(directory) = control::directory() else {
        log::info!("no control socket: XDG_RUNTIME_DIR is not set");
        return Ok(None);
    };
    match control::reserve(&directory, &name_of(config), config.name.is_none()) {
        Ok(reserved) => Ok(Some(reserved)),
        Err(error) if error.get_ref().is_some_and(|inner| inner.is::<NameTaken>()) => {
            Err(CliError::new(error))
        }
        Err(error) => {
            log::warn!("no control socket in {}: {error}", shown(&directory));
            Ok(None)
        }
    }
}

/// The same in a process of its own; this one waits until the mount is live.
fn in_background(given: MountSettings, manager: ServiceManager) -> Result<ExitStatus, CliError> {
    if given.audit.as_deref() == Some(Path::new("-")) {
        return Err(CliError::new(
            "--audit - writes to standard output, which a mount in the background does not have",
        ));
    }
    let impossible = |error| CliError::new(format!("cannot go into the background: {error}"));
    match divide().map_err(impossible)? {
        DaemonRole::Server(ready) => serve(given, manager, Some(ready)),
        DaemonRole::Starter(waiting) => match waiting.wait().map_err(impossible)? {
            true => Ok(ExitStatus::Clean),
            // It has said why.
            false => Err(CliError::AlreadyReported),
        },
    }
}

/// Whether `name` is the last part of `path`.
fn is_named(path: &OsStr, name: &str) -> bool {
    Path::new(path).file_name() == Some(OsStr::new(name))
}
