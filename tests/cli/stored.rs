//! Reports of stored findings: those of a scan, of its parts, and of an engine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, UInt32Array};
use namegate_arrow::{CheckSettings, DirectoryChecker, PairSettings, PairSplitter, schema};
use namegate_core::policy::{Policy, profile};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use serde_json::Value;

use crate::pairs::{keys, lines};
use crate::trees;
use namegate_testkit::program::{namegate, run, run_with, status, stderr, stdout};

/// In the order in which tasks name them.
const PROFILES: &str = "strict,windows,macos";
const FORMATS: [&str; 6] = ["txt", "jsonl", "csv", "sarif", "xml", "html"];

/// Writes a list of keys, and scans it: findings in all formats, and as Parquet.
fn scanned(dir: &Path, keys: &[Vec<u8>], more: &[&str]) -> PathBuf {
    let list = dir.join("keys.list");
    fs::write(&list, keys.iter().flat_map(|key| [key, &b"\0"[..]].concat()).collect::<Vec<u8>>()).unwrap();
    let mut scan = namegate();
    scan.args(["scan", "-0", "--list-as", "keys", "--quiet", "--target", PROFILES]).args(more);
    scan.arg("--list").arg(&list);
    for format in FORMATS.iter().chain(&["parquet"]) {
        scan.arg("-o").arg(dir.join(format!("direct.{format}")));
    }
    let output = scan.output().unwrap();
    assert!(matches!(status(&output), 1 | 2), "{}", stderr(&output));
    dir.to_owned()
}

/// The report of `findings` in `format`, without what says when and of what it was made.
fn report(findings: &[&Path], format: &str) -> (i32, Vec<u8>) {
    let out = findings[0].parent().unwrap().join(format!("stored.{format}"));
    let output = namegate().args(["report", "--quiet", "-o"]).arg(&out).args(findings).output().unwrap();
    assert!(status(&output) < 2 || !stderr(&output).is_empty(), "a fault is told");
    (status(&output), undated(fs::read(&out).unwrap_or_default(), format))
}

fn undated(report: Vec<u8>, format: &str) -> Vec<u8> {
    if format != "html" {
        return report;
    }
    let text = String::from_utf8(report).unwrap();
    let cut = |text: String, from: &str, to: &str| {
        let at = text.find(from).unwrap_or_else(|| panic!("no {from}"));
        let end = at + text[at..].find(to).unwrap();
        text[..at].to_owned() + &text[end..]
    };
    cut(cut(text, "\"date\":", ","), "\"scanned\":", "]").into_bytes()
}

fn assert_same(found: &[u8], expected: &[u8], format: &str) {
    let lines = |report: &[u8]| {
        report.split(|&b| b == b'\n').map(|line| line.escape_ascii().to_string()).collect::<Vec<_>>()
    };
    let (found, expected) = (lines(found), lines(expected));
    for (at, (found, expected)) in (1..).zip(found.iter().zip(&expected)) {
        assert!(found == expected, "{format}, line {at}: {:.600}\nexpected: {:.600}", found, expected);
    }
    assert_eq!(found.len(), expected.len(), "{format}");
}

/// Without the list that the names came from, and their places in it: a table of findings does not have them.
fn unplaced(report: &[u8]) -> Vec<Value> {
    let mut objects = lines(report);
    for object in objects.iter_mut().filter_map(Value::as_object_mut) {
        for field in ["source", "container", "container_base64", "item", "parent_inode"] {
            object.remove(field);
        }
    }
    objects
}

