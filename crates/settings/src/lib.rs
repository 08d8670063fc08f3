//! All settings of a mount, in one [`TABLE`]. Everything that names settings is made from it: the command line, the mount options
//! of `-o`, mount configurations (TOML) with their JSON Schema, manual pages, the tables in `docs/CONFIG.md`, and what a
//! reload reports as changed.
//!
//! # Adding a setting
//! 1. Add one entry to `table.rs`: help, field, type, default, and a row with the name, the key in a file, the places where it
//!    may stand, and `is_live` if a reload changes it. A new type of values implements `SettingValue` in `value.rs`; a setting with a
//!    few values implements [`Choices`] in `choices.rs`.
//! 2. Write the code that obeys it: it reads `settings.NAME()` with the default, or `settings.NAME` where there is none.
//!    `src/service/mount_config.rs` hands values on.
//! 3. `NAMEGATE_UPDATE=1 cargo test --test cli config` writes `docs/CONFIG.md` and `schema/config.schema.json` anew.

mod choices;
mod difference;
mod docs;
mod file;
mod mount_options;
mod policy;
mod schema;
mod table;
mod value;

use std::ffi::{OsStr, OsString};
use std::fmt;

use nix::mount::MsFlags;

pub use choices::{CacheMode, Choices, LockKeeping, NamedValue, Transport};
pub use docs::{manual, markdown};
pub use file::{MountFile, is_mount_file};
pub use mount_options::{MountOptions, Strictness, asks_for_remount};
pub use policy::{ConfigFile, config_path, read};
pub use schema::schema;
pub use table::{MountSettings, TABLE};
pub use value::SettingKind;

/// Where a setting can stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingPlace {
    /// An argument of `namegate mount`, by its position. mount(8) gives these too.
    Argument,
    /// A long option of `namegate mount`.
    CommandLine,
    /// A long option of every command.
    ProgramOption,
    /// An option of `-o`, as mount(8) and fstab(5) give it.
    MountOption,
    /// A key in a mount configuration.
    File,
    /// An option of `mount -o remount`.
    Remount,
}

/// A setting: what it is called and looks like, and where it can stand.
pub struct Setting {
    /// The long option; `-o` writes `_` for `-`.
    pub name: &'static str,
    /// Table and key in a mount configuration; the top table has no name.
    pub key: (&'static str, &'static str),
    /// One line of help, which says the unit and what is special.
    pub help: &'static str,
    /// What stands for a value in help.
    pub value_name: &'static str,
    /// What stands behind a value that is shown.
    pub unit: &'static str,
    /// What values look like.
    pub kind: SettingKind,
    /// The smallest number.
    pub minimum: f64,
    /// What happens without a value, where that is no value.
    pub default_text: &'static str,
    /// Where it can stand.
    pub places: &'static [SettingPlace],
    /// Why it cannot stand elsewhere.
    pub elsewhere: &'static str,
    /// Words of mount(8) for it, which are long options too, and what they mean.
    pub words: &'static [(&'static str, bool)],
    /// The word of a choice that the name alone means.
    pub alone: Option<&'static str>,
    /// The flag of the kernel, and the value that sets it.
    pub kernel_flag: Option<(MsFlags, bool)>,
    /// A reload changes it; anything else changes with the next mount.
    pub is_live: bool,
    /// It chooses the policy, and is an option of all commands that check names.
    pub is_policy: bool,
    default: fn() -> Option<OsString>,
    get: fn(&MountSettings) -> Option<OsString>,
    set: fn(&mut MountSettings, &OsStr, f64) -> Result<(), Option<String>>,
}

impl Setting {
    /// What most rows have in common.
    const BASE: Self = Self {
        name: "",
        key: ("", ""),
        help: "",
        value_name: "",
        unit: "",
        kind: SettingKind::Flag,
        minimum: 0.0,
        default_text: "",
        places: &[],
        elsewhere: "",
        words: &[],
        alone: None,
        kernel_flag: None,
        is_live: false,
        is_policy: false,
        default: || None,
        get: |_| None,
        set: |_, _, _| Ok(()),
    };

    /// Whether it can stand there.
    pub fn may_stand(&self, place: SettingPlace) -> bool {
        self.places.contains(&place)
    }

    /// The name and the words of it in `-o`.
    pub fn mount_options(&self) -> Vec<String> {
        let words = self.words.iter().map(|(word, _)| *word);
        std::iter::once(self.name).chain(words).map(|name| name.replace('-', "_")).collect()
    }

    /// The option or argument of the command line.
    pub fn usage(&self) -> String {
        match self.kind {
            _ if self.may_stand(SettingPlace::Argument) => self.value_name.into(),
            SettingKind::Flag => format!("--{}[=BOOL]", self.name),
            _ if self.alone.is_some() => format!("--{}[={}]", self.name, self.value_name),
            _ => format!("--{} {}", self.name, self.value_name),
        }
    }

    /// The text of the default; `None` if it has no value.
    pub fn default(&self) -> Option<OsString> {
        (self.default)()
    }

    /// The default for people.
    pub fn shown_default(&self) -> String {
        match self.default() {
            Some(text) => text.to_string_lossy().into_owned(),
            None if self.default_text.is_empty() => "none".into(),
            None => self.default_text.into(),
        }
    }

    /// What a value has to be, to go on "must be".
    pub fn expected(&self) -> String {
        self.kind.expected(self.minimum)
    }
}

impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Setting({})", self.name)
    }
}

#[cfg(test)]
mod tests;
