//! Caches that do not expire, and servers that are killed: the next one does not know what has changed in between.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{STUCK, kill_server, server_of, surviving};
use namegate_testkit::mounted::TestMount;
use namegate_testkit::wait_until;

/// Longer than the timeouts, which replies have while the source changes, and much less than an hour, for which a lost change would stay.
const MOST_STALE: Duration = Duration::from_secs(5);

/// A mount whose caches do not expire; `None`, after a message, if there is none here.
fn coherent(args: &[&str]) -> Option<TestMount> {
    let mounted = surviving(&[&["--cache", "coherent"], args].concat())?;
    let cache = cache_of(&mounted);
    match cache["kind"].as_str().unwrap() {
        "coherent" => Some(mounted),
        _ => {
            println!("SKIPPED: {cache}");
            None
        }
    }
}

fn cache_of(mounted: &TestMount) -> serde_json::Value {
    let mut namegate = Command::new(env!("CARGO_BIN_EXE_namegate"));
    namegate
        .args(["status", "--json"])
        .arg(mounted.mnt())
        .env("NAMEGATE_RUNTIME_DIR", mounted.run_directory());
    let output = namegate.output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    status["cache"].clone()
}

/// What is told of the entries of a directory: whether each of some names is there, with its attributes, and what is listed.
type Told = (Vec<Option<(u64, u32, u64)>>, Vec<OsString>);

const NAMES: [&str; 8] = ["kept", "removed", "replaced", "moved", "to", "absent", "mode", "length"];

fn told(dir: &Path) -> Told {
    let facts = |name: &&str| {
        let found = fs::symlink_metadata(dir.join(name)).ok()?;
        Some((found.ino(), found.mode(), found.len()))
    };
    let mut listed: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    listed.sort();
    (NAMES.iter().map(facts).collect(), listed)
}

/// Changes entries by names that were looked up before, of a directory that was listed before.
fn change(dir: &Path) -> io::Result<()> {
    fs::remove_file(dir.join("removed"))?;
    fs::write(dir.join("new"), "")?;
    fs::rename(dir.join("new"), dir.join("replaced"))?;
    fs::rename(dir.join("moved"), dir.join("to"))?;
    fs::write(dir.join("absent"), "")?;
    fs::set_permissions(dir.join("mode"), fs::Permissions::from_mode(0o700))?;
    OpenOptions::new().write(true).open(dir.join("length"))?.set_len(9)
}

#[test]
fn what_has_changed_while_there_was_no_server_is_not_outdated() {
    for args in [&[][..], &["--normalize", "nfc"]] {
        let Some(mounted) = coherent(args) else { return };
        let (there, here) = (mounted.backing().join("dir"), mounted.mnt().join("dir"));
        fs::create_dir(&there).unwrap();
        for name in NAMES.iter().filter(|name| !matches!(**name, "to" | "absent")) {
            fs::create_dir_all(there.join("deep/deeper")).unwrap();
            fs::write(there.join(name), "").unwrap();
        }
        // For the attributes of a file that has changed just now there is a timeout.
        wait_until("the same answers", || told(&here) == told(&there));
        for _ in 0..2 {
            fs::metadata(here.join("deep/deeper")).unwrap();
            assert_eq!(told(&here), told(&there));
        }
        let (holder, server) = (Pid::from_raw(mounted.server().cast_signed()), server_of(&mounted));
        kill(holder, Signal::SIGSTOP).unwrap();
        kill(server, Signal::SIGKILL).unwrap();
        change(&there).unwrap();
        fs::rename(there.join("deep"), there.join("elsewhere")).unwrap();
        kill(holder, Signal::SIGCONT).unwrap();
        wait_until("the start of another server", || server_of(&mounted) != server);
        wait_until("an answer", || cache_of(&mounted)["kind"] == "coherent");
        let begin = Instant::now();
        while told(&here) != told(&there) || here.join("deep/deeper").exists() {
            assert!(begin.elapsed() < MOST_STALE, "{:?}, not {:?}", told(&here), told(&there));
        }
        assert!(here.join("elsewhere/deeper").exists());
        println!("{args:?}: {:?}", begin.elapsed());
        // The next server listens, too.
        fs::remove_file(there.join("kept")).unwrap();
        fs::rename(there.join("to"), there.join("moved")).unwrap();
        let begin = Instant::now();
        while told(&here) != told(&there) {
            assert!(begin.elapsed() < MOST_STALE, "{:?}, not {:?}", told(&here), told(&there));
        }
    }
}

/// Creates and removes files in a directory until `file` is gone.
const WORK: &str =
    "i=0; while :; do i=$(((i + 1) % 20)); : > $i; rm -f $i; ls > /dev/null; echo x >> \"$0\"; done";

#[test]
fn clients_go_on_when_a_server_is_killed_that_drops_names() {
    let Some(mounted) = coherent(&[]) else { return };
    let (there, here) = (mounted.backing().join("dir"), mounted.mnt().join("dir"));
    fs::create_dir(&there).unwrap();
    let place = tempfile::tempdir().unwrap();
    let signs: Vec<_> = (0..4).map(|number| place.path().join(number.to_string())).collect();
    signs.iter().for_each(|sign| drop(File::create(sign).unwrap()));
    let mut clients: Vec<_> = signs
        .iter()
        .enumerate()
        .map(|(number, sign)| {
            let dir = if number == 0 { &there } else { &here };
            Command::new("sh").args(["-c", WORK]).arg(sign).current_dir(dir).spawn().unwrap()
        })
        .collect();
    let rounds = || -> Vec<u64> { signs.iter().map(|sign| fs::metadata(sign).unwrap().len()).collect() };
    let mut longest = Duration::ZERO;
    for _ in 0..crate::kills() {
        sleep(Duration::from_millis(100));
        kill_server(&mounted);
        let (before, begin) = (rounds(), Instant::now());
        while rounds().iter().zip(&before).any(|(now, before)| now < &(before + 4)) {
            assert!(begin.elapsed() < STUCK, "clients are stuck: {before:?}, {:?}", rounds());
            sleep(Duration::from_millis(1));
        }
        longest = longest.max(begin.elapsed());
    }
    println!("longest pause {longest:?}");
    for client in &mut clients {
        client.kill().unwrap();
        client.wait().unwrap();
    }
    let begin = Instant::now();
    while told(&here) != told(&there) {
        assert!(begin.elapsed() < MOST_STALE, "{:?}, not {:?}", told(&here), told(&there));
    }
}
