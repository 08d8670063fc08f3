//! The mount options of `-o`, in the style of mount(8).
//!
//! An option is a setting of the [`TABLE`] with `_` for `-`, one of its words, or one that is for somebody else and is ignored.
//! A comma ends an option: a value that holds one stands between quotation marks, and `:` separates profiles.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use namegate_core::name::display::display;
use namegate_core::policy::UnknownWord;
use namegate_core::policy::profile;

use super::{MountSettings, Setting, SettingKind, SettingPlace, TABLE};

/// Options that belong to fstab(5) and mount(8), or ask for what is so anyway: the kernel shows `relatime` of every FUSE mount,
/// and permissions are always checked.
const IGNORED: &[&str] = &[
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
    "nostrictatime",
    "diratime",
    "nolazytime",
    "async",
    "default_permissions",
];

/// The beginnings of other options that are ignored.
const IGNORED_PREFIXES: &[&str] = &["x-", "X-", "comment=", "user=", "uhelper=", "helper="];

/// What the kernel takes for FUSE and does not carry out, which is worse than an error. (FUSE marks each inode with S_NOATIME:
/// fs/fuse/inode.c.)
const WITHOUT_EFFECT: &[&str] = &["sync", "dirsync", "norelatime", "strictatime", "nodiratime", "lazytime"];

/// Options that are known from other file systems, each group with the reason why it is none here. Sources: mount.fuse3(8),
/// mergerfs(1), mount(8), mount.ntfs-3g(8).
const OF_OTHERS: &[(&[&str], &str)] = &[
    (&["nonempty"], "it is not needed, because a directory with entries in it can be mounted on"),
    (
        &["auto_unmount"],
        "a mount whose server died stays, so that nobody writes below it; `survive` starts another server",
    ),
    (&["allow_root"], "use `allow_other`: permissions of files are checked for every user"),
    (
        &[
            "big_writes",
            "large_read",
            "max_read",
            "max_write",
            "max_readahead",
            "max_background",
            "congestion_threshold",
            "async_read",
            "sync_read",
            "splice_read",
            "splice_write",
            "splice_move",
            "iosize",
        ],
        "it is not needed, because namegate and the kernel agree on the largest sizes that both support",
    ),
    (
        &["kernel_cache", "auto_cache", "noauto_cache", "ac_attr_timeout", "direct_io", "writeback_cache"],
        "it is not needed, because namegate decides itself which contents the kernel may cache",
    ),
    (
        &[
            "use_ino",
            "readdir_ino",
            "inodecalc",
            "hard_remove",
            "noforget",
            "remember",
            "intr",
            "intr_signal",
        ],
        "it is not needed: numbers of inodes are those of the source, removed files can be used as long as they are open, and \
         calls can be interrupted",
    ),
    (
        &["umask", "fmask", "dmask", "uid", "gid", "permissions"],
        "owners and permissions are those of the source; `idmap` allows mounts with other owners",
    ),
    (
        &["acl", "posix_acl", "noacl", "user_xattr", "nouser_xattr", "xattr", "inode64", "iversion"],
        "it is not needed, because namegate passes on what the file system of the source has",
    ),
    (
        &["iocharset", "nls", "utf8", "codepage", "modules", "from_code", "to_code"],
        "names are not converted on their way; `namegate fix` renames what is in another encoding",
    ),
    (
        &["context", "fscontext", "defcontext", "rootcontext"],
        "SELinux labels all files of the mount as FUSE: allow services to use it, as in `setsebool -P samba_share_fusefs on`",
    ),
    (&["subtype", "blkdev", "blksize", "fd", "rootmode", "user_id", "group_id"], "namegate sets it itself"),
];

/// What the kernel shows of a FUSE mount, besides.
const SHOWN_BY_KERNEL: &[&str] = &["user_id", "group_id", "max_read", "blksize", "rootmode"];

/// What becomes of an unknown option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// It is an error.
    Strict,
    /// It is ignored (mount(8), `-s`).
    Sloppy,
    /// It is an error, unless the kernel shows it in the mount table: mount(8) hands on the options that a mount has.
    Remount,
}

/// What the options say.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    pub settings: MountSettings,
    /// The options begin with those of the mount table, and so are all that the mount is to have.
    pub is_whole: bool,
}

/// Whether one of the lists asks for a mount to be changed.
pub fn asks_for_remount(lists: &[OsString]) -> bool {
    lists.iter().filter_map(|list| split(list).ok()).flatten().any(|word| word == "remount")
}

