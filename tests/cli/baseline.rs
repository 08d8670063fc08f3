//! Baselines: known findings change what is listed and the exit status, never a verdict.

use std::fs::{self, File};
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use namegate_testkit::program::{namegate, status, stderr, stdout};

/// A share with findings of several kinds, in `share`, and another one beside it.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for below in ["share", "share/sub:dir", "share2"] {
        fs::create_dir_all(dir.path().join(below)).unwrap();
        for name in ["a:b", "Same", "same", "dot.", "fine", "desktop.ini"] {
            File::create(dir.path().join(below).join(name)).unwrap();
        }
    }
    dir
}

/// Scans for windows in the directory `at` below `dir`.
fn scan(dir: &Path, at: &str, args: &[&str]) -> Output {
    let fixed = ["scan", "--target", "windows,sharepoint"];
    namegate().current_dir(dir.join(at)).args(fixed).args(args).output().unwrap()
}

fn summary(output: &Output) -> Value {
    serde_json::from_str(stdout(output).lines().last().unwrap()).unwrap()
}

#[test]
fn a_baseline_is_accepted_whatever_the_path_of_the_scan_is() {
    let dir = place();
    let share = dir.path().join("share");
    std::os::unix::fs::symlink("share", dir.path().join("link")).unwrap();
    let ways: [(&str, &str); 6] = [
        ("", "share"),
        ("", "./share"),
        ("", "share/"),
        ("", share.to_str().unwrap()),
        ("share", "."),
        ("share2", "../share"),
    ];
    let known = dir.path().join("known.jsonl");
    let known = known.to_str().unwrap();
    for (at, path) in ways {
        scan(dir.path(), at, &[path, "-q", "--write-baseline", known]);
        let text = fs::read_to_string(known).unwrap();
        assert!(text.contains("{\"path\":\"a:b\",\"rule\":\"reserved-character\"}\n"), "{path}: {text}");
        assert!(text.contains("{\"path\":\"sub:dir/dot.\",\"rule\":\"trailing-dot\"}\n"), "{path}: {text}");
        for (at, path) in ways.into_iter().chain([("", "link")]) {
            for engine in ["getdents", "walkdir"] {
                let output = scan(dir.path(), at, &[path, "--json", "--engine", engine, "--baseline", known]);
                let summary = summary(&output);
                assert_eq!((status(&output), &summary["findings"]), (0, &0.into()), "{at} {path}: {summary}");
                assert_eq!(summary["baseline_stale"], 0, "{at} {path}");
            }
        }
    }
    // With several roots, paths are relative to what they have in common.
    scan(dir.path(), "", &["share", "share2", "-q", "--write-baseline", known]);
    assert!(fs::read_to_string(known).unwrap().contains("{\"path\":\"share2/dot.\","));
    let both = scan(dir.path(), "share", &["../share2", ".", "--baseline", known]);
    assert_eq!(status(&both), 0, "{}", stdout(&both));
    // The same names in another directory are new.
    scan(dir.path(), "", &["share", "-q", "--write-baseline", known]);
    fs::create_dir(dir.path().join("share/new")).unwrap();
    File::create(dir.path().join("share/new/a:b")).unwrap();
    let output = scan(dir.path(), "", &["share", "--json", "--baseline", known]);
    assert_eq!((status(&output), &summary(&output)["findings"]), (1, &1.into()));
}

#[test]
fn a_baseline_changes_what_is_listed_and_the_exit_status_and_never_the_verdict() {
    let dir = place();
    let all = summary(&scan(dir.path(), "", &["share", "--json"]));
    assert_eq!(all["targets"][0]["verdict"], "not-ready");
    scan(dir.path(), "", &["share", "-q", "--write-baseline", "known.jsonl"]);
    let with =
        |args: &[&str]| scan(dir.path(), "", &[&["share", "--baseline", "known.jsonl"], args].concat());
    let output = with(&["--json", "-o", "stored.jsonl"]);
    let known = summary(&output);
    assert_eq!((status(&output), &known["findings"], &known["violation_count"]), (0, &0.into(), &0.into()));
    assert_eq!((&known["targets"], &known["lost_or_changed"]), (&all["targets"], &all["lost_or_changed"]));
    let text = with(&[]);
    assert!(
        stdout(&text).contains("\nverdict: not ready for windows, sharepoint: 9 names do not"),
        "{}",
        stdout(&text)
    );
    assert!(stdout(&text).starts_with("clean  no new finding among 14 names"), "{}", stdout(&text));
    assert_eq!(status(&text), 0);
    let stored =
        namegate().current_dir(dir.path()).args(["report", "stored.jsonl", "--json"]).output().unwrap();
    assert_eq!(summary(&stored)["targets"], all["targets"]);

    // A name with a known violation and a new one is listed with the new one, and counts once.
    let lines = fs::read_to_string(dir.path().join("known.jsonl")).unwrap();
    let less: String =
        lines.split_inclusive('\n').filter(|line| !line.contains("\"trailing-dot\"")).collect();
    fs::write(dir.path().join("known.jsonl"), less).unwrap();
    fs::rename(dir.path().join("share/dot."), dir.path().join("share/c:d.")).unwrap();
    let line = "{\"path\":\"c:d.\",\"rule\":\"reserved-character\"}\n";
    let lines = fs::read_to_string(dir.path().join("known.jsonl")).unwrap();
    fs::write(dir.path().join("known.jsonl"), lines + line).unwrap();
    let output = with(&["--json"]);
    let known = summary(&output);
    assert_eq!((status(&output), &known["findings"], &known["violation_count"]), (1, &2.into(), &2.into()));
    let all = summary(&scan(dir.path(), "", &["share", "--json"]));
    assert_eq!(known["targets"], all["targets"]);

    // A scan that is resumed counts what was accepted before.
    let resumed = with(&["--json", "--resume", "state"]);
    assert_eq!(summary(&resumed)["targets"], all["targets"]);
}

#[test]
fn a_baseline_of_another_tree_is_an_error_and_a_few_old_entries_are_a_hint() {
    let dir = place();
    scan(dir.path(), "", &["share", "-q", "--write-baseline", "known.jsonl"]);
    fs::rename(dir.path().join("share/dot."), dir.path().join("share/dot")).unwrap();
    let output = scan(dir.path(), "", &["share", "--baseline", "known.jsonl"]);
    assert_eq!((status(&output), stderr(&output)), (0, ""));
    assert!(stdout(&output).contains("1 entry of the baseline is no longer found"), "{}", stdout(&output));

    let names: String =
        (0..1000).map(|n| format!("{{\"path\":\"x/{n}?\",\"rule\":\"reserved-character\"}}\n")).collect();
    fs::write(dir.path().join("other.jsonl"), names).unwrap();
    let output = scan(dir.path(), "", &["share", "--baseline", "other.jsonl", "-o", "report.jsonl"]);
    assert_eq!(status(&output), 2);
    let message = "namegate: other.jsonl: 1,000 of 1,000 entries match nothing that was found: it seems to be the baseline of \
                   another tree.";
    assert!(stderr(&output).starts_with(message), "{}", stderr(&output));
    assert!(stdout(&output).contains("names with findings among"), "the findings are reported all the same");
    assert!(dir.path().join("report.jsonl").exists());
}

#[test]
fn stored_findings_make_no_baseline() {
    let dir = place();
    scan(dir.path(), "", &["share", "-q", "-o", "found.jsonl"]);
    let args = ["report", "found.jsonl", "--write-baseline", "known.jsonl"];
    let output = namegate().current_dir(dir.path()).args(args).output().unwrap();
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("--write-baseline needs a scan"), "{}", stderr(&output));
}
