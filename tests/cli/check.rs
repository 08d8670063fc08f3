//! `namegate check`: arguments, standard input, formats, exit status.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use namegate_testkit::program::{run, run_with, status, stderr, stdout};
use serde_json::{Value, json};

#[test]
fn each_argument_gets_a_verdict_and_the_worst_decides_the_status() {
    let output = run(["check", "fine.txt"]);
    assert_eq!((status(&output), stdout(&output)), (0, "accept  fine.txt\n"));
    let args = [OsStr::new("check"), OsStr::new("fine.txt"), OsStr::from_bytes(b"caf\xE9.txt")];
    let output = run(args);
    assert_eq!(status(&output), 1);
    let text = stdout(&output);
    assert!(text.contains("accept  fine.txt\n") && text.contains("reject  caf\\xE9.txt\n"), "{text}");
    assert!(text.contains("truncated") && text.contains("byte 3"), "{text}");
    assert!(text.contains("café.txt"), "the repair is shown: {text}");
    assert!(!text.contains('\x1B'), "no colours into a pipe");
}

#[test]
fn names_come_from_standard_input_by_lines_or_by_nul() {
    let lines = run_with(["check", "--format", "json"], b"a\nb\xFF\n\nc");
    assert_eq!(status(&lines), 1);
    let objects: Vec<Value> = stdout(&lines).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let verdicts: Vec<(&str, &str)> = objects[..4]
        .iter()
        .map(|o| (o["name_hex"].as_str().unwrap(), o["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(verdicts, [("61", "accept"), ("62ff", "reject"), ("", "reject"), ("63", "accept")]);
    assert_eq!(objects[2]["violations"][0]["rule"], "empty-name");
    assert_eq!(objects[0]["path_base64"], Value::Null, "a name by itself has no path");
    assert_eq!((&objects[4]["type"], &objects[4]["names"]), (&json!("summary"), &json!(4)));
    let nul = run_with(["check", "-0", "--profile", "utf8"], b"a\nb\0c\0");
    assert_eq!(status(&nul), 0);
    assert!(stdout(&nul).contains(r"accept  a\nb"));
}

#[test]
fn profiles_combine_and_say_who_objects() {
    let output = run(["check", "aux.h", "--profile", "windows,macos", "--format", "json"]);
    let object: Value = serde_json::from_str(stdout(&output).lines().next().unwrap()).unwrap();
    assert_eq!(object["violations"][0]["rule"], "reserved-name");
    assert_eq!(object["violations"][0]["profiles"], json!(["windows"]));
    assert_eq!(object["repair"], "aux_.h");
}

#[test]
fn a_wrong_profile_or_encoding_is_trouble_that_names_the_nearest() {
    let output = run(["check", "x", "--profile", "window"]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("similar value exists: 'windows'"), "{}", stderr(&output));
    let output = run(["check", "x", "--encoding", "koi9"]);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("koi9"), "{}", stderr(&output));
}

#[test]
fn an_encoding_says_how_bad_names_were_meant() {
    let name = OsStr::from_bytes(b"\xD0\xD2\xC9\xD7\xC5\xD4");
    let args = [OsStr::new("check"), name, OsStr::new("--encoding"), OsStr::new("koi8-r")];
    let output = run(args);
    assert!(stdout(&output).contains("привет"), "{}", stdout(&output));
}

#[test]
fn a_name_without_end_is_trouble_and_the_next_is_checked() {
    let mut stream = vec![b'x'; (1 << 20) + 10];
    stream.extend(b"\0ok\0");
    let output = run_with(["check", "-0"], &stream);
    assert_eq!(status(&output), 2);
    assert!(stderr(&output).contains("name 1 of standard input"), "{}", stderr(&output));
    assert!(stdout(&output).contains("accept  ok"));
}

#[test]
fn quiet_tells_by_the_status_alone() {
    for (name, expected) in [("fine", 0), ("tab\t", 1)] {
        let output = run(["check", "--quiet", name]);
        assert_eq!((status(&output), stdout(&output), stderr(&output)), (expected, "", ""));
    }
}

#[test]
fn paths_are_checked_component_by_component_and_together() {
    assert_eq!(status(&run(["check", "a/b"])), 1, "a name has no `/`");
    let args = ["check", "--paths", "--profile", "windows", "--format", "json", "a/b?/c", "a/b?/d", "A/x"];
    let output = run(args);
    let lines: Vec<Value> = stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<(&str, &str)> = lines
        .iter()
        .filter(|line| line["type"] == "finding")
        .map(|line| (line["path"].as_str().unwrap(), line["violations"][0]["rule"].as_str().unwrap()))
        .collect();
    let expected = [("A", "collision-case"), ("a", "collision-case"), ("a/b?", "reserved-character")];
    assert_eq!((status(&output), found), (1, expected.to_vec()));
    assert_eq!(lines.last().unwrap()["names"], 6, "each component once");
    let listed = run_with(["check", "--paths", "-0", "-q"], b"a/b\0c/d\xFF\0");
    assert_eq!((status(&listed), stdout(&listed), stderr(&listed)), (1, "", ""));
    assert_eq!(status(&run_with(["check", "--paths"], b"a/b\n/c//d/\n")), 0);
}

#[test]
fn a_rule_has_one_line_for_a_name() {
    let output = run([OsStr::new("check"), OsStr::from_bytes(b"a\xFFb\xFFc\xFF\t")]);
    let text = stdout(&output);
    assert_eq!(text.matches("invalid-octet").count(), 1, "{text}");
    assert!(text.contains("; also at byte 3 and byte 5"), "{text}");
}

#[test]
fn text_is_wrapped_at_the_width_of_the_terminal_and_nowhere_else() {
    let program = env!("CARGO_BIN_EXE_namegate");
    let command = format!("stty cols 60 rows 20; '{program}' --color never check aux.txt --profile windows");
    let Ok(output) = std::process::Command::new("script").args(["-qec", &command, "/dev/null"]).output()
    else {
        return println!("SKIPPED: no script(1)");
    };
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("reserved-name"), "{text}");
    assert!(text.lines().all(|line| line.trim_end().chars().count() <= 60), "{text}");
}

#[test]
fn paths_that_are_checked_as_names_lead_to_the_option_for_paths() {
    for (args, is_said) in [
        (&["dir/file"][..], true),
        (&["a/b", "c"], true),
        (&["a/b", "c", "d"], false),
        (&["a", "b"], false),
        (&["--paths", "a/b"], false),
    ] {
        let output = run(["check"].iter().chain(args));
        assert_eq!(stderr(&output).contains("--paths checks them as paths"), is_said, "{args:?}");
    }
    let piped = run_with(["check", "--quiet"], b"a/b\nc/d\n");
    assert!(stderr(&piped).contains("2 of 2 names have a `/`"), "{}", stderr(&piped));
}
