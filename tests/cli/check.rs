//! `namegate check`: arguments, standard input, formats, exit status.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::run::{run, run_with, status, stderr, stdout};
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
fn a_name_without_end_is_trouble_and_the_next_is_judged() {
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
