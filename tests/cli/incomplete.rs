//! Runs that are interrupted or cannot read everything: every format says that they are incomplete.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::Value;

use crate::signals::send;
use crate::trees;
use namegate_testkit::process::let_signals_end_programs;
use namegate_testkit::process::wait_for_rest;
use namegate_testkit::program::{namegate, status, stderr, stdout};
use namegate_testkit::wait_until;

const INTERRUPTED: &str = "not all names were checked: the run was interrupted";
const FORMATS: [&str; 6] = ["text", "json", "csv", "sarif", "junit", "html"];

/// A tree with more findings than fit into a pipe and our buffers, so that a scan whose output nobody reads stands still.
fn tree(dir: &Path) -> PathBuf {
    let tree = dir.join("tree");
    trees::wide(&tree, 6000, 300, 500_000).unwrap();
    tree
}

/// Sends a signal to a scan that stands still, and reads what it still writes.
fn interrupted(tree: &Path, signal: Signal, args: &[&str]) -> Output {
    let_signals_end_programs();
    let mut command = namegate();
    command.args(["scan", "--profile", "utf8", "--jobs", "3"]).args(args).arg(tree);
    let child: Child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_rest(child.id());
    send(&child, signal);
    child.wait_with_output().unwrap()
}

/// Asserts that a report says that the run was incomplete, and why.
fn assert_incomplete(format: &str, report: &str, why: &str) {
    let says = match format {
        "text" => report.lines().any(|line| line == why),
        "json" => {
            let summary: Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
            summary["complete"] == false && summary["type"] == "summary"
        }
        "csv" => {
            let rows: Vec<csv::StringRecord> =
                csv::Reader::from_reader(report.as_bytes()).records().collect::<Result<_, _>>().unwrap();
            let last = rows.last().unwrap();
            &last[3] == "incomplete" && &last[9] == why && rows.iter().all(|row| row.len() == last.len())
        }
        "sarif" => {
            let log: Value = serde_json::from_str(report).unwrap();
            let invocation = &log["runs"][0]["invocations"][0];
            let notifications = invocation["toolExecutionNotifications"].as_array().unwrap();
            invocation["executionSuccessful"] == false
                && notifications.iter().any(|note| note["message"]["text"] == why && note["level"] == "error")
        }
        "junit" => {
            let error = format!("<error type=\"incomplete\" message=\"{why}\">");
            report.contains(&error) && report.ends_with("</testsuites>\n")
        }
        "html" => report.contains(&format!("\"incomplete\":\"{why}\"")) && report.ends_with("</html>\n"),
        "github" => report.lines().last() == Some(&format!("::error title=namegate::{why}")),
        other => panic!("{other}"),
    };
    assert!(says, "{format}: {}", &report[report.len().saturating_sub(3000)..]);
}

#[test]
fn an_interrupted_scan_says_so_in_every_format_and_replaces_no_baseline() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path());
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let known = "{\"path\":\"a\",\"rule\":\"truncated\"}\n";
    fs::write(at("known.jsonl"), known).unwrap();
    let files = FORMATS.iter().chain(&["github"]).map(|format| format!("{format}:{}", at(format)));
    let mut args = vec!["--format".to_owned(), "json".to_owned()];
    args.extend(files.flat_map(|file| ["-o".to_owned(), file]));
    for (signal, code, baseline, left) in [
        (Signal::SIGINT, 130, "known.jsonl", Some(known)),
        (Signal::SIGTERM, 143, "new.jsonl", None),
        (Signal::SIGHUP, 129, "known.jsonl", Some(known)),
    ] {
        let baseline = at(baseline);
        let mut args: Vec<&str> = args.iter().map(String::as_str).collect();
        args.extend(["--write-baseline", &baseline]);
        let output = interrupted(&tree, signal, &args);
        assert_eq!(status(&output), code);
        let expected = format!(
            "namegate: {signal}: {INTERRUPTED}\nnamegate: {baseline}: known findings are not written: "
        );
        assert!(stderr(&output).starts_with(&expected), "{}", stderr(&output));
        assert_eq!(fs::read_to_string(&baseline).ok().as_deref(), left, "{baseline}");
        assert_incomplete("json", stdout(&output), INTERRUPTED);
        for format in FORMATS.iter().chain(&["github"]) {
            assert_incomplete(format, &fs::read_to_string(at(format)).unwrap(), INTERRUPTED);
        }
        let summary: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
        assert_eq!((&summary["interrupted"], &summary["baseline_stale"]), (&true.into(), &Value::Null));
    }
    // What is interrupted is incomplete in the report of what was stored, too.
    let again = namegate().args(["report", "--format", "csv"]).arg(at("json")).output().unwrap();
    assert_eq!(status(&again), 2);
    assert_incomplete("csv", stdout(&again), INTERRUPTED);
}

#[test]
fn an_interrupted_scan_ends_its_standard_output_in_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path());
    for format in FORMATS {
        let output = interrupted(&tree, Signal::SIGTERM, &["--format", format]);
        assert_eq!(status(&output), 143);
        assert_incomplete(format, stdout(&output), INTERRUPTED);
    }
}

