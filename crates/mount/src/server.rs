//! A backing tree behind a gate, by the configuration that is active.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::{ControlFlow, Deref};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, Guard};
use namegate_core::gate::{Admitted, Gate, Intent, Mode};
use namegate_telemetry::audit::Audit;
use namegate_telemetry::metrics::Metrics;
use namegate_wire::{NoJournal, Notifier};
use nix::errno::Errno;

use super::coherence::Coherence;
use super::dropper::{Dropper, NameDrop};
use super::failure::RequestFailure;
use super::forced_drops::ForcedDrops;
use super::journal::MountJournal;
use super::node_number::numbers;
use super::serve_config::{ActiveConfig, ServeConfig, outdated};
use super::spelling::{NameHash, UncachedNames};
use super::timeouts::Timeouts;
use crate::passthrough::{NodeId, Passthrough};

/// The result of an operation, or the reason why it failed.
pub(super) type Result<T> = std::result::Result<T, RequestFailure>;

/// A backing tree behind a gate.
#[derive(Debug)]
pub struct Server {
    pub(super) tree: Passthrough,
    active: ArcSwap<ActiveConfig>,
    pub(super) uncached: UncachedNames,
    pub(super) audit: Option<Audit>,
    pub(super) metrics: Option<Arc<Metrics>>,
    /// The channel for notifications to the kernel.
    notifier: OnceLock<Notifier>,
    dropper: OnceLock<Dropper>,
    /// Whether the kernel supports FUSE_NOTIFY_PRUNE, once it was asked.
    pub(super) prunes: OnceLock<bool>,
    pub(super) forced_drops: ForcedDrops,
    pub(super) coherence: Coherence,
}

/// A server with the configuration that one request is served by, from start to end.
#[derive(Debug)]
pub(super) struct ConfiguredServer<'s> {
    server: &'s Server,
    pub(super) config: Guard<Arc<ActiveConfig>>,
    /// For replies that may last: see [`Coherence::begin`].
    pub(super) begun: Option<u64>,
}

impl Server {
    /// Serves `tree` by `config`.
    pub fn new(tree: Passthrough, config: ServeConfig) -> Self {
        tree.hold_spellings(config.settings.entry_timeout());
        let active = ArcSwap::from_pointee(ActiveConfig::new(config));
        Self {
            tree,
            active,
            uncached: UncachedNames::new(&NoJournal),
            audit: None,
            metrics: None,
            notifier: OnceLock::new(),
            dropper: OnceLock::new(),
            prunes: OnceLock::new(),
            forced_drops: ForcedDrops::default(),
            coherence: Coherence::new(&NoJournal),
        }
    }

    /// Sends notifications to the kernel through `notifier` from now on.
    pub(super) fn notify_by(&self, notifier: Notifier) {
        // A server has one mount.
        let _ = self.notifier.set(notifier);
    }

    pub(super) fn notifier(&self) -> Option<&Notifier> {
        self.notifier.get()
    }

    /// Has names dropped by `dropper` from now on.
    pub(super) fn drop_by(&self, dropper: Dropper) {
        // A server has one mount.
        let _ = self.dropper.set(dropper);
    }

    /// What drops names without harm if this process is killed.
    pub(super) fn dropper(&self) -> Option<&Dropper> {
        self.dropper.get().filter(|dropper| dropper.is_there())
    }

