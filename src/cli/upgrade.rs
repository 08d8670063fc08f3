//! `namegate upgrade`: an instance goes on with the program that is installed now.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use namegate_core::name::display::harmless;
use namegate_survive::{LAYOUT, UPGRADE};
use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};

use super::instances::{InstanceSelector, ask};
use super::reload::needs_next_mount;
use super::{CliError, ExitStatus};
use crate::service::control::{ControlRequest, InstanceStatus};

const EXAMPLES: &str = "\
For mounts with --survive. The server is replaced while its clients wait: open files stay open, and no request fails. The program is the \
one that is where the running one was started from; it reads the same command line and the same files.

Examples:
  apt install ./namegate.deb && namegate upgrade share

Exit status: 0 the installed program serves the mount; 1 it does, and settings have changed that need a new mount; 2 nothing was changed, or the new server does not answer.";

/// Make a mount go on with the installed program, without a failed request
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct UpgradeArgs {
    #[command(flatten)]
    which: InstanceSelector,
}

pub(super) fn run(args: &UpgradeArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    /// Time for the new server to answer.
    const UPGRADE_TIMEOUT: Duration = Duration::from_secs(30);
    let found = args.which.find()?;
    let status = || ask::<InstanceStatus>(&found, ControlRequest::Status);
    let before = status()?;
    let name = harmless(found.name().as_str());
    let failed = |why: String| CliError::new(format!("cannot upgrade {name}: {why}"));
    // A server of another user could name any process.
    if found.uid() != geteuid().as_raw() {
        return Err(failed("it belongs to another user".into()));
    }
    let Some(holder) = &before.holder else {
        return Err(failed("it is mounted without --survive; restart it, when no file is open".into()));
    };
    if holder.layout != LAYOUT {
        return Err(failed(format!(
            "version {} keeps the state of a mount in another way than this one; restart it, when no file is open",
            harmless(&before.namegate)
        )));
    }
    let process =
        i32::try_from(holder.pid).map_err(|_| failed("its holder has no valid process id".into()))?;
    kill(Pid::from_raw(process), UPGRADE).map_err(|errno| failed(errno.desc().into()))?;
    let begin = Instant::now();
    loop {
        match status() {
            Ok(after) if after.pid != before.pid => {
                let (previous, needs_mount) =
                    after.holder.map(|holder| (holder.previous, holder.needs_mount)).unwrap_or_default();
                let previous = previous.unwrap_or_default();
                if previous != "an upgrade" {
                    return Err(failed(format!("{}; the previous program goes on", harmless(&previous))));
                }
                let (old, new) = (harmless(&before.namegate), harmless(&after.namegate));
                writeln!(out, "{name}: version {new} (was {old})")?;
                needs_next_mount(&needs_mount, out)?;
                return Ok(if needs_mount.is_empty() { ExitStatus::Clean } else { ExitStatus::Findings });
            }
            Err(error) if begin.elapsed() > UPGRADE_TIMEOUT => return Err(error),
            Ok(_) if begin.elapsed() > UPGRADE_TIMEOUT => {
                return Err(failed("the server was not replaced".into()));
            }
            _ => sleep(Duration::from_millis(50)),
        }
    }
}
