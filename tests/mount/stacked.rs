//! What is built on top of a mount: databases, file systems in files, overlays, and control groups that stop its clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::mount::{MsFlags, mount};

use namegate_testkit::mounted::{TestMount, unmount};
use namegate_testkit::wait_until;

/// Four programs write into one database, without waiting for the disk; prints what SQLite says of it, the journal that it used, and the number of rows.
const DATABASE: &str = r#"
import sqlite3, subprocess, sys
path, mode = sys.argv[1], sys.argv[2]
writer = '''
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
db.execute("pragma synchronous=off")
for number in range(20):
    db.execute("insert into rows values (?)", (number,))
'''
db = sqlite3.connect(path, timeout=60, isolation_level=None)
used = db.execute(f"pragma journal_mode={mode}").fetchone()[0]
db.execute("pragma mmap_size=1048576")
db.execute("create table rows (number)")
writers = [subprocess.Popen([sys.executable, "-c", writer, path]) for _ in range(4)]
ended = [writer.wait() for writer in writers]
whole = db.execute("pragma integrity_check").fetchone()[0]
print(used, ended, whole, db.execute("select count(*), sum(number) from rows").fetchone())
"#;

fn run(program: &str, args: &[&str]) -> Output {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{program} {args:?}: {error}"))
}

pub fn succeed(program: &str, args: &[&str]) -> String {
    let output = run(program, args);
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn has(program: &str, args: &[&str]) -> bool {
    let is_there = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|output| output.status.success());
    if !is_there {
        println!("SKIPPED: {program} {} does not run here", args.join(" "));
    }
    is_there
}

#[test]
fn a_database_with_four_writers_is_whole_with_every_kind_of_journal() {
    if !has("python3", &["-c", "import sqlite3"]) {
        return;
    }
    for mounted in TestMount::both_ways() {
        for mode in ["delete", "truncate", "persist", "wal"] {
            let printed = mounted.same(|dir| {
                let path = dir.join(format!("{mode}.db"));
                succeed("python3", &["-c", DATABASE, path.to_str().unwrap(), mode])
            });
            assert_eq!(printed, format!("{mode} [0, 0, 0, 0] ok (80, 760)\n"));
        }
    }
}

#[test]
fn a_file_system_in_a_file_on_the_mount_has_no_errors_after_use() {
    if !has("mkfs.ext4", &["-V"]) {
        return;
    }
    for mounted in TestMount::both_ways() {
        let (image, target) = (mounted.mnt().join("image"), mounted.plain().join("disk"));
        let (image, target) = (image.to_str().unwrap(), target.to_str().unwrap());
        fs::File::create(image).unwrap().set_len(16 << 20).unwrap();
        succeed("mkfs.ext4", &["-q", image]);
        fs::create_dir(target).unwrap();
        let attached = run("mount", &["-o", "loop", image, target]);
        let said = String::from_utf8_lossy(&attached.stderr);
        if said.contains("failed to setup loop device") {
            println!("SKIPPED: {said}");
            return;
        }
        assert!(attached.status.success(), "{said}");
        for number in 0..100 {
            fs::write(format!("{target}/{number}"), vec![number; 20_000]).unwrap();
        }
        (0..100).step_by(2).for_each(|number| fs::remove_file(format!("{target}/{number}")).unwrap());
        unmount(Path::new(target));
        succeed("e2fsck", &["-fn", image]);
        succeed("mount", &["-o", "loop,ro", image, target]);
        let is_right = (1..100)
            .step_by(2)
            .all(|number| fs::read(format!("{target}/{number}")).unwrap() == [number; 20_000]);
        unmount(Path::new(target));
        assert!(is_right, "the contents after another mount");
    }
}

/// What is in `dir` and below: each path with its content, sorted.
fn contents(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found: Vec<_> = walkdir::WalkDir::new(dir)
        .min_depth(1)
        .into_iter()
        .map(|entry| {
            let entry = entry.unwrap();
            let content = entry.file_type().is_file().then(|| fs::read(entry.path()).unwrap());
            (entry.path().strip_prefix(dir).unwrap().to_owned(), content)
        })
        .collect();
    found.sort();
    found
}

