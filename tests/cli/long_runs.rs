//! Scans that are interrupted, asked how far they have come, and resumed.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::signals::send;
use crate::trees;
use namegate_testkit::process::let_signals_end_programs;
use namegate_testkit::process::wait_for_rest;
use namegate_testkit::program::{namegate, status, stderr, stdout};

/// A tree with more findings than fit into a pipe and our buffers, so that a scan whose output nobody reads stands still.
fn tree(dir: &Path) -> std::path::PathBuf {
    let tree = dir.join("tree");
    trees::wide(&tree, 6000, 300, 500_000).unwrap();
    tree
}

/// A scan that stands still.
fn stuck(tree: &Path, args: &[&str]) -> Child {
    let_signals_end_programs();
    let mut command = namegate();
    command.args(["scan", "--profile", "utf8", "--format", "json", "--jobs", "3"]).args(args).arg(tree);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_rest(child.id());
    child
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("each line is a whole object")).collect()
}

fn paths(objects: &[Value]) -> Vec<String> {
    let findings = objects.iter().filter(|object| object["type"] == "finding");
    findings.map(|object| object["path_base64"].as_str().unwrap().into()).collect()
}

#[test]
fn an_interrupted_scan_ends_with_a_whole_report_and_is_resumed_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, state) = (tree(dir.path()), dir.path().join("state"));
    let whole = namegate()
        .args(["scan", "--profile", "utf8", "--format", "json", "--jobs", "3"])
        .arg(&tree)
        .output()
        .unwrap();
    let whole = objects(stdout(&whole));
    let expected: BTreeSet<String> = paths(&whole).into_iter().collect();
    assert!(expected.len() > 2000);

    let args = ["--resume", state.to_str().unwrap()];
    let child = stuck(&tree, &args);
    send(&child, Signal::SIGINT);
    let output = child.wait_with_output().unwrap();
    let said = "namegate: SIGINT: not all names were checked: the run was interrupted\n";
    assert_eq!((status(&output), stderr(&output)), (130, said));
    let first = objects(stdout(&output));
    let summary = first.last().unwrap();
    assert_eq!((&summary["type"], &summary["interrupted"]), (&"summary".into(), &true.into()));
    assert!(paths(&first).len() < expected.len());
    assert_eq!(summary["findings"], paths(&first).len());

    let run = |args: &[&str]| {
        let fixed = ["scan", "--format", "json", "--jobs", "2"];
        namegate().args(fixed).args(args).arg(&tree).output().unwrap()
    };
    let refused = run(&["--resume", state.to_str().unwrap(), "--profile", "utf8", "--max-depth", "3"]);
    assert_eq!(status(&refused), 2);
    let expected_message =
        "the state of another scan: --max-depth was not given, and is now 3; remove the file to scan from";
    assert!(stderr(&refused).contains(expected_message), "{}", stderr(&refused));
    let refused = run(&["--resume", state.to_str().unwrap(), "--profile", "strict"]);
    assert!(stderr(&refused).contains("--profile was utf8, and is now "), "{}", stderr(&refused));

    // The reports and the number of threads are no part of the scope.
    let table = dir.path().join("table.csv");
    let second =
        run(&[&args[..], &["--profile", "utf8", "-o", table.to_str().unwrap(), "--fail-on", "error"]]
            .concat());
    let rows = fs::read_to_string(&table).unwrap().lines().count();
    assert!(rows > expected.len(), "all findings are in the new report: {rows} rows");
    fs::remove_file(&table).unwrap();
    assert_eq!((status(&second), stderr(&second)), (1, ""));
    let second = objects(stdout(&second));
    assert_eq!(second.last(), whole.last(), "the last report is that of the whole");
    // Names that are not UTF-8 were decoded with the evidence of those read until the interruption.
    let without_guesses = |object: &Value| {
        let mut object = object.clone();
        let fields = object.as_object_mut().unwrap();
        for guessed in ["repair", "repair_confidence", "reading", "reading_confidence"] {
            fields.remove(guessed);
        }
        object.to_string()
    };
    let sorted = |objects: &[Value]| objects.iter().map(without_guesses).collect::<BTreeSet<_>>();
    assert!(sorted(&second) == sorted(&whole), "they differ in more than guesses");
    assert_eq!(second.len(), whole.len(), "each finding once");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["tree"], "the state goes when the scan has come to its end");
}