#[test]
fn a_report_of_stored_lines_is_the_report_of_the_scan_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--min-severity", "error", "--prefix", r"C:\Data"]] {
        let dir = scanned(dir.path(), &keys(), more);
        let direct = |format: &str| undated(fs::read(dir.join(format!("direct.{format}"))).unwrap(), format);
        for format in FORMATS {
            let (status, found) = report(&[&dir.join("direct.jsonl")], format);
            assert_eq!(status, 1);
            let expected = match format {
                // The prefix is in the fingerprint of the policy only.
                "html" => String::from_utf8(direct(format))
                    .unwrap()
                    .replace(r#""prefix":"C:\\Data""#, r#""prefix":"""#)
                    .into_bytes(),
                _ => direct(format),
            };
            assert_same(&found, &expected, format);
        }
        let (_, found) = report(&[&dir.join("direct.parquet")], "jsonl");
        assert_eq!(unplaced(&found), unplaced(&direct("jsonl")));
        assert!(
            found.windows(8).any(|bytes| bytes == b"Y2Fm6Q==".as_slice()) || !more.is_empty(),
            "bytes are exact"
        );
    }
}

#[test]
fn a_tree_and_its_faults_and_names_alone_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    trees::bad(&tree).unwrap();
    let scan = |format: &str| {
        let args = ["scan", "--profile", PROFILES, "--jobs", "1", "--owners", "--format", format];
        namegate().args(args).arg(&tree).arg(dir.path().join("missing")).output().unwrap()
    };
    let stored = scan("json").stdout;
    assert_eq!(status(&scan("json")), 2, "a path is missing");
    let sorted = |report: &[u8]| {
        let mut lines: Vec<String> = lines(report).iter().map(Value::to_string).collect();
        lines.sort_unstable();
        lines
    };
    let again = run_with(["report", "-", "--format", "json"], &stored);
    assert_eq!((status(&again), sorted(&again.stdout)), (2, sorted(&stored)));
    let sorted = |text: &[u8]| {
        let mut lines: Vec<Vec<u8>> = text.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(
        sorted(&run_with(["report", "-", "--format", "csv"], &stored).stdout),
        sorted(&scan("csv").stdout)
    );
    let names = run(["check", "a:b", "fine", "aux", "--profile", "windows", "--format", "json"]).stdout;
    let again = run_with(["report", "-", "--format", "json"], &names);
    let of_name = |report: &[u8]| {
        let mut objects = lines(report);
        objects.sort_by_key(|object| object["name_hex"].to_string());
        objects
    };
    assert_eq!((status(&again), of_name(&again.stdout)), (1, of_name(&names)));
}

/// The tasks of an engine: their findings and summaries as Parquet, in the directories `findings` and `summaries`.
fn tasks(dir: &Path, keys: &[Vec<u8>], count: usize) {
    let profiles: Vec<_> = PROFILES.split(',').map(|name| profile::by_name(name).unwrap()).collect();
    let policy = Arc::new(Policy::from_profiles(&profiles));
    for below in ["findings", "summaries"] {
        fs::create_dir_all(dir.join(below)).unwrap();
    }
    let mut pairs = Vec::new();
    let column: ArrayRef = Arc::new(BinaryArray::from_iter_values(keys));
    PairSplitter::new(PairSettings::default()).split(&column, &mut |batch| pairs.push(batch)).unwrap();
    for task in 0..count {
        let mut checker = DirectoryChecker::new(CheckSettings::new(Arc::clone(&policy)));
        let mut found = Vec::new();
        for batch in &pairs {
            let parents = batch.column(0).as_any().downcast_ref::<BinaryArray>().unwrap();
            let own: UInt32Array = (0..parents.len() as u32)
                .filter(|&at| {
                    parents.value(at as usize).iter().map(|&b| usize::from(b)).sum::<usize>() % count == task
                })
                .collect::<Vec<_>>()
                .into();
            found.extend(checker.add(&arrow_select::take::take_record_batch(batch, &own).unwrap()).unwrap());
        }
        let mut reader = checker.finish().unwrap();
        found.extend(reader.by_ref().map(Result::unwrap));
        // Row groups of several sizes, with a dictionary and without one.
        let settings = WriterProperties::builder()
            .set_dictionary_enabled(task % 2 == 0)
            .set_compression(
                [Compression::SNAPPY, Compression::UNCOMPRESSED, Compression::GZIP(Default::default())]
                    [task % 3],
            )
            .set_max_row_group_row_count(Some(7 + 100 * task))
            .build();
        let write = |below: &str, schema, batches: &[RecordBatch]| {
            let file = File::create(dir.join(below).join(format!("part-{task:05}.parquet"))).unwrap();
            let mut writer = ArrowWriter::try_new(file, schema, Some(settings.clone())).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.close().unwrap();
        };
        write("findings", schema::findings(), &found);
        write("summaries", schema::summary(), &[reader.summary().to_batch(&task.to_string())]);
    }
    fs::write(dir.join("findings/_SUCCESS"), "").unwrap();
}

