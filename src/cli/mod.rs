//! The command line: one file per subcommand.
//!
//! A subcommand has an `Args` (clap's derive: parser, help, manual page and completions come from that one definition)
//! and a `run` that gives a [`Status`] or [`Trouble`]. Parsing only validates what was typed; files are opened by `run`.
//! Nothing outside this module prints, and nothing imports it but `main`.

mod check;
mod completions;
mod config;
mod doctor;
mod explain;
mod fix;
mod format;
mod instances;
mod judging;
mod list;
mod lists;
mod man;
mod metrics;
mod metrics_args;
mod mode;
mod mount;
mod output;
mod policy;
mod policy_args;
mod profiles;
mod progress;
mod reload;
mod rules;
mod scan;
mod status;
mod top;
mod watch;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

use crate::name::scalar::UNICODE_VERSION;
use crate::report::{FailOn, Summary};
use crate::telemetry::log::{LogFormat, install};

/// What a run ended with; its number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Nothing was found.
    Clean = 0,
    /// Something was found.
    Findings = 1,
    /// Something could not be done or read.
    Trouble = 2,
    /// Ended by SIGINT, as shells number it.
    Interrupted = 130,
    /// Ended by SIGTERM.
    Terminated = 143,
}

impl Status {
    /// What a run that found this ends with.
    pub fn of(summary: &Summary, fail_on: FailOn) -> Self {
        match summary.unreadable {
            0 if !fail_on.is_met(summary) => Self::Clean,
            0 => Self::Findings,
            _ => Self::Trouble,
        }
    }
}

/// Why a run could not go on.
#[derive(Debug)]
pub enum Trouble {
    /// What was attempted on what, and what went wrong; one or more lines for people.
    Message(String),
    /// The reader of our output has gone: no trouble, but nothing more to do.
    OutputClosed,
    /// Another process has said it already.
    Told,
}

impl Trouble {
    /// A message for people.
    pub fn new(message: impl fmt::Display) -> Self {
        Self::Message(message.to_string())
    }
}

impl From<io::Error> for Trouble {
    /// For errors of writing our own output; other errors say more about what was attempted.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::OutputClosed,
            _ => Self::Message(format!("cannot write the output: {error}")),
        }
    }
}

/// Keeps file names well-formed: judges, explains and scans them.
///
/// A name is judged by strict UTF-8 (RFC 3629) always, and by the rules of one or more profiles: of a migration target
/// such as `windows`, or of good sense, such as `strict` and `security`.
#[derive(Debug, Parser)]
#[command(name = "namegate", disable_version_flag = true, max_term_width = 100, after_help = EXIT_STATUS)]
pub struct Cli {
    /// When to colour the output.
    #[arg(long, value_enum, default_value_t = Color::Auto, global = true, value_name = "WHEN", display_order = 900)]
    color: Color,
    /// Say on standard error what is done; with --version, print the version of the Unicode data too.
    #[arg(short, long, global = true, display_order = 901)]
    verbose: bool,
    /// In what form messages on standard error are [default: journal where it is systemd's journal, else text].
    #[arg(long, value_enum, global = true, value_name = "FORMAT", display_order = 902)]
    log_format: Option<LogFormat>,
    /// Print the version.
    #[arg(short = 'V', long, exclusive = false)]
    version: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

const EXIT_STATUS: &str =
    "Exit status: 0 nothing found, 1 something found, 2 something could not be done or read.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Args),
    Explain(explain::Args),
    Scan(Box<scan::Args>),
    Fix(fix::Args),
    Mount(Box<mount::Args>),
    Watch(Box<watch::WatchArgs>),
    Status(status::StatusArgs),
    List(list::ListArgs),
    Top(top::TopArgs),
    Reload(reload::ReloadArgs),
    Mode(mode::ModeArgs),
    Metrics(metrics::MetricsCommand),
    Config(config::Args),
    Rules(rules::Args),
    Profiles(profiles::Args),
    Policy(policy::Args),
    Doctor(doctor::Args),
    Man(man::Args),
    Completions(completions::Args),
}

/// Runs the command line that the process was started with.
pub fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|program| mount::is_helper(&program)) {
        return help_mount();
    }
    let done = match Cli::try_parse() {
        Ok(cli) => go(cli),
        Err(usage) => usage.print().map_err(Trouble::from).map(|()| match usage.use_stderr() {
            true => Status::Trouble,
            false => Status::Clean,
        }),
    };
    match done {
        Ok(status) => ExitCode::from(status as u8),
        Err(Trouble::OutputClosed) => ExitCode::SUCCESS,
        Err(trouble) => told("namegate", &trouble, Status::Trouble as u8),
    }
}

