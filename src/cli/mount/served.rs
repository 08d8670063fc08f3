//! A mount that is served, as it is seen and told what to do from outside: by signals and over the control socket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use nix::unistd::{geteuid, getpid};
use parking_lot::Mutex;

use super::plan::{Given, Plan};
use crate::cli::CliError;
use crate::fuse::{Handle, ServeConfig};
use crate::gate::Mode;
use crate::report::JsonBytes;
use crate::service::control::{
    ActivePolicy, ControlHandler, InstanceCounters, InstanceName, InstanceStatus, LastReload, ReloadOutcome,
};
use crate::settings::config::{ERRNOS, EXISTING, MODES, word_of};
use crate::telemetry::audit::RecentRefusals;
use crate::telemetry::metrics::Metrics;
use crate::time::timestamp;

/// A mount that is served.
#[derive(Debug)]
pub(super) struct Served {
    name: InstanceName,
    /// Where the tree is, whatever directory the process stands in now.
    source: PathBuf,
    given: Given,
    handle: Handle,
    metrics: Arc<Metrics>,
    recent: Arc<RecentRefusals>,
    since: SystemTime,
    /// Whoever changes terms holds this from the first look to the end, which can take as long as reading files and making the
    /// kernel forget names does.
    changing: Mutex<()>,
    /// Held for a moment at a time: how the mount is can be asked whatever is being changed, and whatever hangs.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What it was mounted by.
    mounted: Plan,
    /// The mode that options and files ask for.
    configured: Mode,
    /// The mode that was set by hand: reading files again does not change it.
    by_hand: Option<Mode>,
    last_reload: Option<LastReload>,
}

impl Served {
    pub(super) fn new(
        (name, source): (InstanceName, PathBuf),
        given: Given,
        mounted: Plan,
        handle: Handle,
        (metrics, recent): (Arc<Metrics>, Arc<RecentRefusals>),
    ) -> Self {
        let state = State { configured: mounted.mode(), mounted, by_hand: None, last_reload: None };
        Self {
            name,
            source,
            given,
            handle,
            metrics,
            recent,
            since: SystemTime::now(),
            changing: Mutex::default(),
            state: Mutex::new(state),
        }
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Serves on these terms from now on; returns what that changes.
    fn swap(&self, terms: &ServeConfig) -> Result<Vec<String>, String> {
        let before = self.handle.swap(terms.clone()).ok_or("the mount has ended")?;
        Ok(differences(&before, terms))
    }

    fn try_reload(&self) -> Result<ReloadOutcome, String> {
        let plan = self.given.plan().map_err(|trouble| match trouble {
            CliError::Message(why) => why,
            CliError::OutputClosed | CliError::AlreadyReported => "the configuration cannot be read".into(),
        })?;
        let mut terms = plan.terms.clone();
        let by_hand = self.state.lock().by_hand;
        if let Some(mode) = by_hand {
            terms.gate = terms.gate.with_mode(mode);
        }
        let changed = self.swap(&terms)?;
        let mut needs_mount = {
            let mut state = self.state.lock();
            state.configured = plan.mode();
            plan.needs_mount(&state.mounted)
        };
        if let Some(mode) = by_hand.filter(|mode| *mode != plan.mode()) {
            let (by_hand, configured) = (word_of(MODES, &mode), word_of(MODES, &plan.mode()));
            needs_mount.push(format!("mode: {configured}; it was set to {by_hand} by hand, and stays so"));
        }
        Ok(ReloadOutcome { changed, needs_mount })
    }
}

impl ControlHandler for Served {
    fn status(&self) -> InstanceStatus {
        let terms = self.handle.terms();
        let state = self.state.lock();
        let terms = terms.as_ref().unwrap_or(&state.mounted.terms);
        let gate = &terms.gate;
        InstanceStatus {
            name: self.name.to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            pid: getpid().as_raw().unsigned_abs(),
            uid: geteuid().as_raw(),
            since: timestamp(self.since),
            source: JsonBytes::new(self.source.as_os_str().as_encoded_bytes()),
            mountpoint: JsonBytes::new(self.handle.mountpoint().as_os_str().as_encoded_bytes()),
            config: state
                .mounted
                .file
                .as_deref()
                .map(|file| JsonBytes::new(file.as_os_str().as_encoded_bytes())),
            mode: word_of(MODES, &gate.mode()).into(),
            mode_is_set: state.by_hand.is_some(),
            existing: word_of(EXISTING, &gate.existing()).into(),
            errno: word_of(ERRNOS, &terms.for_violations).into(),
            policy: ActivePolicy::from_policy(gate.policy()),
            last_reload: state.last_reload.clone(),
            counters: self.metrics.snapshot(),
        }
    }

