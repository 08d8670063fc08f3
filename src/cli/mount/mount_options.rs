//! The mount options behind `-o`, in the style of mount(8).
//!
//! A word is a flag of the kernel, or one of the [`Settings`] with `_` for `-`, or one that is for somebody else and is
//! passed over. Where a setting takes a list, `:` stands between its parts, because the comma is taken; a value that holds
//! a comma itself stands between quotation marks.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Args, Command, FromArgMatches, ValueEnum};
use nix::mount::MsFlags;

use super::settings::Settings;
use crate::cli::LogFormat;
use crate::name::display::display;
use crate::policy::UnknownWord;
use crate::settings::config::is_fsname;

/// Words that switch a flag of the kernel on or off.
pub(super) const FLAGS: &[(&str, MsFlags, bool)] = &[
    ("ro", MsFlags::MS_RDONLY, true),
    ("rw", MsFlags::MS_RDONLY, false),
    ("noexec", MsFlags::MS_NOEXEC, true),
    ("exec", MsFlags::MS_NOEXEC, false),
    ("nosuid", MsFlags::MS_NOSUID, true),
    ("suid", MsFlags::MS_NOSUID, false),
    ("nodev", MsFlags::MS_NODEV, true),
    ("dev", MsFlags::MS_NODEV, false),
    ("noatime", MsFlags::MS_NOATIME, true),
    ("atime", MsFlags::MS_NOATIME, false),
];

/// Words that belong to fstab(5) and mount(8), or ask for what is so anyway: access times are kept by the source's own
/// file system, and permissions are always checked.
pub(super) const PASSED_OVER: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "owner",
    "group",
    "nofail",
    "_netdev",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "lazytime",
    "nolazytime",
    "async",
    "default_permissions",
];

/// What stands before the rest of such a word.
const PASSED_OVER_BEFORE: &[&str] = &["x-", "X-", "comment=", "user=", "uhelper=", "helper="];

/// What the kernel shows of a FUSE mount, besides.
const OF_THE_KERNEL: &[&str] = &["user_id", "group_id", "max_read", "blksize", "rootmode"];

/// The words that are neither.
pub(super) const OTHERS: &[&str] = &["allow_other", "fsname", "log_format", "verbose"];

/// What becomes of a word that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strictness {
    /// It is a mistake.
    Strict,
    /// It is passed over (mount(8), `-s`).
    Sloppy,
    /// It is a mistake, unless the kernel shows it in the mount table: mount(8) hands the options on that a mount has.
    Remount,
}

/// What the words say.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    /// Flags that are switched on or off, in the order in which they come.
    flags: Vec<(MsFlags, bool)>,
    pub(super) allow_other: bool,
    pub(super) fsname: Option<String>,
    pub(super) verbose: bool,
    pub(super) log_format: Option<LogFormat>,
    pub(super) settings: Settings,
    /// The words that are settings, or `fsname`.
    pub(super) set: Vec<String>,
    /// Whether they begin with those that the mount table shows, and so are all that the mount is to have.
    pub(super) is_whole: bool,
}

/// The names of all settings, as words.
pub(super) fn settings() -> Vec<String> {
    let command = definitions();
    command.get_arguments().filter_map(|arg| Some(arg.get_long()?.replace('-', "_"))).collect()
}

fn definitions() -> Command {
    Settings::augment_args(Command::new("mount options").no_binary_name(true).disable_help_flag(true))
}

/// Whether one of the lists asks for a mount to be changed.
pub(super) fn ask_to_remount(lists: &[OsString]) -> bool {
    lists.iter().filter_map(|list| split(list).ok()).flatten().any(|word| word == "remount")
}

impl Words {
    /// The flags that come of `flags`.
    pub(super) fn flags(&self, mut flags: MsFlags) -> MsFlags {
        self.flags.iter().for_each(|(flag, is_on)| flags.set(*flag, *is_on));
        flags
    }

    /// Adds the words of `list`; of two that contradict each other the later one holds.
    ///
    /// # Errors
    /// A sentence that names the word.
    pub(super) fn add(self, list: &OsStr, strictness: Strictness) -> Result<Self, String> {
        split(list)?.iter().try_fold(self, |words, word| words.add_one(word, strictness))
    }

