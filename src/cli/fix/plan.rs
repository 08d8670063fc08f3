//! `namegate fix plan`: writes a plan that can be edited.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use namegate_core::name::display::shown;
use namegate_core::name::misread::Reread;
use namegate_core::name::reading::Encoding;
use namegate_core::name::substitutes::KnownMap;
use namegate_core::policy::Policy;
use namegate_core::policy::config::Config;
use namegate_core::policy::rule::{RuleId, Severity};
use namegate_files::signature::{self, TextKind};
use namegate_files::time::timestamp_of_now;
use namegate_fix::plan::PlanHeader;
use namegate_fix::propose::char_table::{self, CharTable};
use namegate_fix::propose::conversion::NameConversion;
use namegate_fix::propose::map::CharMap;
#[cfg(feature = "archive")]
use namegate_fix::propose::members::propose_for_members;
use namegate_fix::propose::{PlanDraft, PlanRequest, PlanSettings, propose};
use namegate_scan::encoded_text::EncodedText;
use namegate_scan::source::scope::Exclude;
use namegate_sys::process::processors;

#[cfg(feature = "archive")]
use super::archive::{identify, open_archive};
use super::encoding_arg::EncodingArg;
use super::plan_files::{FinishedPlan, PlanFormat, PlanOutputs};
use super::{CliError, ExitStatus, ask, show};
use crate::cli::format::FormatArgs;
use crate::cli::output::{split_output, two_on_stdout};
use crate::cli::policy_args::PolicyArgs;
use crate::cli::progress::{ProgressMode, TerminalProgress};
use crate::cli::targets::TargetSelection;
use crate::cli::words::word_parser;

const EXAMPLES: &str = "\
Examples:
  namegate fix plan /srv/share                              # show the plan
  namegate fix plan /srv/share -o plan.jsonl                # write the plan
  namegate fix plan /srv/share -o plan.csv                  # write the plan as a table
  namegate fix plan /srv/share -o plan.jsonl -o review.html # and a page to decide in
  namegate fix plan /old --encoding koi8-r -o plan.jsonl
  namegate fix plan /old --reread cp866:gbk -o plan.jsonl           # `╙ъ╓╨` is 雨中
  namegate fix plan /data --target windows,macos --normalize nfc -o plan.jsonl
  namegate fix plan /data --for /mnt/usb -o plan.jsonl      # for what this target stores
  namegate fix plan /data --target s3 --min-severity warn   # also what S3 only advises against
  namegate fix plan /mac --map sfm --interactive -o plan.jsonl
  namegate fix plan /data --profile windows --map to-rclone -o plan.jsonl
  namegate fix plan /mail --decode mime,percent -o plan.jsonl
  namegate fix plan /old --transliterate --replacement - -o plan.jsonl

Nothing is renamed. The plan is JSON Lines, or CSV for spreadsheets: delete the lines of names to keep, or change a `new`. Renames come deepest first, \
symbolic links with a new target last.

A plan has names with errors and damaged names. What a target only advises against is counted, and --min-severity warn includes it.

Names in UTF-8 are converted only if they were read in a wrong encoding: the rule `mojibake` finds those that are evident, and --reread names \
the encodings of others.

Exit status: 0 the plan is complete, 2 something could not be read or written, 129 ended by SIGHUP, 130 by Ctrl-C, 143 by SIGTERM.";

/// Plan new names for names that break the policy; rename nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    /// Files and directories to check: their own names, and everything below a directory.
    #[arg(value_name = "PATH", required_unless_present = "archive")]
    paths: Vec<PathBuf>,
    /// Plan names for the members of this zip or tar instead; `namegate fix archive` applies the plan to a copy
    #[cfg(feature = "archive")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "interactive", "exclude", "max_depth", "cross_file_systems"])]
    archive: Option<PathBuf>,
    /// Encoding of names that are not UTF-8 (`namegate rules --encodings` lists all); `auto` guesses it for each directory.
    #[arg(long, value_name = "NAME", default_value = "auto")]
    encoding: EncodingArg,
    /// Undo that names in one encoding were read as another, as by unpacking a zip with a wrong code page: all names in UTF-8 that are such
    /// text. WRITTEN can be utf-8.
    #[arg(long, value_name = "READ:WRITTEN")]
    reread: Option<Reread>,
    /// Replace characters by a table: FILE with a line `CHARACTER -> REPLACEMENT` for each, or a MAPPING for the characters that
    /// Windows reserves: sfm, sfu, catia and rclone decode the substitutes; to-sfm, to-sfu, to-catia and to-rclone encode.
    #[arg(long, value_name = "MAPPING|FILE")]
    map: Option<PathBuf>,
    /// Decode text that a program encoded in names
    #[arg(long, value_name = "KIND,...", value_delimiter = ',', value_parser = word_parser(EncodedText::WORDS))]
    decode: Vec<EncodedText>,
    /// Write all names in ASCII: `é` as `e`, `Я` as `Ia`
    #[arg(long)]
    transliterate: bool,
    /// Character instead of those that are not allowed [default: `_`, or another one if `_` is not allowed].
    #[arg(long, value_name = "CHARACTER")]
    replacement: Option<char>,
    /// Shorten names that are too long. They keep their beginning, end and extension, and are guesses.
    #[arg(long)]
    shorten: bool,
    /// Write the plan to FILE, which appears when it is complete, as JSON Lines, as csv (a file named `.csv`) or in FORMAT, as in csv:plan;
    /// `-` is standard output. A file named `.html` is a page to decide about the renames; the plan of a page is in the other FILE or, if
    /// there is none, beside it, as in review.jsonl. Repeatable
    #[arg(short, long, value_name = "[FORMAT:]FILE")]
    output: Vec<OsString>,
    #[command(flatten)]
    format: FormatArgs<PlanFormat>,
    /// Ask about each rename, or about all renames for a rule; answers come from standard input.
    #[arg(long)]
    interactive: bool,
    /// Progress on standard error.
    #[arg(long, value_enum, default_value_t, value_name = "STYLE")]
    progress: ProgressMode,
    #[command(flatten)]
    target: TargetSelection,
    #[command(flatten)]
    tree: TreeArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// The part of the trees to read.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Directory trees")]
