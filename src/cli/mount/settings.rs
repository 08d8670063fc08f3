//! What can be set for a mount: the long options. `-o` takes the same words and reads them by the same definitions.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use nix::errno::Errno;

use crate::cli::metrics_args::MetricsArgs;
use crate::cli::policy_args::PolicyArgs;
use crate::gate::{Existing, Mode};

/// All of it can be left unsaid.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Settings {
    /// What happens when a name that breaks the policy is to be created [default: enforcing].
    #[arg(long, value_enum)]
    pub(super) mode: Option<ModeWord>,
    /// How names that are there and not UTF-8 are seen; with --mode permissive always as with show [default: escape].
    #[arg(long, value_enum)]
    pub(super) existing: Option<ExistingWord>,
    /// The error that a refused name gets [default: EILSEQ].
    #[arg(long, value_enum, ignore_case = true)]
    pub(super) errno: Option<ErrnoWord>,
    /// Judge the targets of new symbolic links too, each component like a new name.
    #[arg(long)]
    pub(super) check_targets: bool,
    /// How long a name that was looked up is taken for granted; changes made directly in the source show by then [default: 1].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) entry_timeout: Option<Duration>,
    /// The same for attributes [default: 1].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) attr_timeout: Option<Duration>,
    /// Append a line of JSON for each name that is refused or let through; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    pub(super) audit: Option<PathBuf>,
    /// The group that the file of --audit belongs to, which may read it [default: that of the process].
    #[arg(long, value_name = "GROUP")]
    pub(super) audit_group: Option<String>,
    /// Whether they go to the log too, or only to the file of --audit [default: on].
    #[arg(long, value_enum, value_name = "WHETHER")]
    pub(super) audit_log: Option<Switch>,
    /// Of more refusals of one user than that in one second the others are counted only [default: 100].
    #[arg(long, value_name = "PER-SECOND")]
    pub(super) audit_rate: Option<NonZeroU32>,
    /// Keep all privileges, and filter no system call.
    #[arg(long)]
    pub(super) no_sandbox: bool,
    #[command(flatten)]
    pub(super) metrics: MetricsArgs,
    #[command(flatten)]
    pub(super) policy: PolicyArgs,
}

impl Settings {
    /// These, and what they leave unsaid as in `other`. The profiles of both count.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            mode: self.mode.or(other.mode),
            existing: self.existing.or(other.existing),
            errno: self.errno.or(other.errno),
            check_targets: self.check_targets || other.check_targets,
            entry_timeout: self.entry_timeout.or(other.entry_timeout),
            attr_timeout: self.attr_timeout.or(other.attr_timeout),
            audit: self.audit.or(other.audit),
            audit_group: self.audit_group.or(other.audit_group),
            audit_log: self.audit_log.or(other.audit_log),
            audit_rate: self.audit_rate.or(other.audit_rate),
            metrics: self.metrics.or(other.metrics),
            no_sandbox: self.no_sandbox || other.no_sandbox,
            policy: self.policy.or(other.policy),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeWord {
    /// It is refused.
    #[default]
    Enforcing,
    /// It is created, and recorded.
    Permissive,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ExistingWord {
    /// Escaped, so that everything that leaves the mount is UTF-8: caf‛E9.
    #[default]
    Escape,
    /// As they are.
    Show,
    /// Not at all; a directory that holds them cannot be removed.
    Hide,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ErrnoWord {
    /// Invalid or incomplete multibyte or wide character.
    #[default]
    #[value(name = "EILSEQ")]
    Eilseq,
    /// Invalid argument.
    #[value(name = "EINVAL")]
    Einval,
    /// Permission denied.
    #[value(name = "EACCES")]
    Eacces,
    /// Operation not permitted.
    #[value(name = "EPERM")]
    Eperm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    /// They do.
    On,
    /// They do not.
    Off,
}

impl From<ModeWord> for Mode {
    fn from(word: ModeWord) -> Self {
        match word {
            ModeWord::Enforcing => Self::Enforcing,
            ModeWord::Permissive => Self::Permissive,
        }
    }
}

impl From<ExistingWord> for Existing {
    fn from(word: ExistingWord) -> Self {
        match word {
            ExistingWord::Escape => Self::Escape,
            ExistingWord::Show => Self::Show,
            ExistingWord::Hide => Self::Hide,
        }
    }
}

impl From<ErrnoWord> for Errno {
    fn from(word: ErrnoWord) -> Self {
        match word {
            ErrnoWord::Eilseq => Self::EILSEQ,
            ErrnoWord::Einval => Self::EINVAL,
            ErrnoWord::Eacces => Self::EACCES,
            ErrnoWord::Eperm => Self::EPERM,
        }
    }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or("not a number of seconds, such as 0, 0.5 or 60")
}