#[test]
fn findings_of_any_number_of_tasks_give_the_report_of_one_scan() {
    let dir = tempfile::tempdir().unwrap();
    let one = scanned(dir.path(), &keys(), &[]).join("direct.parquet");
    let expected = FORMATS.map(|format| report(&[&one], format));
    assert!(expected.iter().all(|(status, report)| *status == 1 && !report.is_empty()));
    for count in [1, 4] {
        let parts = dir.path().join(format!("parts-{count}"));
        tasks(&parts, &keys(), count);
        for (format, (_, expected)) in FORMATS.into_iter().zip(&expected) {
            let (status, found) = report(&[&parts], format);
            assert_same(&found, expected, format);
            assert_eq!(status, 1);
        }
        // What is missing is noticed: a file of findings, and all summaries.
        let told = |files: &[&str]| {
            let files: Vec<PathBuf> = files.iter().map(|file| parts.join(file)).collect();
            let output = namegate().args(["report", "--summary"]).args(&files).output().unwrap();
            (status_of(&output), stderr(&output).to_owned())
        };
        let (status, message) = told(&["findings", "findings/part-00000.parquet", "summaries"]);
        assert_eq!((status, &*message), (1, ""), "rows that come twice count once");
        let (status, message) = told(&["findings"]);
        assert!(
            status == 2 && message.contains("has no summary") && message.contains("name OUTPUT"),
            "{message}"
        );
        let (status, message) = told(&["summaries"]);
        assert!(status == 2 && message.contains("names with findings, and there are 0"), "{message}");
    }
}

#[test]
fn a_rule_that_may_not_apply_comes_back_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (stored, table) = (file("found.jsonl"), file("found.parquet"));
    let args = ["scan", "--list", "-", "--target", "sharepoint", "-q", "-o", &stored, "-o", &table];
    run_with(args, b"desktop.ini\nsite/~a\n");
    let direct = lines(&fs::read(&stored).unwrap());
    assert!(direct.iter().any(|line| line["violations"][0]["certain"] == false), "{direct:?}");
    for found in [&stored, &table] {
        let again = lines(&run(["report", found, "--json"]).stdout);
        assert_eq!(again.last().unwrap()["targets"], direct.last().unwrap()["targets"], "{found}");
    }
}

#[test]
fn rows_without_a_summary_are_reported_as_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let one = scanned(dir.path(), &keys(), &[]).join("direct.parquet");
    let findings = |report: &[u8]| -> Vec<Value> {
        lines(report).into_iter().filter(|line| line["type"] == "finding").collect()
    };
    let expected = findings(&report(&[&one], "jsonl").1);
    let parts = dir.path().join("parts");
    tasks(&parts, &keys(), 1);
    let rows = parts.join("findings");
    let (status, found) = report(&[&rows], "jsonl");
    assert_eq!((status, findings(&found)), (2, expected));
    let summary = lines(&found).pop().unwrap();
    assert_eq!(
        (&summary["complete"], &summary["names"], &summary["policy"]),
        (&false.into(), &0.into(), &"unknown".into())
    );
    assert_eq!(summary["findings"], findings(&found).len());
    let text = namegate().arg("report").arg(&rows).args(["--summary"]).output().unwrap();
    assert!(
        stdout(&text).contains(" names with findings (") && !stdout(&text).contains(" among "),
        "{}",
        stdout(&text)
    );
}