    fn add_one(mut self, word: &OsStr, strictness: Strictness) -> Result<Self, String> {
        let shown = display(word.as_bytes());
        let mut parts = word.as_bytes().splitn(2, |&byte| byte == b'=');
        let key = parts.next().unwrap_or_default();
        let value = parts.next().map(OsStr::from_bytes);
        let key = String::from_utf8_lossy(key).replace('-', "_");
        if let (Some((_, flag, is_on)), None) = (FLAGS.iter().find(|(name, ..)| *name == key), value) {
            self.flags.push((*flag, *is_on));
            return Ok(self);
        }
        let is_for_others =
            PASSED_OVER_BEFORE.iter().any(|begin| word.as_bytes().starts_with(begin.as_bytes()));
        if is_for_others || (value.is_none() && PASSED_OVER.contains(&key.as_str())) {
            return Ok(self);
        }
        match (key.as_str(), value) {
            ("allow_other", None) => self.allow_other = true,
            ("verbose", None) => self.verbose = true,
            ("log_format", value) => {
                let known = value.and_then(OsStr::to_str).map(|value| LogFormat::from_str(value, false));
                let format = known.and_then(Result::ok);
                self.log_format = Some(format.ok_or("mount option `log_format`: text, json or journal")?);
            }
            ("fsname", Some(name)) => {
                let name = name.to_str().filter(|name| is_fsname(name));
                self.fsname = Some(name.ok_or(format!("mount option `{shown}`: not a name to show"))?.into());
                self.set.push(key);
            }
            ("fsname", None) => return Err("mount option `fsname` needs a name: fsname=NAME".into()),
            ("remount", None) if strictness == Strictness::Remount => {}
            ("remount", None) => {
                return Err("remounting is done by mount(8): mount -o remount,ro MOUNTPOINT".into());
            }
            ("sync" | "dirsync", None) => {
                // The kernel takes them for FUSE and does nothing: worse than to be told.
                return Err(format!(
                    "mount option `{key}`: it has no effect on FUSE, and takes effect where the file system of the source \
                     is mounted with it"
                ));
            }
            _ if settings().contains(&key) => {
                let setting = setting(&key, value).map_err(|why| format!("mount option `{shown}`: {why}"))?;
                self.settings = setting.or(self.settings);
                self.set.push(key);
            }
            (key, Some(_)) if strictness == Strictness::Remount && OF_THE_KERNEL.contains(&key) => {
                self.is_whole = true;
            }
            _ if strictness == Strictness::Sloppy => {}
            _ => {
                let settings = settings();
                let known = FLAGS.iter().map(|(name, ..)| *name).chain(PASSED_OVER.iter().copied());
                let known = known.chain(OTHERS.iter().copied()).chain(settings.iter().map(String::as_str));
                return Err(UnknownWord::new("mount option", &key, known).to_string());
            }
        }
        Ok(self)
    }
}

/// One of the settings, by its own definition.
fn setting(key: &str, value: Option<&OsStr>) -> Result<Settings, String> {
    let mut option = OsString::from(format!("--{}", key.replace('_', "-")));
    if let Some(value) = value {
        option.push("=");
        match key {
            "profile" => option.push(String::from_utf8_lossy(value.as_bytes()).replace(':', ",")),
            _ => option.push(value),
        }
    }
    let matches =
        definitions().try_get_matches_from([option]).and_then(|matches| Settings::from_arg_matches(&matches));
    matches.map_err(|error| {
        let text = error.to_string();
        // The first paragraph says what is wrong, the others how the command line is used.
        let said = text.strip_prefix("error: ").unwrap_or(&text).split("\n\n").next().unwrap_or_default();
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

/// The words between the commas. Quotation marks keep a comma in a value from ending it, and go.
fn split(list: &OsStr) -> Result<Vec<OsString>, String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), Vec::new(), false);
    for &byte in list.as_bytes() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => words.push(std::mem::take(&mut word)),
            _ => word.push(byte),
        }
    }
    if is_quoted {
        return Err("mount options: a quotation mark is not closed".into());
    }
    words.push(word);
    Ok(words.into_iter().filter(|word| !word.is_empty()).map(OsString::from_vec).collect())
}

#[cfg(test)]
mod tests;
