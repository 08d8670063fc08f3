//! What can be set for a mount: the long options. `-o` takes the same words and reads them by the same definitions.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use nix::errno::Errno;

use crate::cli::metrics_args::MetricsArgs;
use crate::cli::policy_args::PolicyArgs;
use crate::gate::{Existing, Mode};
use crate::settings::config::{Choice, ERRNOS, EXISTING, MODES};
use crate::telemetry::audit::MIN_BYTES_PER_SECOND;

/// All of it can be left unsaid.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Settings {
    /// What happens when a name that breaks the policy is to be created [default: enforcing].
    #[arg(long, value_parser = word(MODES))]
    pub(super) mode: Option<Mode>,
    /// How names that are there and not UTF-8 are seen; with --mode permissive always as with show [default: escape].
    #[arg(long, value_parser = word(EXISTING))]
    pub(super) existing: Option<Existing>,
    /// The error that a refused name gets [default: by-rule].
    #[arg(long, value_parser = word(ERRNOS), ignore_case = true)]
    pub(super) errno: Option<Option<Errno>>,
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
    /// At most this many audit records per user and second; the rest are only counted [default: 100].
    #[arg(long, value_name = "PER-SECOND")]
    pub(super) audit_rate: Option<NonZeroU32>,
    /// At most this many bytes of audit records per user and second, in the log and FILE together; the rest are only
    /// counted [default: 16384].
    #[arg(long, value_name = "PER-SECOND", value_parser = audit_bytes)]
    pub(super) audit_bytes: Option<NonZeroU32>,
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
            audit_bytes: self.audit_bytes.or(other.audit_bytes),
            metrics: self.metrics.or(other.metrics),
            no_sandbox: self.no_sandbox || other.no_sandbox,
            policy: self.policy.or(other.policy),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    /// They do.
    On,
    /// They do not.
    Off,
}

impl From<bool> for Switch {
    fn from(is_on: bool) -> Self {
        if is_on { Self::On } else { Self::Off }
    }
}

/// What `namegate mode` takes.
pub(in crate::cli) fn mode_parser() -> impl TypedValueParser<Value = Mode> {
    word(MODES)
}

/// One of the words of `choices`.
fn word<T: Copy + Send + Sync + 'static>(choices: &'static [Choice<T>]) -> impl TypedValueParser<Value = T> {
    let words = choices.iter().map(|choice| PossibleValue::new(choice.word).help(choice.help));
    let is_it = |word: &str, choice: &Choice<T>| choice.word.eq_ignore_ascii_case(word);
    PossibleValuesParser::new(words).try_map(move |word| {
        choices
            .iter()
            .find(|choice| is_it(&word, choice))
            .map(|choice| choice.value)
            .ok_or("not a word for it")
    })
}

fn audit_bytes(text: &str) -> Result<NonZeroU32, String> {
    let bytes = text.parse().ok().filter(|bytes: &NonZeroU32| bytes.get() >= MIN_BYTES_PER_SECOND);
    bytes.ok_or_else(|| format!("not a number from {MIN_BYTES_PER_SECOND} to {}", u32::MAX))
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or("not a number of seconds, such as 0, 0.5 or 60")
}
