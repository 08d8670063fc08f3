//! Checks that every console block of every page shows the output of the program.
//!
//! The blocks of a page run in order, in one directory that is shown as `/srv`. A block that cannot
//! run in a test has a comment above it, `<!-- not run: REASON -->`, and counts as skipped. A line `...` stands for any
//! lines of output. With `NAMEGATE_UPDATE=1` the pages get the new output; edit blocks with `...` by hand.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::mount::{MntFlags, umount2};
use nix::unistd::geteuid;

use super::markdown::{Block, blocks, pages, read, root};

/// The tree that most pages use.
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

/// The tree that docs/MIGRATION.md migrates.
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

/// A directory with the tree `share` and a mount point `mnt`, which is unmounted and removed at the end.
struct Stage {
    dir: PathBuf,
    _removed: tempfile::TempDir,
}

impl Stage {
    fn new(names: &[&[u8]]) -> Self {
        let removed = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(removed.path()).unwrap();
        for name in names {
            let path = dir.join("share").join(OsStr::from_bytes(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        fs::create_dir(dir.join("mnt")).unwrap();
        Self { dir, _removed: removed }
    }

    /// What a shell prints for `command`, with the program on its path.
    fn printed(&self, command: &str) -> String {
        let bin = Path::new(env!("CARGO_BIN_EXE_namegate")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let output = Command::new("sh")
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(&self.dir)
            .env_clear()
            .envs([("PATH", path.as_str()), ("HOME", self.dir.to_str().unwrap()), ("LC_ALL", "C")])
            // Messages of a mount about the machine vary.
            .env("RUST_LOG", "error")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        steady(&String::from_utf8(output.stdout).unwrap()).replace(self.dir.to_str().unwrap(), "/srv")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = umount2(&self.dir.join("mnt"), MntFlags::MNT_DETACH);
    }
}

/// `text` with all times and process numbers replaced.
fn steady(text: &str) -> String {
    let (mut steady, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let is_time = rest.starts_with("20") && rest.as_bytes().get(10) == Some(&b'T');
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (instead, length) = match rest.find('Z') {
            Some(end) if is_time => ("2026-11-22T05:29:53Z", end + 1),
            _ if digits > 0 && (steady.ends_with("pid ") || steady.ends_with("\"pid\":")) => ("4711", digits),
            _ => (&rest[..first.len_utf8()], first.len_utf8()),
        };
        steady += instead;
        rest = &rest[length..];
    }
    steady
}

/// The commands of a block, each with the lines below it.
fn commands<'b, 't>(block: &'b Block<'t>) -> Vec<(&'t str, Vec<&'b str>)> {
    let mut commands: Vec<(&str, Vec<&str>)> = Vec::new();
    for &line in &block.lines {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command, Vec::new())),
            (None, Some((_, output))) => output.push(line),
            (None, None) => panic!("a console block begins with `$ `: {line}"),
        }
    }
    commands
}

/// Compares `printed` with `shown`, where a line `...` stands for any lines.
fn matches(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        ["...", rest @ ..] => (0..=printed.len()).any(|skipped| matches(rest, &printed[skipped..])),
        [line, rest @ ..] => printed.first() == Some(line) && matches(rest, &printed[1..]),
    }
}

/// The reason why the block cannot run here, or anywhere.
fn obstacle(block: &Block) -> Option<String> {
    if let Some(reason) = block.not_run {
        assert!(reason.len() > 8, "say why a block is not run: {reason:?}");
        return Some(reason.to_owned());
    }
    let mounts = block.lines.iter().any(|line| line.starts_with("$ ") && line.contains("namegate mount "));
    (mounts && !(geteuid().is_root() && Path::new("/dev/fuse").exists()))
        .then(|| "mounting needs root and /dev/fuse".to_owned())
}

