//! `namegate scan`: checks every name in directory trees, lists, Git repositories and archives.

mod resume;
mod sources;
mod tree_args;

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};

use indicatif::HumanBytes;
use namegate_core::name::display::{display, shown};
use namegate_core::name::reading::Encoding;
use namegate_core::policy::Policy;
use namegate_core::policy::rule::Severity;
use namegate_scan::probe::TargetFacts;
use namegate_scan::report::Summary;
use namegate_scan::report::baseline::RelativePaths;
use namegate_scan::report::html::ReportMetadata;
use namegate_scan::report::layout::grouped;
use namegate_scan::report::multi_report::MultiReport;
use namegate_scan::source::sizes::{self, TreeSize};
use namegate_scan::{CheckpointSink, ScanSettings};
use namegate_sys::{allocation, open_files};
use nix::sys::stat::{SFlag, fstat};

use self::resume::{ScanScope, StateFile};
use self::sources::{INSTEAD_OF_PATHS, SourceArgs};
use self::tree_args::{Resumption, TreeArgs};
use super::format::{ReportArgs, ReportFormat, SuggestionArgs};
use super::output::{Files, OutputArgs};
use super::policy_args::PolicyArgs;
use super::progress::{ProgressMode, TerminalProgress};
use super::targets::TargetArgs;
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate scan                                      # everything below the working directory
  namegate scan /srv/share
  namegate scan . --profile windows,macos            # before a move to both
  namegate scan /data --format json > names.jsonl    # for other programs
  namegate scan /old --encoding koi8-r               # suggest names as if bad names were KOI8-R
  namegate scan /srv --target windows,sharepoint --prefix 'C:\\Data' -o report.html
  namegate scan /srv --for /mnt/usb                  # before a move to what is mounted there
  namegate scan . -q -o names.sarif -o junit.xml --fail-on error
  namegate scan . --write-baseline known.jsonl
  namegate scan . --baseline known.jsonl             # only what is new
  namegate scan / -x --exclude .snapshots/           # one file system, without its snapshots
  namegate scan /archive --resume state -o r.html    # continue where a scan was interrupted
  find /srv -print0 | namegate scan --list - -0
  namegate scan --git . --git-all                    # every name in the history
  namegate scan --archive old.zip --archive-encoding cp850
  namegate scan --list inventory.csv --list-format csv:2 --list-as keys --decode percent
  namegate scan /srv --target windows,s3 --summary-by rule,target,prefix:2

A list is checked as if it contained all names of its directories. The names of symbolic links are checked; links are not \
followed, except a PATH that is one. What cannot be read is reported and does not end the scan.

Of several --exclude patterns that match a name, the last one decides; one that begins with `!` includes the name again.

SIGUSR1 prints the progress. SIGINT (Ctrl-C), SIGTERM and SIGHUP end the scan with a report of what was found so far, which says that it is \
incomplete.

Exit status: 0 no finding of at least the severity of --fail-on, 1 findings, 2 something could not be read, or the \
baseline is that of another tree, 129 ended by SIGHUP, 130 by Ctrl-C, 143 by SIGTERM.";