struct TreeArgs {
    /// Number of threads [default: two per processor]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Skip matching names and everything below them (gitignore(5) patterns, relative to each PATH; repeatable)
    #[arg(long, value_name = "GLOB")]
    exclude: Vec<String>,
    /// Number of levels to read below a PATH: 1 for its entries, 0 for its own name only
    #[arg(long, value_name = "N")]
    max_depth: Option<usize>,
    /// Include file systems that are mounted below a PATH.
    #[arg(long)]
    cross_file_systems: bool,
}

/// The mapping with this name, or the table in this file.
fn read_map(argument: &Path) -> Result<CharMap, CliError> {
    if let Some(known) = argument.to_str().and_then(|word| word.parse::<KnownMap>().ok()) {
        return Ok(CharMap::Known(known));
    }
    let name = shown(argument).to_string();
    let mut text = Vec::new();
    let read =
        File::open(argument).and_then(|file| file.take(char_table::MAX_BYTES + 1).read_to_end(&mut text));
    read.map_err(|error| {
        CliError::new(format_args!(
            "--map: '{name}' is none of the mappings {}, and cannot be read as a table: {error}",
            KnownMap::WORDS.join(", ")
        ))
    })?;
    if text.len() as u64 > char_table::MAX_BYTES {
        return Err(CliError::new(format_args!(
            "--map: {name} has more than {} bytes",
            char_table::MAX_BYTES
        )));
    }
    let text = signature::strip(&text, TextKind::Syntax, &name)
        .map_err(|error| CliError::new(format_args!("--map: {name}: {error}")))?;
    let table = CharTable::parse(&name, text);
    table
        .map(|table| CharMap::Table(table.into()))
        .map_err(|error| CliError::new(format_args!("{name}: {error}")))
}

/// Runs the command.
///
/// # Errors
/// The policy or a pattern is invalid, or the plan cannot be written.
pub fn run(args: PlanArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let settings = args.settings()?;
    let policy = args.policy(&settings.conversion)?;
    let request = args.request()?;
    let (format, outputs) = args.outputs()?;
    // A file that cannot be written is reported before the work. With questions the files are created after them: a user who leaves
    // would leave them behind.
    let begun = if args.interactive { None } else { Some(outputs.create()?) };
    let progress = TerminalProgress::new(args.progress, None, None);
    let mut draft = progress.run(|| args.propose(&request, &policy, &settings, &progress))?;
    if let Some(status) = progress.stopped() {
        return Ok(status);
    }
    if args.interactive {
        progress.release();
        ask::ask_about_renames(&mut draft, &policy, &mut io::stdin().lock(), &mut anstream::stderr())?;
    }
    let files = begun.map_or_else(|| outputs.create(), Ok)?;
    draft.finish_renames(&policy, &settings).map_err(CliError::new)?;
    let header = args.header(&draft, &policy, &settings)?;
    let retargets = match progress.run(|| draft.find_retargets(&progress)).map_err(CliError::new)? {
        ControlFlow::Continue(retargets) => retargets,
        ControlFlow::Break(()) => return Ok(progress.stopped().unwrap_or(ExitStatus::Interrupted)),
    };
    // Nothing is left to finish: a signal ends what waits for the reader of the plan.
    progress.release();
    let format = match format {
        PlanFormat::Auto if outputs.is_empty() && io::stdout().is_terminal() => PlanFormat::Text,
        PlanFormat::Auto if outputs.is_empty() => PlanFormat::Json,
        format => format,
    };
    let plan = FinishedPlan { header: &header, draft: &draft, retargets: &retargets };
    match format {
        PlanFormat::Json => plan.write_json(out)?,
        PlanFormat::Csv if outputs.is_empty() => plan.write_csv(out)?,
        PlanFormat::Text => show::write_table(out, &draft, &retargets, show::output_width())?,
        PlanFormat::Csv | PlanFormat::Auto | PlanFormat::Html => {}
    }
    plan.write_files(files, &policy)?;
    if format != PlanFormat::Json && (format != PlanFormat::Csv || !outputs.is_empty()) {
        show::write_counts(out, &draft, &retargets, &policy)?;
        outputs.write_next_step(header.roots.first().filter(|_| header.archive.is_some()), out)?;
    }
    Ok(if progress.problems() == 0 { ExitStatus::Clean } else { ExitStatus::Failed })
}

