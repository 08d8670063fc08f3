//! Serves a mount from the beginning to the end: opens its files and its control socket, mounts the source, and handles
//! signals while requests are served.

use std::path::{self, Path};
use std::process;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use namegate_core::name::display::shown;
use namegate_mount::{EndOfService, ServeConfig};
use namegate_scan::report::layout::counted;
use namegate_settings::MountSettings;
use namegate_survive::SurvivalState;
use namegate_sys::mounts::{holding, mounts};
use namegate_telemetry::audit::{self, RecentRefusals};
use namegate_telemetry::log as log_output;
use namegate_telemetry::metrics::{Metrics, OperationCounts, RuleCount};
use parking_lot::Mutex;

use super::control::{self, ControlHandler, ControlServer, InstanceName, NameTaken, ReservedSocket};
use super::detach::{DaemonRole, ReadySender, divide};
use super::held_server::HeldServer;
use super::holder::{DRAIN_TIMEOUT, HANDED_OVER, hold};
use super::mount_config::MountConfig;
use super::mount_service::{MountService, mode_by_hand, warn_of_mode};
use super::notify::ServiceManager;
use super::predecessor::Predecessor;
use super::serve_error::ServeError;
use super::signals::{ServerSignals, SignalRequest};
use super::supervision::Supervision;

/// How long requests may take when the mount is to end: less than service managers wait.
const GRACE: Duration = Duration::from_secs(10);

/// Metrics with the mount point as a label.
fn mount_metrics(mountpoint: &Path) -> Metrics {
    let place = path::absolute(mountpoint).unwrap_or(mountpoint.into());
    Metrics::default().with_label("mountpoint", shown(&place))
}

/// Mounts and serves until the mount ends. `ready` is called when the mount is live.
///
/// # Errors
/// Nothing is mounted, or the mount ended with an error.
pub fn serve(
    settings: MountSettings,
    manager: ServiceManager,
    ready: Option<ReadySender>,
) -> Result<(), ServeError> {
    serve_after(Predecessor::find(), settings, manager, ready)
}

fn serve_after(
    predecessor: Option<Predecessor>,
    mut settings: MountSettings,
    manager: ServiceManager,
    mut ready: Option<ReadySender>,
) -> Result<(), ServeError> {
    settings
        .make_absolute()
        .map_err(|error| ServeError::new(format!("cannot find the working directory: {error}")))?;
    let mut config = MountConfig::load(&settings).map_err(ServeError::new)?;
    let is_detached = ready.is_some() || predecessor.as_ref().is_some_and(Predecessor::was_detached);
    let mut held = hold_if_it_survives(&mut config, predecessor, &manager, ready.as_ref(), is_detached)?;
    let manager = manager.with_holder(held.clone());
    let state = held.as_ref().map(|held| held.state);
    let inherited = state.and_then(SurvivalState::inherited);
    if let Some(held) = &mut held {
        announce_take_over(held, &mut config, inherited.is_some(), &mut ready, is_detached);
    }
    let service = Supervision::begin(manager.clone(), &config.mountpoint, config.settings.sandbox())?;
    // Before there is a second thread: threads inherit the signal mask.
    let signals = ServerSignals::block(held.is_some())
        .map_err(|error| ServeError::new(format!("cannot block signals: {error}")))?;
    let reserved = reserve(&config)?;
    let metrics = Arc::new(mount_metrics(&config.mountpoint));
    let outlets = config.open_outlets(metrics.clone()).map_err(ServeError::new)?;
    let status = status(&config, metrics.clone());
    let recent = Arc::new(RecentRefusals::default());
    let audit = config.open_audit(metrics.clone()).map_err(ServeError::new)?;
    let audit = audit::AuditSettings { recent: recent.clone(), ..audit };
    let source = path::absolute(&config.source).unwrap_or(config.source.clone());
    let mounted = match state.filter(|_| inherited.is_some()) {
        Some(state) => resume(&config, state, audit)?,
        None => mount(&config, state, audit)?,
    };
    if inherited.is_none() {
        warn_of_mode(config.serve.gate.mode());
    }
    let _outlets = outlets.start().map_err(ServeError::new)?;
    if let Some(ready) = ready {
        ready.detach().map_err(|error| ServeError::new(format!("cannot go into the background: {error}")))?;
    }
    let name = reserved.as_ref().map_or_else(|| instance_name(&config), |reserved| reserved.name().clone());
    let stop_timeout = config.settings.stop_timeout;
    let served = Arc::new(MountService::new(
        (name, source),
        settings,
        config,
        mounted.handle(),
        (metrics, recent),
        held,
    ));
    let control = reserved.map(|reserved| reserved.serve(served.clone())).transpose();
    let control =
        control.map_err(|error| ServeError::new(format!("cannot serve the control socket: {error}")))?;
    let _pulse = service.mounted(status)?;
    if inherited.is_some() && state.is_some_and(SurvivalState::was_reloaded) {
        reload_before_serving(&served)?;
    }
    let control = Arc::new(Mutex::new(control));
    let handle_signal = signal_handler(served, control.clone(), manager.clone(), stop_timeout);
    let signals = if is_detached { signals.without_terminal() } else { signals };
    signals
        .watch(handle_signal)
        .map_err(|error| ServeError::new(format!("cannot wait for signals: {error}")))?;
    let ended = mounted.serve();
    if let Ok(EndOfService::HandedOver) = ended {
        // Nothing is closed: it belongs to the next server.
        process::exit(HANDED_OVER);
    }
    manager.stopping();
    drop(control.lock().take());
    ended.map(drop).map_err(|error| match is_detached {
        true => {
            log::error!("{error}");
            ServeError::AlreadyReported
        }
        false => ServeError::new(error),
    })
}

