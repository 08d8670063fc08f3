//! A user plants links, files and pipes where root writes reports, logs and journals, and swaps them while root writes.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use namegate_files::output;
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use tempfile::TempDir;

use crate::duration;
use namegate_testkit::acting::act_as;
use namegate_testkit::random::Random;

const ATTACKER: u32 = 64321;
const GROUP: u32 = 64323;

/// Owner, group and mode of the directory into which root writes.
const DIRECTORIES: [(&str, u32, u32, u32); 3] =
    [("own", ATTACKER, ATTACKER, 0o755), ("shared", 0, GROUP, 0o2775), ("sticky", 0, 0, 0o1777)];

struct OutputDirectory {
    dir: TempDir,
    secret: PathBuf,
}

const SECRET: &str = "what root keeps to itself\n";

impl OutputDirectory {
    fn new() -> Option<Self> {
        if !geteuid().is_root() {
            println!("SKIPPED: acting as other users needs root");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
        let secret = dir.path().join("secret");
        fs::write(&secret, SECRET).unwrap();
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        fs::write(dir.path().join("tree/a:b"), "").unwrap();
        for (name, owner, group, mode) in DIRECTORIES {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            chown(&path, Some(owner), Some(group)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            // The kernel follows any link of root; in a shared directory anybody can rename it.
            symlink(&secret, path.join("rootlink")).unwrap();
        }
        Some(Self { dir, secret })
    }

    fn is_kept(&self) -> bool {
        let meta = fs::symlink_metadata(&self.secret).unwrap();
        let is_same = (meta.uid(), meta.gid(), meta.mode() & 0o7777) == (0, 0, 0o600);
        is_same && fs::read_to_string(&self.secret).unwrap() == SECRET
    }
}

/// Puts something of the attacker under `name`, and removes it again, until told to stop.
fn plant(dir: &Path, secret: &Path, seed: u64, is_ended: &AtomicBool, swaps: &AtomicUsize) {
    let (name, aside) = (dir.join("report.html"), dir.join("aside"));
    let mut random = Random(seed);
    while !is_ended.load(Relaxed) {
        let _ = fs::remove_file(&aside);
        let made = match random.below(6) {
            0 | 1 => symlink(secret, &aside).is_ok(),
            2 => fs::write(&aside, "mine").is_ok(),
            // A hard link to root's own file, if the kernel allows others to make one.
            3 => fs::hard_link(secret, &aside).is_ok(),
            4 => symlink("rootlink", &aside).is_ok(),
            _ => fs::rename(dir.join("rootlink"), &aside).is_ok(),
        };
        let is_swapped = made && fs::rename(&aside, &name).is_ok();
        swaps.fetch_add(usize::from(is_swapped), Relaxed);
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            // A link in place of the file that is about to be moved there.
            if entry.file_name().as_encoded_bytes().starts_with(b".namegate-") && random.chance(3) {
                let _ = fs::remove_file(entry.path());
                swaps.fetch_add(usize::from(symlink(secret, entry.path()).is_ok()), Relaxed);
            }
        }
        for _ in 0..random.below(500) {
            std::hint::spin_loop();
        }
        if random.chance(2) {
            let _ = fs::remove_file(&name);
        }
    }
}

#[test]
fn root_never_writes_into_a_file_that_somebody_else_chose() {
    let Some(outputs) = OutputDirectory::new() else { return };
    for (name, ..) in DIRECTORIES {
        let dir = outputs.dir.path().join(name);
        let (is_ended, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (mut written, mut refused, mut harmed) = (0, 0, 0);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let (secret, is_ended, swaps) = (&outputs.secret, &is_ended, &swaps);
            let attacked = &dir;
            scope.spawn(move || {
                act_as(ATTACKER, ATTACKER, &[GROUP], 0, || plant(attacked, secret, 1, is_ended, swaps));
            });
            while begun.elapsed() < duration() / 2 && harmed == 0 {
                let path = dir.join("report.html");
                let result = match written % 2 {
                    0 => output::write(&path, b"a report"),
                    _ => output::append(&path, 0o640).and_then(|mut file| file.write_all(b"a line")),
                };
                match result {
                    Ok(()) => written += 1,
                    Err(_) => (written, refused) = (written + 1, refused + 1),
                }
                let link = dir.join("rootlink");
                if fs::symlink_metadata(&link).is_err() {
                    let _ = symlink(&outputs.secret, &link);
                }
                harmed += usize::from(!outputs.is_kept());
            }
            is_ended.store(true, Relaxed);
        });
        let swaps = swaps.into_inner();
        println!(
            "{name}: {written} outputs, {refused} of them refused, {swaps} swaps, {harmed} secrets written to"
        );
        assert_eq!(harmed, 0, "{name}");
    }
}

