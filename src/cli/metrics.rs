//! `namegate metrics`: what an instance counts, for Prometheus.

use std::io::Write;

use super::instances::Which;
use super::{Status, Trouble};
use crate::service::control::{Request, harmless};

/// Print metrics in the Prometheus text format
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 printed, 2 there is no such instance, or it does not answer.")]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Status, Trouble> {
    let text: String = args.which.ask(Request::Metrics)?;
    // Of another process: lines of printable text, whatever else it may have sent.
    for line in text.lines() {
        writeln!(out, "{}", harmless(line))?;
    }
    Ok(Status::Clean)
}
