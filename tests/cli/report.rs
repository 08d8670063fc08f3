//! Reports for programs, files, targets and baselines.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Stdio;

use data_encoding::{BASE64, HEXLOWER};
use namegate_testkit::program::{namegate, status, stderr, stdout};
use serde_json::Value;

const NAMES: &[&[u8]] = &[
    b"plain.txt",
    b"caf\xE9 100%.txt",
    b"=cmd|calc",
    b"+1?",
    b"@a?",
    b"-1?",
    b"[link](http:x) {0}?",
    b"<failure>&amp;",
    b"\xC0\xAF]]>",
    "gnp.\u{202E}exe".as_bytes(),
    b"dot.",
    b"Same",
    b"same",
    b"SAME",
    b"a:b",
    "\u{FFFE}?".as_bytes(),
    b"line\nfeed\x1B[31m",
];

fn tree() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for sub in ["", "=sub"] {
        let sub = dir.path().join("tree").join(sub);
        fs::create_dir_all(&sub).unwrap();
        for name in NAMES {
            File::create(sub.join(OsStr::from_bytes(name))).unwrap();
        }
    }
    dir
}

/// Runs `namegate scan tree` with these arguments in the directory that holds the tree.
fn scan(dir: &Path, args: &[&str]) -> std::process::Output {
    namegate().args(["scan", "tree"]).args(args).current_dir(dir).output().unwrap()
}

