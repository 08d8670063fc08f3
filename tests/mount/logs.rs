//! The log of a mount: where it goes, and that names cannot forge records.

use std::ffi::OsStr;
use std::io::{Read, pipe};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use nix::sys::stat::fstat;
use serde_json::Value;
use tempfile::TempDir;

use namegate_testkit::PATIENCE;
use namegate_testkit::mounted::{can_mount, prepare};

/// Mounts with `options` in a namespace without systemd, causes one refusal, and unmounts. The test can listen in `run`
/// as the journal does. Returns standard error, which `JOURNAL_STREAM` names if `is_stream`.
fn refuse_one(dir: &TempDir, options: &str, is_stream: bool) -> Option<String> {
    // Wait for a foreground mount; a background mount is live already.
    let script = r#"
        mount -t tmpfs none /run && mkdir /run/systemd && mount --rbind "$1/run" /run/systemd || exit 9
        trap 'kill $server 2>/dev/null' EXIT
        "$0" mount "$1/backing" "$1/mnt" $2 & server=$!
        for i in $(seq 1200); do mountpoint -q "$1/mnt" && break; sleep 0.05; done
        mkdir "$1/mnt/$(printf 'x\nPRIORITY=0\n<0>\377')"
        umount "$1/mnt" && wait $server"#;
    let (mut said, stderr) = pipe().unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_namegate")])
        .arg(dir.path())
        .arg(options);
    command.env_remove("RUST_LOG").env_remove("JOURNAL_STREAM").stdout(Stdio::null());
    if is_stream {
        let stat = fstat(stderr.as_fd()).unwrap();
        command.env("JOURNAL_STREAM", format!("{}:{}", stat.st_dev, stat.st_ino));
    }
    let status = match command.stderr(stderr).spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("SKIPPED: no unshare");
            return None;
        }
        child => child.unwrap().wait().unwrap(),
    };
    // The child has the other end of the pipe.
    drop(command);
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    assert!(status.success(), "{text}");
    Some(text)
}

/// The directories of a mount, and a socket in place of the journal.
fn with_journal() -> Option<(TempDir, UnixDatagram)> {
    if !can_mount() {
        return None;
    }
    let dir = prepare();
    fs::create_dir_all(dir.path().join("run/journal")).unwrap();
    let journal = UnixDatagram::bind(dir.path().join("run/journal/socket")).unwrap();
    journal.set_read_timeout(Some(PATIENCE)).unwrap();
    Some((dir, journal))
}

/// The journal entry of the refusal.
fn entry(journal: &UnixDatagram) -> Vec<u8> {
    let mut datagram = vec![0; 1 << 16];
    loop {
        let length = journal.recv(&mut datagram).expect("the journal gets it");
        if datagram[..length].windows(8).any(|part| part == b"refused:") {
            return datagram[..length].to_vec();
        }
    }
}

