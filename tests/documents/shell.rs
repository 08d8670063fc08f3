//! The commands in the blocks of the pages, and how they call programs.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::geteuid;

use super::markdown::{Block, read, root};

/// The user without privileges, where the tests run as root.
const NOBODY: u32 = 65534;

/// Other programs do nothing; namegate, scripts and cargo record how they are called, and so do what starts them.
const RECORDER: &str = r#"
record() { printf '%s\0' "$#" "$@" >>"$RECORD"; }
for program in namegate cargo journalctl python systemctl $SCRIPTS; do eval "$program() { record $program \"\$@\"; }"; done
sudo() { "$@"; }
sh() { if [[ $1 == -c ]]; then eval "$2"; fi; }
xargs() { while (($#)) && [[ $1 != namegate && $1 != sh ]]; do shift; done; if (($#)); then "$@"; fi; }
command_not_found_handle() { :; }
PATH=/nonexistent
"#;

/// The commands of a block: lines that a shell reads as a whole.
pub fn commands(block: &Block) -> Vec<String> {
    let is_session = block.language == "console";
    let mut commands = Vec::new();
    let mut begun = String::new();
    for line in &block.lines {
        let line = match (is_session, begun.is_empty()) {
            (true, true) => match line.strip_prefix("$ ").or_else(|| line.strip_prefix("# ")) {
                Some(command) => command,
                None => continue,
            },
            _ => line,
        };
        begun.push_str(line);
        if !begun.trim().is_empty() && !is_whole(&begun) {
            begun.push('\n');
            continue;
        }
        let command = std::mem::take(&mut begun);
        let is_comment = command.trim_start().starts_with('#');
        commands.extend((!command.trim().is_empty() && !is_comment).then_some(command));
    }
    assert!(begun.is_empty(), "a shell does not understand this: {begun}");
    commands
}

/// Whether nothing more of a command follows.
fn is_whole(text: &str) -> bool {
    let is_continued = text.ends_with('\\') && !text.ends_with(r"\\") && !text.ends_with(r" \;");
    let mut shell = Command::new("bash");
    shell.args(["-n", "-c", text]).stdin(Stdio::null()).stderr(Stdio::null());
    !is_continued && shell.status().expect("bash starts").success()
}

/// The scripts of the repository, as they are called from its root.
pub fn scripts() -> Vec<String> {
    let entries = fs::read_dir(root().join("scripts")).unwrap().map(|entry| entry.unwrap());
    let files = entries.filter(|entry| entry.path().is_file());
    files.map(|entry| format!("scripts/{}", entry.file_name().into_string().unwrap())).collect()
}

/// Records calls without making them.
pub struct Recorder {
    dir: tempfile::TempDir,
    scripts: String,
}

impl Recorder {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // A redirection to a file that cannot be made keeps a call from being recorded.
        let below = ["docs", "findings"].map(|name| dir.path().join(name));
        below.iter().for_each(|dir| fs::create_dir(dir).unwrap());
        if geteuid().is_root() {
            for dir in below.iter().map(PathBuf::as_path).chain([dir.path()]) {
                std::os::unix::fs::chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        Self { dir, scripts: scripts().join(" ") }
    }

    /// The calls in a command, each with the name of the program first.
    pub fn calls(&self, command: &str) -> Vec<Vec<String>> {
        let record = self.record();
        let _ = fs::remove_file(&record);
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &format!("{RECORDER}\n{command}\nwait")]).current_dir(self.dir.path());
        bash.env_clear().env("RECORD", &record).env("SCRIPTS", &self.scripts).env("HOME", self.dir.path());
        if geteuid().is_root() {
            // A redirection is not held back: it must not reach files of the machine.
            bash.uid(NOBODY).gid(NOBODY);
        }
        let output = bash.stdin(Stdio::null()).output().expect("bash starts");
        let said = String::from_utf8_lossy(&output.stderr);
        let is_wrong = |line: &str| {
            line.contains("syntax error")
                || line.contains(": scripts/") && line.ends_with("No such file or directory")
        };
        assert!(!said.lines().any(is_wrong), "{command}: {said}");
        let recorded = fs::read_to_string(&record).unwrap_or_default();
        let mut words = recorded.split_terminator('\0').map(str::to_owned);
        let mut calls = Vec::new();
        while let Some(count) = words.next() {
            calls.push(words.by_ref().take(count.parse().unwrap()).collect());
        }
        calls
    }

    fn record(&self) -> PathBuf {
        self.dir.path().join("record")
    }
}

/// What is wrong with a call of a script: it has to exist, and to know its long options.
pub fn script_error(call: &[String]) -> Option<String> {
    let script = root().join(&call[0]);
    let text = fs::read_to_string(&script).ok()?;
    // What several scripts know is in files that they source.
    let sourced = text.lines().filter_map(|line| line.trim().strip_prefix("source \"$root/"));
    let sourced = sourced.filter_map(|file| fs::read_to_string(root().join(file.trim_end_matches('"'))).ok());
    let text = sourced.fold(text.clone(), |all, more| all + &more);
    let options = call[1..].iter().filter(|word| word.starts_with("--"));
    let mut unknown = options.filter(|option| !text.contains(option.as_str()));
    unknown.next().map(|option| format!("{} does not know {option}", call[0]))
}

/// What is wrong with a call of cargo: the package, the test, the bench or the example does not exist.
pub fn cargo_error(call: &[String]) -> Option<String> {
    let has = |dir: &str, name: &str| {
        let places = ["".to_owned(), "crates/core/".to_owned()].map(|base| root().join(base).join(dir));
        places.iter().any(|place| place.join(name).is_dir() || place.join(format!("{name}.rs")).exists())
    };
    let kinds = BTreeMap::from([("--test", "tests"), ("--bench", "benches"), ("--example", "examples")]);
    let pairs = call.windows(2).map(|pair| (pair[0].as_str(), pair[1].as_str()));
    let mut wrong = pairs.filter(|&(option, name)| match option {
        "-p" => !is_package(name),
        "--manifest-path" => !root().join(name).exists(),
        _ => kinds.get(option).is_some_and(|dir| !has(dir, name)),
    });
    wrong.next().map(|(option, name)| format!("cargo: there is no {option} {name}"))
}

fn is_package(name: &str) -> bool {
    let dir =
        name.strip_prefix("namegate-").map_or_else(|| ".".into(), |name| Path::new("crates").join(name));
    root().join(dir).join("Cargo.toml").exists()
}

/// What is wrong with a call of systemctl: the unit of namegate does not exist.
pub fn unit_error(call: &[String]) -> Option<String> {
    let units = call.iter().filter(|word| word.starts_with("namegate"));
    let templates = units.map(|unit| match unit.split_once('@') {
        Some((name, instance)) => {
            let kind = if instance.ends_with(".timer") { "timer" } else { "service" };
            format!("{name}@.{kind}")
        }
        None => unit.clone(),
    });
    let mut missing = templates
        .filter(|unit| !["systemd", "systemd/user"].iter().any(|dir| root().join(dir).join(unit).exists()));
    missing.next().map(|unit| format!("there is no {unit} in systemd/"))
}

/// What is wrong with a call of journalctl: a record has no such field.
pub fn journal_error(call: &[String]) -> Option<String> {
    let documented = read("docs/JSON.md");
    let fields = call.iter().filter_map(|word| word.strip_prefix("NAMEGATE_")?.split_once('='));
    let mut unknown =
        fields.filter(|(field, _)| !documented.contains(&format!("`{}`", field.to_lowercase())));
    unknown.next().map(|(field, _)| format!("docs/JSON.md has no field for NAMEGATE_{field}"))
}

#[test]
fn commands_are_what_a_shell_reads_as_a_whole() {
    let block =
        |language, lines: &[&'static str]| Block { language, not_run: None, lines: lines.to_vec(), first: 0 };
    let of = |language, lines: &[&'static str]| commands(&block(language, lines));
    assert_eq!(of("sh", &["# why", "a |", "  b", "", "c 'd", "e'   # f"]), ["a |\n  b", "c 'd\ne'   # f"]);
    assert_eq!(of("sh", &["a \\", "  b", "find . -exec ls {} \\;"]), ["a \\\n  b", "find . -exec ls {} \\;"]);
    assert_eq!(of("console", &["$ a", "$output", "# reboot"]), ["a", "reboot"]);
}

#[test]
fn calls_are_recorded_wherever_they_stand_and_nothing_is_run() {
    let recorder = Recorder::new();
    let cases: &[(&str, &[&[&str]])] = &[
        (
            "namegate scan 'a b' --prefix \"C:\\\\x\" | tail -n 3",
            &[&["namegate", "scan", "a b", "--prefix", "C:\\x"]],
        ),
        ("find . -print0 | namegate scan --list - -0; echo", &[&["namegate", "scan", "--list", "-", "-0"]]),
        (
            "seq 3 | xargs -P 4 -I{} sh -c 'cat {} |\n namegate scan --list {} >x'",
            &[&["namegate", "scan", "--list", "{}"]],
        ),
        ("RUST_LOG=warn sudo namegate doctor '' 2>log", &[&["namegate", "doctor", ""]]),
        ("scripts/test --all && cargo test # b", &[&["scripts/test", "--all"], &["cargo", "test"]]),
        ("systemctl enable \"$(rm -r /)\"", &[&["systemctl", "enable", ""]]),
        ("rm -r /", &[]),
    ];
    for (command, expected) in cases {
        assert_eq!(recorder.calls(command), *expected, "{command}");
    }
}

#[test]
fn calls_that_would_fail_are_found() {
    let call = |words: &str| words.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for right in ["scripts/test --all --yes", "scripts/bench"] {
        assert_eq!(script_error(&call(right)), None);
    }
    assert!(script_error(&call("scripts/test --every")).is_some());
    for right in [
        "cargo test -p namegate-core --test rules",
        "cargo bench --bench metrics",
        "cargo test --test cli scan",
    ] {
        assert_eq!(cargo_error(&call(right)), None);
    }
    for wrong in
        ["cargo test -p namegate-nothing", "cargo test --test nothing", "cargo build --manifest-path a.toml"]
    {
        assert!(cargo_error(&call(wrong)).is_some(), "{wrong}");
    }
    for right in
        ["systemctl enable namegate@share", "systemctl enable namegate-scan@x.timer", "systemctl status ssh"]
    {
        assert_eq!(unit_error(&call(right)), None);
    }
    assert!(unit_error(&call("systemctl enable namegate-nothing@share")).is_some());
    assert_eq!(journal_error(&call("journalctl NAMEGATE_RULE=truncated -o json")), None);
    assert!(journal_error(&call("journalctl NAMEGATE_NOTHING=truncated")).is_some());
}
