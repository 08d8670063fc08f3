//! `namegate mount`: a tree behind the gate.

mod helper;
mod remount;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::slice;

use clap::builder::{OsStringValueParser, TypedValueParser};
use namegate_settings::{MountOptions, MountSettings, Strictness};
use namegate_telemetry::log::LogFormat;

use super::setting_args::{MountGroup, SettingArgs};
use super::{CliError, ExitStatus};
use crate::service::notify::ServiceManager;
use crate::service::serve::{check, serve, serve_in_background};
use crate::service::serve_error::ServeError;
pub(super) use helper::{Helper, is_called as is_helper};

const EXAMPLES: &str = "\
Examples:
  namegate mount /srv/share /mnt/share
  namegate mount /srv/share /srv/share --daemon   # over itself: users see the mount only
  namegate mount /srv/share /mnt/share -o ro,profile=strict:windows
  namegate mount --config share                   # everything is in /etc/namegate/share.toml
  namegate mount --config share --check-targets=false
  namegate mount /srv/share /mnt/share --mode permissive --audit /var/log/namegate.jsonl
  namegate mount --config share --check           # mounts nothing
  mount -t namegate /srv/share /mnt/share -o profile=strict

Every option above except --daemon can be given to -o, with `_` for `-` and `:` between profiles. Options of mount(8) work \
too: ro, rw, exec, atime, nosuid, nodev. -o also takes verbose and log_format=FORMAT, and ignores options that are only for fstab.

An option with true|false means true without a value; `=false` turns off what the file turns on. If options conflict, the long \
option wins, then the -o option given last, then the file. Profiles of -o and of --profile apply together.

The mount ends with `umount MOUNTPOINT` (users other than root: `fusermount3 -u MOUNTPOINT`), SIGINT (Ctrl-C) or SIGTERM. SIGHUP \
reloads the configuration, as `namegate reload` does.

Exit status: 0 unmounted, or with --daemon mounted; 2 not mounted, or the mount ended with an error.";

/// Mount a directory so that no name that breaks the policy can be created in it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MountArgs {
    #[command(flatten)]
    settings: SettingArgs<MountGroup>,
    /// Mount options, as mount(8) takes them
    #[arg(short = 'o', long = "options", value_name = "OPTION,...", value_parser = mount_options())]
    options: Vec<OsString>,
    /// Check everything that is checked before a mount is made, and mount nothing
    #[arg(long)]
    check: bool,
}

/// Reads each list by itself, so that an error in it is one of usage.
fn mount_options() -> impl TypedValueParser<Value = OsString> {
    let read = |list| MountOptions::parse(slice::from_ref(&list), Strictness::Strict).map(|_| list);
    OsStringValueParser::new().try_map(read)
}

impl MountArgs {
    /// All settings that were given.
    fn settings(&self) -> Result<MountSettings, String> {
        let options = MountOptions::parse(&self.options, Strictness::Strict)?;
        Ok(options.settings.followed_by(&self.settings.0))
    }

    /// The settings of the log.
    pub(super) fn log(&self) -> (bool, Option<LogFormat>) {
        self.settings().map_or_else(|_| (false, None), |settings| (settings.verbose(), settings.log_format))
    }
}

/// Runs the command; it ends with the mount, or when the mount is live.
pub(super) fn run(args: &MountArgs) -> Result<ExitStatus, CliError> {
    let given = args.settings().map_err(CliError::new)?;
    let manager = ServiceManager::from_environment();
    match given.daemon() {
        _ if args.check => check(given)?,
        true => serve_in_background(given, manager)?,
        false => serve(given, manager)?,
    }
    Ok(ExitStatus::Clean)
}

impl From<ServeError> for CliError {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Message(message) => Self::Message(message),
            ServeError::AlreadyReported => Self::AlreadyReported,
        }
    }
}

/// Whether `name` is the last part of `path`.
fn is_named(path: &OsStr, name: &str) -> bool {
    Path::new(path).file_name() == Some(OsStr::new(name))
}
