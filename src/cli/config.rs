//! `namegate config`: checks mount configurations, shows them with their defaults, and prints their schema.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use namegate_core::name::display::shown;
use namegate_settings::{MountFile, MountSettings, config_path, read, schema};

use super::policy_args::check_files;
use super::{CliError, ExitStatus};
use crate::service::mount_config::{build_gate, check_settings};

const EXAMPLES: &str = "\
Examples:
  namegate config check /etc/namegate/share.toml
  namegate config show share
  namegate config schema > namegate.schema.json";

const CHECK_EXAMPLES: &str = "\
Examples:
  namegate config check share                       # the file is /etc/namegate/share.toml
  namegate config check /etc/namegate/share.toml

Exit status: 0 all files are valid, 2 some file is not.";

const SHOW_EXAMPLES: &str = "\
Examples:
  namegate config show share
  namegate config show /etc/namegate/share.toml > complete.toml";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  namegate config schema > namegate.schema.json";

/// Check mount configurations, show one with its defaults, or print their JSON Schema
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, Subcommand)]
enum ConfigAction {
    /// Check mount configurations: report every error with line, column and the nearest known word
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// Files, or names of instances, whose files are /etc/namegate/NAME.toml
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Show a mount configuration completed with the defaults
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// File, or name of an instance, whose file is /etc/namegate/NAME.toml
        file: PathBuf,
    },
    /// Print the JSON Schema of mount configurations, for editors and for programs that write them
    #[command(after_help = SCHEMA_EXAMPLES)]
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

/// A mount configuration that is enough for a mount.
fn load(file: &Path) -> Result<MountFile, String> {
    let in_file =
        |error: namegate_core::policy::config::ConfigErrors| error.in_file(&shown(file)).to_string();
    let mount = MountFile::parse(&read(file)?).map_err(in_file)?;
    mount.check().map_err(in_file)?;
    let gate = || build_gate(&MountSettings::default(), &mount.settings, mount.policy.clone());
    check_settings(&mount.settings).and_then(|()| gate()).map_err(|why| format!("{}: {why}", shown(file)))?;
    Ok(mount)
}
