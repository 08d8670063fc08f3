//! `namegate config`: checks instance files, shows them whole, and prints their schema.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::policy_args::check_files;
use super::{CliError, ExitStatus};
use crate::name::display::shown;
use crate::settings::{MountFile, config_path, read, schema};

/// Check instance files, show one with its defaults, or print their schema.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Check instance files: every mistake with line, column and the nearest known word.
    ///
    /// The exit status is 0 if all files can be used, else 2.
    Check {
        /// The files, or the names of instances.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Show what an instance file says, and with which defaults that is filled up, as an instance file.
    Show {
        /// The file, or the name of an mount.
        file: PathBuf,
    },
    /// Print the JSON Schema of instance files, for editors and for programs that write such files.
    Schema,
}

pub(super) fn run(args: &ConfigArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    match &args.action {
        ConfigAction::Check { files } => {
            let files = files.iter().map(|file| config_path(file));
            return check_files(files, out, |file| load(file).map(|_| String::new()));
        }
        ConfigAction::Show { file } => {
            let mount = load(&config_path(file)).map_err(CliError::new)?;
            write!(out, "{}", mount.with_defaults().to_toml())?;
        }
        ConfigAction::Schema => {
            serde_json::to_writer_pretty(&mut *out, &schema()).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(ExitStatus::Clean)
}

/// An instance file that is enough for a mount.
fn load(file: &Path) -> Result<MountFile, String> {
    let in_file = |error: crate::policy::config::ConfigErrors| error.in_file(&shown(file)).to_string();
    let mount = MountFile::parse(&read(file)?).map_err(in_file)?;
    mount.check().map_err(in_file)?;
    Ok(mount)
}
