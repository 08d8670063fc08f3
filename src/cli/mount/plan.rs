//! What all options, mount options and files together come to. Options of the command line come before the file.

use std::ffi::OsString;
use std::io;
use std::num::NonZeroU32;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use nix::mount::MsFlags;
use nix::unistd::{Gid, Group};

use super::mount_options::{Strictness, Words};
use super::settings::{Settings, Switch};
use crate::cli::metrics_args::MetricsArgs;
use crate::cli::policy_args::{ConfigFile, load};
use crate::cli::{CliError, LogFormat};
use crate::fuse::{Options, ServeConfig};
use crate::gate::{Gate, Mode};
use crate::name::display::{display, shown};
use crate::policy::profile;
use crate::service::control::InstanceName;
use crate::settings::config::{self, Instance};
use crate::telemetry::audit::{self, AuditLog};
use crate::telemetry::metrics::Metrics;

/// What was asked for, as it was asked for. It can be made into a [`Plan`] again and again, as its files change.
#[derive(Clone, Debug)]
pub(super) struct Given {
    source: Option<PathBuf>,
    mountpoint: Option<PathBuf>,
    words: Words,
    settings: Settings,
}

/// What is to be done: all that was asked for, with the content of the files.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) source: PathBuf,
    pub(super) mountpoint: PathBuf,
    pub(super) terms: ServeConfig,
    pub(super) options: Options,
    pub(super) audit: AuditPlan,
    pub(super) metrics: MetricsArgs,
    /// Whether privileges are given up.
    pub(super) is_confined: bool,
    /// The file that says what the instance is, or by which policy it judges.
    pub(super) file: Option<PathBuf>,
    /// What the instance is called, if its file says what it is.
    pub(super) name: Option<InstanceName>,
}

/// How refusals are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AuditPlan {
    file: Option<PathBuf>,
    group: Option<String>,
    is_logged: bool,
    rate: Option<NonZeroU32>,
    bytes: Option<NonZeroU32>,
}

impl Given {
    /// # Errors
    /// A sentence about a word that means nothing.
    pub(super) fn new(
        places: (Option<PathBuf>, Option<PathBuf>),
        lists: &[OsString],
        settings: Settings,
        strictness: Strictness,
    ) -> Result<Self, String> {
        let words = lists.iter().try_fold(Words::default(), |words, list| words.add(list, strictness))?;
        let settings = settings.or(words.settings.clone());
        Ok(Self { source: places.0, mountpoint: places.1, words, settings })
    }

    /// Whether the log is to say more.
    pub(super) fn is_verbose(&self) -> bool {
        self.words.verbose
    }

    /// What the mount options say of the form of the log.
    pub(super) fn log_format(&self) -> Option<LogFormat> {
        self.words.log_format
    }

    /// Whether records go to standard output.
    pub(super) fn writes_to_output(&self) -> bool {
        self.settings.audit.as_deref() == Some(Path::new("-"))
    }

    /// The same with absolute paths, so that files can be read again from anywhere.
    ///
    /// # Errors
    /// The working directory is not to be found.
    pub(super) fn absolute(mut self) -> Result<Self, CliError> {
        let lost = |error| CliError::new(format!("cannot tell what a path is relative to: {error}"));
        self.settings.policy.make_absolute().map_err(lost)?;
        let textfile = &mut self.settings.metrics.metrics_textfile;
        *textfile = textfile.as_deref().map(path::absolute).transpose().map_err(lost)?;
        if !self.writes_to_output() {
            let file = self.settings.audit.as_deref().map(path::absolute).transpose();
            self.settings.audit = file.map_err(lost)?;
        }
        Ok(self)
    }