fn status_of(output: &std::process::Output) -> i32 {
    status(output)
}

#[test]
fn findings_that_do_not_go_together_are_refused_with_both_files_and_values() {
    let dir = tempfile::tempdir().unwrap();
    let scan = |name: &str, more: &[&str]| {
        let file = dir.path().join(name);
        let output = run_with(
            ["scan", "--list", "-", "--quiet", "-o", file.to_str().unwrap()].iter().chain(more),
            b"a:b\n",
        );
        assert_eq!(status(&output), 1, "{}", stderr(&output));
        file
    };
    let one = scan("one.jsonl", &["--profile", "windows"]);
    let same = scan("same.parquet", &["--profile", "windows"]);
    let refused = |files: &[&Path], words: &[&str]| {
        let output = namegate().arg("report").args(files).output().unwrap();
        assert_eq!((status(&output), stdout(&output)), (2, ""), "{}", stderr(&output));
        assert!(words.iter().all(|word| stderr(&output).contains(word)), "{words:?}: {}", stderr(&output));
    };
    // The same findings twice are as many names twice: they are in different runs.
    assert!(status(&namegate().arg("report").args([&one, &same]).output().unwrap()) > 0);
    refused(
        &[&one, &scan("other.jsonl", &["--profile", "macos"])],
        &["other.jsonl: line ", "policy is ", "one.jsonl is "],
    );
    refused(
        &[&same, &scan("prefix.parquet", &["--profile", "windows", "--prefix", "C:"])],
        &["prefix.parquet", "policy", "same.parquet"],
    );
    refused(
        &[&one, &scan("error.jsonl", &["--profile", "windows", "--min-severity", "error"])],
        &["least severity is error", "is warn"],
    );
    let old = dir.path().join("old.jsonl");
    let text = fs::read_to_string(&one).unwrap();
    let version = format!("\"namegate\":\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version));
    fs::write(&old, text.replace(&version, "\"namegate\":\"0.0.9\"")).unwrap();
    refused(&[&one, &old], &["version of namegate is 0.0.9", env!("CARGO_PKG_VERSION")]);
    let unicode = text.find("\"unicode\":\"").unwrap() + 11;
    fs::write(&old, [&text[..unicode], "9", &text[unicode..]].concat()).unwrap();
    refused(&[&one, &old], &["version of Unicode is 9"]);
}

#[test]
fn damaged_cut_empty_and_foreign_files_are_clear_errors() {
    let dir = tempfile::tempdir().unwrap();
    let stored = scanned(dir.path(), &keys()[..60], &[]);
    let (text, table) =
        (fs::read(stored.join("direct.jsonl")).unwrap(), fs::read(stored.join("direct.parquet")).unwrap());
    let file = dir.path().join("damaged");
    let told = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let output = namegate().arg("report").arg(&file).output().unwrap();
        assert!(status(&output) <= 2 && !stderr(&output).contains("panicked"), "{}", stderr(&output));
        (status(&output), stderr(&output).to_owned())
    };
    let refused = |bytes: &[u8], reason: &str| {
        let (status, message) = told(bytes);
        assert!(
            status == 2 && message.contains(reason) && message.contains("damaged"),
            "{reason}: {message}"
        );
    };
    refused(b"", "it is empty");
    refused(b"hello\n", "line 1: it is no line of findings");
    refused(b"{\"type\":\"refusal\"}\n", "line 1: it is of the type `refusal`");
    refused(b"{\"type\":\"count\"}\n", "--summary-by");
    refused(&text[..text.len() / 2], "the file is cut");
    refused(&table[..table.len() / 2], "cannot read");
    let last = text[..text.len() - 1].iter().rposition(|&b| b == b'\n').unwrap() + 1;
    refused(&text[..last], "has no summary");
    let later = String::from_utf8_lossy(&text[last..]).replace("\"version\":1", "\"version\":2");
    refused(&[&text[..last], later.as_bytes()].concat(), "format version 2 is not supported");
    // Cut where a line ends, beside a whole file: what there is is reported.
    fs::write(&file, &text[..last]).unwrap();
    let output = namegate().arg("report").arg(stored.join("direct.jsonl")).arg(&file).output().unwrap();
    assert!(
        status(&output) == 2 && stderr(&output).contains("damaged has no summary: its run was killed"),
        "{}",
        stderr(&output)
    );
    assert!(stdout(&output).contains(" findings among "), "{}", stdout(&output));
    // A finding less than the summary counts.
    let first = text.iter().position(|&b| b == b'\n').unwrap() + 1;
    let at =
        first + text[first..].windows(19).position(|bytes| bytes == b"\n{\"type\":\"finding\",").unwrap() + 1;
    let end = at + text[at..].iter().position(|&b| b == b'\n').unwrap() + 1;
    let (status, message) = told(&[&text[..at], &text[end..]].concat());
    assert!(status == 2 && message.contains("a file is missing, cut or given twice"), "{message}");
    let list = scanned_keys_table(dir.path());
    let output = namegate().arg("report").arg(&list).output().unwrap();
    assert!(
        stderr(&output).contains("neither findings nor summaries of namegate, but the columns key"),
        "{}",
        stderr(&output)
    );
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let output = namegate().arg("report").arg(&empty).output().unwrap();
    assert!(status_of(&output) == 2 && stderr(&output).contains("has no findings"), "{}", stderr(&output));
    // Damage: nothing may panic, hang, or fill the memory.
    for (bytes, step) in [(&text, text.len() / 60), (&table, table.len() / 60)] {
        for at in (0..bytes.len()).step_by(step) {
            let mut bad = bytes.clone();
            bad[at] ^= 0x15;
            told(&bad);
        }
    }
}