impl MountOptions {
    /// Reads lists, one for each `-o`; of options that conflict the last one wins.
    ///
    /// # Errors
    /// A sentence that names the option.
    pub fn parse(lists: &[OsString], strictness: Strictness) -> Result<Self, String> {
        let mut options = Self::default();
        for list in lists {
            let words = split(list)?;
            for (at, word) in words.iter().enumerate() {
                options.add(word, strictness).map_err(|why| {
                    let before = at.checked_sub(1).map(|before| words[before].as_bytes());
                    match before.is_some_and(|before| before.starts_with(b"profile=")) && is_profile(word) {
                        true => format!(
                            "{why}; a comma ends an option, so `:` separates profiles: profile=NAME:NAME"
                        ),
                        false => why,
                    }
                })?;
            }
        }
        Ok(options)
    }

    fn add(&mut self, word: &OsStr, strictness: Strictness) -> Result<(), String> {
        let shown = display(word.as_bytes());
        let mut parts = word.as_bytes().splitn(2, |&byte| byte == b'=');
        let key = String::from_utf8_lossy(parts.next().unwrap_or_default()).replace('_', "-");
        let value = parts.next().map(OsStr::from_bytes);
        let is_ignored = |&prefix: &&str| word.as_bytes().starts_with(prefix.as_bytes());
        if IGNORED_PREFIXES.iter().any(is_ignored) || IGNORED.iter().any(|&ignored| word == ignored) {
            return Ok(());
        }
        match find(&key) {
            Some((_, Some(_))) if value.is_some() => {
                Err(format!("mount option `{shown}`: it takes no value"))
            }
            Some((setting, meaning)) if setting.may_stand(SettingPlace::MountOption) => {
                let meant = meaning
                    .or(matches!(setting.kind, SettingKind::Flag).then_some(true))
                    .map(|flag| flag.to_string());
                let value = value.or(meant.as_deref().or(setting.alone).map(OsStr::new));
                let value = value.ok_or_else(|| format!("mount option `{shown}`: a value is required"))?;
                self.settings.set(setting, value).map_err(|why| format!("mount option `{shown}`: {why}"))
            }
            Some((setting, _)) => {
                let why = if setting.elsewhere.is_empty() { "it is an argument" } else { setting.elsewhere };
                Err(format!("`{shown}` is not a mount option: {why}"))
            }
            None => self.add_other(word, strictness),
        }
    }

    fn add_other(&mut self, word: &OsStr, strictness: Strictness) -> Result<(), String> {
        let text = word.to_string_lossy();
        let key = text.split('=').next().unwrap_or_default();
        match key {
            "remount" if strictness == Strictness::Remount => Ok(()),
            "remount" => Err("remounting is done by mount(8): mount -o remount,ro MOUNTPOINT".into()),
            _ if WITHOUT_EFFECT.contains(&key) => Err(format!(
                "mount option `{key}`: it has no effect on FUSE, and takes effect where the file system of the source is \
                 mounted with it"
            )),
            _ if strictness == Strictness::Remount && SHOWN_BY_KERNEL.contains(&key) => {
                self.is_whole = true;
                Ok(())
            }
            _ if strictness == Strictness::Sloppy => Ok(()),
            _ => {
                if let Some((_, why)) = OF_OTHERS.iter().find(|(keys, _)| keys.contains(&key)) {
                    return Err(format!("mount option `{key}` is of other file systems: {why}"));
                }
                let known = names();
                let known = known.iter().map(String::as_str).chain(IGNORED.iter().copied());
                Err(UnknownWord::new("mount option", &key.replace('-', "_"), known).to_string())
            }
        }
    }
}

/// The setting of that name, or of that word and what the word means.
fn find(key: &str) -> Option<(&'static Setting, Option<bool>)> {
    let by_word = |setting: &'static Setting| {
        let (_, meaning) = setting.words.iter().find(|(word, _)| *word == key)?;
        Some((setting, Some(*meaning)))
    };
    let by_name = TABLE.iter().find(|setting| setting.name == key).map(|setting| (setting, None));
    by_name.or_else(|| TABLE.iter().find_map(by_word))
}

/// All names and words that `-o` knows.
pub(super) fn names() -> Vec<String> {
    TABLE
        .iter()
        .filter(|setting| setting.may_stand(SettingPlace::MountOption))
        .flat_map(Setting::mount_options)
        .collect()
}

fn is_profile(word: &OsStr) -> bool {
    word.to_str().is_some_and(|word| profile::by_name(word).is_ok())
}

/// The options between the commas. Quotation marks keep a comma in a value from ending it, and are removed.
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
