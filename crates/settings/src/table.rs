//! The table of all settings of a mount.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use namegate_core::gate::{Existing, IgnoreCase, Mode};
use namegate_core::name::normalize::Form;
use namegate_core::name::substitutes::KnownMap;
use namegate_core::policy::OnMismatch;
use namegate_core::policy::profile::Profile;
use namegate_telemetry::audit::{BYTES_PER_SECOND, MIN_BYTES_PER_SECOND, RECORDS_PER_SECOND};
use namegate_telemetry::log::LogFormat;
use namegate_telemetry::metrics::WRITE_INTERVAL;
use nix::errno::Errno;
use nix::mount::MsFlags;

use super::SettingPlace::{Argument, CommandLine, File, MountOption, ProgramOption, Remount};
use super::choices::{CacheMode, LockKeeping, Transport};
use super::value::SettingValue;
use super::{Setting, SettingPlace};

/// Where most settings can stand.
const ALL: &[SettingPlace] = &[CommandLine, MountOption, File];
/// Where flags of the kernel can stand, which change while a mount is in use.
const KERNEL: &[SettingPlace] = &[CommandLine, MountOption, File, Remount];
/// Where settings can stand that choose the file, or change what it says of the policy.
const OPTIONS: &[SettingPlace] = &[CommandLine, MountOption];