    /// Reads the files that are named.
    ///
    /// # Errors
    /// All mistakes in them, and what is missing.
    pub(super) fn plan(&self) -> Result<Plan, CliError> {
        let file = self.settings.policy.file();
        let (instance, policy) = match file.as_deref().map(load).transpose().map_err(CliError::new)? {
            None => (None, None),
            Some(ConfigFile::Policy(policy)) => (None, Some(*policy)),
            Some(ConfigFile::Instance(mut instance)) => {
                let policy = instance.policy.take();
                (Some(*instance), policy)
            }
        };
        let name = instance.is_some().then(|| file.as_deref().map(InstanceName::from_file)).flatten();
        let instance = instance.unwrap_or_default();
        let settings = self.settings.clone().or(Settings::of(&instance));
        let shown_file = file.as_deref().map(shown);
        let place = |given: &Option<PathBuf>, said: &Option<PathBuf>, key| {
            let missing = || match &shown_file {
                Some(file) => CliError::new(format!("{file}: `{key}` is missing, on the command line too")),
                None => CliError::new(format!("no {key} is given, and no --config that says it")),
            };
            given.as_ref().or(said.as_ref()).cloned().ok_or_else(missing)
        };
        let policy = self.settings.policy.resolve(policy, &[&profile::UTF8], &[])?;
        let policy = self.settings.policy.made_of(&policy)?;
        let mode = settings.mode.unwrap_or(config::MODES[0].value);
        let existing = settings.existing.unwrap_or(config::EXISTING[0].value);
        let default = ServeConfig::new(Gate::new(Arc::new(policy), mode).with_existing(existing));
        Ok(Plan {
            source: place(&self.source, &instance.source, "source")?,
            mountpoint: place(&self.mountpoint, &instance.mountpoint, "mountpoint")?,
            terms: ServeConfig {
                for_violations: settings.errno.unwrap_or(default.for_violations),
                checks_targets: settings.check_targets,
                entry_timeout: settings.entry_timeout.unwrap_or(default.entry_timeout),
                attr_timeout: settings.attr_timeout.unwrap_or(default.attr_timeout),
                ..default
            },
            options: Options {
                fsname: self.words.fsname.clone().or(instance.mount.fsname.clone()),
                flags: self.words.flags(flags(&instance.mount)),
                allow_other: self.words.allow_other || instance.mount.allow_other.unwrap_or(false),
            },
            audit: AuditPlan {
                file: settings.audit,
                group: settings.audit_group,
                is_logged: settings.audit_log != Some(Switch::Off),
                rate: settings.audit_rate,
                bytes: settings.audit_bytes,
            },
            metrics: settings.metrics,
            is_confined: !settings.no_sandbox,
            file,
            name,
        })
    }
}

impl Settings {
    /// What a file says.
    fn of(instance: &Instance) -> Self {
        let Instance { mount, audit, metrics, .. } = instance;
        Self {
            mode: mount.mode,
            existing: mount.existing,
            errno: mount.errno,
            check_targets: mount.check_targets.unwrap_or(false),
            entry_timeout: mount.entry_timeout,
            attr_timeout: mount.attr_timeout,
            audit: audit.file.clone(),
            audit_group: audit.group.clone(),
            audit_log: audit.log.map(Switch::from),
            audit_rate: audit.rate,
            audit_bytes: audit.bytes,
            no_sandbox: mount.sandbox == Some(false),
            metrics: MetricsArgs {
                metrics_textfile: metrics.textfile.clone(),
                metrics_interval: metrics.interval,
                metrics_listen: metrics.listen,
            },
            ..Self::default()
        }
    }
}

/// The flags of the kernel that a file asks for.
fn flags(mount: &config::Mount) -> MsFlags {
    let asked = [
        (MsFlags::MS_RDONLY, mount.read_only),
        (MsFlags::MS_NOEXEC, mount.noexec),
        (MsFlags::MS_NOATIME, mount.noatime),
        (MsFlags::MS_NOSUID, mount.suid.map(|suid| !suid)),
        (MsFlags::MS_NODEV, mount.dev.map(|dev| !dev)),
    ];
    let mut flags = Options::DEFAULT_FLAGS;
    for (flag, is_on) in asked {
        flags.set(flag, is_on.unwrap_or(flags.contains(flag)));
    }
    flags
}

