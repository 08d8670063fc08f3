//! `namegate mode`: makes an instance refuse names, encode them, or let them through.

use std::io::Write;

use namegate_core::gate::Mode;

use super::instances::InstanceSelector;
use super::reload::tell;
use super::setting_args::choice_parser;
use super::{CliError, ExitStatus};
use crate::service::control::{ControlRequest, ReloadOutcome};

const EXAMPLES: &str = "\
The mode changes at once and lasts until the mount ends. A reload does not change it back.

What mode encode stores has other names in the other modes, and the other way round: programs that
synchronize must not run meanwhile.

Examples:
  namegate mode permissive share    # let every name through, and record it
  namegate mode encode share        # store substitutes for what the policy refuses
  namegate mode enforcing share     # refuse names that break the policy

Exit status: 0 the mode is set; 2 it is not.";

/// Make a mount refuse names that break the policy, encode them, or let them through
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
