//! `namegate fix plan` with conversions of the user: `--map`, `--transliterate`, `--replacement`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use namegate_core::policy::Confidence;
use namegate_fix::plan::{PlanHeader, Rename};

use crate::whole_plan::Plan;
use namegate_testkit::program::{run, status, stderr};

fn make(root: &Path, names: &[&[u8]]) {
    fs::create_dir_all(root).unwrap();
    names.iter().for_each(|name| fs::write(root.join(OsStr::from_bytes(name)), "").unwrap());
}

/// The plan for `root`, by old name.
fn planned(root: &Path, options: &[&str]) -> (PlanHeader, BTreeMap<Vec<u8>, Rename>) {
    let args = ["fix", "plan"].iter().chain(options).map(OsStr::new).chain([root.as_os_str()]);
    let output = run(args);
    assert_eq!((status(&output), stderr(&output)), (0, ""), "{options:?}");
    let plan = Plan::parse(&output.stdout).unwrap();
    let renames = plan.renames.into_iter().map(|rename| (rename.old.clone(), rename));
    (plan.header, renames.collect())
}

/// The new names, by old name.
fn new_names(root: &Path, options: &[&str]) -> BTreeMap<Vec<u8>, String> {
    planned(root, options).1.into_iter().map(|(old, rename)| (old, rename.new)).collect()
}

fn pairs(pairs: &[(&[u8], &str)]) -> BTreeMap<Vec<u8>, String> {
    pairs.iter().map(|(old, new)| (old.to_vec(), (*new).to_owned())).collect()
}

/// Makes the renames, by names in the directory `root`.
fn rename(root: &Path, names: &BTreeMap<Vec<u8>, String>) {
    for (old, new) in names {
        fs::rename(root.join(OsStr::from_bytes(old)), root.join(new)).unwrap();
    }
}

#[test]
fn a_table_of_the_user_replaces_characters_and_the_policy_repairs_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    make(&root, &[b"a: \"x\"", b"a\xEA\x9E\x89 'x'", b"what?*", b"plain", b"caf\xE9:"]);
    let table = dir.path().join("table.txt");
    fs::write(&table, "# for Windows\n: -> ꞉\n\" -> '\n? ->\n").unwrap();
    let options = ["--profile", "windows", "--encoding", "latin1", "--map", table.to_str().unwrap()];
    let (header, renames) = planned(&root, &options);
    assert_eq!(header.map.as_deref(), table.to_str());
    let found: BTreeMap<_, _> =
        renames.iter().map(|(old, rename)| (old.clone(), rename.new.clone())).collect();
    let expected = pairs(&[(b"a: \"x\"", "a꞉ 'x'_2"), (b"what?*", "what"), (b"caf\xE9:", "café꞉")]);
    assert_eq!(found, expected);
    let bytes = &renames[b"caf\xE9:".as_slice()];
    assert_eq!(bytes.reading, format!("windows-1252, map {}", table.display()));
    assert_eq!(bytes.confidence, Confidence::Likely);
    rename(&root, &found);
    assert_eq!(new_names(&root, &options), BTreeMap::new(), "a second plan finds nothing");
}

#[test]
fn a_name_that_rclone_would_write_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let names: &[&[u8]] = &[b"a:b", b"<\"*?\\|>", b"end.", b"end ", b"good"];
    make(dir.path(), names);
    let encoded = new_names(dir.path(), &["--profile", "windows", "--map", "to-rclone"]);
    assert_eq!(
        encoded,
        pairs(&[(b"a:b", "a：b"), (b"<\"*?\\|>", "＜＂＊？＼｜＞"), (b"end.", "end．"), (b"end ", "end␠")])
    );
    rename(dir.path(), &encoded);
    let decoded = new_names(dir.path(), &["--profile", "utf8", "--map", "rclone"]);
    let expected =
        encoded.iter().map(|(old, new)| (new.clone().into_bytes(), String::from_utf8(old.clone()).unwrap()));
    assert_eq!(decoded, expected.collect());
}

