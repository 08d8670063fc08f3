//! The configuration of a mount: settings of the command line and of `-o`, with the files that they name.

use std::ffi::OsStr;
use std::io;
use std::path::{self, Path, PathBuf};
use std::sync::Arc;

use namegate_core::gate::Gate;
use namegate_core::name::display::{display, shown};
use namegate_core::policy::config::Config;
use namegate_core::policy::profile;
use namegate_mount::{Caching, DropProcess, Options, ServeConfig, SourceRequirements};
use namegate_settings::{CacheMode, ConfigFile, LockKeeping, MountSettings, Transport};
use namegate_telemetry::audit::{self, AuditLog};
use namegate_telemetry::metrics::{Metrics, OutletSettings};
use nix::unistd::{Gid, Group, geteuid};

use super::control::InstanceName;

#[derive(Debug)]
pub struct MountConfig {
    /// All settings: those of the file, overridden by those of the command line.
    pub settings: MountSettings,
    /// The directory to serve.
    pub source: PathBuf,
    pub mountpoint: PathBuf,
    /// The settings that a reload can change.
    pub serve: ServeConfig,
    /// The file of `--config`.
    pub file: Option<PathBuf>,
    /// The name of the mount, if the file is a mount configuration.
    pub name: Option<InstanceName>,
}

impl MountConfig {
    /// Whether the server must see in which system calls its clients are: an entry has several spellings, and a lookup of one may be for
    /// a rename that changes nothing else.
    pub fn must_see_calls(&self) -> bool {
        self.serve.gate.knows_spellings()
    }

    /// Reads the files that the settings name. The settings in `given` override those of the file.
    ///
    /// # Errors
    /// All errors in the files, and missing settings.
    pub fn load(given: &MountSettings) -> Result<Self, String> {
        let file = given.config_path();
        let (settings, policy) = match file.as_deref().map(ConfigFile::load).transpose()? {
            None => (None, None),
            Some(ConfigFile::Policy(policy)) => (None, Some(*policy)),
            Some(ConfigFile::Mount(mount)) => (Some(mount.settings), mount.policy),
        };
        let name = settings.is_some().then(|| file.as_deref().map(InstanceName::from_file)).flatten();
        let settings = settings.unwrap_or_default().followed_by(given);
        let place = |path: &Option<PathBuf>, key: &str| {
            path.clone().ok_or_else(|| match &file {
                Some(file) => format!("{}: `{key}` is missing, on the command line too", shown(file)),
                None => format!(
                    "no {key} is given: name a source and a mount point, as in `namegate mount /srv/share /mnt/share`, or \
                     --config FILE"
                ),
            })
        };
        check_settings(&settings)?;
        check_user(&settings)?;
        let gate = build_gate(given, &settings, policy)?;
        Ok(Self {
            source: place(&settings.source, "source")?,
            mountpoint: place(&settings.mountpoint, "mountpoint")?,
            serve: ServeConfig::new(gate, settings.clone()),
            settings,
            file,
            name,
        })
    }

    /// Makes source and mount point absolute, for a process whose working directory changes.
    ///
    /// # Errors
    /// There is no working directory.
    pub fn make_absolute(&mut self) -> io::Result<()> {
        self.source = path::absolute(&self.source)?;
        self.mountpoint = path::absolute(&self.mountpoint)?;
        Ok(())
    }

    /// The mount options. `dropper` has the kernel drop names.
    pub fn options(&self, dropper: Option<Arc<dyn DropProcess>>) -> Options {
        Options {
            fsname: self.settings.fsname.clone(),
            flags: self.settings.kernel_flags(Options::DEFAULT_FLAGS),
            allow_other: self.settings.allow_other(),
            transport: self.settings.transport(),
            passthrough: self.settings.passthrough(),
            locks: self.settings.locks(),
            export: self.settings.export(),
            idmap: self.settings.idmap(),
            caching: self.caching(dropper),
            require: SourceRequirements {
                mount_point: self.settings.require_mount_point(),
                marker: self.settings.require_marker.clone(),
            },
            ..Options::default()
        }
    }

    /// How the kernel is made to cache. `dropper` has it drop names.
    pub(super) fn caching(&self, dropper: Option<Arc<dyn DropProcess>>) -> Caching {
        Caching { coherent: self.coherent(), dropper }
    }

    /// Whether the kernel is to drop names, and can be made to.
    pub(super) fn drops_names(&self) -> bool {
        (self.coherent().is_ok() || self.serve.gate.knows_spellings()) && geteuid().is_root()
    }