/// Makes this process the holder of a mount that survives its server, and returns in each server that the holder starts; `None`
/// for a mount that ends with its server. A mount that is served already goes on, whatever the files say now.
fn hold_if_it_survives(
    config: &mut MountConfig,
    predecessor: Option<Predecessor>,
    manager: &ServiceManager,
    ready: Option<&ReadySender>,
    is_detached: bool,
) -> Result<Option<HeldServer>, ServeError> {
    if !config.settings.survive() && predecessor.is_none() {
        return Ok(None);
    }
    // A server that takes over begins in the directory of the holder.
    for place in [&mut config.source, &mut config.mountpoint] {
        *place = path::absolute(&*place)
            .map_err(|error| ServeError::new(format!("cannot find the working directory: {error}")))?;
    }
    let left = predecessor.map(|predecessor| predecessor.open(config, manager)).transpose()?.flatten();
    if !config.settings.survive() && left.is_none() {
        return Ok(None);
    }
    let place = (ready.map(ReadySender::number), is_detached);
    hold(left, place, manager, config.settings.sandbox()).map(Some)
}

/// Logs that this server takes over, if it does, and which settings have to wait for the next mount.
fn announce_take_over(
    held: &mut HeldServer,
    config: &mut MountConfig,
    has_mount: bool,
    ready: &mut Option<ReadySender>,
    is_detached: bool,
) {
    if let Some(death) = &held.previous {
        if let Some(ready) = ready.take() {
            ready.disown();
        }
        if is_detached {
            log_output::to_system();
        }
        log::warn!("previous server died ({death}); taking over");
    }
    if has_mount {
        held.needs_mount = config.keep_settings(&held.state.settings());
        held.needs_mount.iter().for_each(|line| log::warn!("not before the next mount: {line}"));
    }
}

/// Goes on with the mount that the previous server has left.
fn resume(
    config: &MountConfig,
    state: &'static SurvivalState,
    audit: audit::AuditSettings,
) -> Result<namegate_mount::Mounted, ServeError> {
    let left = state.left_mount().map_err(ServeError::new)?;
    namegate_mount::resume(left, resumed_config(config, state), audit).map_err(ServeError::new)
}

/// Mounts the source, and notes in `state` what a later server needs to know.
fn mount(
    config: &MountConfig,
    state: Option<&'static SurvivalState>,
    audit: audit::AuditSettings,
) -> Result<namegate_mount::Mounted, ServeError> {
    let mut options = config.options();
    if let Some(state) = state {
        state.set_given(&config.source, &config.mountpoint).map_err(ServeError::new)?;
        if let Err(error) = state.set_settings(&config.settings.record()) {
            log::warn!("a later server of this mount will not report settings that need a new one: {error}");
        }
        options.journal = state;
    }
    namegate_mount::mount(&config.source, &config.mountpoint, config.serve.clone(), audit, &options)
        .map_err(ServeError::new)
}

/// What signals do while the mount is served.
fn signal_handler(
    served: Arc<MountService>,
    control: Arc<Mutex<Option<ControlServer>>>,
    manager: ServiceManager,
    stop_timeout: Option<Duration>,
) -> impl Fn(SignalRequest) + Send + Sync + 'static {
    move |request| match request {
        SignalRequest::Reload => {
            manager.reloading();
            // The result has been logged.
            drop(served.reload());
            manager.reloaded();
        }
        SignalRequest::End => {
            manager.stopping();
            // Another instance may take the name while files that are open here are still served.
            drop(control.lock().take());
            if let Err(error) = served.handle().end(GRACE, stop_timeout) {
                log::error!("cannot watch for requests that are stuck: {error}");
            }
        }
        SignalRequest::HandOver => served.handle().hand_over(DRAIN_TIMEOUT),
    }
}

/// The configuration with which a server goes on: that of the mount, with the mode that was set by hand.
fn resumed_config(config: &MountConfig, state: &SurvivalState) -> ServeConfig {
    let ServeConfig { gate, settings } = config.serve.clone();
    let mode = mode_by_hand(state).or(settings.mode);
    ServeConfig::new(gate, MountSettings { mode, ..settings })
}