fn lines(output: &std::process::Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// All violations as JSON Lines tell them: path, rule, first byte.
fn violations(dir: &Path, args: &[&str]) -> BTreeSet<(Vec<u8>, String, u64)> {
    let output = scan(dir, &[args, &["--format", "json"]].concat());
    let mut all = BTreeSet::new();
    for finding in lines(&output).iter().filter(|line| line["type"] == "finding") {
        let path = BASE64.decode(finding["path_base64"].as_str().unwrap().as_bytes()).unwrap();
        for violation in finding["violations"].as_array().unwrap() {
            let rule = violation["rule"].as_str().unwrap().to_owned();
            all.insert((path.clone(), rule, violation["start"].as_u64().unwrap()));
        }
    }
    all
}

const POLICY: &[&str] = &["--profile", "security,windows"];

fn decoded(text: &str) -> Vec<u8> {
    percent_encoding::percent_decode_str(text).collect()
}

#[test]
fn csv_holds_every_violation_with_its_bytes_and_no_formula() {
    let dir = tree();
    let output = scan(dir.path(), &[POLICY, &["--format", "csv"]].concat());
    let mut reader = csv::Reader::from_reader(output.stdout.as_slice());
    let heads = reader.headers().unwrap().clone();
    let mut found = BTreeSet::new();
    for row in reader.records() {
        let row = row.unwrap();
        let cell = |name: &str| &row[heads.iter().position(|head| head == name).unwrap()];
        for value in &row {
            assert!(!value.starts_with(['=', '+', '-', '@', '\t', '\r']), "{value:?} is a formula");
            assert!(!value.contains(|c: char| c.is_control()), "{value:?}");
        }
        assert!(["security", "portability"].contains(&cell("concern")));
        found.insert((
            decoded(cell("path_encoded")),
            cell("rule").to_owned(),
            cell("start").parse().unwrap(),
        ));
    }
    assert_eq!(found, violations(dir.path(), POLICY));
}

#[test]
fn sarif_satisfies_the_schema_and_holds_every_violation() {
    let dir = tree();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/sarif-schema-2.1.0.json");
    // The pattern of languages has a bracket too many, at which the validator stops; no report states a language.
    let schema = fs::read_to_string(file).unwrap().replace("[a-zA-Z]{2}]?$", "[a-zA-Z]{2}$");
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let missing = ["missing"];
    for more in [&[][..], &missing] {
        let mut command = namegate();
        let output = command.args(["scan", "tree"]).args(more).args(POLICY).args(["--format", "sarif"]);
        let log: Value =
            serde_json::from_str(stdout(&output.current_dir(dir.path()).output().unwrap())).unwrap();
        let errors: Vec<String> =
            schema.iter_errors(&log).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        let run = &log["runs"][0];
        assert_eq!(run["invocations"][0]["executionSuccessful"], more.is_empty());
        let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
        let (mut found, mut fingerprints) = (BTreeSet::new(), BTreeSet::new());
        for result in run["results"].as_array().unwrap() {
            let rule = result["ruleId"].as_str().unwrap();
            let described = &rules[result["ruleIndex"].as_u64().unwrap() as usize];
            assert_eq!(described["id"], rule);
            assert_eq!(described["properties"]["tags"][0], result["properties"]["concern"]);
            let uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap();
            assert!(uri.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._~-%".contains(&b)), "{uri}");
            let path = decoded(uri);
            let text = result["message"]["text"].as_str().unwrap();
            let bare = text.replace("\\[", "").replace("\\]", "").replace("{{", "").replace("}}", "");
            assert!(!bare.contains(['[', ']', '{', '}']), "{text} has a link or a placeholder");
            fingerprints.insert((
                path.clone(),
                rule.to_owned(),
                result["partialFingerprints"]["pathAndRule/v1"].to_string(),
            ));
            found.insert((path, rule.to_owned(), result["properties"]["startByte"].as_u64().unwrap()));
        }
        assert_eq!(found, violations(dir.path(), POLICY));
        let distinct: BTreeSet<&String> = fingerprints.iter().map(|(_, _, print)| print).collect();
        assert_eq!(distinct.len(), fingerprints.len(), "one fingerprint for each path and rule");
    }
}

#[test]
fn sarif_has_as_many_results_as_code_scanning_accepts_and_says_what_it_leaves_out() {
    const NAMES: u64 = 13_000;
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    // Two violations each, in directories of one name and of many.
    let names: String = (0..NAMES).map(|n| format!("{}/a?{n}.\n", if n % 3 == 0 { n } else { 0 })).collect();
    fs::write(&list, names).unwrap();
    let run = |format: &str| {
        let args = ["scan", "--profile", "windows", "--format", format, "--list"];
        namegate().args(args).arg(&list).output().unwrap()
    };
    let log: Value = serde_json::from_str(stdout(&run("sarif"))).unwrap();
    let run = &log["runs"][0];
    assert_eq!(run["results"].as_array().unwrap().len(), 25_000);
    assert_eq!(run["properties"]["summary"]["findings"], NAMES);
    let invocation = &run["invocations"][0];
    let notice = invocation["toolExecutionNotifications"][0]["message"]["text"].as_str().unwrap();
    assert!(notice.starts_with("1000 more results are left out"), "{notice}");
    assert_eq!(invocation["executionSuccessful"], true);
}

#[test]
fn junit_is_xml_with_a_failed_test_for_each_finding_that_counts() {
    use quick_xml::events::Event;
    let dir = tree();
    for (fail_on, expected) in [("warn", 32), ("error", 30), ("never", 0)] {
        let args = [POLICY, &["--format", "junit", "--fail-on", fail_on]].concat();
        let output = scan(dir.path(), &args);
        let mut reader = quick_xml::Reader::from_str(stdout(&output));
        let (mut depth, mut cases, mut failures, mut claimed) = (0, 0, 0, 0);
        loop {
            let event = reader.read_event().unwrap();
            match &event {
                Event::Eof => break,
                Event::Start(start) | Event::Empty(start) => {
                    depth += i32::from(matches!(event, Event::Start(_)));
                    match start.name().as_ref() {
                        "testcase" => cases += 1,
                        "failure" => failures += 1,
                        "testsuite" => {
                            let failures = start.try_get_attribute("failures").unwrap().unwrap();
                            claimed += failures.value.parse::<i32>().unwrap();
                        }
                        "testsuites" | "system-out" => {}
                        other => panic!("{other}"),
                    }
                }
                Event::End(_) => depth -= 1,
                _ => {}
            }
        }
        assert_eq!((depth, cases, failures, claimed), (0, 32, expected, expected), "{fail_on}");
        assert_eq!(status(&output), i32::from(expected > 0));
    }
    let clean = namegate().args(["check", "fine.txt", "--format", "junit"]).output().unwrap();
    assert!(stdout(&clean).contains("tests=\"1\" failures=\"0\""), "{}", stdout(&clean));
}

#[test]
fn groups_of_names_that_become_one_are_told_whole() {
    let dir = tree();
    let output = scan(dir.path(), &["--profile", "windows", "--format", "json"]);
    let all = lines(&output);
    let groups: Vec<&Value> = all.iter().filter(|line| line["type"] == "collision").collect();
    assert_eq!(groups.len(), 2);
    for group in groups {
        let members: Vec<&str> =
            group["members"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
        assert_eq!(members, ["SAME", "Same", "same"]);
        assert_eq!(group["members"][0]["name_hex"], HEXLOWER.encode(b"SAME"));
        let named = all.iter().filter(|line| {
            line["violations"].as_array().is_some_and(|v| v.iter().any(|v| v["group"] == group["group"]))
        });
        assert_eq!(named.count(), 3, "each member names its group");
    }
    assert_eq!(all.last().unwrap()["collisions"], 2);
}

#[test]
fn readiness_counts_what_each_target_refuses_changes_merges_and_cannot_reach() {
    let dir = tree();
    let prefix = format!("C:\\{}", "d".repeat(254));
    let args = ["--target", "windows,macos,gcs", "--prefix", &prefix, "--format", "json"];
    let output = scan(dir.path(), &args);
    let summary = lines(&output).pop().unwrap();
    let target = |name: &str| {
        let all = summary["targets"].as_array().unwrap();
        all.iter().find(|target| target["target"] == name).unwrap().clone()
    };
    // Written from the names above, for one directory, and twice for the two.
    let windows = target("windows");
    let counts = |of: &Value| ["refused", "changed", "merged"].map(|key| of[key].as_u64().unwrap());
    // Two that are not UTF-8, eight with one of < > : | ? and one with controls.
    assert_eq!(counts(&windows), [2 * 11, 2, 2 * 3]);
    // With the prefix every path has more than 259 UTF-16 units; these names have nothing graver: two in each directory, and
    // the directories.
    assert_eq!(windows["path_too_long"], 2 * 2 + 2);
    // Two names that are not UTF-8; the colon is shown as a slash.
    assert_eq!(counts(&target("macos")), [2 * 2, 2 * 2, 2 * 3]);
    assert_eq!(counts(&target("gcs")), [2 * 3, 0, 0]);
    for name in ["windows", "macos", "gcs"] {
        let target = target(name);
        assert_eq!(target["verdict"], "not-ready");
        let columns = ["ready", "refused", "changed", "merged", "path_too_long", "left_behind", "warned"];
        let sum: u64 = columns.iter().map(|column| target[column].as_u64().unwrap()).sum();
        assert_eq!(sum, summary["names"].as_u64().unwrap(), "each name is in one column: {target}");
    }

    let text = scan(dir.path(), &["--target", "windows,gcs"]);
    let text = stdout(&text);
    assert!(text.contains("target   ") && text.contains("verdict: not ready for windows, gcs: "), "{text}");
    let fine =
        namegate().args(["scan", "tree/plain.txt", "--target", "windows"]).current_dir(dir.path()).output();
    assert!(stdout(&fine.unwrap()).contains("verdict: ready for windows"));
}

#[test]
fn nothing_is_ready_if_something_could_not_be_read() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tree")).unwrap();
    for (name, verdict) in [("plain", "incomplete"), ("a ", "incomplete"), ("a:b", "not-ready")] {
        File::create(dir.path().join("tree").join(name)).unwrap();
        let scan = |format| {
            namegate()
                .args(["scan", "tree", "missing", "--target", "s3,macos", "--format", format])
                .current_dir(dir.path())
                .output()
                .unwrap()
        };
        let output = scan("json");
        assert_eq!(status(&output), 2);
        let summary = lines(&output).pop().unwrap();
        assert_eq!(summary["targets"][0]["verdict"], "incomplete", "{summary}");
        assert_eq!(summary["targets"][1]["verdict"], verdict, "{summary}");
        let text = scan("text");
        let text = stdout(&text);
        let expected = match verdict {
            "incomplete" => "verdict: incomplete for s3, macos: not all names were checked\n",
            _ => "verdict: not ready for macos: 1 name does not arrive as it is\n",
        };
        assert!(text.ends_with(expected), "{text}");
    }
}

#[test]
fn a_name_that_changes_on_the_target_is_not_ready_and_counts_in_one_column() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tree")).unwrap();
    for name in ["a:b", "plain"] {
        File::create(dir.path().join("tree").join(name)).unwrap();
    }
    let text = scan(dir.path(), &["--target", "macos"]);
    let text = stdout(&text);
    let row: Vec<&str> = text.lines().find(|line| line.starts_with("macos ")).unwrap().split(' ').collect();
    let row: Vec<&str> = row.into_iter().filter(|cell| !cell.is_empty()).collect();
    assert_eq!(row, ["macos", "2", "0", "1", "0", "0", "0", "not", "ready"], "{text}");
    assert!(text.contains("verdict: not ready for macos: 1 name does not arrive as it is\n"), "{text}");
    let summary = lines(&scan(dir.path(), &["--target", "macos", "--format", "json"])).pop().unwrap();
    let macos = &summary["targets"][0];
    assert_eq!((&macos["verdict"], &macos["ready"]), (&"not-ready".into(), &2.into()));
    assert_eq!((&macos["changed"], &macos["warned"], &macos["rejected"]), (&1.into(), &0.into(), &0.into()));
}

#[test]
fn a_baseline_accepts_what_is_known_and_nothing_else() {
    let dir = tree();
    let baseline = dir.path().join("known.jsonl");
    let written = scan(dir.path(), &[POLICY, &["--quiet", "--write-baseline", "known.jsonl"]].concat());
    assert_eq!((status(&written), stdout(&written)), (1, ""));
    let text = fs::read_to_string(&baseline).unwrap();
    let known: BTreeSet<(Vec<u8>, String)> =
        violations(dir.path(), POLICY).into_iter().map(|(path, rule, _)| (path, rule)).collect();
    assert_eq!(text.lines().count(), 1 + known.len(), "the first line says what the file is");
    assert!(text.lines().any(|line| line == r#"{"path":"dot.","rule":"trailing-dot"}"#), "{text}");
    let again =
        scan(dir.path(), &[POLICY, &["--jobs", "1", "-q", "--write-baseline", "again.jsonl"]].concat());
    assert_eq!(status(&again), 1);
    assert_eq!(fs::read_to_string(dir.path().join("again.jsonl")).unwrap(), text, "the same in every run");

    let with = [POLICY, &["--baseline", "known.jsonl"]].concat();
    let clean = scan(dir.path(), &with);
    assert_eq!(status(&clean), 0, "{}", stdout(&clean));
    assert!(stdout(&clean).contains(&format!("{} known findings are accepted", known.len())));
    fs::rename(dir.path().join("tree/dot."), dir.path().join("tree/new.")).unwrap();
    assert_eq!(
        violations(dir.path(), &with),
        BTreeSet::from([(b"tree/new.".to_vec(), "trailing-dot".to_owned(), 3)])
    );
    let changed = scan(dir.path(), &with);
    assert!(stdout(&changed).contains("1 entry of the baseline is no longer found"), "{}", stdout(&changed));
    fs::write(&baseline, "{}\n").unwrap();
    let broken = scan(dir.path(), &with);
    assert_eq!(status(&broken), 2);
    assert!(stderr(&broken).contains("known.jsonl: line 1: "), "{}", stderr(&broken));
}

#[test]
fn the_exit_status_follows_fail_on() {
    for (name, expected) in [("fine", [0, 0, 0]), ("-warned", [1, 0, 0]), ("refused?", [1, 1, 0])] {
        let found = ["warn", "error", "never"].map(|fail_on| {
            let args =
                ["check", "--profile", "security,windows", "--quiet", "--fail-on", fail_on, "--", name];
            status(&namegate().args(args).output().unwrap())
        });
        assert_eq!(found, expected, "{name}");
    }
    let missing = namegate().args(["scan", "--fail-on", "never", "/does/not/exist"]).output().unwrap();
    assert_eq!(status(&missing), 2, "trouble is trouble");
}

#[test]
fn several_files_are_written_at_once_and_each_is_whole_or_not_there() {
    let dir = tree();
    let old = dir.path().join("out.html");
    fs::write(&old, "old").unwrap();
    std::os::unix::fs::symlink("out.html", dir.path().join("link.html")).unwrap();
    let files =
        ["-o", "link.html", "-o", "a.csv", "-o", "a.sarif", "-o", "a.xml", "-o", "json:b", "-o", "a.txt"];
    let output = scan(dir.path(), &files);
    assert_eq!(status(&output), 1);
    assert!(fs::symlink_metadata(dir.path().join("link.html")).unwrap().is_symlink(), "a link stays one");
    for (file, start) in [
        ("out.html", "<!DOCTYPE"),
        ("a.csv", "\u{FEFF}path,"),
        ("a.sarif", "{"),
        ("a.xml", "<?xml"),
        ("b", "{"),
    ] {
        let text = fs::read_to_string(dir.path().join(file)).unwrap();
        assert!(text.starts_with(start), "{file}: {}", &text[..40]);
    }
    assert_eq!(fs::read_to_string(dir.path().join("a.txt")).unwrap(), stdout(&output), "without colours");
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.as_bytes().starts_with(b".namegate")), "{left:?}");
    let by_umask = dir.path().join("umask");
    File::create(&by_umask).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&dir.path().join("a.csv")), mode(&by_umask));

    let inode = fs::metadata(&old).unwrap().ino();
    for (args, message) in [
        (&["-o", "out.html", "-o", "json:link.html"][..], "named for two outputs"),
        (&["-o", "missing/a.csv"], "missing/a.csv: cannot be written"),
        (&["-o", "a.unknown"], "html:FILE"),
    ] {
        let output = scan(dir.path(), args);
        assert_eq!(status(&output), 2);
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    assert_eq!(fs::metadata(&old).unwrap().ino(), inode, "a run that does not begin replaces nothing");
}