    /// Whether caches are to be kept until the source changes; otherwise why not.
    fn coherent(&self) -> Result<(), &'static str> {
        if self.settings.cache() == CacheMode::Timeout {
            return Err("as configured");
        }
        // The server changes these files for itself, and such changes by the server count as those of clients.
        let is_inside = |file: &PathBuf| {
            let parent = path::absolute(file).ok().and_then(|file| file.parent()?.canonicalize().ok());
            let source = self.source.canonicalize();
            parent.is_some_and(|parent| source.is_ok_and(|source| parent.starts_with(source)))
        };
        match [&self.settings.audit, &self.settings.metrics_textfile].into_iter().flatten().any(is_inside) {
            true => Err("the server writes its metrics or its audit log into the source"),
            false => Ok(()),
        }
    }

    /// Goes on with a mount that has these recorded settings. Returns the settings that differ and stay as they are until the next mount.
    pub fn keep_settings(&mut self, record: &OsStr) -> Vec<String> {
        if record.is_empty() {
            return Vec::new();
        }
        let mounted = self.settings.of_mount(record);
        let differences = mounted.differences(&self.settings, false);
        self.settings = mounted;
        differences
    }

    /// Opens the audit log.
    ///
    /// # Errors
    /// The file cannot be opened, or its group does not exist.
    pub fn open_audit(&self, metrics: Arc<Metrics>) -> Result<audit::AuditSettings, String> {
        let audit_log = match self.settings.audit.as_deref() {
            None => None,
            Some(file) if file == Path::new("-") => Some(AuditLog::to(io::stdout())),
            Some(file) => {
                let unusable = |error| format!("cannot write the audit log {}: {error}", shown(file));
                let group = self.settings.audit_group.as_deref().map(group).transpose()?;
                let open = |file: PathBuf| match group {
                    Some(group) => AuditLog::append_for(&file, group),
                    None => AuditLog::append(&file),
                };
                Some(path::absolute(file).and_then(open).map_err(unusable)?)
            }
        };
        Ok(audit::AuditSettings {
            audit_log,
            is_logged: self.settings.audit_log(),
            per_second: self.settings.audit_rate(),
            bytes_per_second: self.settings.audit_bytes(),
            metrics,
            ..audit::AuditSettings::default()
        })
    }
}

/// The outputs of metrics that the settings ask for.
pub fn outlets(settings: &MountSettings) -> OutletSettings {
    OutletSettings {
        file: settings.metrics_textfile.clone(),
        interval: settings.metrics_interval(),
        listen: settings.metrics_listen,
    }
}

/// Checks that a mount with these settings is possible, whoever mounts: settings that exclude each other, and places that do not fit. What
/// only the machine can answer is checked when the mount is made.
///
/// # Errors
/// The first setting that is not possible, and why.
pub fn check_settings(settings: &MountSettings) -> Result<(), String> {
    let transport = settings.transport();
    if settings.locks() == LockKeeping::Backing && transport == Transport::Fuser {
        return Err(
            "--locks backing needs --transport dev: the transport fuser cannot interrupt a client that waits"
                .into(),
        );
    }
    if settings.export() && transport != Transport::Dev {
        return Err("--export needs --transport dev: no other transport serves file handles".into());
    }
    if settings.survive() && !matches!(transport, Transport::Auto | Transport::Dev) {
        return Err("--survive needs --transport dev or auto".into());
    }
    if settings.survive() && settings.locks() != LockKeeping::Kernel {
        return Err("--survive needs --locks kernel: locks that the server keeps end with it".into());
    }
    if let Some(name) = settings.audit_group.as_deref() {
        group(name)?;
    }
    if let Some(marker) = settings.require_marker.as_deref()
        && (Path::new(marker).file_name() != Some(OsStr::new(marker)))
    {
        return Err(format!(
            "require-marker: {} is not the name of an entry in the source",
            display(marker.as_bytes())
        ));
    }
    let place = |path: &Option<PathBuf>| path.as_deref().and_then(|path| path::absolute(path).ok());
    let (source, mountpoint) = (place(&settings.source), place(&settings.mountpoint));
    if let Some((source, mountpoint)) = source.as_ref().zip(mountpoint.as_ref())
        && mountpoint.starts_with(source)
        && mountpoint != source
    {
        return Err(namegate_mount::Error::Inside { source: source.clone(), mountpoint: mountpoint.clone() }
            .to_string());
    }
    // The server would wait for itself when it opens such a file again, and the mount would be in use as long as the file is open.
    for (setting, file) in [("audit", &settings.audit), ("metrics-textfile", &settings.metrics_textfile)] {
        let file = file.as_ref().filter(|file| *file != Path::new("-"));
        let Some(file) = place(&file.cloned()) else { continue };
        if mountpoint.as_ref().is_some_and(|mountpoint| file.starts_with(mountpoint)) {
            return Err(format!("the file of `{setting}`, {}, must not be in the mount", shown(&file)));
        }
    }
    Ok(())
}

/// The gate of a mount with these settings, of which `given` change the policy.
///
/// # Errors
/// The policy has an error, or excludes the mode.
pub fn build_gate(
    given: &MountSettings,
    settings: &MountSettings,
    policy: Option<Config>,
) -> Result<Gate, String> {
    let policy = given.change_policy(policy, &[&profile::UTF8], &[])?;
    let policy = given.build_policy(&policy)?;
    let gate = Gate::new(Arc::new(policy), settings.mode()).with_substitutes(settings.substitutes());
    check_encoding(&gate)?;
    Ok(gate)
}

/// Checks that the gate can encode, if its mode says so.
pub(super) fn check_encoding(gate: &Gate) -> Result<(), String> {
    gate.check_encoding().map_err(|conflict| {
        format!("mode encode: {conflict}; choose another policy, other `substitutes` or another mode")
    })
}

/// Checks that this user may mount with these settings.
fn check_user(settings: &MountSettings) -> Result<(), String> {
    match geteuid().is_root() {
        false if settings.export() => {
            Err("--export is for root: only root opens files by their handles".into())
        }
        false if settings.survive() => Err("--survive is for root".into()),
        _ => Ok(()),
    }
}

/// Looks up a group by its name or number.
fn group(name: &str) -> Result<Gid, String> {
    let by_number = || name.parse().ok().map(Gid::from_raw);
    let found = Group::from_name(name).map_err(|errno| errno.desc());
    found
        .and_then(|group| group.map(|group| group.gid).or_else(by_number).ok_or("there is no such group"))
        .map_err(|why| format!("cannot give the audit log to the group {}: {why}", display(name.as_bytes())))
}
