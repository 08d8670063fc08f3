//! What a plan does by default, and what it only says: advice of targets, long names, repositories; and Git's index.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use namegate_core::policy::Confidence;

use super::git::git;
use crate::whole_plan::Plan;
use namegate_testkit::program::{namegate, run, status, stderr, stdout};

fn make(root: &Path, paths: &[&[u8]]) {
    for path in paths {
        let path = root.join(OsStr::from_bytes(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, path.as_os_str().as_bytes()).unwrap();
    }
}

fn plan(root: &Path, options: &[&str]) -> Plan {
    let args = ["fix", "plan", "--format", "json"].iter().chain(options).map(OsStr::new);
    let output = run(args.chain([root.as_os_str()]));
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
    Plan::parse(&output.stdout).unwrap()
}

fn renames(plan: &Plan) -> Vec<(&[u8], &str)> {
    plan.renames.iter().map(|rename| (&*rename.old, &*rename.new)).collect()
}

#[test]
fn what_a_target_only_advises_against_is_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    make(&root, &["Größe 3.txt".as_bytes(), b"a b", b"caf\xE9 1.txt", "tÃ©lÃ© 2.txt".as_bytes(), b"plain"]);
    let by_default = plan(&root, &["--target", "s3"]);
    let expected: [(&[u8], &str); 2] =
        [(b"caf\xE9 1.txt", "café 1.txt"), ("tÃ©lÃ© 2.txt".as_bytes(), "télé 2.txt")];
    assert_eq!(renames(&by_default), expected);
    assert_eq!((by_default.header.left_out, by_default.skipped.len()), (2, 0));
    let all = plan(&root, &["--profile", "s3", "--min-severity", "warn"]);
    assert_eq!(all.renames.len(), 4, "{:?}", renames(&all));
    assert!(renames(&all).contains(&("Größe 3.txt".as_bytes(), "Große_3.txt")));
    assert_eq!(all.header.left_out, 0);
    let text = run([
        OsStr::new("fix"),
        "plan".as_ref(),
        "--target=s3".as_ref(),
        "--format=text".as_ref(),
        root.as_os_str(),
    ]);
    let last = stdout(&text).lines().last().unwrap();
    assert_eq!(last, "2 names that s3 only advises against were left out; --min-severity warn includes them");
    // Several targets combine, as for a scan.
    make(&root, &[b"con"]);
    assert!(renames(&plan(&root, &["--target", "s3,windows"])).contains(&(b"con", "con_")));
}

#[test]
fn scans_and_plans_suggest_the_same_names_for_what_is_requested() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    let names: [&[u8]; 8] =
        ["Größe 3.txt".as_bytes(), b"a:b", b"con", b"Was?.doc", b"-x", b"caf\xE9.txt", b"README", b"readme"];
    make(&root, &names);
    for options in [&["--target", "s3,windows"][..], &["--target", "s3,windows", "--min-severity", "warn"]] {
        let plan = plan(&root, options);
        let args =
            ["scan", "--format", "json"].iter().chain(options).map(OsStr::new).chain([root.as_os_str()]);
        let output = run(args);
        let mut suggested = 0;
        for line in stdout(&output).lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let Some(new) = value["repair"].as_str() else { continue };
            suggested += 1;
            let rename = plan.renames.iter().find(|rename| rename.new == new);
            let label = value["repair_confidence"].as_str().unwrap();
            assert_eq!(rename.map(|rename| rename.confidence.as_str()), Some(label), "{line}");
        }
        assert_eq!(suggested, plan.renames.len(), "{}", stdout(&output));
    }
}

