//! Reloads of the configuration of a live mount.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::control::{ask, by_file, said, status, write_file};
use namegate_testkit::mounted::{TestMount, can_mount, is_mounted, prepare};
use namegate_testkit::wait_until;

/// Number of successful and failed reloads.
fn reloads(mounted: &TestMount) -> (u64, u64) {
    let now = status(mounted);
    let count = |what: &str| now["counters"]["reloads"][what].as_u64().unwrap();
    (count("succeeded"), count("failed"))
}

/// Sends SIGHUP, and waits until the configuration has been read `count` times.
fn hang_up(mounted: &TestMount, count: u64) {
    mounted.signal(Signal::SIGHUP);
    wait_until("the reload", || {
        let (succeeded, failed) = reloads(mounted);
        succeeded + failed == count
    });
}

fn of(profile: &str) -> String {
    format!("[policy]\nprofiles = [\"{profile}\"]\n")
}

#[test]
fn a_reload_under_load_fails_no_request_and_applies_to_the_next_name() {
    if !can_mount() {
        return;
    }
    let mounted = by_file(prepare(), &of("utf8"));
    let dir = mounted.mnt().parent().unwrap().to_owned();
    let (ends, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for client in 0..3 {
            let (mnt, ends, done) = (mounted.mnt(), &ends, &done);
            scope.spawn(move || {
                let place = mnt.join(format!("{client}"));
                fs::create_dir(&place).unwrap();
                let mut open =
                    File::options().create_new(true).read(true).write(true).open(place.join("open")).unwrap();
                for round in 0.. {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    let (file, moved) = (place.join(format!("f{round}")), place.join(format!("é{round}")));
                    fs::write(&file, "content").unwrap();
                    fs::rename(&file, &moved).unwrap();
                    assert_eq!(fs::read_to_string(&moved).unwrap(), "content");
                    assert_eq!(fs::read_dir(&place).unwrap().count(), 2);
                    fs::remove_file(&moved).unwrap();
                    open.rewind().unwrap();
                    open.write_all(b"still here").unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
                let mut content = String::new();
                open.rewind().unwrap();
                open.read_to_string(&mut content).unwrap();
                assert_eq!(content, "still here");
            });
        }
        let judged = || {
            fs::create_dir(mounted.mnt().join("a:b")).and_then(|()| fs::remove_dir(mounted.mnt().join("a:b")))
        };
        for round in 1..=20 {
            let is_strict = round % 2 == 1;
            // Two profiles, with and without a normalization, so that every decision of the gate changes.
            let profile = if is_strict {
                of("windows") + "normalization = { form = \"nfc\", on-mismatch = \"match\" }\n"
            } else {
                of("utf8")
            };
            write_file(&dir, &profile);
            hang_up(&mounted, round);
            assert_eq!(judged().is_err(), is_strict, "round {round}");
            let before = done.load(Ordering::Relaxed);
            wait_until("work between two reloads", || done.load(Ordering::Relaxed) > before);
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(reloads(&mounted), (20, 0));
}

/// The command of the unit, as the service manager runs it for the instance `share`.
fn reload_by_unit(mounted: &TestMount) -> Option<i32> {
    let unit = include_str!("../../systemd/namegate@.service");
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecReload=/usr/bin/namegate ")).unwrap();
    let output = ask(mounted, command.split(' ').map(|word| word.replace("%i", "share")));
    output.status.code()
}

#[test]
fn the_units_reload_fails_unless_all_of_the_configuration_is_in_effect() {
    if !can_mount() {
        return;
    }
    let mounted = by_file(prepare(), &of("windows"));
    let dir = mounted.mnt().parent().unwrap().to_owned();
    assert_eq!(reload_by_unit(&mounted), Some(0));
    write_file(&dir, &of("nonsense"));
    assert_eq!(reload_by_unit(&mounted), Some(2));
    assert!(fs::create_dir(mounted.mnt().join("a:b")).is_err(), "the previous configuration is in effect");
    write_file(&dir, &(of("utf8") + "[mount]\ntransport = \"fuser\"\n"));
    assert_eq!(reload_by_unit(&mounted), Some(1), "a setting has to wait for the next mount");
    fs::create_dir(mounted.mnt().join("a:b")).unwrap();
    write_file(&dir, &of("utf8"));
    assert_eq!(reload_by_unit(&mounted), Some(0));
}

#[test]
fn an_invalid_file_changes_nothing_and_the_error_is_reported_to_everyone() {
    if !can_mount() {
        return;
    }
    let mut mounted = by_file(prepare(), &of("windows"));
    let dir = mounted.mnt().parent().unwrap().to_owned();
    let name = mounted.mnt().join("a:b");
    write_file(&dir, "[policy]\nprofiles = [\"utf8\"]\n[policy.rules]\nno-such = \"off\"\n");
    let output = ask(&mounted, ["reload"]);
    let (code, out, err) = said(&output);
    assert_eq!((code, out), (Some(2), ""));
    assert!(err.contains("share.toml:6:1: unknown rule `no-such`"), "{err}");
    assert!(fs::create_dir(&name).is_err());
    hang_up(&mounted, 2);
    assert!(fs::create_dir(&name).is_err());
    let output = ask(&mounted, ["status"]);
    let (code, out, _) = said(&output);
    assert!(code == Some(1) && out.contains("unknown rule `no-such`") && out.contains("windows"), "{out}");
    fs::remove_file(dir.join("share.toml")).unwrap();
    let output = ask(&mounted, ["reload"]);
    assert!(said(&output).2.contains("cannot be read"), "{output:?}");
    write_file(&dir, &of("utf8"));
    let output = ask(&mounted, ["reload"]);
    let (code, out, _) = said(&output);
    assert!(code == Some(0) && out.starts_with("policy: utf8; 0 lines;"), "{out}");
    fs::create_dir(&name).unwrap();
    assert_eq!(reloads(&mounted), (1, 3));
    mounted.signal(Signal::SIGTERM);
    let (_, log) = mounted.ended();
    assert!(
        log.contains("still running the previous configuration") && log.contains("unknown rule `no-such`"),
        "{log}"
    );
}

#[test]
fn settings_that_need_a_new_mount_are_reported_and_the_others_take_effect() {
    if !can_mount() {
        return;
    }
    let mounted = by_file(prepare(), "[mount]\nerrno = \"EILSEQ\"\n");
    let dir = mounted.mnt().parent().unwrap().to_owned();
    let tables = "[mount]\nerrno = \"EACCES\"\nread-only = true\nfsname = \"x\"\nentry-timeout = 0\n[audit]\nrate = 3\n";
    write_file(&dir, tables);
    let file = fs::read_to_string(dir.join("share.toml")).unwrap();
    fs::write(dir.join("share.toml"), file.replace("/backing", "/plain")).unwrap();
    let output = ask(&mounted, ["reload"]);
    let plain = mounted.plain();
    let expected = format!(
        "errno: EACCES (was EILSEQ)\nentry-timeout: 0 s (was 1 s)\n\
         not before the next mount: source: {} (was {})\n\
         not before the next mount: read-only: true (was false)\n\
         not before the next mount: fsname: x (was path of the source)\n\
         not before the next mount: audit-rate: 3 (was 100)\n",
        plain.to_str().unwrap(),
        mounted.backing().to_str().unwrap()
    );
    assert_eq!(said(&output), (Some(1), expected.as_str(), ""));
    let refused = fs::create_dir(mounted.mnt().join(OsStr::from_bytes(b"\xFF"))).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::EACCES as i32));
    fs::create_dir(mounted.mnt().join("still writable")).unwrap();
    assert!(mounted.backing().join("still writable").is_dir());
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_reload_changes_the_shown_names_without_waiting_for_timeouts() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let tables = |existing: &str, normalization: &str| {
        format!(
            "[mount]\nexisting = \"{existing}\"\nentry-timeout = 3600\nattr-timeout = 3600\n[policy]\nprofiles = [\"utf8\"]\n{normalization}"
        )
    };
    let sub = dir.path().join("backing/sub");
    fs::create_dir(&sub).unwrap();
    fs::write(sub.join(OsStr::from_bytes(b"caf\xE9")), "").unwrap();
    fs::write(sub.join("e\u{301}"), "").unwrap();
    // Long enough for the kernel to cache a listing.
    thread::sleep(Duration::from_millis(3200));
    let mounted = by_file(dir, &tables("escape", ""));
    let (home, sub) = (mounted.mnt().parent().unwrap().to_owned(), mounted.mnt().join("sub"));
    let escaped = sub.join("caf\u{2426}E9");
    for _ in 0..3 {
        assert_eq!(names(&sub), ["caf\u{2426}E9", "e\u{301}"]);
        assert!(escaped.exists() && sub.join("e\u{301}").exists() && !sub.join("é").exists());
    }
    let reload = |tables: &str| {
        write_file(&home, tables);
        assert_eq!(said(&ask(&mounted, ["reload"])).0, Some(0));
    };
    reload(&tables("hide", ""));
    assert_eq!(names(&sub), ["e\u{301}"]);
    assert!(!escaped.exists());
    reload(&tables("escape", "normalization = { form = \"nfc\", on-mismatch = \"match\" }\n"));
    assert_eq!(names(&sub), ["caf\u{2426}E9", "e\u{301}"]);
    assert!(escaped.exists() && sub.join("é").exists());
    // The kernel had cached the other spelling.
    fs::remove_file(sub.join("é")).unwrap();
    assert!(!sub.join("e\u{301}").exists());
}

#[test]
fn a_reload_of_mode_or_substitutes_applies_to_names_that_the_kernel_has_cached() {
    if !can_mount() {
        return;
    }
    let tables = |mode: &str, substitutes: &str| {
        format!(
            "[mount]\nmode = \"{mode}\"\nsubstitutes = \"{substitutes}\"\nentry-timeout = 3600\nattr-timeout = 3600\n{}",
            of("windows")
        )
    };
    let mounted = by_file(prepare(), &tables("encode", "rclone"));
    let (home, backing, sub) =
        (mounted.mnt().parent().unwrap().to_owned(), mounted.backing(), mounted.mnt().join("sub"));
    fs::create_dir(&sub).unwrap();
    for (name, content) in [("a：b", "rclone"), ("a÷b", "ca"), ("a:b", "literal!")] {
        fs::write(backing.join("sub").join(name), content).unwrap();
    }
    let reload = |mode: &str, substitutes: &str| {
        write_file(&home, &tables(mode, substitutes));
        assert_eq!(said(&ask(&mounted, ["reload"])).0, Some(0));
    };
    let is_shown = |expected: &[(&str, u64)]| {
        let len = |name: &String| fs::metadata(sub.join(name)).unwrap().len();
        let found: Vec<_> = names(&sub).into_iter().map(|name| (len(&name), name)).collect();
        let mut expected: Vec<_> = expected.iter().map(|&(name, len)| (len, name.to_owned())).collect();
        expected.sort_by(|one, other| one.1.cmp(&other.1));
        assert_eq!(found, expected);
    };
    for _ in 0..2 {
        is_shown(&[("a:b", 6), ("a÷b", 2), ("a␦3Ab", 8)]);
        assert!(!sub.join("a：b").exists());
        reload("encode", "catia");
        is_shown(&[("a:b", 2), ("a：b", 6), ("a␦3Ab", 8)]);
        assert!(!sub.join("a÷b").exists());
        assert_eq!(said(&ask(&mounted, ["mode", "enforcing"])).0, Some(0));
        is_shown(&[("a:b", 8), ("a：b", 6), ("a÷b", 2)]);
        assert!(!sub.join("a␦3Ab").exists());
        assert_eq!(said(&ask(&mounted, ["mode", "encode"])).0, Some(0));
        reload("encode", "rclone");
    }
}

#[test]
fn a_rotated_audit_log_is_created_again() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let audit_log = dir.path().join("audit.log");
    let mounted = by_file(dir, &format!("[audit]\nfile = {audit_log:?}\n"));
    let bad = mounted.mnt().join(OsStr::from_bytes(b"\xFF"));
    assert!(fs::create_dir(&bad).is_err());
    let has = |file: &Path| fs::read_to_string(file).is_ok_and(|text| text.contains("mkdir"));
    wait_until("the record", || has(&audit_log));
    let moved = audit_log.with_extension("1");
    fs::rename(&audit_log, &moved).unwrap();
    hang_up(&mounted, 1);
    assert!(fs::create_dir(&bad).is_err());
    wait_until("the record", || has(&audit_log));
    assert_eq!(fs::read_to_string(&moved).unwrap().lines().count(), 1);
}

