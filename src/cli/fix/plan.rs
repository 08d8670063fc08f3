//! `namegate fix plan`: what is to be renamed, as lines that can be edited.

use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nix::sys::signal::Signal;
use parking_lot::Mutex;

use super::{CliError, ExitStatus, ask, show};
use crate::cli::output::{OutputFile, cannot_write};
use crate::cli::policy_args::PolicyArgs;
use crate::cli::progress::{AboveProgress, ProgressMode, TerminalProgress};
use crate::fix::plan::{Header, Retarget};
use crate::fix::propose::map::Map;
use crate::fix::propose::{Draft, Onlooker, Request, Settings, propose};
use crate::name::reading::{Encoding, NotLegacy};
use crate::policy::Policy;
use crate::policy::config::Config;
use crate::policy::profile::STRICT;
use crate::policy::rule::{RuleId, Severity};
use crate::scan::Progress;
use crate::source::Fault;
use crate::source::scope::Exclude;
use crate::time::timestamp_of_now;

const EXAMPLES: &str = "\
Examples:
  namegate fix plan /srv/share -o plan.jsonl            what strict UTF-8 asks for
  namegate fix plan /srv/share --format text            the same, to be read
  namegate fix plan /old --encoding koi8-r -o plan.jsonl
  namegate fix plan /data --profile windows,macos --normalize nfc -o plan.jsonl
  namegate fix plan /mac --map sfm --interactive -o plan.jsonl

Nothing is renamed. The plan is JSON Lines: delete the lines of names that are to stay, change a `new`.
Renames are ordered deepest first; the links that have to follow come last.
Names that are UTF-8 are not converted again; UTF-8 that was encoded twice is a repair of its own (rule `mojibake`).
Exit status: 0 nothing to do, 1 a plan with renames or with names that no way was found for, 2 something could not be read.";

/// Plan new names for those that break the policy. Nothing is renamed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to look at: the last name of each path, and everything below those that are directories.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The encoding of names that are not UTF-8; `auto` guesses it for each directory from all such names in it.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    encoding: EncodingArg,
    /// Take characters that stand for what Windows reserves for what they stand for, or with `to-` the other way round.
    #[arg(long, value_name = "MAPPING", value_parser = maps())]
    map: Option<Map>,
    /// Write the plan to FILE, which appears when it is whole.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What is printed [default: the plan, or nothing with --output].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Ask for each rename, or for all of a rule, whether it is to be in the plan; answers are read from standard input.
    #[arg(long)]
    interactive: bool,
    /// How progress is shown on standard error.
    #[arg(long, value_enum, default_value_t, value_name = "STYLE")]
    progress: ProgressMode,
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Which part of the trees is looked at.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Directory trees")]
struct TreeArgs {
    /// How many threads read and judge [default: two for each processor].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Leave out what matches, and what lies below it, in the syntax of gitignore(5), counted from each PATH.
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Look at this many levels below a PATH: 1 is what it holds, 0 its own name alone.
    #[arg(long, value_name = "N")]
    max_depth: Option<usize>,
    /// Enter other file systems that are mounted below a PATH.
    #[arg(long)]
    cross_file_systems: bool,
    /// Where on the target the names will stand, as in 'C:\Data': lengths of paths count it.
    #[arg(long, value_name = "PATH")]
    prefix: Option<OsString>,
}

/// What is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The plan: JSON Lines.
    Json,
    /// Old and new names in two columns, for people.
    Text,
}

/// `auto`, or an encoding.
#[derive(Clone, Copy, Debug)]
struct EncodingArg(Option<Encoding>);

impl FromStr for EncodingArg {
    type Err = NotLegacy;

    fn from_str(word: &str) -> Result<Self, NotLegacy> {
        if word.eq_ignore_ascii_case("auto") {
            return Ok(Self(None));
        }
        word.parse().map(|encoding| Self(Some(encoding)))
    }
}

fn maps() -> impl TypedValueParser<Value = Map> {
    PossibleValuesParser::new(Map::WORDS).try_map(|word| word.parse::<Map>())
}

