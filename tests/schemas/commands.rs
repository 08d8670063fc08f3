//! Outputs about names: scans, checks, explanations, comparisons, lists of rules.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use namegate_testkit::program::run;

use crate::Outputs;

pub fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

pub fn check(outputs: &mut Outputs) {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    let names: [&[u8]; 9] = [
        b"caf\xE9",
        b"Same",
        b"same",
        b"desktop.ini",
        b"a?",
        b"d/x ",
        b"fine",
        b"\xC0\xAF",
        "d/\u{202E}x".as_bytes(),
    ];
    names.iter().for_each(|name| drop(File::create(tree.join(path_of(name))).unwrap()));
    scans(outputs, dir.path(), &tree);
    containers(outputs, dir.path(), &tree);
    reference(outputs);
    machine(outputs, &tree);
    let copy = dir.path().join("copy");
    Command::new("cp").args(["-r".as_ref(), tree.as_os_str(), copy.as_os_str()]).status().unwrap();
    fs::rename(copy.join("Same"), copy.join("cafe\u{301}")).unwrap();
    fs::write(copy.join("fine"), "more").unwrap();
    outputs.run("verify", [tree.as_os_str(), copy.as_os_str(), "--contents".as_ref()]);
}

fn scans(outputs: &mut Outputs, dir: &Path, tree: &Path) {
    let top = tree.to_str().unwrap();
    outputs.run("scan", [top, "--owners", "--target", "windows,macos,s3"]);
    outputs.run("scan", [top, "--summary-by", "prefix:1,target,rule", "--profile", "windows"]);
    outputs.run("scan", [top, dir.join("not-there").to_str().unwrap()]);
    outputs.run("check", ["caf\u{e9}", "a?", "con", "--profile", "windows"]);
    let [known, found] = ["known.jsonl", "found.jsonl"].map(|name| dir.join(name));
    let [baseline, file] = [&known, &found].map(|path| path.to_str().unwrap());
    run(["scan", top, "-q", "--write-baseline", baseline]);
    outputs.check("baseline", &fs::read_to_string(&known).unwrap());
    run(["scan", top, "--baseline", baseline, "-o", file]);
    outputs.check("findings", &fs::read_to_string(&found).unwrap());
    outputs.run("report", [file]);
}

fn containers(outputs: &mut Outputs, dir: &Path, tree: &Path) {
    // More violations of one name than a finding lists.
    let list = dir.join("list");
    fs::write(&list, [&b"a/b\n"[..], &b"?".repeat(600), b"\n"].concat()).unwrap();
    outputs.run("scan", ["--list".as_ref(), list.as_os_str(), "--profile".as_ref(), "windows".as_ref()]);
    let archive = dir.join("a.tar");
    let packed = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(tree).arg(".").status();
    match packed {
        Ok(status) if status.success() && cfg!(feature = "archive") => {
            outputs.run("scan", ["--archive".as_ref(), archive.as_os_str()]);
        }
        _ => println!("SKIPPED: an archive: there is no tar, or the feature `archive` is off"),
    }
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(args).current_dir(tree);
        command.output().is_ok_and(|output| output.status.success())
    };
    if cfg!(feature = "git") && git(&["init", "-q"]) && git(&["add", "."]) && git(&["commit", "-qm", "a"]) {
        outputs.run("scan", ["--git".as_ref(), tree.as_os_str()]);
        outputs.run("scan", ["--git-all".as_ref(), "--git".as_ref(), tree.as_os_str()]);
        fs::remove_dir_all(tree.join(".git")).unwrap();
    } else {
        println!("SKIPPED: a repository: there is no git, or the feature `git` is off");
    }
}

fn reference(outputs: &mut Outputs) {
    outputs.run("explain", ["a", "e\u{301}\u{2126}", "\u{FFFF}", &"a".repeat(5000)]);
    for bytes in
        ["ff", "c0 af", "ed a0 80", "ed a0 bd ed b8 80", "e9", "80 80", "f8 88 80 80 80", "fd bf bf bf bf bf"]
    {
        outputs.run("explain", ["--hex", bytes]);
    }
    outputs.run::<&str>("rules", []);
    outputs.run("rules", ["--encodings"]);
    outputs.run::<&str>("profiles", []);
    outputs.run("policy show", ["--profile", "windows,strict", "--normalize", "nfc", "--library-depth", "3"]);
    outputs.run::<&str>("policy show", []);
}

fn machine(outputs: &mut Outputs, tree: &Path) {
    outputs.run::<&str>("doctor", []);
    outputs.run("probe", [tree]);
    // tests/guard.rs compares the status and the events of guards.
    outputs.skipped.extend(["guard status", "guard-status", "guard events"]);
    if cfg!(feature = "guard") {
        outputs.run::<&str>("guard check", []);
    } else {
        outputs.skip("guard check", "the feature `guard` is off");
    }
}