#[test]
fn names_of_any_script_and_encoding_are_written_in_ascii() {
    let dir = tempfile::tempdir().unwrap();
    let names: &[&[u8]] = &[
        "Übung".as_bytes(),
        b"Ubung",
        "Привет.txt".as_bytes(),
        b"\xF0\xD2\xC9\xD7\xC5\xD4",
        "cafÃ©".as_bytes(),
        "½".as_bytes(),
        b"plain",
    ];
    make(dir.path(), names);
    let (header, renames) =
        planned(dir.path(), &["--profile", "strict", "--encoding", "koi8-r", "--transliterate"]);
    assert!(header.transliterate);
    let told: BTreeMap<_, _> =
        renames.iter().map(|(old, rename)| (&old[..], (&*rename.new, &*rename.reading))).collect();
    let expected: [(&[u8], (&str, &str)); 5] = [
        ("Übung".as_bytes(), ("Ubung_2", "transliterate")),
        ("Привет.txt".as_bytes(), ("Privet.txt", "transliterate")),
        (b"\xF0\xD2\xC9\xD7\xC5\xD4", ("Privet", "KOI8-R, transliterate")),
        ("cafÃ©".as_bytes(), ("cafe", "UTF-8 read as windows-1252, transliterate")),
        ("½".as_bytes(), ("1_2", "transliterate")),
    ];
    assert_eq!(told, expected.into());
    assert!(renames.values().all(|rename| rename.confidence == Confidence::Likely));
}

#[test]
fn the_user_chooses_what_replaces_a_character() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path(), &[b"a?b", b"a-b", b"CON"]);
    let found = new_names(dir.path(), &["--profile", "windows", "--replacement", "-"]);
    assert_eq!(found, pairs(&[(b"a?b", "a-b-2"), (b"CON", "CON-")]));
    let (header, _) = planned(dir.path(), &["--profile", "windows", "--replacement", "é"]);
    assert_eq!(header.replacement, Some('é'));
}

#[test]
fn wrong_conversions_are_reported_before_anything_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let (wrong, slash) = (file("wrong", b": -> _\nab -> c\n"), file("slash", b": -> a/b\n"));
    let large = file("large", &[b'#'; (1 << 20) + 1]);
    for (options, expected) in [
        (&["--map", &*wrong][..], "wrong: line 2: `ab` is more than one character"),
        (&["--map", &*slash], "slash: line 1: no name can have `/`"),
        (&["--map", &*large], "large has more than 1048576 bytes"),
        (&["--map", "none"], "'none' is none of the mappings sfm, sfu, catia, rclone, to-sfm"),
        (&["--map", "/"], "cannot be read as a table: Is a directory"),
        (&["--replacement", "/"], "does not allow '/'"),
        (&["--profile", "windows", "--replacement", "?"], "does not allow '?'"),
        (&["--profile", "security", "--replacement", "\u{202E}"], "does not allow '\\u{202E}'"),
        (&["--replacement", "ab"], "invalid value 'ab'"),
        (&["--replacement", ""], "invalid value ''"),
    ] {
        let args = ["fix", "plan"].iter().chain(options).map(OsStr::new).chain([dir.path().as_os_str()]);
        let output = run(args);
        assert_eq!(status(&output), 2, "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{options:?}: {}", stderr(&output));
    }
}

