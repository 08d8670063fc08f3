//! `namegate guard on`: puts a policy on a directory tree.

use std::io::Write;
use std::path::PathBuf;

use clap::builder::TypedValueParser;
use nix::errno::Errno;

use super::super::policy_args::PolicyArgs;
use super::super::setting_args::choice_parser;
use super::super::{CliError, ExitStatus};
use super::{list, require_root};
use crate::doctor::{Condition, Machine};
use crate::guard::guards::Guards;
use crate::guard::note::GuardNote;
use crate::guard::table::{GuardScope, table};
use crate::guard::target::GuardTarget;
use crate::json::JsonBytes;
use crate::name::display::shown;
use crate::policy::automaton::{Automaton, Coverage};
use crate::policy::config::Config;
use crate::policy::profile;
use crate::report::layout::counted;
use crate::time::timestamp_of_now;

const EXAMPLES: &str = "\
Examples:
  namegate guard on /srv/share --profile windows
  namegate guard on /srv/share --profile windows --enforce --errno EPERM
  namegate guard on /srv/share --config site.toml --strict

A new guard audits: it reports bad names (`namegate guard events`) and allows them. A guard that is on already is replaced, with \
no moment without a policy, and keeps on auditing or enforcing unless an option says otherwise.

Exit status: 0 the guard is on, 2 it could not be turned on.";

/// Turn a guard on, or replace its policy
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct OnArgs {
    /// Directory to guard, with everything below it on the same file system
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Report bad names and allow them
    #[arg(long, conflicts_with = "enforce")]
    audit: bool,
    /// Refuse bad names
    #[arg(long)]
    enforce: bool,
    /// Error code for refused names [default: EINVAL]
    #[arg(long, value_name = "ERRNO", value_parser = errno_parser(), ignore_case = true)]
    errno: Option<Errno>,
    /// Fail if the policy has a rule that the kernel cannot check
    #[arg(long)]
    strict: bool,
    /// Guard the whole file system that PATH is on
    #[arg(long)]
    whole_filesystem: bool,
    #[command(flatten)]
    policy: PolicyArgs,
}

fn errno_parser() -> impl TypedValueParser<Value = Errno> {
    choice_parser::<Option<Errno>>().try_map(|errno| errno.ok_or("not an error code"))
}

pub(super) fn run(args: &OnArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let policy = args.policy.policy(&[&profile::STRICT])?;
    let coverage = Coverage::new(&policy);
    if args.strict && !coverage.left_out.is_empty() {
        let rules: Vec<String> =
            coverage.left_out.iter().map(|left| format!("\n  {}: {}", left.rule, left.obstacle)).collect();
        return Err(CliError::new(format!("the kernel cannot check these rules:{}", rules.concat())));
    }
    let automaton = Automaton::new(&coverage).map_err(CliError::new)?;
    let target = GuardTarget::from_path(&args.path, args.whole_filesystem).map_err(CliError::new)?;
    require_root()?;
    // Without bpf among its security modules the kernel attaches the programs, and never runs them.
    let needed = Machine::this().guard();
    if needed.condition != Condition::Ok {
        let advice = needed.advice.unwrap_or_default();
        return Err(CliError::new(format!("{}\n{advice}", needed.found)));
    }
    let guards = Guards::open_or_load().map_err(CliError::new)?;
    let is_same = |scope: &GuardScope| (scope.device, scope.root) == (target.device, target.root);
    let before = list(&guards)?.into_iter().find(|guard| is_same(&guard.scope));
    let was_enforcing = before.as_ref().is_some_and(|guard| guard.scope.refusal.is_some());
    let is_enforcing = args.enforce || (was_enforcing && !args.audit);
    let same_errno = before.as_ref().and_then(|guard| guard.scope.refusal);
    let errno = args.errno.or(same_errno).unwrap_or(Errno::EINVAL);
    let note = GuardNote {
        path: JsonBytes::new(target.path.as_os_str().as_encoded_bytes()),
        is_top: target.is_top,
        filesystem: target.kind.clone(),
        since: timestamp_of_now(),
        profiles: policy.profiles().iter().map(|profile| profile.name.into()).collect(),
        policy: Config::from_policy(&policy).map_err(CliError::new)?.to_toml(),
    };
    let scope =
        GuardScope { device: target.device, root: target.root, refusal: is_enforcing.then_some(errno) };
    let table = table(scope, &automaton, &note.to_bytes()).map_err(CliError::new);
    let slot = before.as_ref().map(|guard| guard.slot);
    let set = table.and_then(|table| guards.set(slot, target.device, &table).map_err(CliError::new));
    if let Err(error) = set {
        // A first guard that is not to be leaves no program in the kernel.
        guards.unload_if_unused().map_err(CliError::new)?;
        return Err(error);
    }
    let what = if target.root.is_some() { "this directory and below" } else { "the whole file system" };
    let does = if is_enforcing { format!("refuses bad names with {errno:?}") } else { "audits".into() };
    let again = if slot.is_some() { "replaced" } else { "on" };
    writeln!(out, "guard {again}: {} ({}, {what}), {does}", shown(&target.path), target.kind)?;
    if !coverage.left_out.is_empty() {
        let rules: Vec<&str> = coverage.left_out.iter().map(|left| left.rule.name()).collect();
        writeln!(
            out,
            "{} not checked by the kernel: {}. `namegate watch` reports such names",
            counted(rules.len() as u64, "rule is", "rules are"),
            rules.join(", ")
        )?;
    }
    Ok(ExitStatus::Clean)
}