#[test]
fn no_name_is_shortened_unless_that_is_requested() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    let names: Vec<Vec<u8>> =
        (1..=3).map(|n| [&[0xFC; 150][..], format!(" Teil {n}.docx").as_bytes()].concat()).collect();
    make(&root, &names.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let by_default = plan(&root, &["--encoding", "latin1"]);
    assert_eq!((by_default.renames.len(), by_default.skipped.len()), (0, 3));
    assert!(by_default.skipped[0].why.ends_with("--shorten shortens it"), "{}", by_default.skipped[0].why);
    let text = run([
        OsStr::new("fix"),
        "plan".as_ref(),
        "--encoding=l1".as_ref(),
        "--format=text".as_ref(),
        root.as_os_str(),
    ]);
    assert!(stdout(&text).contains("  3: decoded it has 312 bytes"), "{}", stdout(&text));
    let shorter = plan(&root, &["--encoding", "latin1", "--shorten"]);
    assert!(shorter.header.shorten);
    assert_eq!(shorter.renames.len(), 3);
    for (number, rename) in (1..).zip(&shorter.renames) {
        assert!(
            rename.new.len() <= 255 && rename.new.ends_with(&format!(" Teil {number}.docx")),
            "{}",
            rename.new
        );
        assert_eq!(rename.confidence, Confidence::Guess);
        assert!(rename.reasons.iter().any(|rule| rule.name() == "name-too-long"));
        assert_eq!(rename.reading, "windows-1252, shorten");
    }
}

#[test]
fn what_is_inside_a_repository_is_listed_and_never_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    make(
        &root,
        &[
            b"work/.git/HEAD",
            b"work/.git/refs/heads/fix/con",
            b"work/con",
            b"bare.git/HEAD",
            b"bare.git/objects/x",
            b"bare.git/refs/heads/aux",
            b"svn/.svn/a?",
            b"hg/.hg/b:",
            b"bzr/.bzr/c*",
            b"jj/.jj/repo/d|",
            b"darcs/_darcs/patches/e?",
            b"pijul/.pijul/f?",
            b"no/HEAD",
            b"no/refs/nul",
        ],
    );
    let found = plan(&root, &["--target", "windows"]);
    let expected: [(&[u8], &str); 2] = [(b"nul", "nul_"), (b"con", "con_")];
    let mut renamed = renames(&found);
    renamed.sort_unstable();
    assert_eq!(renamed, {
        let mut sorted = expected;
        sorted.sort_unstable();
        sorted
    });
    assert_eq!(found.skipped.len(), 8, "{:?}", found.skipped);
    assert!(found.skipped.iter().all(|skipped| skipped.why.contains("inside a repository")));
    assert_eq!(found.header.git_renames, 1);
    // From inside, and in a scan.
    for inside in ["work/.git/refs", "bare.git/refs"] {
        assert_eq!(plan(&root.join(inside), &["--target", "windows"]).renames.len(), 0, "{inside}");
    }
    let scan = run([OsStr::new("scan"), "--target=windows".as_ref(), root.as_os_str()]);
    assert!(stdout(&scan).contains("8 names are inside repositories"), "{}", stdout(&scan));
    assert!(!stdout(&scan).contains("aux_"), "{}", stdout(&scan));
}

