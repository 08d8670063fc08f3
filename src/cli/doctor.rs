//! `namegate doctor`: what this machine can do, what on it damages names, and what to do about it.

use std::io::Write;
use std::path::PathBuf;

use super::diagnoses::Examination;
use super::format::{FormatArgs, PlainFormat};
use super::{CliError, ExitStatus};
#[cfg(feature = "guard")]
use crate::doctor::Diagnosis;
use crate::doctor::{Condition, Machine};

const EXAMPLES: &str = "\
Examples:
  namegate doctor                # this machine
  namegate doctor /srv/share     # also what a mount of /srv/share can do
  sudo namegate doctor --json    # as root: also the locales of all services
  sudo namegate doctor --measure # also what io_uring brings to mounts here

Exit status: 0 nothing to do, 1 at least one check has advice.";

/// Check what this machine can do for namegate, what on it damages names, and what to do about it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DoctorArgs {
    /// Directories to be mounted
    #[arg(value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    /// Measure for up to five seconds what io_uring brings to mounts, in temporary mounts of an empty directory
    #[arg(long)]
    measure: bool,
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
}

/// Runs the command.
///
/// # Errors
/// The output cannot be written.
pub fn run(args: &DoctorArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let machine = Machine::this();
    let mut checks = machine.examine(&args.sources);
    if args.measure {
        checks.push(machine.measure_transports());
    }
    #[cfg(feature = "guard")]
    let checks = try_guard(checks);
    let examination = Examination::new("doctor", &checks);
    examination.write(args.format.format, out)?;
    Ok(match examination.condition {
        Condition::Ok | Condition::Unknown => ExitStatus::Clean,
        Condition::Warn | Condition::Fail => ExitStatus::Findings,
    })
}

/// Has the kernel load the guard's programs, if its settings allow a guard: some kernels have all that a guard needs, and forbid it.
#[cfg(feature = "guard")]
fn try_guard(mut checks: Vec<Diagnosis>) -> Vec<Diagnosis> {
    let settings_allow = |check: &&mut Diagnosis| check.id == "guard" && check.condition == Condition::Ok;
    if let Some(guard) = checks.iter_mut().find(settings_allow)
        && nix::unistd::geteuid().is_root()
    {
        let loaded = super::guard::load_check::load();
        // A machine without a guard is not broken.
        *guard = Diagnosis { id: guard.id, condition: loaded.condition.min(Condition::Warn), ..loaded };
    }
    checks
}
