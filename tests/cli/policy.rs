//! The commands around policies, run as people run them: the binary itself.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use namegate_core::policy::profile;
use namegate_core::policy::rule::RULES;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

/// What a run printed and ended with.
struct Run {
    status: i32,
    out: String,
    err: String,
}

fn namegate(args: &[&str]) -> Run {
    run_in(Path::new("."), args)
}

fn run_in(dir: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_namegate"));
    command.args(args).current_dir(dir).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
    let Output { status, stdout, stderr } = command.output().expect("the binary was built for this test");
    let text = |bytes| String::from_utf8(bytes).expect("all output is UTF-8");
    Run { status: status.code().expect("no signal"), out: text(stdout), err: text(stderr) }
}

fn clean(args: &[&str]) -> String {
    let run = namegate(args);
    assert_eq!((run.status, run.err.as_str()), (0, ""), "{args:?}");
    run.out
}

fn json_lines(args: &[&str]) -> Vec<Value> {
    clean(args).lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

fn with_file(text: impl AsRef<[u8]>, args: &[&str]) -> Run {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("p.toml"), text).expect("a file in it");
    run_in(dir.path(), args)
}

#[test]
fn the_documents_made_from_tables_are_up_to_date() {
    for (file, args) in
        [("docs/RULES.md", "rules --format markdown"), ("docs/PROFILES.md", "profiles --format markdown")]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let kept = fs::read_to_string(path).unwrap_or_default();
        let made = clean(&args.split(' ').collect::<Vec<_>>());
        assert!(kept == made, "{file} is out of date: run `cargo run -q -- {args} > {file}`");
    }
}

