//! The command line: one file per subcommand.
//!
//! A subcommand has a struct of arguments (clap's derive: parser, help, manual page and completions come from that one
//! definition) and a `run` that returns an [`ExitStatus`] or a [`CliError`]. Parsing only validates what was typed; `run` opens
//! files. Nothing outside this module prints, and nothing imports it but `main`.

mod check;
mod colours;
mod completions;
mod config;
mod diagnoses;
mod doctor;
mod explain;
mod fix;
mod follow;
mod format;
#[cfg(feature = "guard")]
mod guard;
mod guards;
mod instances;
mod list;
mod list_pairs;
mod list_reading_args;
mod lists;
mod man;
mod metrics;
mod mode;
mod mount;
mod mount_answer;
mod mount_status;
mod output;
mod overview;
mod policy;
mod policy_args;
mod probe;
mod profiles;
mod progress;
mod reload;
mod report;
mod rule_examples;
mod rules;
mod scan;
mod setting_args;
mod targets;
mod tasks;
mod top;
mod upgrade;
mod verify;
mod watch;
mod why;
mod words;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use anstream::ColorChoice;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use log::LevelFilter;
use namegate_files::output::WaitingWriter;
use namegate_scan::report::{FailOn, Summary, layout};
use namegate_telemetry::log::{LogFormat, install};
use terminal_size::{Width, terminal_size_of};

use self::colours::UncolouredOutput;
use crate::explain::unicode_version;
use crate::service::serve::receive_stored;

/// The exit status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitStatus {
    /// Nothing was found.
    Clean = 0,
    /// Something was found.
    Findings = 1,
    /// Something could not be done or read.
    Failed = 2,
    /// Ended by SIGHUP, as shells number it: the terminal was closed.
    HungUp = 129,
    /// Ended by SIGINT.
    Interrupted = 130,
    /// Ended by SIGTERM.
    Terminated = 143,
}

impl ExitStatus {
    /// The exit status of a run with these findings.
    pub fn from_summary(summary: &Summary, fail_on: FailOn) -> Self {
        match summary.is_complete() {
            true if !fail_on.is_met(summary) => Self::Clean,
            true => Self::Findings,
            false => Self::Failed,
        }
    }
}

/// Why a command failed.
#[derive(Debug)]
pub enum CliError {
    /// What was attempted on what, why it failed, and what to do; one or more lines for people.
    Message(String),
    /// The reader of our output has gone, which is no failure.
    OutputClosed,
    /// Another process has reported the error.
    AlreadyReported,
    /// A signal ended the run before there was anything to report.
    Ended(ExitStatus),
}

impl CliError {
    /// An error with a message for people.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::Message(message.to_string())
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message(message) => message,
            Self::OutputClosed => "nobody reads the output any more",
            Self::AlreadyReported => "another process has reported the error",
            Self::Ended(_) => "a signal ended the run",
        })
    }
}

impl std::error::Error for CliError {}

impl From<io::Error> for CliError {
    /// For errors of writing our own output; other errors say more about what was attempted.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ if error.get_ref().is_some_and(|inner| inner.is::<output::WriteError>()) => {
                Self::Message(error.to_string())
            }
            _ => Self::Message(format!("cannot write the output: {error}")),
        }
    }
}

/// Find, fix and prevent file names that are damaged or that other systems refuse
///
/// Every name must be strict UTF-8 (RFC 3629). Profiles add rules: those of a migration target, such as `windows`, or general
/// ones, such as `strict` and `security`.
#[derive(Debug, Parser)]
#[command(name = "namegate", disable_version_flag = true, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// When to colour the output
    #[arg(long, value_enum, default_value_t = Color::Auto, global = true, value_name = "WHEN", display_order = 900)]
    color: Color,
    /// Write progress messages to standard error; with --version, also print the version of the Unicode data
    #[arg(short, long, global = true, display_order = 901)]
    verbose: bool,
    /// Format of log messages [default: journal if standard error is the systemd journal, otherwise text]
    #[arg(long, value_parser = setting_args::choice_parser::<LogFormat>(), global = true, value_name = "FORMAT", display_order = 902)]
    log_format: Option<LogFormat>,
    /// Print the version
    #[arg(short = 'V', long, exclusive = false)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXAMPLES: &str = "\
