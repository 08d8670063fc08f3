//! `namegate fix`: repairs names, through a plan that people can read first and undo after.

mod apply;
mod ask;
mod plan;
mod show;
mod status;
mod undo;

use std::io::Write;

use clap::Subcommand;

use super::{CliError, ExitStatus};

/// Rename entries whose names break the policy, through a plan that can be edited first and undone later.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(Box<plan::Args>),
    Apply(apply::Args),
    Undo(undo::Args),
    Status(status::Args),
}

/// Runs the command.
///
/// # Errors
/// As each of the commands.
pub fn run(args: Args, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    match args.command {
        Command::Plan(args) => plan::run(*args, out),
        Command::Apply(args) => apply::run(args, out),
        Command::Undo(args) => undo::run(&args, out),
        Command::Status(args) => status::run(&args, out),
    }
}