#[test]
fn git_knows_the_new_names_and_after_an_undo_the_old_ones() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("w");
    make(&root, &[b"con", b"a:b/x?y", b"a:b/good", b"untracked?"]);
    if git(&root, &["init", "-q"], b"").is_none() {
        return;
    }
    let git = |args: &[&str]| String::from_utf8(git(&root, args, b"").unwrap()).unwrap();
    git(&["add", "con", "a:b"]);
    git(&["commit", "-q", "-m", "x"]);
    fs::write(root.join("con"), "changed and not staged").unwrap();
    let file = dir.path().join("plan.jsonl");
    let fix = |args: &[&OsStr]| {
        let output = namegate().env("XDG_STATE_HOME", dir.path()).arg("fix").args(args).output().unwrap();
        assert_eq!(status(&output), 0, "{}{}", stdout(&output), stderr(&output));
        stdout(&output).to_owned()
    };
    let said = fix(&[
        "plan".as_ref(),
        root.as_os_str(),
        "--target=windows".as_ref(),
        "-o".as_ref(),
        file.as_os_str(),
    ]);
    assert!(said.contains("4 renames are in Git work trees; `fix apply --git`"), "{said}");
    let said = fix(&["apply".as_ref(), file.as_os_str(), "--yes".as_ref(), "--git".as_ref()]);
    assert!(said.contains("3 paths changed in the index of"), "{said}");
    assert_eq!(git(&["ls-files"]), "a_b/good\na_b/x_y\ncon_\n");
    let again = fix(&["apply".as_ref(), file.as_os_str(), "--yes".as_ref()]);
    assert!(again.contains("0 entries renamed") && !again.contains("Git does not know"), "{again}");
    let state = git(&["status", "--porcelain"]);
    assert_eq!(
        state, "R  a:b/good -> a_b/good\nR  a:b/x?y -> a_b/x_y\nRM con -> con_\n?? untracked\n",
        "nothing else"
    );
    fix(&["undo".as_ref(), "--last".as_ref(), "--yes".as_ref()]);
    assert_eq!(git(&["status", "--porcelain"]), " M con\n?? untracked?\n");
}

#[test]
fn an_undo_of_the_last_run_asks_and_can_be_shown_first() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("w");
    make(&root, &[b"con", b"a:b/x?y"]);
    let (file, journal) = (dir.path().join("plan.jsonl"), dir.path().join("elsewhere.jsonl"));
    let fix = |args: &[&OsStr], expected: i32| {
        let output = namegate().env("XDG_STATE_HOME", dir.path()).arg("fix").args(args).output().unwrap();
        let text = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(status(&output), expected, "{text}");
        text
    };
    let (apply, yes, at) = (OsStr::new("apply"), OsStr::new("--yes"), OsStr::new("--journal"));
    fix(
        &["plan".as_ref(), root.as_os_str(), "--target=windows".as_ref(), "-o".as_ref(), file.as_os_str()],
        0,
    );
    fix(&[apply, file.as_os_str(), yes, at, journal.as_os_str()], 0);
    let again = fix(&[apply, file.as_os_str(), yes, at, journal.as_os_str()], 2);
    assert!(again.contains("--resume --journal"), "{again}");
    let resumed = fix(&[apply, file.as_os_str(), "--resume".as_ref()], 0);
    assert!(
        resumed.contains("the plan is done; the journal is") && resumed.contains("elsewhere"),
        "{resumed}"
    );
    let (undo, last) = (OsStr::new("undo"), OsStr::new("--last"));
    let shown = fix(&[undo, last, "--dry-run".as_ref()], 0);
    assert!(shown.contains("/w/con_ -> con\n") && shown.contains("Nothing was changed."), "{shown}");
    let asked = fix(&[undo, last], 1);
    let (tree, place) = (root.canonicalize().unwrap(), journal.canonicalize().unwrap());
    for part in [tree.to_str().unwrap(), place.to_str().unwrap(), "3 names and link targets", "--yes"] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    assert!(root.join("con_").exists());
    fix(&[undo, last, yes], 0);
    assert!(root.join("con").exists() && root.join("a:b/x?y").exists());
}

#[test]
fn encoded_text_is_decoded_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    make(&root, &[b"%E5%85%A8.txt", b"=?utf-8?B?w4RyZ2VyLnBkZg==?=", b"Q&amp;A", b"dir%20x/y%20z"]);
    assert_eq!(plan(&root, &[]).renames.len(), 0);
    let percent = plan(&root, &["--decode", "percent"]);
    let expected: [(&[u8], &str); 3] =
        [(b"y%20z", "y z"), (b"%E5%85%A8.txt", "全.txt"), (b"dir%20x", "dir x")];
    assert_eq!(renames(&percent), expected);
    assert_eq!(
        (percent.header.decode.as_slice(), &*percent.renames[0].reading),
        (&["percent".to_owned()][..], "decode percent")
    );
    assert_eq!(plan(&root, &["--decode", "mime,html"]).renames.len(), 2);
}
