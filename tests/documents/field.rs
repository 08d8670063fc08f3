//! Tries the cases of `docs/FIELD.md`, which people have reported of other programs, and holds the page to what the program does.
//!
//! With `NAMEGATE_UPDATE=1` the page gets the new table.

mod cases;
mod hostile;
mod mounts;
mod operation;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use serde_json::Value;

use self::cases::CASES;
use self::hostile::HOSTILE;
use self::mounts::MOUNTS;
use self::operation::OPERATION;
use super::markdown::{read, root};
use super::promises::functions;

/// What somebody met.
pub struct Case {
    /// Where it was reported: repository and number, or an address.
    pub reports: &'static [&'static str],
    /// What is tried.
    pub tried: &'static str,
    pub trial: Trial,
    /// What is right, as [`Trial`] writes results. Without a `(guess)` in it, a guess is right too: it waits for a person.
    pub right: &'static str,
    /// What the program did on 2026-11-25; `None` if it was right.
    pub then: Option<&'static str>,
}

/// How a case is tried, and what its result is.
pub enum Trial {
    /// `fix plan DIR` with these options, of a directory with these names, where a `/` at the end makes a directory: the new name of each, or `stays`.
    Plan(&'static [&'static [u8]], &'static [&'static str]),
    /// `scan --list` with these options, of these paths: for each the rules that it breaks, a warning in brackets, or `clean`.
    List(&'static [&'static [u8]], &'static [&'static str]),
    /// `scan --archive` with these options, of a zip archive whose names lack the flag for UTF-8, or of a tar archive: which of the last
    /// words are in the report.
    Archive(Kind, &'static [&'static [u8]], &'static [&'static str], &'static [&'static str]),
    /// `scan --list` with these options, of these paths: which of the last words are in the report.
    Says(&'static [&'static [u8]], &'static [&'static str], &'static [&'static str]),
    /// `fix plan`, `fix apply` and `fix undo` of a directory with these names and a link to the first, with a profile.
    Repair(&'static [&'static [u8]], &'static str),
    /// The test of this name, which compares a mount with a plain directory.
    Mount(&'static str),
    /// This test holds that this happens.
    Operate(&'static str, &'static str),
}

/// The kind of an archive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Zip,
    Tar,
}

fn namegate(dir: &Path, args: &[&str], stdin: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.env_remove("RUST_LOG").current_dir(dir).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    // A program that ends before it has read everything is no failure of the writer.
    let _ = child.stdin.take().expect("standard input is a pipe").write_all(stdin);
    child.wait_with_output().expect("the program ends")
}

/// The first line of what a run complains of, where it does not do what it is asked for.
fn complaint(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let is_refused = output.status.code() == Some(2) && output.stdout.is_empty();
    is_refused.then(|| text.lines().next().unwrap_or_default().to_owned())
}

fn objects(output: &Output) -> Vec<Value> {
    let lines = std::str::from_utf8(&output.stdout).expect("the output is UTF-8").lines();
    lines.map(|line| serde_json::from_str(line).expect("lines are JSON")).collect()
}

