//! The help of every command: its examples work as they stand, and an option means the same everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command as Process, Stdio};

use clap::{Command, CommandFactory, Parser};
use namegate::cli::Cli;
use nix::unistd::geteuid;

use namegate_testkit::program::{copy_program, run, run_with, stdout};

/// Every command, with the words that call it.
fn commands() -> Vec<(String, Command)> {
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let mut waiting = vec![(String::from("namegate"), all)];
    let mut found = Vec::new();
    while let Some((words, command)) = waiting.pop() {
        let below = command.get_subcommands().map(|below| (format!("{words} {}", below.get_name()), below));
        waiting.extend(below.map(|(words, below)| (words, below.clone())));
        found.push((words, command));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found
}

/// The lines below `Examples:`, as the help of the command prints them.
fn examples(words: &str) -> Vec<String> {
    let output = run(words.split(' ').skip(1).chain(["--help"]));
    let lines = stdout(&output).lines().skip_while(|line| *line != "Examples:").skip(1);
    lines.take_while(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The user without privileges, where the tests run as root.
const NOBODY: u32 = 65534;

/// Runs `script` in bash, in the directory `home`, as a user without privileges.
pub(super) fn bash(home: &Path, script: &str) -> (i32, String) {
    let mut bash = Process::new("bash");
    bash.args(["--norc", "-o", "pipefail", "-c", script]).current_dir(home).env_clear().env("HOME", home);
    if geteuid().is_root() {
        bash.uid(NOBODY).gid(NOBODY);
    }
    let output = bash.output().expect("bash starts");
    let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    (output.status.code().unwrap_or(-1), said)
}

/// A home directory with what the examples name.
pub(super) fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let directories = [
        ".config/fish/completions",
        ".config/namegate",
        ".local/share/bash-completion/completions",
        ".zfunc",
        "bin",
        "etc/namegate",
    ];
    for dir in directories.into_iter().chain([
        "srv/share/.snapshots",
        "data",
        "old",
        "mac",
        "mail",
        "archive",
        "findings",
        "mnt/usb",
        "mnt/share",
    ]) {
        fs::create_dir_all(path(dir)).unwrap();
    }
    for file in ["srv/share/good", "srv/share/what?", "data/a:b", "old/report.", "mac/a\u{F022}b", "here?"] {
        fs::write(path(file), "").unwrap();
    }
    fs::write(path("srv/share").join(OsStr::from_bytes(b"caf\xE9")), "").unwrap();
    fs::write(path("srv/share/tab\there"), "").unwrap();
    fs::write(path("site.toml"), "profiles = [\"strict\"]\n").unwrap();
    fs::write(path("inventory.csv"), "1,a%20b\n2,c%2Fd\n").unwrap();
    // The end of the directory of a zip archive: there is no more in an empty one.
    fs::write(path("old.zip"), [b"PK\x05\x06".as_slice(), &[0; 18]].concat()).unwrap();
    // An empty tar is NULs, and its compression is recognized by its contents.
    fs::write(path("backup.tar.gz"), [0; 1024]).unwrap();
    for place in [".config/namegate", "etc/namegate"] {
        let text = "source = \"/srv/share\"\nmountpoint = \"/mnt/share\"\n";
        fs::write(path(place).join("share.toml"), text).unwrap();
    }
    copy_program(Path::new(env!("CARGO_BIN_EXE_namegate")), &path("bin/namegate"));
    if geteuid().is_root() {
        let owner = format!("{NOBODY}:{NOBODY}");
        assert!(Process::new("chown").args(["-R", &owner]).arg(home.path()).status().unwrap().success());
    }
    home
}

/// How often these lines call our program, with arguments that the parser accepts each time. Nothing is run.
pub(super) fn accepted_calls(home: &Path, lines: &str) -> usize {
    let record = home.join("record");
    let _ = fs::remove_file(&record);
    // Other programs do nothing, and ours records how it is called.
    let script = format!(
        "namegate() {{ printf '%s\\0' \"$#\" \"$@\" >>record; }}; sudo() {{ \"$@\"; }}; PATH=/nonexistent
         command_not_found_handle() {{ :; }}\n{lines}"
    );
    let (status, said) = bash(home, &script);
    assert!(status == 0 && !said.contains("bash: "), "{lines}: {status}: {said}");
    let recorded = fs::read(&record).unwrap_or_default();
    let mut arguments = recorded.split(|&byte| byte == 0);
    let mut calls = 0;
    while let Some(count) = arguments.next().filter(|count| !count.is_empty()) {
        let count = std::str::from_utf8(count).unwrap().parse().unwrap();
        let given = arguments.by_ref().take(count).map(|word| OsString::from_vec(word.to_vec()));
        let parsed = Cli::try_parse_from([OsString::from("namegate")].into_iter().chain(given));
        assert!(parsed.is_ok(), "{lines}: {}", parsed.err().unwrap());
        calls += 1;
    }
    calls
}

#[test]
fn every_command_has_examples_and_the_parser_accepts_them() {
    let home = home();
    for (words, command) in commands() {
        let examples = examples(&words);
        assert!(!examples.is_empty(), "{words} has no examples");
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in examples {
            assert!(
                help.lines().any(|whole| whole == line),
                "{words}: wrapped, and cannot be pasted: {line}"
            );
            let calls = accepted_calls(home.path(), &line);
            let is_ours =
                ["", "| ", "sudo "].iter().any(|before| line.contains(&format!("  {before}namegate ")));
            assert!(calls > 0 || !is_ours, "{line}: nothing was recorded");
        }
    }
}

/// Programs of examples that may be run here, beside our own.
const PROGRAMS: [&str; 6] = ["find", "git", "grep", "jq", "ls", "xargs"];

/// Commands that need an instance, need root and change the machine, or do not end by themselves.
const NOT_RUN: &[&str] = &[
    "mount",
    "watch",
    "guard",
    "guard on",
    "guard off",
    "guard status",
    "guard events",
    "guard check",
    "status",
    "top",
    "why --follow",
    "reload",
    "mode",
    "metrics",
];

/// Two runs of `fix apply`, for `fix status` to show and `fix undo` to undo.
const RUNS: &str = "set -e
    namegate fix plan data --profile windows -o other.jsonl
    namegate fix apply other.jsonl --yes --journal journal.jsonl
    namegate fix plan srv/share --profile windows -o plan.jsonl && namegate fix apply plan.jsonl --yes";

/// The findings of two tasks, for `report`.
const STORED: &str = "namegate scan data --profile windows -q -o findings/1.jsonl
    namegate scan srv/share --profile windows -q -o findings/2.jsonl";

#[test]
fn the_examples_of_every_command_that_can_run_here_do_what_they_say() {
    let home = home();
    let root = home.path().to_str().unwrap().to_owned();
    for program in PROGRAMS {
        let found = Process::new("sh").args(["-c", &format!("command -v {program}")]).output().unwrap();
        if found.status.success() {
            let there = std::str::from_utf8(&found.stdout).unwrap().trim();
            std::os::unix::fs::symlink(there, home.path().join("bin").join(program)).unwrap();
        }
    }
    let environment = format!("PATH={root}/bin; export PATH");
    let git = "git init -q . && git add -N 'here?' && git -c user.name=a -c user.email=a@b commit -qam a";
    let (has_git, _) = bash(home.path(), &format!("{environment}; {git}"));
    for (words, _) in commands() {
        if NOT_RUN.iter().any(|name| words == format!("namegate {name}")) {
            continue;
        }
        if words == "namegate fix status" {
            let (status, said) = bash(home.path(), &format!("{environment}; {RUNS}"));
            assert_eq!(status, 0, "{said}");
        }
        if words == "namegate report" {
            let (status, said) = bash(home.path(), &format!("{environment}; {STORED}"));
            assert_eq!(status, 1, "{said}");
        }
        for line in examples(&words) {
            // The examples of all commands together, and a command of which only one option needs an instance.
            let may_name_others = words == "namegate" || words == "namegate why";
            if may_name_others && NOT_RUN.iter().any(|name| line.contains(&format!("namegate {name} "))) {
                continue;
            }
            // What lies below the root directory is looked for below the home directory.
            let here =
                [" /srv", " /data", " /old", " /mac", " /mail", " /archive", " /etc/namegate", " /mnt"]
                    .iter()
                    .fold(line.replace(" / ", " /srv "), |line, path| {
                        line.replace(path, &format!(" {root}{}", path.trim_start()))
                    });
            let (status, said) = bash(home.path(), &format!("{environment}; {here}"));
            match status {
                0 | 1 => {}
                127 => {
                    let is_missing =
                        |program: &&&str| said.contains(&format!("{program}: command not found"));
                    if let Some(program) = PROGRAMS.iter().find(is_missing) {
                        println!("SKIPPED: no {program}: {line}");
                    }
                }
                _ if line.contains("--git ") && has_git != 0 => println!("SKIPPED: no git: {line}"),
                // A person makes the decisions, in a browser.
                _ if said.contains("cannot read 'decisions.jsonl'") && line.contains("--decisions") => {}
                _ if said.contains("no journal") && line.contains("--resume") => {}
                _ => panic!("{line}: {status}: {said}"),
            }
        }
    }
    let names = |dir: &str| fs::read_dir(home.path().join(dir)).unwrap().count();
    assert!(home.path().join("data/a:b").exists(), "the examples of `fix undo` restored the names");
    assert!(home.path().join("journal.jsonl").exists() && names(".local/state/namegate/journals") >= 5);
}

#[test]
fn json_is_asked_for_in_the_same_two_ways_wherever_there_is_json() {
    let mut count = 0;
    for (words, command) in commands() {
        let has = |name: &str| command.get_arguments().any(|arg| arg.get_id() == name);
        let formats = command.get_arguments().find(|arg| arg.get_id() == "format");
        let is_json =
            formats.is_some_and(|arg| arg.get_possible_values().iter().any(|v| v.matches("json", false)));
        assert_eq!(has("json"), is_json, "{words}");
        count += usize::from(is_json);
    }
    assert!(count > 9, "{count} commands with JSON were found");
    for args in [
        &["check", "a", "b:"][..],
        &["explain", "a"],
        &["rules"],
        &["profiles", "macos"],
        &["policy", "show"],
    ] {
        let said = |option: &[&str]| run_with(args.iter().chain(option), b"").stdout;
        let json = said(&["--json"]);
        assert!(json.starts_with(b"{"), "{args:?}");
        assert_eq!(json, said(&["--format", "json"]), "{args:?}");
    }
}

#[test]
fn a_short_option_means_the_same_in_every_command() {
    let mut meanings = BTreeMap::<char, BTreeSet<String>>::new();
    for (words, command) in commands() {
        for arg in command.get_arguments() {
            // mount(8) has given `-o` its meaning in mounts.
            let is_of_mount = words == "namegate mount" && arg.get_id() == "options";
            if let Some(short) = arg.get_short().filter(|_| !is_of_mount) {
                meanings.entry(short).or_default().insert(arg.get_long().unwrap_or_default().to_owned());
            }
        }
    }
    let several: Vec<_> = meanings.iter().filter(|(_, long)| long.len() > 1).collect();
    assert!(several.is_empty() && meanings.len() > 8, "{several:?}, of {meanings:?}");
}

#[test]
fn the_program_alone_says_what_it_is_and_where_to_begin_in_ten_lines() {
    let none: [&str; 0] = [];
    let output = run(none);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!((8..=12).contains(&text.lines().count()) && text.lines().all(|line| line.len() <= 80), "{text}");
    let begins: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("  namegate ")?.split("   ").next()).collect();
    assert!((4..=6).contains(&begins.len()), "{begins:?}");
    for command in begins {
        let words = command.replace("DIR", "/").replace("MOUNTPOINT", "/mnt").replace("NAME", "a");
        let parsed = Cli::try_parse_from(["namegate"].into_iter().chain(words.split(' ')));
        assert!(parsed.is_ok(), "{command}: {}", parsed.err().unwrap());
    }
    assert!(text.contains("namegate --help"), "{text}");
}

#[test]
fn the_help_groups_the_commands_by_purpose() {
    for args in [&["--help"][..], &["-h"], &["help"]] {
        let output = run(args);
        let help = stdout(&output);
        let mut group = "";
        let mut found = BTreeMap::<&str, Vec<&str>>::new();
        for line in help.lines() {
            if line.ends_with(':') && !line.starts_with(' ') {
                group = line;
            }
            let name = line.strip_prefix("  ").filter(|line| !line.starts_with([' ', '-']));
            found.entry(group).or_default().extend(name.and_then(|line| line.split(' ').next()));
        }
        let purposes =
            ["Find bad names:", "Fix them:", "Prevent them:", "Running mounts:", "Reference:", "Setup:"];
        let listed: BTreeSet<&str> = purposes.iter().flat_map(|purpose| found[purpose].clone()).collect();
        let all: BTreeSet<String> =
            Cli::command().get_subcommands().map(|below| below.get_name().to_owned()).collect();
        assert_eq!(listed, all.iter().map(String::as_str).collect(), "{help}");
        assert!(
            found["Find bad names:"][0] == "scan" && found["Prevent them:"].contains(&"mount"),
            "{found:?}"
        );
        assert!(help.find("Setup:") < help.find("Options:"), "{help}");
    }
}

#[test]
fn the_help_of_a_scan_begins_with_what_most_people_want_to_say() {
    for (command, first) in [("scan", &["--target", "--profile", "--output"][..]), ("report", &["--output"])]
    {
        let output = run(command.split(' ').chain(["-h"]));
        let options = stdout(&output).lines().skip_while(|line| *line != "Options:").skip(1);
        let options = options.filter_map(|line| line.split_once("--")?.1.split([' ', '[']).next());
        let options: Vec<String> = options.take(first.len()).map(|option| format!("--{option}")).collect();
        assert_eq!(options, first, "{command}: {}", stdout(&output));
    }
}

#[test]
fn a_command_that_does_not_exist_leads_to_the_one_that_was_meant() {
    for (words, meant) in [
        ("scna", "'scan'"),
        ("help scna", "'scan'"),
        ("lint", "namegate scan"),
        ("help lint", "namegate scan"),
        ("lint /srv --target windows", "namegate scan"),
        ("rename", "namegate fix"),
        ("undo", "namegate fix undo"),
        ("serve", "namegate mount"),
        ("validate", "namegate check"),
        ("test", "namegate check"),
        ("inspect", "namegate explain"),
        ("/", "namegate scan /"),
        ("src --target windows", "namegate scan src"),
        ("fix paln", "'plan'"),
        ("help fix paln", "'plan'"),
    ] {
        let output = run(words.split(' '));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}");
        let tips: Vec<&str> = text.lines().filter(|line| line.contains("tip:")).collect();
        assert!(tips.len() == 1 && tips[0].contains(meant), "{words}: {text}");
    }
    for (words, misleading) in [
        ("mount --nonempty a b", "noatime"),
        ("mount --uid=1 a b", "suid"),
        ("upgrad", "guard"),
        ("lst", "list-pairs"),
    ] {
        let output = run(words.split(' '));
        assert!(!String::from_utf8_lossy(&output.stderr).contains(misleading), "{words}");
    }
    let output = run(["xyzzy"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("tip:"));
}

#[test]
fn a_command_without_its_arguments_shows_an_example_that_the_parser_accepts() {
    let mut shown = 0;
    for (words, command) in commands() {
        if command.get_subcommands().next().is_some()
            || command.get_arguments().all(|arg| !arg.is_required_set())
        {
            continue;
        }
        let output = run(words.split(' ').skip(1));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}");
        let tip = text.lines().find_map(|line| line.trim_start().strip_prefix("tip: an example: "));
        assert!(tip.is_some_and(|line| line.starts_with(&words)), "{words}: {text}");
        shown += 1;
    }
    assert!(shown > 9, "{shown} commands need arguments");
}

