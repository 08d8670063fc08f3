//! Files that the user names: replaced as a whole with their mode, pipes and devices written in place.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Stdio;

use namegate_sys::xattr;
use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};

use namegate_testkit::program::{namegate, run, status, stderr, stdout};

/// A directory with one finding in `tree`.
fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tree")).unwrap();
    fs::write(dir.path().join("tree/a:b"), "").unwrap();
    dir
}

/// Scans with the output `-o csv:OUTPUT`, quietly.
fn scan(dir: &Path, output: &str) -> std::process::Output {
    let mut command = namegate();
    command.current_dir(dir).args(["scan", "--quiet", "--profile", "windows", "tree", "-o"]);
    command.arg(format!("csv:{output}")).output().unwrap()
}

fn is_report(text: &str) -> bool {
    text.starts_with("\u{FEFF}path,") && text.contains("reserved-character")
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode_without_set_id_bits_and_its_owner_where_that_can_be() {
    let dir = place();
    let path = dir.path().join("report");
    for (mode, expected) in [(0o600, 0o600), (0o640, 0o640), (0o666, 0o666), (0o6755, 0o755)] {
        fs::write(&path, "old").unwrap();
        if geteuid().is_root() {
            chown(&path, Some(1234), Some(5678)).unwrap();
        }
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let before = fs::metadata(&path).unwrap();
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        let output = scan(dir.path(), "report");
        assert_eq!(status(&output), 1, "{output:?}");
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
        assert_eq!(after.mode() & 0o7777, expected, "{mode:o}");
        assert!(is_report(&fs::read_to_string(&path).unwrap()));
        // Another name of what was there keeps it.
        assert_eq!(fs::read_to_string(dir.path().join("other")).unwrap(), "old");
        fs::remove_file(dir.path().join("other")).unwrap();
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside it");
}

#[test]
fn no_locale_changes_what_is_written() {
    let dir = place();
    for name in [&b"caf\xE9"[..], "\u{65E5}?".as_bytes(), b"a\x1B[2J", "Caf\u{E9}".as_bytes()] {
        fs::write(dir.path().join("tree").join(OsStr::from_bytes(name)), "").unwrap();
    }
    let said = |locale: &str, words: &str| {
        let mut command = namegate();
        let variables = [("LC_ALL", locale), ("LANG", "C")];
        let output = command.current_dir(dir.path()).args(words.split(' ')).envs(variables).output().unwrap();
        assert!(status(&output) < 2, "{output:?}");
        (output.stdout, output.stderr)
    };
    for words in [
        "scan --sort tree --profile windows",
        "scan --sort tree --profile windows --json",
        "scan --sort tree --profile windows --format csv",
        // The lines of a plan say when it was made.
        "fix plan tree --profile windows --format text",
        "check \u{65E5}? --profile windows",
        "explain caf\u{E9}",
    ] {
        let expected = said("C.UTF-8", words);
        assert!(std::str::from_utf8(&expected.0).is_ok() && !expected.0.contains(&0x1B), "{words}");
        for locale in ["C", "POSIX", "xx_XX.NONE", ""] {
            assert!(said(locale, words) == expected, "{words}: {locale}");
        }
    }
}

#[test]
fn an_acl_stays_and_gives_nobody_more() {
    let dir = place();
    let path = dir.path().join("report");
    fs::write(&path, "old").unwrap();
    // user::rw-, user:1234:r--, group::---, mask::r--, other::---; as struct posix_acl_xattr_header of the kernel.
    let entry = |tag: u16, bits: u16, id: u32| {
        [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let entries =
        [entry(1, 6, !0), entry(2, 4, 1234), entry(4, 0, !0), entry(0x10, 4, !0), entry(0x20, 0, !0)];
    let acl = [&2_u32.to_le_bytes()[..], &entries.concat()].concat();
    let name = OsStr::new("system.posix_acl_access");
    if let Err(error) = xattr::set(&File::open(&path).unwrap(), name, &acl, 0) {
        return println!("SKIPPED: no ACLs in the temporary directory: {error}");
    }
    assert_eq!(status(&scan(dir.path(), "report")), 1);
    let mut found = vec![0; 256];
    let len = xattr::get(&File::open(&path).unwrap(), name, &mut found).unwrap();
    assert_eq!(found[..len], acl);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn a_link_of_the_user_is_followed_to_what_is_there_and_to_what_is_not_there_yet() {
    let dir = place();
    fs::create_dir(dir.path().join("data")).unwrap();
    fs::write(dir.path().join("data/there"), "old").unwrap();
    fs::set_permissions(dir.path().join("data/there"), Permissions::from_mode(0o600)).unwrap();
    symlink(dir.path().join("data"), dir.path().join("in")).unwrap();
    for name in ["there", "new"] {
        let link = dir.path().join(name);
        symlink(format!("in/../in/./{name}"), &link).unwrap();
        assert_eq!(status(&scan(dir.path(), name)), 1);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link stays");
        assert!(is_report(&fs::read_to_string(dir.path().join("data").join(name)).unwrap()), "{name}");
    }
    assert_eq!(fs::metadata(dir.path().join("data/there")).unwrap().mode() & 0o777, 0o600);
    symlink("loop", dir.path().join("loop")).unwrap();
    assert_eq!(status(&scan(dir.path(), "loop")), 2);
    for path in ["data", "data/", "none/report", "there/report", "/", "new/"] {
        assert_eq!(status(&scan(dir.path(), path)), 2, "{path}");
    }
}

#[test]
fn pipes_devices_and_descriptors_are_written_in_place() {
    let dir = place();
    for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/proc/thread-self/fd/1"] {
        let output = scan(dir.path(), path);
        assert!(is_report(std::str::from_utf8(&output.stdout).unwrap()), "{path}: {output:?}");
    }
    let null = fs::metadata("/dev/null").unwrap();
    assert_eq!(status(&scan(dir.path(), "/dev/null")), 1);
    let after = fs::metadata("/dev/null").unwrap();
    assert_eq!((null.ino(), null.mode(), null.uid()), (after.ino(), after.mode(), after.uid()));
    let fifo = dir.path().join("fifo");
    mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let text = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut text = String::new();
            File::open(&fifo).unwrap().read_to_string(&mut text).unwrap();
            text
        });
        assert_eq!(status(&scan(dir.path(), "fifo")), 1);
        reader.join().unwrap()
    });
    assert!(is_report(&text), "{text}");
    // What the shell has opened is gone on with, and nothing in it is lost.
    let out = dir.path().join("out");
    let mut command = namegate();
    command.current_dir(dir.path()).args(["scan", "--profile", "windows", "tree", "-o", "csv:/dev/stdout"]);
    fs::write(&out, "before\n").unwrap();
    let file = File::options().append(true).open(&out).unwrap();
    assert_eq!(command.stdout(Stdio::from(file)).status().unwrap().code(), Some(1));
    let text = fs::read_to_string(&out).unwrap();
    assert!(text.starts_with("before\n") && text.contains("\n\u{FEFF}path,"), "{text}");
}

