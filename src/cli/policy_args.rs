//! The options that choose a policy, for every command that checks names.

use std::io::Write;
use std::path::{Path, PathBuf};

use namegate_core::name::display::shown;
use namegate_core::policy::Policy;
use namegate_core::policy::config::Config;
use namegate_core::policy::profile::Profile;
use namegate_settings::Setting;

use super::setting_args::{SettingArgs, SettingGroup};
use super::{CliError, ExitStatus};

/// The options that select the policy.
pub type PolicyArgs = SettingArgs<PolicyGroup>;

#[derive(Clone, Debug, Default)]
pub struct PolicyGroup;

impl SettingGroup for PolicyGroup {
    fn has(setting: &Setting) -> bool {
        setting.is_policy
    }
}

impl SettingArgs<PolicyGroup> {
    /// The policy of the options: see [`MountSettings::policy`](namegate_settings::MountSettings::policy).
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

    /// Reports whether the options name profiles or a file.
    pub fn is_given(&self) -> bool {
        self.0.profile.is_some() || self.0.config.is_some()
    }

    /// A configuration with what the options change.
    ///
    /// # Errors
    /// A reaction without a form.
    pub fn change(&self, config: Config) -> Result<Config, CliError> {
        self.0.change_policy(Some(config), &[], &[]).map_err(CliError::new)
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