fn scanned_keys_table(dir: &Path) -> PathBuf {
    let path = dir.join("keys.parquet");
    let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values([b"a", b"b"]));
    let batch = RecordBatch::try_from_iter([("key", keys)]).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

#[test]
fn texts_that_somebody_else_wrote_act_on_no_terminal() {
    let stored = run_with(["scan", "--list", "-", "--profile", "windows", "--json"], b"a:b\nA:B\n").stdout;
    let text = String::from_utf8(stored).unwrap();
    let report = |text: &str| run_with(["report", "-"], text.as_bytes());
    let message = text.find("\"message\":\"").unwrap() + 11;
    let with = |bad: &str| [&text[..message], bad, &text[message..]].concat();
    let output = report(&with(r"\u001b[31m\u202e\n"));
    assert!(status(&output) == 1 && stdout(&output).contains(r"\u{1B}[31m\u{202E}\n"), "{}", stdout(&output));
    assert!(!stdout(&output).contains('\u{1B}') && !stdout(&output).contains('\u{202E}'));
    for (from, to, reason) in [
        ("\"end\":2", "\"end\":99", "are not in the name"),
        ("reserved-character", r"\u001b]0;x", r"unknown rule `\u{1B}]0;x`"),
        ("\"verdict\"", "\"repair_confidence\":\"likely\",\"verdict\"", ""),
        ("\"severity\":\"error\"", "\"severity\":\"fatal\"", "unknown severity `fatal`"),
        ("\"name_hex\":\"613a62\"", "\"name_hex\":\"623a62\"", "does not end with the name"),
        ("\"group\":\"", "\"group\":\"x", "16 hexadecimal digits"),
    ] {
        assert!(text.contains(from), "{from}: {text}");
        let output = report(&text.replace(from, to));
        assert!(status(&output) == 2 && stderr(&output).contains(reason), "{reason}: {}", stderr(&output));
        assert!(!stderr(&output).contains('\u{1B}'));
    }
}
