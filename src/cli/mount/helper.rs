//! `mount.namegate`: what mount(8) starts for `mount -t namegate` and for lines of fstab(5). It is this same program under
//! another name.
//!
//! Source: mount(8), "EXTERNAL HELPERS" and "EXIT STATUS".

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Parser;
use namegate_mount::is_mounted;
use namegate_settings::{MountOptions, MountSettings, Strictness, asks_for_remount};
use namegate_telemetry::log::LogFormat;
use nix::sched::{CloneFlags, setns};

use super::is_named;
use super::remount::remount;
use crate::cli::{CliError, ExitStatus};
use crate::service::mount_config::MountConfig;
use crate::service::notify::ServiceManager;
use crate::service::serve::serve_in_background;

/// Mount a directory so that no name that breaks the policy can be created in it, for mount(8).
///
/// The mount is served in the background and logs to the system log. namegate-mount(1) describes the options of -o.
#[derive(Debug, Parser)]
#[command(name = "mount.namegate", disable_version_flag = true, max_term_width = 100, after_help = EXIT_STATUS)]
pub(in crate::cli) struct Helper {
    /// Directory to serve
    source: PathBuf,
    /// Directory to mount on
    mountpoint: PathBuf,
    /// Mount options
    #[arg(short = 'o', value_name = "OPTION,...")]
    options: Vec<OsString>,
    /// Ignore unknown options
    #[arg(short = 's')]
    sloppy: bool,
    /// Do everything except mounting
    #[arg(short = 'f')]
    fake: bool,
    /// Ignored, for mount(8): there is no /etc/mtab to write
    #[arg(short = 'n')]
    no_table: bool,
    /// Log informational messages too
    #[arg(short = 'v')]
    verbose: bool,
    /// Mount in this mount namespace: that of a process, or a file
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<OsString>,
    /// Ignored, for mount(8): the file system type that was requested
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<OsString>,
}

const EXIT_STATUS: &str = "\
Examples:
  mount -t namegate /srv/share /mnt/share -o profile=strict
  echo '/srv/share /mnt/share namegate profile=strict:windows,nofail 0 0' >>/etc/fstab
  mount -o remount,ro /mnt/share

Exit status: 0 mounted, 1 wrong usage, 32 not mounted.";

/// Wrong usage, or no right.
const USAGE: u8 = 1;
/// There is no mount.
const FAILURE: u8 = 32;

/// Whether the program that is called `program` is the helper.
pub(in crate::cli) fn is_called(program: &OsStr) -> bool {
    is_named(program, "mount.namegate") || is_named(program, "mount.fuse.namegate")
}

impl Helper {
    /// The settings of the log.
    pub(in crate::cli) fn log(&self) -> (bool, Option<LogFormat>) {
        let settings = self.settings().unwrap_or_default();
        (self.verbose || settings.verbose(), settings.log_format)
    }

    fn settings(&self) -> Result<MountSettings, String> {
        let strictness = if self.sloppy { Strictness::Sloppy } else { Strictness::Strict };
        let options = MountOptions::parse(&self.options, strictness)?;
        let (source, mountpoint) = (Some(self.source.clone()), Some(self.mountpoint.clone()));
        Ok(MountSettings { source, mountpoint, ..options.settings })
    }

    /// Runs it.
    ///
    /// # Errors
    /// The exit status, and what to say.
    pub(in crate::cli) fn run(&self) -> Result<ExitStatus, (u8, CliError)> {
        let misused = |mistake: String| (USAGE, CliError::new(mistake));
        let failed = |trouble| (FAILURE, trouble);
        if asks_for_remount(&self.options) {
            let options = MountOptions::parse(&self.options, Strictness::Remount).map_err(misused)?;
            self.enter_namespace().map_err(failed)?;
            return remount(&self.mountpoint, &options, self.fake).map_err(failed);
        }
        let settings = self.settings().map_err(misused)?;
        self.enter_namespace().map_err(failed)?;
        let config = MountConfig::load(&settings).map_err(|error| failed(CliError::new(error)))?;
        if self.fake {
            return Ok(ExitStatus::Clean);
        }
        if is_mounted(&config.source, &config.mountpoint, &config.options(None)) {
            log::info!("it is mounted already");
            return Ok(ExitStatus::Clean);
        }
        // Not whoever has started mount(8): there it is mount(8) that is waited for.
        serve_in_background(settings, ServiceManager::none()).map_err(|error| failed(error.into()))?;
        Ok(ExitStatus::Clean)
    }

    fn enter_namespace(&self) -> Result<(), CliError> {
        self.namespace.as_deref().map_or(Ok(()), enter)
    }

    /// The exit status of a command line that is none.
    pub(in crate::cli) fn usage(error: &clap::Error) -> u8 {
        if error.use_stderr() { USAGE } else { 0 }
    }
}

/// Goes to the mount namespace of a process, or to the one that a file stands for.
fn enter(namespace: &OsStr) -> Result<(), CliError> {
    let path = match namespace.to_str().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(pid) => PathBuf::from(format!("/proc/{pid}/ns/mnt")),
        None => Path::new(namespace).into(),
    };
    let entered = File::open(path).and_then(|file| Ok(setns(file, CloneFlags::CLONE_NEWNS)?));
    entered.map_err(|error| CliError::new(format!("cannot enter the mount namespace: {error}")))
}
