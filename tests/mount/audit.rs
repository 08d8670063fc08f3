//! The audit log of refused and admitted names.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{Group, Uid, mkfifo, setfsuid};
use serde_json::Value;

use crate::background::Unmounted;
use namegate_testkit::mounted::{TestMount, can_mount, prepare};
use namegate_testkit::{PATIENCE, wait_until};

fn with_audit_log(args: &[&str]) -> Option<TestMount> {
    if !can_mount() {
        return None;
    }
    let dir = prepare();
    let audit_log = dir.path().join("audit.log").to_str().unwrap().to_owned();
    let args: Vec<&str> = [args, &["--audit", &audit_log]].concat();
    Some(TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &args))
}

fn records(mounted: &TestMount) -> Vec<Value> {
    let text = fs::read_to_string(mounted.mnt().with_file_name("audit.log")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn bad() -> &'static OsStr {
    OsStr::from_bytes(b"caf\xE9")
}

/// Bad names of which no one is the repetition of another.
fn bad_number(number: u64) -> OsString {
    OsString::from_vec([format!("{number}:caf").as_bytes(), b"\xE9"].concat())
}

/// Performs each operation once with the name [`bad`] in `dir`. Returns the operations with their errno.
fn attempts(dir: &Path) -> Vec<(&'static str, Option<i32>)> {
    let (old, new) = (dir.join("old"), dir.join(bad()));
    fs::write(&old, "").unwrap();
    let errno = |result: std::io::Result<()>| result.err().and_then(|error| error.raw_os_error());
    let fifo = mkfifo(&new, Mode::S_IRWXU).map_err(Into::into);
    vec![
        ("create", errno(File::create(&new).map(drop))),
        ("mkdir", errno(fs::create_dir(&new))),
        ("mknod", errno(fifo)),
        ("symlink", errno(symlink("target", &new))),
        ("link", errno(fs::hard_link(&old, &new))),
        ("rename", errno(fs::rename(&old, &new))),
    ]
}

#[test]
fn every_refused_operation_leaves_one_record() {
    let Some(mounted) = with_audit_log(&[]) else { return };
    let sub = mounted.mnt().join("März").join("sub");
    fs::create_dir_all(&sub).unwrap();
    let done = attempts(&sub);
    assert!(done.iter().all(|(_, errno)| *errno == Some(Errno::EILSEQ as i32)), "{done:?}");
    wait_until("the last record", || records(&mounted).len() >= done.len());
    // mkfifo is first: it runs while the list is built.
    let mut operations: Vec<String> =
        records(&mounted).iter().map(|record| record["operation"].as_str().unwrap().into()).collect();
    operations.sort();
    assert_eq!(operations, ["create", "link", "mkdir", "mknod", "rename", "symlink"]);
    let comm = fs::read_to_string("/proc/thread-self/comm").unwrap();
    for record in records(&mounted) {
        let strings = ["type", "outcome", "name", "name_hex", "rule", "parent", "command"]
            .map(|field| record[field].as_str().unwrap_or_default().to_owned());
        assert_eq!(
            strings,
            ["refusal", "refused", r"caf\xE9", "636166e9", "truncated", "März/sub", comm.trim_end()]
        );
        let numbers = ["start", "end", "uid", "gid"].map(|field| record[field].as_u64().unwrap());
        assert_eq!(numbers, [3, 4, 0, 0]);
        assert!(record["pid"].as_i64().unwrap() > 0);
        let table = fs::read_to_string("/proc/self/cgroup").unwrap();
        let cgroup = record["cgroup"].as_str().unwrap();
        assert!(table.lines().any(|line| line.ends_with(&format!(":{cgroup}"))), "{cgroup}\n{table}");
    }
}

#[test]
fn names_that_a_permissive_mount_admits_are_recorded_as_admitted() {
    let Some(mounted) = with_audit_log(&["--mode", "permissive"]) else { return };
    for dir in ["a", "b"] {
        fs::create_dir(mounted.mnt().join(dir)).unwrap();
    }
    File::create(mounted.mnt().join("a").join(bad())).unwrap();
    symlink("target", mounted.mnt().join("b").join(bad())).unwrap();
    wait_until("the last record", || records(&mounted).len() >= 2);
    for (record, (operation, parent)) in records(&mounted).iter().zip([("create", "a"), ("symlink", "b")]) {
        assert_eq!(record["outcome"], "let-through");
        assert_eq!((&record["operation"], &record["parent"]), (&operation.into(), &parent.into()));
    }
}

#[test]
fn hostile_names_stay_on_one_line_of_log_and_audit_log() {
    let Some(mut mounted) = with_audit_log(&["--profile", "strict"]) else { return };
    let hostile = OsStr::from_bytes(b"x\"; uid 0\nrefused: \x1b[2J\xFF");
    fs::create_dir(mounted.backing().join(hostile)).unwrap();
    let seen = fs::read_dir(mounted.mnt()).unwrap().next().unwrap().unwrap().path();
    assert!(File::create(seen.join(hostile)).is_err());
    wait_until("the record", || !records(&mounted).is_empty());
    let record = &records(&mounted)[0];
    let shown = r#"x"; uid 0\nrefused: \u{1B}[2J\xFF"#;
    assert_eq!(record["name"], shown);
    assert_eq!(record.get("parent"), None, "it is not UTF-8");
    mounted.signal(Signal::SIGTERM);
    let (_, said) = mounted.ended();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("refused")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(
        lines[0].contains(&format!("create of \"{0}\" in \"{0}\":", shown.replace('"', "\\\""))),
        "{said}"
    );
    assert!(!said.contains('\x1b'));
}

#[test]
fn refusals_beyond_the_limit_are_only_counted() {
    const MANY: u64 = 300;
    let Some(mut mounted) = with_audit_log(&["--audit-rate", "10"]) else { return };
    for number in 0..MANY {
        assert!(File::create(mounted.mnt().join(bad_number(number))).is_err());
    }
    mounted.signal(Signal::SIGTERM);
    let (status, said) = mounted.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    let records = records(&mounted);
    let written = records.iter().filter(|record| record["type"] == "refusal").count() as u64;
    let dropped: u64 = records.iter().filter_map(|record| record["count"].as_u64()).sum();
    assert!(written >= 10 && dropped > 0 && written + dropped == MANY, "{written} {dropped}");
    assert!(said.contains("more were refused or let through, and not recorded"), "{said}");
}

#[test]
fn a_storm_of_the_same_refusal_is_one_record_and_one_with_a_count() {
    let Some(mut mounted) = with_audit_log(&[]) else { return };
    let storm = || (0..30).for_each(|_| assert!(File::create(mounted.mnt().join(bad())).is_err()));
    storm();
    wait_until("the first record", || !records(&mounted).is_empty());
    assert_eq!(records(&mounted).len(), 1);
    storm();
    mounted.signal(Signal::SIGTERM);
    let (_, said) = mounted.ended();
    let found = records(&mounted);
    let counts: Vec<_> = found.iter().map(|line| (&line["type"], line.get("count"))).collect();
    assert_eq!(counts, [(&"refusal".into(), None), (&"refusal".into(), Some(&59.into()))]);
    let shown: Vec<&str> = said.lines().filter(|line| line.contains("refused: create of")).collect();
    assert!(
        matches!(shown[..], [_, last] if last.ends_with("; 59 times since the last record of it")),
        "{said}"
    );
}

#[test]
fn targets_of_links_are_checked_on_request() {
    let Some(mounted) = with_audit_log(&["--check-targets"]) else { return };
    let link = |target: &[u8]| {
        let result = symlink(OsStr::from_bytes(target), mounted.mnt().join("link"));
        result.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap()))
    };
    for (target, errno) in [
        (&b"caf\xE9"[..], Errno::EILSEQ),
        (b"../sub//\xFF/x", Errno::EILSEQ),
        (b"/caf\xC3\xA9/\x80", Errno::EILSEQ),
        (&[b'x'; 256], Errno::ENAMETOOLONG),
    ] {
        assert_eq!(link(target), Err(errno), "{}", target.escape_ascii());
    }
    let target = "/../a//./caf\u{E9}/".as_bytes();
    assert_eq!(link(target), Ok(()));
    assert_eq!(fs::read_link(mounted.mnt().join("link")).unwrap().as_os_str().as_bytes(), target);
    wait_until("the last record", || records(&mounted).len() >= 4);
    let second = &records(&mounted)[1];
    let numbers = ["start", "end"].map(|field| second[field].as_u64().unwrap());
    assert_eq!((&second["operation"], &second["name"], numbers), (&"symlink".into(), &"link".into(), [8, 9]));
    assert_eq!(second["target_base64"], "Li4vc3ViLy//L3g=");
}

