//! The settings that may change while a tree is mounted.
//!
//! A request uses the configuration that is active when it arrives, from start to end: the configuration is loaded once per
//! request. A reload exchanges one pointer, so no request waits for it or sees half of a change.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_core::gate::{Gate, Intent};
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
        let gate = gate.with_substitutes(settings.substitutes()).with_ignore_case(settings.ignore_case());
        // A permissive gate shows names as they are.
        let existing = Some(gate.existing());
        Self { gate, settings: MountSettings { existing, ..settings } }
    }

    /// Whether an entry may be shown or found under other names than with the configuration `other`.
    pub(super) fn show_otherwise(&self, other: &Self) -> bool {
        let (gate, other) = (&self.gate, &other.gate);
        gate.existing() != other.existing()
            || gate.equivalence() != other.equivalence()
            || !gate.encodes_like(other)
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

    /// Whether the name `name` of a client may have other spellings, which mean the same entry.
    pub(super) fn is_ambiguous(&self, name: &OsStr) -> bool {
        let gate = &self.serve.gate;
        self.equivalence.is_some() && gate.has_other_spellings_bytes(&gate.encoded_bytes(name.as_bytes()))
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
    let encoded = after.encoded_bytes(seen.as_bytes());
    (after.has_other_spellings_bytes(&encoded) || means_otherwise(before, after, &seen)).then_some(seen)
}

#[cfg(test)]
mod tests {
    use namegate_core::gate::Mode;
    use namegate_core::name::substitutes::KnownMap;
    use namegate_core::policy::{Policy, profile};

    use super::*;

    const RCLONE: KnownMap = KnownMap::TO_RCLONE;
    const CATIA: KnownMap = KnownMap::TO_CATIA;

    fn config(mode: Mode, profile: &str, substitutes: KnownMap) -> ServeConfig {
        let (mode, substitutes) = (Some(mode), Some(substitutes));
        let settings = MountSettings { mode, substitutes, ..MountSettings::default() };
        let policy = Policy::from_profiles(&[profile::by_name(profile).unwrap()]);
        ServeConfig::new(Gate::new(Arc::new(policy), Mode::Enforcing), settings)
    }

    #[test]
    fn what_is_encoded_changes_names_only_of_a_gate_that_encodes() {
        let before = config(Mode::Encoding, "windows", RCLONE);
        assert!(!before.show_otherwise(&config(Mode::Encoding, "windows", RCLONE)));
        assert!(
            !before.show_otherwise(&config(Mode::Encoding, "smb", RCLONE)),
            "another policy for the same characters"
        );
        assert!(before.show_otherwise(&config(Mode::Encoding, "windows", CATIA)), "other substitutes");
        assert!(before.show_otherwise(&config(Mode::Encoding, "utf8", RCLONE)), "another policy");
        assert!(before.show_otherwise(&config(Mode::Enforcing, "windows", RCLONE)), "another mode");
        let before = config(Mode::Enforcing, "windows", RCLONE);
        assert!(!before.show_otherwise(&config(Mode::Enforcing, "utf8", CATIA)));
    }

    #[test]
    fn a_name_that_means_another_entry_is_forgotten() {
        let [plain, encoding] =
            [Mode::Enforcing, Mode::Encoding].map(|mode| config(mode, "windows", RCLONE).gate);
        let outdated = |before, after, stored: &'static str| outdated(before, after, OsStr::new(stored));
        assert_eq!(outdated(&plain, &encoding, "a：b").as_deref(), Some(OsStr::new("a：b")));
        assert_eq!(outdated(&encoding, &plain, "a：b").as_deref(), Some(OsStr::new("a:b")));
        assert_eq!(outdated(&plain, &encoding, "a:b").as_deref(), Some(OsStr::new("a:b")));
        assert_eq!(outdated(&encoding, &plain, "a:b").as_deref(), Some(OsStr::new("a␦3Ab")));
        assert_eq!(outdated(&encoding, &encoding, "a：b"), None);
        assert_eq!(outdated(&plain, &encoding, "plain"), None);
    }
}