fn joined(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

impl Trial {
    /// The result, as the program gives it.
    fn result(&self) -> String {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        match self {
            Self::Plan(names, options) => {
                make(&dir.join("tree"), names);
                let output = namegate(dir, &[&["fix", "plan", "tree"], *options].concat(), b"");
                complaint(&output).unwrap_or_else(|| planned(names, &objects(&output)))
            }
            Self::List(paths, options) => {
                let output = list(dir, paths, &[*options, &["--format", "json"]].concat());
                complaint(&output).unwrap_or_else(|| found(paths, &objects(&output)))
            }
            Self::Says(paths, options, words) => said(&list(dir, paths, options), words),
            Self::Archive(kind, names, options, words) => {
                let archive = match kind {
                    Kind::Zip => zip(names),
                    Kind::Tar => tar(names),
                };
                fs::write(dir.join("archive"), archive).unwrap();
                said(&namegate(dir, &[&["scan", "--archive", "archive"], *options].concat(), b""), words)
            }
            Self::Repair(names, profile) => repaired(dir, names, profile),
            Self::Mount(test) if functions().contains(*test) => "as in a plain directory".into(),
            Self::Operate(test, what) if functions().contains(*test) => (*what).into(),
            Self::Mount(test) | Self::Operate(test, _) => format!("there is no test `{test}`"),
        }
    }
}

fn make(tree: &Path, names: &[&[u8]]) {
    for name in names {
        let path = tree.join(OsStr::from_bytes(name));
        fs::create_dir_all(if name.ends_with(b"/") { &path } else { path.parent().unwrap() }).unwrap();
        if !name.ends_with(b"/") {
            fs::write(path, name).unwrap();
        }
    }
}

fn list(dir: &Path, paths: &[&[u8]], options: &[&str]) -> Output {
    let fixed = ["scan", "--list", "-", "-0", "--list-as", "keys"];
    namegate(dir, &[&fixed, options].concat(), &paths.join(&0))
}

/// The new name of each name, in a plan.
fn planned(names: &[&[u8]], plan: &[Value]) -> String {
    joined(names.iter().map(|name| {
        let name = name.strip_suffix(b"/").unwrap_or(name);
        let is_it = |line: &&Value| {
            let hex = line["old_hex"].as_str().unwrap_or_default();
            HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).is_ok_and(|old| old == name)
        };
        let Some(line) = plan.iter().find(is_it) else { return "stays".to_owned() };
        let new = line["new"].as_str().unwrap_or("stays");
        let guess = if line["confidence"] == "guess" { " (guess)" } else { "" };
        // Two spellings of one name look the same in a table.
        format!("`{}`{guess}", visible(new))
    }))
}

/// Invisible characters and those that combine as code points.
fn visible(text: &str) -> String {
    let is_hidden = |c: char| {
        matches!(c, '\u{300}'..='\u{36F}' | '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{206F}')
            || matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{E0000}'..='\u{E01EF}')
            || c.is_control()
    };
    text.chars().fold(String::new(), |mut shown, c| {
        let _ = match is_hidden(c) {
            true => write!(shown, "\\u{{{:X}}}", u32::from(c)),
            false => write!(shown, "{c}"),
        };
        shown
    })
}

/// The rules that each path breaks, in a report.
fn found(paths: &[&[u8]], report: &[Value]) -> String {
    joined(paths.iter().map(|path| {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let is_it = |line: &&Value| {
            let encoded = line["path_base64"].as_str().unwrap_or_default();
            line["type"] == "finding" && BASE64.decode(encoded.as_bytes()).is_ok_and(|found| found == path)
        };
        let violations =
            report.iter().filter(is_it).flat_map(|line| line["violations"].as_array().into_iter().flatten());
        let mut rules: Vec<String> = violations
            .map(|violation| {
                let rule = violation["rule"].as_str().unwrap_or_default();
                if violation["severity"] == "error" { rule.to_owned() } else { format!("[{rule}]") }
            })
            .collect();
        rules.sort();
        rules.dedup();
        if rules.is_empty() { "clean".to_owned() } else { rules.join("+") }
    }))
}

/// Which of the words a run says, in any case.
fn said(output: &Output, words: &[&str]) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat().to_lowercase();
    let (there, missing): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|word| text.contains(&word.to_lowercase()));
    let quoted = |words: &[&str]| joined(words.iter().map(|word| format!("“{word}”")));
    match missing.is_empty() {
        true => format!("says {}", quoted(&there)),
        false => format!("does not say {}", quoted(&missing)),
    }
}

/// The names after a repair, and whether the link followed and undo brought back what there was.
fn repaired(dir: &Path, names: &[&[u8]], profile: &str) -> String {
    let tree = dir.join("tree");
    make(&tree, names);
    std::os::unix::fs::symlink(OsStr::from_bytes(names[0]), tree.join("link")).unwrap();
    let before = entries(&tree);
    let advice = ["--min-severity", "warn", "-o", "plan"];
    let plan = namegate(dir, &[&["fix", "plan", "tree", "--profile", profile][..], &advice].concat(), b"");
    let apply = ["fix", "apply", "plan", "--yes", "--at-least", "guess", "--journal", "journal"];
    let applied = namegate(dir, &apply, b"");
    let after = entries(&tree);
    let follows = fs::read(tree.join("link")).is_ok();
    let undone = namegate(dir, &["fix", "undo", "journal"], b"");
    assert!(
        [&plan, &applied, &undone].iter().all(|output| output.status.success()),
        "{plan:?} {applied:?} {undone:?}"
    );
    let names = after.iter().filter(|(name, _)| name != b"link");
    let names = joined(names.map(|(name, _)| format!("`{}`", visible(&String::from_utf8_lossy(name)))));
    let link = if follows { "the link follows" } else { "the link is broken" };
    let undo = if entries(&tree) == before { "undo is exact" } else { "undo is not exact" };
    format!("{names}; {link}; {undo}")
}

