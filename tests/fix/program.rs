//! The commands, as users run them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use namegate_core::policy::Confidence;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::tree::{make_tree, names, plan, snapshot, text};
use namegate_testkit::process::let_signals_end_programs;
use namegate_testkit::program::{self, status};

/// The program, with its journals in `state`.
pub fn namegate(state: &Path) -> Command {
    let mut command = program::namegate();
    command.env("XDG_STATE_HOME", state);
    command
}

/// Standard output followed by standard error.
pub fn messages(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// A tree, with a plan for it in the file `plan` beside it.
fn case() -> (tempfile::TempDir, std::path::PathBuf) {
    let (dir, root) = make_tree(&[b"caf\xE9", b"d\xFF/", b"d\xFF/x\x1b[2J\n", b"l -> caf\xE9", b"gone"]);
    let wanted: &[(&[u8], &str)] =
        &[(b"caf\xE9", "café"), (b"d\xFF", "d"), (b"d\xFF/x\x1b[2J\n", "x"), (b"gone", "went")];
    fs::write(dir.path().join("plan"), text(&plan(&root, wanted))).unwrap();
    fs::remove_file(root.join("gone")).unwrap();
    (dir, root)
}

fn fix(dir: &Path, args: &[&str]) -> Output {
    namegate(dir).current_dir(dir).arg("fix").args(args).output().unwrap()
}

#[test]
fn without_yes_the_changes_are_announced_and_nothing_is_changed() {
    let (dir, root) = case();
    let before = snapshot(&root);
    for args in [&["apply", "plan"][..], &["apply", "plan", "--dry-run"]] {
        let output = fix(dir.path(), args);
        assert_eq!(status(&output), 1, "one entry is gone");
        let messages = messages(&output);
        assert!(messages.contains("Would change: 3 entries renamed, 1 link retargeted."), "{messages}");
        assert!(messages.contains("gone -> went: the name no longer exists"), "{messages}");
        assert_eq!(messages.contains("--yes"), !args.contains(&"--dry-run"), "{messages}");
        assert_eq!(snapshot(&root), before);
        assert!(!dir.path().join("namegate").exists(), "no journal is written");
    }
}

#[test]
fn a_plan_is_applied_shown_by_status_and_undone() {
    let (dir, root) = case();
    let before = snapshot(&root);
    let output = fix(dir.path(), &["apply", "plan", "--yes"]);
    assert_eq!(status(&output), 1, "{}", messages(&output));
    let text = messages(&output);
    assert!(text.contains("3 entries renamed, 1 link retargeted.\n1 line of the plan not done."), "{text}");
    assert!(!text.contains('\x1b'), "names cannot control the terminal: {text}");
    assert!(root.join("d/x").exists());
    assert_eq!(fs::read_link(root.join("l")).unwrap().as_os_str(), "café");

    let output = fix(dir.path(), &["status"]);
    assert_eq!(status(&output), 1);
    let text = messages(&output);
    assert!(text.contains("  state     done\n  done      4 of 5\n  1 line not done:\n"), "{text}");
    let output = fix(dir.path(), &["status", "--all", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&object["state"], &object["done"], &object["renames"]),
        (&"done".into(), &4.into(), &4.into())
    );
    assert_eq!(object["left"][0]["old_hex"], "676f6e65");

    let output = fix(dir.path(), &["undo", "--last", "--yes"]);
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert!(messages(&output).contains("4 names and link targets restored."), "{}", messages(&output));
    assert_eq!(names(&snapshot(&root)), names(&before));
    let output = fix(dir.path(), &["status"]);
    assert!(
        messages(&output).contains("  state     undone\n  done      4 of 5\n  undone    4 of 4\n"),
        "{}",
        messages(&output)
    );
    // Nothing is left to undo.
    let output = fix(dir.path(), &["undo", "--last", "--yes"]);
    assert_eq!(status(&output), 2);
    assert!(messages(&output).contains("has changes to undo"), "{}", messages(&output));
}

#[test]
fn renames_that_are_less_certain_than_requested_are_left_out_and_counted() {
    let (dir, root) = make_tree(&[
        b"a\xFF",
        b"b\xFF",
        b"d\xFF/",
        b"d\xFF/x\xFF",
        b"l -> d\xFF/x\xFF",
        b"m -> a\xFF",
        b"n -> d\xFF",
    ]);
    let wanted: &[(&[u8], &str)] =
        &[(b"a\xFF", "certain"), (b"b\xFF", "likely"), (b"d\xFF", "guess"), (b"d\xFF/x\xFF", "x")];
    let mut plan = plan(&root, wanted);
    for (rename, level) in plan.renames.iter_mut().zip([0, 1, 2, 0]) {
        rename.confidence = Confidence::ALL[level];
    }
    fs::write(dir.path().join("plan"), text(&plan)).unwrap();
    let before = snapshot(&root);
    let link = |name: &str| fs::read_link(root.join(name)).unwrap();
    let run = |args: &[&str], state: i32, expected: &str| {
        let output = fix(dir.path(), args);
        assert_eq!(status(&output), state, "{args:?}: {}", messages(&output));
        assert!(messages(&output).contains(expected), "{args:?}: {}", messages(&output));
        messages(&output)
    };
    let certain =
        run(&["apply", "plan", "--at-least", "certain"], 0, "2 entries renamed, 2 links retargeted.\n");
    assert!(certain.contains("3 lines of the plan left out, less certain than `certain`"), "{certain}");
    assert!(certain.contains(r#"grep -E '"confidence":"(likely|guess)"' plan"#), "{certain}");
    assert_eq!(snapshot(&root), before);

    let likely = run(&["apply", "plan", "--yes"], 0, "3 entries renamed, 2 links retargeted.\n");
    assert!(likely.contains("2 lines of the plan left out, less certain than `likely`"), "{likely}");
    assert!(root.join("certain").exists() && root.join("likely").exists());
    let kept = OsStr::from_bytes(b"d\xFF");
    assert!(root.join(kept).join("x").exists() && !root.join("guess").exists());
    assert_eq!((link("l"), link("m"), link("n")), (Path::new(kept).join("x"), "certain".into(), kept.into()));
    run(&["status"], 0, "  done      5 of 6\n");

    // The rest; then nothing is left out, because it is done.
    run(&["apply", "plan", "--yes", "--at-least", "guess"], 0, "1 entry renamed");
    assert_eq!(link("n").as_os_str(), "guess");
    let again = run(&["apply", "plan", "--yes"], 0, "0 entries renamed");
    assert!(!again.contains("left out"), "{again}");
    for _ in 0..2 {
        run(&["undo", "--last", "--yes"], 0, "restored");
    }
    assert_eq!(names(&snapshot(&root)), names(&before));
    run(&["apply", "plan", "--resume", "--at-least", "guess"], 2, "cannot be used with");
    run(&["apply", "plan", "--at-least", "perhaps"], 2, "certain, likely, guess");
}

#[test]
fn the_root_of_a_plan_can_be_renamed_itself() {
    let (dir, root) = make_tree(&[b"r\xFF/", b"r\xFF/x\xFF", b"r\xFF/d/", b"r\xFF/d/y\xFF"]);
    let mut plan = plan(&root, &[(b"r\xFF", "r"), (b"r\xFF/x\xFF", "x"), (b"r\xFF/d/y\xFF", "y")]);
    let top = root.join(OsStr::from_bytes(b"r\xFF"));
    plan.header.roots[0].path = top.as_os_str().as_bytes().to_vec();
    plan.header.roots[0].inode = fs::metadata(&top).unwrap().ino();
    fs::write(dir.path().join("plan"), text(&plan)).unwrap();
    let before = snapshot(&root);
    let output = fix(dir.path(), &["apply", "plan", "--yes"]);
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert!(root.join("r/x").exists() && root.join("r/d/y").exists());
    let output = fix(dir.path(), &["apply", "plan", "--yes"]);
    assert_eq!(status(&output), 0, "a second run has nothing to do: {}", messages(&output));
    assert!(messages(&output).contains("3 lines of the plan done before."), "{}", messages(&output));
    let journals = fs::read_dir(dir.path().join("namegate/journals")).unwrap().count();
    assert_eq!(journals, 2);
    // The newest journal has no changes, so the one before is undone.
    let output = fix(dir.path(), &["undo", "--last", "--yes"]);
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert_eq!(names(&snapshot(&root)), names(&before));
}

#[test]
fn names_that_the_policy_of_the_plan_refuses_are_skipped_and_the_rest_is_renamed() {
    let (dir, root) = make_tree(&[b"a\xFF", b"b\xFF", b"c\xFF", b"README"]);
    let mut plan = plan(&root, &[(b"a\xFF", "a?"), (b"b\xFF", "b"), (b"c\xFF", "readme")]);
    plan.header.policy = Some("profiles = [\"windows\"]\n".into());
    fs::write(dir.path().join("plan"), text(&plan)).unwrap();
    let output = fix(dir.path(), &["apply", "plan", "--yes"]);
    assert_eq!(status(&output), 1);
    assert!(
        messages(&output).contains("the new name breaks the rule reserved-character"),
        "{}",
        messages(&output)
    );
    assert!(messages(&output).contains("README"), "a collision on the target: {}", messages(&output));
    assert!(root.join("b").exists() && !root.join("a?").exists() && !root.join("readme").exists());
}

#[test]
fn a_signal_ends_the_run_after_a_batch_and_it_can_be_resumed() {
    // On a busy machine a run may finish before the signal arrives; a longer run does not.
    assert!([4_000, 16_000, 64_000].into_iter().any(is_interrupted_and_resumed));
}

/// Returns whether the signal interrupted the run.
fn is_interrupted_and_resumed(count: usize) -> bool {
    let_signals_end_programs();
    let (dir, root) = make_tree(&[]);
    let olds: Vec<Vec<u8>> =
        (0..count).map(|number| [number.to_string().as_bytes(), b"\xE9"].concat()).collect();
    let news: Vec<String> = (0..count).map(|number| format!("new {number}")).collect();
    let wanted: Vec<(&[u8], &str)> = olds.iter().zip(&news).map(|(old, new)| (&old[..], &new[..])).collect();
    olds.iter().for_each(|old| fs::write(root.join(OsStr::from_bytes(old)), "").unwrap());
    fs::write(dir.path().join("plan"), text(&plan(&root, &wanted))).unwrap();
    let before = snapshot(&root);
    let mut command = namegate(dir.path());
    command.current_dir(dir.path()).args(["fix", "apply", "plan", "--yes", "--batch", "10"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !root.join("new 0").exists() {
        std::thread::sleep(std::time::Duration::from_micros(200));
        if child.try_wait().unwrap().is_some() {
            break;
        }
    }
    if child.try_wait().unwrap().is_none() {
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    if status(&output) == 0 {
        return false;
    }
    assert_eq!(status(&output), 130, "{}", messages(&output));
    assert!(messages(&output).contains("--resume --journal"), "{}", messages(&output));
    let output = fix(dir.path(), &["status"]);
    assert!(messages(&output).contains("interrupted: "), "{}", messages(&output));
    let refused = fix(dir.path(), &["apply", "plan", "--yes"]);
    assert_eq!(status(&refused), 2);
    assert!(messages(&refused).contains("a run of this plan was interrupted"), "{}", messages(&refused));
    let output = fix(dir.path(), &["apply", "plan", "--resume"]);
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert!(snapshot(&root).keys().all(|name| name.starts_with(b"new ")));
    let output = fix(dir.path(), &["apply", "plan", "--resume"]);
    assert_eq!(status(&output), 0, "nothing is left to be resumed");
    assert!(messages(&output).contains("Nothing to do: the plan is done"), "{}", messages(&output));
    let output = fix(dir.path(), &["undo", "--last", "--yes"]);
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert_eq!(names(&snapshot(&root)), names(&before));
    true
}

#[test]
fn a_run_that_is_killed_in_the_middle_of_a_batch_is_resumed_and_undone() {
    assert!([2_000, 8_000, 32_000].into_iter().any(is_killed_in_a_batch));
}

/// Whether the run was in the middle of its only batch when it was killed.
fn is_killed_in_a_batch(count: usize) -> bool {
    let (dir, root) = make_tree(&[]);
    let olds: Vec<Vec<u8>> =
        (0..count).map(|number| [format!("{number:05}").as_bytes(), b"\xE9"].concat()).collect();
    let news: Vec<String> = (0..count).map(|number| format!("new {number:05}")).collect();
    let wanted: Vec<(&[u8], &str)> = olds.iter().zip(&news).map(|(old, new)| (&old[..], &new[..])).collect();
    olds.iter().for_each(|old| fs::write(root.join(OsStr::from_bytes(old)), "").unwrap());
    fs::write(dir.path().join("plan"), text(&plan(&root, &wanted))).unwrap();
    let before = snapshot(&root);
    for is_undone in [false, true] {
        let mut command = namegate(dir.path());
        command.current_dir(dir.path()).args(["fix", "apply", "plan", "--yes", "--batch", "1000000"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while !root.join("new 00100").exists() && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let now = snapshot(&root);
        let renamed = now.keys().filter(|name| name.starts_with(b"new ")).count();
        assert_eq!(now.len(), count, "nothing is lost");
        if !(1..count).contains(&renamed) {
            return false;
        }
        if is_undone {
            let output = fix(dir.path(), &["undo", "--last", "--yes"]);
            assert_eq!(status(&output), 0, "{}", messages(&output));
            assert_eq!(names(&snapshot(&root)), names(&before));
            continue;
        }
        let output = fix(dir.path(), &["apply", "plan", "--resume"]);
        assert_eq!(status(&output), 0, "{}", messages(&output));
        assert!(snapshot(&root).keys().all(|name| name.starts_with(b"new ")));
        let output = fix(dir.path(), &["undo", "--last", "--yes"]);
        assert_eq!(status(&output), 0, "{}", messages(&output));
        assert_eq!(names(&snapshot(&root)), names(&before));
    }
    true
}

#[test]
fn few_descriptors_are_enough_for_any_number_of_threads() {
    let (dir, root) = make_tree(&[]);
    for number in 0..60 {
        let sub = root.join(format!("d{number}/e/f"));
        fs::create_dir_all(&sub).unwrap();
        // One word would be one piece of evidence, in however many directories.
        let name = [&b"caf\xE9"[..], b"Gr\xF6\xDFe", b"na\xEFve", b"fa\xE7ade"][number % 4];
        fs::write(sub.join(OsStr::from_bytes(name)), "").unwrap();
    }
    let run = |args: &[&str]| {
        let program = env!("CARGO_BIN_EXE_namegate");
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 32; exec \"$0\" \"$@\"", program]).args(args);
        command.env("XDG_STATE_HOME", dir.path()).current_dir(dir.path()).output().unwrap()
    };
    let output = run(&["scan", "--jobs", "64", "tree"]);
    assert_eq!(status(&output), 1, "{}", messages(&output));
    assert!(!messages(&output).contains("Too many open files"), "{}", messages(&output));
    for args in
        // Descriptors are the question here, not how sure a reading is: `naïve` alone may be `naďve`.
        [
            &["fix", "plan", "--jobs", "64", "tree", "-o", "plan"][..],
            &["fix", "apply", "plan", "--yes", "--at-least", "guess"],
        ]
    {
        let output = run(args);
        assert_eq!(status(&output), 0, "{args:?}: {}", messages(&output));
        assert!(messages(&output).contains("60 "), "{args:?}: {}", messages(&output));
    }
    let output = run(&["fix", "undo", "--last", "--yes"]);
    assert_eq!(status(&output), 0, "{}", messages(&output));
}

#[test]
fn a_plan_without_renames_needs_no_journal() {
    let (dir, root) = make_tree(&[b"a"]);
    fs::write(dir.path().join("plan"), text(&plan(&root, &[]))).unwrap();
    let output = fix(dir.path(), &["apply", "plan", "--yes"]);
    assert_eq!((status(&output), &*messages(&output)), (0, "Nothing to do: the plan has no renames.\n"));
    assert!(!dir.path().join("namegate").exists());
}

#[test]
fn errors_are_reported_and_nothing_is_changed() {
    let (dir, root) = case();
    let before = snapshot(&root);
    fs::write(dir.path().join("broken"), "{\"type\":\"plan\"}\n{}\n").unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let edited =
        fs::read_to_string(dir.path().join("plan")).unwrap().replace("\"new\":\"café\"", "\"new\":\"cafe\"");
    for (args, expected) in [
        (&["apply", "none", "--yes"][..], "cannot read 'none': No such file"),
        (&["apply", "broken", "--yes"], "broken: line 1: "),
        (&["apply", "plan", "--yes", "--journal", "file"], "cannot create the journal 'file': File exists"),
        (&["apply", "plan", "--yes", "--journal", "no/where"], "nothing was changed"),
        (&["apply", "plan", "--resume", "--journal", "file"], "file: not a journal"),
        (&["apply", "plan", "--resume"], "no journal in"),
        (&["apply", "plan", "--batch", "0"], "not a number from 1 to 1000000"),
        (&["undo"], "required"),
        (&["undo", "none"], "none: No such file"),
        (&["undo", "plan"], "plan: not a journal"),
        (&["undo", "--last", "--yes"], "has changes to undo"),
        (&["status", "plan"], "plan: not a journal"),
    ] {
        let output = fix(dir.path(), args);
        assert_eq!(status(&output), 2, "{args:?}: {}", messages(&output));
        assert!(messages(&output).contains(expected), "{args:?}: {}", messages(&output));
        assert_eq!(snapshot(&root), before);
    }
    // A journal belongs to one plan.
    let output = fix(dir.path(), &["apply", "plan", "--yes", "--journal", "journal"]);
    assert_eq!(status(&output), 1);
    fs::write(dir.path().join("edited"), edited).unwrap();
    let output = fix(dir.path(), &["apply", "edited", "--resume", "--journal", "journal"]);
    assert!(messages(&output).contains("the journal of another plan"), "{}", messages(&output));
    let output = fix(dir.path(), &["apply", "plan", "--resume", "--journal", "journal"]);
    assert_eq!(status(&output), 0);
    assert!(messages(&output).contains("the plan is done"), "{}", messages(&output));
    assert_eq!(status(&fix(dir.path(), &["undo", "journal"])), 0);
    let output = fix(dir.path(), &["apply", "plan", "--resume", "--journal", "journal"]);
    assert!(messages(&output).contains("were undone"), "{}", messages(&output));
    assert_eq!(names(&snapshot(&root)), names(&before));
}
