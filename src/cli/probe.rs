//! `namegate probe`: asks a directory on a target which names it stores, and prints the policy that follows.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use indicatif::HumanBytes;
use namegate_core::name::display::{display, shown};
use namegate_files::json::{self, JsonBytes, TypedObject};
use namegate_files::output;
use namegate_scan::probe::{Arrival, Probe, ProbeError, TriedName, is_stored, probe, sample_of};
use namegate_scan::progress::Observer;
use namegate_scan::report::layout::{BOLD, grouped};
use serde_json::{Value, json};

use super::format::{FormatArgs, PlainFormat, write_field};
use super::progress::{ProgressMode, TerminalProgress};
use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate probe /mnt/usb                         # what it refuses, changes and merges
  namegate probe /mnt/usb -o usb.toml             # save the policy, for `namegate scan --config`
  namegate probe /mnt/share --no-write            # only read what the file system says of itself
  namegate probe /mnt/usb --json

About 250 empty files are created in a private directory in PATH, read back and removed, with the directory. What cannot be tried there \
is taken from the profile that fits the type of the file system, and the output says so.

Exit status: 0 the target was asked, 2 something could not be tried or removed, 129 ended by SIGHUP, 130 by Ctrl-C, 143 by SIGTERM.";

/// Ask a directory on a target which names it stores, and print the policy that follows
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ProbeArgs {
    /// Directory on the target
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Create nothing there: only read type, mount options, flags and limits of the file system
    #[arg(long)]
    no_write: bool,
    /// Write the policy to FILE, for --config
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs<PlainFormat>,
}

/// Runs the command.
///
/// # Errors
/// The directory cannot be read or does not answer, or the policy or the output cannot be written.
pub fn run(args: &ProbeArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    let progress = TerminalProgress::new(ProgressMode::Never, None, None);
    let probe = ask_target(&args.path, !args.no_write, &progress)?;
    progress.release();
    let policy = policy_text(&probe);
    if let Some(file) = &args.output {
        let written = output::write(file, policy.as_bytes());
        written.map_err(|error| CliError::new(format_args!("cannot write {}: {error}", shown(file))))?;
    }
    match args.format.format {
        PlainFormat::Text => write_text(&probe, &policy, out)?,
        PlainFormat::Json => json::write_line(out, &TypedObject::new("probe", to_json(&probe)))?,
    }
    let was_tried = probe.trials.failure.is_none() || args.no_write;
    let is_complete = was_tried && probe.trials.left_behind.is_none();
    Ok(progress.stopped().unwrap_or(if is_complete { ExitStatus::Clean } else { ExitStatus::Failed }))
}

/// Asks the directory at `path`; a signal ends the trials, and what they have made is removed.
///
/// # Errors
/// The directory cannot be read or does not answer, or a signal came.
pub fn ask_target(path: &Path, writes: bool, progress: &TerminalProgress<'_>) -> Result<Probe, CliError> {
    // What was created is removed before the process ends.
    progress.finishing();
    let asked = progress.run(|| probe(path, writes, progress));
    asked.map_err(|error| match progress.stopped().filter(|_| matches!(error, ProbeError::Stopped)) {
        Some(status) => CliError::Ended(status),
        None => CliError::new(format_args!("{}: {error}", shown(path))),
    })
}

/// Asks the target of `--for`, and says what could not be tried.
///
/// # Errors
/// As of [`ask_target`].
pub fn ask_for_policy(path: &Path) -> Result<Probe, CliError> {
    let asked = ask_target(path, true, &TerminalProgress::new(ProgressMode::Never, None, None))?;
    let name = shown(path);
    log::info!("{name} ({}): {} names tried", kind(&asked), asked.trials.names.len());
    if let Some(failure) = &asked.trials.failure {
        let profile = asked.fit.profile.name;
        log::warn!(
            "{name}: not everything was tried: {failure}; the rest comes from the profile `{profile}`"
        );
    }
    if let Some(left) = &asked.trials.left_behind {
        log::warn!("{name}: could not be removed: {left}");
    }
    asked.fit.inexact.iter().for_each(|text| log::warn!("{name}: no policy can say that {text}"));
    Ok(asked)
}

