//! `namegate metrics`: what an instance counts, for Prometheus.

use std::io::Write;

use namegate_core::name::display::harmless;

use super::instances::InstanceSelector;
use super::{CliError, ExitStatus};
use crate::service::control::ControlRequest;

const EXAMPLES: &str = "\
Examples:
  namegate metrics share
  namegate metrics share | grep refusals

Exit status: 0 the metrics are printed; 2 there is no such instance, or it does not answer.";

/// Print the metrics of a mount in the Prometheus text format
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct MetricsCommand {
    #[command(flatten)]
    which: InstanceSelector,
}

pub(super) fn run(args: &MetricsCommand, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let text: String = args.which.ask(ControlRequest::Metrics)?;
    // Of another process: lines of printable text, whatever else it may have sent.
    for line in text.lines() {
        writeln!(out, "{}", harmless(line))?;
    }
    Ok(ExitStatus::Clean)
}