/// Check every name in directory trees, lists, Git repositories and archives
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ScanArgs {
    /// Files and directories to check: their own names, and everything below a directory [default: the working directory, unless
    /// there is a list, repository or archive]
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Progress on standard error
    #[arg(long, value_enum, default_value_t, value_name = "STYLE", display_order = 10)]
    progress: ProgressMode,
    /// Save the state of the scan of directory trees in STATE and its findings in STATE.found, or continue from them if they
    /// exist; the report has all findings, and both files are removed when the scan is complete
    #[arg(long, value_name = "STATE", conflicts_with_all = INSTEAD_OF_PATHS, display_order = 11)]
    resume: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    suggestions: SuggestionArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    targets: TargetArgs,
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Runs the command.
///
/// # Errors
/// The policy cannot be read, options do not go together, or the output cannot be written.
pub fn run(args: ScanArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    open_files::raise_limit();
    allocation::return_large_buffers();
    let ScanArgs {
        paths,
        sources,
        report: mut report_args,
        suggestions,
        progress: style,
        resume,
        mut output,
        targets,
        tree,
        policy,
    } = args;
    let paths = if sources.labels().is_empty() { paths_or_working_directory(paths) } else { paths };
    tree.require_tree(!paths.is_empty())?;
    output.resolve_stdout(&mut report_args)?;
    let (asked, policy) = targets.policy(&policy)?;
    let relative = RelativePaths::new(&paths);
    let mut settings = targets.settings(suggestions.encoding, &relative)?;
    settings.owner_of = tree.owner_of();
    let scanned = paths.iter().map(|path| absolute(path)).chain(sources.labels()).collect();
    let head = metadata(&report_args, &output, &settings, scanned)?;
    let scope = || tree.add_to(scope(&paths, &policy, &settings)).with("--baseline", targets.baseline_path());
    let (state, before) = resume.map(|path| StateFile::open(path, scope())).transpose()?.unzip();
    let (left, before) = before.map(Option::unzip).unzip();
    let resumption = left.map(|left| Resumption { left, ..Resumption::default() });
    let wanted = resumption.as_ref().map(|resumption| resumption.wanted.clone());
    let mut source = sources.sources(tree.given_jobs());
    let expected = if source.is_empty() { tree.expected(&paths) } else { None };
    if !paths.is_empty() {
        source.insert(0, tree.source(&paths, resumption)?);
    }
    let profiles: Vec<&str> = policy.profile_set().names().collect();
    log::info!("checking against {} (threads: {})", profiles.join(", "), tree.jobs());
    tree.warn_of_file_systems(&paths);
    let progress = TerminalProgress::new(style, expected, wanted);
    let mut above: Box<dyn Write + Send> = match progress.is_drawn() && io::stdout().is_terminal() {
        true => Box::new(progress.above(out)),
        false => Box::new(out),
    };
    let mut faults = progress.above(anstream::stderr());
    let layout = output.layout(targets.asks_for_targets());
    let mut files = output.begin()?;
    let mut reports = files.reports(report_args.fail_on, layout, &head, &relative);
    reports.push(output.printed(&report_args, &mut above, &mut faults, layout, &head)?);
    let mut report = MultiReport::new(reports);
    let keeper = state.as_ref().map(|state| state as &dyn CheckpointSink);
    let scanned =
        || namegate_scan::scan(&source, &policy, &settings, &mut report, &progress, keeper, before.flatten());
    let summary = progress.run(scanned)?;
    drop(report);
    drop(above);
    let status = finish(&summary, files, &progress, state)?;
    if status.is_none() {
        targets.check_baseline(&summary)?;
    }
    let has_room = match asked.filter(|_| status.is_none()) {
        Some(asked) => {
            let size = paths.first().map(|_| tree.source(&paths, None)).transpose()?;
            let size = size.map(|source| progress.run(|| sizes::measure(&*source, &progress)));
            has_room_for(&asked.facts, summary.names, size)
        }
        None => true,
    };
    let found = if has_room { ExitStatus::Clean } else { ExitStatus::Findings };
    // A signal may have come while the files were added up.
    Ok(status
        .or_else(|| progress.stopped())
        .unwrap_or_else(|| ExitStatus::from_summary(&summary, report_args.fail_on).max(found)))
}

/// Reports whether the target of `--for` has room for so many names and for the files of the trees; says so if it has not.
fn has_room_for(target: &TargetFacts, names: u64, size: Option<TreeSize>) -> bool {
    let path = shown(&target.path);
    let inodes = target.free_inodes.filter(|&free| free < names);
    if let Some(free) = inodes.map(grouped) {
        log::warn!("{path} has {free} free inodes, fewer than the {} names", grouped(names));
    }
    let size = size.unwrap_or(TreeSize { bytes: 0, is_whole: true });
    let is_full = size.bytes > target.free_bytes;
    if is_full {
        let [free, needed] = [target.free_bytes, size.bytes].map(HumanBytes);
        log::warn!("{path} has {free} free, less than the {needed} of the files");
    } else if !size.is_whole {
        log::warn!("whether the files have room on {path} is not known: not all could be looked up");
    }
    inodes.is_none() && !is_full
}

/// Completes the files of a scan; returns its exit status if it was stopped.
fn finish(
    summary: &Summary,
    files: Files,
    progress: &TerminalProgress<'_>,
    state: Option<StateFile>,
) -> Result<Option<ExitStatus>, CliError> {
    if let Some(signal) = progress.ended_by() {
        // If standard error fails, the report says it.
        let what = summary.incompleteness().unwrap_or_default();
        let _ = writeln!(anstream::stderr(), "namegate: {signal}: {what}");
    }
    // A pipe whose reader does not read holds the end up.
    progress.run(|| files.finish(summary))?;
    let status = progress.stopped();
    // The state of a scan that is not complete is of use.
    if let Some(state) = state.filter(|_| status.is_none() && !summary.is_unread) {
        state.remove().map_err(|error| CliError::new(format_args!("cannot remove the state: {error}")))?;
    }
    Ok(status)
}

/// The paths to scan: the working directory, if none is given.
fn paths_or_working_directory(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    if paths.is_empty() {
        paths.push(".".into());
        if is_pipe(io::stdin()) {
            log::warn!(
                "scanning the working directory; `--list -` checks the names on standard input instead"
            );
        }
    }
    paths
}

/// What reports say of the whole scan.
fn metadata(
    report_args: &ReportArgs,
    output: &OutputArgs,
    settings: &ScanSettings,
    scanned: Vec<String>,
) -> Result<ReportMetadata, CliError> {
    let is_html = report_args.format.format == ReportFormat::Html || output.writes(ReportFormat::Html);
    Ok(ReportMetadata {
        scanned,
        // Where a Windows path is meant, an escaped backslash would mislead.
        prefix: display(&settings.prefix).to_string().replace(r"\\", r"\"),
        has_owners: settings.owner_of.is_some(),
        ..report_args.head(is_html)?
    })
}

/// What a scan of `paths` reads and checks, except for the options of trees and the baseline.
fn scope(paths: &[PathBuf], policy: &Policy, settings: &ScanSettings) -> ScanScope {
    ScanScope::new()
        .with("PATH", paths.iter().map(|path| path.as_os_str().as_bytes()))
        .with("--profile", policy.profile_set().names())
        .with("the policy", [policy.to_text()])
        .with("--target", settings.targets.iter().map(|target| target.name))
        .with("--prefix", [settings.prefix.clone()])
        .with("--encoding", settings.encoding.map(Encoding::name))
        .with("--min-severity", settings.min_severity.map(Severity::as_str))
}

/// Whether another program writes to this file: `find | namegate scan` means its names.
fn is_pipe(file: impl AsFd) -> bool {
    fstat(file).is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFIFO)
}

/// A path as the head of a report shows it: readers do not know the working directory.
fn absolute(path: &Path) -> String {
    path::absolute(path).map_or_else(|_| shown(path), |path| shown(&path))
}
