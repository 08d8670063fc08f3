//! The settings that may change while a tree is mounted.
//!
//! A request uses the configuration that is active when it arrives, from start to end: the configuration is loaded once per
//! request. A reload exchanges one pointer, so no request waits for it or sees half of a change.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::sync::Arc;

use namegate_core::gate::{Gate, Intent, Mode};
use namegate_settings::MountSettings;

use super::timeouts::Timeouts;
use crate::passthrough::NameEquivalence;

/// How requests are served.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// The gate that checks names.
    pub gate: Gate,
    /// The settings in effect, as far as a reload can change them.
    pub settings: MountSettings,
}

impl ServeConfig {
    /// Serves the names that `gate` allows, by `settings`.
    pub fn new(gate: Gate, settings: MountSettings) -> Self {
        let gate = gate.with_mode(settings.mode()).with_existing(settings.existing());
        let gate = gate.with_substitutes(settings.substitutes());
        // A permissive gate shows names as they are.
        let existing = Some(gate.existing());
        Self { gate, settings: MountSettings { existing, ..settings } }
    }

    /// Whether an entry may be shown or found under other names than with the configuration `other`.
    pub(super) fn show_otherwise(&self, other: &Self) -> bool {
        self.gate.existing() != other.gate.existing() || self.spellings() != other.spellings()
    }

    /// What decides under which names an entry is found. The repair of a name depends on all rules.
    fn spellings(&self) -> impl PartialEq + '_ {
        let (gate, policy) = (&self.gate, self.gate.policy());
        let repairs = (gate.mode() == Mode::Repairing).then(|| (policy.rules(), gate.substitutes()));
        (policy.normalization(), repairs)
    }
}

/// The active configuration, with values derived from it.
#[derive(Debug)]
pub(super) struct ActiveConfig {
    pub(super) serve: ServeConfig,
    /// Set if an entry can have more than one name in its directory.
    pub(super) equivalence: Option<Arc<dyn NameEquivalence>>,
}

impl ActiveConfig {
    pub(super) fn new(serve: ServeConfig) -> Self {
        let gate = &serve.gate;
        let equivalence = gate.knows_spellings().then(|| Arc::new(gate.clone()) as Arc<dyn NameEquivalence>);
        Self { serve, equivalence }
    }

    /// Whether `name` may have other spellings, which mean the same entry.
    pub(super) fn is_ambiguous(&self, name: &OsStr) -> bool {
        self.serve.gate.has_other_spellings(name)
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        let settings = &self.serve.settings;
        Timeouts { entry: settings.entry_timeout(), attr: settings.attr_timeout() }
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

#[cfg(test)]
mod tests {
    use namegate_core::name::substitutes::KnownMap;
    use namegate_core::policy::{Policy, profile};

    use super::*;

    const RCLONE: KnownMap = KnownMap::TO_RCLONE;
    const CATIA: KnownMap = KnownMap::TO_CATIA;

    fn config(mode: Mode, profile: &str, substitutes: KnownMap) -> ServeConfig {
        let (mode, substitutes) = (Some(mode), Some(Some(substitutes)));
        let settings = MountSettings { mode, substitutes, ..MountSettings::default() };
        let policy = Policy::from_profiles(&[profile::by_name(profile).unwrap()]);
        ServeConfig::new(Gate::new(Arc::new(policy), Mode::Enforcing), settings)
    }

    #[test]
    fn what_repairs_depend_on_changes_names_only_of_a_gate_that_repairs() {
        let before = config(Mode::Repairing, "windows", RCLONE);
        assert!(!before.show_otherwise(&config(Mode::Repairing, "windows", RCLONE)));
        assert!(before.show_otherwise(&config(Mode::Repairing, "windows", CATIA)), "other substitutes");
        assert!(before.show_otherwise(&config(Mode::Repairing, "utf8", RCLONE)), "another policy");
        assert!(before.show_otherwise(&config(Mode::Enforcing, "windows", RCLONE)), "another mode");
        let before = config(Mode::Enforcing, "windows", RCLONE);
        assert!(!before.show_otherwise(&config(Mode::Enforcing, "utf8", CATIA)));
    }

    #[test]
    fn a_name_that_gets_a_repair_is_forgotten() {
        // 80 substitutes of three bytes are too long, 80 of two bytes are not.
        let name = "a:".repeat(80);
        let stored = OsStr::new(&name);
        let [three, two] = [RCLONE, CATIA].map(|set| config(Mode::Repairing, "windows", set).gate);
        assert_eq!(outdated(&three, &two, stored).as_deref(), Some(stored));
        assert_eq!(outdated(&three, &three, stored), None);
    }
}
