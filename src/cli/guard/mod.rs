//! `namegate guard`: the policy inside the kernel.

mod events;
mod guard_status;
pub(super) mod load_check;
mod off;
mod on;

use std::io::Write;

use clap::Subcommand;
use namegate_guard::guards::{GuardCounts, Guards, SlotGuard};
use namegate_scan::report::layout::{counted, grouped};

use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate guard check
  namegate guard on /srv/share --profile windows
  namegate guard on /srv/share --profile windows --enforce
  namegate guard status
  namegate guard events
  namegate guard off /srv/share";

/// What to do where the kernel loads no guard.
const ALTERNATIVES: &str = "use `namegate mount` or `namegate watch`";

/// Have the kernel itself check new names in a directory tree, without a mount
///
/// A guard is a program inside the kernel: every new name is checked, whichever program creates it, and by whichever path into the
/// kernel. A guard stays on until it is turned off or the machine is restarted; no process has to run. It needs root, and a kernel
/// that runs BPF programs on its security hooks: `namegate guard check` reports what is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct GuardArgs {
    #[command(subcommand)]
    action: GuardAction,
}

#[derive(Debug, Subcommand)]
enum GuardAction {
    On(Box<on::OnArgs>),
    Off(off::OffArgs),
    Status(guard_status::GuardStatusArgs),
    Events(Box<events::EventsArgs>),
    Check(load_check::GuardCheckArgs),
}

pub(super) fn run(args: &GuardArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    match &args.action {
        GuardAction::On(args) => on::run(args, out),
        GuardAction::Off(args) => off::run(args, out),
        GuardAction::Status(args) => guard_status::run(args, out),
        GuardAction::Events(args) => events::run(args, out),
        GuardAction::Check(args) => load_check::run(args, out),
    }
}

/// The guards in force, if there are any.
fn open() -> Result<Option<Guards>, CliError> {
    require_root()?;
    Guards::open().map_err(CliError::new)
}

fn require_root() -> Result<(), CliError> {
    match nix::unistd::geteuid().is_root() {
        true => Ok(()),
        false => Err(CliError::new("guards are of the whole machine: run this as root")),
    }
}

fn list(guards: &Guards) -> Result<Vec<SlotGuard>, CliError> {
    guards.list().map_err(CliError::new)
}

/// What a guard has counted, for people.
fn counted_names(counts: GuardCounts) -> String {
    let GuardCounts { refused, audited, lost } = counts;
    format!(
        "{} refused, {} audited; {} lost",
        grouped(refused),
        grouped(audited),
        counted(lost, "event", "events")
    )
}