Examples:
  namegate check 'report?.txt' --profile windows
  namegate scan /srv/share --target windows,sharepoint
  namegate fix plan /srv/share > plan.jsonl
  namegate mount /srv/share /mnt/share
  namegate watch /srv/share

Help of one command: namegate scan --help, or the manual page namegate-scan(1).

Exit status: 0 nothing found, 1 something found, 2 something could not be done or read.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::CheckArgs),
    Explain(explain::ExplainArgs),
    Why(why::WhyArgs),
    Scan(Box<scan::ScanArgs>),
    Report(report::StoredReportArgs),
    Fix(fix::FixArgs),
    Verify(Box<verify::VerifyArgs>),
    Mount(Box<mount::MountArgs>),
    Watch(Box<watch::WatchArgs>),
    #[cfg(feature = "guard")]
    Guard(guard::GuardArgs),
    Status(mount_status::StatusArgs),
    List(list::ListArgs),
    ListPairs(list_pairs::ListPairsArgs),
    Top(top::TopArgs),
    Reload(reload::ReloadArgs),
    Mode(mode::ModeArgs),
    Upgrade(upgrade::UpgradeArgs),
    Metrics(metrics::MetricsCommand),
    Config(config::ConfigArgs),
    Rules(rules::RulesArgs),
    Profiles(profiles::ProfilesArgs),
    Policy(policy::PolicyCommandArgs),
    Probe(probe::ProbeArgs),
    Doctor(doctor::DoctorArgs),
    Man(man::ManArgs),
    Completions(completions::CompletionsArgs),
}

/// Runs the command line that the process was started with.
pub fn main() -> ExitCode {
    receive_stored();
    if std::env::args_os().next().is_some_and(|program| mount::is_helper(&program)) {
        return help_mount();
    }
    if let Some((Width(columns), _)) = terminal_size_of(io::stdout()) {
        layout::set_terminal_width(columns.into());
    }
    if std::env::args_os().len() == 1 {
        // If this fails, there is only the exit status left.
        let _ = write!(anstream::stderr(), "{}", overview::FIRST_SCREEN);
        return ExitCode::from(ExitStatus::Failed as u8);
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let result = match tasks::asked(&words) {
        Some(text) => {
            write!(anstream::stdout(), "{text}").map_err(CliError::from).map(|()| ExitStatus::Clean)
        }
        None => match parse(&words) {
            Ok(cli) => execute(cli),
            Err(usage) => usage.print().map_err(CliError::from).map(|()| match usage.use_stderr() {
                true => ExitStatus::Failed,
                false => ExitStatus::Clean,
            }),
        },
    };
    match result {
        Ok(status) => ExitCode::from(status as u8),
        Err(CliError::OutputClosed) => ExitCode::SUCCESS,
        Err(CliError::Ended(status)) => ExitCode::from(status as u8),
        Err(error) => report_error("namegate", &error, ExitStatus::Failed as u8),
    }
}

/// Parses a command line; the first word is the name of the program.
fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let parse = |words: &[OsString]| {
        command().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches))
    };
    parse(words).map_err(|error| overview::advise(error, words, |words| parse(words).err()))
}

/// Runs the program as a helper of mount(8).
fn help_mount() -> ExitCode {
    match mount::Helper::try_parse() {
        Ok(helper) => {
            let (is_verbose, format) = helper.log();
            start_log(is_verbose, format);
            match helper.run() {
                Ok(status) => ExitCode::from(status as u8),
                Err((status, error)) => report_error("mount.namegate", &error, status),
            }
        }
        Err(usage) => {
            // If this fails, there is only the exit status left.
            let _ = usage.print();
            ExitCode::from(mount::Helper::usage(&usage))
        }
    }
}

