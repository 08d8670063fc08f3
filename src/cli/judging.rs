//! The options that say what findings are held against: targets of a migration, and what is known already.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::policy_args::PolicyArgs;
use super::{Trouble, profiles};
use crate::name::display::shown;
use crate::name::reading::Encoding;
use crate::policy::Policy;
use crate::policy::profile::{Profile, STRICT};
use crate::report::baseline::Baseline;
use crate::scan::Settings;

/// What findings are held against.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Judging")]
pub struct JudgingArgs {
    /// Say how ready the names are for these targets, each of them a profile: what each would refuse, change or merge.
    #[arg(long = "target", value_name = "NAME,...", value_delimiter = ',', value_parser = profiles::parser())]
    #[arg(hide_possible_values = true)]
    targets: Vec<&'static Profile>,
    /// Where on the target the names will stand, as in 'C:\Data': lengths of paths count it.
    #[arg(long, value_name = "PATH")]
    prefix: Option<OsString>,
    /// Leave out the findings that stand in FILE, as --write-baseline wrote it.
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

impl JudgingArgs {
    /// The policy: targets and profiles together, or `strict` if there are none.
    ///
    /// # Errors
    /// As of [`PolicyArgs::policy`].
    pub fn policy(&self, args: &PolicyArgs) -> Result<Policy, Trouble> {
        let default: &[&Profile] = if self.targets.is_empty() { &[&STRICT] } else { &[] };
        args.policy_for(default, &self.targets)
    }

    /// Whether it was asked how ready the names are for some targets.
    pub fn asks_for_targets(&self) -> bool {
        !self.targets.is_empty()
    }

    /// What the scan has to know.
    ///
    /// # Errors
    /// The baseline cannot be read.
    pub fn settings(&self, encoding: Option<Encoding>) -> Result<Settings, Trouble> {
        let mut targets: Vec<&'static Profile> = Vec::new();
        for &target in &self.targets {
            if !targets.iter().any(|known| known.name == target.name) {
                targets.push(target);
            }
        }
        let mut prefix = self.prefix.clone().map(OsString::into_vec).unwrap_or_default();
        // A separator follows in any case, whichever of the two it is.
        if matches!(prefix.last(), Some(b'/' | b'\\')) {
            prefix.pop();
        }
        Ok(Settings { encoding, targets, prefix, baseline: self.baseline()?, owner_of: None })
    }

    fn baseline(&self) -> Result<Option<Baseline>, Trouble> {
        let Some(file) = &self.baseline else { return Ok(None) };
        let name = shown(file);
        let text =
            fs::read(file).map_err(|error| Trouble::new(format!("{name}: cannot be read: {error}")))?;
        Baseline::parse(&text).map(Some).map_err(|mistake| Trouble::new(format!("{name}: {mistake}")))
    }
}
