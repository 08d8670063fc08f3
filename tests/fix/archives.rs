//! `namegate fix archive`: copies of archives, as other programs read them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use data_encoding::BASE64;
use serde_json::Value;
use tempfile::TempDir;

/// Runs the script that makes archives and reads copies; `None` without Python.
fn oracles(arguments: &[&str]) -> Option<Output> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fix/archives/oracles.py");
    match Command::new("python3").arg(script).args(arguments).output() {
        Ok(output) => {
            print!("{}", String::from_utf8_lossy(&output.stdout));
            Some(output)
        }
        Err(error) => {
            println!("SKIPPED: python3 cannot be started: {error}");
            None
        }
    }
}

/// A directory with archives of all kinds.
fn archives() -> Option<TempDir> {
    let dir = tempfile::tempdir().unwrap();
    let made = oracles(&["make", dir.path().to_str().unwrap()])?;
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(dir)
}

fn namegate(dir: &TempDir, arguments: &[&str]) -> (i32, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_namegate")).current_dir(dir).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("it is not killed"), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn copies_of_archives_are_what_other_programs_read_or_there_is_none() {
    let Some(dir) = archives() else { return };
    let cases: Vec<Value> =
        serde_json::from_slice(&fs::read(dir.path().join("cases.json")).unwrap()).unwrap();
    for case in &cases {
        let file = case["file"].as_str().unwrap();
        let before = fs::read(dir.path().join(file)).unwrap();
        let options = case["args"].as_array().unwrap().iter().map(|option| option.as_str().unwrap());
        let copy = format!("{file}.out");
        let arguments: Vec<&str> = ["fix", "archive", file, "-o", &copy].into_iter().chain(options).collect();
        let (status, text) = namegate(&dir, &arguments);
        assert_eq!(i64::from(status), case["status"].as_i64().unwrap(), "{file}: {text}");
        assert!(text.contains(case["why"].as_str().unwrap_or_default()), "{file}: {text}");
        assert_eq!(fs::read(dir.path().join(file)).unwrap(), before, "the archive is only read");
    }
    let checked = oracles(&["check", dir.path().to_str().unwrap()]).unwrap();
    assert!(checked.status.success());
}

#[test]
fn a_damaged_archive_gives_a_copy_with_the_same_contents_or_none() {
    let Some(dir) = archives() else { return };
    let seed = std::env::var("NAMEGATE_SEED").unwrap_or_else(|_| "7".to_owned());
    let program = env!("CARGO_BIN_EXE_namegate");
    let mutated = oracles(&["mutate", dir.path().to_str().unwrap(), program, "150", &seed]).unwrap();
    assert!(mutated.status.success(), "{}", String::from_utf8_lossy(&mutated.stderr));
}

#[test]
fn a_plan_for_an_archive_is_executed_on_a_copy_of_that_archive_alone() {
    let Some(dir) = archives() else { return };
    for (file, other) in [("explorer-cp850.zip", "java.zip"), ("ustar.tar.gz", "gnu.tar")] {
        let (status, text) = namegate(&dir, &["fix", "plan", "--archive", file, "-o", "plan.jsonl"]);
        assert_eq!(status, 0, "{text}");
        let plan = fs::read_to_string(dir.path().join("plan.jsonl")).unwrap();
        assert!(plan.lines().skip(1).all(|line| line.starts_with("{\"type\":\"rename\"")), "{plan}");
        let edited = plan.replace("Köln.txt", "Cologne.txt");
        fs::write(dir.path().join("edited.jsonl"), &edited).unwrap();
        let copy = |file: &str, plan: &str| {
            namegate(&dir, &["fix", "archive", file, "-o", "planned.out", "--plan", plan])
        };
        let (status, text) = copy(file, "edited.jsonl");
        assert_eq!(status, 0, "{text}");
        let list = namegate(
            &dir,
            &[
                "fix",
                "plan",
                "--archive",
                "planned.out",
                "--map",
                "to-rclone",
                "--transliterate",
                "--format",
                "json",
            ],
        )
        .1;
        assert!(list.contains("Müller") && !list.contains("Köln"), "{list}");
        let wrong = [
            (other, "edited.jsonl", edited.clone(), "another archive"),
            (file, "wrong.jsonl", plan.replace("\"new\":\"Köln.txt\"", "\"new\":\"a/b\""), "contains a `/`"),
            (
                file,
                "wrong.jsonl",
                plan.replace("\"new\":\"Straße.doc\"", "\"new\":\"Änderungen.txt\""),
                "cannot be made",
            ),
            (
                file,
                "wrong.jsonl",
                plan.replace("\"new\":\"Größe.txt\"", "\"new\":\"plain.txt\""),
                "cannot be made",
            ),
            (
                file,
                "wrong.jsonl",
                plan.replace("plan\",", "plan\",\"archive\":{\"size\":1,\"crc32\":\"00000000\"},"),
                "duplicate field",
            ),
        ];
        fs::remove_file(dir.path().join("planned.out")).unwrap();
        for (file, name, plan, why) in wrong {
            fs::write(dir.path().join(name), plan).unwrap();
            let (status, text) = copy(file, name);
            assert!(status == 2 && text.contains(why), "{text}");
            assert!(!dir.path().join("planned.out").exists());
        }
        let (status, text) = namegate(&dir, &["fix", "apply", "plan.jsonl", "--yes"]);
        assert!(status == 2 && text.contains("namegate fix archive"), "{text}");
    }
    fs::create_dir(dir.path().join("tree")).unwrap();
    namegate(&dir, &["fix", "plan", "tree", "-o", "tree.jsonl"]);
    let (status, text) = namegate(&dir, &["fix", "archive", "gnu.tar", "-o", "x", "--plan", "tree.jsonl"]);
    assert!(status == 2 && text.contains("fix apply"), "{text}");
}

