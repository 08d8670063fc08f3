//! `namegate fix`: repairs names, through a plan that people can read first and undo after.

mod apply;
#[cfg(feature = "archive")]
mod archive;
mod ask;
mod encoding_arg;
mod journals;
mod plan;
mod plan_files;
mod plan_input;
mod show;
mod show_plan;
mod status;
mod undo;

use std::io::Write;

use clap::Subcommand;
use namegate_sys::{allocation, open_files};

pub(super) use self::plan_input::{confidences, read_plan};
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate fix plan /srv/share -o plan.jsonl
  namegate fix plan /srv/share -o review.html   # a page to decide in
  namegate fix apply plan.jsonl           # show what would be done
  namegate fix apply plan.jsonl --yes
  namegate fix status
  namegate fix undo --last --yes";

/// Rename entries whose names break the policy, through a plan that can be edited first and undone later
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FixArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(Box<plan::PlanArgs>),
    Show(show_plan::ShowPlanArgs),
    Apply(apply::ApplyArgs),
    #[cfg(feature = "archive")]
    Archive(Box<archive::ArchiveArgs>),
    Undo(undo::UndoArgs),
    Status(status::FixStatusArgs),
}

/// Runs the command.
///
/// # Errors
/// As each of the commands.
pub fn run(args: FixArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    open_files::raise_limit();
    allocation::return_large_buffers();
    match args.command {
        Command::Plan(args) => plan::run(*args, out),
        Command::Show(args) => show_plan::run(&args, out),
        Command::Apply(args) => apply::run(args, out),
        #[cfg(feature = "archive")]
        Command::Archive(args) => archive::run(&args, out),
        Command::Undo(args) => undo::run(&args, out),
        Command::Status(args) => status::run(&args, out),
    }
}