/// Runs the program as a helper of mount(8).
fn help_mount() -> ExitCode {
    match mount::Helper::try_parse() {
        Ok(helper) => {
            start_log(helper.is_verbose(), helper.log_format());
            match helper.run() {
                Ok(status) => ExitCode::from(status as u8),
                Err((status, trouble)) => told("mount.namegate", &trouble, status),
            }
        }
        Err(usage) => {
            // Where even this cannot be written, the status has to do.
            let _ = usage.print();
            ExitCode::from(mount::Helper::usage(&usage))
        }
    }
}

/// Says what the trouble is, and ends with `status`.
fn told(program: &str, trouble: &Trouble, status: u8) -> ExitCode {
    if let Trouble::Message(message) = trouble {
        // Where even this cannot be written, the status has to do.
        let _ = writeln!(anstream::stderr(), "{program}: {message}");
    }
    ExitCode::from(status)
}

fn start_log(is_verbose: bool, format: Option<LogFormat>) {
    let level = if is_verbose { log::LevelFilter::Info } else { log::LevelFilter::Warn };
    // fuser takes each reply whose request the kernel has given up meanwhile, as at every unmounting, for an error.
    let of_fuser = if is_verbose { level } else { log::LevelFilter::Off };
    let mut logger = env_logger::Builder::new();
    logger.filter_level(level).filter_module("fuser", of_fuser).parse_default_env();
    install(logger.build(), format);
}

fn go(cli: Cli) -> Result<Status, Trouble> {
    match cli.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    let (is_verbose, log_format) = match &cli.command {
        Some(Command::Mount(args)) => (args.is_verbose(), args.log_format()),
        _ => (false, None),
    };
    start_log(cli.verbose || is_verbose, cli.log_format.or(log_format));
    // Stripping colours cuts the output into small pieces, so there is a buffer before it and one behind it.
    let color = anstream::AutoStream::choice(&io::stdout());
    let buffered: Box<dyn Write + Send> = Box::new(io::BufWriter::with_capacity(BUFFER, io::stdout()));
    let mut out = io::BufWriter::with_capacity(BUFFER, anstream::AutoStream::new(buffered, color));
    let done = run(cli, &mut out);
    // What was found before a trouble is told too, and before it.
    let flushed = out.flush();
    let status = done?;
    flushed?;
    Ok(status)
}

/// How much output is gathered before it is written, in bytes.
const BUFFER: usize = 1 << 16;

fn run(cli: Cli, out: &mut (dyn Write + Send)) -> Result<Status, Trouble> {
    let Some(command) = cli.command.filter(|_| !cli.version) else {
        if !cli.version {
            return Err(Trouble::Message(format!("no command given\n\n{}", command().render_help().ansi())));
        }
        writeln!(out, "namegate {}", env!("CARGO_PKG_VERSION"))?;
        if cli.verbose {
            let (major, minor, patch) = UNICODE_VERSION;
            writeln!(out, "Unicode {major}.{minor}.{patch}")?;
        }
        return Ok(Status::Clean);
    };
    match command {
        Command::Check(args) => check::run(args, out),
        Command::Explain(args) => explain::run(&args, out),
        Command::Scan(args) => scan::run(*args, out),
        Command::Fix(args) => fix::run(args, out),
        Command::Mount(args) => mount::run(*args),
        Command::Watch(args) => watch::run(&args, out),
        Command::Status(args) => status::run(&args, out),
        Command::List(args) => list::run(&args, out),
        Command::Top(args) => top::run(&args, out),
        Command::Reload(args) => reload::run(&args, out),
        Command::Mode(args) => mode::run(&args, out),
        Command::Metrics(args) => metrics::run(&args, out),
        Command::Config(args) => config::run(&args, out),
        Command::Rules(args) => rules::run(&args, out),
        Command::Profiles(args) => profiles::run(&args, out),
        Command::Policy(args) => policy::run(&args, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Man(args) => man::run(&args, out),
        Command::Completions(args) => completions::run(&args, out),
    }
}

/// The whole command line, for manual pages and completions.
fn command() -> clap::Command {
    Cli::command()
}
