//! What one mount is: source, mount point, policy and settings, as a file (TOML). For its writers it is described in
//! `docs/CONFIG.md`, and for programs by a [JSON Schema](schema).
//!
//! Reads text and opens no file. The table `[policy]` is a [policy file](crate::policy::config), read by the same code; the
//! words of the other tables are those of the command line. All mistakes of a file are found at once, each with its line and
//! column.
//!
//! ```
//! use namegate::settings::config::Instance;
//! use namegate::gate::Mode;
//! let text = "source = \"/srv/share\"\nmountpoint = \"/mnt/share\"\n\
//!             policy.profiles = [\"windows\"]\nmount.mode = \"permissive\"\n";
//! let instance = Instance::parse(text)?;
//! assert_eq!(instance.mount.mode, Some(Mode::Permissive));
//! assert_eq!(instance.policy.unwrap().profiles()[0].name, "windows");
//! # Ok::<(), namegate::policy::config::ConfigErrors>(())
//! ```

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;

use crate::gate::{Existing, Mode};
use crate::policy::config::reader::{self, TableReader};
use crate::policy::config::{Config, ConfigError, ConfigErrors, read_policy};
use crate::telemetry::audit::MIN_BYTES_PER_SECOND;

mod choices;
mod schema;
mod write;

pub use choices::{Choice, ERRNOS, EXISTING, MODES, word_of};
pub use schema::schema;

/// What an instance file says; nothing of it has to be said.
#[derive(Clone, Debug, Default)]
pub struct Instance {
    /// The directory that is served.
    pub source: Option<PathBuf>,
    /// Where it is mounted.
    pub mountpoint: Option<PathBuf>,
    /// The policy; without one, UTF-8 alone.
    pub policy: Option<Config>,
    /// How it is mounted and judged.
    pub mount: Mount,
    /// Where refusals are recorded.
    pub audit: Audit,
    /// Where counters can be read.
    pub metrics: Metrics,
}

/// The table `[mount]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// What happens to names that break the policy.
    pub mode: Option<Mode>,
    /// How names that are not UTF-8 are seen.
    pub existing: Option<Existing>,
    /// What a refused name fails with.
    pub errno: Option<Option<Errno>>,
    /// Whether the targets of symbolic links are judged.
    pub check_targets: Option<bool>,
    /// How long the kernel takes names for granted.
    pub entry_timeout: Option<Duration>,
    /// How long it takes attributes for granted.
    pub attr_timeout: Option<Duration>,
    /// Nothing can be changed through the mount.
    pub read_only: Option<bool>,
    /// Nothing can be executed.
    pub noexec: Option<bool>,
    /// Reading leaves no access times.
    pub noatime: Option<bool>,
    /// Set-id bits have their effect.
    pub suid: Option<bool>,
    /// Devices have their effect.
    pub dev: Option<bool>,
    /// Users other than the one who mounts have access.
    pub allow_other: Option<bool>,
    /// Privileges that serving does not need are given up, and system calls filtered.
    pub sandbox: Option<bool>,
    /// What the mount table shows as the source.
    pub fsname: Option<String>,
}

/// The table `[audit]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Where records are kept as JSON Lines.
    pub file: Option<PathBuf>,
    /// The group that the file belongs to.
    pub group: Option<String>,
    /// Whether records go to the log too.
    pub log: Option<bool>,
    /// How many of one user a second.
    pub rate: Option<NonZeroU32>,
    /// How many bytes of them, in the log and the file together.
    pub bytes: Option<NonZeroU32>,
}

/// The table `[metrics]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The file that node_exporter's collector of text files reads.
    pub textfile: Option<PathBuf>,
    /// How often it is written.
    pub interval: Option<Duration>,
    /// Where a scraper can ask by HTTP.
    pub listen: Option<SocketAddr>,
}

/// The keys of the top table. A file that has one of them is no policy file.
const KEYS: [&str; 6] = ["source", "mountpoint", "policy", "mount", "audit", "metrics"];

/// Whether `text` describes a mount, and not a policy alone. What is neither is none.
///
/// ```
/// use namegate::settings::config::is_instance;
/// assert!(is_instance("mount = { mode = \"permissive\" }\nprofiles = []"));
/// assert!(!is_instance("profiles = [\"strict\"]") && !is_instance("]"));
/// ```
pub fn is_instance(text: &str) -> bool {
    reader::has_key_of(text, &KEYS)
}

impl Instance {
    /// Reads an instance file.
    ///
    /// # Errors
    /// All mistakes of the file, as [`Config::parse`]. What is missing is not among them: see [`Instance::check`].
    pub fn parse(text: &str) -> Result<Self, ConfigErrors> {
        reader::read(text, |top| Self {
            source: top.absolute_path("source"),
            mountpoint: top.absolute_path("mountpoint"),
            policy: {
                let is_there = top.key_at("policy").is_some();
                let policy = top.table("policy", "key", read_policy);
                is_there.then_some(policy)
            },
            mount: top.table("mount", "key", read_mount),
            audit: top.table("audit", "key", read_audit),
            metrics: top.table("metrics", "key", read_metrics),
        })
    }

