//! What settings amount to, and what other settings change.

use nix::mount::MsFlags;
use serde_json::{Map, Value};

use super::{MountSettings, Setting, SettingKind, TABLE};
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

    /// The values that are in effect in a mount that was made with the settings `mounted`, and has had these since its last reload:
    /// of settings that stand in a table of a mount configuration, by name, as JSON. A setting without a value is `null`; bytes
    /// that are not UTF-8 are escaped.
    pub fn values_in_effect(&self, mounted: &Self) -> Map<String, Value> {
        let of_file = TABLE.iter().filter(|setting| !setting.key.0.is_empty());
        let values = of_file.map(|setting| {
            let text = if setting.is_live { self.get(setting) } else { mounted.get(setting) };
            let text = text.or_else(|| setting.default());
            let text = text.map(|text| display(text.as_encoded_bytes()).to_string());
            let value = match (text, setting.kind) {
                (None, _) => Value::Null,
                (Some(text), SettingKind::Flag | SettingKind::Seconds | SettingKind::Count) => {
                    text.parse().unwrap_or_default()
                }
                (Some(text), _) => Value::String(text),
            };
            (setting.name.to_owned(), value)
        });
        values.collect()
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