#[test]
fn a_journal_behind_standard_error_gets_each_refusal_with_its_fields() {
    let Some((dir, journal)) = with_journal() else { return };
    let Some(said) = refuse_one(&dir, "", true) else { return };
    assert!(!said.contains("refused"), "{said}");
    let entry = entry(&journal);
    let lines: Vec<&str> = std::str::from_utf8(&entry).unwrap().lines().collect();
    let hex = "780a5052494f524954593d300a3c303eff";
    for field in [
        "PRIORITY=4",
        "SYSLOG_IDENTIFIER=namegate",
        "NAMEGATE_OPERATION=mkdir",
        "NAMEGATE_OUTCOME=refused",
        "NAMEGATE_RULE=invalid-octet",
        "NAMEGATE_START=16",
        "NAMEGATE_UID=0",
        "NAMEGATE_COMMAND=mkdir",
        r"NAMEGATE_NAME=x\nPRIORITY=0\n<0>\xFF",
        &format!("NAMEGATE_NAME_HEX={hex}"),
    ] {
        assert_eq!(lines.iter().filter(|line| **line == field).count(), 1, "{field}\n{lines:#?}");
    }
    let priorities = lines.iter().filter(|line| line.starts_with("PRIORITY")).count();
    assert_eq!(priorities, 1, "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("MESSAGE_ID=")));
}

#[test]
fn a_background_mount_logs_to_the_journal_on_request() {
    let Some((dir, journal)) = with_journal() else { return };
    for options in ["--daemon --log-format journal", "--daemon -o log_format=journal"] {
        let Some(_) = refuse_one(&dir, options, false) else { return };
        let entry = entry(&journal);
        assert!(entry.windows(16).any(|part| part == b"\nNAMEGATE_GID=0\n"), "{}", entry.escape_ascii());
    }
}

#[test]
fn without_a_journal_the_lines_begin_with_their_severity() {
    let Some((dir, journal)) = with_journal() else { return };
    drop(journal);
    let Some(said) = refuse_one(&dir, "", true) else { return };
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("refused")).collect();
    let [line] = lines[..] else { panic!("{said}") };
    assert!(line.starts_with(r#"<4>refused: mkdir of "x\nPRIORITY=0\n<0>\xFF""#), "{said}");
}

#[test]
fn a_json_log_has_one_object_per_line() {
    let Some((dir, _journal)) = with_journal() else { return };
    let Some(said) = refuse_one(&dir, "--log-format json", true) else { return };
    let lines: Vec<Value> = said
        .lines()
        // mkdir writes a line too.
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let refusal =
        lines.iter().find(|line| line["fields"]["type"] == "refusal").expect("the refusal is logged");
    assert_eq!((&refusal["level"], &refusal["fields"]["rule"]), (&"warn".into(), &"invalid-octet".into()));
    let name = OsStr::from_bytes(b"x\nPRIORITY=0\n<0>\xFF");
    let hex = data_encoding::HEXLOWER.encode(name.as_bytes());
    assert_eq!((&refusal["fields"]["name_hex"], &refusal["fields"]["uid"]), (&hex.into(), &0.into()));
}

#[test]
fn the_journal_of_systemd_stores_the_fields() {
    const JOURNALD: &str = "/lib/systemd/systemd-journald";
    if !can_mount() {
        return;
    }
    if !Path::new(JOURNALD).exists() {
        return println!("SKIPPED: no {JOURNALD}");
    }
    let dir = prepare();
    // A separate journal that is removed with the test.
    let script = r#"
        mount -t tmpfs none /run && mkdir -p /run/systemd/journal /run/systemd/journald.conf.d || exit 9
        printf '[Journal]\nStorage=volatile\nAudit=no\nReadKMsg=no\nForwardToWall=no\n' >/run/systemd/journald.conf.d/test.conf
        trap 'kill $journal $server 2>/dev/null' EXIT
        "$2" & journal=$!
        for i in $(seq 1200); do test -S /run/systemd/journal/socket && break; sleep 0.05; done
        "$0" mount "$1/backing" "$1/mnt" --log-format journal & server=$!
        for i in $(seq 1200); do mountpoint -q "$1/mnt" && break; sleep 0.05; done
        mkdir "$1/mnt/$(printf 'x\nPRIORITY=0\n_UID=7\n\377')"
        umount "$1/mnt" && wait $server && kill $journal && wait $journal
        journalctl --no-pager -D /run/log/journal -o json NAMEGATE_OPERATION=mkdir"#;
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_namegate")])
        .arg(dir.path())
        .arg(JOURNALD);
    let output = match command.env_remove("RUST_LOG").output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return println!("SKIPPED: no unshare"),
        output => output.unwrap(),
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let entries: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [entry] = &entries[..] else { panic!("{text}{}", String::from_utf8_lossy(&output.stderr)) };
    for (field, value) in [
        ("PRIORITY", "4"),
        ("_UID", "0"),
        ("_TRANSPORT", "journal"),
        ("SYSLOG_IDENTIFIER", "namegate"),
        ("NAMEGATE_NAME", r"x\nPRIORITY=0\n_UID=7\n\xFF"),
        ("NAMEGATE_RULE", "invalid-octet"),
        ("NAMEGATE_UID", "0"),
    ] {
        assert_eq!(entry[field], value, "{field}: {entry}");
    }
}
