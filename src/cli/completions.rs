//! `namegate completions`: what a shell needs to complete our command line.

use std::io::Write;

use clap_complete::Shell;

use super::{CliError, ExitStatus};

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  namegate completions bash > ~/.local/share/bash-completion/completions/namegate
  namegate completions zsh > ~/.zfunc/_namegate
  namegate completions fish > ~/.config/fish/completions/namegate.fish")]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    // The generator panics where it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "namegate", &mut script);
    out.write_all(&script)?;
    Ok(ExitStatus::Clean)
}