#[test]
fn a_full_disk_under_the_audit_log_delays_no_client_and_missing_records_are_reported() {
    if !can_mount() {
        return;
    }
    let dir = prepare();
    let small = dir.path().join("small");
    fs::create_dir(&small).unwrap();
    mount(Some("tmpfs"), &small, Some("tmpfs"), MsFlags::empty(), Some("size=64k")).unwrap();
    let audit_log = small.join("audit.log");
    let args =
        ["--audit", audit_log.to_str().unwrap(), "--audit-rate", "100000", "--audit-bytes", "100000000"];
    let mut mounted = TestMount::of(dir, |dir| (dir.join("backing"), dir.join("mnt")), &args);
    let _unmounted = Unmounted(&small);
    let mut refused = 0u64;
    let mut refuse = || {
        let place = mounted.mnt().join(bad_number(refused));
        assert_eq!(File::create(place).unwrap_err().raw_os_error(), Some(84));
        refused += 1;
    };
    let begun = Instant::now();
    (0..1000).for_each(|_| refuse());
    assert!(begun.elapsed() < PATIENCE);
    let is_full = || fs::metadata(&audit_log).is_ok_and(|file| file.len() == 64 << 10);
    wait_until("the full disk", is_full);
    (0..100).for_each(|_| refuse());
    fs::write(mounted.mnt().join("good"), "content").unwrap();
    // Truncate the log, so that there is space again.
    let first = fs::read(&audit_log).unwrap();
    fs::OpenOptions::new().write(true).truncate(true).open(&audit_log).unwrap();
    refuse();
    mounted.signal(Signal::SIGTERM);
    let (status, said) = mounted.ended();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("cannot write the audit log: "), "{said}");
    assert!(said.contains("records missing in it: "), "{said}");
    // The disk may have become full once more.
    let at_the_end = said.lines().find_map(|line| {
        let (_, count) = line.split_once("could not be written to its end; records missing there: ")?;
        count.parse::<u64>().ok()
    });
    let second = fs::read(&audit_log).unwrap();
    // A line without its end was cut by the full disk, even if only the line feed is missing, and is counted among the missing.
    let whole = |bytes: &'_ [u8]| bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end);
    let lines = [&first[..], &second].map(|bytes| &bytes[..whole(bytes)]).into_iter();
    let lines = lines.flat_map(|bytes| bytes.split(|&byte| byte == b'\n'));
    let read: Vec<Value> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
    let written = read.iter().filter(|line| line["type"] == "refusal").count() as u64;
    let missing: u64 = read.iter().filter_map(|line| line["count"].as_u64()).sum();
    assert_eq!(written + missing + at_the_end.unwrap_or_default(), refused, "{said}");
    assert!(read.iter().any(|line| line["reason"] == "disk"));
}

