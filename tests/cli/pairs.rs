//! Inventories in parts: `list-pairs`, `--list-as pairs`, and the crate for engines that read Arrow find what `scan --list` finds.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use data_encoding::{BASE64, HEXLOWER};
use namegate_arrow::{CheckSettings, DirectoryChecker, PairSettings, PairSplitter};
use namegate_core::policy::{Policy, profile};
use serde_json::Value;

#[path = "../../crates/arrow/tests/rows/mod.rs"]
pub mod rows;

use namegate_testkit::program::{namegate, run, status, stderr, stdout};

const PROFILES: &str = "windows,macos,strict,security,s3";

/// Keys with everything that depends on other keys: collisions, suggested names that are in use, long paths, repeated parents.
pub fn keys() -> Vec<Vec<u8>> {
    let names: [&[u8]; 16] = [
        b"README",
        b"readme",
        b"Readme",
        b"caf\xC3\xA9",
        b"cafe\xCC\x81",
        b"caf\xE9",
        b"a:b",
        b"a_b",
        b"aux.txt",
        b"",
        b"..",
        b"end. ",
        b"tab\t",
        b"\xFF\xFE",
        b"plain.txt",
        "имя".as_bytes(),
    ];
    let mut keys = Vec::new();
    for at in 0..400_usize {
        let dir = [names[at % 7], b"d", names[at % 16], &b"x".repeat(at % 90)].join(&b'/');
        keys.push([&dir[..], names[(at * 5 + at / 16) % 16]].join(&b'/'));
        if at % 11 == 0 {
            keys.push([&dir, &b"/"[..]].concat());
        }
    }
    keys.extend([b"x/".repeat(600), vec![b'l'; 300], b"/leading".to_vec()]);
    // A file and a directory of one name; a file and a directory whose paths have 250 units: too long for a directory.
    let long = [&[b'p'; 120][..], &[b'q'; 127]].join(&b'/');
    keys.extend([
        b"both".to_vec(),
        b"both/below".to_vec(),
        [&long, &b"/"[..]].concat(),
        [&long[..], b"f"].concat(),
    ]);
    keys
}

pub fn lines(output: &[u8]) -> Vec<Value> {
    output
        .split(|&b| b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// The findings of JSON Lines as rows of the findings table.
pub fn rows_of(objects: &[Value]) -> Vec<Vec<String>> {
    let text = |value: &Value| value.as_str().map_or_else(|| "null".to_owned(), str::to_owned);
    let words = |value: &Value| {
        let words = value.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        format!("[{}]", words.collect::<Vec<_>>().join(" "))
    };
    let mut rows = Vec::new();
    for finding in objects.iter().filter(|object| object["type"] == "finding") {
        let path = BASE64.decode(finding["path_base64"].as_str().unwrap().as_bytes()).unwrap();
        let name = HEXLOWER.decode(finding["name_hex"].as_str().unwrap().as_bytes()).unwrap();
        for violation in finding["violations"].as_array().unwrap() {
            rows.push(vec![
                format!("{}", path.escape_ascii()),
                format!("\"{}\"", name.escape_ascii()),
                text(&finding["verdict"]),
                text(&violation["rule"]),
                text(&violation["concern"]),
                text(&violation["severity"]),
                violation["start"].to_string(),
                violation["end"].to_string(),
                text(&violation["message"]),
                words(&violation["profiles"]),
                words(&violation["refused_by"]),
                text(&violation["group"]),
                text(&finding["repair"]),
                text(&finding["repair_confidence"]),
                text(&finding["reading"]),
                text(&finding["reading_confidence"]),
                violation["certain"].as_bool().unwrap_or(true).to_string(),
            ]);
        }
    }
    rows.sort_unstable();
    rows
}

/// What a scan of the list finds, and its summary.
fn of_scan(list: &Path, profiles: &str, args: &[&str]) -> (Vec<Vec<String>>, Value) {
    let output = namegate()
        .args(["scan", "-0", "--format", "json", "--profile", profiles, "--list"])
        .arg(list)
        .args(args)
        .output()
        .unwrap();
    assert_eq!((status(&output), stderr(&output)), (1, ""));
    let objects = lines(&output.stdout);
    (rows_of(&objects), objects.last().unwrap().clone())
}

fn write_list(dir: &Path) -> std::path::PathBuf {
    let list = dir.join("keys.list");
    fs::write(&list, keys().iter().flat_map(|key| [key, &b"\0"[..]].concat()).collect::<Vec<u8>>()).unwrap();
    list
}

#[test]
fn arrow_batches_have_the_findings_of_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let (expected, summary) = of_scan(&write_list(dir.path()), PROFILES, &["--list-as", "keys"]);
    let mut splitter = PairSplitter::new(PairSettings::default());
    let profiles: Vec<_> = PROFILES.split(',').map(|name| profile::by_name(name).unwrap()).collect();
    let mut checker = DirectoryChecker::new(CheckSettings::new(Arc::new(Policy::from_profiles(&profiles))));
    let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(keys()));
    splitter.split(&keys, &mut |pairs| assert_eq!(checker.add(&pairs).unwrap(), [])).unwrap();
    let mut reader = checker.finish().unwrap();
    let found: Vec<RecordBatch> = reader.by_ref().map(Result::unwrap).collect();
    let mut found: Vec<Vec<String>> = rows::sorted(&found)
        .into_iter()
        .map(|row| {
            // The path in place of the directory and the encoded path.
            let [directory, name] = [0, 1].map(|at: usize| row[at].trim_matches('"'));
            let separator = if directory.is_empty() || directory.ends_with('/') { "" } else { "/" };
            [&[format!("{directory}{separator}{name}"), row[1].clone()], &row[3..]].concat()
        })
        .collect();
    found.sort_unstable();
    assert!(expected.len() > 1000, "{}", expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    let counted = reader.summary();
    for (field, count) in
        [("names", counted.names), ("directories", counted.directories), ("collisions", counted.collisions)]
    {
        assert_eq!(summary[field], count, "{field}");
    }
}

#[test]
fn pairs_in_any_number_of_files_have_the_findings_of_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let list = write_list(dir.path());
    let (expected, summary) = of_scan(&list, PROFILES, &["--list-as", "keys"]);
    for split in ["1", "7"] {
        let to = dir.path().join(split);
        let output = namegate()
            .args(["list-pairs", "-0", "--list-as", "keys", "--split", split, "--to"])
            .args([&to, &list])
            .output()
            .unwrap();
        assert_eq!((status(&output), stderr(&output)), (0, ""));
        let mut found = Vec::new();
        let mut names = 0;
        for file in fs::read_dir(&to).unwrap() {
            let (rows, summary) = of_scan(&file.unwrap().path(), PROFILES, &["--list-as", "pairs"]);
            found.extend(rows);
            names += summary["names"].as_u64().unwrap();
        }
        found.sort_unstable();
        assert_eq!(fs::read_dir(&to).unwrap().count().to_string(), split);
        assert_eq!((found, names), (expected.clone(), summary["names"].as_u64().unwrap()));
    }
}

