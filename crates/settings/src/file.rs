//! A mount configuration: source, mount point, policy and settings of one mount, as a file (TOML). `docs/CONFIG.md` describes it for
//! its writers, a [JSON Schema](super::schema()) for programs.
//!
//! Reads text and opens no file. The table `[policy]` is a [policy file](namegate_core::policy::config), read by the same code; the keys of
//! the other tables are those of [`TABLE`]. All errors of a file are found at once, each with its line and column.
//!
//! ```
//! use namegate_core::gate::Mode;
//! use namegate_settings::MountFile;
//! let text = "source = \"/srv/share\"\nmountpoint = \"/mnt/share\"\n\
//!             policy.profiles = [\"windows\"]\nmount.mode = \"permissive\"\n";
//! let file = MountFile::parse(text)?;
//! assert_eq!(file.settings.mode, Some(Mode::Permissive));
//! assert_eq!(file.policy.unwrap().profiles()[0].name, "windows");
//! # Ok::<(), namegate_core::policy::config::ConfigErrors>(())
//! ```

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;

use namegate_core::name::display::display;
use namegate_core::policy::config::reader::{self, TableReader};
use namegate_core::policy::config::{Config, ConfigError, ConfigErrors, read_policy};
use namegate_core::policy::profile::UTF8;
use toml::Value;

use super::{MountSettings, Setting, SettingKind, SettingPlace, TABLE};

/// What a mount configuration says; nothing of it has to be said.
#[derive(Clone, Debug, Default)]
pub struct MountFile {
    /// The policy; without one, UTF-8 alone.
    pub policy: Option<Config>,
    pub settings: MountSettings,
}

const POLICY: &str = "policy";
/// The tables beside the policy, in the order in which they are written.
pub(super) const TABLES: [&str; 3] = ["mount", "audit", "metrics"];

/// Whether `text` describes a mount, and not a policy alone.
///
/// ```
/// use namegate_settings::is_mount_file;
/// assert!(is_mount_file("mount = { mode = \"permissive\" }\nprofiles = []"));
/// assert!(!is_mount_file("profiles = [\"strict\"]") && !is_mount_file("]"));
/// ```
pub fn is_mount_file(text: &str) -> bool {
    let mut keys: Vec<&str> = of_table("").map(|setting| setting.key.1).collect();
    keys.extend(TABLES);
    keys.push(POLICY);
    reader::has_key_of(text, &keys)
}

pub(super) fn of_table(table: &str) -> impl Iterator<Item = &'static Setting> {
    TABLE.iter().filter(move |setting| setting.may_stand(SettingPlace::File) && setting.key.0 == table)
}

impl MountFile {
    /// Reads a mount configuration.
    ///
    /// # Errors
    /// All errors of the file, as [`Config::parse`]. What is missing is not among them: see [`MountFile::check`].
    pub fn parse(text: &str) -> Result<Self, ConfigErrors> {
        reader::read(text, read_top)
    }

    /// Checks that the file describes a mount by itself.
    ///
    /// # Errors
    /// Everything that is missing: source, mount point, and parameters that rules of the policy need.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        let missing = of_table("").filter(|setting| self.settings.get(setting).is_none());
        let mut errors: Vec<ConfigError> = missing
            .map(|setting| {
                let message = format!("`{}` is missing: an absolute path", setting.name);
                ConfigError { message, position: None }
            })
            .collect();
        if let Some(Err(error)) = self.policy.as_ref().map(Config::policy) {
            errors.extend(error.errors().iter().cloned());
        }
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors::new(errors, 0)) }
    }

    /// The same with all defaults filled in.
    #[must_use]
    pub fn with_defaults(self) -> Self {
        let mut policy = self.policy.unwrap_or_else(|| Config::based_on(&[&UTF8]));
        policy.profiles = Some(policy.profiles());
        let defaults = MountSettings::defaults(|setting| setting.may_stand(SettingPlace::File));
        Self { policy: Some(policy), settings: defaults.followed_by(&self.settings) }
    }

    /// The text that [`MountFile::parse`] reads back. A path that is not UTF-8, which only a command line can have set, is shown
    /// escaped.
    ///
    /// ```
    /// use namegate_settings::MountFile;
    /// let file = MountFile::parse("audit.rate = 5\nsource = '/srv'\npolicy.profiles = []\n")?;
    /// let text = "source = \"/srv\"\n\n[policy]\nprofiles = []\n\n[audit]\nrate = 5\n";
    /// assert_eq!(file.to_toml(), text);
    /// # Ok::<(), namegate_core::policy::config::ConfigErrors>(())
    /// ```
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        self.push_keys(&mut text, "");
        if let Some(policy) = &self.policy {
            begin_table(&mut text, POLICY);
            policy.write_to(&mut text, "policy.");
        }
        for table in TABLES {
            if of_table(table).any(|setting| self.settings.get(setting).is_some()) {
                begin_table(&mut text, table);
                self.push_keys(&mut text, table);
            }
        }
        text
    }

    fn push_keys(&self, text: &mut String, table: &str) {
        for setting in of_table(table) {
            if let Some(value) = self.settings.get(setting) {
                let _ = writeln!(text, "{} = {}", setting.key.1, to_toml(setting.kind, &value));
            }
        }
    }
}