impl AuditPlan {
    /// Opens what it names.
    pub(super) fn open(&self, metrics: Arc<Metrics>) -> Result<audit::AuditSettings, CliError> {
        let audit_log = match self.file.as_deref() {
            None => None,
            Some(file) if file == Path::new("-") => Some(AuditLog::to(io::stdout())),
            Some(file) => {
                let unusable =
                    |error| CliError::new(format!("cannot write the audit log {}: {error}", shown(file)));
                let group = self.group.as_deref().map(group).transpose()?;
                let open = |file: PathBuf| match group {
                    Some(group) => AuditLog::append_for(&file, group),
                    None => AuditLog::append(&file),
                };
                Some(path::absolute(file).and_then(open).map_err(unusable)?)
            }
        };
        let default = audit::AuditSettings::default();
        let per_second = self.rate.unwrap_or(default.per_second);
        let bytes_per_second = self.bytes.unwrap_or(default.bytes_per_second);
        let is_logged = self.is_logged;
        Ok(audit::AuditSettings { audit_log, is_logged, per_second, bytes_per_second, metrics, ..default })
    }
}

/// A group by its name or its number.
fn group(name: &str) -> Result<Gid, CliError> {
    let by_number = || name.parse().ok().map(Gid::from_raw);
    let found = Group::from_name(name).map_err(|errno| errno.desc());
    found
        .and_then(|group| group.map(|group| group.gid).or_else(by_number).ok_or("there is no such group"))
        .map_err(|why| {
            CliError::new(format!(
                "cannot give the audit log to the group {}: {why}",
                display(name.as_bytes())
            ))
        })
}

impl Plan {
    /// What it asks for and `mounted` cannot become while it is mounted, one line each.
    pub(super) fn needs_mount(&self, mounted: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut differs = |what: &str, differs: bool, asked: String| {
            if differs {
                lines.push(format!("{what}: {asked}"));
            }
        };
        differs("source", self.source != mounted.source, shown(&self.source));
        differs("mountpoint", self.mountpoint != mounted.mountpoint, shown(&self.mountpoint));
        let (asked, has) = (&self.options, &mounted.options);
        for (flag, present, absent) in [
            (MsFlags::MS_RDONLY, "read-only", "read and write"),
            (MsFlags::MS_NOEXEC, "noexec", "exec"),
            (MsFlags::MS_NOATIME, "noatime", "atime"),
            (MsFlags::MS_NOSUID, "nosuid", "suid"),
            (MsFlags::MS_NODEV, "nodev", "dev"),
        ] {
            let is_asked = asked.flags.contains(flag);
            let word = if is_asked { present } else { absent };
            differs("mount option", is_asked != has.flags.contains(flag), word.into());
        }
        differs("allow-other", asked.allow_other != has.allow_other, asked.allow_other.to_string());
        differs("fsname", asked.fsname != has.fsname, asked.fsname.clone().unwrap_or("the source".into()));
        let file = self.audit.file.as_deref().map_or("none".into(), shown);
        differs("audit file", self.audit.file != mounted.audit.file, file);
        let group =
            self.audit.group.as_deref().map_or("that of the process".into(), |group| shown(Path::new(group)));
        differs("audit group", self.audit.group != mounted.audit.group, group);
        let is_logged = self.audit.is_logged;
        differs("audit log", is_logged != mounted.audit.is_logged, is_logged.to_string());
        let rate = self.audit.rate.map_or("as by default".into(), |rate| rate.to_string());
        differs("audit rate", self.audit.rate != mounted.audit.rate, rate);
        let bytes = self.audit.bytes.map_or("as by default".into(), |bytes| bytes.to_string());
        differs("audit bytes", self.audit.bytes != mounted.audit.bytes, bytes);
        let (asked, has) = (&self.metrics, &mounted.metrics);
        let file = asked.metrics_textfile.as_deref().map_or("none".into(), shown);
        differs("metrics textfile", asked.metrics_textfile != has.metrics_textfile, file);
        let interval =
            asked.metrics_interval.map_or("as by default".into(), |interval| format!("{interval:?}"));
        differs("metrics interval", asked.metrics_interval != has.metrics_interval, interval);
        let listen = asked.metrics_listen.map_or("none".into(), |address| address.to_string());
        differs("metrics listen", asked.metrics_listen != has.metrics_listen, listen);
        differs("sandbox", self.is_confined != mounted.is_confined, self.is_confined.to_string());
        lines
    }

    /// What the mode is by options and files.
    pub(super) fn mode(&self) -> Mode {
        self.terms.gate.mode()
    }
}