    /// Has the kernel drop `names` in `parent`. Waits for requests about entries of it: not for a thread that serves requests.
    pub(super) fn drop_names(&self, parent: NodeId, names: &[OsString], how: NameDrop) {
        for number in numbers(parent) {
            let mut dropped = self.dropper().map(|dropper| dropper.drop_names(number, names, how));
            if matches!(&dropped, Some(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe) {
                self.coherence.set_status(Some("the process that drops names has ended".into()));
                dropped = None;
            }
            let by_this_process = |notifier| {
                names.iter().map(|name| how.drop_by(notifier, number, name)).fold(Ok(()), io::Result::and)
            };
            let dropped = dropped.or_else(|| self.notifier().map(by_this_process)).unwrap_or(Ok(()));
            dropped.unwrap_or_else(|error| log::debug!("the kernel does not forget: {error}"));
        }
    }

    pub(super) fn active_config(&self) -> Guard<Arc<ActiveConfig>> {
        self.active.load()
    }

    /// Serves later requests by `config`; returns the previous configuration.
    pub fn swap(&self, config: ServeConfig) -> ServeConfig {
        let before = self.active.swap(Arc::new(ActiveConfig::new(config.clone())));
        if let Some(metrics) = &self.metrics {
            metrics.set_permissive(config.gate.mode() == Mode::Permissive);
        }
        self.tree.hold_spellings(config.settings.entry_timeout());
        if config.show_otherwise(&before.serve) {
            // After the change: a listing that is recorded for the new view must not contain names of the old one.
            self.tree.change_view();
        }
        before.serve.clone()
    }

    /// Makes the kernel forget, by `forget`, cached names that meant something else with `before`, and all cached listings.
    /// This takes as long as listing all directories in the lookup table.
    pub(super) fn forget_names(&self, before: &Gate, mut forget: impl FnMut(NodeId, &[OsString])) {
        for directory in self.tree.directories() {
            let (after, mut names) = (self.active_config(), Vec::new());
            // A directory that cannot be listed now cannot be listed by clients either.
            let _ = self.tree.list(directory, |entry| {
                if !matches!(entry.name.as_bytes(), b"." | b"..") {
                    names.extend(outdated(before, &after.serve.gate, entry.name).map(Cow::into_owned));
                }
                ControlFlow::Continue(())
            });
            forget(directory, &names);
        }
    }

    pub fn config(&self) -> ServeConfig {
        self.active_config().serve.clone()
    }

    /// The server with an audit log of names that are refused, or let through against the policy.
    #[must_use]
    pub fn with_audit(self, audit: Audit) -> Self {
        Self { audit: Some(audit), ..self }
    }

    /// Why names of the user `uid` were refused, for attributes that begin with
    /// [`WHY_ATTRIBUTE`](namegate_telemetry::audit::WHY_ATTRIBUTE): written to `value`, which may be empty to get the length.
    pub(super) fn why(&self, name: &OsStr, uid: u32, value: &mut [u8]) -> nix::Result<usize> {
        let audit = self.audit.as_ref().ok_or(Errno::ENODATA)?;
        let answer = audit.why(name, uid, self.active_config().serve.gate.policy()).ok_or(Errno::ENODATA)?;
        if !value.is_empty() {
            value.get_mut(..answer.len()).ok_or(Errno::ERANGE)?.copy_from_slice(&answer);
        }
        Ok(answer.len())
    }

    /// Continues in a new file if the old one was moved away: see [`Audit::reopen`].
    pub fn reopen_audit(&self) {
        self.audit.iter().for_each(Audit::reopen);
    }

    /// Stops recording, and writes all earlier records to the file. For an end during which requests are still served.
    pub(super) fn close_audit(&self) {
        self.audit.iter().for_each(Audit::close);
    }

    /// The server of a mount with this journal.
    #[must_use]
    pub fn with_journal(self, journal: &'static dyn MountJournal) -> Self {
        Self { uncached: UncachedNames::new(journal), coherence: Coherence::new(journal), ..self }
    }

    /// The server with metrics of names that are refused or let through.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// The server with the active configuration, for one request.
    pub(super) fn for_request(&self) -> ConfiguredServer<'_> {
        let begun = self.coherence.begin();
        ConfiguredServer { server: self, config: self.active_config(), begun }
    }
}

impl Deref for ConfiguredServer<'_> {
    type Target = Server;

    fn deref(&self) -> &Server {
        self.server
    }
}

impl ConfiguredServer<'_> {
    /// The errno for the client.
    pub(super) fn errno(&self, failure: RequestFailure) -> Errno {
        failure.errno(self.config.serve.settings.errno())
    }

    /// How long the kernel may cache replies.
    pub(super) fn timeouts(&self) -> Timeouts {
        self.config.timeouts()
    }

    /// Whether the kernel may cache the name with this reply, if the entry is shown under it. A reply by a configuration that is no
    /// longer active may be wrong by now.
    pub(super) fn may_be_kept(&self, parent: NodeId, name: &OsStr) -> bool {
        let is_active = Arc::ptr_eq(&self.config, &self.active_config());
        is_active && (self.config.equivalence.is_none() || self.may_own_name_be_kept(parent, name))
    }

    fn may_own_name_be_kept(&self, parent: NodeId, name: &OsStr) -> bool {
        let is_uncached = || {
            let admitted = self.config.serve.gate.admit(Intent::Address, name);
            admitted.is_ok_and(|admitted| self.uncached.contains(NameHash::new(parent, admitted.key())))
        };
        (!self.config.is_ambiguous(name) || self.can_drop_names())
            && !(self.uncached.is_used() && is_uncached())
    }

    /// Checks a name that refers to an entry and creates none.
    pub(super) fn admit_existing<'n>(&self, parent: NodeId, name: &'n OsStr) -> Result<Admitted<'n>> {
        if self.config.serve.gate.is_shortened(name) {
            return self.shortened_name(parent, name);
        }
        Ok(self.config.serve.gate.admit(Intent::Address, name)?)
    }

    /// Finds the entry of a shortened escape: the full name is known only from the directory.
    fn shortened_name(&self, parent: NodeId, name: &OsStr) -> Result<Admitted<'static>> {
        let mut found = None;
        self.tree.list(parent, |entry| match self.config.serve.gate.show(entry.name) {
            Some(shown) if shown.name == name => {
                found = Some(shown.admitted.into_owned());
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })?;
        found.ok_or(RequestFailure::Backing(Errno::ENOENT))
    }
}

#[cfg(test)]
mod tests;
