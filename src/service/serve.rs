//! Serves a mount from the beginning to the end: opens its files and its control socket, mounts the source, and handles
//! signals while requests are served.

use std::fmt;
use std::path::{self, Path};
use std::process;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use namegate_core::name::display::shown;
use namegate_mount::{DropProcess, EndOfService, Mounted, ServeConfig};
use namegate_scan::report::layout::counted;
use namegate_settings::MountSettings;
use namegate_survive::{
    DRAIN_TIMEOUT, HANDED_OVER, HeldServer, LEAVE, MountRequest, Predecessor, ServerStart, UPGRADE,
};
use namegate_sys::mounts::{holding, mounts};
use namegate_telemetry::audit::{AuditSettings, RecentRefusals};
use namegate_telemetry::log as log_output;
use namegate_telemetry::metrics::{Metrics, MetricsOutlets, OperationCounts, RuleCount};
use parking_lot::Mutex;

use super::confinement::{give_up, raise_open_files};
use super::control::{self, ControlHandler, ControlServer, InstanceName, NameTaken, ReservedSocket};
use super::detach::{DaemonRole, ReadySender, divide};
use super::mount_config::{MountConfig, check_encoding, outlets};
use super::mount_service::{MountService, ServedMount, log_equivalence, mode_by_hand};
use super::notify::ServiceManager;
use super::serve_error::{ServeError, cannot};
use super::signals::{ServerSignals, SignalRequest};
use super::supervision::Supervision;

pub use namegate_survive::receive_stored;

/// How long requests may take when the mount is to end: less than service managers wait.
const GRACE: Duration = Duration::from_secs(10);

/// Metrics with the mount point as a label.
fn mount_metrics(mountpoint: &Path) -> Metrics {
    let place = path::absolute(mountpoint).unwrap_or(mountpoint.into());
    Metrics::default().with_label("mountpoint", shown(&place))
}

/// Mounts and serves until the mount ends.
///
/// # Errors
/// Nothing is mounted, or the mount ended with an error.
pub fn serve(settings: MountSettings, manager: ServiceManager) -> Result<(), ServeError> {
    serve_after(Predecessor::find(), settings, manager, None)
}

/// How the server was started.
struct Start {
    /// Told when the mount is live, if a process waits for that.
    ready: Option<ReadySender>,
    /// Whether it is to have no terminal.
    is_detached: bool,
}

/// `ready` is told when the mount is live.
fn serve_after(
    predecessor: Option<Predecessor>,
    mut settings: MountSettings,
    manager: ServiceManager,
    ready: Option<ReadySender>,
) -> Result<(), ServeError> {
    let mut config = load(&mut settings)?;
    let is_detached = ready.is_some() || predecessor.as_ref().is_some_and(Predecessor::was_detached);
    let mut start = Start { ready, is_detached };
    let mut held = hold_if_it_survives(&mut config, predecessor, &manager, &start)?;
    let manager = manager.with_main_process(held.as_ref().map(|held| held.holder));
    if let Some(held) = &mut held {
        announce_take_over(held, &mut config, &mut start);
    }
    let supervision = Supervision::begin(manager.clone(), &config)?;
    // Before there is a second thread: threads inherit the signal mask.
    let also = if held.is_some() { &[LEAVE, UPGRADE][..] } else { &[LEAVE] };
    let signals = ServerSignals::block(also, held.is_some()).map_err(cannot("block signals"))?;
    let signals = if is_detached { signals.without_terminal() } else { signals };
    let reserved = reserve(&config)?;
    let metrics = Arc::new(mount_metrics(&config.mountpoint));
    let outlets =
        MetricsOutlets::open(outlets(&config.settings), metrics.clone()).map_err(ServeError::new)?;
    let recent = Arc::new(RecentRefusals::default());
    let audit = AuditSettings { recent: recent.clone(), ..config.open_audit(metrics.clone())? };
    let source = path::absolute(&config.source).unwrap_or(config.source.clone());
    let mounted = mount(&config, held.as_ref(), audit, supervision.dropper())?;
    let _outlets = outlets.start().map_err(ServeError::new)?;
    if let Some(ready) = start.ready {
        ready.detach().map_err(cannot("go into the background"))?;
    }
    let name = reserved.as_ref().map_or_else(|| instance_name(&config), |reserved| reserved.name().clone());
    let status = status(&config, metrics.clone());
    let before_ready = before_ready(held.as_ref(), manager.clone());
    let was_reloaded = held.as_ref().is_some_and(|held| held.has_mount() && held.state.was_reloaded());
    let handle = mounted.handle();
    let mount = ServedMount { name, source, given: settings, handle, metrics, recent, held };
    let served = Arc::new(MountService::new(mount, config));
    let control = reserved.map(|reserved| reserved.serve(served.clone())).transpose();
    let control = Arc::new(Mutex::new(control.map_err(cannot("serve the control socket"))?));
    let _pulse = supervision.mounted(status, before_ready)?;
    if was_reloaded {
        reload_before_serving(&served)?;
    }
    let handle_signal = signal_handler(served, control.clone(), manager.clone());
    signals.watch(handle_signal).map_err(cannot("wait for signals"))?;
    let ended = mounted.serve();
    if let Ok(EndOfService::HandedOver) = ended {
        // Nothing is closed: it belongs to the next server.
        process::exit(HANDED_OVER);
    }
    manager.stopping();
    drop(control.lock().take());
    ended.map(drop).map_err(|error| reported(error, is_detached))
}

/// The error with which a mount has ended. Without a terminal, the log reports it.
fn reported(error: impl fmt::Display, is_detached: bool) -> ServeError {
    if !is_detached {
        return ServeError::new(error);
    }
    log::error!("{error}");
    ServeError::AlreadyReported
}