#[test]
fn a_flood_by_one_user_loses_no_record_of_another() {
    const MANY: u64 = 2000;
    let Some(mut mounted) = with_audit_log(&["--audit-rate", "20", "--audit-log=off"]) else { return };
    let flood = |uid: u32, many: u64| {
        // Only of this thread.
        setfsuid(Uid::from_raw(uid));
        (0..many).for_each(|number| {
            assert!(File::create(mounted.mnt().join(bad_number(number))).is_err());
        });
    };
    std::thread::scope(|scope| {
        scope.spawn(|| flood(12345, MANY));
        scope.spawn(|| flood(12346, 10));
    });
    mounted.signal(Signal::SIGTERM);
    let (_, said) = mounted.ended();
    let records = records(&mounted);
    let of = |kind: &str, uid: u64| -> Vec<&Value> {
        records.iter().filter(|line| line["type"] == kind && line["uid"] == uid).collect()
    };
    assert_eq!((of("refusal", 12346).len(), of("dropped", 12346).len()), (10, 0), "{said}");
    let dropped: u64 = of("dropped", 12345).iter().map(|line| line["count"].as_u64().unwrap()).sum();
    assert!(of("dropped", 12345).iter().all(|line| line["reason"] == "rate"));
    assert_eq!(of("refusal", 12345).len() as u64 + dropped, MANY);
    assert!(!said.contains("refused: create"), "the log is off: {said}");
    assert!(said.contains("of uid 12345: more than 20 a second"), "{said}");
}