#[test]
fn one_place_is_not_taken_for_two_outputs_by_whatever_names() {
    let dir = place();
    symlink("report", dir.path().join("link")).unwrap();
    for (one, other) in [("report", "./report"), ("link", "report"), ("/dev/stdout", "/dev/fd/1")] {
        let mut command = namegate();
        command.current_dir(dir.path()).args(["scan", "--quiet", "tree", "-o"]);
        let output =
            command.arg(format!("csv:{one}")).arg("-o").arg(format!("csv:{other}")).output().unwrap();
        assert_eq!(status(&output), 2);
        assert!(String::from_utf8_lossy(&output.stderr).contains("named for two outputs"), "{output:?}");
    }
}

#[test]
fn a_reader_that_goes_away_does_not_change_the_status() {
    let dir = tempfile::tempdir().unwrap();
    let scan = |profile: &str| {
        let mut command = namegate();
        command
            .args(["scan", "--profile", profile])
            .arg(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        output.status.code()
    };
    // More than any pipe or buffer holds.
    (0..3000).for_each(|n| drop(File::create(dir.path().join(format!("{n}:{}", "x".repeat(100)))).unwrap()));
    assert_eq!(scan("windows"), Some(1), "there are findings");
    assert_eq!(scan("utf8"), Some(0), "there are none");
}

/// Scans `tree` in `dir` with these arguments.
fn scan_with(dir: &Path, args: &[&str]) -> std::process::Output {
    let mut command = namegate();
    command.current_dir(dir).args(["scan", "--profile", "windows", "tree"]).args(args).output().unwrap()
}

#[test]
fn a_minus_is_standard_output_and_takes_one_report() {
    let dir = place();
    let plain = |format: &str| scan_with(dir.path(), &["--format", format]).stdout;
    for format in ["text", "json", "csv", "sarif", "junit", "github"] {
        let output = scan_with(dir.path(), &["-o", &format!("{format}:-"), "-o", "also.txt"]);
        assert_eq!((status(&output), output.stdout), (1, plain(format)), "{format}");
        let output = scan_with(dir.path(), &["--format", format, "-o", "-"]);
        assert_eq!((status(&output), output.stdout), (1, plain(format)), "{format}");
    }
    assert_eq!(scan_with(dir.path(), &["-o", "-", "-q"]).stdout, plain("text"));
    assert!(scan_with(dir.path(), &["-o", "html:-"]).stdout.starts_with(b"<!DOCTYPE"));
    assert!(!dir.path().join("-").exists());
    #[cfg(feature = "parquet")]
    assert!(scan_with(dir.path(), &["-q", "-o", "parquet:-"]).stdout.starts_with(b"PAR1"));
    assert_eq!(scan_with(dir.path(), &["-q", "-o", "csv:./-"]).stdout, b"");
    assert!(is_report(&fs::read_to_string(dir.path().join("-")).unwrap()), "a file of this name has a path");
    for args in [
        &["-o", "-", "-o", "csv:-"][..],
        &["--format", "json", "-o", "csv:-"],
        &["--json", "-o", "csv:-"],
        &["--summary", "-o", "csv:-"],
        &["--summary-by", "rule", "-o", "-"],
    ] {
        let output = scan_with(dir.path(), args);
        let message = "namegate: two outputs on standard output: write one of them to a file\n";
        assert_eq!((status(&output), stderr(&output)), (2, message), "{args:?}");
    }
    let stored = dir.path().join("found.jsonl");
    let stored = stored.to_str().unwrap();
    scan_with(dir.path(), &["-q", "-o", stored]);
    let report = run(["report", stored, "-o", "csv:-"]);
    assert_eq!(report.stdout, plain("csv"));
}

#[test]
fn an_error_names_the_output_that_failed() {
    let dir = place();
    (0..3000).for_each(|n| drop(File::create(dir.path().join(format!("tree/{n}:"))).unwrap()));
    for (format, name) in
        [("csv", "/dev/full"), ("json", "/dev/full"), ("junit", "/dev/full"), ("html", "/dev/full")]
    {
        let full = format!("{format}:{name}");
        let output = scan_with(dir.path(), &["-q", "-o", "first.sarif", "-o", &full, "-o", "last.txt"]);
        let message = "namegate: /dev/full: cannot be written: No space left on device (os error 28)\n";
        assert_eq!((status(&output), stderr(&output)), (2, message), "{format}");
        assert!(!dir.path().join("first.sarif").exists() && !dir.path().join("last.txt").exists());
    }
}

#[test]
fn annotations_are_commands_of_github_and_few() {
    let dir = tempfile::tempdir().unwrap();
    let name = "a,b: 100%?\n::error::x";
    fs::create_dir(dir.path().join("tree")).unwrap();
    fs::write(dir.path().join("tree").join(name), "").unwrap();
    let output = scan_with(dir.path(), &["--format", "github"]);
    let expected = "::error file=tree/a%2Cb%3A 100%25?\\n%3A%3Aerror%3A%3Ax,title=";
    assert!(stdout(&output).starts_with(expected), "{}", stdout(&output));
    assert_eq!((status(&output), stdout(&output).lines().count()), (1, 1), "{}", stdout(&output));
    let latin1 = dir.path().join("tree").join(OsStr::from_bytes(b"caf\xE9 b\xE9b\xE9.txt"));
    fs::write(latin1, "").unwrap();
    let output = scan_with(dir.path(), &["--format", "github"]);
    let line = stdout(&output).lines().find(|line| line.contains("caf")).unwrap();
    assert!(line.contains("::`caf\\xE9 b\\xE9b\\xE9.txt`: not UTF-8, "), "{line}");
    (0..15).for_each(|n| drop(File::create(dir.path().join(format!("tree/{n}?"))).unwrap()));
    let output = scan_with(dir.path(), &["--format", "github"]);
    let lines: Vec<&str> = stdout(&output).lines().collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("::error file=")).count(), 10);
    assert_eq!(lines[10..], ["::notice title=namegate::left out here: 7 names with errors"]);
    fs::write(dir.path().join("names"), "a/b?\n").unwrap();
    let args = ["scan", "--profile", "windows", "--format", "github", "--list", "names"];
    let output = namegate().current_dir(dir.path()).args(args).output().unwrap();
    assert!(
        stdout(&output).starts_with("::error file=names,title=reserved-character::`a/b?`: "),
        "{}",
        stdout(&output)
    );
}