#[test]
fn a_file_is_written_whole_when_the_reader_of_the_output_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tree")).unwrap();
    for number in 0..3000 {
        File::create(dir.path().join("tree").join(format!("{number:0200}?"))).unwrap();
    }
    for format in ["text", "json", "csv", "sarif", "junit", "html"] {
        for more in [&[][..], &["-o", "a.csv"]] {
            let mut command = namegate();
            command.args(["scan", "tree", "--profile", "windows", "--format", format]).args(more);
            command.current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            drop(child.stdout.take());
            let output = child.wait_with_output().unwrap();
            assert_eq!(stderr(&output), "", "{format}");
            assert_ne!(status(&output), 2, "{format}");
        }
        let file = dir.path().join("a.csv");
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 3001, "{format}");
        fs::remove_file(file).unwrap();
    }

    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = std::thread::spawn(move || drop(File::open(pipe).unwrap()));
    let args = ["scan", "tree", "--profile", "windows", "--quiet", "-o", "csv:pipe"];
    let output = namegate().args(args).current_dir(dir.path()).output().unwrap();
    reader.join().unwrap();
    assert_eq!((status(&output), stderr(&output)), (1, ""), "a pipe among the files ends as quietly");
}

#[test]
fn text_is_grouped_by_rule_with_security_first() {
    let dir = tree();
    let output = scan(dir.path(), &[POLICY, &["--group-by", "rule"]].concat());
    let text = stdout(&output);
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} in {text}"));
    assert!(at("bidi-control  security, 2 violations") < at("reserved-character  portability, "));
    assert!(text.contains(r"tree/=sub/gnp.\u{202E}exe"));
    assert!(at("\nsecurity, ") < at("\nportability, "), "the summary keeps them apart too");
}