/// Makes of each entry a field of [`MountSettings`], a method that fills in the default, and a row of [`TABLE`].
macro_rules! settings {
    ($($help:literal $field:ident: $type:ty $(= $default:expr)?, { $($row:tt)* })*) => {
        /// Values of settings; `None` for one that was not given.
        #[derive(Clone, Debug, Default)]
        pub struct MountSettings {
            $(#[doc = $help] pub $field: Option<$type>,)*
        }

        impl MountSettings {
            $($(
                #[doc = $help]
                pub fn $field(&self) -> $type {
                    self.$field.clone().unwrap_or($default)
                }
            )?)*
        }

        /// All settings of a mount, in the order in which help and documents show them.
        pub static TABLE: &[Setting] = &[$(Setting {
            help: $help,
            kind: <$type as SettingValue>::KIND,
            default: || settings!(@default $type $(, $default)?),
            get: |settings| settings.$field.as_ref().map(SettingValue::to_text),
            set: |settings, text, minimum| {
                let value = <$type>::parse(text)?;
                if value.number() < minimum {
                    return Err(None);
                }
                settings.$field = Some(match settings.$field.take() {
                    Some(before) => before.followed_by(value),
                    None => value,
                });
                Ok(())
            },
            $($row)*
            ..Setting::BASE
        },)*];
    };
    (@default $type:ty) => { None };
    (@default $type:ty, $default:expr) => {{ let value: $type = $default; Some(value.to_text()) }};
}

settings! {
    "Directory to serve"
    source: PathBuf, {
        name: "source", key: ("", "source"), value_name: "SOURCE", places: &[Argument, File],
    }
    "Directory to mount on; if it is the source itself, users see the mount only"
    mountpoint: PathBuf, {
        name: "mountpoint", key: ("", "mountpoint"), value_name: "MOUNTPOINT", places: &[Argument, File],
    }
    "Return as soon as the mount is live and serve in the background; the log goes to the system log"
    daemon: bool = false, {
        name: "daemon", places: &[CommandLine],
        elsewhere: "a mount by mount(8) is always in the background, and one by a service manager is not",
    }

    "Reaction to a new name that breaks the policy"
    mode: Mode = Mode::Enforcing, {
        name: "mode", key: ("mount", "mode"), value_name: "MODE", places: ALL, is_live: true,
    }
    "Substitutes that mode encode stores for characters that the policy refuses"
    substitutes: KnownMap = KnownMap::TO_RCLONE, {
        name: "substitutes", key: ("mount", "substitutes"), value_name: "SET", places: ALL, is_live: true,
    }
    "Ignore the case of names, as Windows and macOS do: an entry keeps its name, and every spelling finds it; with the table of this system"
    ignore_case: Option<IgnoreCase> = None, {
        name: "ignore-case", key: ("mount", "ignore-case"), value_name: "TABLE", places: ALL, is_live: true,
        alone: Some("ntfs"),
    }
    "Appearance of existing names that are not UTF-8; mode permissive always shows them as they are"
    existing: Existing = Existing::Escape, {
        name: "existing", key: ("mount", "existing"), value_name: "HOW", places: ALL, is_live: true,
    }
    "Error code for refused names"
    errno: Option<Errno> = None, {
        name: "errno", key: ("mount", "errno"), value_name: "ERRNO", places: ALL, is_live: true,
    }
    "Also check the targets of new symbolic links, each component like a new name"
    check_targets: bool = false, {
        name: "check-targets", key: ("mount", "check-targets"), places: ALL, is_live: true,
    }
    "How long the kernel caches names and attributes"
    cache: CacheMode = CacheMode::default(), {
        name: "cache", key: ("mount", "cache"), value_name: "HOW", places: ALL,
    }
    "Seconds the kernel may cache names that `cache` does not keep until they change; 0: no name is cached"
    entry_timeout: Duration = Duration::from_secs(1), {
        name: "entry-timeout", key: ("mount", "entry-timeout"), value_name: "SECONDS", unit: "s", places: ALL, is_live: true,
    }
    "Seconds the kernel may cache attributes that `cache` does not keep until they change; 0: none are cached"
    attr_timeout: Duration = Duration::from_secs(1), {
        name: "attr-timeout", key: ("mount", "attr-timeout"), value_name: "SECONDS", unit: "s", places: ALL, is_live: true,
    }
    "Refuse all changes through the mount"
    read_only: bool = false, {
        name: "read-only", key: ("mount", "read-only"), places: KERNEL,
        words: &[("ro", true), ("rw", false)], kernel_flag: Some((MsFlags::MS_RDONLY, true)),
    }
    "Do not allow programs to be executed from the mount"
    noexec: bool = false, {
        name: "noexec", key: ("mount", "noexec"), places: KERNEL,
        words: &[("exec", false)], kernel_flag: Some((MsFlags::MS_NOEXEC, true)),
    }
    "Do not update access times of files that are read through the mount; needs root and Linux 5.12"
    noatime: bool = false, {
        name: "noatime", key: ("mount", "noatime"), places: ALL,
        words: &[("atime", false)], kernel_flag: Some((MsFlags::MS_NOATIME, true)),
    }
    "Honor set-user-ID and set-group-ID bits; for root only"
    suid: bool = false, {
        name: "suid", key: ("mount", "suid"), places: KERNEL,
        words: &[("nosuid", false)], kernel_flag: Some((MsFlags::MS_NOSUID, false)),
    }
    "Honor device files; for root only"
    dev: bool = false, {
        name: "dev", key: ("mount", "dev"), places: KERNEL,
        words: &[("nodev", false)], kernel_flag: Some((MsFlags::MS_NODEV, false)),
    }
    "Give other users access, as permissions allow; a mount by root always does"
    allow_other: bool = false, {
        name: "allow-other", key: ("mount", "allow-other"), places: ALL,
    }
    "Give up privileges that serving does not need, and filter system calls"
    sandbox: bool = true, {
        name: "sandbox", key: ("mount", "sandbox"), places: ALL, words: &[("no-sandbox", false)],
    }
    "Transport of requests between the kernel and the server"
    transport: Transport = Transport::default(), {
        name: "transport", key: ("mount", "transport"), value_name: "TRANSPORT", places: ALL,
    }
    "Let the kernel read and write file contents by itself where it can (FUSE passthrough, Linux 6.9)"
    passthrough: bool = true, {
        name: "passthrough", key: ("mount", "passthrough"), places: ALL, words: &[("no-passthrough", false)],
    }
    "Where locks of files apply (fcntl, flock)"
    locks: LockKeeping = LockKeeping::default(), {
        name: "locks", key: ("mount", "locks"), value_name: "WHERE", places: ALL,
    }
    "Mount only if the source is a mount point, and not the bare directory below a file system that is not mounted"
    require_mount_point: bool = false, {
        name: "require-mount-point", key: ("mount", "require-mount-point"), places: ALL,
    }
    "Mount only if the source has an entry with this name, such as `.share`, which the bare directory below an unmounted file system has not"
    require_marker: String, {
        name: "require-marker", key: ("mount", "require-marker"), value_name: "NAME", default_text: "none", places: ALL,
    }
    "Keep the mount alive when the server dies: a holder starts another server, and clients wait for it; for root only"
    survive: bool = false, {
        name: "survive", key: ("mount", "survive"), places: ALL,
    }
    "Keep the file handles of NFS clients valid also if the source is a part of a file system; stores a key in an attribute of the source; for root only"
    export: bool = false, {
        name: "export", key: ("mount", "export"), places: ALL,
    }
    "Allow idmapped mounts of the mount, which containers with user namespaces need (Linux 6.12); each request then costs more"
    idmap: bool = false, {
        name: "idmap", key: ("mount", "idmap"), places: ALL,
    }
    "Seconds after SIGTERM or SIGINT until the server ends although the mount is in use: files are open, or a container has a copy of the mount"
    stop_timeout: Duration, {
        name: "stop-timeout", key: ("mount", "stop-timeout"), value_name: "SECONDS", unit: "s",
        default_text: "as long as it is in use", places: ALL,
    }
    "Name of the source in the mount table"
    fsname: String, {
        name: "fsname", key: ("mount", "fsname"), value_name: "NAME", default_text: "path of the source", places: ALL,
    }

    "Append a JSON line to FILE for each name that is refused, or allowed only by mode permissive; on the command line `-` is standard output"
    audit: PathBuf, {
        name: "audit", key: ("audit", "file"), value_name: "FILE", places: ALL,
    }
    "Group of the audit file, which may read it"
    audit_group: String, {
        name: "audit-group", key: ("audit", "group"), value_name: "GROUP", default_text: "group of the process", places: ALL,
    }
    "Also write audit records to the log"
    audit_log: bool = true, {
        name: "audit-log", key: ("audit", "log"), places: ALL,
    }
    "Maximum number of audit records per user and second; further records are only counted"
    audit_rate: NonZeroU32 = RECORDS_PER_SECOND, {
        name: "audit-rate", key: ("audit", "rate"), value_name: "PER-SECOND", minimum: 1.0, places: ALL,
    }
    "Maximum number of bytes of audit records per user and second, log and file together; further records are only counted"
    audit_bytes: NonZeroU32 = BYTES_PER_SECOND, {
        name: "audit-bytes", key: ("audit", "bytes"), value_name: "PER-SECOND", minimum: MIN_BYTES_PER_SECOND as f64,
        places: ALL,
    }

    "Write metrics to FILE regularly, for the textfile collector of node_exporter: NAME.prom"
    metrics_textfile: PathBuf, {
        name: "metrics-textfile", key: ("metrics", "textfile"), value_name: "FILE", places: ALL,
    }
    "Seconds between two writes of the metrics file"
    metrics_interval: Duration = WRITE_INTERVAL, {
        name: "metrics-interval", key: ("metrics", "interval"), value_name: "SECONDS", unit: "s", minimum: 0.1, places: ALL,
    }
    "Serve metrics over HTTP, for Prometheus; on the command line a port alone means 127.0.0.1"
    metrics_listen: SocketAddr, {
        name: "metrics-listen", key: ("metrics", "listen"), value_name: "ADDRESS:PORT", places: ALL,
    }

    "Profiles to check names against, all together; `namegate profiles` lists them. Replaces the profiles of the file"
    profile: Vec<&'static Profile>, {
        name: "profile", value_name: "NAME,...", places: OPTIONS, is_policy: true, is_live: true,
        elsewhere: "in a file it is `profiles` in the table `[policy]`",
    }
    "File with a policy (TOML: profiles, severities, normalization, limits), or the path or name of a mount configuration"
    config: PathBuf, {
        name: "config", value_name: "FILE", places: OPTIONS, is_policy: true,
        elsewhere: "a file cannot name another one",
    }
    "Normalization form that names should have. Replaces the normalization of the file"
    normalize: Form, {
        name: "normalize", value_name: "FORM", places: OPTIONS, is_policy: true, is_live: true,
        elsewhere: "in a file it is `form` in the table `[policy.normalization]`",
    }
    "Reaction to a name in another normalization form"
    on_mismatch: OnMismatch = OnMismatch::Refuse, {
        name: "on-mismatch", value_name: "REACTION", places: OPTIONS, is_policy: true, is_live: true,
        elsewhere: "in a file it is `on-mismatch` in the table `[policy.normalization]`",
    }

    "Lower the limits of names by so many bytes (or UTF-16 units), for programs that add to a name, such as synchronizers with their temporary files"
    reserve: NonZeroU32, {
        name: "reserve", value_name: "BYTES", minimum: 1.0, places: OPTIONS, is_policy: true, is_live: true,
        elsewhere: "in a file it is `reserve` in the table `[policy.limits]`",
    }
    "How many directories are above the entries of a document library's root (SharePoint): 0 if the tree is a library. Without it, what applies there only warns"
    library_depth: u32, {
        name: "library-depth", value_name: "N", places: OPTIONS, is_policy: true, is_live: true,
        elsewhere: "in a file it is `library-depth` in the table `[policy]`",
    }

    "Log informational messages too"
    verbose: bool = false, {
        name: "verbose", places: &[ProgramOption, MountOption],
        elsewhere: "the log begins before the file is read: give it on the command line",
    }
    "Format of log messages"
    log_format: LogFormat, {
        name: "log-format", value_name: "FORMAT", places: &[ProgramOption, MountOption],
        default_text: "journal if standard error is the systemd journal, otherwise text",
        elsewhere: "the log begins before the file is read: give it on the command line",
    }
}

impl Setting {
    /// The setting that is called `name`.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        TABLE.iter().find(|setting| setting.name == name)
    }
}

impl MountSettings {
    /// Sets the value that `text` stands for, after the values that were set before.
    ///
    /// # Errors
    /// What is wrong with the value.
    pub fn set(&mut self, setting: &Setting, text: &OsStr) -> Result<(), String> {
        (setting.set)(self, text, setting.minimum)
            .map_err(|why| why.unwrap_or_else(|| format!("not {}", setting.expected())))
    }

    /// The text of a value that was given.
    pub fn get(&self, setting: &Setting) -> Option<OsString> {
        (setting.get)(self)
    }

    /// These settings, followed by `later` ones.
    #[must_use]
    pub fn followed_by(mut self, later: &Self) -> Self {
        for setting in TABLE {
            if let Some(text) = later.get(setting) {
                let set = self.set(setting, &text);
                debug_assert!(set.is_ok(), "{} reads what it writes", setting.name);
            }
        }
        self
    }
}
