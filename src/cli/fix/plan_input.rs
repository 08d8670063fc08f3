//! Reads plans, decisions and policies, and says what is wrong with them.

use std::env;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use namegate_core::name::display::shown;
use namegate_core::policy::config::Config;
use namegate_core::policy::{Confidence, Policy};
use namegate_fix::decisions::Decisions;
use namegate_fix::plan::PlanHeader;
use namegate_fix::stored_plan::{StoredPlan, StoredPlanError};
use namegate_sys::trust::others_can_write;
use nix::unistd::geteuid;

use crate::cli::CliError;

/// Reads a plan and what was decided about it, which is applied if `is_applied`.
pub(in crate::cli) fn read_plan(
    plan: &Path,
    decisions: Option<&Path>,
    is_applied: bool,
) -> Result<StoredPlan, CliError> {
    let decisions = decisions.map(|file| {
        let opened = open_plan(file, is_applied).map_err(StoredPlanError::File);
        opened.and_then(Decisions::read).map_err(|error| cannot_read(file, error))
    });
    let decisions = decisions.transpose()?;
    let opened = open_plan(plan, is_applied).map_err(StoredPlanError::File);
    let read = opened.and_then(|file| match decisions {
        Some(decisions) => StoredPlan::read_decided(file, decisions),
        None => StoredPlan::read(file),
    });
    read.map_err(|error| cannot_read(plan, error))
}

/// The error for a plan, or decisions, that cannot be used.
pub(super) fn cannot_read(path: &Path, error: StoredPlanError) -> CliError {
    match error {
        StoredPlanError::File(error) => CliError::new(format_args!("cannot read '{}': {error}", shown(path))),
        StoredPlanError::Lines(errors) => {
            let lines: Vec<String> = errors.iter().map(|error| format!("{}: {error}", shown(path))).collect();
            CliError::new(lines.join("\nnamegate: "))
        }
    }
}

/// Opens a plan, or decisions. Root applies only plans that belong to root or to the user who called sudo(8), and that nobody else can
/// write: a plan decides what is renamed anywhere in the file system.
fn open_plan(path: &Path, is_applied: bool) -> io::Result<File> {
    let file = File::open(path)?;
    if is_applied && geteuid().is_root() {
        let meta = file.metadata()?;
        let by_sudo = |variable: &str| env::var(variable).ok()?.parse::<u32>().ok();
        let is_own = meta.uid() == 0 || by_sudo("SUDO_UID") == Some(meta.uid());
        let is_own_group = meta.gid() == 0 || by_sudo("SUDO_GID") == Some(meta.gid());
        let shared = if is_own_group { meta.mode() & !0o020 } else { meta.mode() };
        // A pipe comes from the caller.
        if meta.is_file() && (!is_own || others_can_write(shared)) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "user {} or others can change it (mode {:o}), and root applies no plan that others may have written; \
                     copy it as root, check the copy, and apply that",
                    meta.uid(),
                    meta.mode() & 0o7777
                ),
            ));
        }
    }
    Ok(file)
}

/// The policy of the plan.
pub(super) fn read_policy(header: &PlanHeader) -> Result<Option<Policy>, String> {
    let Some(text) = &header.policy else { return Ok(None) };
    let wrong = |error: String| format!("invalid policy in the first line: {error}");
    let config = Config::parse(text).map_err(|error| wrong(error.to_string()))?;
    config.policy().map(Some).map_err(|error| wrong(error.to_string()))
}

pub(super) fn about(path: &Path, message: impl std::fmt::Display) -> CliError {
    CliError::new(format_args!("{}: {message}", shown(path)))
}

/// Parses a level of confidence.
pub(in crate::cli) fn confidences() -> impl TypedValueParser<Value = Confidence> {
    let parse = |word: String| Confidence::ALL.into_iter().find(|level| level.as_str() == word);
    PossibleValuesParser::new(Confidence::ALL.map(Confidence::as_str))
        .map(move |word| parse(word).expect("it is one of the words"))
}
