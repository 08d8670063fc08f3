//! A mount while it is served: signals and the control socket report its status and change it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use namegate_core::gate::{Gate, Mode};
use namegate_core::policy::{Normalization, OnMismatch};
use namegate_files::json::JsonBytes;
use namegate_files::time::timestamp;
use namegate_mount::{Handle, ServeConfig};
use namegate_settings::{CacheMode, Choices, MountSettings, NamedValue, Transport};
use namegate_survive::{HeldServer, LAYOUT, SurvivalState};
use namegate_telemetry::audit::RecentRefusals;
use namegate_telemetry::metrics::{Metrics, MetricsSource};
use nix::unistd::{geteuid, getpid};
use parking_lot::Mutex;

use super::control::{
    ActivePolicy, CacheKind, ControlHandler, HolderStatus, InstanceCounters, InstanceName, InstanceStatus,
    LastReload, ReloadOutcome,
};
use super::mount_config::{MountConfig, check_encoding};

/// A mount that is served, with what its service reports and changes.
#[derive(Debug)]
pub(super) struct ServedMount {
    pub(super) name: InstanceName,
    /// The absolute path of the source, which stays valid when the process changes its working directory.
    pub(super) source: PathBuf,
    /// The settings of the command line.
    pub(super) given: MountSettings,
    pub(super) handle: Handle,
    pub(super) metrics: Arc<Metrics>,
    pub(super) recent: Arc<RecentRefusals>,
    /// This server, if a successor can take over from it.
    pub(super) held: Option<HeldServer>,
}

#[derive(Debug)]
pub(super) struct MountService {
    mount: ServedMount,
    since: SystemTime,
    /// Locked during a whole change of the configuration, which takes as long as reading files and making the kernel forget
    /// names.
    changing: Mutex<()>,
    /// Locked for short moments only: the status is available during any change, even if the change hangs.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The configuration at the time of the mount.
    mounted: MountConfig,
    /// The settings that options and files ask for now.
    configured: MountSettings,
    /// The mode that was set by hand, which a reload does not change.
    by_hand: Option<Mode>,
    last_reload: Option<LastReload>,
}

impl MountService {
    /// `mounted` is the configuration of the mount.
    pub(super) fn new(mount: ServedMount, mounted: MountConfig) -> Self {
        let by_hand = mount.held.as_ref().and_then(|held| mode_by_hand(held.state));
        let state = State { configured: mounted.settings.clone(), mounted, by_hand, last_reload: None };
        Self { mount, since: SystemTime::now(), changing: Mutex::default(), state: Mutex::new(state) }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.mount.handle
    }

    pub(super) fn has_holder(&self) -> bool {
        self.mount.held.is_some()
    }

    /// How long requests may still take when the mount is to end, before they are aborted.
    pub(super) fn stop_timeout(&self) -> Option<Duration> {
        self.state.lock().mounted.settings.stop_timeout
    }

    /// Serves later requests through `gate` by `settings`; returns the changed settings.
    fn swap(&self, gate: Gate, settings: &MountSettings) -> Result<Vec<String>, String> {
        let settings = match self.state.lock().by_hand {
            Some(mode) => MountSettings { mode: Some(mode), ..settings.clone() },
            None => settings.clone(),
        };
        let after = ServeConfig::new(gate, settings);
        check_encoding(&after.gate)?;
        let before = self.mount.handle.swap(after.clone()).ok_or("the mount has ended")?;
        if before.gate.equivalence() != after.gate.equivalence() {
            log_equivalence(&after.gate);
        }
        let policy = |config: &ServeConfig| ActivePolicy::from_policy(config.gate.policy()).to_string();
        let (old, new) = (policy(&before), policy(&after));
        let mut changed = if old == new { Vec::new() } else { vec![format!("policy: {new} (was {old})")] };
        changed.extend(before.settings.differences(&after.settings, true));
        Ok(changed)
    }

    /// The transport in use.
    fn transport(&self, mounted: &MountSettings) -> Transport {
        match mounted.transport() {
            Transport::Fuser => Transport::Fuser,
            Transport::Auto | Transport::Dev | Transport::Uring if self.mount.handle.has_rings() => {
                Transport::Uring
            }
            Transport::Auto | Transport::Dev | Transport::Uring => Transport::Dev,
        }
    }

    fn try_reload(&self) -> Result<ReloadOutcome, String> {
        let config = MountConfig::load(&self.mount.given)?;
        let changed = self.swap(config.serve.gate.clone(), &config.settings)?;
        let mut state = self.state.lock();
        let needs_mount = state.mounted.settings.differences(&config.settings, false);
        let mode = config.settings.mode();
        let by_hand = state.by_hand.filter(|by_hand| *by_hand != mode);
        let kept = by_hand.map(|by_hand| {
            format!("mode: {}, as set by `namegate mode`; configured is {}", by_hand.word(), mode.word())
        });
        state.configured = config.settings;
        if let Some(held) = &self.mount.held {
            held.state.note_reload();
        }
        Ok(ReloadOutcome { changed, needs_mount, kept: kept.into_iter().collect() })
    }
}

