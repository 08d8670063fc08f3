//! Rules that depend on the kind and the place of an entry, what targets leave behind, and what a scan without options finds.

use std::fs;
use std::path::Path;

use serde_json::Value;

use namegate_testkit::program::{namegate, status, stdout};

/// Scans `path` with options; the lines of its JSON.
fn scan(dir: &Path, args: &[&str]) -> Vec<Value> {
    let output =
        namegate().arg("scan").args(args).args(["--format", "json"]).current_dir(dir).output().unwrap();
    assert!(status(&output) < 2, "{}", String::from_utf8_lossy(&output.stderr));
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn name_of(line: &Value) -> &str {
    line["path"].as_str().unwrap().rsplit('/').next().unwrap()
}

/// `name severity rule: message`, for each violation of a name.
fn violations(lines: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    for line in lines.iter().filter(|line| line["violations"].is_array()) {
        let name = name_of(line);
        for v in line["violations"].as_array().unwrap() {
            let [severity, rule, message] =
                [&v["severity"], &v["rule"], &v["message"]].map(|text| text.as_str().unwrap());
            found.push(format!("{name:.12} {severity} {rule}: {message}"));
        }
    }
    found.sort();
    found
}

/// Suggested names by name.
fn suggested(lines: &[Value]) -> Vec<(String, String)> {
    let lines = lines.iter().filter(|line| line["violations"].is_array());
    lines.filter_map(|line| Some((name_of(line).into(), line["repair"].as_str()?.into()))).collect()
}

#[test]
fn windows_limits_the_paths_of_files_and_directories_differently() {
    let dir = tempfile::tempdir().unwrap();
    let long = |letter: char, len: usize| letter.to_string().repeat(len - "t/".len());
    fs::create_dir_all(dir.path().join("t")).unwrap();
    let prefix = "C:\\d";
    let prefix_len = prefix.len() + 1;
    for (letter, total) in [('a', 247), ('b', 248)] {
        fs::create_dir(dir.path().join("t").join(long(letter, total - prefix_len + 2))).unwrap();
    }
    let below = dir.path().join("t").join("d".repeat(100));
    fs::create_dir(&below).unwrap();
    for (letter, total) in [("e", 248), ("f", 259), ("g", 260)] {
        fs::write(below.join(letter.repeat(total - prefix_len - 101)), "").unwrap();
    }
    let expected = [
        "bbbbbbbbbbbb warn path-too-long: 248 UTF-16 units, at most 247 for a directory (windows)",
        "gggggggggggg warn path-too-long: 260 UTF-16 units, at most 259 for a file (windows)",
    ];
    for engine in [&["--jobs", "1"][..], &["--sort"]] {
        let args = [&["t", "--target", "windows", "--prefix", prefix], engine].concat();
        let lines = scan(dir.path(), &args);
        assert_eq!(violations(&lines), expected, "{engine:?}");
    }
}

#[test]
fn sharepoint_refuses_forms_in_the_root_of_a_library_and_folders_that_begin_with_a_tilde() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("site/lib/forms")).unwrap();
    fs::create_dir_all(dir.path().join("site/lib/sub/Forms")).unwrap();
    fs::create_dir_all(dir.path().join("site/lib/~old")).unwrap();
    fs::write(dir.path().join("site/lib/~backup.txt"), "").unwrap();
    let tilde =
        "~old error reserved-name: `~` is reserved at the beginning of a name for a directory (sharepoint)";
    let forms = "is a reserved name at the root of a document library (sharepoint)";
    let lines = scan(dir.path(), &["site", "--target", "sharepoint", "--library-depth", "1"]);
    assert_eq!(violations(&lines), [&format!("forms error reserved-name: `forms` {forms}"), tilde]);
    let pair = |old: &str, new: &str| (old.to_owned(), new.to_owned());
    assert_eq!(suggested(&lines), [pair("forms", "forms_"), pair("~old", "_~old")]);
    let plan = namegate()
        .args(["fix", "plan", "site", "--profile", "sharepoint", "--library-depth", "1", "-o", "plan.jsonl"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(status(&plan), 0, "{}", String::from_utf8_lossy(&plan.stderr));
    let plan = fs::read_to_string(dir.path().join("plan.jsonl")).unwrap();
    for new in ["\"new\":\"forms_\"", "\"new\":\"_~old\""] {
        assert!(plan.contains(new), "{plan}");
    }
    assert_eq!(plan.matches("\"new\":").count(), 2, "{plan}");
    // Without the depth nobody knows, so nothing is refused and nothing renamed.
    let lines = scan(dir.path(), &["site", "--target", "sharepoint"]);
    let unknown = "--library-depth says where that is";
    assert_eq!(
        violations(&lines),
        [
            &format!("Forms warn reserved-name: `Forms` {forms}; {unknown}"),
            &format!("forms warn reserved-name: `forms` {forms}; {unknown}"),
            tilde,
        ]
    );
    assert_eq!(suggested(&lines), [pair("~old", "_~old")]);
}

#[test]
fn what_a_target_skips_is_left_behind_and_counted_apart() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("t")).unwrap();
    for name in ["~$report.docx", "desktop.ini", ".DS_Store", "~$a:b.docx", "report.docx"] {
        fs::write(dir.path().join("t").join(name), "").unwrap();
    }
    let lines = scan(dir.path(), &["t", "--target", "sharepoint"]);
    let target = &lines.last().unwrap()["targets"][0];
    assert_eq!([&target["left_behind"], &target["ready"], &target["rejected"]], [4, 2, 0], "{target}");
    assert_eq!(target["verdict"], "ready");
    let text =
        namegate().args(["scan", "t", "--target", "sharepoint,windows"]).current_dir(dir.path()).output();
    let text = text.unwrap();
    let text = stdout(&text);
    let row = |name: &str| {
        let row = text.lines().find(|line| line.starts_with(name) && line.contains("ready"));
        row.unwrap_or_else(|| panic!("{text}")).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("target"), "target ready refused changed merged too long warned left behind verdict");
    assert_eq!(row("sharepoint"), "sharepoint 2 0 0 0 0 0 4 ready");
    assert_eq!(row("windows"), "windows 5 1 0 0 0 0 0 not ready");
    assert!(text.contains("verdict: not ready for windows: 1 name does not arrive as it is"), "{text}");
    let suggested: Vec<_> = suggested(&lines).into_iter().map(|(old, _)| old).collect();
    assert!(!suggested.iter().any(|old| old == "desktop.ini" || old == "~$report.docx"), "{suggested:?}");
}

