//! The README shows what the program prints. With `NAMEGATE_UPDATE=1` the test writes the README instead of judging it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

/// The tree that the README scans.
const SHARE: &[&[u8]] = &[
    b"2019/caf\xE9.txt",
    b"2019/etc\xC0\xAFpasswd",
    "2019/invoice\u{202E}fdp.exe".as_bytes(),
    b"2019/minutes.txt ",
    b"CON.txt",
    b"README.md",
    b"Readme.md",
    b"report.pdf",
];

/// What a shell prints for `command` in `dir`, with the program on its path.
fn shown(command: &str, dir: &Path) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_namegate")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let output =
        Command::new("sh").args(["-c", command]).current_dir(dir).env("PATH", path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("share/2019")).unwrap();
    for name in SHARE {
        File::create(dir.path().join("share").join(OsStr::from_bytes(name))).unwrap();
    }
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(&readme).unwrap();
    let (mut actual, mut blocks) = (String::new(), 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        actual += &format!("{line}\n");
        if line == "```console" {
            let command =
                lines.next().and_then(|line| line.strip_prefix("$ ")).expect("a block begins with a command");
            actual += &format!("$ {command}\n{}```\n", shown(command, dir.path()));
            lines.by_ref().find(|&line| line == "```").expect("a block ends");
            blocks += 1;
        }
    }
    assert!(blocks >= 3);
    if std::env::var_os("NAMEGATE_UPDATE").is_some() {
        fs::write(&readme, actual).unwrap();
        return;
    }
    assert!(
        text == actual,
        "README.md shows something else; `NAMEGATE_UPDATE=1 cargo test --test cli readme` writes:\n{actual}"
    );
}
