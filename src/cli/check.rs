//! `namegate check`: a verdict per name.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStringExt;

use namegate_core::name::reading::{Encoding, EncodingCounts, EncodingGuess};
use namegate_core::policy::rule::Severity;
use namegate_core::policy::{CheckOutcome, EncodingHint, Policy, profile};
use namegate_files::signature::{self, TextKind, Unsigned};
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::split::MAX_NAME;
use namegate_scan::ScanSettings;
use namegate_scan::progress::NoProgress;
use namegate_scan::report::layout::{GroupBy, Layout};
use namegate_scan::report::multi_report::FaultReport;
use namegate_scan::report::{DirectoryFindings, Renderer, Report, ReportedName, Summary};
use namegate_scan::source::list::{ListItem, NameReader, PathList};

use super::format::{ReportArgs, ReportFormat, SuggestionArgs};
use super::policy_args::PolicyArgs;
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate check 'report?.txt' --profile windows,macos
  namegate check \"$(printf 'caf\\351.txt')\"
  ls | namegate check
  git ls-files -z | namegate check --paths -0 --profile portable --format json

A name is one component of a path: a `/` in it is a violation, unless --paths is given. Names and paths need not exist; \
`namegate scan` checks names on disk.
Exit status: 0 no finding, 1 findings, 2 something could not be read.";

/// Check names given as arguments, or read from standard input
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Names to check; without any, names are read from standard input, one per line
    #[arg(value_name = "NAME")]
    names: Vec<OsString>,
    /// Names on standard input end with NUL instead of a line feed
    #[arg(short = '0', long, conflicts_with = "names")]
    null: bool,
    /// Check paths: each component once, and the names of each directory for collisions
    #[arg(long)]
    paths: bool,
    /// Print no findings; the exit status still reports them
    #[arg(short, long, conflicts_with_all = ["format", "json"])]
    quiet: bool,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    suggestions: SuggestionArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Runs the command.
///
/// # Errors
/// The policy or standard input cannot be read, or the output cannot be written.
pub fn run(args: CheckArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let policy = args.policy.policy(&[&profile::STRICT])?;
    let mut faults = anstream::stderr();
    if args.paths {
        return check_paths(args, &policy, out);
    }
    let is_single = args.names.len() == 1;
    let encoding = args.suggestions.encoding;
    let head = args.report.head(args.report.format.format == ReportFormat::Html)?;
    let report = (!args.quiet).then(|| args.report.report(out, &mut faults, LAYOUT, &head));
    let report = report.map(|report| (report.renderer(), report));
    let mut check = CheckRun { policy: &policy, report, summary: Summary::of(&policy), paths: 0 };
    if args.names.is_empty() {
        check.stream(standard_input(args.null)?, encoding)?;
    } else {
        let names: Vec<Vec<u8>> = args.names.into_iter().map(OsString::into_vec).collect();
        let guess = match encoding {
            Some(_) => None,
            None => EncodingGuess::for_names(names.iter().map(Vec::as_slice), &EncodingCounts::default()),
        };
        let legacy = guess.as_ref().map_or(hint(encoding), EncodingHint::Guessed);
        names.iter().try_for_each(|name| check.name(name, legacy))?;
    }
    let CheckRun { report, summary, paths, .. } = check;
    let is_verdict_alone = is_single && args.report.format.format == ReportFormat::Text;
    if let Some((_, mut report)) = report.filter(|_| !is_verdict_alone) {
        let basis = CheckBasis::new(&policy, b"", encoding, Severity::Warn);
        report.finish(&basis, &summary)?;
    }
    // One is a finding; many are paths.
    if paths > 0 && paths * 2 >= summary.names {
        let names = summary.names;
        log::warn!(
            "{paths} of {names} names have a `/`, which no name can have: --paths checks them as paths"
        );
    }
    Ok(ExitStatus::from_summary(&summary, args.report.fail_on))
}

/// Lines are wrapped at the width of a terminal.
const LAYOUT: Layout = Layout {
    group_by: GroupBy::Directory,
    readiness: false,
    faults: false,
    is_wrapped: true,
    is_styled: true,
};