#[test]
fn what_could_not_be_read_makes_every_format_incomplete_and_keeps_the_baseline() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tree")).unwrap();
    fs::write(dir.path().join("tree/a:b"), "").unwrap();
    let scan = |args: &[&str]| {
        let fixed = ["scan", "tree", "missing", "--profile", "windows"];
        namegate().current_dir(dir.path()).args(fixed).args(args).output().unwrap()
    };
    let why = "not all names were checked: 1 entry could not be read";
    for format in FORMATS.iter().chain(&["github"]) {
        let output = scan(&["--format", format]);
        assert_eq!(status(&output), 2);
        assert_incomplete(format, stdout(&output), why);
        // Text has its errors on standard error.
        let both = stdout(&output).to_owned() + stderr(&output);
        assert!(both.contains("missing"), "{format} names it: {both}");
    }
    let counts = scan(&["--summary-by", "rule", "--format", "csv"]);
    assert!(stdout(&counts).ends_with(&format!("\r\nincomplete: {why},,\r\n")), "{}", stdout(&counts));
    // Where there is no baseline, an incomplete one is better than none.
    let file = dir.path().join("known.jsonl");
    let args = ["-q", "--write-baseline", "known.jsonl"];
    assert_eq!(status(&scan(&args)), 2);
    let first = fs::read_to_string(&file).unwrap();
    let entry = "{\"path\":\"tree/a:b\",\"rule\":\"reserved-character\"}\n";
    assert_eq!(first, format!("{{\"type\":\"baseline\",\"version\":1}}\n{entry}"));
    fs::write(dir.path().join("tree/c:d"), "").unwrap();
    let output = scan(&args);
    assert!(stderr(&output).contains("known.jsonl: known findings are not written: "), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(&file).unwrap(), first);
    // Of what was not read, nobody knows whether it is still there.
    let output = scan(&["--baseline", "known.jsonl", "--json"]);
    let summary: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    assert_eq!((&summary["baseline_accepted"], &summary["baseline_stale"]), (&1.into(), &Value::Null));
}

#[test]
fn a_directory_that_may_not_be_read_is_a_row_of_its_own() {
    if geteuid().is_root() {
        return println!("SKIPPED: root may read everything");
    }
    let dir = tempfile::tempdir().unwrap();
    let shut = dir.path().join("shut");
    fs::create_dir(&shut).unwrap();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o000)).unwrap();
    let output = namegate().args(["scan", "--format", "csv"]).arg(dir.path()).output().unwrap();
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o700)).unwrap();
    let rows: Vec<_> = csv::Reader::from_reader(&*output.stdout).into_records().map(Result::unwrap).collect();
    assert_eq!((rows.len(), &rows[0][3], &rows[1][3]), (2, "fault", "incomplete"));
    assert_eq!(&rows[0][0], shut.to_str().unwrap());
}

#[test]
fn an_interrupted_scan_reports_the_large_directory_that_it_checks() {
    const NAMES: usize = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let (tree, report) = (dir.path().join("tree"), dir.path().join("report"));
    fs::create_dir(&tree).unwrap();
    // Each with other letters, so that each is compared with all encodings.
    for number in 0..NAMES {
        let letters = (0..5).map(|at| b'a' + (number / 26_usize.pow(at) % 26) as u8);
        let name: Vec<u8> = letters.chain(*b"\xE9t\xE9").collect();
        fs::write(tree.join(OsStr::from_bytes(&name)), "").unwrap();
    }
    let_signals_end_programs();
    let output = format!("json:{}", report.display());
    let mut child = namegate()
        .args(["scan", "--profile", "utf8", "-q", "-o", &output])
        .arg(&tree)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // To list the names takes less than this processor time, in hundredths of a second, and to check them much more.
    let used = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap()
    };
    wait_until("the check of the directory", || used() >= 20);
    send(&child, Signal::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let report = fs::read_to_string(&report).unwrap();
    assert_incomplete("json", &report, INTERRUPTED);
    assert!(report.lines().count() > NAMES, "{}", report.lines().count());
}

#[test]
fn an_interrupted_scan_leaves_no_line_of_progress_on_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path());
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let_signals_end_programs();
    // The report goes to a pipe that is read late, so that the scan is under way when the signal comes.
    let program = env!("CARGO_BIN_EXE_namegate");
    let command = format!(
        "stty cols 100; echo $$; exec '{program}' scan --profile utf8 -q -o json:'{}' '{}'",
        fifo.display(),
        tree.display()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let Ok(mut terminal) = script.spawn() else { return println!("SKIPPED: no script(1)") };
    let mut screen = terminal.stdout.take().unwrap();
    let mut shown = Vec::new();
    let mut until = |text: &str, shown: &mut Vec<u8>| {
        let mut piece = [0; 4096];
        while !String::from_utf8_lossy(shown).contains(text) {
            match screen.read(&mut piece).unwrap() {
                0 => break,
                len => shown.extend_from_slice(&piece[..len]),
            }
        }
    };
    until("\n", &mut shown);
    let pid: i32 = String::from_utf8_lossy(&shown).trim().parse().unwrap();
    let mut pipe = fs::File::open(&fifo).unwrap();
    until(" a second), ", &mut shown);
    kill(Pid::from_raw(pid), Signal::SIGINT).unwrap();
    // The signal is pending until the program has received it. It may have ended by then.
    let status = || fs::read_to_string(format!("/proc/{pid}/status"));
    wait_until("receipt of the signal", || {
        status().map_or(true, |status| status.lines().any(|line| line == "ShdPnd:\t0000000000000000"))
    });
    let reader = std::thread::spawn(move || pipe.read_to_end(&mut Vec::new()));
    until("\0", &mut shown);
    reader.join().unwrap().unwrap();
    assert_eq!(terminal.wait().unwrap().code(), Some(130));
    let text = String::from_utf8_lossy(&shown);
    let (progress, rest) = text.rsplit_once(" a second), ").unwrap();
    assert!(!progress.is_empty() && rest.contains(INTERRUPTED), "{text:?}");
    // After the last drawing of the line comes what clears it, and then the sentence.
    let cleared = rest.find("\x1B[2K").or_else(|| rest.find("\x1B[K")).or_else(|| rest.find("\x1B[J"));
    assert!(cleared.is_some_and(|at| at < rest.find("namegate: SIGINT").unwrap()), "{rest:?}");
}
