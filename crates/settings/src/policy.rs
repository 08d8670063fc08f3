//! Which policy the settings ask for: profiles, a file, a normalization; and the files of configurations.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{self, Path, PathBuf};

use namegate_core::name::display::shown;
use namegate_core::policy::config::{Config, ConfigErrors};
use namegate_core::policy::profile::{self, Profile};
use namegate_core::policy::{Normalization, Policy};
use namegate_files::signature::{self, TextKind};
use nix::unistd::geteuid;

use super::{MountFile, MountSettings, SettingKind, SettingPlace, TABLE, is_mount_file};

/// What `--config` names.
#[derive(Debug)]
pub enum ConfigFile {
    Policy(Box<Config>),
    /// A mount configuration, which holds a policy.
    Mount(Box<MountFile>),
}

impl ConfigFile {
    pub fn policy(self) -> Config {
        match self {
            Self::Policy(policy) => *policy,
            Self::Mount(file) => file.policy.unwrap_or_else(|| Config::based_on(&[&profile::UTF8])),
        }
    }

    /// Reads a configuration file of either kind.
    ///
    /// # Errors
    /// What is wrong, with the name of the file; an error in the text also with line and column.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = read(path)?;
        let in_file = |error: ConfigErrors| error.in_file(&shown(path)).to_string();
        match is_mount_file(&text) {
            true => MountFile::parse(&text).map(|file| Self::Mount(Box::new(file))).map_err(in_file),
            false => Config::parse(&text).map(|config| Self::Policy(Box::new(config))).map_err(in_file),
        }
    }
}

impl MountSettings {
    /// The policy that the settings ask for: the file with what the other settings change, or without a file the given profiles,
    /// or without those `default_profiles`.
    ///
    /// # Errors
    /// A reaction without a form, a file that cannot be read, all errors in it, and rules that the file switches on and that
    /// lack a parameter once its profiles are replaced.
    pub fn policy(
        &self,
        default_profiles: &[&'static Profile],
        targets: &[&'static Profile],
    ) -> Result<Policy, String> {
        self.build_policy(&self.policy_config(default_profiles, targets)?)
    }

    /// The same as a configuration, to be added to, with `targets` beside the profiles.
    ///
    /// # Errors
    /// As of [`policy`](Self::policy), apart from rules that lack a parameter.
    pub fn policy_config(
        &self,
        default_profiles: &[&'static Profile],
        targets: &[&'static Profile],
    ) -> Result<Config, String> {
        let file = self.config_path().as_deref().map(ConfigFile::load).transpose()?;
        self.change_policy(file.map(ConfigFile::policy), default_profiles, targets)
    }

    /// The same for a file that was read already.
    ///
    /// # Errors
    /// A reaction without a form.
    pub fn change_policy(
        &self,
        config: Option<Config>,
        default_profiles: &[&'static Profile],
        targets: &[&'static Profile],
    ) -> Result<Config, String> {
        if self.on_mismatch.is_some() && self.normalize.is_none() {
            return Err("--on-mismatch has no effect without a form: --normalize <FORM>".into());
        }
        let mut config = config.unwrap_or_else(|| Config::based_on(default_profiles));
        if let Some(profiles) = &self.profile {
            config.profiles = Some(profiles.clone());
        }
        if !targets.is_empty() {
            config.profiles.get_or_insert_default().extend(targets);
        }
        if let Some(units) = self.reserve {
            config.limits.reserve = Some(units.get() as usize);
        }
        if let Some(depth) = self.library_depth {
            config.library_depth = Some(depth as usize);
        }
        if let Some(form) = self.normalize {
            config.normalization = Some(Normalization { form, on_mismatch: self.on_mismatch() });
        }
        Ok(config)
    }

    /// The policy of such a configuration.
    ///
    /// # Errors
    /// Rules that are switched on and lack a parameter, by their place in the file.
    pub fn build_policy(&self, config: &Config) -> Result<Policy, String> {
        let file = self.config_path().as_deref().map(shown).unwrap_or_default();
        config.policy().map_err(|error| error.in_file(&file).to_string())
    }

    /// The path of the file that `config` names.
    pub fn config_path(&self) -> Option<PathBuf> {
        self.config.as_deref().map(config_path)
    }

    /// Makes the paths of files such that they mean the same in every working directory; `-` stays.
    ///
    /// # Errors
    /// The working directory cannot be found.
    pub fn make_absolute(&mut self) -> io::Result<()> {
        self.config = self.config_path();
        for setting in TABLE.iter().filter(|setting| matches!(setting.kind, SettingKind::Path)) {
            let path =
                self.get(setting).filter(|path| path != "-" && !setting.may_stand(SettingPlace::Argument));
            if let Some(path) = path {
                let set = self.set(setting, path::absolute(path)?.as_os_str());
                debug_assert!(set.is_ok(), "an absolute path is a path");
            }
        }
        Ok(())
    }
}

/// What `--config` means: a path, or, without `/` and `.`, the name of a mount configuration.
pub fn config_path(word: &Path) -> PathBuf {
    let is_name = !word.as_os_str().as_encoded_bytes().iter().any(|byte| b"/.".contains(byte));
    if !is_name {
        return word.into();
    }
    let mut file: OsString = word.into();
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

/// Reads the text of a configuration file.
///
/// # Errors
/// What is wrong, with the name of the file.
pub fn read(path: &Path) -> Result<String, String> {
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
    let text =
        signature::strip(&bytes, TextKind::Syntax, &file).map_err(|error| format!("{file}: {error}"))?;
    let text = std::str::from_utf8(text).map_err(|error| {
        let at = error.valid_up_to();
        format!("{file}: not UTF-8: the byte {:02X} at offset {at}", text[at])
    })?;
    Ok(text.to_owned())
}