#[test]
fn a_scan_without_options_finds_what_nobody_sees() {
    let dir = tempfile::tempdir().unwrap();
    let share = dir.path().join("share");
    fs::create_dir(&share).unwrap();
    for name in ["invoice\u{202E}fdp.exe", "minutes.txt ", " first", "a\u{200B}b", "plain"] {
        fs::write(share.join(name), "").unwrap();
    }
    let rules = |lines: &[Value]| {
        let found = violations(lines).into_iter();
        let rules = found.filter_map(|text| Some(text.split(" warn ").nth(1)?.split(':').next()?.to_owned()));
        let mut rules: Vec<String> = rules.collect();
        rules.sort();
        rules
    };
    let lines = scan(dir.path(), &["share"]);
    assert_eq!(rules(&lines), ["bidi-control", "default-ignorable", "leading-space", "trailing-space"]);
    assert_eq!(lines.last().unwrap()["rejected"], 0, "they are in honest use");
    assert!(scan(dir.path(), &["share", "--profile", "utf8"]).len() == 1, "the profile of a mount");
}

#[test]
fn room_can_be_reserved_for_programs_that_add_to_a_name() {
    let check = |args: &[&str]| namegate().arg("check").args(args).output().unwrap();
    let name = "a".repeat(240);
    assert_eq!(status(&check(&["--profile", "utf8", &name])), 0);
    let output = check(&["--profile", "utf8", "--reserve", "16", &name]);
    assert_eq!(status(&output), 1);
    let text = stdout(&output);
    assert!(text.contains("240 bytes, at most 239 (config), beside the reserved 16"), "{text}");
    let output = check(&["--profile", "ecryptfs", "--reserve", "10", &"a".repeat(134)]);
    assert!(stdout(&output).contains("134 bytes, at most 133 (ecryptfs)"), "{}", stdout(&output));
    assert_eq!(status(&check(&["--reserve", "0", "a"])), 2);
}

#[test]
fn profiles_have_the_names_that_people_use() {
    for (alias, name) in [("onedrive", "sharepoint"), ("ntfs", "windows"), ("apfs", "macos"), ("smb3", "smb")]
    {
        let [by_alias, by_name] = [alias, name].map(|name| {
            let output =
                namegate().args(["check", "--profile", name, "a:b", "--format", "json"]).output().unwrap();
            assert!(status(&output) < 2, "{}", String::from_utf8_lossy(&output.stderr));
            stdout(&output).to_owned()
        });
        assert_eq!(by_alias, by_name, "{alias}");
    }
}