/// Runs the console blocks of a page; returns how many ran and how many were skipped.
fn run(page: &str, stage: &Stage) -> (usize, usize) {
    let text = read(page);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (mut run, mut skipped) = (0, 0);
    let (mut replacements, mut differences) = (Vec::new(), Vec::new());
    for block in blocks(&text).iter().filter(|block| block.language == "console") {
        if let Some(reason) = obstacle(block) {
            println!("SKIPPED: {page}:{}: {reason}", block.first);
            skipped += 1;
            continue;
        }
        run += 1;
        let mut actual = Vec::new();
        for (command, shown) in commands(block) {
            let printed = stage.printed(command);
            let printed: Vec<&str> = printed.lines().collect();
            actual.push(format!("$ {command}"));
            let is_as_shown = matches(&shown, &printed);
            if !is_as_shown {
                differences.push(format!("{page}: $ {command}\n{}\n", printed.join("\n")));
            }
            let kept = if is_as_shown { &shown } else { &printed };
            actual.extend(kept.iter().map(|&line| line.to_owned()));
        }
        replacements.push((block.first, block.lines.len(), actual));
    }
    if !differences.is_empty() && std::env::var_os("NAMEGATE_UPDATE").is_some() {
        // From last to first, so that replacing one block does not move the others.
        for (first, length, actual) in replacements.into_iter().rev() {
            lines.splice(first..first + length, actual);
        }
        fs::write(root().join(page), lines.join("\n") + "\n").unwrap();
    } else {
        assert!(
            differences.is_empty(),
            "the program prints something else; `NAMEGATE_UPDATE=1 cargo test --test documents` writes it into the \
             page:\n\n{}",
            differences.join("\n")
        );
    }
    (run, skipped)
}

#[test]
fn every_session_shows_what_the_program_prints() {
    let (mut run_in_all, mut skipped_in_all) = (0, 0);
    for page in pages().iter().filter(|page| *page != "docs/MIGRATION.md") {
        let (run, skipped) = run(page, &Stage::new(SHARE));
        (run_in_all, skipped_in_all) = (run_in_all + run, skipped_in_all + skipped);
    }
    println!(
        "{run_in_all} console blocks were run, {skipped_in_all} were not; those of the migration have a test of their own"
    );
    assert!(run_in_all >= 5, "only {run_in_all} console blocks were run");
}

#[test]
fn the_migration_works_as_documented() {
    let stage = Stage::new(OLD_SHARE);
    let share = stage.dir.join("share");
    let target = OsStr::from_bytes(b"../B\xFCro/Men\xFC.pdf");
    std::os::unix::fs::symlink(target, share.join("Projekte/menu.pdf")).unwrap();
    let (run, skipped) = run("docs/MIGRATION.md", &stage);
    println!("{run} console blocks of the migration were run, {skipped} were not");
    assert!(run >= 6, "only {run} console blocks were run");
    for name in OLD_SHARE {
        assert_eq!(fs::read(share.join(OsStr::from_bytes(name))).unwrap(), *name, "it ends as it began");
    }
}

#[test]
fn output_is_compared_line_by_line_and_times_and_processes_are_not() {
    assert!(matches(&["a", "...", "c"], &["a", "b", "b", "c"]) && matches(&["..."], &[]));
    assert!(!matches(&["a", "...", "c"], &["a", "c", "d"]) && !matches(&[], &["a"]));
    let line = "{\"time\":\"2026-11-22T15:05:33.19Z\",\"pid\":31502,\"x\":1}; pid 77 \"touch\"\n[2026-11-22T15:05:32Z WARN ]";
    assert_eq!(
        steady(line),
        "{\"time\":\"2026-11-22T05:29:53Z\",\"pid\":4711,\"x\":1}; pid 4711 \"touch\"\n[2026-11-22T05:29:53Z WARN ]"
    );
    let block = Block { language: "console", not_run: None, lines: vec!["$ a", "b", "$ c"], first: 0 };
    assert_eq!(commands(&block), [("a", vec!["b"]), ("c", vec![])]);
}
