//! `namegate scan` and `check` in bad surroundings: hostile trees, vanishing files, missing rights, full disks, noise.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use data_encoding::{BASE64, HEXLOWER};
use namegate_testkit::program::{copy_program, namegate, run, run_with, status, stderr, stdout};
use serde_json::Value;

fn objects(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

fn scan<S: AsRef<OsStr>>(roots: impl IntoIterator<Item = S>, more: &[&str]) -> (i32, Vec<Value>) {
    let output = namegate().args(["scan", "--format", "json"]).args(more).args(roots).output().unwrap();
    (status(&output), objects(&output))
}

fn path_of(object: &Value) -> Vec<u8> {
    BASE64.decode(object["path_base64"].as_str().unwrap().as_bytes()).unwrap()
}

/// The user that owns nothing; a test that needs one is skipped where it cannot become one.
fn as_nobody(args: &[&OsStr]) -> Option<Output> {
    let ids = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    if !Command::new("setpriv").args(ids).arg("true").output().is_ok_and(|output| output.status.success()) {
        return None;
    }
    // The program may lie where only its owner can read.
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("namegate");
    copy_program(env!("CARGO_BIN_EXE_namegate").as_ref(), &program);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    Some(Command::new("setpriv").args(ids).arg(&program).args(args).output().unwrap())
}

/// Names from pieces, good and bad, in a tree of some depth; the same in every run.
fn hostile_tree(dir: &Path) {
    let pieces: &[&[u8]] = &[
        b"a",
        b"A",
        b"ss",
        b"x.txt",
        b"\t",
        b"\x7F",
        b"\xE9",
        b"\xC3",
        b"\xA9",
        b"\xC0\x80",
        b"\xED\xA0\x80",
        b"\xF4\x90\x80\x80",
        b"\xFF",
        "é".as_bytes(),
        "e\u{301}".as_bytes(),
        "É".as_bytes(),
        "ß".as_bytes(),
        "Å".as_bytes(),
        "\u{212B}".as_bytes(),
        "\u{85}".as_bytes(),
        "\u{2028}".as_bytes(),
        "\u{FFFE}".as_bytes(),
        "\u{FDD0}".as_bytes(),
        "\u{10FFFF}".as_bytes(),
        "日本".as_bytes(),
        "\u{1F600}".as_bytes(),
    ];
    for sub in [&b"."[..], b"one", b"one/tw\xF6", b"one/tw\xF6/\xFF\n"] {
        let sub = dir.join(OsStr::from_bytes(sub));
        fs::create_dir_all(&sub).unwrap();
        for first in pieces {
            File::create(sub.join(OsStr::from_bytes(first))).unwrap();
            for second in pieces {
                File::create(sub.join(OsStr::from_bytes(&[*first, *second].concat()))).unwrap();
            }
        }
    }
}

#[test]
fn python_finds_the_same_names_for_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    hostile_tree(dir.path());
    let oracle = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle.py");
    let output = match Command::new("python3").arg(oracle).arg(dir.path()).output() {
        Ok(output) if output.status.success() => output,
        failed => return println!("SKIPPED: python3 does not run: {failed:?}"),
    };
    let told: BTreeSet<(&str, Vec<u8>)> = stdout(&output)
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(kind, path)| (kind, HEXLOWER.decode(path.as_bytes()).unwrap()))
        .collect();
    for (kind, rules) in [("utf8", ""), ("strict", ""), ("macos", "collision-")] {
        let expected: BTreeSet<_> = told.iter().filter(|(k, _)| *k == kind).map(|(_, p)| p.clone()).collect();
        assert!(expected.len() > 100, "{kind}: {}", expected.len());
        let mut first: Option<Vec<String>> = None;
        for jobs in ["1", "2", "64"] {
            let (status, objects) = scan([dir.path()], &["--profile", kind, "--jobs", jobs]);
            assert_eq!(status, 1);
            let has = |object: &&Value| {
                let violations = object["violations"].as_array();
                violations
                    .is_some_and(|all| all.iter().any(|v| v["rule"].as_str().unwrap().starts_with(rules)))
            };
            let found: BTreeSet<_> = objects.iter().filter(has).map(path_of).collect();
            assert_eq!(found, expected, "{kind}, {jobs} threads");
            let mut lines: Vec<String> = objects.iter().map(Value::to_string).collect();
            lines.sort_unstable();
            let first = first.get_or_insert_with(|| lines.clone());
            assert_eq!(*first, lines, "the same lines with {jobs} threads");
        }
    }
}

