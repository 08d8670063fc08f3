//! `namegate report`: a report of findings that were stored.

use std::io::Write;
use std::path::PathBuf;

use namegate_core::name::display::shown;
use namegate_scan::collect::{FindingsCollection, findings_files};
use namegate_scan::report::baseline::RelativePaths;
use namegate_scan::report::multi_report::MultiReport;

use super::format::{ReportArgs, ReportFormat};
use super::output::OutputArgs;
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate report findings/*.jsonl -o names.html      # of the tasks of a job
  namegate report findings --format sarif > names.sarif
  namegate report findings --summary-by target,rule

Files are JSON Lines of `namegate scan`, or Parquet of `namegate scan` or of an engine. A directory stands for the files below it that \
end with .jsonl, .json, .ndjson or .parquet, except those that begin with `_` or `.`: name the OUTPUT of a job in Spark, which has \
findings and summaries. All findings must have been made by the same \
version of namegate, with the same policy. Findings are sorted by directory.

Exit status: 0 no finding, 1 findings, 2 something could not be read, now or when the findings were made.";

/// Make a report of stored findings, such as those of many tasks
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct StoredReportArgs {
    /// Files with findings or summaries, and directories with such files; `-` is JSON Lines on standard input
    #[arg(value_name = "FINDINGS", required = true)]
    findings: Vec<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read, files do not go together, or the output cannot be written.
pub fn run(args: StoredReportArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let StoredReportArgs { findings, report: mut report_args, mut output } = args;
    output.resolve_stdout(&mut report_args)?;
    if output.writes_baseline() {
        return Err(CliError::new(
            "--write-baseline needs a scan: the paths of a baseline are relative to the root of the scan",
        ));
    }
    let mut head = report_args
        .head(report_args.format.format == ReportFormat::Html || output.writes(ReportFormat::Html))?;
    let mut collection = FindingsCollection::default();
    for path in &findings {
        for file in findings_files(path).map_err(CliError::new)? {
            collection.add(&file).map_err(CliError::new)?;
        }
    }
    let collected = collection.finish().map_err(CliError::new)?;
    head.scanned = findings.iter().map(|path| shown(path)).collect();
    head.has_owners = collected.has_owners();
    let mut faults = anstream::stderr();
    let layout = output.layout(true);
    let mut files = output.begin()?;
    let mut reports = files.reports(report_args.fail_on, layout, &head, &RelativePaths::default());
    reports.push(output.printed(&report_args, out, &mut faults, layout, &head)?);
    let mut report = MultiReport::new(reports);
    let summary = collected.report(&mut report)?;
    drop(report);
    files.finish(&summary)?;
    Ok(ExitStatus::from_summary(&summary, report_args.fail_on))
}
