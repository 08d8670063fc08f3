//! `namegate mode`: an instance refuses, or lets through, from now on.

use std::io::Write;

use super::instances::Which;
use super::mount::mode_parser;
use super::reload::tell;
use super::{Status, Trouble};
use crate::gate::Mode;
use crate::service::control::{Reloaded, Request};

/// Set what an instance does with names that break the policy, at once and until the mount ends: reading the configuration
/// again does not change it back.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 done, 2 not done.")]
pub(super) struct Args {
    /// What happens when a name that breaks the policy is to be created.
    #[arg(value_parser = mode_parser())]
    mode: Mode,
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Status, Trouble> {
    let reloaded: Reloaded = args.which.ask(Request::Mode(args.mode))?;
    tell(&reloaded, out)?;
    Ok(Status::Clean)
}