/// Reads the configuration as it was read again before, in a thread that is not waited for long: a file that lies in the mount can be
/// read only when the mount is served.
fn reload_before_serving(served: &Arc<MountService>) -> Result<(), ServeError> {
    const RELOAD_TIMEOUT: Duration = Duration::from_secs(2);
    let (ends, ended) = mpsc::channel::<()>();
    let served = served.clone();
    let reloading = move || {
        // The result has been logged.
        drop(served.reload());
        drop(ends);
    };
    let started = thread::Builder::new().name("reload".into()).spawn(reloading);
    started.map_err(|error| ServeError::new(format!("cannot read the configuration again: {error}")))?;
    let _ = ended.recv_timeout(RELOAD_TIMEOUT);
    Ok(())
}

/// The status line that a service manager shows.
fn status(config: &MountConfig, metrics: Arc<Metrics>) -> impl Fn() -> String + Send + 'static {
    let what = format!("{} on {}", shown(&config.source), shown(&config.mountpoint));
    move || {
        let snapshot = metrics.snapshot();
        let requests: u64 = snapshot.requests.iter().map(OperationCounts::total).sum();
        let (refused, let_through) =
            (RuleCount::total(&snapshot.refused), RuleCount::total(&snapshot.let_through));
        let (requests, refused) =
            (counted(requests, "request", "requests"), counted(refused, "name", "names"));
        format!("{what}: {requests}, {refused} refused, {let_through} let through")
    }
}

/// The name of the instance, unless another instance has it.
fn instance_name(config: &MountConfig) -> InstanceName {
    let from_mountpoint = || {
        InstanceName::from_mountpoint(
            &path::absolute(&config.mountpoint).unwrap_or(config.mountpoint.clone()),
        )
    };
    config.name.clone().unwrap_or_else(from_mountpoint)
}

/// Reserves the control socket. A mount without one is better than none, but one mount configuration has one mount.
fn reserve(config: &MountConfig) -> Result<Option<ReservedSocket>, ServeError> {
    let Some(directory) = control::directory() else {
        log::info!("no control socket: XDG_RUNTIME_DIR is not set");
        return Ok(None);
    };
    match control::reserve(&directory, &instance_name(config), config.name.is_none()) {
        Ok(reserved) => Ok(Some(reserved)),
        Err(error) if error.get_ref().is_some_and(|inner| inner.is::<NameTaken>()) => {
            Err(ServeError::new(error))
        }
        Err(error) => {
            log::warn!("no control socket in {}: {error}", shown(&directory));
            Ok(None)
        }
    }
}

/// Checks everything that is checked before a mount is made, and mounts nothing. What is mounted already is not looked at: a mount whose
/// server is away would not answer.
///
/// # Errors
/// Nothing could be mounted.
pub fn check(mut settings: MountSettings) -> Result<(), ServeError> {
    const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
    settings
        .make_absolute()
        .map_err(|error| ServeError::new(format!("cannot find the working directory: {error}")))?;
    let config = MountConfig::load(&settings).map_err(ServeError::new)?;
    let table = mounts().unwrap_or_default();
    let is_served = |place: &Path| holding(&table, place).is_some_and(|mount| mount.kind == "fuse.namegate");
    if is_served(&config.mountpoint) {
        return Ok(());
    }
    let (ends, ended) = mpsc::channel();
    let checking = move || {
        // The receiver has ended only if it took too long.
        let _ = ends.send(namegate_mount::check(&config.source, &config.mountpoint, &config.options()));
    };
    let started = thread::Builder::new().name("check".into()).spawn(checking);
    started.map_err(|error| ServeError::new(format!("cannot check the source: {error}")))?;
    match ended.recv_timeout(CHECK_TIMEOUT) {
        Ok(result) => result.map_err(ServeError::new),
        Err(_) => {
            log::warn!("source and mount point do not answer, and are not checked");
            Ok(())
        }
    }
}

/// Mounts and serves in a separate process, and returns when the mount is live.
///
/// # Errors
/// Nothing is mounted.
pub fn serve_in_background(settings: MountSettings, manager: ServiceManager) -> Result<(), ServeError> {
    if settings.audit.as_deref() == Some(Path::new("-")) {
        return Err(ServeError::new(
            "--audit - writes to standard output, which a mount in the background does not have",
        ));
    }
    let predecessor = Predecessor::find();
    if predecessor.is_some() {
        return serve_after(predecessor, settings, manager, None);
    }
    let impossible = |error| ServeError::new(format!("cannot go into the background: {error}"));
    match divide().map_err(impossible)? {
        DaemonRole::Server(ready) => serve_after(None, settings, manager, Some(ready)),
        DaemonRole::Starter(waiting) => match waiting.wait().map_err(impossible)? {
            true => Ok(()),
            // The server has reported the error.
            false => Err(ServeError::AlreadyReported),
        },
    }
}
