//! The settings that may change while a tree is mounted.
//!
//! A request uses the configuration that is active when it arrives, from start to end: the configuration is loaded once per
//! request. A reload exchanges one pointer, so no request waits for it or sees half of a change.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::timeouts::Timeouts;
use crate::gate::{Gate, Intent};
use crate::passthrough::NameEquivalence;

/// How names are checked, and how long the kernel may cache replies.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The gate that checks names.
    pub gate: Gate,
    /// What the creation of a name that breaks the policy fails with; `None`: the rule decides
    /// ([`Failure::errno`](super::Failure::errno)).
    pub for_violations: Option<Errno>,
    /// Whether the targets of new symbolic links are checked too, each component like a new name.
    pub checks_targets: bool,
    /// How long the kernel may cache names; a change made directly in the source is visible after this time.
    pub entry_timeout: Duration,
    /// How long the kernel may cache attributes.
    pub attr_timeout: Duration,
}

impl ServeConfig {
    /// The default configuration, with this gate.
    pub fn new(gate: Gate) -> Self {
        Self {
            gate,
            for_violations: None,
            checks_targets: false,
            entry_timeout: Duration::from_secs(1),
            attr_timeout: Duration::from_secs(1),
        }
    }

    /// Whether an entry may be shown or found under other names than with the configuration `other`.
    pub(super) fn show_otherwise(&self, other: &Self) -> bool {
        let spellings = |terms: &Self| terms.gate.policy().normalization();
        self.gate.existing() != other.gate.existing() || spellings(self) != spellings(other)
    }
}

/// The active configuration, with values derived from it.
#[derive(Debug)]
pub(super) struct ActiveConfig {
    pub(super) terms: ServeConfig,
    /// Set if an entry can have more than one name in its directory.
    pub(super) equivalence: Option<Arc<dyn NameEquivalence>>,
    /// The previous gate, and when it was replaced.
    before: Option<(Gate, Instant)>,
}

impl ActiveConfig {
    pub(super) fn new(terms: ServeConfig) -> Self {
        let gate = &terms.gate;
        let equivalence = gate.knows_spellings().then(|| Arc::new(gate.clone()) as Arc<dyn NameEquivalence>);
        Self { terms, equivalence, before: None }
    }

    /// The configuration that replaces this one. Also returns whether entries are then shown under other names.
    pub(super) fn followed_by(&self, terms: ServeConfig) -> (Self, bool) {
        let shows_otherwise = terms.show_otherwise(&self.terms);
        let before = Some((self.terms.gate.clone(), Instant::now()));
        (Self { before, ..Self::new(terms) }, shows_otherwise)
    }

    /// Whether `name` may stand for several entries, or is not the only name of its entry. For a while, the previous configuration
    /// counts too: a request that is answered now may have used it.
    pub(super) fn is_ambiguous(&self, name: &OsStr) -> bool {
        /// Requests take longer only if the source hangs.
        const WHILE: Duration = Duration::from_secs(60);
        let was = |(gate, until): &(Gate, Instant)| {
            until.elapsed() < WHILE
                && (gate.has_other_spellings(name) || means_otherwise(gate, &self.terms.gate, name))
        };
        self.terms.gate.has_other_spellings(name) || self.before.as_ref().is_some_and(was)
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        Timeouts { entry: self.terms.entry_timeout, attr: self.terms.attr_timeout }
    }
}

/// Whether `name` may stand for different entries at the two gates.
fn means_otherwise(one: &Gate, other: &Gate, name: &OsStr) -> bool {
    let entry = |gate: &Gate| {
        let admitted = gate.admit(Intent::Address, name).ok()?;
        Some(admitted.as_os_str().to_owned())
    };
    one.is_shortened(name) || other.is_shortened(name) || entry(one) != entry(other)
}

/// The name under which the gate `before` showed the entry `stored`, if the kernel must not cache that name with the gate `after`.
pub(super) fn outdated<'n>(before: &Gate, after: &Gate, stored: &'n OsStr) -> Option<Cow<'n, OsStr>> {
    let seen = before.show(stored)?.name;
    (after.has_other_spellings(&seen) || means_otherwise(before, after, &seen)).then_some(seen)
}