#[test]
fn a_scan_without_a_path_checks_the_working_directory() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("below")).unwrap();
    fs::write(dir.path().join("below/a?"), "").unwrap();
    let scan = |args: &[&str]| {
        let mut program = Process::new(env!("CARGO_BIN_EXE_namegate"));
        program.arg("scan").args(args).current_dir(dir.path()).stdin(Stdio::null()).output().unwrap()
    };
    let alone = scan(&["--profile", "windows"]);
    assert_eq!(stdout(&alone), stdout(&scan(&["--profile", "windows", "."])));
    assert!(alone.status.code() == Some(1) && stdout(&alone).contains("a?"), "{}", stdout(&alone));
    assert_eq!(scan(&["--profile", "windows", "--exclude", "below"]).status.code(), Some(0));
    let mut piped = Process::new(env!("CARGO_BIN_EXE_namegate"));
    let piped = piped.arg("scan").current_dir(dir.path()).stdin(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&piped.stderr).into_owned();
    assert!(text.contains("--list -") && alone.stderr.is_empty(), "{text}");
    // Where a list says what is checked, nothing else is, and options about trees are a mistake.
    fs::write(dir.path().join("list"), "fine\n").unwrap();
    assert_eq!(scan(&["--profile", "windows", "--list", "list"]).status.code(), Some(0));
    for option in
        [&["--exclude", "x"][..], &["--max-depth", "1"], &["-x"], &["-L"], &["--sort"], &["--owners"]]
    {
        let refused = scan(&[option, &["--list", "list"]].concat());
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && text.contains("PATH"), "{option:?}: {text}");
    }
}

#[test]
fn a_rule_and_a_profile_are_shown_in_full_by_name() {
    let output = run(["rules", "trailing-space"]);
    let text = stdout(&output);
    for part in ["Examples:", r"minutes.txt\u{20}", "Profiles:", "windows", "Microsoft", "sharepoint"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("leading-space"), "{text}");
    let json = run(["rules", "trailing-space", "overlong", "--json"]);
    assert_eq!(stdout(&json).lines().count(), 2);
    let markdown = run(["rules", "overlong", "--format", "markdown"]);
    assert!(stdout(&markdown).lines().count() == 3 && stdout(&markdown).contains("| `overlong` |"));
    let wrong = run(["rules", "trailing-spcae"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("'trailing-space'"));
    let profile = run(["profiles", "windows"]);
    for part in ["Examples:", "aux.txt", "report?.txt", "Microsoft, Naming Files"] {
        assert!(stdout(&profile).contains(part), "{part}: {}", stdout(&profile));
    }
}
