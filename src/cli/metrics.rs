//! `namegate metrics`: what an instance counts, for Prometheus.

use std::io::Write;

use super::instances::Which;
use super::{Status, Trouble};
use crate::daemon::control::Request;

/// Print what an instance counts, in the text format of Prometheus.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 printed, 2 there is no such instance, or it does not answer.")]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Status, Trouble> {
    let text: String = args.which.ask(Request::Metrics)?;
    // Of another process: lines of printable text, whatever else it may have sent.
    let is_text = |c: &char| *c == '\n' || !c.is_control();
    write!(out, "{}", text.chars().filter(is_text).collect::<String>())?;
    Ok(Status::Clean)
}