/// The policy as a file.
fn policy_text(probe: &Probe) -> String {
    let (facts, trials) = (&probe.facts, &probe.trials);
    let tried = match &trials.failure {
        None => format!("{} names were tried", trials.names.len()),
        Some(failure) => format!("not everything was tried: {failure}"),
    };
    // A path has no line feed when it is displayed.
    let head = format!("# What {} stores ({}); {tried}.\n", shown(&facts.path), kind(probe));
    head + &probe.fit.config.to_toml()
}

fn kind(probe: &Probe) -> &str {
    match probe.facts.kind() {
        "" => "unknown file system",
        kind => kind,
    }
}

/// What became of the names that are not stored as they are, for people; control characters that follow each other as one range.
fn samples(names: &[TriedName], take: impl Fn(&TriedName) -> Option<String>) -> String {
    let is_control = |tried: &TriedName| sample_of(&tried.name).is_some_and(|it| matches!(it, [1..=0x1F]));
    let taken: Vec<(bool, Option<String>)> = names.iter().map(|it| (is_control(it), take(it))).collect();
    let runs = taken.chunk_by(|(a, found), (b, next)| *a && *b && found.is_some() && next.is_some());
    let found = runs.flat_map(|run| match run {
        [(_, Some(first)), .., (_, Some(last))] => vec![format!("{first} to {last}")],
        run => run.iter().filter_map(|(_, found)| found.clone()).collect(),
    });
    let found: Vec<String> = found.collect();
    if found.is_empty() { "nothing that was tried".to_owned() } else { found.join(", ") }
}

/// A tried name without its tag: the sample, or the name, or how often its character is repeated.
fn label(name: &[u8]) -> String {
    if let Some(sample) = sample_of(name) {
        return display(sample).to_string();
    }
    match std::str::from_utf8(name).ok().and_then(|text| text.chars().next()) {
        Some(first) if name.len() > 40 => format!("{} bytes of {first}", name.len()),
        _ => format!("`{}`", display(name)),
    }
}

