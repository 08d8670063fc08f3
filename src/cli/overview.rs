//! What the program shows to somebody who does not know it: the first screen, the commands by purpose, and which command was meant.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap::builder::{StyledStr, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use namegate_core::name::display::shown;
use namegate_core::policy::UnknownWord;
use namegate_scan::report::layout::{BOLD, PLAIN, write_wrapped};

/// What `namegate` alone prints.
pub const FIRST_SCREEN: &str = "\
namegate finds, fixes and prevents bad file names: names that are not UTF-8, or
that another system refuses, changes or merges.

  namegate scan DIR --target windows     find the names that Windows would spoil
  namegate explain NAME                  show what is wrong with a name
  namegate fix plan DIR -o plan.jsonl    plan better names; rename nothing
  namegate fix apply plan.jsonl --yes    rename by the plan; `fix undo` reverts
  namegate mount DIR MOUNTPOINT          serve DIR, and let no bad name in
  namegate doctor                        check this machine

All commands and tasks: namegate --help. One command: namegate scan --help.
";

/// The commands by purpose.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Find bad names", &["scan", "check", "explain", "probe", "report", "list-pairs"]),
    ("Fix them", &["fix", "verify"]),
    ("Prevent them", &["mount", "watch", "guard"]),
    ("Running mounts", &["list", "status", "top", "why", "mode", "reload", "upgrade", "metrics"]),
    ("Reference", &["rules", "profiles", "policy"]),
    ("Setup", &["doctor", "config", "man", "completions"]),
];

/// Words of other programs, and what they call here.
const MEANT: [(&[&str], &str); 11] = [
    (&["lint", "find", "search", "audit", "analyze", "analyse"], "scan"),
    (&["test", "validate", "name"], "check"),
    (&["info", "inspect", "describe", "show", "decode"], "explain"),
    (&["rename", "repair", "clean", "convert", "detox", "sanitize", "sanitise", "normalize"], "fix"),
    (&["plan", "preview"], "fix plan"),
    (&["apply"], "fix apply"),
    (&["undo", "revert", "rollback", "restore"], "fix undo"),
    (&["serve", "start", "run", "fuse"], "mount"),
    (&["monitor", "follow"], "watch"),
    (&["targets", "presets"], "profiles"),
    (&["diagnose", "diagnostics", "env"], "doctor"),
];

/// The command line with its commands by purpose in the help.
pub fn with_groups(command: Command) -> Command {
    let mut text = Vec::new();
    let header = *command.get_styles().get_header();
    for (title, names) in GROUPS {
        let found = || command.get_subcommands().filter(|below| names.contains(&below.get_name()));
        let width = NAME_COLUMN;
        // Writing to memory does not fail.
        let _ = writeln!(text, "{header}{title}:{header:#}");
        let mut below: Vec<&Command> = found().collect();
        below.sort_by_key(|below| names.iter().position(|name| *name == below.get_name()));
        for below in below {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = write!(text, "  {BOLD}{:width$}{BOLD:#}", below.get_name());
            let _ = write_wrapped(&mut text, NAME_COLUMN + 2, PLAIN, &about);
        }
        text.push(b'\n');
    }
    let groups = String::from_utf8_lossy(&text);
    let options = format!("{header}Options:{header:#}");
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{options}\n{{options}}{{after-help}}\n\n{}",
        super::tasks::list().trim_end()
    );
    command.help_template(StyledStr::from(template))
}

/// The columns of the names of commands, with the space behind them.
const NAME_COLUMN: usize = 13;

/// The error about a command line, with what to do: the command that was probably meant, or an example of a complete one.
///
/// `parse` parses a command line like the one that has failed.
pub fn advise(mut error: Error, words: &[OsString], parse: impl Fn(&[OsString]) -> Option<Error>) -> Error {
    drop_far_words(&mut error);
    match error.kind() {
        ErrorKind::InvalidSubcommand => name_the_meant(error, words, parse),
        ErrorKind::MissingRequiredArgument => show_an_example(error, words),
        _ => error,
    }
}

