//! `namegate scan`: every name of a directory tree, or of whatever else holds names.

mod sources;

use std::io::{self, IsTerminal, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::format::ReportArgs;
use super::judging::JudgingArgs;
use super::output::OutputArgs;
use super::policy_args::PolicyArgs;
use super::progress::Line;
use super::{Status, Trouble};
use crate::report::fan::{Fan, Faults};
use crate::report::text::Layout;
use crate::scan::{self, Progress};
use crate::source::walk::Walk;
use sources::{INSTEAD_OF_PATHS, SourceArgs};

const EXAMPLES: &str = "\
Examples:
  namegate scan /srv/share
  namegate scan . --profile windows,macos          before a move to both
  namegate scan /data --format json > names.jsonl  for other programs
  namegate scan /old --encoding koi8-r             repairs as if its bad names were KOI8-R
  namegate scan /srv --target windows,sharepoint --prefix 'C:\\Data' -o report.html
  namegate scan . -q -o names.sarif -o junit.xml --fail-on error
  namegate scan . --write-baseline known.jsonl; namegate scan . --baseline known.jsonl
  find /srv -print0 | namegate scan --list - -0
  namegate scan --git . --git-all                  every name that a history ever had
  namegate scan --archive old.zip --archive-encoding cp850
  namegate scan --list inventory.csv --list-format csv:2 --list-as keys --decode percent

A list is judged as if it named all that there is: names that become one are found among its own.
The names of symbolic links are judged; links are not followed, except a PATH that is one.
What cannot be read is reported and does not end the scan.
Exit status: 0 no finding of the severity of --fail-on, 1 findings, 2 something could not be read.";

/// Judge every name of directory trees, lists, git repositories and archives.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to judge: the last name of each path, and everything below those that are directories.
    #[arg(value_name = "PATH", required_unless_present_any = INSTEAD_OF_PATHS)]
    paths: Vec<PathBuf>,
    /// How many threads read and judge; as many as there are processors if not given.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    judging: JudgingArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Runs the command.
///
/// # Errors
/// The policy cannot be read or the output cannot be written.
pub fn run(args: Args, out: &mut (dyn Write + Send)) -> Result<Status, Trouble> {
    let policy = args.judging.policy(&args.policy)?;
    let settings = args.judging.settings(args.report.encoding)?;
    let available = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = args.jobs.map_or_else(available, usize::from);
    log::info!(
        "judging by {}, with {jobs} threads",
        policy.asked_by().names().collect::<Vec<_>>().join(", ")
    );
    let mut source = args.sources.sources();
    if !args.paths.is_empty() {
        source.insert(0, Box::new(Walk::new(args.paths, jobs)));
    }
    let progress = Progress::default();
    let line = Line::new();
    let mut above: Box<dyn Write + Send> = match line.is_drawn() && io::stdout().is_terminal() {
        true => Box::new(line.above(out)),
        false => Box::new(out),
    };
    let mut faults = line.above(anstream::stderr());
    let layout = args.output.layout(args.judging.asks_for_targets());
    let fail_on = args.report.fail_on();
    let mut files = args.output.begin()?;
    let mut reports = files.reports(fail_on, Layout { faults: true, ..layout });
    reports.push(match args.output.quiet {
        true => Box::new(Faults::new(&mut faults)),
        false => args.report.report(&mut above, &mut faults, layout),
    });
    let mut report = Fan::new(reports);
    let summary =
        line.shown(&progress, || scan::scan(&source, &policy, &settings, &mut report, &progress))?;
    drop(report);
    files.finish()?;
    Ok(Status::of(&summary, fail_on))
}
