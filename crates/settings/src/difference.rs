//! What settings amount to, and what other settings change.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use namegate_core::name::display::display;
use nix::mount::MsFlags;
use serde_json::{Map, Value};

use super::{MountSettings, Setting, SettingKind, TABLE};

/// Whether a mount keeps the setting even if another server goes on with it.
fn is_of_mount(setting: &Setting) -> bool {
    // Each server confines itself.
    let is_of_server = setting.is_live || setting.name == "sandbox";
    matches!(setting.key, ("", "source" | "mountpoint") | ("mount", _)) && !is_of_server
}

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

    /// The settings that a mount keeps, for [`MountSettings::of_mount`].
    pub fn record(&self) -> OsString {
        let mut record = OsString::new();
        for setting in TABLE.iter().filter(|setting| is_of_mount(setting)) {
            if let Some(text) = self.get(setting) {
                for part in [OsStr::new(setting.name), OsStr::new("="), &text, OsStr::new("\0")] {
                    record.push(part);
                }
            }
        }
        record
    }

    /// The settings of a mount that was made with those in `record`, for a server that was started with these.
    pub fn of_mount(&self, record: &OsStr) -> Self {
        let mut settings = Self::default();
        // A value that this version does not know is that of no setting that it shows.
        let mut set = |setting: &Setting, text: &OsStr| drop(settings.set(setting, text));
        for setting in TABLE.iter().filter(|setting| !is_of_mount(setting)) {
            if let Some(text) = self.get(setting) {
                set(setting, &text);
            }
        }
        for entry in record.as_bytes().split(|&byte| byte == 0) {
            let Some(end) = entry.iter().position(|&byte| byte == b'=') else { continue };
            let name = std::str::from_utf8(&entry[..end]).unwrap_or_default();
            if let Some(setting) = Setting::by_name(name).filter(|setting| is_of_mount(setting)) {
                set(setting, OsStr::from_bytes(&entry[end + 1..]));
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_keeps_its_settings_and_a_new_server_has_its_own() {
        let set = |pairs: &[(&str, &str)]| {
            let mut settings = MountSettings::default();
            for (name, text) in pairs {
                settings.set(Setting::by_name(name).unwrap(), OsStr::new(text)).unwrap();
            }
            settings
        };
        let mounted =
            set(&[("source", "/a=b"), ("export", "true"), ("mode", "permissive"), ("audit", "/old")]);
        let now = set(&[("source", "/new"), ("noatime", "true"), ("mode", "enforcing"), ("audit", "/new")]);
        let kept = now.of_mount(&mounted.record());
        let expected =
            set(&[("source", "/a=b"), ("export", "true"), ("mode", "enforcing"), ("audit", "/new")]);
        let all =
            |settings: &MountSettings| TABLE.iter().map(|setting| settings.get(setting)).collect::<Vec<_>>();
        assert_eq!(all(&kept), all(&expected));
        let names = |lines: Vec<String>| {
            lines.iter().map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(kept.differences(&now, false)), ["source", "noatime", "export"]);
        for damaged in ["", "source", "=", "nonsense=1\0export=perhaps\0mode=permissive"] {
            let kept = now.of_mount(OsStr::new(damaged));
            assert_eq!(all(&kept), all(&set(&[("mode", "enforcing"), ("audit", "/new")])), "{damaged}");
        }
    }
}
