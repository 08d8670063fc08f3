//! `namegate fix`: repair that can be read first and undone after.

mod apply;
mod ask;
mod looking_on;
mod plan;
mod show;
mod status;
mod undo;

use std::io::Write;

use clap::Subcommand;

use super::{CliError, ExitStatus};

/// Give names that break the policy better ones: by a plan that can be read and edited before anything moves.
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
/// As each of the commands says.
pub fn run(args: Args, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    match args.command {
        Command::Plan(args) => plan::run(*args, out),
        Command::Apply(args) => apply::run(args, out),
        Command::Undo(args) => undo::run(&args, out),
        Command::Status(args) => status::run(&args, out),
    }
}