fn begin_table(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "[{name}]");
}

/// A value as it stands in a file.
pub(super) fn to_toml(kind: SettingKind, value: &OsStr) -> String {
    let text = display(value.as_encoded_bytes()).to_string();
    match kind {
        SettingKind::Flag | SettingKind::Seconds | SettingKind::Count => text,
        _ => Value::String(value.to_str().map_or(text, str::to_owned)).to_string(),
    }
}

pub(super) fn read_top(top: &mut TableReader<'_>) -> MountFile {
    let mut settings = MountSettings::default();
    read_keys(top, "", &mut settings);
    let has_policy = top.key_at(POLICY).is_some();
    let policy = top.table(POLICY, "key", read_policy);
    for table in TABLES {
        top.table(table, "key", |keys| read_keys(keys, table, &mut settings));
    }
    MountFile { policy: has_policy.then_some(policy), settings }
}

fn read_keys(keys: &mut TableReader<'_>, table: &str, settings: &mut MountSettings) {
    for setting in TABLE.iter().filter(|setting| !setting.may_stand(SettingPlace::File)) {
        let Setting { name, elsewhere, .. } = setting;
        keys.refuse(name, || format!("`{name}` is no key of a mount configuration: {elsewhere}"));
    }
    for setting in of_table(table) {
        let Some((text, at)) = read_value(keys, setting) else { continue };
        let key = setting.key.1;
        let set = match setting.kind {
            // A service stands in no directory that the writer could mean.
            SettingKind::Path if !Path::new(&text).is_absolute() || text.as_encoded_bytes().contains(&0) => {
                Err("must be an absolute path: it begins with `/`".into())
            }
            SettingKind::Address if text.to_str().is_some_and(|text| text.parse::<SocketAddr>().is_err()) => {
                Err(format!("must be {}", setting.expected()))
            }
            _ => settings.set(setting, &text).map_err(|_| format!("must be {}", setting.expected())),
        };
        if let Err(why) = set {
            keys.error(at, || format!("`{key}` {why}"));
        }
    }
}

/// The text of a value of the right type, and where the value stands.
fn read_value(keys: &mut TableReader<'_>, setting: &Setting) -> Option<(OsString, Range<usize>)> {
    let key = setting.key.1;
    let at = keys.key_at(key).unwrap_or_default();
    let (text, at) = match setting.kind {
        SettingKind::Flag => (keys.boolean(key)?.to_string(), at),
        SettingKind::Choice { what, words } => {
            let words: Vec<_> = words().into_iter().map(|(word, _)| (word, word)).collect();
            let (word, at) = keys.word(key, what, &words)?;
            (word.to_owned(), at)
        }
        SettingKind::Seconds => {
            let (number, at) = keys.number(key, "a number of seconds")?;
            (number.to_string(), at)
        }
        SettingKind::Count => (keys.positive(key)?.to_string(), at),
        SettingKind::Path | SettingKind::Text | SettingKind::Address | SettingKind::Profiles => {
            let (text, at) = keys.string(key)?;
            (text.to_owned(), at)
        }
    };
    Some((text.into(), at))
}

#[cfg(test)]
mod tests;
