//! The terms on which a tree is served, as far as they may change while it is mounted.
//!
//! A request is served on the terms that are in force when it comes, from its beginning to its end: whoever serves one
//! takes them once. New terms are one pointer that is exchanged, so that no request waits for a change, and none sees half
//! of one.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::timeouts::Timeouts;
use crate::gate::{Gate, Intent};
use crate::passthrough::Orthography;

/// How names are judged, and what of the answers may be kept.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Who passes.
    pub gate: Gate,
    /// What the creation of a name that breaks the policy fails with; `None`: the rule decides
    /// ([`Failure::errno`](super::Failure::errno)).
    pub for_violations: Option<Errno>,
    /// The targets of new symbolic links are judged too, each component like a new name.
    pub checks_targets: bool,
    /// How long the kernel may take for granted that a name leads to a file; a change made directly in the source shows
    /// by then.
    pub entry_timeout: Duration,
    /// The same for the attributes of a file.
    pub attr_timeout: Duration,
}

impl Terms {
    /// The usual ones, with this gate.
    pub fn of(gate: Gate) -> Self {
        Self {
            gate,
            for_violations: None,
            checks_targets: false,
            entry_timeout: Duration::from_secs(1),
            attr_timeout: Duration::from_secs(1),
        }
    }

    /// Whether an entry can be seen under another name, or be found under others, than on these terms.
    pub(super) fn show_otherwise(&self, other: &Self) -> bool {
        let spellings = |terms: &Self| terms.gate.policy().normalization();
        self.gate.existing() != other.gate.existing() || spellings(self) != spellings(other)
    }
}

/// Terms that hold, and what follows from them.
#[derive(Debug)]
pub(super) struct InForce {
    pub(super) terms: Terms,
    /// Only where an entry has more than one name in its directory.
    pub(super) spelt_by: Option<Arc<dyn Orthography>>,
    /// What held before, and until when.
    before: Option<(Gate, Instant)>,
}

impl InForce {
    pub(super) fn new(terms: Terms) -> Self {
        let gate = &terms.gate;
        let spelt_by = gate.knows_spellings().then(|| Arc::new(gate.clone()) as Arc<dyn Orthography>);
        Self { terms, spelt_by, before: None }
    }

    /// What follows on this; and whether entries are seen otherwise then.
    pub(super) fn followed_by(&self, terms: Terms) -> (Self, bool) {
        let shows_otherwise = terms.show_otherwise(&self.terms);
        let before = Some((self.terms.gate.clone(), Instant::now()));
        (Self { before, ..Self::new(terms) }, shows_otherwise)
    }

    /// Whether it is not certain that `name` means one entry and is its only name. For a while what it meant before counts
    /// too: a request that is answered now may have been served on those terms.
    pub(super) fn is_ambiguous(&self, name: &OsStr) -> bool {
        /// No request takes longer but where the source hangs.
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

/// Whether `name` may stand for another entry, or none, through one gate than through the other.
fn means_otherwise(one: &Gate, other: &Gate, name: &OsStr) -> bool {
    let entry = |gate: &Gate| {
        let admitted = gate.admit(Intent::Address, name).ok()?;
        Some(admitted.as_os_str().to_owned())
    };
    one.is_shortened(name) || other.is_shortened(name) || entry(one) != entry(other)
}

/// The name under which the entry that stands as `stored` was seen through `before`, if the kernel must not keep it through
/// `after`.
pub(super) fn outdated<'n>(before: &Gate, after: &Gate, stored: &'n OsStr) -> Option<Cow<'n, OsStr>> {
    let seen = before.show(stored)?.name;
    (after.has_other_spellings(&seen) || means_otherwise(before, after, &seen)).then_some(seen)
}