/// The names on standard input.
fn standard_input(is_null: bool) -> Result<NameReader<Unsigned<io::StdinLock<'static>>>, CliError> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(CliError::new(
            "check: no names given, and standard input is a terminal; see `namegate check --help`",
        ));
    }
    let kind = if is_null { TextKind::NulSeparated } else { TextKind::ExactLines };
    let names = signature::skip(stdin.lock(), kind, "standard input")
        .map_err(|error| CliError::new(format_args!("cannot read standard input: {error}")))?;
    Ok(NameReader::new(names, if is_null { 0 } else { b'\n' }))
}

/// Checks each component of the paths once, by directory.
fn check_paths(
    args: CheckArgs,
    policy: &Policy,
    out: &mut (dyn Write + Send),
) -> Result<ExitStatus, CliError> {
    let mut faults = anstream::stderr();
    let head = args.report.head(args.report.format.format == ReportFormat::Html)?;
    let mut paths: Vec<Vec<u8>> = args.names.into_iter().map(OsString::into_vec).collect();
    if paths.is_empty() {
        for item in standard_input(args.null)? {
            let item = item.map_err(|error| CliError::new(format!("cannot read standard input: {error}")))?;
            paths.push(match item {
                ListItem::Name(path) => path,
                // As long as one that is too long: it is reported with the others.
                ListItem::TooLong(_) => vec![b'x'; MAX_NAME + 1],
            });
        }
    }
    let mut report: Box<dyn Report + '_> = match args.quiet {
        true => Box::new(FaultReport::new(&mut faults)),
        false => args.report.report(out, &mut faults, LAYOUT, &head),
    };
    let settings = ScanSettings { encoding: args.suggestions.encoding, ..ScanSettings::default() };
    let source = PathList(paths);
    let summary = namegate_scan::scan(&source, policy, &settings, &mut *report, &NoProgress, None, None)?;
    Ok(ExitStatus::from_summary(&summary, args.report.fail_on))
}

fn hint(encoding: Option<Encoding>) -> EncodingHint<'static> {
    encoding.map_or(EncodingHint::Unknown, EncodingHint::Given)
}

struct CheckRun<'p> {
    policy: &'p Policy,
    /// `None`: only the summary is asked for.
    report: Option<(Renderer, Box<dyn Report + 'p>)>,
    summary: Summary,
    /// The number of names with a `/`.
    paths: u64,
}

impl CheckRun<'_> {
    fn name(&mut self, name: &[u8], legacy: EncodingHint<'_>) -> io::Result<()> {
        let check = self.policy.check(name);
        self.summary.names += 1;
        self.paths += u64::from(name.contains(&b'/'));
        let Some((render, report)) = &mut self.report else {
            self.summary.count_as(check.outcome());
            return Ok(());
        };
        let mut record = ReportedName::of(self.policy, &check);
        if check.outcome() != CheckOutcome::Accept {
            record.repair = self.policy.suggest_name(name, legacy, &mut |_| false);
        }
        self.summary.count(&record);
        let findings = DirectoryFindings { records: vec![record], ..DirectoryFindings::default() };
        report.write(&findings, &render(&findings))
    }

    fn stream(
        &mut self,
        names: NameReader<impl io::BufRead>,
        encoding: Option<Encoding>,
    ) -> Result<(), CliError> {
        for item in names {
            match item {
                Ok(ListItem::Name(name)) => {
                    self.name(&name, hint(encoding))?;
                }
                Ok(ListItem::TooLong(number)) => {
                    let message = format!(
                        "name {number} of standard input has more than {MAX_NAME} bytes and was not checked; \
                         is the separator the right one (`-0` for NUL)?"
                    );
                    self.summary.unreadable += 1;
                    if let Some((_, report)) = &mut self.report {
                        report.fault(b"-", &message)?;
                    }
                }
                Err(error) => return Err(CliError::new(format!("cannot read standard input: {error}"))),
            }
        }
        Ok(())
    }
}