fn write_text(probe: &Probe, policy: &str, out: &mut dyn Write) -> io::Result<()> {
    let (facts, trials, fit) = (&probe.facts, &probe.trials, &probe.fit);
    writeln!(out, "{BOLD}{}{BOLD:#}", shown(&facts.path))?;
    let mut field = |name: &str, value: &str| write_field(out, 15, name, value);
    let mount = facts.mount.as_ref().map(|mount| {
        let options = display(&mount.options).to_string();
        format!("{} on {} ({options})", kind(probe), display(&mount.source))
    });
    field("file system", mount.as_deref().unwrap_or(kind(probe)))?;
    let flags = [("ignores case", facts.casefold_flag), ("encrypts names", facts.encrypted_flag)];
    for (what, _) in flags.iter().filter(|(_, flag)| *flag == Some(true)) {
        field("flag", &format!("the directory {what}"))?;
    }
    let mut warnings: Vec<String> = Vec::new();
    warnings.extend(trials.failure.as_ref().map(|failure| {
        format!(
            "not everything was tried: {failure}; what is unknown comes from the profile `{}`",
            fit.profile.name
        )
    }));
    warnings.extend(trials.left_behind.as_ref().map(|left| format!("could not be removed: {left}")));
    warnings.extend(facts.leftovers.iter().map(|name| {
        format!("{} is of a probe that was killed, or that still runs", display(name.as_encoded_bytes()))
    }));
    if facts.is_for_windows() && fit.profile.name != "windows" && fit.profile.name != "smb" {
        warnings
            .push("Windows refuses more names than this: for use there check --target windows too".into());
    }
    warnings.extend(fit.inexact.iter().map(|text| format!("no policy can say that {text}")));
    field("profile", fit.profile.name)?;
    if trials.failure.is_none() {
        let refused = |tried: &TriedName| match &tried.arrival {
            Arrival::Refused(_) => Some(label(&tried.name)),
            Arrival::Lost => Some(format!("{} (lost)", label(&tried.name))),
            _ => None,
        };
        field("refused", &samples(&trials.names, refused))?;
        let changed = |tried: &TriedName| match &tried.arrival {
            Arrival::Changed(arrived) => Some(format!("{} to {}", label(&tried.name), label(arrived))),
            _ => None,
        };
        field("changed", &samples(&trials.names, changed))?;
        let case = fit.equal.case.map(|fold| format!("case ({})", fold.as_str()));
        let form = fit.equal.form.map(|form| format!("normalization ({form})"));
        let ignored: Vec<String> = case.into_iter().chain(form).collect();
        field("ignored", &if ignored.is_empty() { "nothing".to_owned() } else { ignored.join(", ") })?;
        let lengths = trials.longest.iter().map(|&(c, count)| format!("{count} times {c}"));
        field("longest name", &lengths.collect::<Vec<_>>().join(", "))?;
    }
    field("longest path", &format!("{} bytes below this directory", grouped(facts.path_bytes_left as u64)))?;
    let inodes = facts.free_inodes.map(|free| format!(", {} inodes", grouped(free)));
    field("free", &format!("{}{}", HumanBytes(facts.free_bytes), inodes.unwrap_or_default()))?;
    warnings.iter().try_for_each(|warning| field("note", warning))?;
    write!(out, "\n{policy}")
}

fn to_json(probe: &Probe) -> Value {
    let (facts, trials, fit) = (&probe.facts, &probe.trials, &probe.fit);
    let names = trials.names.iter().map(|tried| {
        let (result, arrived, error) = match &tried.arrival {
            Arrival::Kept => ("kept", None, None),
            Arrival::Changed(arrived) => ("changed", Some(JsonBytes::new(arrived)), None),
            Arrival::Lost => ("lost", None, None),
            Arrival::Refused(error) => ("refused", None, Some(format!("{error:?}"))),
        };
        json!({
            "name": JsonBytes::new(&tried.name), "result": result, "arrived": arrived, "error": error,
            "is_stored": is_stored(tried),
        })
    });
    let pairs = trials.pairs.iter().map(|pair| json!({ "names": pair.names, "are_one": pair.are_one }));
    json!({
        "path": JsonBytes::new(facts.path.as_os_str().as_encoded_bytes()),
        "kind": facts.kind(),
        "source": facts.mount.as_ref().map(|mount| JsonBytes::new(&mount.source)),
        "mount_options": facts.mount.as_ref().map(|mount| JsonBytes::new(&mount.options)),
        "read_only": facts.is_read_only,
        "name_max": facts.stated_name_max,
        "casefold_flag": facts.casefold_flag,
        "encrypted_flag": facts.encrypted_flag,
        "free_bytes": facts.free_bytes,
        "free_inodes": facts.free_inodes,
        "path_bytes_left": facts.path_bytes_left,
        "names": names.collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
        "longest": trials.longest.iter().map(|(c, count)| json!({ "character": c, "count": count })).collect::<Vec<_>>(),
        "not_tried": trials.failure,
        "left_behind": trials.left_behind,
        "leftovers": facts.leftovers.iter().map(|name| JsonBytes::new(name.as_encoded_bytes())).collect::<Vec<_>>(),
        "profile": fit.profile.name,
        "equal_names": { "case": fit.equal.case.map(|fold| fold.as_str()), "form": fit.equal.form.map(|form| form.as_str()) },
        "inexact": fit.inexact,
        "policy": fit.config.to_toml(),
    })
}