/// What a plan says of each name, by the directory below `root` and the name.
fn planned(plan: &str, root: &str) -> BTreeMap<(Vec<u8>, String), Vec<Value>> {
    let lines = plan.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.filter(|line| line["type"] != "plan").map(|line| {
        let directory = BASE64.decode(line["directory_base64"].as_str().unwrap().as_bytes()).unwrap();
        let below = directory.strip_prefix(root.as_bytes()).unwrap().to_vec();
        let said = ["new", "confidence", "reading", "reasons", "evidence", "alternatives", "kind", "why"];
        let name = line["old_hex"].as_str().or(line["name_hex"].as_str()).unwrap().to_owned();
        ((below, name), said.iter().map(|key| line[key].clone()).collect())
    });
    lines.collect()
}

#[test]
fn names_of_an_archive_are_planned_like_those_of_the_tree_that_it_unpacks_to() {
    let Some(dir) = archives() else { return };
    for (at, file) in ["names.tar", "gnu.tar", "long-gnu.tar", "twins.tar", "pax.tar"].into_iter().enumerate()
    {
        let (tree, archive) = (dir.path().join(format!("tree-{at}")), dir.path().join(file));
        fs::create_dir(&tree).unwrap();
        let unpacked = Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&tree).status().unwrap();
        assert!(unpacked.success());
        for profile in ["strict", "windows"] {
            let plan = |paths: &[&str], root: &Path| {
                let options = ["--format", "json", "--profile", profile];
                let (_, text) = namegate(&dir, &[&["fix", "plan"][..], paths, &options].concat());
                planned(&text, fs::canonicalize(root).unwrap().to_str().unwrap())
            };
            let of_tree = plan(&[tree.to_str().unwrap()], &tree);
            assert!(!of_tree.is_empty());
            assert_eq!(plan(&["--archive", file], &archive), of_tree, "{file}, {profile}");
        }
    }
}

#[test]
fn the_archive_is_never_written_and_a_dry_run_writes_nothing() {
    let Some(dir) = archives() else { return };
    let before = fs::read(dir.path().join("gnu.tar")).unwrap();
    std::os::unix::fs::symlink("gnu.tar", dir.path().join("link.tar")).unwrap();
    for copy in ["gnu.tar", "link.tar", "./gnu.tar"] {
        let (status, text) = namegate(&dir, &["fix", "archive", "gnu.tar", "-o", copy]);
        assert!(status == 2 && text.contains("the archive itself"), "{text}");
    }
    let entries = || fs::read_dir(dir.path()).unwrap().count();
    let count = entries();
    let (status, text) = namegate(&dir, &["fix", "archive", "gnu.tar", "--dry-run", "-o", "copy"]);
    assert!(status == 0 && text.starts_with("Would change: 4 of 5 members renamed."), "{text}");
    assert_eq!((entries(), fs::read(dir.path().join("gnu.tar")).unwrap()), (count, before));
    // A copy is not readable by more users than the archive.
    fs::set_permissions(dir.path().join("gnu.tar"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(namegate(&dir, &["fix", "archive", "gnu.tar", "-o", "copy"]).0, 0);
    assert_eq!(fs::metadata(dir.path().join("copy")).unwrap().permissions().mode() & 0o777, 0o600);
    // A refusal keeps what had the name of the copy.
    fs::write(dir.path().join("old"), "old").unwrap();
    assert_eq!(namegate(&dir, &["fix", "archive", "signed.jar", "-o", "old"]).0, 2);
    assert_eq!(fs::read(dir.path().join("old")).unwrap(), b"old");
}

#[test]
fn a_copy_is_absent_or_complete_whenever_the_program_is_killed() {
    let Some(dir) = archives() else { return };
    // Large enough that many of the kills come while it is written.
    let made = Command::new("python3").current_dir(&dir).args(["-c", LARGE]).status().unwrap();
    assert!(made.success());
    for file in ["large.zip", "large.tar"] {
        let copy = dir.path().join("copy");
        let whole = namegate(&dir, &["fix", "archive", file, "-o", "whole", "--encoding", "ibm850"]);
        assert_eq!(whole.0, 0, "{}", whole.1);
        let whole = fs::read(dir.path().join("whole")).unwrap();
        let (mut killed, mut finished) = (0, 0);
        for wait in 0..40 {
            let mut child = Command::new(env!("CARGO_BIN_EXE_namegate"))
                .current_dir(&dir)
                .args(["fix", "archive", file, "-o", "copy", "--encoding", "ibm850"])
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(wait * 8));
            child.kill().unwrap();
            let status = child.wait().unwrap();
            if copy.exists() {
                assert!(fs::read(&copy).unwrap() == whole, "a copy that is incomplete");
                fs::remove_file(&copy).unwrap();
                finished += 1;
            }
            killed += u32::from(!status.success());
        }
        println!("{file}: {killed} killed, {finished} copies");
        assert!(killed > 0);
    }
}

const LARGE: &str = "
import os, sys, tarfile, zipfile, io
class Raw(zipfile.ZipInfo):
    def _encodeFilenameFlags(self):
        return self.filename.encode('cp850'), 0
with zipfile.ZipFile('large.zip', 'w') as archive:
    for at in range(2000):
        archive.writestr(Raw('Größe/Übersicht %d.txt' % at), os.urandom(5000))
with tarfile.open('large.tar', 'w', encoding='cp850', format=tarfile.GNU_FORMAT) as archive:
    for at in range(2000):
        info = tarfile.TarInfo('Größe/Übersicht %d.txt' % at)
        info.size = 5000
        archive.addfile(info, io.BytesIO(os.urandom(5000)))
";
