//! Journals that are written here byte by byte are read and undone; other files are refused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Output;

use data_encoding::BASE64;
use namegate_testkit::program::status;
use serde_json::{Value, json};

use crate::program::{messages, namegate};
use crate::tree::make_tree;

/// The CRC-32 of zlib and PNG, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 })
    })
}

/// The lines of a journal, each with its checksum.
fn journal(lines: &[String]) -> String {
    let mut before = 0_u32;
    let lines = lines.iter().map(|line| {
        let body = line.strip_suffix('}').expect("a line is an object");
        before = crc32(&[&before.to_le_bytes()[..], body.as_bytes()].concat());
        format!("{body},\"check\":\"{before:08x}\"}}\n")
    });
    lines.collect()
}

/// The journal of a run below `root`: two files that swapped names, a renamed file, a retargeted link, and a file that was not renamed.
fn lines(root: &Path) -> Vec<String> {
    let stat = |name: &str| fs::symlink_metadata(root.join(name)).unwrap();
    let (inode, path) = (fs::metadata(root).unwrap().ino(), BASE64.encode(root.as_os_str().as_bytes()));
    let [a, b, cafe, link] = ["a", "b", "café", "link"].map(|name| stat(name).ino());
    let (uid, gid) = (stat("link").uid(), stat("link").gid());
    let entry = r#""kind":"file""#;
    vec![
        format!(
            r#"{{"type":"journal","version":1,"namegate":"1.0.0","started":"2026-01-02T03:04:05Z","plan_base64":"L3AuanNvbmw=","plan_bytes":9,"plan_check":"0badcafe","roots":[{{"path_base64":"{path}","inode":{inode}}}],"renames":4,"retargets":1,"at_least":"guess","keep_times":false,"keep_original":false,"cross_file_systems":false}}"#
        ),
        r#"{"type":"batch","number":1,"directories":1,"entries":3}"#.into(),
        format!(
            r#"{{"type":"directory","path_base64":"{path}","inode":{inode},"atime":"1700000000.000000000","mtime":"-1.500000000"}}"#
        ),
        format!(
            r#"{{"type":"rename","directory":0,"via_hex":"2e6e616d6567617465","members":[{{"id":1,"old_hex":"61","new_hex":"62","inode":{b},{entry}}},{{"id":2,"old_hex":"62","new_hex":"61","inode":{a},{entry}}}]}}"#
        ),
        format!(
            r#"{{"type":"rename","directory":0,"members":[{{"id":3,"old_hex":"636166e9","new_hex":"636166c3a9","inode":{cafe},{entry}}}]}}"#
        ),
        format!(
            r#"{{"type":"retarget","directory":0,"name_hex":"6c696e6b","via_hex":"2e6e616d656761746532","private_hex":"2e6e616d656761746533","old_target_base64":"Y2Fm6Q==","new_target_base64":"Y2Fmw6k=","inode":{link},"atime":"1700000000.000000000","mtime":"1700000000.000000000","uid":{uid},"gid":{gid}}}"#
        ),
        r#"{"type":"done","batch":1,"left":[]}"#.into(),
        format!(
            r#"{{"type":"left","directory_base64":"{path}","old_hex":"ff","new_hex":"78","reason":"the name no longer exists"}}"#
        ),
        r#"{"type":"end"}"#.into(),
    ]
}

/// The result of the run: the tree, and its journal beside it.
fn after_a_run(change: impl FnOnce(&mut Vec<String>)) -> tempfile::TempDir {
    let (dir, root) = make_tree(&[b"a", b"b", "café".as_bytes(), "link -> café".as_bytes()]);
    let mut lines = lines(&root);
    change(&mut lines);
    fs::write(dir.path().join("journal"), journal(&lines)).unwrap();
    dir
}

fn fix(dir: &Path, args: &[&str]) -> Output {
    namegate(dir).current_dir(dir).arg("fix").args(args).output().unwrap()
}

#[test]
fn a_journal_is_shown_and_undone() {
    let dir = after_a_run(|_| {});
    let root = dir.path().join("tree");
    let output = fix(dir.path(), &["status", "journal", "--json"]);
    assert_eq!(status(&output), 1, "one entry remains: {}", messages(&output));
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = ["started", "state", "torn", "renames", "retargets", "done", "undone"];
    let found: Vec<&Value> = keys.iter().map(|key| &shown[*key]).collect();
    assert_eq!(json!(found), json!(["2026-01-02T03:04:05Z", "done", false, 4, 1, 4, 0]));
    assert_eq!(shown["left"][0]["reason"], "the name no longer exists");

    let of_b = fs::metadata(root.join("b")).unwrap().ino();
    let output = fix(dir.path(), &["undo", "journal"]);
    assert_eq!(status(&output), 0, "{}", messages(&output));
    assert!(root.join(OsStr::from_bytes(b"caf\xE9")).exists() && fs::read_dir(&root).unwrap().count() == 4);
    assert_eq!(fs::metadata(root.join("a")).unwrap().ino(), of_b, "the two have their names again");
    assert_eq!(fs::read_link(root.join("link")).unwrap().as_os_str().as_bytes(), b"caf\xE9");
}

#[test]
fn a_journal_of_an_unknown_version_is_refused_by_its_number() {
    for version in ["\"version\":3", "\"version\":3,\"what\":\"no version before knows\""] {
        let dir = after_a_run(|lines| lines[0] = lines[0].replace("\"version\":1", version));
        for command in ["status", "undo"] {
            let output = fix(dir.path(), &[command, "journal"]);
            assert_eq!(status(&output), 2);
            let expected = "journal: format version 3 is not supported; this program reads version 1";
            assert!(messages(&output).contains(expected), "{}", messages(&output));
        }
    }
}

#[test]
fn a_file_that_is_not_a_journal_is_refused() {
    let dir = after_a_run(|lines| lines.truncate(1));
    let whole = fs::read(dir.path().join("journal")).unwrap();
    let flipped = String::from_utf8(whole.clone()).unwrap().replace("\"plan_bytes\":9", "\"plan_bytes\":8");
    for text in [b"".to_vec(), b"{}\n".to_vec(), whole[..whole.len() - 1].to_vec(), flipped.into_bytes()] {
        fs::write(dir.path().join("journal"), text).unwrap();
        let output = fix(dir.path(), &["undo", "journal"]);
        assert_eq!(status(&output), 2);
        assert!(messages(&output).contains("not a journal of namegate"), "{}", messages(&output));
    }
}