impl PlanArgs {
    /// The format of standard output, and the files.
    fn outputs(&self) -> Result<(PlanFormat, PlanOutputs), CliError> {
        let (mut format, mut outputs) = (self.format.format, PlanOutputs::default());
        for argument in &self.output {
            let (in_front, path) = split_output(argument);
            let Some(path) = path else {
                // What `-o` writes is a plan, on a terminal too.
                format = match in_front {
                    Some(other) if self.format.is_given && other != format => return Err(two_on_stdout()),
                    None if !self.format.is_given => PlanFormat::Json,
                    given => given.unwrap_or(format),
                };
                continue;
            };
            outputs.add(in_front, format, path)?;
        }
        if format == PlanFormat::Html && !outputs.has_page() {
            return Err(CliError::new("a page is written with its plan: -o review.html"));
        }
        outputs.add_plan_of_page();
        Ok((format, outputs))
    }

    /// The policy, without the rules that the mapping breaks.
    fn policy(&self, conversion: &NameConversion) -> Result<Policy, CliError> {
        let asked = self.target.ask()?;
        let policy = self.target.policy(&self.policy, asked.as_ref(), self.shorten, |config| {
            if conversion.map.as_ref().is_some_and(CharMap::makes_private_use) {
                config.severities.insert(RuleId::SmbPrivateUse, None);
                config.severities.insert(RuleId::PrivateUse, None);
            }
        })?;
        let Some(replacement) = self.replacement else { return Ok(policy) };
        policy.with_replacement(replacement).ok_or_else(|| {
            let replacement = shown(Path::new(&replacement.to_string())).to_string();
            CliError::new(format_args!(
                "--replacement: the policy does not allow '{replacement}' at the beginning, in the middle and at the end of a name"
            ))
        })
    }

    fn settings(&self) -> Result<PlanSettings, CliError> {
        let conversion = NameConversion {
            reread: self.reread,
            decodes: self.decode.clone(),
            map: self.map.as_deref().map(read_map).transpose()?,
            transliterates: self.transliterate,
            replacement: self.replacement.unwrap_or('_'),
        };
        Ok(PlanSettings { encoding: self.encoding.0, conversion, prefix: self.target.prefix() })
    }

    fn request(&self) -> Result<PlanRequest, CliError> {
        let exclude = Exclude::new(self.tree.exclude.iter().map(String::as_str));
        Ok(PlanRequest {
            paths: self.paths.clone(),
            exclude: exclude.map_err(|error| CliError::new(format_args!("--exclude: {error}")))?,
            max_depth: self.tree.max_depth.unwrap_or(usize::MAX),
            crosses_file_systems: self.tree.cross_file_systems,
            jobs: self.tree.jobs.map_or_else(|| 2 * processors(), usize::from),
        })
    }

    fn propose(
        &self,
        request: &PlanRequest,
        policy: &Policy,
        settings: &PlanSettings,
        progress: &TerminalProgress<'_>,
    ) -> Result<PlanDraft, CliError> {
        #[cfg(feature = "archive")]
        if let Some(path) = &self.archive {
            let source = open_archive(path)?;
            return propose_for_members(&source, policy, settings, request.jobs, progress)
                .map_err(CliError::new);
        }
        propose(request, policy, settings, progress).map_err(CliError::new)
    }

    fn header(
        &self,
        draft: &PlanDraft,
        policy: &Policy,
        settings: &PlanSettings,
    ) -> Result<PlanHeader, CliError> {
        #[cfg(feature = "archive")]
        let archive = self.archive.as_deref().map(|path| identify(path, &open_archive(path)?)).transpose()?;
        #[cfg(not(feature = "archive"))]
        let archive = None;
        Ok(PlanHeader {
            namegate: env!("CARGO_PKG_VERSION").to_owned(),
            created: timestamp_of_now(),
            roots: draft.roots.clone(),
            profiles: policy.profiles().iter().map(|profile| profile.name.to_owned()).collect(),
            policy: Config::from_policy(policy).ok().map(|config| config.to_toml()),
            encoding: self.encoding.0.map_or("auto", Encoding::name).to_owned(),
            reread: self.reread.map(|reread| reread.to_string()),
            normalize: policy.normalization().map(|normalization| normalization.form.to_string()),
            map: settings.conversion.map.as_ref().map(CharMap::to_string),
            transliterate: self.transliterate,
            replacement: self.replacement,
            min_severity: Some(policy.repairs().min_severity).filter(|least| *least != Severity::Error),
            shorten: self.shorten,
            decode: self.decode.iter().map(|kind| kind.as_str().to_owned()).collect(),
            left_out: draft.left_out,
            git_renames: draft.git_renames,
            archive,
            ..PlanHeader::default()
        })
    }
}