#[test]
fn the_audit_log_belongs_to_the_group_that_may_read_it() {
    let Some(mounted) = with_audit_log(&["--audit-group", "daemon"]) else { return };
    let audit_log = fs::metadata(mounted.mnt().with_file_name("audit.log")).unwrap();
    let group = Group::from_name("daemon").unwrap().unwrap();
    assert_eq!((audit_log.gid(), audit_log.mode() & 0o777), (group.gid.as_raw(), 0o640));
}

#[test]
fn a_refusal_of_a_service_names_its_unit() {
    let Some(mounted) = with_audit_log(&[]) else { return };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let tree =
        mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|fields| fields[2] == "cgroup2");
    let Some(tree) = tree else { return println!("SKIPPED: no control groups") };
    let unit = format!("namegate-test-{}.service", std::process::id());
    let group = Path::new(tree[1]).join(&unit);
    if let Err(error) = fs::create_dir(&group) {
        return println!("SKIPPED: no control group can be made: {error}");
    }
    let script = r#"echo $$ >"$1/cgroup.procs" && ! mkdir "$2" 2>/dev/null"#;
    let place = mounted.mnt().join(bad());
    let status = Command::new("sh").args(["-c", script, "sh"]).arg(&group).arg(&place).status();
    let removed = fs::remove_dir(&group);
    assert!(status.unwrap().success());
    wait_until("the record", || !records(&mounted).is_empty());
    assert_eq!(records(&mounted)[0]["unit"], unit.as_str());
    removed.unwrap();
}

#[test]
fn names_that_look_damaged_are_allowed_and_recorded_whatever_the_policy() {
    let Some(mounted) = with_audit_log(&[]) else { return };
    for name in ["fine.txt", "café.txt", "what??", "日本.txt", "caf\u{C3}\u{A9}.txt", "??.txt"] {
        fs::write(mounted.mnt().join(name), "").unwrap();
    }
    wait_until("the last record", || records(&mounted).len() >= 2);
    let found: Vec<Value> = records(&mounted)
        .iter()
        .map(|record| ["outcome", "rule", "name", "start", "end"].map(|key| record[key].clone()).into())
        .collect();
    let expected = serde_json::json!([
        ["noticed", "mojibake", "caf\u{C3}\u{A9}.txt", 3, 7],
        ["noticed", "lost-characters", "??.txt", 0, 2],
    ]);
    assert_eq!(Value::from(found), expected);
}
