//! The hooks in `scripts/hooks`, with a real `git commit` and a real `git push`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use namegate_testkit::program::{copy_program, status, stderr};

/// git without the configuration of whoever runs the test, with the program on its path.
fn git(dir: &Path, args: &[&str]) -> Output {
    let bin = Path::new(env!("CARGO_BIN_EXE_namegate")).parent().unwrap();
    Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["-c", "init.defaultBranch=main", "-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(["-c", "core.protectNTFS=false", "-c", "commit.gpgSign=false"])
        .args(args)
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git was started before")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn must(output: &Output) {
    assert!(output.status.success(), "{}", told(output));
}

fn install(name: &str, into: &Path) {
    let hook = into.join(name);
    fs::create_dir_all(into).unwrap();
    copy_program(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/hooks").join(name), &hook);
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
}

fn add(dir: &Path, name: &[u8]) {
    fs::write(dir.join(OsStr::from_bytes(name)), name).unwrap();
    must(&git(dir, &["add", "-A"]));
}

fn has_git() -> bool {
    let runs = Command::new("git").arg("--version").output().is_ok();
    if !runs {
        println!("SKIPPED: git does not run, so no hook can");
    }
    runs
}

#[test]
fn a_commit_that_adds_a_bad_name_is_refused_and_names_that_are_there_stop_nobody() {
    if !has_git() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    must(&git(dir, &["init", "-q"]));
    add(dir, b"old\xFF");
    add(dir, b"readme");
    must(&git(dir, &["commit", "-qm", "before the hook"]));
    install("pre-commit", &dir.join(".git/hooks"));
    add(dir, b"fine");
    must(&git(dir, &["commit", "-qm", "good"]));
    for (name, rule) in
        [(&b"new\xFE"[..], "invalid-octet"), (b"README", "collision-case"), (b"aux.txt", "reserved-name")]
    {
        add(dir, name);
        let refused = git(dir, &["commit", "-qm", "bad"]);
        assert!(!refused.status.success() && told(&refused).contains(rule), "{}", told(&refused));
        must(&git(dir, &["rm", "-qf", "--ignore-unmatch", "--", "new*", "README", "aux.txt"]));
    }
    // `commit -a` and `commit FILE` have an index of their own.
    add(dir, b"aux.txt");
    fs::write(dir.join("fine"), "changed").unwrap();
    must(&git(dir, &["commit", "-qm", "one file of two", "fine"]));
    assert!(!git(dir, &["commit", "-qam", "all"]).status.success());
    must(&git(dir, &["config", "namegate.profile", "strict"]));
    must(&git(dir, &["commit", "-qam", "all"]));
}

#[test]
fn a_push_that_brings_a_bad_name_is_refused_and_leaves_nothing() {
    if !has_git() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (server, work) = (dir.path().join("server.git"), dir.path().join("work"));
    must(&git(dir.path(), &["init", "-q", "--bare", "server.git"]));
    must(&git(dir.path(), &["clone", "-q", "server.git", "work"]));
    must(&git(&work, &["checkout", "-qb", "main"]));
    install("pre-receive", &server.join("hooks"));
    let push = |refs: &[&str]| git(&work, &[&["push", "-q", "origin"], refs].concat());
    add(&work, b"bad\xFF");
    must(&git(&work, &["commit", "-qm", "bad"]));
    let refused = push(&["main"]);
    assert!(!refused.status.success() && told(&refused).contains("bad\\xFF"), "{}", told(&refused));
    assert!(git(&server, &["for-each-ref"]).stdout.is_empty(), "no ref came");
    fs::remove_file(work.join(OsStr::from_bytes(b"bad\xFF"))).unwrap();
    add(&work, b"readme");
    must(&git(&work, &["commit", "-q", "--amend", "-m", "good"]));
    must(&push(&["main"]));
    // What is there stops nobody; what comes collides with it.
    add(&work, b"more");
    must(&git(&work, &["commit", "-qm", "more"]));
    must(&push(&["main", "main:refs/heads/other"]));
    add(&work, b"README");
    must(&git(&work, &["commit", "-qm", "twin"]));
    for target in ["main", "main:refs/heads/new", "main:refs/tags/new"] {
        let refused = push(&[target]);
        assert!(
            !refused.status.success() && told(&refused).contains("collision-case"),
            "{target}: {}",
            told(&refused)
        );
    }
    must(&push(&[":refs/heads/other"]));
    let heads = String::from_utf8(git(&server, &["for-each-ref", "--format=%(refname)"]).stdout).unwrap();
    assert_eq!(heads.trim(), "refs/heads/main");
}

#[test]
fn a_hook_that_does_not_find_the_program_says_so_first_and_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    for hook in ["pre-commit", "pre-receive"] {
        let output = Command::new("/bin/sh")
            .arg(sources().join("scripts/hooks").join(hook))
            .current_dir(dir.path())
            .env("PATH", dir.path())
            .output()
            .unwrap();
        let text = told(&output);
        let first = text.lines().next().unwrap_or_default();
        assert_eq!(output.status.code(), Some(1), "{hook}");
        assert!(first.starts_with(&format!("{hook}: ")) && first.contains("not on the path"), "{text}");
        assert!(text.to_lowercase().contains("install it") && text.contains("PATH"), "{text}");
    }
}

#[test]
fn a_hook_tells_a_name_that_is_refused_from_a_check_that_failed() {
    if !has_git() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    must(&git(dir, &["init", "-q"]));
    install("pre-commit", &dir.join(".git/hooks"));
    add(dir, b"fine");
    must(&git(dir, &["config", "namegate.profile", "windos"]));
    let failed = git(dir, &["commit", "-qm", "x"]);
    assert!(!failed.status.success() && told(&failed).contains("could not check"), "{}", told(&failed));
    assert!(
        !told(&failed).contains("refuses the commit") && told(&failed).contains("windows"),
        "{}",
        told(&failed)
    );
}

/// The directory of the sources.
fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Whether a program runs.
fn has(program: &str, version: &str) -> bool {
    let runs = Command::new(program).arg(version).output().is_ok_and(|output| output.status.success());
    if !runs {
        println!("SKIPPED: {program} does not run");
    }
    runs
}

#[test]
fn pre_commit_runs_the_hooks_that_are_published() {
    if !has_git() || !has("pre-commit", "--version") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (hooks, work) = (dir.path().join("hooks"), dir.path().join("work"));
    for path in [&hooks, &work] {
        fs::create_dir(path).unwrap();
        must(&git(path, &["init", "-q"]));
    }
    fs::create_dir_all(hooks.join("scripts/hooks")).unwrap();
    for file in [".pre-commit-hooks.yaml", "scripts/hooks/pre-commit"] {
        fs::copy(sources().join(file), hooks.join(file)).unwrap();
    }
    must(&git(&hooks, &["add", "-A"]));
    must(&git(&hooks, &["commit", "-qm", "hooks"]));
    let revision = String::from_utf8(git(&hooks, &["rev-parse", "HEAD"]).stdout).unwrap();
    let config = format!(
        "repos:\n- repo: {}\n  rev: {}\n  hooks:\n  - id: namegate\n    args: [--profile, windows]\n  - id: namegate-paths\n    args: [--profile, windows]\n",
        hooks.display(),
        revision.trim()
    );
    fs::write(work.join(".pre-commit-config.yaml"), config).unwrap();
    must(&git(&work, &["add", "-A"]));
    let bin = Path::new(env!("CARGO_BIN_EXE_namegate")).parent().unwrap();
    let run = |hook: &str| {
        let output = Command::new("pre-commit")
            .args(["run", hook, "--all-files"])
            .current_dir(&work)
            .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
            .env("PRE_COMMIT_HOME", dir.path().join("cache"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        (output.status.success(), text)
    };
    for hook in ["namegate", "namegate-paths"] {
        let (is_good, text) = run(hook);
        assert!(is_good, "{text}");
    }
    add(&work, b"aux.txt");
    for hook in ["namegate", "namegate-paths"] {
        let (is_good, text) = run(hook);
        assert!(!is_good && text.contains("reserved-name"), "{text}");
    }
}

#[test]
fn the_steps_of_the_action_scan_write_sarif_and_report_the_status() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("a tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("good"), "").unwrap();
    let (sarif, outputs) = (dir.path().join("found.sarif"), dir.path().join("outputs"));
    let step = |step: &str, options: &str| {
        fs::write(&outputs, "").unwrap();
        let output = Command::new(sources().join("scripts/action"))
            .arg(step)
            .env("GITHUB_OUTPUT", &outputs)
            .env("NAMEGATE_PROGRAM", env!("CARGO_BIN_EXE_namegate"))
            .env("NAMEGATE_PATH", &tree)
            .env("NAMEGATE_PROFILE", "windows")
            .env("NAMEGATE_OPTIONS", options)
            .env("NAMEGATE_FAIL_ON", "error")
            .env("NAMEGATE_SARIF", &sarif)
            .output()
            .unwrap();
        (output.status.code(), fs::read_to_string(&outputs).unwrap())
    };
    let program = format!("program={}\n", env!("CARGO_BIN_EXE_namegate"));
    assert_eq!(step("program", ""), (Some(0), program));
    assert_eq!(step("scan", ""), (Some(0), "status=0\n".into()));
    // Options are arguments, whatever they contain.
    fs::write(tree.join("con"), "").unwrap();
    assert_eq!(step("scan", "--exclude\n$(touch x) *\n"), (Some(0), "status=1\n".into()));
    assert_eq!(step("scan", "--exclude\ncon"), (Some(0), "status=0\n".into()));
    assert_eq!(step("scan", "--no-such-option"), (Some(2), String::new()));
    assert_eq!(step("nothing", "").0, Some(2));
    step("scan", "");
    let found: serde_json::Value = serde_json::from_slice(&fs::read(&sarif).unwrap()).unwrap();
    assert_eq!(found["runs"][0]["results"][0]["ruleId"], "reserved-name");
    // Every input of the action reaches the script.
    let action = fs::read_to_string(sources().join("action.yml")).unwrap();
    for input in ["program", "path", "profile", "options", "fail-on", "sarif", "upload"] {
        assert!(
            action.contains(&format!("inputs.{input} ")) && action.contains(&format!("\n  {input}:\n")),
            "{input}"
        );
    }
}

/// A release as `gh` downloads it; `gh attestation` says yes if the file `attested` is there.
const GH: &str = r#"#!/bin/sh
case "$1 $2" in
'release download') while [ "$1" != --dir ]; do shift; done; cp "$FAKE_RELEASE"/* "$2" ;;
'attestation verify') test -e "$FAKE_RELEASE/../attested" ;;
esac
"#;

#[test]
fn the_action_uses_a_release_only_if_its_sum_and_its_attestation_are_right() {
    if Path::new("/usr/bin/namegate").exists() {
        return println!("SKIPPED: the action uses the program that is installed here");
    }
    let dir = tempfile::tempdir().unwrap();
    let make = r#"mkdir bin release runner namegate-x && cp "$1" bin/gh && chmod +x bin/gh && printf '#!/bin/sh\necho released' >namegate-x/namegate &&
        chmod +x namegate-x/namegate && tar -czf "release/namegate-$2-$(uname -m)-linux.tar.gz" namegate-x &&
        cd release && sha256sum * >SHA256SUMS"#;
    fs::write(dir.path().join("gh"), GH).unwrap();
    let make = ["-c", make, "make", "gh", env!("CARGO_PKG_VERSION")];
    assert!(Command::new("sh").args(make).current_dir(dir.path()).status().unwrap().success());
    let at = |name: &str| dir.path().join(name);
    let download = || {
        fs::write(at("outputs"), "").unwrap();
        let output = Command::new(sources().join("scripts/action"))
            .arg("program")
            .env("PATH", format!("{}:/usr/bin:/bin", at("bin").display()))
            .env("FAKE_RELEASE", at("release"))
            .env("RUNNER_TEMP", at("runner"))
            .env("NAMEGATE_ACTION_REPOSITORY", "a/namegate")
            .env("GITHUB_OUTPUT", at("outputs"))
            .output()
            .unwrap();
        (status(&output), fs::read_to_string(at("outputs")).unwrap(), stderr(&output).to_owned())
    };
    let (code, outputs, said) = download();
    assert!(code == 1 && outputs.is_empty() && said.contains("is not what the release workflow"), "{said}");
    fs::write(at("attested"), "").unwrap();
    let (code, outputs, said) = download();
    let program = at("runner/namegate-release/namegate");
    assert_eq!((code, outputs), (0, format!("program={}\n", program.display())), "{said}");
    let sums = fs::read_to_string(at("release/SHA256SUMS")).unwrap();
    fs::write(at("release/SHA256SUMS"), sums.replacen(|digit: char| digit.is_ascii_hexdigit(), "x", 1))
        .unwrap();
    let (code, outputs, said) = download();
    assert!(code == 1 && outputs.is_empty() && said.contains("is not what the release workflow"), "{said}");
}

#[test]
fn an_image_has_the_static_program_and_nothing_else() {
    let program = std::env::var_os("NAMEGATE_STATIC");
    let Some(program) = program.filter(|_| has("buildah", "--version")) else {
        println!(
            "SKIPPED: NAMEGATE_STATIC does not name a program of scripts/build-static, or there is no buildah"
        );
        return;
    };
    let name = format!("namegate-test-{}", std::process::id());
    let buildah = |args: &[&str]| {
        let output = Command::new("buildah").args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let built = Command::new(sources().join("scripts/build-image"))
        .arg("--program")
        .arg(&program)
        .arg(&name)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", told(&built));
    let container = buildah(&["from", &name]);
    let said = buildah(&[
        "run",
        "--isolation",
        "chroot",
        container.trim(),
        "--",
        "/usr/bin/namegate",
        "check",
        "good",
    ]);
    let root = buildah(&["mount", container.trim()]);
    let inside = fs::read(Path::new(root.trim()).join("usr/bin/namegate")).unwrap();
    buildah(&["rm", container.trim()]);
    buildah(&["rmi", &name]);
    assert!(said.is_empty() || said.contains("good"), "{said}");
    assert!(inside == fs::read(&program).unwrap());
}