/// Runs the command.
///
/// # Errors
/// The policy cannot be read, a glob cannot be understood, or the plan cannot be written.
pub fn run(args: Args, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let policy = args.policy()?;
    let settings = args.settings();
    let request = args.request()?;
    let create = || {
        args.output.as_deref().map(|path| {
            OutputFile::create(path).map(|file| (path, file)).map_err(|error| cannot_write(path, &error))
        })
    };
    // Who cannot write the plan should learn it before the work; a file that was begun is left behind by whoever leaves
    // when asked something.
    let begun = if args.interactive { None } else { create().transpose()? };
    let progress = Progress::default();
    let watch = TerminalProgress::new(args.progress, None, None);
    let onlooker = Told {
        progress: &progress,
        faults: Mutex::new(watch.above(anstream::stderr())),
        unreadable: AtomicU64::new(0),
    };
    let mut draft = watch.over(&progress, || propose(&request, &policy, &settings, &onlooker));
    if let Some(status) = ended(&watch) {
        return Ok(status);
    }
    if args.interactive {
        watch.release();
        ask::about(&mut draft, &policy, &mut io::stdin().lock(), &mut anstream::stderr())?;
    }
    let file = if args.interactive { create().transpose()? } else { begun };
    draft.settle(&policy, &settings);
    let header = args.header(&draft, &policy);
    let mut retargets = Vec::new();
    let found = watch.over(&progress, || {
        draft.retargets(&onlooker, &mut |retarget| {
            retargets.push(retarget);
            ControlFlow::Continue(())
        })
    });
    if let Some(status) = ended(&watch).filter(|_| found.is_break()) {
        return Ok(status);
    }
    match args.format.or(file.is_none().then_some(Format::Json)) {
        Some(Format::Json) => write(out, &header, &draft, &retargets)?,
        Some(Format::Text) => show::table(out, &draft, &retargets)?,
        None => {}
    }
    if let Some((path, mut file)) = file {
        let written = write(&mut file, &header, &draft, &retargets).and_then(|()| file.finish());
        written.map_err(|error| cannot_write(path, &error))?;
    }
    let is_empty = draft.directories.iter().all(|d| d.renames.is_empty() && d.skipped.is_empty());
    Ok(match (onlooker.unreadable.into_inner(), is_empty) {
        (0, true) => ExitStatus::Clean,
        (0, false) => ExitStatus::Findings,
        _ => ExitStatus::Failed,
    })
}

/// What a run ends with that a signal has ended.
fn ended(watch: &TerminalProgress) -> Option<ExitStatus> {
    watch.ended_by().map(|signal| match signal {
        Signal::SIGTERM => ExitStatus::Terminated,
        _ => ExitStatus::Interrupted,
    })
}

/// Writes the plan.
fn write(out: &mut dyn Write, header: &Header, draft: &Draft, retargets: &[Retarget]) -> io::Result<()> {
    writeln!(out, "{}", header.to_line())?;
    for planned in &draft.directories {
        planned.renames.iter().try_for_each(|rename| writeln!(out, "{}", rename.to_line()))?;
        planned.skipped.iter().try_for_each(|skipped| writeln!(out, "{}", skipped.to_line()))?;
    }
    retargets.iter().try_for_each(|retarget| writeln!(out, "{}", retarget.to_line()))?;
    out.flush()
}

impl Args {
    /// The policy: with `mojibake`, unless the file says otherwise, and without what the mapping asked for would break.
    fn policy(&self) -> Result<Policy, CliError> {
        let mut config = self.policy.config(&[&STRICT])?;
        config.severities.entry(RuleId::Mojibake).or_insert(Some(Severity::Warn));
        if self.map.is_some_and(Map::makes_private_use) {
            config.severities.insert(RuleId::SmbPrivateUse, None);
            config.severities.insert(RuleId::PrivateUse, None);
        }
        self.policy.build(&config)
    }

    fn settings(&self) -> Settings {
        let mut prefix = self.tree.prefix.clone().map(OsString::into_vec).unwrap_or_default();
        // A separator follows in any case, whichever of the two it is.
        if matches!(prefix.last(), Some(b'/' | b'\\')) {
            prefix.pop();
        }
        Settings { encoding: self.encoding.0, map: self.map, prefix }
    }

    fn request(&self) -> Result<Request, CliError> {
        let exclude = Exclude::new(self.tree.exclude.iter().map(String::as_str));
        let processors = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Ok(Request {
            paths: self.paths.clone(),
            exclude: exclude.map_err(|error| CliError::new(format_args!("--exclude: {error}")))?,
            max_depth: self.tree.max_depth.unwrap_or(usize::MAX),
            crosses_file_systems: self.tree.cross_file_systems,
            jobs: self.tree.jobs.map_or_else(|| 2 * processors(), usize::from),
        })
    }

    fn header(&self, draft: &Draft, policy: &Policy) -> Header {
        Header {
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            created: timestamp_of_now(),
            roots: draft.roots.clone(),
            profiles: policy.profiles().iter().map(|profile| profile.name.to_owned()).collect(),
            policy: Config::from_policy(policy).ok().map(|config| config.to_toml()),
            encoding: self.encoding.0.map_or("auto", Encoding::name).to_owned(),
            normalize: policy.normalization().map(|normalization| normalization.form.to_string()),
            map: self.map.map(|map| map.to_string()),
        }
    }
}

/// Tells the user how far the reading has come, and what could not be read.
struct Told<'p, W: Write> {
    progress: &'p Progress,
    faults: Mutex<AboveProgress<W>>,
    unreadable: AtomicU64,
}

impl<W: Write + Send> Onlooker for Told<'_, W> {
    fn judged(&self, dir: &Path, names: u64, found: u64) {
        self.progress.directories.fetch_add(1, Relaxed);
        self.progress.names.fetch_add(names, Relaxed);
        self.progress.findings.fetch_add(found, Relaxed);
        let mut current = self.progress.current.lock();
        current.as_mut_os_string().clear();
        current.push(dir);
    }

    fn fault(&self, fault: &Fault) {
        self.unreadable.fetch_add(1, Relaxed);
        let mut faults = self.faults.lock();
        // Where this cannot be written, the status has to do.
        let _ = writeln!(faults, "namegate: {fault}").and_then(|()| faults.flush());
    }

    fn is_stopped(&self) -> bool {
        self.progress.stop.load(Relaxed)
    }
}