/// Has the service manager store the descriptors with which a mount that survives its server goes on.
fn before_ready(held: Option<&HeldServer>, manager: ServiceManager) -> impl FnOnce() + Send + 'static {
    let state = held.map(|held| held.state);
    move || {
        state.into_iter().for_each(|state| state.store_lasting(&|message, fds| manager.send(message, fds)))
    }
}

/// Reads the configuration, whose files stay where they are if the working directory changes.
fn load(settings: &mut MountSettings) -> Result<MountConfig, ServeError> {
    settings.make_absolute().map_err(cannot("find the working directory"))?;
    Ok(MountConfig::load(settings)?)
}

/// Makes this process the holder of a mount that survives its server, and returns in each server that the holder starts; `None`
/// for a mount that ends with its server. A mount that is served already goes on, whatever the files say now.
fn hold_if_it_survives(
    config: &mut MountConfig,
    predecessor: Option<Predecessor>,
    manager: &ServiceManager,
    start: &Start,
) -> Result<Option<HeldServer>, ServeError> {
    if !config.settings.survive() && predecessor.is_none() {
        return Ok(None);
    }
    // A server that takes over begins in the directory of the holder.
    config.make_absolute().map_err(cannot("find the working directory"))?;
    raise_open_files();
    let sees_calls = config.must_see_calls();
    let give_up = || give_up(sees_calls);
    let start = ServerStart {
        starter: start.ready.as_ref().map(ReadySender::number),
        is_detached: start.is_detached,
        give_up: config.settings.sandbox().then_some(&give_up),
        notify: &|message, fds| manager.send(message, fds),
        has_manager: manager.is_there(),
    };
    Ok(namegate_survive::hold(predecessor, &mount_request(config), start)?)
}

fn mount_request(config: &MountConfig) -> MountRequest<'_> {
    let MountConfig { source, mountpoint, settings, .. } = config;
    MountRequest { survives: settings.survive(), source, mountpoint }
}

/// Logs that this server takes over, if it does, and which settings have to wait for the next mount.
fn announce_take_over(held: &mut HeldServer, config: &mut MountConfig, start: &mut Start) {
    if let Some(death) = &held.previous {
        if let Some(ready) = start.ready.take() {
            ready.disown();
        }
        if start.is_detached {
            log_output::to_system();
        }
        log::warn!("previous server died ({death}); taking over");
    }
    if held.has_mount() {
        held.needs_mount = config.keep_settings(&held.state.settings());
        held.needs_mount.iter().for_each(|line| log::warn!("not before the next mount: {line}"));
    }
}

/// Mounts the source, or goes on with the mount that the previous server has left.
fn mount(
    config: &MountConfig,
    held: Option<&HeldServer>,
    audit: AuditSettings,
    dropper: Option<Arc<dyn DropProcess>>,
) -> Result<Mounted, ServeError> {
    if let Some(held) = held.filter(|held| held.has_mount()) {
        let ServeConfig { gate, settings } = config.serve.clone();
        // The mode that was set by hand stays.
        let mode = mode_by_hand(held.state).or(settings.mode);
        let left = held.state.left_mount().map_err(ServeError::new)?;
        let serve = ServeConfig::new(gate, MountSettings { mode, ..settings });
        // The mode set by hand may exclude a policy that was changed since; the mount goes on all the same.
        check_encoding(&serve.gate).unwrap_or_else(|why| log::error!("{why}; nothing is encoded"));
        return namegate_mount::resume(left, serve, audit, &config.caching(dropper)).map_err(ServeError::new);
    }
    let mut options = config.options(dropper);
    if let Some(held) = held {
        let record = config.settings.record();
        held.state.set_request(&mount_request(config), &record).map_err(ServeError::new)?;
        options.journal = held.state;
    }
    let serve = config.serve.clone();
    let mounted = namegate_mount::mount(&config.source, &config.mountpoint, serve, audit, &options);
    let mounted = mounted.map_err(ServeError::new)?;
    log_equivalence(&config.serve.gate);
    Ok(mounted)
}

/// What signals do while the mount is served.
fn signal_handler(
    served: Arc<MountService>,
    control: Arc<Mutex<Option<ControlServer>>>,
    manager: ServiceManager,
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
            if let Err(error) = served.handle().end(GRACE, served.stop_timeout()) {
                log::error!("cannot watch for requests that are stuck: {error}");
            }
        }
        SignalRequest::Other(UPGRADE) => {
            log::info!("{UPGRADE}: leaving the mount to the next server");
            served.handle().hand_over(DRAIN_TIMEOUT);
        }
        SignalRequest::Other(signal) if !served.has_holder() => {
            log::warn!("{signal}: only a mount with --survive can be left to the service manager");
        }
        SignalRequest::Other(_) => {}
    }
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
    started.map_err(cannot("read the configuration again"))?;
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
    let config = load(&mut settings)?;
    let table = mounts().unwrap_or_default();
    let is_served = |place: &Path| holding(&table, place).is_some_and(|mount| mount.kind == "fuse.namegate");
    if is_served(&config.mountpoint) {
        return Ok(());
    }
    let (ends, ended) = mpsc::channel();
    let checking = move || {
        // The receiver has ended only if it took too long.
        let _ = ends.send(namegate_mount::check(&config.source, &config.mountpoint, &config.options(None)));
    };
    let started = thread::Builder::new().name("check".into()).spawn(checking);
    started.map_err(cannot("check the source"))?;
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
    match divide().map_err(cannot("go into the background"))? {
        DaemonRole::Server(ready) => serve_after(None, settings, manager, Some(ready)),
        DaemonRole::Starter { is_ready: true } => Ok(()),
        // The server has reported the error.
        DaemonRole::Starter { is_ready: false } => Err(ServeError::AlreadyReported),
    }
}