#[test]
fn no_command_writes_through_a_planted_link_whatever_its_output_is() {
    let Some(outputs) = OutputDirectory::new() else { return };
    let tree = outputs.dir.path().join("tree");
    let plain = ["scan", "--profile", "windows"];
    let commands: [(&[&str], &[&str]); 6] = [
        (&plain, &["-o"]),
        (&plain, &["--write-baseline"]),
        (&plain, &["--resume"]),
        (&["fix", "plan", "--profile", "windows"], &["-o"]),
        (&["man"], &[]),
        (&["watch", "--profile", "windows", "--for", "0.1s"], &["-o"]),
    ];
    for (directory, ..) in DIRECTORIES {
        let dir = outputs.dir.path().join(directory);
        for (command, option) in commands {
            let name = if command == ["man"] { "namegate.1" } else { "report.html" };
            for (planted, target) in
                [(name.to_owned(), &outputs.secret), (format!("{name}.found"), &outputs.secret)]
            {
                let path = dir.join(name);
                act_as(ATTACKER, ATTACKER, &[GROUP], 0, || symlink(target, dir.join(&planted)).unwrap());
                let mut run = Command::new(env!("CARGO_BIN_EXE_namegate"));
                run.args(command);
                match command {
                    ["man"] => run.arg(&dir),
                    _ => run.args(option).arg(&path).arg(&tree),
                };
                let output = run.stdin(std::process::Stdio::null()).output().unwrap();
                let what = format!("{directory}: {command:?} {option:?}: {output:?}");
                assert!(outputs.is_kept(), "{what}");
                if planted == name {
                    assert_eq!(output.status.code(), Some(2), "{what}");
                    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
                    let is_explained = messages.contains("is not followed");
                    assert!(is_explained, "{what}");
                }
                for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
                    if entry.file_name() != OsStr::new("rootlink") {
                        fs::remove_file(entry.path()).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn root_uses_no_pipe_state_journal_or_plan_of_another_user() {
    let Some(outputs) = OutputDirectory::new() else { return };
    let tree = outputs.dir.path().join("tree");
    let run = |args: &[&OsStr]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").env("XDG_STATE_HOME", outputs.dir.path());
        let output = command.args(args).stdin(std::process::Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let os = |text: &'static str| OsStr::new(text);
    let dir = outputs.dir.path().join("sticky");
    act_as(ATTACKER, ATTACKER, &[], 0, || {
        mkfifo(&dir.join("fifo"), Mode::from_bits_truncate(0o666)).unwrap();
        fs::write(dir.join("state"), "{}").unwrap();
    });
    let fifo = dir.join("fifo.csv");
    fs::rename(dir.join("fifo"), &fifo).unwrap();
    let (code, messages) = run(&[os("scan"), os("-o"), fifo.as_os_str(), tree.as_os_str()]);
    assert!(code == Some(2) && messages.contains("belongs to another user"), "{messages}");
    let state = dir.join("state");
    let (code, messages) = run(&[os("scan"), os("--resume"), state.as_os_str(), tree.as_os_str()]);
    assert!(code == Some(2) && messages.contains("belongs to another user"), "{messages}");
    // A plan that others can write, and a journal where others can rename.
    let plan = outputs.dir.path().join("plan");
    let windows = [os("fix"), os("plan"), os("--profile"), os("windows"), os("-o"), plan.as_os_str()];
    let (code, messages) = run(&[&windows[..], &[tree.as_os_str()]].concat());
    assert_eq!(code, Some(0), "{messages}");
    let apply = [os("fix"), os("apply"), os("--yes"), plan.as_os_str()];
    for (owner, mode) in [(ATTACKER, 0o600), (0, 0o666)] {
        chown(&plan, Some(owner), Some(0)).unwrap();
        fs::set_permissions(&plan, Permissions::from_mode(mode)).unwrap();
        let (code, messages) = run(&apply);
        assert!(code == Some(2) && messages.contains("can change it"), "{owner} {mode:o}: {messages}");
    }
    chown(&plan, Some(0), Some(0)).unwrap();
    fs::set_permissions(&plan, Permissions::from_mode(0o644)).unwrap();
    for name in ["own", "shared"] {
        let journal = outputs.dir.path().join(name).join("journal");
        let (code, messages) = run(&[&apply[..], &[os("--journal"), journal.as_os_str()]].concat());
        assert!(code == Some(2) && messages.contains("others can replace it"), "{name}: {messages}");
        assert!(!journal.exists());
    }
    assert!(tree.join("a:b").exists(), "nothing was renamed");
    let (code, messages) = run(&apply);
    assert_eq!(code, Some(0), "{messages}");
    // A journal of another user, and one behind a symbolic link.
    let journals = outputs.dir.path().join("namegate/journals");
    let journal = fs::read_dir(&journals).unwrap().next().unwrap().unwrap().path();
    let foreign = dir.join("journal");
    fs::copy(&journal, &foreign).unwrap();
    chown(&foreign, Some(ATTACKER), Some(ATTACKER)).unwrap();
    act_as(ATTACKER, ATTACKER, &[], 0, || symlink(&journal, dir.join("link")).unwrap());
    for path in [foreign, dir.join("link")] {
        let (code, messages) = run(&[os("fix"), os("undo"), path.as_os_str()]);
        assert_eq!(code, Some(2), "{}: {messages}", path.display());
    }
    assert!(!tree.join("a:b").exists(), "nothing was taken back");
    let (code, messages) = run(&[os("fix"), os("undo"), journal.as_os_str()]);
    assert_eq!(code, Some(0), "{messages}");
    assert!(tree.join("a:b").exists());
}
