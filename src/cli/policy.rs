//! `namegate policy`: checks configuration files, and shows the policy in effect.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use namegate_core::name::display::shown;
use namegate_core::policy::config::Config;
use namegate_core::policy::profile::{self, ProfileRule};
use namegate_core::policy::rule::{RULES, Severity};
use namegate_core::policy::{ActiveRule, OnMismatch, Policy};
use namegate_files::json::{self, TypedObject};
use namegate_scan::report::layout::{counted, severity_style};
use namegate_settings::read;
use serde_json::json;

use super::format::{FormatArgs, write_field};
use super::policy_args::{PolicyArgs, check_files};
use super::profiles::{line_json, write_row};
use super::{CliError, ExitStatus};
use crate::explain::unicode_version;

const EXAMPLES: &str = "\
Examples:
  namegate policy check site.toml
  namegate policy show --profile windows";

const CHECK_EXAMPLES: &str = "\
Examples:
  namegate policy check site.toml

Exit status: 0 all files are valid, 2 some file is not.";

const SHOW_EXAMPLES: &str = "\
Examples:
  namegate policy show --config site.toml
  namegate policy show --profile strict --normalize nfc --format toml > site.toml";

/// Check policy files, or show the policy in effect
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PolicyCommandArgs {
    #[command(subcommand)]
    action: PolicyAction,
}

#[derive(Debug, Subcommand)]
enum PolicyAction {
    /// Check policy files: report every error with line, column and the nearest known word
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// Files to check
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Show the policy in effect: every rule with its severity, parameter and profiles
    ///
    /// Without options this is the profile `strict`, the default of `check` and `scan`.
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        #[command(flatten)]
        policy: PolicyArgs,
        #[command(flatten)]
        format: FormatArgs<PolicyFormat>,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PolicyFormat {
    /// Text for people
    Text,
    /// TOML: a file for --config that gives this policy
    Toml,
    /// JSON: one object
    Json,
}

pub(super) fn run(args: &PolicyCommandArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    match &args.action {
        PolicyAction::Check { files } => check_files(files.iter().cloned(), out, |file| {
            Ok(format!(", {} in effect", counted(rules_in_effect(file)? as u64, "rule", "rules")))
        }),
        PolicyAction::Show { policy, format } => {
            let default: Vec<_> = Config::default().profiles();
            let policy = policy.policy(&default)?;
            match format.format {
                PolicyFormat::Text => text(&policy, out)?,
                PolicyFormat::Toml => {
                    write!(out, "{}", Config::from_policy(&policy).map_err(CliError::new)?.to_toml())?
                }
                PolicyFormat::Json => json(&policy, out)?,
            }
            Ok(ExitStatus::Clean)
        }
    }
}

/// How many rules are in effect under a file, or all its errors.
fn rules_in_effect(path: &Path) -> Result<usize, String> {
    let config = Config::parse(&read(path)?).map_err(|error| error.in_file(&shown(path)).to_string())?;
    let policy = config.policy().map_err(|error| error.in_file(&shown(path)).to_string())?;
    let always = RULES.iter().filter(|rule| rule.id.is_always_on()).map(|rule| rule.id);
    let rules: BTreeSet<_> = policy.rules().iter().map(|rule| rule.test.rule()).chain(always).collect();
    Ok(rules.len())
}

/// The names of the rules that are on in every policy.
fn always_on() -> Vec<&'static str> {
    RULES.iter().filter(|rule| rule.id.is_always_on()).map(|rule| rule.name).collect()
}

fn profile_names(policy: &Policy) -> Vec<&'static str> {
    policy.profiles().iter().map(|p: &&profile::Profile| p.name).collect()
}

fn text(policy: &Policy, out: &mut dyn Write) -> io::Result<()> {
    let mut field = |name: &str, value: &str| write_field(out, 15, name, value);
    let profiles = profile_names(policy);
    field("profiles", &if profiles.is_empty() { "none: UTF-8 alone".into() } else { profiles.join(", ") })?;
    field("Unicode", &unicode_version())?;
    let normalization = policy.normalization().map(|n| {
        let form = n.form.as_str().to_uppercase();
        match n.on_mismatch {
            OnMismatch::Refuse => format!("{form}; a name in another form is refused"),
            OnMismatch::Convert => format!("{form}; a name in another form is converted"),
            OnMismatch::Match => format!("{form}; a name is stored as given and found by every spelling"),
        }
    });
    field("normalization", normalization.as_deref().unwrap_or("none"))?;
    if let Some(depth) = policy.library_depth() {
        field("library depth", &depth.to_string())?;
    }
    if policy.reserve() > 0 {
        field("reserve", &format!("{} of each limit of names", policy.reserve()))?;
    }
    field("always on", &format!("as errors: {}", always_on().join(", ")))?;
    if policy.rules().is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    for rule in policy.rules() {
        write_row(out, &as_profile_rule(rule), Some(&rule.profiles.names().collect::<Vec<_>>().join(", ")))?;
    }
    let count = |severity| policy.rules().iter().filter(|rule| rule.severity == severity).count();
    let [errors, warnings] = [Severity::Error, Severity::Warn].map(|s| (severity_style(s), count(s)));
    writeln!(
        out,
        "\n{}{} as errors{:#}, {}{} as warnings{:#}",
        errors.0, errors.1, errors.0, warnings.0, warnings.1, warnings.0
    )
}

/// The rule without its profiles.
fn as_profile_rule(active: &ActiveRule) -> ProfileRule {
    let ActiveRule { test, severity, source, verified, stored_otherwise, .. } = active.clone();
    ProfileRule { test, severity, source, verified, stored_otherwise }
}

fn json(policy: &Policy, out: &mut dyn Write) -> io::Result<()> {
    let lines = policy.rules().iter().map(|active| {
        let mut line = line_json(&as_profile_rule(active));
        line["profiles"] = active.profiles.names().collect::<Vec<_>>().into();
        line
    });
    let normalization = policy
        .normalization()
        .map(|n| json!({ "form": n.form.as_str(), "on_mismatch": n.on_mismatch.as_str() }));
    let policy = json!({
        "profiles": profile_names(policy),
        "unicode": unicode_version(),
        "normalization": normalization,
        "library_depth": policy.library_depth(),
        "reserve": policy.reserve(),
        "always_on": always_on(),
        "lines": lines.collect::<Vec<_>>(),
    });
    json::write_line(out, &TypedObject::new("policy", policy))
}