#[test]
fn a_pair_of_encodings_is_forced_on_every_name_that_can_be_such_text() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["╙ъ╓╨", "╙ъ╓╨.txt", "plain", "日本", "café", "Müller"];
    make(dir.path(), &names.map(str::as_bytes));
    fs::write(dir.path().join(OsStr::from_bytes(b"caf\xE9")), "").unwrap();
    let options = ["--reread", "cp866:gbk", "--profile", "utf8", "--encoding", "latin1"];
    let (header, renames) = planned(dir.path(), &options);
    assert_eq!(header.reread.as_deref(), Some("GBK read as IBM866"));
    let found: BTreeMap<_, _> =
        renames.iter().map(|(old, rename)| (old.clone(), rename.new.clone())).collect();
    let expected =
        pairs(&[("╙ъ╓╨".as_bytes(), "雨中"), ("╙ъ╓╨.txt".as_bytes(), "雨中.txt"), (b"caf\xE9", "café_2")]);
    assert_eq!(found, expected);
    let rename = &renames["╙ъ╓╨".as_bytes()];
    assert_eq!((&*rename.reading, rename.confidence), ("GBK read as IBM866", Confidence::Likely));
    // What the user says comes before what the rule `mojibake` finds.
    let (_, renames) = planned(dir.path(), &["--reread", "cp866:big5"]);
    assert!(renames.values().all(|rename| rename.reading != "GBK read as IBM866"), "{renames:?}");
    for (pair, error) in [
        ("cp866", "two encodings"),
        ("cp866:big55", "did you mean `Big5`"),
        ("utf-8:gbk", "utf-8"),
        ("gbk:euc-cn", "not damaged"),
    ] {
        let output = run(["fix", "plan", "--reread", pair, "."]);
        assert_eq!(status(&output), 2, "{pair}");
        assert!(stderr(&output).contains(error), "{pair}: {}", stderr(&output));
    }
}

#[test]
fn a_backslash_that_was_a_separator_becomes_a_directory_and_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    make(
        &root,
        &[br"dir\sub\file", b"dir\\caf\xE9", br"here\x", br"C:\x", br"..\x", br"end\", br"file\x", b"file"],
    );
    fs::create_dir(root.join("here")).unwrap();
    fs::create_dir(root.join(r"a\b")).unwrap();
    fs::write(root.join("here").join("x"), "").unwrap();
    assert_eq!(new_names(&root, &["--profile", "utf8", "--encoding", "latin1"]).len(), 1, "the bytes alone");
    let options = ["--profile", "utf8", "--encoding", "latin1", "--decode", "backslash"];
    let (header, renames) = planned(&root, &options);
    assert_eq!(header.decode, ["backslash"]);
    let found: BTreeMap<_, _> =
        renames.iter().map(|(old, rename)| (old.clone(), rename.new.clone())).collect();
    assert_eq!(found, pairs(&[(br"dir\sub\file", "dir/sub/file"), (b"dir\\caf\xE9", "dir/café")]));
    let rename = &renames[br"dir\sub\file".as_slice()];
    assert_eq!((&*rename.reading, rename.confidence), ("decode backslash", Confidence::Likely));
    assert_eq!(renames[b"dir\\caf\xE9".as_slice()].reading, "windows-1252, decode backslash");

    let plan = dir.path().join("plan");
    let file = ["fix", "plan", "-o", plan.to_str().unwrap(), root.to_str().unwrap()];
    assert_eq!(status(&run(file.iter().chain(&options))), 0);
    let skipped: BTreeMap<_, _> = Plan::parse(&fs::read(&plan).unwrap())
        .unwrap()
        .skipped
        .into_iter()
        .map(|skipped| (String::from_utf8(skipped.name).unwrap(), skipped.why))
        .collect();
    for (name, why) in [
        (r"here\x", "here/x exists"),
        (r"C:\x", "drive"),
        (r"..\x", "`..`"),
        (r"end\", "empty"),
        (r"file\x", "file is in the way"),
        (r"a\b", "only files"),
    ] {
        assert!(skipped[name].contains(why), "{name}: {}", skipped[name]);
    }
    let journal = dir.path().join("journal");
    let before = listing(&root);
    let apply = ["fix", "apply", plan.to_str().unwrap(), "--yes", "--journal", journal.to_str().unwrap()];
    let output = run(apply);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(root.join("dir/sub/file").is_file() && root.join("dir/café").is_file());
    assert_eq!(status(&run(["fix", "undo", journal.to_str().unwrap()])), 0);
    assert_eq!(listing(&root), before);
}

/// The names in a directory.
fn listing(dir: &Path) -> BTreeSet<OsString> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}
