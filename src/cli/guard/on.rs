//! `namegate guard on`: puts a policy on a directory tree.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser;
use namegate_core::name::display::shown;
use namegate_core::policy::Policy;
use namegate_core::policy::automaton::{Automaton, Coverage};
use namegate_core::policy::config::Config;
use namegate_core::policy::profile;
use namegate_files::json::JsonBytes;
use namegate_files::time::timestamp_of_now;
use namegate_guard::claim::Claim;
use namegate_guard::guards::{GuardError, Guards, SlotGuard};
use namegate_guard::note::GuardNote;
use namegate_guard::program::LoadError;
use namegate_guard::table::{GuardScope, table};
use namegate_guard::target::GuardTarget;
use namegate_scan::report::layout::{counted, grouped};
use nix::errno::Errno;

use super::super::policy_args::PolicyArgs;
use super::super::setting_args::choice_parser;
use super::super::{CliError, ExitStatus};
use super::{ALTERNATIVES, counted_names, list, require_root};
use crate::doctor::{Condition, Machine};

const EXAMPLES: &str = "\
Examples:
  namegate guard on /srv/share --profile windows
  namegate guard on /srv/share --profile windows --enforce --errno EPERM
  namegate guard on /srv/share --config site.toml --strict

A new guard audits: it reports bad names (`namegate guard events`) and allows them. A guard that is on already is replaced, with \
no moment without a policy, and keeps on auditing or enforcing unless an option says otherwise. If PATH was removed and made again, \
the guard of the directory that was there before is replaced, too. A directory or a file system that is guarded by another path keeps \
its guard, unless --replace is given.

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
    /// Replace the guard of the same directory or file system that was turned on with another path
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    policy: PolicyArgs,
}

fn errno_parser() -> impl TypedValueParser<Value = Errno> {
    choice_parser::<Option<Errno>>().try_map(|errno| errno.ok_or("not an error code"))
}

pub(super) fn run(args: &OnArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let policy = args.policy.policy(&[&profile::STRICT])?;
    let coverage = Coverage::new(&policy);
    if args.strict {
        check_all_covered(&coverage)?;
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
    let guards = Guards::open_or_load().map_err(not_loaded)?;
    let on = list(&guards)?;
    let leads_there =
        |guard: &SlotGuard| guard.path().is_some_and(|path| GuardTarget::is_at(&path, &guard.scope));
    let claim = Claim::new(&on, &target, leads_there);
    if let Some(other) = claim.other_path.as_ref().filter(|_| !args.replace) {
        return Err(guarded_already(&target, other));
    }
    let before = claim.replaced.or(claim.stale.first().copied());
    let refusal = before.and_then(|guard| guard.scope.refusal);
    let is_enforcing = args.enforce || (refusal.is_some() && !args.audit);
    let errno = args.errno.or(refusal).unwrap_or(Errno::EINVAL);
    let note = note(&target, &policy)?;
    let scope =
        GuardScope { device: target.device, root: target.root, refusal: is_enforcing.then_some(errno) };
    let id = claim.replaced.map_or_else(|| guards.new_id(), |guard| guard.id);
    let set = table(id, scope, &automaton, &note.to_bytes()).map_err(CliError::new).and_then(|table| {
        for guard in &claim.stale {
            let counts = guards.remove(guard.slot).map_err(CliError::new)?;
            let path = shown(&target.path);
            writeln!(out, "guard off: the directory that was {path} before ({})", counted_names(counts))?;
        }
        guards.set(claim.replaced, target.device, &table).map_err(CliError::new)
    });
    if let Err(error) = set {
        // A first guard that is not to be leaves no program in the kernel.
        guards.unload_if_unused().map_err(CliError::new)?;
        return Err(error);
    }
    let what = if target.root.is_some() { "this directory and below" } else { "the whole file system" };
    let does = if is_enforcing { format!("refuses bad names with {errno:?}") } else { "audits".into() };
    let again = if claim.replaced.is_some() { "replaced" } else { "on" };
    writeln!(out, "guard {again}: {} ({}, {what}), {does}", shown(&target.path), target.kind)?;
    if let Some(other) = &claim.other_path {
        writeln!(out, "It replaces the guard of {}.", shown(other))?;
    }
    report_beyond(&target, out)?;
    report_left_out(&coverage, out)?;
    Ok(ExitStatus::Clean)
}

fn note(target: &GuardTarget, policy: &Policy) -> Result<GuardNote, CliError> {
    Ok(GuardNote {
        path: JsonBytes::new(target.path.as_os_str().as_encoded_bytes()),
        is_top: target.is_top,
        filesystem: target.kind.clone(),
        since: timestamp_of_now(),
        profiles: policy.profiles().iter().map(|profile| profile.name.into()).collect(),
        policy: Config::from_policy(policy).map_err(CliError::new)?.to_toml(),
    })
}

fn check_all_covered(coverage: &Coverage<'_>) -> Result<(), CliError> {
    if coverage.left_out.is_empty() {
        return Ok(());
    }
    let rules = coverage.left_out.iter().map(|left| format!("\n  {}: {}", left.rule, left.obstacle));
    Err(CliError::new(format!("the kernel cannot check these rules:{}", rules.collect::<String>())))
}

fn guarded_already(target: &GuardTarget, other: &Path) -> CliError {
    let what = if target.root.is_some() { "the directory" } else { "the file system of" };
    CliError::new(format!(
        "{what} {} is guarded as {1} already: this guard would replace that one. Give --replace, or turn that \
         one off: namegate guard off {1}",
        shown(&target.path),
        shown(other),
    ))
}

/// Lists the rules that the kernel does not check.
fn report_left_out(coverage: &Coverage<'_>, out: &mut dyn Write) -> io::Result<()> {
    let rules: Vec<&str> = coverage.left_out.iter().map(|left| left.rule.name()).collect();
    if rules.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "{} not checked by the kernel: {}. `namegate watch` reports such names",
        counted(rules.len() as u64, "rule is", "rules are"),
        rules.join(", ")
    )
}

fn not_loaded(error: GuardError) -> CliError {
    match error {
        GuardError::Load(LoadError::Forbidden(..)) => CliError::new(format!("{error}: {ALTERNATIVES}")),
        GuardError::Load(_) => CliError::new(format!("{error}. `namegate guard check` says what is missing")),
        error => CliError::new(error),
    }
}

/// Lists the mounts below the directory that the guard does not reach.
fn report_beyond(target: &GuardTarget, out: &mut dyn Write) -> io::Result<()> {
    /// A machine can have thousands, of containers.
    const LISTED: usize = 16;
    let (listed, more) = target.beyond.split_at(target.beyond.len().min(LISTED));
    if listed.is_empty() {
        return Ok(());
    }
    writeln!(out, "not checked, because other file systems or trees are mounted there:")?;
    listed.iter().try_for_each(|point| writeln!(out, "  {}", shown(point)))?;
    match more.len() {
        0 => Ok(()),
        more => writeln!(out, "  and {} more", grouped(more as u64)),
    }
}
