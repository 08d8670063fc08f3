//! What settings amount to, and what other settings change.

use nix::mount::MsFlags;

use super::{MountSettings, Setting, TABLE};
use crate::name::display::display;

impl MountSettings {
    /// The defaults of the settings that `is_meant` chooses.
    pub(super) fn defaults(is_meant: impl Fn(&Setting) -> bool) -> Self {
        let mut defaults = Self::default();
        for setting in TABLE.iter().filter(|setting| is_meant(setting)) {
            if let Some(text) = setting.default() {
                let set = defaults.set(setting, &text);
                debug_assert!(set.is_ok(), "{} reads its own default", setting.name);
            }
        }
        defaults
    }

    /// The flags of the kernel that the settings ask for, of a mount that has `flags` where nothing is said.
    pub fn kernel_flags(&self, mut flags: MsFlags) -> MsFlags {
        for setting in TABLE {
            if let (Some((flag, setter)), Some(value)) = (setting.kernel_flag, self.get(setting)) {
                flags.set(flag, (value == "true") == setter);
            }
        }
        flags
    }

    /// The value that is in effect, for people.
    pub fn shown(&self, setting: &Setting) -> String {
        match self.get(setting) {
            Some(text) if setting.unit.is_empty() => display(text.as_encoded_bytes()).to_string(),
            Some(text) => format!("{} {}", display(text.as_encoded_bytes()), setting.unit),
            None if setting.default().is_none() => setting.shown_default(),
            None => [setting.shown_default().as_str(), setting.unit].join(" ").trim_end().to_owned(),
        }
    }

    /// What `after` changes, one line for each setting: of those that a reload changes (`is_live`), or of the others. The policy is
    /// compared by whoever has read it.
    pub fn differences(&self, after: &Self, is_live: bool) -> Vec<String> {
        let compared = TABLE.iter().filter(|setting| setting.is_live == is_live && !setting.is_policy);
        let changed = compared.filter_map(|setting| {
            let (before, after) = (self.shown(setting), after.shown(setting));
            (before != after).then(|| format!("{}: {after} (was {before})", setting.name))
        });
        changed.collect()
    }
}
