//! Checks that the program accepts every `namegate` command in the blocks of the pages.

use clap::{Command, CommandFactory};
use namegate::cli::Cli;

use super::markdown::{blocks, pages, prose, quoted, read};

/// The words of the first command in a line of a shell, up to a pipe, a redirection, a separator or a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_word) = (Vec::new(), String::new(), false);
    let mut chars = line.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => (quote, is_word) = (Some(c), true),
            (None | Some('"'), '\\') => {
                word.extend(chars.next());
                is_word = true;
            }
            (None, ' ') => words.extend(std::mem::take(&mut is_word).then(|| std::mem::take(&mut word))),
            (None, '|' | '>' | '<' | ';' | '&') => break,
            (None, '#') if !is_word => break,
            _ => {
                word.push(c);
                is_word = true;
            }
        }
    }
    // The number of a descriptor in front of `>` is no argument.
    let is_descriptor = word.chars().all(|c| c.is_ascii_digit()) && line.contains(&format!(" {word}>"));
    words.extend((is_word && !is_descriptor).then_some(word));
    words
}

/// The arguments of `namegate` in a line.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")).unwrap_or(line).trim();
    let at = ["", "sudo ", "exec "].iter().find_map(|before| {
        let rest = line.strip_prefix(before)?;
        rest.starts_with("namegate ").then_some(before.len())
    });
    // The last command of a pipe, too.
    let at = at.or_else(|| line.find("| namegate ").map(|pipe| pipe + 2))?;
    Some(words(&line[at..]))
}

/// The reason why the program refuses the arguments, if it does.
fn refusal(cli: &Command, words: &[String]) -> Option<String> {
    let error = cli.clone().try_get_matches_from(words).err()?;
    let is_help =
        matches!(error.kind(), clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion);
    (!is_help).then(|| error.to_string())
}

#[test]
fn every_command_in_the_pages_is_one_that_the_program_accepts() {
    let cli = Cli::command();
    let (mut checked, mut refused) = (0, Vec::new());
    for page in pages() {
        let text = read(&page);
        for block in blocks(&text) {
            if !["", "console", "sh"].contains(&block.language) {
                continue;
            }
            // A line that ends with a backslash continues on the next.
            for line in block.lines.join("\n").replace("\\\n", "").lines() {
                let Some(words) = command(line) else { continue };
                checked += 1;
                if let Some(why) = refusal(&cli, &words) {
                    refused.push(format!("{page}: {line}\n{why}"));
                }
            }
        }
    }
    println!("{checked} commands were checked");
    assert!(checked > 40, "only {checked} commands were found");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
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

#[test]
fn the_words_of_a_line_are_those_of_a_shell() {
    let cases = [
        (
            "$ namegate scan 'a b' --prefix \"C:\\\\x\" | tail -n 3",
            &["namegate", "scan", "a b", "--prefix", "C:\\x"][..],
        ),
        ("namegate explain -- *   # every name", &["namegate", "explain", "--", "*"]),
        (
            "# namegate watch /srv --exec sh -c 'a; b' \\;",
            &["namegate", "watch", "/srv", "--exec", "sh", "-c", "a; b", ";"],
        ),
        ("find . -print0 | namegate scan --list - -0; echo", &["namegate", "scan", "--list", "-", "-0"]),
        ("namegate scan . 2>log", &["namegate", "scan", "."]),
        ("sudo namegate doctor ''", &["namegate", "doctor", ""]),
    ];
    for (line, expected) in cases {
        assert_eq!(
            command(line).as_deref(),
            Some(&expected.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()[..]),
            "{line}"
        );
    }
    assert_eq!(command("systemctl status namegate@share"), None);
    assert!(refusal(&Cli::command(), &command("namegate scan --no-such-option").unwrap()).is_some());
}
