//! `namegate reload`: an instance reads its files again.

use std::io::Write;

use super::instances::Which;
use super::{Status, Trouble};
use crate::service::control::{Reloaded, Request, harmless};

/// Have an instance read its configuration again. What is mounted stays mounted, and no request fails: those that come from
/// then on are judged by the new policy. A file with mistakes changes nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "SIGHUP does the same. The audit trail is opened anew, so that its file can be moved away before.\n\n\
                        Exit status: 0 the new configuration holds, 1 it does, except for what needs a new mount; 2 the old \
                        one holds, or there is no such instance."
)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Status, Trouble> {
    let reloaded: Reloaded = args.which.ask(Request::Reload)?;
    tell(&reloaded, out)?;
    Ok(if reloaded.needs_mount.is_empty() { Status::Clean } else { Status::Findings })
}

/// Says what came of a change.
pub(super) fn tell(reloaded: &Reloaded, out: &mut dyn Write) -> Result<(), Trouble> {
    for line in &reloaded.changed {
        writeln!(out, "{}", harmless(line))?;
    }
    if reloaded.changed.is_empty() {
        writeln!(out, "nothing has changed")?;
    }
    for line in &reloaded.needs_mount {
        writeln!(out, "not before the next mount: {}", harmless(line))?;
    }
    Ok(())
}