/// Makes an overlay whose layers are in `dir`, and changes it in every way that leaves something else in the upper layer.
fn use_overlay(dir: &Path) -> (Vec<(PathBuf, Option<Vec<u8>>)>, Vec<(PathBuf, Option<Vec<u8>>)>) {
    let at = |name: &str| dir.join(name);
    for name in ["lower", "lower/dir", "lower/removed", "upper", "work", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    for name in ["lower/changed", "lower/renamed", "lower/gone", "lower/dir/file", "lower/removed/file"] {
        fs::write(at(name), name).unwrap();
    }
    let layer = |option: &str, name: &str| format!("{option}={}", at(name).display());
    let options =
        [layer("lowerdir", "lower"), layer("upperdir", "upper"), layer("workdir", "work")].join(",");
    mount(Some("overlay"), &at("merged"), Some("overlay"), MsFlags::empty(), Some(options.as_str())).unwrap();
    fs::write(at("merged/changed"), "changed").unwrap();
    fs::rename(at("merged/renamed"), at("merged/dir/ÄÖÜ")).unwrap();
    fs::remove_file(at("merged/gone")).unwrap();
    fs::remove_dir_all(at("merged/removed")).unwrap();
    // A directory in the place of another hides what is below it, by an extended attribute.
    fs::create_dir(at("merged/removed")).unwrap();
    fs::write(at("merged/removed/new"), "new").unwrap();
    let merged = contents(&at("merged"));
    unmount(&at("merged"));
    (merged, contents(&at("upper")))
}

#[test]
fn an_overlay_with_its_layers_on_the_mount_is_as_one_in_a_plain_directory() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let (merged, upper) = mounted.same(use_overlay);
    let paths: Vec<&str> = merged.iter().map(|(path, _)| path.to_str().unwrap()).collect();
    assert_eq!(paths, ["changed", "dir", "dir/file", "dir/ÄÖÜ", "removed", "removed/new"]);
    assert_eq!(upper.len(), 7, "with what hides the lower layer: {upper:?}");
}

/// A control group of its own, which is removed on drop.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// `None`, after a message, if there are no control groups that can be frozen.
    fn new() -> Option<Self> {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
        let root = roots.into_iter().find(|root| root.join("cgroup.procs").exists());
        let group = root.map(|root| root.join(format!("namegate-test-{}", std::process::id())));
        match group {
            Some(group) if fs::create_dir(&group).is_ok() && group.join("cgroup.freeze").exists() => {
                Some(Self(group))
            }
            _ => {
                println!("SKIPPED: no control group can be made that can be frozen");
                None
            }
        }
    }

    fn write(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).unwrap();
    }

    fn is_frozen(&self) -> bool {
        fs::read_to_string(self.0.join("cgroup.events")).unwrap().contains("frozen 1")
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join("cgroup.freeze"), "0");
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        wait_until("the end of the control group", || fs::remove_dir(&self.0).is_ok());
    }
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn clients_that_wait_for_the_server_can_be_frozen_and_go_on_afterwards() {
    let Some(mounted) = TestMount::new(&[]) else { return };
    let Some(group) = ControlGroup::new() else { return };
    let counter = mounted.mnt().join("counter");
    let work = "while :; do echo x >>\"$0\"; mkdir \"$0.dir\"; rmdir \"$0.dir\"; done";
    let client = Command::new("sh").args(["-c", work]).arg(&counter).stdin(Stdio::null()).spawn().unwrap();
    let client = Killed(client);
    group.write("cgroup.procs", &client.0.id().to_string());
    let size = || fs::metadata(&counter).map_or(0, |file| file.len());
    for _ in 0..5 {
        let before = size();
        wait_until("work of the client", || size() > before);
        group.write("cgroup.freeze", "1");
        wait_until("the client to be frozen", || group.is_frozen());
        group.write("cgroup.freeze", "0");
    }
    drop(client);
}