    fn reload(&self) -> Result<ReloadOutcome, String> {
        let begin = Instant::now();
        // A file that was moved away for rotation is to be left whatever becomes of the policy.
        self.handle.reopen_audit();
        let _changing = self.changing.lock();
        let outcome = self.try_reload();
        self.metrics.reloaded(outcome.is_ok());
        match &outcome {
            Ok(ReloadOutcome { changed, needs_mount }) => {
                log::info!("the configuration was read again, in {:?}", begin.elapsed());
                changed.iter().for_each(|line| log::info!("from now on: {line}"));
                needs_mount.iter().for_each(|line| log::warn!("not before the next mount: {line}"));
            }
            Err(why) => log::error!("the old policy stays in force: {why}"),
        }
        self.state.lock().last_reload = Some(LastReload::now(outcome.clone()));
        outcome
    }

    fn set_mode(&self, mode: Mode) -> Result<ReloadOutcome, String> {
        let _changing = self.changing.lock();
        let mut terms = self.handle.terms().ok_or("the mount has ended")?;
        terms.gate = terms.gate.with_mode(mode);
        let changed = self.swap(&terms)?;
        let mut state = self.state.lock();
        state.by_hand = (mode != state.configured).then_some(mode);
        drop(state);
        log::warn!("set by hand: {} from now on", word_of(MODES, &mode));
        Ok(ReloadOutcome { changed, needs_mount: Vec::new() })
    }

    fn metrics(&self) -> String {
        self.metrics.render()
    }

    fn counters(&self) -> InstanceCounters {
        InstanceCounters {
            name: self.name.to_string(),
            mountpoint: JsonBytes::new(self.handle.mountpoint().as_os_str().as_encoded_bytes()),
            counters: self.metrics.snapshot(),
            refusals: self.recent.last(),
        }
    }
}

/// What is otherwise on new terms, one line each.
fn differences(before: &ServeConfig, after: &ServeConfig) -> Vec<String> {
    let mut lines = Vec::new();
    let mut differs = |what: &str, before: String, after: String| {
        if before != after {
            lines.push(format!("{what}: {after} (was {before})"));
        }
    };
    let seconds = |timeout: std::time::Duration| format!("{} s", timeout.as_secs_f64());
    let mode = |terms: &ServeConfig| word_of(MODES, &terms.gate.mode()).to_owned();
    differs("mode", mode(before), mode(after));
    let policy = |terms: &ServeConfig| ActivePolicy::from_policy(terms.gate.policy()).to_string();
    differs("policy", policy(before), policy(after));
    let existing = |terms: &ServeConfig| word_of(EXISTING, &terms.gate.existing()).to_owned();
    differs("existing", existing(before), existing(after));
    let errno = |terms: &ServeConfig| word_of(ERRNOS, &terms.for_violations).to_owned();
    differs("errno", errno(before), errno(after));
    differs("check-targets", before.checks_targets.to_string(), after.checks_targets.to_string());
    differs("entry-timeout", seconds(before.entry_timeout), seconds(after.entry_timeout));
    differs("attr-timeout", seconds(before.attr_timeout), seconds(after.attr_timeout));
    lines
}