/// Writes the message of the error, and returns `status`.
fn report_error(program: &str, error: &CliError, status: u8) -> ExitCode {
    if let CliError::Message(message) = error {
        // If this fails, there is only the exit status left.
        let _ = writeln!(anstream::stderr(), "{program}: {message}");
    }
    ExitCode::from(status)
}

fn start_log(is_verbose: bool, format: Option<LogFormat>) {
    let level = if is_verbose { LevelFilter::Info } else { LevelFilter::Warn };
    // fuser logs an error for each reply to a request that the kernel has given up, which happens at every unmount.
    let fuser_level = if is_verbose { level } else { LevelFilter::Off };
    let mut logger = env_logger::Builder::new();
    // aya warns of every map that it does not know, which crates/sys/src/bpf.rs makes.
    logger.filter_level(level).filter_module("fuser", fuser_level).filter_module("aya", LevelFilter::Error);
    logger.parse_default_env();
    install(logger.build(), format);
}

fn execute(cli: Cli) -> Result<ExitStatus, CliError> {
    match cli.color {
        Color::Auto => {}
        Color::Always => ColorChoice::Always.write_global(),
        Color::Never => ColorChoice::Never.write_global(),
    }
    let (is_verbose, log_format) = match &cli.command {
        Some(Command::Mount(args)) => args.log(),
        _ => (false, None),
    };
    start_log(cli.verbose || is_verbose, cli.log_format.or(log_format));
    let buffered = io::BufWriter::with_capacity(BUFFER, WaitingWriter(io::stdout()));
    let mut out: Box<dyn Write + Send> = match anstream::AutoStream::choice(&io::stdout()) {
        // Taking colours out cuts the output into small pieces, so there is a buffer before it and one after it.
        ColorChoice::Never => Box::new(io::BufWriter::with_capacity(BUFFER, UncolouredOutput::new(buffered))),
        _ => Box::new(buffered),
    };
    let result = run(cli, &mut *out);
    // Findings are written before the error that ended the run.
    let flushed = out.flush();
    let status = result?;
    match flushed {
        // What the command found does not depend on its reader.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(status),
    }
}

/// Size of an output buffer, in bytes.
const BUFFER: usize = 1 << 16;

fn run(cli: Cli, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let Some(command) = cli.command.filter(|_| !cli.version) else {
        if !cli.version {
            return Err(CliError::new("no command given; see `namegate --help`"));
        }
        writeln!(out, "namegate {}", env!("CARGO_PKG_VERSION"))?;
        if cli.verbose {
            writeln!(out, "Unicode {}", unicode_version())?;
        }
        return Ok(ExitStatus::Clean);
    };
    match command {
        Command::Check(args) => check::run(args, out),
        Command::Explain(args) => explain::run(&args, out),
        Command::Why(args) => why::run(&args, out),
        Command::Scan(args) => scan::run(*args, out),
        Command::Report(args) => report::run(args, out),
        Command::Fix(args) => fix::run(args, out),
        Command::Verify(args) => verify::run(&args, out),
        Command::Mount(args) => mount::run(&args),
        Command::Watch(args) => watch::run(&args, out),
        #[cfg(feature = "guard")]
        Command::Guard(args) => guard::run(&args, out),
        Command::Status(args) => mount_status::run(&args, out),
        Command::List(args) => list::run(&args, out),
        Command::ListPairs(args) => list_pairs::run(&args, out),
        Command::Top(args) => top::run(&args, out),
        Command::Reload(args) => reload::run(&args, out),
        Command::Upgrade(args) => upgrade::run(&args, out),
        Command::Mode(args) => mode::run(&args, out),
        Command::Metrics(args) => metrics::run(&args, out),
        Command::Config(args) => config::run(&args, out),
        Command::Rules(args) => rules::run(&args, out),
        Command::Profiles(args) => profiles::run(&args, out),
        Command::Policy(args) => policy::run(&args, out),
        Command::Probe(args) => probe::run(&args, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Man(args) => man::run(&args, out),
        Command::Completions(args) => completions::run(&args, out),
    }
}

/// The whole command line, for the parser, manual pages and completions.
fn command() -> clap::Command {
    overview::with_groups(Cli::command())
}
