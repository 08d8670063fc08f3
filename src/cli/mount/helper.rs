//! `mount.namegate`: what mount(8) starts for `mount -t namegate` and for lines of fstab(5). It is this same program under
//! another name.
//!
//! Source: mount(8), "EXTERNAL HELPERS" and "EXIT STATUS".

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Parser;
use nix::sched::{CloneFlags, setns};

use super::mount_options::{Strictness, Words, ask_to_remount};
use super::plan::Given;
use super::remount::remount;
use super::settings::Settings;
use super::{in_background, is_named};
use crate::cli::{CliError, ExitStatus, LogFormat};
use crate::service::notify::ServiceManager;

/// Mount a tree so that no name that breaks the policy can be created in it, for mount(8).
///
/// Served in the background; the log goes to the system's log. The options are those of namegate-mount(1) behind -o.
#[derive(Debug, Parser)]
#[command(name = "mount.namegate", disable_version_flag = true, max_term_width = 100, after_help = EXIT_STATUS)]
pub(in crate::cli) struct Helper {
    /// The directory that is served.
    source: PathBuf,
    /// Where it is mounted.
    mountpoint: PathBuf,
    /// Mount options.
    #[arg(short = 'o', value_name = "OPTION,...")]
    options: Vec<OsString>,
    /// Pass over options that are not known.
    #[arg(short = 's')]
    sloppy: bool,
    /// Do everything but mount.
    #[arg(short = 'f')]
    fake: bool,
    /// For mount(8): there is no /etc/mtab to write to anyway.
    #[arg(short = 'n')]
    no_table: bool,
    /// Say what is done.
    #[arg(short = 'v')]
    verbose: bool,
    /// Mount in this mount namespace: a process or a file.
    #[arg(short = 'N', value_name = "NAMESPACE")]
    namespace: Option<OsString>,
    /// For mount(8): the type that was asked for.
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<OsString>,
}

const EXIT_STATUS: &str = "\
Examples:
  mount -t namegate /srv/share /mnt/share -o profile=strict
  echo '/srv/share /mnt/share namegate profile=strict:windows,nofail 0 0' >>/etc/fstab

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
    /// Whether the log is to say more.
    pub(in crate::cli) fn is_verbose(&self) -> bool {
        self.verbose || self.given().is_ok_and(|given| given.is_verbose())
    }

    /// In what form the log is to be.
    pub(in crate::cli) fn log_format(&self) -> Option<LogFormat> {
        self.given().ok()?.log_format()
    }

    fn given(&self) -> Result<Given, String> {
        let strictness = if self.sloppy { Strictness::Sloppy } else { Strictness::Strict };
        let places = (Some(self.source.clone()), Some(self.mountpoint.clone()));
        Given::new(places, &self.options, Settings::default(), strictness)
    }

    /// Runs it.
    ///
    /// # Errors
    /// The exit status, and what to say.
    pub(in crate::cli) fn run(&self) -> Result<ExitStatus, (u8, CliError)> {
        let failed = |trouble| (FAILURE, trouble);
        if ask_to_remount(&self.options) {
            return self.remount();
        }
        let given = self.given().map_err(|mistake| (USAGE, CliError::new(mistake)))?;
        if let Some(namespace) = &self.namespace {
            enter(namespace).map_err(failed)?;
        }
        if self.fake {
            return given.plan().map(|_| ExitStatus::Clean).map_err(failed);
        }
        // Not whoever has started mount(8): there it is mount(8) that is waited for.
        in_background(given, ServiceManager::none()).map_err(failed)
    }

    /// Changes the flags of the mount that is there.
    fn remount(&self) -> Result<ExitStatus, (u8, CliError)> {
        let words = self
            .options
            .iter()
            .try_fold(Words::default(), |words, list| words.add(list, Strictness::Remount))
            .map_err(|mistake| (USAGE, CliError::new(mistake)))?;
        if let Some(namespace) = &self.namespace {
            enter(namespace).map_err(|trouble| (FAILURE, trouble))?;
        }
        remount(&self.mountpoint, &words, self.fake).map_err(|trouble| (FAILURE, trouble))
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
