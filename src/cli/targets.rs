//! The options for targets of a migration and for known findings.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::ValueEnum;

use super::policy_args::PolicyArgs;
use super::{CliError, profiles};
use crate::name::display::shown;
use crate::name::reading::Encoding;
use crate::policy::Policy;
use crate::policy::profile::{Profile, STRICT};
use crate::policy::rule::Severity;
use crate::report::Summary;
use crate::report::baseline::{Baseline, RelativePaths};
use crate::scan::ScanSettings;

/// Targets and known findings.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Targets and known findings")]
pub struct TargetArgs {
    /// Check against these migration targets (profiles), and count for each the names that it would refuse, change or merge
    #[arg(long = "target", value_name = "NAME,...", value_delimiter = ',', value_parser = profiles::parser())]
    #[arg(hide_possible_values = true, help_heading = None, display_order = 0)]
    targets: Vec<&'static Profile>,
    /// Directory on the target, such as 'C:\Data'; it counts towards path lengths
    #[arg(long, value_name = "PATH")]
    prefix: Option<OsString>,
    /// Report and count only findings of at least this severity
    #[arg(long, value_name = "SEVERITY", value_enum)]
    min_severity: Option<MinSeverity>,
    /// Do not list the known findings in FILE, which --write-baseline wrote, and exit as if there were none; verdicts about targets
    /// count them
    #[arg(long, value_name = "FILE", conflicts_with = "write_baseline")]
    baseline: Option<PathBuf>,
}

/// The words of `--min-severity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MinSeverity {
    /// Warnings and errors
    Warn,
    /// Errors only
    Error,
}

impl From<MinSeverity> for Severity {
    fn from(word: MinSeverity) -> Self {
        match word {
            MinSeverity::Warn => Self::Warn,
            MinSeverity::Error => Self::Error,
        }
    }
}

impl TargetArgs {
    /// The policy: targets and profiles together, or `strict` if there are none.
    ///
    /// # Errors
    /// As of [`PolicyArgs::policy`].
    pub fn policy(&self, args: &PolicyArgs) -> Result<Policy, CliError> {
        let default: &[&Profile] = if self.targets.is_empty() { &[&STRICT] } else { &[] };
        args.policy_for(default, &self.targets)
    }

    /// Whether there are targets.
    pub fn asks_for_targets(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The settings of the scan, in which paths of known findings are relative to the roots of `paths`.
    ///
    /// # Errors
    /// The baseline cannot be read.
    pub fn settings(
        &self,
        encoding: Option<Encoding>,
        paths: &RelativePaths,
    ) -> Result<ScanSettings, CliError> {
        let mut targets: Vec<&'static Profile> = Vec::new();
        for &target in &self.targets {
            if !targets.iter().any(|known| known.name == target.name) {
                targets.push(target);
            }
        }
        let prefix = self.prefix.as_deref().map(read_prefix).unwrap_or_default();
        let min_severity = self.min_severity.map(Severity::from);
        let baseline = self.baseline(paths)?;
        Ok(ScanSettings { encoding, targets, prefix, min_severity, baseline, owner_of: None })
    }

    /// The path of the file with known findings.
    pub fn baseline_path(&self) -> Option<&[u8]> {
        self.baseline.as_deref().map(|path| path.as_os_str().as_bytes())
    }

    /// Fails if the baseline is evidently not one of what was scanned.
    ///
    /// # Errors
    /// It is.
    pub fn check_baseline(&self, summary: &Summary) -> Result<(), CliError> {
        let mismatch = summary.baseline.and_then(|accepted| accepted.mismatch());
        match (&self.baseline, mismatch) {
            (Some(file), Some(mismatch)) => Err(CliError::new(format!("{}: {mismatch}", shown(file)))),
            _ => Ok(()),
        }
    }

    fn baseline(&self, paths: &RelativePaths) -> Result<Option<Baseline>, CliError> {
        let Some(file) = &self.baseline else { return Ok(None) };
        let name = shown(file);
        let text = fs::read(file).map_err(|error| CliError::new(format!("cannot read {name}: {error}")))?;
        Baseline::parse(&text, paths.clone())
            .map(Some)
            .map_err(|error| CliError::new(format!("{name}: {error}")))
    }
}

/// The value of `--prefix` without a separator at its end: one follows in any case, whichever of the two it is.
pub(super) fn read_prefix(prefix: &OsStr) -> Vec<u8> {
    let bytes = prefix.as_bytes();
    bytes.strip_suffix(b"/").or_else(|| bytes.strip_suffix(b"\\")).unwrap_or(bytes).to_vec()
}