#[test]
fn what_nobody_may_read_is_told_and_the_rest_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(dir.path(), 0o755);
    // No rights at all; names, but not what they are; entries, but not their names.
    for (sub, bits) in [("none", 0o700), ("no-x", 0o744), ("no-r", 0o711)] {
        let sub = dir.path().join(sub);
        fs::create_dir_all(sub.join("below")).unwrap();
        File::create(sub.join(OsStr::from_bytes(b"bad\xE9"))).unwrap();
        mode(&sub, bits);
    }
    let args = [OsStr::new("scan"), OsStr::new("--format=json"), dir.path().as_os_str()];
    let Some(output) = as_nobody(&args) else {
        return println!("SKIPPED: setpriv cannot make another user of this one");
    };
    assert_eq!(status(&output), 2);
    let objects = objects(&output);
    let of = |kind: &str| -> BTreeSet<Vec<u8>> {
        let paths = objects.iter().filter(|object| object["type"] == kind).map(path_of);
        paths.map(|path| path[dir.path().as_os_str().len() + 1..].to_vec()).collect()
    };
    assert_eq!(of("finding"), BTreeSet::from([b"no-x/bad\xE9".to_vec()]));
    let unread = ["no-r", "no-x/below", "none"].map(|path| path.as_bytes().to_vec());
    assert_eq!(of("error"), BTreeSet::from(unread));
    let summary = objects.last().unwrap();
    assert_eq!((&summary["unreadable"], &summary["directories"]), (&3.into(), &2.into()));
    let text = as_nobody(&[OsStr::new("scan"), dir.path().join("none").as_os_str()]).unwrap();
    assert_eq!(status(&text), 2);
    assert!(stdout(&text).starts_with("incomplete"), "{}", stdout(&text));
    assert!(stdout(&text).contains("not all names were checked: 1 entry could not be read"));
}

#[test]
fn files_that_come_and_go_are_no_trouble() {
    let dir = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for number in 0..50 {
                    let sub = dir.path().join(format!("{number}/a/b"));
                    fs::create_dir_all(&sub).unwrap();
                    File::create(sub.join(OsStr::from_bytes(b"bad\xE9"))).unwrap();
                }
                for number in 0..50 {
                    fs::remove_dir_all(dir.path().join(number.to_string())).unwrap();
                }
            }
        });
        let runs: Vec<(i32, Vec<Value>)> = (0..20).map(|_| scan([dir.path()], &["--jobs", "4"])).collect();
        stop.store(true, Ordering::Relaxed);
        for (status, objects) in runs {
            assert!(status < 2, "{objects:?}");
            assert_eq!(objects.last().unwrap()["unreadable"], 0);
        }
    });
}

#[test]
fn a_root_given_twice_is_read_once_and_files_are_checked_together() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &[u8]| dir.path().join(OsStr::from_bytes(name));
    fs::create_dir(path(b"sub")).unwrap();
    File::create(path(b"sub/bad\xE9")).unwrap();
    let roots = [path(b"sub"), path(b"sub/"), path(b"sub/../sub")];
    let (_, objects) = scan(roots, &[]);
    assert_eq!(objects.len(), 2, "{objects:?}");
    for name in [&b"caf\xE9"[..], "café".as_bytes(), b"README", b"readme"] {
        File::create(path(name)).unwrap();
    }
    let bad = path(b"caf\xE9");
    let (_, objects) = scan([&bad, &bad], &[]);
    assert_eq!(objects.len(), 2, "{objects:?}");
    assert_eq!(objects[0]["repair"], "café_2", "`café` is taken, though nobody asked for it");
    assert_eq!((&objects[1]["names"], &objects[1]["directories"]), (&1.into(), &0.into()));
    let (_, objects) = scan([path(b"README"), path(b"readme")], &["--profile", "windows"]);
    assert_eq!(objects.last().unwrap()["names_by_rule"]["collision-case"], 2);
}