#[test]
fn text_for_people_keeps_to_80_columns_and_is_plain_where_nobody_looks() {
    let names: Vec<&str> = profile::ALL.iter().map(|p| p.name).collect();
    let all = names.join(",");
    let shown: Vec<&str> = ["profiles"].into_iter().chain(names.iter().copied()).collect();
    let runs: [&[&str]; 5] = [
        &["rules"],
        &["profiles"],
        &shown,
        &["policy", "show"],
        &["policy", "show", "--profile", &all, "--normalize", "nfd", "--on-mismatch", "match"],
    ];
    for args in runs {
        let text = clean(args);
        for line in text.lines() {
            assert!(line.width() <= 80, "{args:?}: {line}");
            assert_eq!(line, line.trim_end(), "{args:?}");
        }
        assert!(!text.contains('\u{1b}'), "{args:?}");
        let coloured: Vec<&str> = args.iter().copied().chain(["--color", "always"]).collect();
        assert!(clean(&coloured).contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn rules_lists_every_rule_in_every_format() {
    let (text, markdown) = (clean(&["rules"]), clean(&["rules", "--format", "markdown"]));
    let lines = json_lines(&["rules", "--format", "json"]);
    assert_eq!(lines.len(), RULES.len());
    for (rule, line) in RULES.iter().zip(lines) {
        assert_eq!(line["rule"], rule.name);
        assert_eq!(
            (&line["kind"], &line["severity"]),
            (&rule.kind.as_str().into(), &rule.default.as_str().into())
        );
        assert_eq!((&line["description"], &line["source"]), (&rule.summary.into(), &rule.source.into()));
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(rule.name)), "{}", rule.name);
        assert!(markdown.contains(&format!("| `{}` | {} |", rule.name, rule.default)), "{}", rule.name);
    }
}

#[test]
fn profiles_lists_all_and_shows_the_lines_of_some() {
    let list = clean(&["profiles"]);
    let lines = json_lines(&["profiles", "--format", "json"]);
    assert_eq!(lines.len(), profile::ALL.len());
    for (profile, line) in profile::ALL.iter().zip(lines) {
        assert!(
            list.lines().any(|line| line.split_whitespace().next() == Some(profile.name)),
            "{}",
            profile.name
        );
        assert_eq!(line["profile"], profile.name);
        assert_eq!(line["lines"].as_array().map(Vec::len), Some(profile.rules.len()));
        for (line, json) in profile.rules.iter().zip(line["lines"].as_array().into_iter().flatten()) {
            assert_eq!(json["rule"], line.test.rule().name());
            assert_eq!(json["verified"], line.verified);
            assert_eq!(json["parameter"], Value::from(line.test.parameter()));
        }
    }
    let shown = clean(&["profiles", "strict"]);
    assert!(shown.starts_with("strict: ") && shown.contains("\nincludes utf8\n"), "{shown}");
    assert!(shown.contains("\nc0-control               error  "), "{shown}");
    let unknown = namegate(&["profiles", "strct"]);
    assert_eq!(unknown.status, 2);
    assert!(unknown.err.contains("a similar value exists: 'strict'"), "{}", unknown.err);
}

#[test]
fn policy_check_says_ok_or_every_mistake() {
    let good = with_file("profiles = []\n[rules]\nleading-dash = 'warn'\n", &["policy", "check", "p.toml"]);
    assert_eq!(
        (good.status, good.out.as_str(), good.err.as_str()),
        (0, "p.toml: ok, 13 rules in effect\n", "")
    );
    let bad = with_file("[rules]\nleading-dsh = 'warn'\n", &["policy", "check", "p.toml", "absent.toml"]);
    assert_eq!(bad.status, 2);
    assert_eq!(
        bad.out,
        "p.toml:2:1: unknown rule `leading-dsh`; did you mean `leading-dash`?\n\
         2 | leading-dsh = 'warn'\n  | ^^^^^^^^^^^\n\
         absent.toml: cannot be read: No such file or directory (os error 2)\n"
    );
    let incomplete = with_file("[rules]\nname-too-long = 'warn'\n", &["policy", "check", "p.toml"]);
    assert_eq!(incomplete.status, 2);
    assert!(
        incomplete.out.starts_with("p.toml:2:1: rule `name-too-long` is on but has no length"),
        "{}",
        incomplete.out
    );
    assert_eq!(namegate(&["policy", "check"]).status, 2);
}

#[test]
fn a_file_that_is_no_configuration_is_refused_by_name() {
    let show = ["policy", "show", "--config", "p.toml"];
    let cases: [(Vec<u8>, &str); 4] = [
        (
            vec![b' '; (1 << 20) + 1],
            "namegate: p.toml: too long for a configuration: more than 1048576 bytes\n",
        ),
        (b"# caf\xE9\n".to_vec(), "namegate: p.toml: not UTF-8: the byte E9 at offset 5\n"),
        (b"x=1".to_vec(), "namegate: p.toml:1:1: unknown key `x`\n1 | x=1\n  | ^\n"),
        (
            b"[rules]\nnot-in-form='warn'".to_vec(),
            "namegate: p.toml:2:1: rule `not-in-form` is on but has no form",
        ),
    ];
    for (bytes, message) in cases {
        let run = with_file(bytes, &show);
        assert_eq!((run.status, run.out.as_str()), (2, ""), "{message}");
        assert!(run.err.starts_with(message), "{}", run.err);
    }
    assert_eq!(with_file(vec![b' '; 1 << 20], &show).status, 0);
    let run = with_file("", &["policy", "show", "--config", "."]);
    assert!(run.status == 2 && run.err.starts_with("namegate: .: cannot be read: "), "{}", run.err);
}

#[test]
fn options_replace_what_the_file_says() {
    let file = "profiles = ['strict']\n[rules]\nnot-in-form = 'warn'\n[normalization]\nform = 'nfc'\non-mismatch = 'match'\n\
        [limits]\nname-bytes = 9\n";
    let show = |args: &[&str]| -> Run {
        let all: Vec<&str> = ["policy", "show", "--format", "toml", "--config", "p.toml"]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        with_file(file, &all)
    };
    // `match` brings no line for `not-in-form`, so that rule lacks its parameter until an option supplies one.
    let run = show(&[]);
    assert!(
        run.status == 2 && run.err.starts_with("namegate: p.toml:3:1: rule `not-in-form` is on"),
        "{}",
        run.err
    );
    let run = show(&["--normalize", "nfd", "--profile", "utf8"]);
    let expected = "profiles = [\"utf8\"]\n\n[rules]\nnot-in-form = \"warn\"\n\n[normalization]\nform = \"nfd\"\n\
        on-mismatch = \"refuse\"\n\n[limits]\nname-bytes = 9\n";
    assert_eq!((run.out.as_str(), run.err.as_str()), (expected, ""));
    let run = show(&[
        "--normalize",
        "nfkc",
        "--on-mismatch",
        "convert",
        "--profile",
        "utf8,strict",
        "--profile",
        "utf8",
    ]);
    assert!(run.out.starts_with("profiles = [\"utf8\", \"strict\"]\n"), "{}", run.out);
    assert!(run.out.contains("form = \"nfkc\"\non-mismatch = \"convert\"\n"), "{}", run.out);
    let run = show(&["--on-mismatch", "convert"]);
    assert!(run.status == 2 && run.err.contains("--normalize <FORM>"), "{}", run.err);
}

#[test]
fn policy_show_tells_who_asks_for_what() {
    let file = "reserved-characters = '#'\n[rules]\ndelete = 'warn'\n[normalization]\nform = 'nfc'\n";
    let text = with_file(file, &["policy", "show", "--config", "p.toml"]).out;
    assert!(text.starts_with("profiles       strict\nUnicode        "), "{text}");
    assert!(text.contains("\nnormalization  NFC; a name in another form is refused\n"), "{text}");
    assert!(text.contains("\ndelete                   warn   required by strict\n"), "{text}");
    assert!(text.contains("\nreserved-character       error  #\n"), "{text}");
    assert!(text.ends_with("\n8 as errors, 10 as warnings\n"), "{text}");
    let json = with_file(file, &["policy", "show", "--config", "p.toml", "--format", "json"]).out;
    let json: Value = serde_json::from_str(&json).expect("one JSON object");
    assert_eq!(json["profiles"], serde_json::json!(["strict"]));
    assert_eq!(json["normalization"], serde_json::json!({ "form": "nfc", "on_mismatch": "refuse" }));
    let line =
        json["lines"].as_array().and_then(|lines| lines.iter().find(|l| l["rule"] == "reserved-character"));
    let line = line.expect("the line is there");
    assert_eq!((&line["parameter"], &line["profiles"]), (&"#".into(), &serde_json::json!(["config"])));
}

#[test]
fn what_policy_show_writes_as_toml_shows_the_same_policy() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let names: Vec<&str> = profile::ALL.iter().map(|p| p.name).collect();
    let options = ["--profile", &names.join(","), "--normalize", "nfc", "--on-mismatch", "convert"];
    let show = |format: &str, options: &[&str]| {
        let args: Vec<&str> =
            ["policy", "show", "--format", format].into_iter().chain(options.iter().copied()).collect();
        let run = run_in(dir.path(), &args);
        assert_eq!((run.status, run.err.as_str()), (0, ""));
        run.out
    };
    fs::write(dir.path().join("p.toml"), show("toml", &options)).expect("a file in it");
    for format in ["text", "toml", "json"] {
        assert_eq!(show(format, &options), show(format, &["--config", "p.toml"]), "{format}");
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let main = clean(&["man"]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let made = dir.path().join("share/man1");
    let run = namegate(&["man", made.to_str().expect("temporary names are UTF-8")]);
    assert_eq!((run.status, run.out.as_str(), run.err.as_str()), (0, "", ""));
    let page = |name: &str| fs::read_to_string(made.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    for command in ["rules", "profiles", "policy", "man", "completions"] {
        assert!(page(&format!("namegate-{command}.1")).contains(&format!(".TH namegate-{command}")));
        assert!(main.contains(&format!("namegate\\-{command}(1)")), "{main}");
    }
    for command in ["policy-check", "policy-show"] {
        assert!(page(&format!("namegate-{command}.1")).contains(".SH SYNOPSIS"));
    }
    assert_eq!(page("namegate.1"), main);
    let helper = page("mount.namegate.8");
    for part in [".TH mount.namegate 8 ", "System Administration", ".SH EXAMPLES", "32 not mounted"] {
        assert!(helper.contains(part), "{part} in {helper}");
    }
    fs::write(dir.path().join("file"), "").expect("a file");
    let run = run_in(dir.path(), &["man", "file/x"]);
    assert!(
        run.status == 2 && run.err.starts_with("namegate: cannot write manual pages to file/x: "),
        "{}",
        run.err
    );
}

#[test]
fn shells_accept_their_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = clean(&["completions", shell]);
        assert!(
            script.contains("on-mismatch") && script.contains("nfkc") && script.contains("strict"),
            "{shell}"
        );
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = dir.path().join("script");
        fs::write(&file, script).expect("a file in it");
        match Command::new(shell).arg("-n").arg(&file).output() {
            Err(_) => println!("SKIPPED: {shell} is not installed"),
            Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{output:?}"),
        }
    }
    assert_eq!(namegate(&["completions", "tcsh"]).status, 2);
}