/// Names and targets of links.
fn entries(tree: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = fs::read_dir(tree).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let target = fs::read_link(entry.path()).map(|target| target.as_os_str().as_bytes().to_vec());
        (entry.file_name().as_bytes().to_vec(), target.unwrap_or_default())
    });
    let mut found: Vec<_> = read.collect();
    found.sort();
    found
}

/// A zip archive of empty files, whose names are not marked as UTF-8.
fn zip(names: &[&[u8]]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for name in names {
        let length = u16::try_from(name.len()).unwrap().to_le_bytes();
        let at = u32::try_from(archive.len()).unwrap().to_le_bytes();
        // Version, flags, method, time, date, checksum, two sizes; then the lengths of the name and of extra fields.
        let common = [&[20, 0][..], &[0; 20], &length, &[0; 2]].concat();
        archive.extend([&b"PK\x03\x04"[..], &common, name].concat());
        directory.extend([&b"PK\x01\x02\x14\0"[..], &common, &[0; 10], &at, name].concat());
    }
    let count = u16::try_from(names.len()).unwrap().to_le_bytes();
    let [size, at] =
        [directory.len(), archive.len()].map(|length| u32::try_from(length).unwrap().to_le_bytes());
    [&archive[..], &directory, b"PK\x05\x06\0\0\0\0", &count, &count, &size, &at, &[0; 2]].concat()
}

/// A tar archive of empty files.
fn tar(names: &[&[u8]]) -> Vec<u8> {
    let mut archive = Vec::new();
    for name in names {
        let mut header = [0_u8; 512];
        header[..name.len()].copy_from_slice(name);
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(b"00000000000\0");
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(header);
    }
    archive.extend([0; 1024]);
    archive
}

/// Whether a result is right.
fn is_right(result: &str, right: &str) -> bool {
    result == right || (!right.contains("(guess)") && result.replace(" (guess)", "") == right)
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn the_page_of_reports_from_the_field_says_what_the_program_does() {
    let mut table =
        String::from("| reported | tried | right | on 2026-11-25 | now |\n|---|---|---|---|---|\n");
    let (mut count, mut then_right, mut now_right) = (0, 0, 0);
    let mut worse = Vec::new();
    for case in CASES.iter().chain(MOUNTS).chain(OPERATION).chain(HOSTILE) {
        count += 1;
        let result = case.trial.result();
        let is_right = is_right(&result, case.right);
        then_right += usize::from(case.then.is_none());
        now_right += usize::from(is_right);
        if case.then.is_none() && !is_right {
            worse.push(format!("{}: {result}", case.tried));
        }
        let now = if is_right { "right" } else { &result };
        let reports = case.reports.join(", ");
        let cells = [&reports, case.tried, case.right, case.then.unwrap_or("right"), now].map(cell);
        let _ = writeln!(table, "| {} |", cells.join(" | "));
    }
    let _ = writeln!(table, "\n{count} cases: {then_right} were right then, {now_right} are right now.");
    assert!(worse.is_empty(), "these were right before: {worse:#?}");
    let page = read("docs/FIELD.md");
    let (head, rest) = page.split_once("<!-- table -->\n\n").expect("the page has a place for the table");
    let (shown, tail) = rest.split_once("\n<!-- end -->").expect("the table has an end");
    if std::env::var_os("NAMEGATE_UPDATE").is_some() {
        let page = format!("{head}<!-- table -->\n\n{table}\n<!-- end -->{tail}");
        fs::write(root().join("docs/FIELD.md"), page).unwrap();
    } else {
        assert_eq!(
            shown, table,
            "docs/FIELD.md: NAMEGATE_UPDATE=1 cargo test --test documents field writes it"
        );
    }
}
