//! `namegate man`: manual pages, made from the definition of the command line.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use super::policy_args::shown;
use super::{Status, Trouble};

/// Print the manual page, or write one for each command into a directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  namegate man | man -l -\n  namegate man /usr/local/share/man/man1")]
pub(super) struct Args {
    /// Where to write the pages; made if it does not exist.
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Status, Trouble> {
    let command = super::command().disable_help_subcommand(true);
    match &args.dir {
        None => clap_mangen::Man::new(command).render(&mut &mut *out)?,
        Some(dir) => fs::create_dir_all(dir)
            .and_then(|()| clap_mangen::generate_to(command, dir))
            .map_err(|error| Trouble::new(format!("cannot write manual pages to {}: {error}", shown(dir))))?,
    }
    Ok(Status::Clean)
}