#[test]
fn a_link_that_cannot_be_followed_is_told_and_one_that_leads_nowhere_is_only_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &[u8]| dir.path().join(OsStr::from_bytes(name));
    symlink(path(b"loop\xE9"), path(b"loop\xE9")).unwrap();
    symlink("nowhere", path(b"dangling\xE9")).unwrap();
    let (status, objects) = scan([path(b"loop\xE9")], &[]);
    assert_eq!(status, 2);
    let summary = objects.last().unwrap();
    assert_eq!((&summary["findings"], &summary["unreadable"]), (&1.into(), &1.into()), "{objects:?}");
    assert_eq!(scan([path(b"dangling\xE9")], &[]).0, 1);
    assert_eq!(scan([dir.path()], &[]).0, 1, "below a root neither is followed");
}

#[test]
fn sockets_pipes_and_devices_are_names_and_never_opened() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    if !Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        return println!("SKIPPED: mkfifo does not run");
    }
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    assert_eq!(scan([dir.path()], &[]).1[0]["names"], 3);
    assert_eq!(scan([pipe.as_path(), Path::new("/dev/null")], &[]).1[0]["names"], 2);
}

#[test]
fn more_threads_than_files_may_be_open_leave_nothing_unread() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..2000 {
        fs::create_dir_all(dir.path().join(format!("{}/{number}/x", number % 40))).unwrap();
    }
    let script = r#"ulimit -n 12 && exec "$1" scan --jobs 64 "$2""#;
    let output = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_namegate")])
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!((status(&output), stderr(&output)), (0, ""));
    assert!(stdout(&output).contains("among 4,041 names in 4,041 directories"), "{}", stdout(&output));
}

#[test]
fn thousands_of_names_that_become_one_are_told_in_linear_time() {
    let dir = tempfile::tempdir().unwrap();
    for bits in 0..1 << 13 {
        let name: String = (0..13_u8)
            .map(|at| char::from(if bits >> at & 1 == 0 { b'a' + at } else { b'A' + at }))
            .collect();
        File::create(dir.path().join(name)).unwrap();
    }
    let (_, objects) = scan([dir.path()], &["--profile", "windows"]);
    let message = |name: &[u8]| {
        let is_it = |object: &&Value| object["name_hex"] == HEXLOWER.encode(name);
        objects.iter().find(is_it).unwrap()["violations"][0]["message"].as_str().unwrap()
    };
    let (first, second) = ("`ABCDEFGHIJKLM`", "`ABCDEFGHIJKLm`, `ABCDEFGHIJKlM`");
    let others = "differs in case alone from";
    assert_eq!(message(b"abcdefghijklm"), format!("{others} {first}, {second} and 8188 more"));
    assert_eq!(message(b"ABCDEFGHIJKLM"), format!("{others} {second}, `ABCDEFGHIJKlm` and 8188 more"));
}

#[test]
fn output_that_cannot_be_written_is_trouble_and_never_a_panic() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return println!("SKIPPED: there is no /dev/full");
    };
    let full = || Stdio::from(full.try_clone().unwrap());
    for args in
        [&["check", "a", "b"][..], &["--help"], &["scan", "--help"], &["--version"], &["rules"], &["man"]]
    {
        let output = namegate().args(args).stdout(full()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(status(&output), 2, "{args:?}");
        assert!(stderr(&output).starts_with("namegate: cannot write the output: "), "{}", stderr(&output));
    }
    for args in [&["scan", "/nowhere"][..], &["check", "--profile", "nope"], &[], &["check", "-0", "x"]] {
        let output = namegate().args(args).stderr(full()).output().unwrap();
        assert_eq!(status(&output), 2, "{args:?}");
    }
}

#[test]
fn a_name_of_noise_is_told_in_few_lines_and_every_violation_is_counted_in_the_json() {
    let name = vec![0xFF; 60_000];
    let text = run_with(["check", "--profile", "utf8"], &name);
    assert_eq!(status(&text), 1);
    assert!(stdout(&text).lines().count() < 20);
    assert!(
        stdout(&text).contains("; also at byte 1, byte 2, byte 3 and 59,996 more"),
        "the rest is counted"
    );
    let json = run_with(["check", "--format", "json"], &name);
    let it = &objects(&json)[0];
    assert_eq!(
        (it["violations"].as_array().unwrap().len(), &it["unlisted"][0]["count"]),
        (4, &59_996.into())
    );
}

