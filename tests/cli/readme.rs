//! The README shows what the program prints. With `NAMEGATE_UPDATE=1` the test writes the README instead of judging it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::mount::{MntFlags, umount2};
use nix::unistd::geteuid;

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
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 2>&1\n{command}")]).current_dir(dir).env("PATH", path);
    // What a mount has to say of the machine is not the same everywhere.
    let output = shell.env("LC_ALL", "C").env("RUST_LOG", "error").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A block: commands, each with what it prints. Those of a mount stay as they are where nothing can be mounted.
fn session(block: &[&str], dir: &Path) -> String {
    let mounts = block.iter().any(|line| line.starts_with("$ namegate mount"));
    if mounts && !(geteuid().is_root() && Path::new("/dev/fuse").exists()) {
        println!("SKIPPED: mounting needs root and /dev/fuse");
        return block.iter().map(|line| format!("{line}\n")).collect();
    }
    let commands = block.iter().filter_map(|line| line.strip_prefix("$ "));
    commands.map(|command| format!("$ {command}\n{}", shown(command, dir))).collect()
}

/// Detaches what a session has left mounted.
struct Unmounted(PathBuf);

impl Drop for Unmounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Runs the blocks of the document `name`, which are at least so many, in `dir`; what stands there is shown as `/srv`.
fn assert_shows_what_is_printed(name: &str, dir: &Path, least: usize) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = fs::read_to_string(&path).unwrap();
    let (mut actual, mut blocks) = (String::new(), 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        actual += &format!("{line}\n");
        if line == "```console" {
            let block: Vec<&str> = lines.by_ref().take_while(|&line| line != "```").collect();
            assert!(block[0].starts_with("$ "), "a block begins with a command");
            actual += &format!("{}```\n", session(&block, dir).replace(dir.to_str().unwrap(), "/srv"));
            blocks += 1;
        }
    }
    assert!(blocks >= least);
    if std::env::var_os("NAMEGATE_UPDATE").is_some() {
        fs::write(&path, actual).unwrap();
        return;
    }
    assert!(
        text == actual,
        "{name} shows something else; `NAMEGATE_UPDATE=1 cargo test --test cli readme` writes:\n{actual}"
    );
}

#[test]
fn the_readme_shows_what_the_program_prints() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("share/2019")).unwrap();
    fs::create_dir(dir.path().join("mnt")).unwrap();
    let _unmounted = Unmounted(dir.path().join("mnt"));
    for name in SHARE {
        File::create(dir.path().join("share").join(OsStr::from_bytes(name))).unwrap();
    }
    assert_shows_what_is_printed("README.md", &fs::canonicalize(dir.path()).unwrap(), 3);
}

/// The tree that is migrated.
const OLD_SHARE: &[&[u8]] = &[
    b"B\xFCro/Gr\xF6\xDFe 2004.txt",
    b"B\xFCro/Preise in \xA4.csv",
    b"B\xFCro/Men\xFC.pdf",
    b"Projekte/Bericht: Mai.doc",
    b"Projekte/aux.h",
    "Projekte/re\u{301}sume\u{301}.txt".as_bytes(),
    b"README",
    b"readme",
];

#[test]
fn the_migration_goes_as_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let share = dir.path().join("share");
    for name in OLD_SHARE {
        let path = share.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
    std::os::unix::fs::symlink(OsStr::from_bytes(b"../B\xFCro/Men\xFC.pdf"), share.join("Projekte/menu.pdf"))
        .unwrap();
    assert_shows_what_is_printed("docs/MIGRATION.md", &fs::canonicalize(dir.path()).unwrap(), 6);
    for name in OLD_SHARE {
        assert_eq!(fs::read(share.join(OsStr::from_bytes(name))).unwrap(), *name, "it ends as it began");
    }
}