/// Two runs distribute two halves of the list; `xargs` checks the files. The commands are those of docs/ENGINES.md.
#[test]
fn several_processes_check_the_parts_of_a_list() {
    let dir = tempfile::tempdir().unwrap();
    let list = write_list(dir.path());
    let expected = of_scan(&list, "windows,macos", &["--list-as", "keys"]).0;
    let all = fs::read(&list).unwrap();
    let middle = all.len() / 2 + all[all.len() / 2..].iter().position(|&b| b == 0).unwrap() + 1;
    fs::write(dir.path().join("1.list"), &all[..middle]).unwrap();
    fs::write(dir.path().join("2.list"), &all[middle..]).unwrap();
    let page = include_str!("../../docs/ENGINES.md");
    let block = page.split("<!-- tested: pipes -->").nth(1).unwrap().split("```").nth(1).unwrap();
    let script = block.split_once('\n').unwrap().1;
    let bin = Path::new(env!("CARGO_BIN_EXE_namegate")).parent().unwrap();
    let mut path = bin.as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-e", "-c", script])
        .env("PATH", path)
        .current_dir(dir.path())
        .output()
        .unwrap();
    // Of a program that ends with 1, xargs makes 123: there are findings.
    assert_eq!((status(&output), stderr(&output)), (123, ""), "{script}");
    let found = fs::read_dir(dir.path().join("findings")).unwrap();
    let found: Vec<Value> = found.flat_map(|file| lines(&fs::read(file.unwrap().path()).unwrap())).collect();
    assert_eq!(rows_of(&found), expected);
}

#[test]
fn what_cannot_be_distributed_is_reported_and_nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (list, to) = (dir.path().join("list"), dir.path().join("to"));
    fs::write(&list, b"a/b\nc\0d\nok\n").unwrap();
    let distribute = |more: &[&str]| {
        namegate()
            .args(["list-pairs", "--split", "2", "--to"])
            .args([&to, &list])
            .args(more)
            .output()
            .unwrap()
    };
    let output = distribute(&[]);
    assert_eq!((status(&output), stdout(&output)), (2, "3 items, 3 pairs in 2 files\n"));
    assert!(
        stderr(&output).contains("item 2: it contains a NUL byte, which separates pairs"),
        "{}",
        stderr(&output)
    );
    let output = distribute(&[]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("it exists; name a new directory"), "{}", stderr(&output));
    let entries =
        || fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!(entries().len(), 2, "{:?}", entries());
    // A list of pairs that ends in between.
    fs::write(&list, b"a\nb\nf\nc\n").unwrap();
    let output =
        run(["scan", "--list-as", "pairs", "--list"].iter().map(AsRef::as_ref).chain([list.as_os_str()]));
    assert_eq!(status(&output), 2);
    assert!(
        stderr(&output).contains("its last pair lacks a directory, a name or a kind"),
        "{}",
        stderr(&output)
    );
}
