//! Checks that the program accepts every `namegate` command of the pages, and that the scripts and targets that they name exist.

use clap::{Command, CommandFactory};
use namegate::cli::Cli;

use super::markdown::{Block, blocks, manual_pages, pages, prose, quoted, read};
use super::shell::{Recorder, cargo_error, commands, journal_error, script_error, unit_error};

/// The reason why the program refuses the arguments, if it does.
fn refusal(cli: &Command, words: &[String]) -> Option<String> {
    let error = cli.clone().try_get_matches_from(words).err()?;
    let is_help =
        matches!(error.kind(), clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion);
    (!is_help).then(|| error.to_string())
}

/// The programs whose calls are checked only here, and why they are not run.
pub const ONLY_PARSED: &[(&str, &str)] = &[
    ("scripts/", "scripts have tests of their own, or measure for minutes"),
    ("cargo", "it builds"),
    ("NAMEGATE_UPDATE=1 cargo", "it builds"),
    ("apt", "it needs a package"),
    ("systemctl", "it needs systemd as the first process"),
    ("journalctl", "it needs systemd as the first process"),
    ("namegate top", "it shows a screen until it is stopped"),
    ("namegate why --follow", "it reports until it is stopped; tests/mount runs it"),
    ("python -m namegate", "it needs the Python package; scripts/test-wheel runs it"),
];

/// How the program answers to its arguments, if it refuses them.
type Refusal = fn(&Command, &[String]) -> Option<String>;

/// What is wrong with a command, and how many calls in it were checked.
fn errors(cli: &Command, refusal: Refusal, recorder: &Recorder, command: &str) -> (usize, Vec<String>) {
    let calls = recorder.calls(command);
    let wrong = calls.iter().filter_map(|call| match call[0].as_str() {
        "namegate" => refusal(cli, call),
        "cargo" => cargo_error(call),
        "systemctl" => unit_error(call),
        "journalctl" => journal_error(call),
        "python" => None,
        _ => script_error(call),
    });
    (calls.len(), wrong.collect())
}

