//! The options that say which policy to judge by, for every command that judges, and the reading of the file they name.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{Trouble, profiles};
use crate::name::display::display;
use crate::name::normalize::Form;
use crate::policy::config::Config;
use crate::policy::profile::Profile;
use crate::policy::{Normalization, OnMismatch, Policy};

/// Which policy to judge by.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Policy")]
pub struct PolicyArgs {
    /// Profiles to judge by, all of them together: `namegate profiles` lists them. Replaces those of the file.
    #[arg(long = "profile", value_name = "NAME,...", value_delimiter = ',', value_parser = profiles::parser())]
    #[arg(hide_possible_values = true)]
    profiles: Vec<&'static Profile>,
    /// A policy in TOML: profiles, severities, normalization, limits.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Ask for names in this normalization form. Replaces the normalization of the file.
    #[arg(long, value_name = "FORM", value_parser = forms())]
    normalize: Option<Form>,
    /// What happens to a name in another form [default: refuse].
    #[arg(long, value_name = "REACTION", value_parser = reactions())]
    on_mismatch: Option<OnMismatch>,
}

fn forms() -> impl TypedValueParser<Value = Form> {
    PossibleValuesParser::new(Form::ALL.map(Form::as_str)).try_map(|form| form.parse::<Form>())
}

fn reactions() -> impl TypedValueParser<Value = OnMismatch> {
    let reaction = |word: String| {
        OnMismatch::ALL.into_iter().find(|reaction| reaction.as_str() == word).ok_or("not a reaction")
    };
    PossibleValuesParser::new(OnMismatch::ALL.map(OnMismatch::as_str)).try_map(reaction)
}

impl PolicyArgs {
    /// These, and what they leave unsaid as in `other`. The profiles of both count.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            profiles: [other.profiles, self.profiles].concat(),
            config: self.config.or(other.config),
            normalize: self.normalize.or(other.normalize),
            on_mismatch: self.on_mismatch.or(other.on_mismatch),
        }
    }

    /// The policy that the options ask for: the file as changed by the other options, or without a file the given
    /// profiles, or without those `default_profiles`.
    ///
    /// # Errors
    /// A reaction without a form, a file that cannot be read, all mistakes in it, and rules that the file switches on and that
    /// lack a parameter once its profiles are replaced.
    pub fn policy(&self, default_profiles: &[&'static Profile]) -> Result<Policy, Trouble> {
        self.policy_for(default_profiles, &[])
    }

    /// The same, and `targets` beside the profiles.
    ///
    /// # Errors
    /// As of [`policy`](Self::policy).
    pub fn policy_for(
        &self,
        default_profiles: &[&'static Profile],
        targets: &[&'static Profile],
    ) -> Result<Policy, Trouble> {
        self.made_of(&self.config_for(default_profiles, targets)?)
    }

    /// The same as a configuration, to be added to.
    ///
    /// # Errors
    /// As of [`policy`](Self::policy), apart from rules that lack a parameter.
    pub fn config_for(
        &self,
        default_profiles: &[&'static Profile],
        targets: &[&'static Profile],
    ) -> Result<Config, Trouble> {
        if self.on_mismatch.is_some() && self.normalize.is_none() {
            return Err(Trouble::new("--on-mismatch says nothing without a form: --normalize <FORM>"));
        }
        let mut config = match &self.config {
            Some(file) => load(file).map_err(Trouble::new)?,
            None => Config::based_on(default_profiles),
        };
        if !self.profiles.is_empty() {
            config.profiles = Some(self.profiles.clone());
        }
        if !targets.is_empty() {
            config.profiles.get_or_insert_default().extend(targets);
        }
        if let Some(form) = self.normalize {
            let on_mismatch = self.on_mismatch.unwrap_or(OnMismatch::Refuse);
            config.normalization = Some(Normalization { form, on_mismatch });
        }
        Ok(config)
    }

    /// The policy that such a configuration asks for.
    ///
    /// # Errors
    /// Rules that are switched on and lack a parameter, by their place in the file.
    pub fn made_of(&self, config: &Config) -> Result<Policy, Trouble> {
        let file = self.config.as_deref().map(shown).unwrap_or_default();
        config.policy().map_err(|error| Trouble::new(error.in_file(&file)))
    }
}

/// Reads a configuration file.
///
/// # Errors
/// What is wrong, with the name of the file; a mistake in the text also with line and column.
pub(super) fn load(path: &Path) -> Result<Config, String> {
    /// A policy is a few lines; whatever is this long is something else.
    const MAX_BYTES: u64 = 1 << 20;
    let file = shown(path);
    let unreadable = |error| format!("{file}: cannot be read: {error}");
    let mut bytes = Vec::new();
    let opened = File::open(path).map_err(unreadable)?;
    opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{file}: too long for a configuration: more than {MAX_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{file}: not UTF-8: the byte {:02X} at offset {at}", error.as_bytes()[at])
    })?;
    Config::parse(&text).map_err(|error| error.in_file(&file).to_string())
}

/// The name of a file as it may be shown.
pub(super) fn shown(path: &Path) -> String {
    display(path.as_os_str().as_encoded_bytes()).to_string()
}
