//! `namegate completions`: what a shell needs to complete our command line.

use std::collections::BTreeSet;
use std::io::Write;

use clap::Command;
use clap_complete::Shell;

use super::{CliError, ExitStatus};

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  namegate completions bash > ~/.local/share/bash-completion/completions/namegate
  namegate completions zsh > ~/.zfunc/_namegate
  namegate completions fish > ~/.config/fish/completions/namegate.fish")]
pub(super) struct CompletionsArgs {
    /// The shell
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

    #[test]
    fn completion_goes_on_after_a_comma() {
        let complete = |words: &str, current: &str| {
            let line = format!(
                "{}\nCOMP_WORDS=({words} '{current}'); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
                 _namegate namegate '{current}' \"${{COMP_WORDS[COMP_CWORD-1]}}\"; echo \"${{COMPREPLY[@]}}\"",
                script(Shell::Bash)
            );
            let output = Process::new("bash").args(["--norc", "-c", &line]).output().unwrap();
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        assert_eq!(complete("namegate check --profile", "win"), "windows");
        assert_eq!(complete("namegate mount --profile", "strict,macos,ut"), "strict,macos,utf8");
        assert_eq!(complete("namegate scan --target", "s3,utf"), "s3,utf8");
        assert!(script(Shell::Zsh).contains(":_sequence compadd - "));
        assert!(script(Shell::Fish).contains("(__fish_complete_list , 'string split : "));
    }
}