#[test]
fn every_command_in_the_pages_is_one_that_the_program_accepts() {
    let (cli, recorder) = (Cli::command(), Recorder::new());
    let (mut checked, mut wrong) = (0, Vec::new());
    let mut check = |page: &str, block: &Block| {
        for command in commands(block) {
            let (calls, errors) = errors(&cli, refusal, &recorder, &command);
            checked += calls;
            wrong.extend(errors.iter().map(|why| format!("{page}: {command}\n{why}")));
            let is_ours = ["namegate ", "scripts/", "cargo "].iter().any(|name| command.starts_with(name));
            wrong.extend((is_ours && calls == 0).then(|| format!("{page}: {command}: nothing was recorded")));
        }
    };
    for page in pages() {
        let text = read(&page);
        let blocks = blocks(&text);
        blocks
            .iter()
            .filter(|block| ["console", "sh"].contains(&block.language))
            .for_each(|block| check(&page, block));
    }
    for (page, text) in manual_pages() {
        // Examples stand between .EX and .EE.
        for example in text.split("\n.EX\n").skip(1).filter_map(|rest| rest.split("\n.EE").next()) {
            let lines = example
                .lines()
                .filter(|line| ["namegate ", "systemctl "].iter().any(|name| line.starts_with(name)));
            check(&page, &Block { language: "sh", not_run: None, lines: lines.collect(), first: 0 });
        }
    }
    println!("{checked} calls in blocks of commands were checked");
    assert!(checked > 140, "only {checked} calls were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A command in a sentence may lack what the sentence says; it has nothing that the program does not know.
fn mistake(cli: &Command, words: &[String]) -> Option<String> {
    use clap::error::ErrorKind::{
        DisplayHelpOnMissingArgumentOrSubcommand, InvalidValue, MissingRequiredArgument, MissingSubcommand,
    };
    let error = cli.clone().try_get_matches_from(words).err()?;
    let lacks = match error.kind() {
        DisplayHelpOnMissingArgumentOrSubcommand | MissingRequiredArgument | MissingSubcommand => true,
        // `SHELL` stands for a shell.
        InvalidValue => {
            words.iter().any(|word| {
                word.chars().all(|c| c.is_ascii_uppercase())
                    && error.to_string().contains(&format!("'{word}'"))
            }) || error.to_string().contains("a value is required")
        }
        _ => false,
    };
    refusal(cli, words).filter(|_| !lacks)
}

#[test]
fn every_command_in_the_text_is_one_that_the_program_accepts() {
    let (cli, recorder) = (Cli::command(), Recorder::new());
    let (mut checked, mut wrong) = (0, Vec::new());
    for page in pages().iter().filter(|page| *page != "CHANGELOG.md") {
        let prose = prose(&read(page));
        let ours = ["namegate ", "scripts/", "cargo ", "systemctl ", "NAMEGATE_UPDATE="];
        let is_one = |code: &str| {
            let begins = ours.iter().any(|name| code.starts_with(name)) || code.contains("| namegate ");
            // A message, a synopsis, several scripts, what is below scripts/.
            let is_path = code.starts_with("scripts/")
                && code.split(' ').next().is_some_and(|word| word.matches('/').count() > 1);
            begins && !is_path && !code.starts_with("namegate is ") && !code.contains(['[', '…', '*', '{'])
        };
        // A table has `\|` for `|`.
        for code in quoted(&prose).map(|code| code.replace(r"\|", "|")).filter(|code| is_one(code)) {
            let (calls, found) = errors(&cli, mistake, &recorder, &code);
            checked += calls;
            wrong.extend(found.iter().map(|why| format!("{page}: {code}\n{why}")));
        }
    }
    assert!(checked > 120, "only {checked} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Long options of other programs that the pages mention.
const OF_OTHERS: &[&str] = &[
    "--delete",
    "--delete-after",
    "--delete-before",
    "--delete-delay",
    "--delete-during",
    "--dir-cache-time",
    "--fuzzy",
    "--iconv",
    "--inplace",
    "--nofsroot",
    "--retries",
    "--verify",
    "--vfs-cache-mode",
];

/// The long options of a command and of all below it.
fn long_options(command: &Command) -> Vec<String> {
    let own = command.get_arguments().filter_map(|argument| argument.get_long());
    let own = own.map(|long| format!("--{long}"));
    own.chain(command.get_subcommands().flat_map(long_options)).collect()
}

#[test]
fn every_option_and_command_in_the_text_is_one_of_the_program() {
    let cli = Cli::command();
    let mut known = long_options(&cli);
    known.extend(["--help", "--version"].iter().chain(OF_OTHERS).map(|&option| option.to_owned()));
    let (mut checked, mut unknown) = (0, Vec::new());
    for page in pages().iter().filter(|page| *page != "CHANGELOG.md") {
        let prose = prose(&read(page));
        let is_one = |code: &&str| code.starts_with("namegate ") || code.starts_with("--");
        // A message of the program is not a command.
        for code in quoted(&prose).filter(is_one).filter(|code| !code.starts_with("namegate is ")) {
            let mut words = code.split_whitespace().skip_while(|&word| word == "namegate").peekable();
            if code.starts_with("namegate ") {
                let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
                if let Some(name) = words.peek().copied().filter(is_word) {
                    checked += 1;
                    let is_known = cli.find_subcommand(name).is_some();
                    unknown.extend((!is_known).then(|| format!("{page}: {code}: no command `{name}`")));
                }
            }
            for word in words.filter(|word| word.starts_with("--") && word.len() > 2) {
                let option = word.split(['=', '[', ']', ',']).next().unwrap_or_default();
                checked += 1;
                let is_known = known.iter().any(|known| known == option);
                unknown.extend((!is_known).then(|| format!("{page}: {code}: no option {option}")));
            }
        }
    }
    assert!(checked > 200, "only {checked} options and commands were found");
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}
