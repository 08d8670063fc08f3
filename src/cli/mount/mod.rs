//! `namegate mount`: a tree behind the gate.

mod helper;
mod mount_options;
mod plan;
mod remount;
mod served;
mod service;
mod settings;

use std::ffi::{OsStr, OsString};
use std::path::{self, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::builder::TypedValueParser;
use parking_lot::Mutex;

use self::mount_options::{Strictness, Words};
use self::plan::{Given, Plan};
use self::served::Served;
use self::service::Service;
use self::settings::Settings;
use super::{CliError, ExitStatus, LogFormat};
use crate::fuse;
use crate::name::display::shown;
use crate::service::control::{self, ControlHandler, InstanceName, NameTaken, ReservedSocket};
use crate::service::detach::{DaemonRole, ReadySender, divide};
use crate::service::notify::ServiceManager;
use crate::service::signals::{ServerSignals, SignalRequest};
use crate::telemetry::audit::{self, RecentRefusals};
use crate::telemetry::metrics::{Metrics, OperationCounts, RuleCount};

pub(super) use helper::{Helper, is_called as is_helper};
pub(super) use settings::mode_parser;

const EXAMPLES: &str = "\
Examples:
  namegate mount /srv/share /mnt/share
  namegate mount /srv/share /srv/share --daemon        over itself: users see the mount alone
  namegate mount /srv/share /mnt/share -o ro,profile=strict:windows
  namegate mount --config share                        what /etc/namegate/share.toml says
  namegate mount /srv/share /mnt/share --mode permissive --audit /var/log/namegate.jsonl
  mount -t namegate /srv/share /mnt/share -o profile=strict

The mount lasts until `umount MOUNTPOINT`, for other users than root `fusermount3 -u MOUNTPOINT`, or until \
SIGINT (Ctrl-C) or SIGTERM. SIGHUP has it read its files again, as `namegate reload` does. -o takes all options above but --daemon, with _ for - and : between profiles, and also: ro, \
noexec, noatime; suid and dev, for root alone, without which nosuid and nodev hold; allow_other; \
fsname=NAME; verbose; log_format=FORMAT. What is meant for fstab is passed over. Of two options that contradict each other the long option \
holds, then the later word.

Exit status: 0 unmounted, or with --daemon mounted; 2 not mounted, or the mount ended by an error.";

/// Mount a tree so that no name that breaks the policy can be created in it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The directory that is served; can stand in the file of --config.
    source: Option<PathBuf>,
    /// Where it is mounted; likewise.
    #[arg(requires = "source")]
    mountpoint: Option<PathBuf>,
    /// Mount options as mount(8) takes them.
    #[arg(short = 'o', long = "options", value_name = "OPTION,...", value_parser = lists())]
    options: Vec<OsString>,
    /// Serve in the background: end when the mount is live, with an exit status that says whether it is. The log then goes
    /// to the system's log.
    #[arg(long)]
    daemon: bool,
    #[command(flatten)]
    settings: Settings,
}

/// Judges a list by itself, so that a mistake in it is one of usage.
fn lists() -> impl TypedValueParser<Value = OsString> {
    clap::builder::OsStringValueParser::new()
        .try_map(|list| Words::default().add(&list, Strictness::Strict).map(|_| list))
}

impl Args {
    /// Whether `-o` says so.
    pub(super) fn is_verbose(&self) -> bool {
        self.given().is_some_and(|given| given.is_verbose())
    }

    /// What `-o` says of it.
    pub(super) fn log_format(&self) -> Option<LogFormat> {
        self.given()?.log_format()
    }

    /// What `-o` says.
    fn given(&self) -> Option<Given> {
        Given::new((None, None), &self.options, Settings::default(), Strictness::Strict).ok()
    }
}

/// How long requests may take when the mount has been told to end. Less than service managers wait.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the command; it ends with the mount, or when the mount is live.
pub(super) fn run(args: Args) -> Result<ExitStatus, CliError> {
    let places = (args.source, args.mountpoint);
    let given =
        Given::new(places, &args.options, args.settings, Strictness::Strict).map_err(CliError::new)?;
    let manager = ServiceManager::from_environment();
    if args.daemon { in_background(given, manager) } else { serve(given, manager, None) }
}

/// Metrics that are told from those of other mounts on the same machine.
fn metrics_of(mountpoint: &Path) -> Metrics {
    let place = path::absolute(mountpoint).unwrap_or(mountpoint.into());
    Metrics::default().with_label("mountpoint", shown(&place))
}

/// Mounts and serves; when the mount is live, `ready` is told.
fn serve(given: Given, manager: ServiceManager, ready: Option<ReadySender>) -> Result<ExitStatus, CliError> {
    let given = given.absolute()?;
    let plan = given.plan()?;
    let service = Service::begin(manager.clone(), &plan.mountpoint, plan.is_confined)?;
    // Before there is a second thread: threads inherit what is blocked.
    let signals =
        ServerSignals::block().map_err(|error| CliError::new(format!("cannot block signals: {error}")))?;
    let reserved = reserve(&plan)?;
    let metrics = Arc::new(metrics_of(&plan.mountpoint));
    let outlets = plan.metrics.outlets(metrics.clone())?;
    let status = status(&plan, metrics.clone());
    let recent = Arc::new(RecentRefusals::default());
    let audit = audit::AuditSettings { recent: recent.clone(), ..plan.audit.open(metrics.clone())? };
    let source = path::absolute(&plan.source).unwrap_or(plan.source.clone());
    let mounted = fuse::mount(&plan.source, &plan.mountpoint, plan.terms.clone(), audit, &plan.options)
        .map_err(CliError::new)?;
    let _outlets = outlets.start().map_err(CliError::new)?;
    let is_detached = ready.is_some();
    if let Some(ready) = ready {
        ready.detach().map_err(|error| CliError::new(format!("cannot go into the background: {error}")))?;
    }
    let name = reserved.as_ref().map_or_else(|| name_of(&plan), |reserved| reserved.name().clone());
    let served = Arc::new(Served::new((name, source), given, plan, mounted.handle(), (metrics, recent)));
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
fn status(plan: &Plan, metrics: Arc<Metrics>) -> impl Fn() -> String + Send + 'static {
    let what = format!("{} on {}", shown(&plan.source), shown(&plan.mountpoint));
    move || {
        let counted = metrics.snapshot();
        let requests: u64 = counted.requests.iter().map(OperationCounts::total).sum();
        let names = |judged: &[RuleCount]| judged.iter().map(|judged| judged.count).sum::<u64>();
        let (refused, let_through) = (names(&counted.refused), names(&counted.let_through));
        format!("{what}: {requests} requests, {refused} names refused, {let_through} let through")
    }
}

/// What the instance is called, unless others are called so.
fn name_of(plan: &Plan) -> InstanceName {
    let of_place = || {
        InstanceName::from_mountpoint(&path::absolute(&plan.mountpoint).unwrap_or(plan.mountpoint.clone()))
    };
    plan.name.clone().unwrap_or_else(of_place)
}

/// The control socket. A mount without one is better than none, but of one instance file there is one mount.
fn reserve(plan: &Plan) -> Result<Option<ReservedSocket>, CliError> {
    let Some(directory) = control::directory() else {
        log::info!("no control socket: XDG_RUNTIME_DIR is not set");
        return Ok(None);
    };
    match control::reserve(&directory, &name_of(plan), plan.name.is_none()) {
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
fn in_background(given: Given, manager: ServiceManager) -> Result<ExitStatus, CliError> {
    if given.writes_to_output() {
        return Err(CliError::new(
            "--audit - writes to standard output, which a mount in the background has not",
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