    /// Whether it is enough for a mount by itself.
    ///
    /// # Errors
    /// Everything that is missing: source, mount point, and parameters that rules of the policy need.
    pub fn check(&self) -> Result<(), ConfigErrors> {
        let missing = [("source", &self.source), ("mountpoint", &self.mountpoint)];
        let missing = missing.into_iter().filter(|(_, path)| path.is_none());
        let mut errors: Vec<ConfigError> = missing
            .map(|(key, _)| ConfigError {
                message: format!("`{key}` is missing: an absolute path"),
                position: None,
            })
            .collect();
        if let Some(Err(error)) = self.policy.as_ref().map(Config::policy) {
            errors.extend(error.errors().iter().cloned());
        }
        if errors.is_empty() { Ok(()) } else { Err(ConfigErrors::new(errors, 0)) }
    }
}

fn read_mount(mount: &mut TableReader<'_>) -> Mount {
    Mount {
        mode: word(mount, "mode", "mode", MODES),
        existing: word(mount, "existing", "way to see names", EXISTING),
        errno: word(mount, "errno", "error", ERRNOS),
        check_targets: mount.boolean("check-targets"),
        entry_timeout: mount.seconds("entry-timeout"),
        attr_timeout: mount.seconds("attr-timeout"),
        read_only: mount.boolean("read-only"),
        noexec: mount.boolean("noexec"),
        noatime: mount.boolean("noatime"),
        suid: mount.boolean("suid"),
        dev: mount.boolean("dev"),
        allow_other: mount.boolean("allow-other"),
        sandbox: mount.boolean("sandbox"),
        fsname: mount.string("fsname").and_then(|(name, at)| {
            let is_good = is_fsname(name);
            if !is_good {
                mount.error(at, || {
                    "`fsname` is shown in tables: not empty, without control characters".into()
                });
            }
            is_good.then(|| name.to_owned())
        }),
    }
}

fn read_audit(audit: &mut TableReader<'_>) -> Audit {
    Audit {
        file: audit.absolute_path("file"),
        group: audit.string("group").map(|(group, _)| group.to_owned()),
        log: audit.boolean("log"),
        rate: audit.count("rate"),
        bytes: {
            let at = audit.key_at("bytes");
            let bytes = audit.count("bytes");
            if let (Some(at), Some(bytes)) = (at, bytes)
                && bytes.get() < MIN_BYTES_PER_SECOND
            {
                audit.error(at, || format!("`bytes` must be at least {MIN_BYTES_PER_SECOND}"));
            }
            bytes
        },
    }
}

fn read_metrics(metrics: &mut TableReader<'_>) -> Metrics {
    Metrics {
        textfile: metrics.absolute_path("textfile"),
        interval: {
            let at = metrics.key_at("interval");
            let interval = metrics.seconds("interval");
            let is_short = interval.is_some_and(|interval| interval < Duration::from_millis(100));
            if let Some(at) = at.filter(|_| is_short) {
                metrics.error(at, || "`interval` must be at least 0.1 seconds".into());
            }
            interval
        },
        listen: read_address(metrics),
    }
}

/// Whether the mount table can show this as a source.
pub fn is_fsname(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_control)
}

fn word<T: Copy>(
    table: &mut TableReader<'_>,
    key: &'static str,
    what: &'static str,
    choices: &[Choice<T>],
) -> Option<T> {
    let known: Vec<_> = choices.iter().map(|choice| (choice.word, choice.value)).collect();
    Some(table.word(key, what, &known)?.0)
}

fn read_address(table: &mut TableReader<'_>) -> Option<SocketAddr> {
    let (text, at) = table.string("listen")?;
    let address = text.parse().ok();
    if address.is_none() {
        table.error(at, || "`listen` must be an address and a port, such as \"127.0.0.1:9630\"".into());
    }
    address
}

/// Values that only the configuration of a mount has.
trait MountValues {
    /// A path from the root of the file system: a daemon stands in no directory that the writer could mean.
    fn absolute_path(&mut self, key: &'static str) -> Option<PathBuf>;

    /// A duration in seconds.
    fn seconds(&mut self, key: &'static str) -> Option<Duration>;

    /// A number from 1 to the greatest of 32 bits.
    fn count(&mut self, key: &'static str) -> Option<NonZeroU32>;
}

impl MountValues for TableReader<'_> {
    fn absolute_path(&mut self, key: &'static str) -> Option<PathBuf> {
        let (text, at) = self.string(key)?;
        let is_good = Path::new(text).is_absolute() && !text.contains('\0');
        if !is_good {
            self.error(at, || format!("`{key}` must be an absolute path: it begins with `/`"));
        }
        is_good.then(|| text.into())
    }

    fn seconds(&mut self, key: &'static str) -> Option<Duration> {
        let (number, at) = self.number(key, "a number of seconds")?;
        let duration = Duration::try_from_secs_f64(number).ok();
        if duration.is_none() {
            self.error(at, || format!("`{key}` must be a number of seconds, such as 0, 0.5 or 60"));
        }
        duration
    }

    fn count(&mut self, key: &'static str) -> Option<NonZeroU32> {
        let at = self.key_at(key);
        let number = self.positive(key)?;
        let count = u32::try_from(number).ok().and_then(NonZeroU32::new);
        if let (None, Some(at)) = (count, at) {
            self.error(at, || format!("`{key}` must be at most {}", u32::MAX));
        }
        count
    }
}

#[cfg(test)]
mod tests;