#[test]
fn the_reasons_against_a_name_stand_in_columns() {
    let output = run([OsStr::new("check"), OsStr::from_bytes(b"caf\xE9 \xC0\xAF\t")]);
    let expected = [
        r"reject  caf\xE9 \xC0\xAF\t",
        "        not UTF-8, ",
        "        error  truncated            byte 3      E9: only 1 of 3 bytes",
        "        error  separator-smuggling  bytes 5..7  ",
        "        error  c0-control           byte 7      ",
        "        fix    ",
    ];
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(expected) {
        assert!(line.starts_with(start), "{lines:#?}");
    }
}

#[test]
fn a_name_with_very_many_violations_has_some_listed_and_all_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (list, report) = (dir.path().join("list"), dir.path().join("report.json"));
    fs::write(&list, [&[0xFF; 65_000][..], b"a:b"].concat()).unwrap();
    let list = list.to_str().unwrap();
    let output = run([
        "scan",
        "--list",
        list,
        "--list-as",
        "names",
        "--profile",
        "windows",
        "--format",
        "json",
        "-o",
        report.to_str().unwrap(),
    ]);
    assert_eq!(status(&output), 1);
    let text = fs::read_to_string(&report).unwrap();
    assert!(text.len() < 2_000_000, "{} bytes", text.len());
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let finding = lines.iter().find(|line| line["type"] == "finding").unwrap();
    let (violations, unlisted) =
        (finding["violations"].as_array().unwrap(), finding["unlisted"].as_array().unwrap());
    assert!((4..20).contains(&violations.len()), "{}", violations.len());
    assert!(violations.iter().any(|v| v["rule"] == "reserved-character"), "the first of another kind");
    let not_listed: u64 = unlisted.iter().map(|u| u["count"].as_u64().unwrap()).sum();
    let summary = lines.last().unwrap();
    assert_eq!(summary["violation_count"], violations.len() as u64 + not_listed);
    assert!(not_listed > 64_000, "{not_listed}");
    // Each format is small and says what is left out.
    for format in ["csv", "sarif", "junit", "html", "github"] {
        let args = ["scan", "--list", list, "--list-as", "names", "--profile", "windows", "--format", format];
        let output = run(args);
        let text = stdout(&output);
        assert!(text.len() < 20_000_000 && text.contains("are not listed"), "{format}: {} bytes", text.len());
    }
    // A report of the report counts them too, and text says how many there are.
    let again = run(["report", report.to_str().unwrap(), "--format", "json"]);
    let again: Value = serde_json::from_str(stdout(&again).lines().last().unwrap()).unwrap();
    assert_eq!(again["violation_count"], summary["violation_count"]);
}

#[test]
fn what_a_path_of_a_list_makes_a_report_write_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let list = dir.path().join("list");
    for (components, expected) in [(16, 1), (18, 2), (1024, 2)] {
        let mut path = vec![b'\xFF'; 65_536];
        (1..components).for_each(|at| path[at * 65_536 / components] = b'/');
        fs::write(&list, path).unwrap();
        for format in ["text", "json", "csv", "sarif", "junit", "html", "github"] {
            let output = run([
                OsStr::new("scan"),
                OsStr::new("--list"),
                list.as_os_str(),
                OsStr::new("--format"),
                OsStr::new(format),
            ]);
            assert_eq!(status(&output), expected, "{components} components, {format}: {}", stderr(&output));
            let len = output.stdout.len();
            assert!(len < 30_000_000, "{components} components: {len} bytes of {format}");
        }
    }
}

/// The quick half of `scripts/compare-inputs`, which also says what is SKIPPED. A seed that found something stays.
fn assert_no_hole(inputs: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/compare-inputs");
    let args =
        ["--namegate", env!("CARGO_BIN_EXE_namegate"), "--only", inputs, "--mutants", "40", "--seed", "7"];
    let output = match Command::new("python3").arg(script).args(args).output() {
        Ok(output) => output,
        Err(error) => return println!("SKIPPED: python3 does not run: {error}"),
    };
    let text = stdout(&output);
    println!("{text}");
    assert!(output.status.success() && text.contains(" 0 holes"), "{text}{}", stderr(&output));
}

#[test]
fn no_program_reads_a_name_in_an_archive_that_is_neither_checked_nor_reported() {
    assert_no_hole("archives");
}

#[test]
fn git_and_dulwich_read_no_name_in_a_tree_that_is_neither_checked_nor_reported() {
    assert_no_hole("trees");
}

#[test]
fn no_program_reads_a_name_in_a_list_that_is_neither_checked_nor_reported() {
    assert_no_hole("lists");
}
