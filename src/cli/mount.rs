//! `namegate mount`: a tree behind the gate.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::ValueEnum;
use nix::errno::Errno;

use super::policy_args::PolicyArgs;
use super::{Status, Trouble};
use crate::fuse::{self, Options};
use crate::gate::{Existing, Gate, Mode};
use crate::policy::profile;

const EXAMPLES: &str = "\
Examples:
  namegate mount /srv/share /mnt/share
  namegate mount /srv/share /srv/share                 over itself: users see the mount alone
  namegate mount /srv/share /mnt/share --profile strict,windows -o ro
  namegate mount /srv/share /mnt/share --mode permissive --verbose

The mount lasts until `umount MOUNTPOINT`, Ctrl-C or SIGTERM. With --verbose every refusal is logged.";

/// Mount a tree so that no name that breaks the policy can be created in it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The directory that is served.
    source: PathBuf,
    /// Where it is mounted.
    mountpoint: PathBuf,
    /// What happens when a name that breaks the policy is to be created.
    #[arg(long, value_enum, default_value_t = ModeArg::Enforcing)]
    mode: ModeArg,
    /// How names that are there and not UTF-8 are seen; with --mode permissive always as with show.
    #[arg(long, value_enum, default_value_t = ExistingArg::Escape)]
    existing: ExistingArg,
    /// The error that a refused name gets.
    #[arg(long, value_enum, default_value_t = ErrnoArg::Eilseq, value_name = "ERRNO")]
    errno: ErrnoArg,
    /// Mount options: ro, rw, noexec, exec, allow_other, fsname=NAME; nodev and nosuid are always on.
    #[arg(short = 'o', long = "options", value_name = "OPTION,...", value_delimiter = ',')]
    options: Vec<MountOption>,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    /// It is refused.
    Enforcing,
    /// It is created, and logged with --verbose.
    Permissive,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExistingArg {
    /// Escaped, so that everything that leaves the mount is UTF-8: caf‛E9.
    Escape,
    /// As they are.
    Show,
    /// Not at all; a directory that holds them cannot be removed.
    Hide,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ErrnoArg {
    /// Invalid or incomplete multibyte or wide character.
    Eilseq,
    /// Invalid argument.
    Einval,
    /// Permission denied.
    Eacces,
    /// Operation not permitted.
    Eperm,
}

#[derive(Clone, Debug)]
enum MountOption {
    ReadOnly(bool),
    NoExec(bool),
    AllowOther,
    FsName(String),
    /// Asks for what is so anyway.
    Given,
}

impl FromStr for MountOption {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Ok(match word {
            "ro" => Self::ReadOnly(true),
            "rw" => Self::ReadOnly(false),
            "noexec" => Self::NoExec(true),
            "exec" => Self::NoExec(false),
            "allow_other" => Self::AllowOther,
            "nodev" | "nosuid" | "default_permissions" => Self::Given,
            _ => match word.strip_prefix("fsname=") {
                Some(name) if !name.is_empty() => Self::FsName(name.into()),
                _ => return Err("not a mount option of namegate".into()),
            },
        })
    }
}

/// Runs the command; it ends with the mount.
pub(super) fn run(args: Args) -> Result<Status, Trouble> {
    let policy = args.policy.policy(&[&profile::UTF8])?;
    let mode = match args.mode {
        ModeArg::Enforcing => Mode::Enforcing,
        ModeArg::Permissive => Mode::Permissive,
    };
    let for_violations = match args.errno {
        ErrnoArg::Eilseq => Errno::EILSEQ,
        ErrnoArg::Einval => Errno::EINVAL,
        ErrnoArg::Eacces => Errno::EACCES,
        ErrnoArg::Eperm => Errno::EPERM,
    };
    let mut options = Options { for_violations, ..Options::default() };
    for option in args.options {
        match option {
            MountOption::ReadOnly(is_on) => options.read_only = is_on,
            MountOption::NoExec(is_on) => options.no_exec = is_on,
            MountOption::AllowOther => options.allow_other = true,
            MountOption::FsName(name) => options.fsname = Some(name),
            MountOption::Given => {}
        }
    }
    let existing = match args.existing {
        ExistingArg::Escape => Existing::Escape,
        ExistingArg::Show => Existing::Show,
        ExistingArg::Hide => Existing::Hide,
    };
    let gate = Gate::new(Arc::new(policy), mode).with_existing(existing);
    fuse::mount(&args.source, &args.mountpoint, gate, &options).map_err(Trouble::new)?;
    Ok(Status::Clean)
}