#[test]
fn the_names_of_a_resumed_scan_are_in_the_same_groups() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, state) = (dir.path().join("tree"), dir.path().join("state"));
    for number in 0..20 {
        let below = tree.join(number.to_string());
        fs::create_dir_all(&below).unwrap();
        // Findings are reported 512 at a time: names that become one are far from each other.
        for name in (0..400).flat_map(|number| [format!("NAME {number}"), format!("name {number}")]) {
            fs::File::create(below.join(name)).unwrap();
        }
    }
    let args = ["--profile", "macos"];
    let resumed = [&args[..], &["--resume", state.to_str().unwrap()]].concat();
    let child = stuck(&tree, &resumed);
    send(&child, Signal::SIGINT);
    let first = child.wait_with_output().unwrap();
    assert_eq!(status(&first), 130);
    let run = |args: &[&str]| {
        let fixed = ["scan", "--profile", "utf8", "--format", "json"];
        let output = namegate().args(fixed).args(args).arg(&tree).output().unwrap();
        stdout(&output).lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let (second, whole) = (run(&resumed), run(&args));
    assert!(stdout(&first).lines().any(|line| line.contains("/name 399")), "a directory was reported");
    assert!(whole.len() > 20 * 1200, "{} lines", whole.len());
    let differs = second.symmetric_difference(&whole).next();
    assert_eq!(differs, None);
}

#[test]
fn a_scan_that_is_killed_goes_on_from_where_it_was_last_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, state) = (tree(dir.path()), dir.path().join("state"));
    let args = ["--resume", state.to_str().unwrap(), "--jobs", "1"];
    let fixed = ["scan", "--profile", "utf8", "--format", "json"];
    let mut command = namegate();
    command.args(fixed).args(args).arg(&tree).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    // The first time comes soon after the start. Reading slowly leaves the scan under way until then.
    let mut pipe = child.stdout.take().unwrap();
    let mut piece = [0; 4096];
    while !state.exists() {
        let len = pipe.read(&mut piece).unwrap();
        if len == 0 {
            child.wait().unwrap();
            return println!("SKIPPED: the scan ended before its state was kept");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let second = namegate().args(fixed).args(args).arg(&tree).output().unwrap();
    let second = objects(stdout(&second));
    let whole = namegate().args(fixed).arg(&tree).output().unwrap();
    let whole = objects(stdout(&whole));
    let sorted = |objects| paths(objects).into_iter().collect::<BTreeSet<_>>();
    assert_eq!(sorted(&second), sorted(&whole), "nothing is lost");
    assert_eq!(second.last(), whole.last(), "and nothing is counted twice");
}

#[test]
fn a_state_that_cannot_be_kept_ends_the_scan_at_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path());
    let child = stuck(&tree, &["--resume", "/nowhere/state"]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("/nowhere/state: cannot be read: No such file"), "{}", stderr(&output));
    fs::write(dir.path().join("state"), "nonsense").unwrap();
    let args = ["scan", "--resume", dir.path().join("state").to_str().unwrap()].map(str::to_owned);
    let output = namegate().args(args).arg(&tree).output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("not the state of a scan"), "{}", stderr(&output));
}

#[test]
fn a_signal_asks_how_far_it_has_come_and_another_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path());
    let child = stuck(&tree, &[]);
    send(&child, Signal::SIGUSR1);
    send(&child, Signal::SIGTERM);
    let output = child.wait_with_output().unwrap();
    assert_eq!(status(&output), 143);
    let lines: Vec<&str> = stderr(&output).lines().collect();
    let [line, "namegate: SIGTERM: not all names were checked: the run was interrupted"] = lines[..] else {
        panic!("{lines:?}")
    };
    assert!(line.starts_with("namegate: 0:"), "{line}");
    assert!(line.contains(" names (") && line.contains(" findings  ") && line.contains("/tree"), "{line}");
    assert_eq!(objects(stdout(&output)).last().unwrap()["interrupted"], true);
    // Twice ends at once, whatever the state of the output.
    let child = stuck(&tree, &[]);
    send(&child, Signal::SIGINT);
    send(&child, Signal::SIGINT);
    assert_eq!(status(&child.wait_with_output().unwrap()), 130);
}
