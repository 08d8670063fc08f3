//! `namegate mode`: makes an instance refuse names, repair them, or let them through.

use std::io::Write;

use namegate_core::gate::Mode;

use super::instances::InstanceSelector;
use super::reload::tell;
use super::setting_args::choice_parser;
use super::{CliError, ExitStatus};
use crate::service::control::{ControlRequest, ReloadOutcome};

const EXAMPLES: &str = "\
The mode changes at once and lasts until the mount ends. A reload does not change it back.

Do not mirror or synchronize to a mount in mode repair: a program such as `rsync --delete` finds
other names than it wrote, and removes the files.

Examples:
  namegate mode permissive share    # let every name through, and record it
  namegate mode repair share        # store the nearest valid name instead
  namegate mode enforcing share     # refuse names that break the policy

Exit status: 0 the mode is set; 2 it is not.";

/// Make a mount refuse names that break the policy, repair them, or let them through
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ModeArgs {
    /// What to do with new names that break the policy
    #[arg(value_parser = choice_parser::<Mode>())]
    mode: Mode,
    #[command(flatten)]
    which: InstanceSelector,
}

pub(super) fn run(args: &ModeArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let reloaded: ReloadOutcome = args.which.ask(ControlRequest::Mode(args.mode))?;
    tell(&reloaded, out)?;
    Ok(ExitStatus::Clean)
}
