//! `namegate why`: why a name was refused, for the user who was refused.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use namegate_core::name::display::display;
use namegate_core::policy::profile::STRICT;
use namegate_core::policy::{CheckOutcome, EncodingHint};

use super::follow::follow;
use super::mount_answer::{MountAnswer, ask_mount, describe, reason, stands_for};
use super::policy_args::PolicyArgs;
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate why 'report?.txt'
  namegate why /srv/share/aux.txt --profile windows
  namegate why --follow /mnt/share --exec notify-send -- {}

In a mount of namegate the mount answers: when it refused the name, by its own policy. It tells each user only of that user's \
requests, and root of all. Elsewhere the name is checked by --profile.

Exit status: 0 the name is allowed, 1 it was refused or breaks a rule, 2 error.";

/// Say why a name was refused, and which name to use instead
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct WhyArgs {
    /// Name, or path, that was refused; it need not exist
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Print a line whenever the mount of PATH, a directory, refuses a name of yours, until it is unmounted
    #[arg(long)]
    follow: bool,
    /// With --follow, run a program instead of printing, every 10 seconds at most; {} in its arguments is what would be printed
    #[arg(long, value_name = "PROGRAM ARG... [;]", num_args = 1.., allow_hyphen_values = true, value_terminator = ";", requires = "follow")]
    exec: Vec<OsString>,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Runs the command.
///
/// # Errors
/// The path has no name, or a policy is invalid.
pub fn run(args: &WhyArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    if args.follow {
        return follow(&args.path, &args.exec, out);
    }
    let path = args.path.as_os_str().as_bytes();
    let names: Vec<&[u8]> =
        path.split(|&b| b == b'/').filter(|name| !matches!(*name, b"" | b"." | b"..")).collect();
    let Some(&last) = names.last() else {
        return Err(CliError::new(format_args!("'{}' has no name to check", display(path))));
    };
    let mount = ask_mount(&args.path);
    let own_policy = mount.as_ref().map_or(Ok(None), MountAnswer::policy)?;
    let is_unknown = mount.is_some() && own_policy.is_none();
    let by = if own_policy.is_some() { "the policy of the mount" } else { "the policy" };
    let policy = own_policy.map_or_else(|| args.policy.policy(&[&STRICT]), Ok)?;
    let refusals = mount.iter().flat_map(|mount| mount.answer.refusals.iter().rev());
    let refusal = refusals
        .filter_map(|refusal| {
            let refused = refusal.name.base64.0.as_slice();
            // A server that writes to a temporary name was asked for another one.
            let is_it = |name: &&&[u8]| **name == refused || Some(**name) == stands_for(refused);
            Some((refusal, *names.iter().find(is_it)?))
        })
        .next();
    let is_bad = |name: &&&[u8]| policy.check(name).outcome() == CheckOutcome::Reject;
    let name = refusal.map(|(_, name)| name).or_else(|| names.iter().find(is_bad).copied()).unwrap_or(last);
    let check = policy.check(name);
    let shown_name = display(name);
    if is_unknown && refusal.is_none() {
        return Err(CliError::new(format_args!(
            "the mount does not say by which policy it checks, and refused no `{shown_name}` of yours lately: whether \
             its policy allows the name is not known; `namegate explain --config FILE NAME` checks it by a file"
        )));
    }
    let why = reason(&policy, &check, refusal.map(|(refusal, _)| refusal));
    match refusal {
        Some((refusal, _)) => write!(out, "{}", describe(refusal, &shown_name.to_string(), &why))?,
        None if why.is_empty() => {
            writeln!(out, "`{shown_name}` breaks no rule of {by}.")?;
            return Ok(ExitStatus::Clean);
        }
        None => write!(out, "`{shown_name}` breaks a rule: {why}.")?,
    }
    let parent = parent_of(&args.path, &names, name);
    let is_in_use = &mut |other: &str| fs::symlink_metadata(parent.join(other)).is_ok();
    match policy.suggest_name(name, EncodingHint::Unknown, is_in_use) {
        Some(suggested) => writeln!(out, " Use `{}`.", display(suggested.name.as_bytes()))?,
        None => writeln!(out)?,
    }
    Ok(ExitStatus::Findings)
}

/// The directory of `name`, one of the components of `path`.
fn parent_of(path: &Path, names: &[&[u8]], name: &[u8]) -> PathBuf {
    let after = names.iter().rev().position(|other| *other == name).unwrap_or(0);
    path.ancestors().nth(after + 1).unwrap_or(Path::new("")).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_name_is_above_it() {
        let parent = |path: &'static str, name: &str| {
            let names: Vec<&[u8]> =
                path.as_bytes().split(|&b| b == b'/').filter(|part| !part.is_empty()).collect();
            parent_of(Path::new(path), &names, name.as_bytes())
        };
        assert_eq!(parent("/a/b:/c", "b:"), Path::new("/a"));
        assert_eq!(parent("/a/b:/c", "c"), Path::new("/a/b:"));
        assert_eq!(parent("c", "c"), Path::new(""));
    }
}