/// Removes suggestions that are not the unknown word, mistyped: the parser's idea of similar takes `--nonempty` for `--noatime`.
fn drop_far_words(error: &mut Error) {
    for (given, suggested) in [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ] {
        let Some(ContextValue::String(word)) = error.get(given) else { continue };
        let is_near = |known: &str| {
            UnknownWord::is_mistyped(word.trim_start_matches('-'), known.trim_start_matches('-'))
        };
        let kept = match error.get(suggested) {
            Some(ContextValue::String(known)) if is_near(known) => continue,
            Some(ContextValue::Strings(known)) => {
                known.iter().filter(|known| is_near(known)).cloned().collect()
            }
            Some(ContextValue::String(_)) => Vec::new(),
            _ => continue,
        };
        error.remove(suggested);
        if kept.is_empty() {
            // It shows how to use what was suggested.
            error.remove(ContextKind::Usage);
        } else {
            error.insert(suggested, ContextValue::Strings(kept));
        }
    }
}

fn name_the_meant(
    mut error: Error,
    words: &[OsString],
    parse: impl Fn(&[OsString]) -> Option<Error>,
) -> Error {
    // The parser looks for near words only where a command itself is expected.
    let without_help: Vec<OsString> = words.iter().filter(|word| *word != "help").cloned().collect();
    if without_help.len() < words.len()
        && let Some(nearer) =
            parse(&without_help).filter(|error| error.kind() == ErrorKind::InvalidSubcommand)
    {
        error = nearer;
    }
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let is_first = without_help.get(1).is_some_and(|word| word == unknown.as_str());
    let known = MEANT.iter().find(|(words, _)| words.contains(&unknown.to_lowercase().as_str()));
    let meant = match known {
        Some((_, meant)) => (*meant).to_owned(),
        // Somebody names what is to be scanned, and no command.
        None if Path::new(unknown).exists() => format!("scan {}", shown(Path::new(unknown))),
        None => {
            // Help was asked for that is neither of a command nor of a task.
            if without_help.len() < words.len() && is_first {
                let unknown = unknown.clone();
                suggest_task(&mut error, &unknown);
            }
            return error;
        }
    };
    if is_first {
        error.remove(ContextKind::SuggestedSubcommand);
        suggest(&mut error, "the command for that", &format!("namegate {meant}"));
    }
    error
}

/// Adds the task that was probably meant, or all of them if no command was.
fn suggest_task(error: &mut Error, unknown: &str) {
    let help = match super::tasks::mistyped(unknown) {
        Some(task) => format!("namegate help {task}"),
        None if error.get(ContextKind::SuggestedSubcommand).is_some() => return,
        None => format!("namegate help {}", super::tasks::words().join(", ")),
    };
    error.remove(ContextKind::SuggestedSubcommand);
    suggest(error, "help of a task", &help);
}

/// Adds the first example in the help of the command whose arguments are missing.
fn show_an_example(mut error: Error, words: &[OsString]) -> Error {
    let root = super::command();
    let (mut command, mut name) = (&root, String::from("namegate"));
    for word in words[1..].iter().filter(|word| !word.as_encoded_bytes().starts_with(b"-")) {
        let Some(below) = word.to_str().and_then(|word| command.find_subcommand(word)) else { break };
        command = below;
        name = format!("{name} {}", below.get_name());
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    // The first examples of some commands are those of other commands, which come before.
    let mut examples = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(" #").next());
    if let Some(example) = examples.find(|line| line.starts_with(&name)) {
        suggest(&mut error, "an example", example.trim_end());
    }
    error
}

fn suggest(error: &mut Error, what: &str, line: &str) {
    let valid = *Styles::styled().get_valid();
    let tip = StyledStr::from(format!("{what}: {valid}{line}{valid:#}"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_no_other_word_is() {
        let command = crate::cli::command();
        let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        grouped.retain(|name| cfg!(feature = "guard") || *name != "guard");
        let all: BTreeSet<&str> = grouped.iter().copied().collect();
        assert_eq!(all.len(), grouped.len());
        assert_eq!(all, known.iter().copied().collect());
        for (words, meant) in MEANT {
            assert!(known.contains(&meant.split(' ').next().unwrap()), "{meant}");
            assert!(words.iter().all(|word| !known.contains(word)), "{words:?}");
        }
    }
}
