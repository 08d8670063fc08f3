//! `namegate completions`: what a shell needs to complete our command line.

use std::collections::BTreeSet;
use std::io::Write;

use clap::Command;
use clap_complete::Shell;

use super::{CliError, ExitStatus};

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  namegate completions bash > ~/.local/share/bash-completion/completions/namegate
  namegate completions zsh > ~/.zfunc/_namegate
  namegate completions fish > ~/.config/fish/completions/namegate.fish")]
pub(super) struct CompletionsArgs {
    /// Shell that will read the script
    shell: Shell,
}

pub(super) fn run(args: &CompletionsArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    // The generator panics where it cannot write, so it writes to memory.
    let mut script = Vec::new();
    let mut command = super::command();
    clap_complete::generate(args.shell, &mut command, "namegate", &mut script);
    let script = complete_lists(args.shell, String::from_utf8_lossy(&script).into_owned(), &command);
    out.write_all(script.as_bytes())?;
    Ok(ExitStatus::Clean)
}

/// Completes each value of a list between commas: clap_complete takes such a list for one value.
fn complete_lists(shell: Shell, mut script: String, command: &Command) -> String {
    let mut lists = BTreeSet::new();
    gather_lists(command, &mut lists);
    for list in lists {
        let words = list.join(" ");
        let (one, many) = match shell {
            Shell::Bash => (
                format!(r#"compgen -W "{words}" -- "${{cur}}""#),
                format!(r#"compgen -P "${{cur%"${{cur##*,}}"}}" -W "{words}" -- "${{cur##*,}}""#),
            ),
            Shell::Zsh => (format!(":({words})"), format!(":_sequence compadd - {words}")),
            Shell::Fish => (
                format!(
                    "\"{}\"",
                    list.iter().map(|word| format!(r"{word}\t''")).collect::<Vec<_>>().join("\n")
                ),
                format!(r#""(__fish_complete_list , 'string split : {}')""#, list.join(":")),
            ),
            _ => continue,
        };
        script = script.replace(&one, &many);
    }
    script
}

/// The values of all options that take a list between commas.
fn gather_lists(command: &Command, lists: &mut BTreeSet<Vec<String>>) {
    for arg in command.get_arguments().filter(|arg| arg.get_value_delimiter() == Some(',')) {
        lists.insert(arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect());
    }
    command.get_subcommands().for_each(|below| gather_lists(below, lists));
}

#[cfg(test)]
mod tests {
    use std::process::Command as Process;

    use super::*;

    fn script(shell: Shell) -> String {
        let mut script = Vec::new();
        run(&CompletionsArgs { shell }, &mut script).unwrap();
        String::from_utf8(script).unwrap()
    }

    /// Words that are completed, and the last of them afterwards.
    const CASES: [(&str, &str); 5] = [
        ("check --profile win", "windows"),
        ("check --profile strict,win", "strict,windows"),
        ("mount --profile strict,macos,ut", "strict,macos,utf8"),
        ("scan --target s3,utf", "s3,utf8"),
        ("explain --format js", "json"),
    ];

    /// What `shell` prints for a script that completes `namegate WORDS`; `None` if there is no such shell.
    fn completed(shell: &str, options: &[&str], script: &str) -> Option<String> {
        let output = Process::new(shell).args(options).args(["-c", script]).env("TERM", "vt100").output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).ok()
    }

    #[test]
    fn completion_in_bash_goes_on_after_a_comma() {
        for (words, last) in CASES {
            let (before, current) = words.rsplit_once(' ').unwrap();
            let line = format!(
                "{}\nCOMP_WORDS=(namegate {before} '{current}'); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
                 _namegate namegate '{current}' \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[@]}}\"",
                script(Shell::Bash)
            );
            assert_eq!(completed("bash", &["--norc"], &line).as_deref(), Some(last), "{words}");
        }
    }

    #[test]
    fn completion_in_fish_goes_on_after_a_comma() {
        for (words, last) in CASES {
            let line = format!("{}\ncomplete -C 'namegate {words}'", script(Shell::Fish));
            let Some(found) = completed("fish", &["--no-config"], &line) else {
                return println!("SKIPPED: no fish: its completions were not tried");
            };
            assert_eq!(found.split('\t').next(), Some(last), "{words}: {found}");
        }
    }

    /// In a terminal of its own, where the Tab key completes the line, and a function of our name prints it.
    #[test]
    fn completion_in_zsh_goes_on_after_a_comma() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, script(Shell::Zsh)).unwrap();
        let path = file.path().display();
        for (words, last) in CASES {
            let line = format!(
                "zmodload zsh/zpty || exit 1
                 zpty shell env ZDOTDIR=/nonexistent zsh -f -i
                 zpty -w shell 'unsetopt zle_bracketed_paste; autoload -Uz compinit; compinit -u -D; source {path}'
                 zpty -w shell 'compdef _namegate namegate; namegate() {{ print -r -- \"<$*>\" }}; print REA''DY'
                 zpty -r -m shell line '*READY*'
                 zpty -w -n shell $'namegate {words}\\t\\n'
                 zpty -r -m shell line '*<*>*' && print -r -- \"$line\""
            );
            let Some(found) = completed("zsh", &["-f"], &line).filter(|found| !found.is_empty()) else {
                return println!("SKIPPED: no zsh with zpty: its completions were not tried");
            };
            let called = found.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>'));
            let completed = called.and_then(|(line, _)| line.rsplit(' ').next());
            assert_eq!(completed, Some(last), "{words}: {found}");
        }
    }
}