#[test]
fn a_mount_ends_when_its_terminal_is_closed() {
    if !can_mount() {
        return;
    }
    if Command::new("script").arg("--version").output().is_err() {
        return println!("SKIPPED: no script(1), which has terminals");
    }
    let dir = prepare();
    let (source, target) = (dir.path().join("backing"), dir.path().join("mnt"));
    let line =
        format!("exec {} mount {} {}", env!("CARGO_BIN_EXE_namegate"), source.display(), target.display());
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &line, "/dev/null"]).env("NAMEGATE_RUNTIME_DIR", dir.path().join("run"));
    let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    wait_until("the mount", || is_mounted(&target));
    kill(Pid::from_raw(i32::try_from(terminal.id()).unwrap()), Signal::SIGKILL).unwrap();
    terminal.wait().unwrap();
    wait_until("the unmounting", || !is_mounted(&target));
}

#[test]
fn a_reload_that_hangs_does_not_delay_the_end() {
    if !can_mount() {
        return;
    }
    let mut mounted = by_file(prepare(), "");
    let file = mounted.mnt().with_file_name("share.toml");
    // Opening it blocks until another process writes.
    fs::remove_file(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    mounted.signal(Signal::SIGHUP);
    thread::sleep(Duration::from_millis(300));
    // Status queries are still answered during the reload.
    assert_eq!(status(&mounted)["mode"], "enforcing");
    mounted.signal(Signal::SIGTERM);
    let (ended, said) = mounted.ended();
    assert_eq!(ended.code(), Some(0), "{said}");
}
