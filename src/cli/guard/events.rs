//! `namegate guard events`: the names that guards refuse or audit.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use namegate_settings::Setting;
use namegate_telemetry::audit::{Audit, AuditLog, AuditSettings};
use namegate_telemetry::metrics::{GuardMetrics, MetricsOutlets};

use super::super::format::FormatArgs;
use super::super::output::cannot_write;
use super::super::setting_args::{SettingArgs, SettingGroup};
use super::super::{CliError, ExitStatus};
use super::require_root;
use crate::service::guard_events::{self, GuardEventSinks, GuardEventsError};
use crate::service::mount_config::outlets;
use crate::service::signals::Signals;
use crate::service::watch_service::FindingFormat;

const EXAMPLES: &str = "\
Examples:
  namegate guard events
  namegate guard events --json --audit /var/log/namegate-guard.jsonl
  namegate guard events --metrics-textfile /var/lib/prometheus/node-exporter/namegate-guard.prom

Events wait in the kernel until they are read. One process at a time can read them. Without a guard it waits for one.

SIGINT (Ctrl-C) and SIGTERM end it. SIGHUP reopens the audit log.

Exit status: 0 there was no event, 1 there was one, 2 events could not be read or written.";

/// Report the names that guards refuse or audit, as a mount does: who, where, which rule
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    format: FormatArgs<FindingFormat>,
    /// Append one line of JSON per event to FILE, in the format of a mount's audit log
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    #[command(flatten)]
    outlets: SettingArgs<OutletGroup>,
}

/// Where metrics go: the options of a mount.
#[derive(Clone, Debug, Default)]
struct OutletGroup;

impl SettingGroup for OutletGroup {
    fn has(setting: &Setting) -> bool {
        setting.key.0 == "metrics"
    }
}

pub(super) fn run(args: &EventsArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    require_root()?;
    let signals = Signals::take();
    signals.end_stuck_writes();
    let open_log = |file: &PathBuf| AuditLog::append(file).map_err(|error| cannot_write(file, &error));
    let audit_log = args.audit.as_ref().map(open_log).transpose()?;
    let format = args.format.format;
    let metrics = Arc::<GuardMetrics>::default();
    let outlets = MetricsOutlets::open(outlets(&args.outlets.0), metrics.clone()).map_err(CliError::new)?;
    let settings = AuditSettings {
        is_logged: format == FindingFormat::Log,
        audit_log,
        metrics: metrics.audit.clone(),
        ..AuditSettings::default()
    };
    let audit = Audit::new(settings).map_err(|e| CliError::new(format!("cannot start a thread: {e}")))?;
    let _outlets = outlets.start().map_err(CliError::new)?;
    let mut sinks = GuardEventSinks { format, out, audit, metrics, ended: HashSet::new() };
    match guard_events::run(&signals, &mut sinks) {
        Ok(0) => Ok(ExitStatus::Clean),
        Ok(_) => Ok(ExitStatus::Findings),
        Err(GuardEventsError::Output(error)) => Err(error.into()),
        Err(GuardEventsError::Guard(error)) => Err(CliError::new(error)),
        Err(GuardEventsError::Wait(errno)) => Err(CliError::new(format!("cannot wait for events: {errno}"))),
    }
}
