//! The options for targets of a migration and for known findings.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::ValueEnum;
use namegate_core::name::display::shown;
use namegate_core::name::reading::Encoding;
use namegate_core::policy::config::Config;
use namegate_core::policy::profile::{Profile, STRICT};
use namegate_core::policy::rule::Severity;
use namegate_core::policy::{Policy, RepairScope};
use namegate_files::signature::{self, TextKind};
use namegate_scan::ScanSettings;
use namegate_scan::probe::Probe;
use namegate_scan::report::Summary;
use namegate_scan::report::baseline::{Baseline, RelativePaths};

use super::policy_args::PolicyArgs;
use super::probe::ask_for_policy;
use super::{CliError, profiles};

/// Targets and known findings.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Targets and known findings")]
pub struct TargetArgs {
    #[command(flatten)]
    selection: TargetSelection,
    /// Do not list the known findings in FILE, which --write-baseline wrote, and exit as if there were none; verdicts about targets
    /// count them
    #[arg(long, value_name = "FILE", conflicts_with = "write_baseline")]
    baseline: Option<PathBuf>,
}

/// The targets, and what of their rules counts; the same for scans and plans, so that both suggest the same names.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Targets")]
pub struct TargetSelection {
    /// Check against these migration targets (profiles), and count for each the names that it would refuse, change or merge
    #[arg(long = "target", value_name = "NAME,...", value_delimiter = ',', value_parser = profiles::parser())]
    #[arg(hide_possible_values = true, help_heading = None, display_order = 0)]
    targets: Vec<&'static Profile>,
    /// Ask the directory PATH on the target which names it stores, as `namegate probe PATH` does, and check against that
    #[arg(long = "for", value_name = "PATH", conflicts_with_all = ["targets", "profile", "config"])]
    #[arg(help_heading = None, display_order = 9)]
    asked: Option<PathBuf>,
    /// Directory on the target, such as 'C:\Data'; it counts towards path lengths
    #[arg(long, value_name = "PATH")]
    prefix: Option<OsString>,
    /// Lowest severity that counts. `warn` also suggests names for what a target only advises against [default: all are reported, and
    /// errors and damage get a suggested name]
    #[arg(long, value_name = "SEVERITY", value_enum)]
    min_severity: Option<MinSeverity>,
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

impl TargetSelection {
    /// What the target of `--for` answers; `None` without that option.
    ///
    /// # Errors
    /// It cannot be asked.
    pub fn ask(&self) -> Result<Option<Probe>, CliError> {
        self.asked.as_deref().map(ask_for_policy).transpose()
    }

    /// The policy: that of the target that was asked, or targets and profiles together, or `strict` if there are none, after `change`.
    /// `shortens`: names that are too long get shorter ones.
    ///
    /// # Errors
    /// As of [`PolicyArgs::policy`].
    pub fn policy(
        &self,
        args: &PolicyArgs,
        asked: Option<&Probe>,
        shortens: bool,
        change: impl FnOnce(&mut Config),
    ) -> Result<Policy, CliError> {
        let default: &[&Profile] = if self.targets.is_empty() { &[&STRICT] } else { &[] };
        let mut config = match asked {
            Some(asked) => args.change(asked.fit.config.clone())?,
            None => args.config_for(default, &self.targets)?,
        };
        change(&mut config);
        let min_severity = self.min_severity().unwrap_or(Severity::Error);
        Ok(args.build(&config)?.with_repairs(RepairScope { min_severity, shortens }))
    }

    /// The lowest severity that was requested.
    pub fn min_severity(&self) -> Option<Severity> {
        self.min_severity.map(Severity::from)
    }

    /// The prefix of paths on the target, without a separator at its end.
    pub fn prefix(&self) -> Vec<u8> {
        self.prefix.as_deref().map(read_prefix).unwrap_or_default()
    }
}

impl TargetArgs {
    /// What the target of `--for` answers, and the policy.
    ///
    /// # Errors
    /// As of [`TargetSelection::ask`] and [`TargetSelection::policy`].
    pub fn policy(&self, args: &PolicyArgs) -> Result<(Option<Probe>, Policy), CliError> {
        let asked = self.selection.ask()?;
        let policy = self.selection.policy(args, asked.as_ref(), false, |_| {})?;
        Ok((asked, policy))
    }

    /// Whether there are targets.
    pub fn asks_for_targets(&self) -> bool {
        !self.selection.targets.is_empty()
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
        for &target in &self.selection.targets {
            if !targets.iter().any(|known| known.name == target.name) {
                targets.push(target);
            }
        }
        let (prefix, min_severity) = (self.selection.prefix(), self.selection.min_severity());
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
        let unreadable = |error: io::Error| CliError::new(format!("cannot read {name}: {error}"));
        let text = fs::read(file).map_err(unreadable)?;
        let text = signature::strip(&text, TextKind::Syntax, &name).map_err(unreadable)?;
        Baseline::parse(text, paths.clone())
            .map(Some)
            .map_err(|error| CliError::new(format!("{name}: {error}")))
    }
}

/// The value of `--prefix` without a separator at its end: one follows in any case, whichever of the two it is.
fn read_prefix(prefix: &OsStr) -> Vec<u8> {
    let bytes = prefix.as_bytes();
    bytes.strip_suffix(b"/").or_else(|| bytes.strip_suffix(b"\\")).unwrap_or(bytes).to_vec()
}