/// The mode that was set by hand, as a predecessor has recorded it.
pub(super) fn mode_by_hand(survival: &SurvivalState) -> Option<Mode> {
    Some(Mode::ALL.get(usize::from(survival.mode()?))?.value)
}

impl ControlHandler for MountService {
    fn status(&self) -> InstanceStatus {
        let config = self.mount.handle.config();
        let state = self.state.lock();
        let ServeConfig { gate, settings } = config.as_ref().unwrap_or(&state.mounted.serve);
        InstanceStatus {
            name: self.mount.name.to_string(),
            namegate: env!("CARGO_PKG_VERSION").into(),
            pid: getpid().as_raw().unsigned_abs(),
            uid: geteuid().as_raw(),
            since: timestamp(self.since),
            source: JsonBytes::new(self.mount.source.as_os_str().as_encoded_bytes()),
            mountpoint: JsonBytes::new(self.mount.handle.mountpoint().as_os_str().as_encoded_bytes()),
            config: state
                .mounted
                .file
                .as_deref()
                .map(|file| JsonBytes::new(file.as_os_str().as_encoded_bytes())),
            mode: gate.mode().word().into(),
            mode_is_set: state.by_hand.is_some(),
            existing: gate.existing().word().into(),
            errno: settings.errno().word().into(),
            policy: ActivePolicy::from_policy(gate.policy()),
            settings: settings.values_in_effect(&state.mounted.settings),
            transport: self.transport(&state.mounted.settings).word().into(),
            cache: self.mount.handle.cache().map(|cache| CacheKind {
                kind: if cache.why_not.is_none() { CacheMode::Coherent } else { CacheMode::Timeout }
                    .word()
                    .into(),
                since: timestamp(cache.since),
                why_not: cache.why_not,
            }),
            last_reload: state.last_reload.clone(),
            holder: self.mount.held.as_ref().map(|held| HolderStatus {
                pid: held.holder.as_raw().unsigned_abs(),
                layout: LAYOUT,
                previous: held.previous.clone(),
                needs_mount: held.needs_mount.clone(),
            }),
            counters: self.mount.metrics.snapshot(),
        }
    }

    fn reload(&self) -> Result<ReloadOutcome, String> {
        let begin = Instant::now();
        // A log file that was moved away for rotation is closed even if the reload fails.
        self.mount.handle.reopen_audit();
        let _changing = self.changing.lock();
        let outcome = self.try_reload();
        self.mount.metrics.reloaded(outcome.is_ok());
        match &outcome {
            Ok(ReloadOutcome { changed, needs_mount, kept }) => {
                log::info!("configuration reloaded in {:?}", begin.elapsed());
                changed.iter().for_each(|line| log::info!("from now on: {line}"));
                kept.iter().for_each(|line| log::info!("kept: {line}"));
                needs_mount.iter().for_each(|line| log::warn!("not before the next mount: {line}"));
            }
            Err(why) => log::error!("reload failed; still running the previous configuration: {why}"),
        }
        self.state.lock().last_reload = Some(LastReload::now(outcome.clone()));
        outcome
    }

    fn set_mode(&self, mode: Mode) -> Result<ReloadOutcome, String> {
        let _changing = self.changing.lock();
        let gate = self.mount.handle.config().ok_or("the mount has ended")?.gate.with_mode(mode);
        check_encoding(&gate)?;
        let configured = {
            let mut state = self.state.lock();
            state.by_hand = (mode != state.configured.mode()).then_some(mode);
            if let Some(HeldServer { state: survival, .. }) = &self.mount.held {
                let is_it = |choice: &NamedValue<Mode>| Some(choice.value) == state.by_hand;
                survival.set_mode(Mode::ALL.iter().position(is_it).and_then(|place| place.try_into().ok()));
            }
            state.configured.clone()
        };
        let changed = self.swap(gate, &configured)?;
        log::warn!("mode set to {} by `namegate mode`", mode.word());
        Ok(ReloadOutcome { changed, ..ReloadOutcome::default() })
    }

    fn metrics(&self) -> String {
        self.mount.metrics.render()
    }

    fn counters(&self) -> InstanceCounters {
        InstanceCounters {
            name: self.mount.name.to_string(),
            mountpoint: JsonBytes::new(self.mount.handle.mountpoint().as_os_str().as_encoded_bytes()),
            counters: self.mount.metrics.snapshot(),
            refusals: self.mount.recent.last(),
        }
    }
}

/// Says what a gate makes of names that users would not expect.
pub(super) fn log_equivalence(gate: &Gate) {
    let policy = gate.policy();
    if gate.ignores_case() {
        log::info!(
            "names that differ only in case are one name: of entries that have such names already, other spellings mean the first one; \
             `namegate scan SOURCE --profile windows` lists them"
        );
    }
    if let Some(Normalization { form, on_mismatch: OnMismatch::Convert }) = policy.normalization() {
        log::warn!(
            "names are converted to {form}: `rsync --delete-after` and the like find other names than they wrote, and remove the files; \
             for them use `on-mismatch = \"match\"`, `rsync --iconv`, or `rclone sync`"
        );
    }
}
