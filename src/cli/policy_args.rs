//! The options that say which policy to judge by, for every command that judges, and the reading of the file they name.

use std::io::{self, Read, Write};
use std::path::{self, Path, PathBuf};
use std::{env, fs};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use nix::unistd::geteuid;

use super::{CliError, ExitStatus, profiles};
use crate::name::display::shown;
use crate::name::normalize::Form;
use crate::policy::config::{Config, ConfigErrors};
use crate::policy::profile::{self, Profile};
use crate::policy::{Normalization, OnMismatch, Policy};
use crate::settings::config::{Instance, is_instance};

/// Which policy to judge by.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Policy")]
pub struct PolicyArgs {
    /// Profiles to judge by, all of them together: `namegate profiles` lists them. Replaces those of the file.
    #[arg(long = "profile", value_name = "NAME,...", value_delimiter = ',', value_parser = profiles::parser())]
    #[arg(hide_possible_values = true)]
    profiles: Vec<&'static Profile>,
    /// A policy in TOML: profiles, severities, normalization, limits. Or an instance file, by path or name, for its policy.
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
    pub fn policy(&self, default_profiles: &[&'static Profile]) -> Result<Policy, CliError> {
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
    ) -> Result<Policy, CliError> {
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
    ) -> Result<Config, CliError> {
        let file = self.file().as_deref().map(load).transpose().map_err(CliError::new)?;
        self.resolve(file.map(ConfigFile::policy), default_profiles, targets)
    }

    /// The same for a file that was read already.
    ///
    /// # Errors
    /// A reaction without a form.
    pub(super) fn resolve(
        &self,
        config: Option<Config>,
        default_profiles: &[&'static Profile],
        targets: &[&'static Profile],
    ) -> Result<Config, CliError> {
        if self.on_mismatch.is_some() && self.normalize.is_none() {
            return Err(CliError::new("--on-mismatch says nothing without a form: --normalize <FORM>"));
        }
        let mut config = config.unwrap_or_else(|| Config::based_on(default_profiles));
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
    pub fn made_of(&self, config: &Config) -> Result<Policy, CliError> {
        let file = self.file().as_deref().map(shown).unwrap_or_default();
        config.policy().map_err(|error| CliError::new(error.in_file(&file)))
    }

    /// The file that is named, if there is one.
    pub(super) fn file(&self) -> Option<PathBuf> {
        self.config.as_deref().map(config_file)
    }

    /// Makes the path of the file one that holds in every directory.
    ///
    /// # Errors
    /// The working directory is not to be found.
    pub(super) fn make_absolute(&mut self) -> io::Result<()> {
        self.config = self.file().as_deref().map(path::absolute).transpose()?;
        Ok(())
    }
}

/// What `--config` means: a path, or, without `/` and `.`, the name of an instance.
pub(super) fn config_file(word: &Path) -> PathBuf {
    let is_name = !word.as_os_str().as_encoded_bytes().iter().any(|byte| b"/.".contains(byte));
    if !is_name {
        return word.into();
    }
    let mut file = word.as_os_str().to_owned();
    file.push(".toml");
    let of_user = env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".config")))
        .map(|config| config.join("namegate").join(&file));
    match of_user.filter(|file| !geteuid().is_root() && file.exists()) {
        Some(of_user) => of_user,
        None => Path::new("/etc/namegate").join(file),
    }
}

/// What a configuration file says.
#[derive(Debug)]
pub(super) enum ConfigFile {
    /// By what to judge.
    Policy(Box<Config>),
    /// What a mount is, its policy included.
    Instance(Box<Instance>),
}

impl ConfigFile {
    /// By what it judges.
    pub(super) fn policy(self) -> Config {
        match self {
            Self::Policy(policy) => *policy,
            Self::Instance(instance) => {
                instance.policy.unwrap_or_else(|| Config::based_on(&[&profile::UTF8]))
            }
        }
    }
}

/// Reads a configuration file of either kind.
///
/// # Errors
/// What is wrong, with the name of the file; a mistake in the text also with line and column.
pub(super) fn load(path: &Path) -> Result<ConfigFile, String> {
    let text = read(path)?;
    let in_file = |error: ConfigErrors| error.in_file(&shown(path)).to_string();
    match is_instance(&text) {
        true => {
            Instance::parse(&text).map(|instance| ConfigFile::Instance(Box::new(instance))).map_err(in_file)
        }
        false => Config::parse(&text).map(|config| ConfigFile::Policy(Box::new(config))).map_err(in_file),
    }
}

/// Says of each file what `judge` says of it: that it is good, with what is to be told besides, or all its mistakes.
///
/// # Errors
/// The output cannot be written.
pub(super) fn check_files(
    files: impl IntoIterator<Item = PathBuf>,
    out: &mut dyn Write,
    judge: impl Fn(&Path) -> Result<String, String>,
) -> Result<ExitStatus, CliError> {
    let mut status = ExitStatus::Clean;
    for file in files {
        match judge(&file) {
            Ok(besides) => writeln!(out, "{}: ok{besides}", shown(&file))?,
            Err(errors) => {
                writeln!(out, "{errors}")?;
                status = ExitStatus::Failed;
            }
        }
    }
    Ok(status)
}

/// Reads the text of a configuration file.
///
/// # Errors
/// What is wrong, with the name of the file.
pub(super) fn read(path: &Path) -> Result<String, String> {
    /// A configuration is a few lines; whatever is this long is something else.
    const MAX_BYTES: u64 = 1 << 20;
    let file = shown(path);
    let unreadable = |error| format!("{file}: cannot be read: {error}");
    let mut bytes = Vec::new();
    let opened = fs::File::open(path).map_err(unreadable)?;
    opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("{file}: too long for a configuration: more than {MAX_BYTES} bytes"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("{file}: not UTF-8: the byte {:02X} at offset {at}", error.as_bytes()[at])
    })
}