#[test]
fn owners_are_in_csv_and_json_and_titles_in_pages_alone() {
    let dir = tree();
    let owner = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let output = scan(dir.path(), &["--owners", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(output.stdout.as_slice());
    let at = reader.headers().unwrap().iter().position(|heading| heading == "owner").unwrap();
    let owners: BTreeSet<String> = reader.records().map(|row| row.unwrap()[at].to_owned()).collect();
    assert_eq!(owners, BTreeSet::from([owner.clone()]));
    let output = scan(dir.path(), &["--owners", "--format", "json"]);
    let findings: Vec<Value> = lines(&output).into_iter().filter(|line| line["type"] == "finding").collect();
    assert!(!findings.is_empty() && findings.iter().all(|finding| finding["owner"] == owner.as_str()));
    let output = scan(dir.path(), &["--format", "json"]);
    assert!(lines(&output).iter().all(|line| line["owner"].is_null()), "nobody has asked");

    let output = scan(dir.path(), &["--title", "Share <b>", "-o", "page.html", "-q"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains(r#""title":"Share \u003cb\u003e""#) && !page.contains("<b>\""), "{page}");
    let output = scan(dir.path(), &["--title", "Share", "-o", "table.csv"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--title needs an HTML report"), "{}", stderr(&output));
}

#[test]
fn a_summary_has_no_findings_and_files_have_all() {
    let dir = tree();
    let whole = scan(dir.path(), POLICY);
    let summary = scan(dir.path(), &[POLICY, &["--summary", "-o", "all.csv"]].concat());
    assert_eq!(status(&summary), 1);
    assert!(stdout(&whole).ends_with(stdout(&summary)) && stdout(&whole).len() > 2 * stdout(&summary).len());
    assert!(stdout(&summary).contains(" among "), "{}", stdout(&summary));
    assert!(fs::read_to_string(dir.path().join("all.csv")).unwrap().lines().count() > 30);
    let json = scan(dir.path(), &[POLICY, &["--summary", "--format", "json"]].concat());
    assert_eq!(lines(&json).len(), 1, "{}", stdout(&json));
}

#[test]
fn a_name_that_is_not_utf8_is_called_that_before_its_bytes_are_explained() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tree")).unwrap();
    for name in ["Gr\u{f6}\u{df}e 2004.txt", "Men\u{fc}.pdf", "\u{dc}bersicht \u{e4}lter.doc"] {
        let latin1: Vec<u8> = name.chars().map(|c| c as u8).collect();
        File::create(dir.path().join("tree").join(OsStr::from_bytes(&latin1))).unwrap();
    }
    let text = scan(dir.path(), &["--profile", "utf8"]);
    let shown: Vec<&str> = stdout(&text).lines().map(str::trim).collect();
    let at = shown.iter().position(|line| *line == r"Men\xFC.pdf").unwrap();
    let json = scan(dir.path(), &["--profile", "utf8", "--json"]);
    let finding = lines(&json).into_iter().find(|line| line["repair"] == "Menü.pdf").unwrap();
    let reading = finding["reading"].as_str().unwrap();
    assert_eq!(finding["reading_confidence"], "likely", "{finding}");
    let note = format!("not UTF-8, probably {reading}");
    assert_eq!(shown[at + 1], note);
    assert!(
        shown[at + 2].starts_with("error  truncated  byte 3  FC: only 1 of 6 bytes"),
        "{}",
        shown[at + 2]
    );
    let by_rule = scan(dir.path(), &["--profile", "utf8", "--group-by", "rule"]);
    assert!(stdout(&by_rule).contains(&format!("{note}; FC: only 1 of 6 bytes")), "{}", stdout(&by_rule));
    let junit = scan(dir.path(), &["--profile", "utf8", "--format", "junit"]);
    assert!(stdout(&junit).contains(&format!("message=\"{note}\"")), "{}", stdout(&junit));
    let sarif = scan(dir.path(), &["--profile", "utf8", "--format", "sarif"]);
    assert!(stdout(&sarif).contains(&format!("{note}; FC: only 1 of 6 bytes")), "{}", stdout(&sarif));
    let csv = scan(dir.path(), &["--profile", "utf8", "--format", "csv"]);
    assert!(stdout(&csv).contains(&format!(",{reading},likely\r\n")), "{}", stdout(&csv));
    // One name alone is too little to be sure.
    let alone = namegate().args(["check"]).arg(OsStr::from_bytes(b"caf\xE9.txt")).output().unwrap();
    assert!(stdout(&alone).contains("\n        not UTF-8, perhaps windows-1252\n"), "{}", stdout(&alone));
    let unknown = namegate().args(["check"]).arg(OsStr::from_bytes(b"max\xF4\x90\x80\x80")).output().unwrap();
    assert!(stdout(&unknown).contains("\n        not UTF-8, "), "{}", stdout(&unknown));
}
