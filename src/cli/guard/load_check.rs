//! `namegate guard check`: whether a guard can run here.

use std::io::Write;

use namegate_guard::guards::{GuardError, Guards, try_to_load};
use namegate_guard::program::LoadError;

use super::super::diagnoses::Examination;
use super::super::format::{FormatArgs, PlainFormat};
use super::super::{CliError, ExitStatus};
use super::ALTERNATIVES;
use crate::doctor::{Condition, Diagnosis, Machine};

const EXAMPLES: &str = "\
Examples:
  namegate guard check

The programs are loaded and one is attached, for a moment and with no policy. Nothing stays.

Exit status: 0 a guard can run, 1 something is missing.";

/// Check whether a guard can run here, and report what is missing
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct GuardCheckArgs {
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
}

/// Has the kernel load the programs, which only root can. What another user put where guards are pinned is an obstacle, too.
pub(in crate::cli) fn load() -> Diagnosis {
    const ID: &str = "guard-load";
    if !nix::unistd::geteuid().is_root() {
        return Diagnosis::fail(ID, "only root can load programs into the kernel", "run this as root");
    }
    match Guards::open().and_then(|_| try_to_load()) {
        Ok(()) => Diagnosis::ok(ID, "the kernel has verified the programs, and attached one"),
        Err(GuardError::Load(error @ LoadError::Forbidden(..))) => {
            Diagnosis::fail(ID, error.to_string(), ALTERNATIVES)
        }
        Err(error) => Diagnosis::fail(ID, error.to_string(), "docs/GUARD.md says what a guard needs"),
    }
}

pub(super) fn run(args: &GuardCheckArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let checks = [Machine::this().guard(), load()];
    let examination = Examination::new("guard-check", &checks);
    examination.write(args.format.format, out)?;
    // The programs of a kernel without bpf among its security modules can be loaded, and never run.
    Ok(if examination.condition == Condition::Ok { ExitStatus::Clean } else { ExitStatus::Findings })
}
