//! `namegate fix apply --decisions`: what a person decided, and nothing else, is done.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use namegate_testkit::program::{status, stderr, stdout};
use sha2::{Digest, Sha256};

fn fix(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.env("XDG_STATE_HOME", dir).current_dir(dir).arg("fix").args(args).output().unwrap()
}

/// A tree with three names to change, and the plan in `plan`.
fn planned(plan: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    fs::create_dir(&root).unwrap();
    for name in ["a?", "b?", "c?"] {
        fs::write(root.join(name), name).unwrap();
    }
    std::os::unix::fs::symlink("b?", root.join("link")).unwrap();
    let made = fix(dir.path(), &["plan", "tree", "--profile", "windows", "--replacement", "_", "-o", plan]);
    assert_eq!(status(&made), 0, "{}", stderr(&made));
    dir
}

/// Writes decisions about the plan: the lines after the first.
fn decide(dir: &Path, plan: &str, lines: &[&str]) {
    let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(fs::read(dir.join(plan)).unwrap()));
    let head = format!(r#"{{"type":"decisions","version":1,"plan_sha256":"{sha256}"}}"#);
    fs::write(dir.join("decisions.jsonl"), [&[&*head], lines].concat().join("\n")).unwrap();
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir.join("tree")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_accepted_or_changed_is_renamed_and_links_follow_what_was_decided() {
    for plan in ["plan.jsonl", "plan.csv"] {
        let dir = planned(plan);
        decide(
            dir.path(),
            plan,
            &[r#"{"id":1,"decision":"accept"}"#, r#"{"id":2,"decision":"rename","new":"beta"}"#],
        );
        let apply = ["apply", plan, "--decisions", "decisions.jsonl", "--yes"];
        let output = fix(dir.path(), &apply);
        assert_eq!(status(&output), 0, "{}{}", stdout(&output), stderr(&output));
        let said = "Decided: 1 accepted, 1 with another name, 0 left, 1 undecided and left.";
        assert!(stdout(&output).contains(said), "{}", stdout(&output));
        assert_eq!(names(dir.path()), ["a_", "beta", "c?", "link"]);
        assert_eq!(fs::read_link(dir.path().join("tree/link")).unwrap(), Path::new("beta"));
        let again = fix(dir.path(), &[&apply[..4], &["--resume"]].concat());
        assert!(stdout(&again).contains("the plan is done"), "{}{}", stdout(&again), stderr(&again));
        let without = fix(dir.path(), &["apply", plan, "--resume"]);
        assert_eq!(status(&without), 2);
        assert!(
            stderr(&without).contains("give it the --decisions that it began with"),
            "{}",
            stderr(&without)
        );
        let undone = fix(dir.path(), &["undo", "--last", "--yes"]);
        assert_eq!(status(&undone), 0, "{}", stderr(&undone));
        assert_eq!(names(dir.path()), ["a?", "b?", "c?", "link"]);
    }
}

#[test]
fn decisions_that_cannot_be_carried_out_change_nothing_and_say_why() {
    let dir = planned("plan.jsonl");
    let plan = "plan.jsonl";
    for (lines, said) in [
        (
            &[r#"{"id":9,"decision":"accept"}"#][..],
            "the decisions have the rename 9, which the plan does not have",
        ),
        (
            &[r#"{"id":1,"decision":"accept"}"#, r#"{"id":1,"decision":"leave"}"#],
            "line 3: a line above decides about the rename 1 too",
        ),
        (&[r#"{"id":1,"decision":"rename"}"#], "line 2: a decision `rename` has no `new`"),
        (&[r#"{"id":1,"decision":"accept","new":"x"}"#], "`new` belongs to the decision `rename` only"),
        (&[r#"{"id":1,"decision":"rename","new":"../x"}"#], "in the decisions contains"),
        (&[r#"{"id":1,"decision":"maybe"}"#], "unknown variant"),
        (&["{"], "line 2: "),
    ] {
        decide(dir.path(), plan, lines);
        let output = fix(dir.path(), &["apply", plan, "--decisions", "decisions.jsonl", "--yes"]);
        assert_eq!(status(&output), 2, "{lines:?}");
        assert!(stderr(&output).contains(said), "{lines:?}: {}", stderr(&output));
    }
    decide(dir.path(), plan, &[r#"{"id":1,"decision":"accept"}"#]);
    let edited = fs::read_to_string(dir.path().join(plan)).unwrap().replace("a_", "a-");
    fs::write(dir.path().join(plan), edited).unwrap();
    let output = fix(dir.path(), &["apply", plan, "--decisions", "decisions.jsonl", "--yes"]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("about this plan before it was edited"), "{}", stderr(&output));
    for (text, said) in
        [("", "no line of type `decisions`"), ("{\"type\":\"plan\"}", "must have the type `decisions`")]
    {
        fs::write(dir.path().join("decisions.jsonl"), text).unwrap();
        let output = fix(dir.path(), &["apply", plan, "--decisions", "decisions.jsonl"]);
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
    assert_eq!(names(dir.path()), ["a?", "b?", "c?", "link"]);
}

#[test]
fn a_name_that_the_policy_refuses_or_that_is_in_use_is_not_given() {
    let dir = planned("plan.jsonl");
    fs::write(dir.path().join("tree/taken"), "").unwrap();
    let lines =
        [r#"{"id":1,"decision":"rename","new":"con"}"#, r#"{"id":2,"decision":"rename","new":"taken"}"#];
    decide(dir.path(), "plan.jsonl", &lines);
    let output = fix(dir.path(), &["apply", "plan.jsonl", "--decisions", "decisions.jsonl", "--yes"]);
    assert_eq!(status(&output), 1, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(names(dir.path()), ["a?", "b?", "c?", "link", "taken"]);
}

#[test]
fn a_page_has_its_plan_beside_it_or_in_the_other_output() {
    let dir = planned("plan.jsonl");
    let plan = ["plan", "tree", "--profile", "windows"];
    let output = fix(dir.path(), &[&plan[..], &["-o", "alone.html"]].concat());
    let said = "open alone.html in a browser, save, then namegate fix apply alone.jsonl --decisions";
    assert!(stdout(&output).contains(said), "{}", stdout(&output));
    let output = fix(dir.path(), &[&plan[..], &["-o", "with.html", "-o", "other.csv"]].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(!dir.path().join("with.jsonl").exists());
    let sha256 =
        data_encoding::HEXLOWER.encode(&Sha256::digest(fs::read(dir.path().join("other.csv")).unwrap()));
    assert!(fs::read_to_string(dir.path().join("with.html")).unwrap().contains(&sha256));
    let shown = fix(dir.path(), &["show", "other.csv", "-o", "shown.html"]);
    assert_eq!(status(&shown), 0, "{}", stderr(&shown));
    assert!(fs::read_to_string(dir.path().join("shown.html")).unwrap().contains(&sha256));
    // A plan on standard output is nothing but the plan.
    let both = fix(dir.path(), &[&plan[..], &["--json", "-o", "both.html"]].concat());
    assert!(
        stdout(&both).lines().count() > 1 && stdout(&both).lines().all(|line| line.starts_with("{\"type\":"))
    );
    let refused = fix(dir.path(), &[&plan[..], &["--format", "html"]].concat());
    assert!(
        stderr(&refused).contains("a page is written with its plan: -o review.html"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn names_of_an_archive_are_decided_like_those_of_a_tree() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    for name in ["a?", "b?"] {
        fs::write(dir.path().join("in").join(name), name).unwrap();
    }
    let tar =
        Command::new("tar").args(["-cf", "old.tar", "-C", "in", "a?", "b?"]).current_dir(dir.path()).status();
    assert!(tar.unwrap().success());
    let plan =
        fix(dir.path(), &["plan", "--archive", "old.tar", "--profile", "windows", "-o", "review.html"]);
    assert_eq!(status(&plan), 0, "{}", stderr(&plan));
    assert!(
        stdout(&plan).contains("-o COPY --plan review.jsonl --decisions decisions.jsonl"),
        "{}",
        stdout(&plan)
    );
    decide(dir.path(), "review.jsonl", &[r#"{"id":2,"decision":"rename","new":"beta"}"#]);
    let copy =
        ["archive", "old.tar", "-o", "new.tar", "--plan", "review.jsonl", "--decisions", "decisions.jsonl"];
    let copy = fix(dir.path(), &copy);
    assert_eq!(status(&copy), 0, "{}{}", stdout(&copy), stderr(&copy));
    let listed = Command::new("tar").args(["-tf", "new.tar"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(stdout(&listed), "a?\nbeta\n");
}

#[test]
fn a_link_to_a_name_that_a_person_leaves_stays_and_nothing_is_left_undone() {
    let dir = planned("plan.jsonl");
    decide(dir.path(), "plan.jsonl", &[r#"{"id":1,"decision":"accept"}"#, r#"{"id":2,"decision":"leave"}"#]);
    let apply = ["apply", "plan.jsonl", "--decisions", "decisions.jsonl", "--yes"];
    let output = fix(dir.path(), &apply);
    assert_eq!(status(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(names(dir.path()), ["a_", "b?", "c?", "link"]);
    // The same if its line is deleted.
    let dir = planned("plan.jsonl");
    let plan = fs::read_to_string(dir.path().join("plan.jsonl")).unwrap();
    let rest: Vec<&str> = plan.lines().filter(|line| !line.contains(r#""id":2,"old""#)).collect();
    fs::write(dir.path().join("plan.jsonl"), rest.join("\n")).unwrap();
    let output = fix(dir.path(), &["apply", "plan.jsonl", "--yes"]);
    assert_eq!(status(&output), 0, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(names(dir.path()), ["a_", "b?", "c_", "link"]);
    assert_eq!(fs::read_link(dir.path().join("tree/link")).unwrap(), Path::new("b?"));
}
