//! The options that choose a policy, for every command that checks names.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::error::Result as ClapResult;
use clap::{ArgMatches, Command, FromArgMatches};
use namegate_core::name::display::shown;
use namegate_core::policy::Policy;
use namegate_core::policy::config::Config;
use namegate_core::policy::profile::Profile;
use namegate_settings::{MountSettings, Setting};

use super::{CliError, ExitStatus, setting_args};

/// The options that select the policy.
#[derive(Clone, Debug, Default)]
pub struct PolicyArgs(Box<MountSettings>);

fn is_of_policy(setting: &Setting) -> bool {
    setting.is_policy
}

impl clap::Args for PolicyArgs {
    fn augment_args(command: Command) -> Command {
        setting_args::add(command, is_of_policy)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PolicyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> ClapResult<Self> {
        Ok(Self(Box::new(setting_args::given(matches, is_of_policy))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> ClapResult<()> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl PolicyArgs {
    /// The policy of the options: see [`MountSettings::policy`].
    ///
    /// # Errors
    /// What is wrong with the options, or with the file that they name.
    pub fn policy(&self, default_profiles: &[&'static Profile]) -> Result<Policy, CliError> {
        self.0.policy(default_profiles, &[]).map_err(CliError::new)
    }

    /// The configuration of the options, with `targets` beside the profiles, to be added to.
    ///
    /// # Errors
    /// As of [`policy`](Self::policy), apart from rules that lack a parameter.
    pub fn config_for(
        &self,
        default_profiles: &[&'static Profile],
        targets: &[&'static Profile],
    ) -> Result<Config, CliError> {
        self.0.policy_config(default_profiles, targets).map_err(CliError::new)
    }

    /// The policy of such a configuration.
    ///
    /// # Errors
    /// Rules that are switched on and lack a parameter, by their place in the file.
    pub fn build(&self, config: &Config) -> Result<Policy, CliError> {
        self.0.build_policy(config).map_err(CliError::new)
    }
}

/// Reports for each file what `check` says of it: that it is good, with a remark, or all its errors.
///
/// # Errors
/// The output cannot be written.
pub(super) fn check_files(
    files: impl IntoIterator<Item = PathBuf>,
    out: &mut dyn Write,
    check: impl Fn(&Path) -> Result<String, String>,
) -> Result<ExitStatus, CliError> {
    let mut status = ExitStatus::Clean;
    for file in files {
        match check(&file) {
            Ok(remark) => writeln!(out, "{}: ok{remark}", shown(&file))?,
            Err(errors) => {
                writeln!(out, "{errors}")?;
                status = ExitStatus::Failed;
            }
        }
    }
    Ok(status)
}
