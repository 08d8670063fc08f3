//! A plan that was undone is applied again, and a plan whose lines were put in another order.

use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use namegate_fix::stored_plan::StoredPlan;
use namegate_testkit::program::status;

use crate::program::{messages, namegate};
use crate::tree::{OPTIONS, Recorder, apply_plan, make_tree, names, plan, snapshot, text, undo_journal};
use crate::whole_plan::Plan;

const TREE: &[&[u8]] = &[
    b"one",
    b"two = one",
    b"three = one",
    b"d\xE9/",
    b"d\xE9/a",
    b"d\xE9/b",
    b"caf\xE9",
    b"hard = caf\xE9",
    b"link -> caf\xE9",
    b"l\xE9nk -> d\xE9/a",
];

const RENAMES: &[(&[u8], &str)] = &[
    // A chain of hard links: after it, too, `two` and `three` are the inode of the plan.
    (b"one", "two"),
    (b"two", "three"),
    (b"three", "four"),
    (b"d\xE9", "dé"),
    (b"d\xE9/a", "b"),
    (b"d\xE9/b", "a"),
    (b"caf\xE9", "café"),
    (b"hard", "Hard"),
    (b"l\xE9nk", "lénk"),
];

#[test]
fn a_plan_that_was_undone_can_be_applied_again() {
    let (dir, root) = make_tree(TREE);
    let (plan, before) = (plan(&root, RENAMES), snapshot(&root));
    let mut done = None;
    for round in 0..3 {
        let (journal, recorder) = (dir.path().join(format!("journal {round}")), Recorder::default());
        let tally = apply_plan(&plan, &journal, OPTIONS, &recorder).unwrap();
        assert_eq!(recorder.remaining(), [], "round {round}");
        assert_eq!((tally.renamed, tally.retargeted), (9, 2), "round {round}");
        let second =
            apply_plan(&plan, &dir.path().join(format!("second {round}")), OPTIONS, &recorder).unwrap();
        assert_eq!(recorder.remaining(), [], "round {round}");
        assert_eq!((second.renamed, second.already), (0, 11), "round {round}: nothing is left");
        let now = names(&snapshot(&root));
        assert_eq!(*done.get_or_insert_with(|| now.clone()), now, "round {round}");
        undo_journal(&journal, &recorder).unwrap();
        assert_eq!(recorder.remaining(), [], "round {round}");
        assert_eq!(names(&snapshot(&root)), names(&before), "round {round}");
    }
}

#[test]
fn a_file_that_was_written_after_the_plan_was_undone_is_left() {
    let (dir, root) = make_tree(&[b"caf\xE9", b"na\xEFve", b"old\xE9"]);
    let plan = plan(&root, &[(b"caf\xE9", "café"), (b"na\xEFve", "naïve"), (b"old\xE9", "oldé")]);
    let recorder = Recorder::default();
    apply_plan(&plan, &dir.path().join("first"), OPTIONS, &recorder).unwrap();
    undo_journal(&dir.path().join("first"), &recorder).unwrap();
    let path = |name: &[u8]| root.join(OsStr::from_bytes(name));
    // One is written in make_tree, one is replaced by a file with the same content.
    fs::write(path(b"caf\xE9"), "more than before").unwrap();
    let content = fs::read(path(b"na\xEFve")).unwrap();
    fs::write(root.join("other"), content).unwrap();
    fs::rename(root.join("other"), path(b"na\xEFve")).unwrap();
    apply_plan(&plan, &dir.path().join("second"), OPTIONS, &recorder).unwrap();
    let why: Vec<String> = recorder.remaining().into_iter().map(|(_, why)| why).collect();
    assert_eq!(why, ["the entry was changed after the plan was made", "another entry has the name now"]);
    assert!(root.join("oldé").exists());
}

#[test]
fn the_order_of_the_lines_does_not_matter() {
    let (dir, root) = make_tree(TREE);
    let plan = plan(&root, RENAMES);
    let written = text(&plan);
    let (header, lines) = written.split_once('\n').unwrap();
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.reverse();
    let reversed = [&[header], &lines[..]].concat().join("\n");
    assert_ne!(Plan::parse(reversed.as_bytes()).unwrap(), plan);
    let renames = |text: &str| {
        let stored = StoredPlan::read(text.as_bytes()).unwrap();
        let (mut directories, mut found) = (stored.directories().unwrap(), Vec::new());
        while let Some(directory) = directories.next().unwrap() {
            let given = directory.each(&mut |rename| {
                found.push((rename.directory.path.clone(), rename.id));
                Ok(ControlFlow::Continue(()))
            });
            assert!(given.unwrap().is_continue());
        }
        found
    };
    assert_eq!(renames(&reversed), renames(&written));
    assert!(renames(&written)[0].0.ends_with(b"d\xE9"), "the deepest directory comes first");
    fs::write(dir.path().join("plan"), reversed).unwrap();
    let output =
        namegate(dir.path()).args(["fix", "apply", "--yes"]).arg(dir.path().join("plan")).output().unwrap();
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert!(messages(&output).contains("9 entries renamed, 2 links retargeted."), "{}", messages(&output));
}

#[test]
fn errors_that_show_only_among_sorted_lines_are_reported() {
    let (_dir, root) = make_tree(&[b"a\xFF", b"b\xFF"]);
    let plan = plan(&root, &[(b"a\xFF", "a"), (b"b\xFF", "b")]);
    let line = plan.renames[0].to_line().replace("\"id\":1,", "\"id\":7,");
    let found = StoredPlan::read(format!("{}{line}\n", text(&plan)).as_bytes()).unwrap_err();
    assert_eq!(found.to_string(), "line 4: line 2 renames `a\\xFF` too\n");
}

#[test]
fn a_temporary_directory_that_cannot_be_used_is_named() {
    let (dir, root) = make_tree(&[]);
    // More lines than are kept in memory.
    for number in 0..9000 {
        let name = format!("{number:04}{}", "x".repeat(240)).into_bytes();
        fs::write(root.join(OsStr::from_bytes(&[&name[..], b"\xE9"].concat())), "").unwrap();
    }
    let plan = |temporary: &str| {
        let mut command = namegate(dir.path());
        command
            .env("TMPDIR", temporary)
            .args(["fix", "plan"])
            .arg(&root)
            .arg("-o")
            .arg(dir.path().join("plan"));
        command.output().unwrap()
    };
    let output = plan("/no/where");
    assert_eq!(status(&output), 2, "{}", messages(&output));
    assert!(
        messages(&output).contains("cannot create a temporary file in '/no/where': "),
        "{}",
        messages(&output)
    );
    assert!(!dir.path().join("plan").exists());
    let output = plan("/tmp");
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert!(messages(&output).contains("9,000 renames"), "{}", messages(&output));
    let written = fs::read(dir.path().join("plan")).unwrap();
    let parsed = Plan::parse(&written).unwrap();
    assert!(parsed.renames.is_sorted_by(|a, b| a.old < b.old && a.id + 1 == b.id));
}
