//! Plans, decisions, journals and their status.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use namegate_testkit::program::{namegate, run, status, stderr};

use crate::Outputs;
use crate::commands::path_of;

/// Names, and what becomes of them: two swap names, one is decoded, one moves, one has a link, one has no shorter name, and the
/// directory of one is gone when the plan is applied.
const NAMES: [&[u8]; 7] = [
    b"a%62",
    b"a%63",
    b"caf\xE9",
    b"into\\file",
    b"gone/a%64",
    b"x%2e-much-longer-than-the-limit-allows",
    b"fine",
];

pub fn check(outputs: &mut Outputs) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let tree = path("tree");
    fs::create_dir_all(tree.join("gone")).unwrap();
    NAMES.iter().for_each(|name| drop(File::create(tree.join(path_of(name))).unwrap()));
    symlink(path_of(b"caf\xE9"), tree.join("link")).unwrap();
    let config = path("config.toml");
    fs::write(&config, "profiles = [\"utf8\"]\n[limits]\nname-bytes = 30\n").unwrap();
    let decode =
        ["--decode", "percent,backslash", "--encoding", "latin1", "--config", config.to_str().unwrap()];
    let arguments = || decode.iter().map(|arg| (*arg).into()).chain([tree.clone().into_os_string()]);
    let made = outputs.run("fix plan", arguments());
    let text = String::from_utf8(made.stdout).unwrap();
    let text =
        text.replace("\"new\":\"ab\"", "\"new\":\"a%63\"").replace("\"new\":\"ac\"", "\"new\":\"a%62\"");
    let [plan, journal] = ["plan.jsonl", "journal.jsonl"].map(path);
    fs::write(&plan, &text).unwrap();
    fs::remove_dir_all(tree.join("gone")).unwrap();
    for option in ["--keep-original", "--keep-times"] {
        let _ = fs::remove_file(&journal);
        let mut apply = namegate();
        apply.args(["fix", "apply", "--yes", "--at-least", "guess", option]);
        let applied = apply.arg("--journal").arg(&journal).arg(&plan).output().unwrap();
        assert_eq!(status(&applied), 1, "a directory is gone: {}", stderr(&applied));
        outputs.run("fix status", [&journal]);
        run(["fix".as_ref(), "undo".as_ref(), journal.as_os_str(), "--yes".as_ref()]);
        outputs.run("fix status", [&journal]);
        outputs.check("journal", &fs::read_to_string(&journal).unwrap());
    }
    check_decisions(outputs, dir.path(), &plan);
}

/// What the page saves. A browser makes such files in `tests/html/review.rs`; the program reads this one.
fn check_decisions(outputs: &mut Outputs, dir: &Path, plan: &PathBuf) {
    let sum = std::process::Command::new("sha256sum").arg(plan).output().unwrap();
    let sha256 = String::from_utf8(sum.stdout[..64].to_vec()).unwrap();
    let text = format!(
        "{{\"type\":\"decisions\",\"version\":1,\"plan_sha256\":\"{sha256}\",\"plan\":\"plan.jsonl\",\"saved\":\"2026-01-02T03:04:05Z\"}}\n\
         {{\"id\":1,\"decision\":\"leave\"}}\n{{\"id\":2,\"decision\":\"rename\",\"new\":\"other\"}}\n"
    );
    let decisions = dir.join("decisions.jsonl");
    fs::write(&decisions, &text).unwrap();
    let shown = run([
        "fix".as_ref(),
        "show".as_ref(),
        plan.as_os_str(),
        "--decisions".as_ref(),
        decisions.as_os_str(),
    ]);
    assert_eq!(status(&shown), 0, "{}", stderr(&shown));
    outputs.check("decisions", &text);
}
