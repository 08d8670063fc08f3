use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use data_encoding::{BASE64, HEXLOWER};
use namegate_core::name::Span;
use namegate_core::policy::rule::RuleId;
use namegate_files::json;
use serde_json::{Value, json};

use super::record::AuditLine;
use super::*;

fn record(name: &[u8]) -> AuditRecord {
    AuditRecord {
        count: 1,
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(1500),
        outcome: AuditOutcome::Refused,
        operation: "mkdir",
        name: OsStr::from_bytes(name).into(),
        target: None,
        parent: Some("2019/März".into()),
        rule: Some(RuleId::Truncated),
        span: Span::new(3, 4),
        requester: Requester {
            uid: Some(1000),
            gid: Some(100),
            pid: 4711,
            command: Some(b"touch".to_vec()),
            cgroup: None,
        },
    }
}

/// The records of this many different names.
fn records(count: u64) -> impl Iterator<Item = AuditRecord> {
    (0..count).map(|number| record(format!("{number}:").as_bytes()))
}

/// A sink whose content can be seen, and which can be full.
#[derive(Clone, Default)]
struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: Arc<Mutex<Option<usize>>>,
}

impl Sink {
    fn lines(&self) -> Vec<Value> {
        let bytes = self.bytes.lock();
        let text = std::str::from_utf8(&bytes).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut room = self.room.lock();
        let taken = bytes.len().min(room.unwrap_or(usize::MAX));
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(room) = &mut *room {
            *room -= taken;
        }
        self.bytes.lock().extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_record_has_the_client_the_name_the_directory_and_the_rule() {
    assert_eq!(
        record(b"caf\xE9").to_string(),
        r#"refused: mkdir of "caf\xE9" in "2019/März": truncated at bytes 3..4; uid 1000, gid 100, pid 4711 "touch""#
    );
    let mut other = record(b"link");
    other.target = Some(OsStr::from_bytes(b"a/\xFF").into());
    (other.outcome, other.operation, other.rule) = (AuditOutcome::LetThrough, "symlink", None);
    (other.parent, other.requester.command) = (Some(PathBuf::new()), None);
    assert_eq!(
        other.to_string(),
        r#"let through: symlink of "link" to "a/\xFF" in ".": the escape of another name at bytes 3..4; uid 1000, gid 100, pid 4711"#
    );
    let mut of_a_service = record(b"caf\xE9");
    of_a_service.requester.cgroup =
        Some(b"/user.slice/user-7.slice/user@7.service/app.slice/a\".service".to_vec());
    let text = of_a_service.to_string();
    assert!(text.ends_with(r#" pid 4711 "touch" of "a\".service""#), "{text}");
    let line = serde_json::to_value(AuditLine::from(&of_a_service)).unwrap();
    let expected = json!({
        "type": "refusal", "version": 1, "time": "1970-01-01T00:00:01.5Z", "outcome": "refused", "operation": "mkdir",
        "name": r"caf\xE9", "name_hex": "636166e9", "parent": "2019/März", "parent_base64": "MjAxOS9Nw6Ryeg==",
        "rule": "truncated", "start": 3, "end": 4, "uid": 1000, "gid": 100, "pid": 4711, "command": "touch",
        "cgroup": "/user.slice/user-7.slice/user@7.service/app.slice/a\".service",
        "unit": "user@7.service", "user_unit": "a\".service",
    });
    assert_eq!(line, expected);
}

#[test]
fn no_part_of_a_name_a_path_or_a_command_can_be_mistaken_for_another() {
    let hostile = b"a\"; uid 0\n\x1b[2J\\\"\xE2\x80\xAE\xFF\0";
    let mut record = record(hostile);
    record.parent = Some(OsStr::from_bytes(hostile).into());
    record.target = Some(OsStr::from_bytes(hostile).into());
    record.requester.command = Some(hostile.to_vec());
    record.requester.cgroup = Some([&b"/user@1.service/"[..], hostile, b".scope"].concat());
    let text = record.to_string();
    let shown = r#""a\"; uid 0\n\u{1B}[2J\\\"\u{202E}\xFF\u{0}""#;
    assert_eq!(
        text,
        format!(
            "refused: mkdir of {shown} to {shown} in {shown}: truncated at bytes 3..4; uid 1000, gid 100, pid 4711 {shown} of {}",
            shown.strip_suffix('"').unwrap().to_owned() + ".scope\""
        )
    );
    let mut line = Vec::new();
    json::write_line(&mut line, &AuditLine::from(&record)).unwrap();
    let (last, inside) = line.split_last().unwrap();
    assert!(*last == b'\n' && inside.iter().all(|byte| !byte.is_ascii_control()), "{}", line.escape_ascii());
    let read: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(read["name_hex"], HEXLOWER.encode(hostile));
    assert_eq!(read["parent_base64"], BASE64.encode(hostile));
    assert_eq!(read["target_base64"], BASE64.encode(hostile));
    assert_eq!(read.get("parent"), None, "it is not UTF-8");
}

#[test]
fn records_beyond_a_limit_are_counted_and_reported() {
    const MANY: usize = 5000;
    let sink = Sink::default();
    let settings = AuditSettings {
        per_second: NonZeroU32::new(20).unwrap(),
        audit_log: Some(AuditLog::to(sink.clone())),
        ..AuditSettings::default()
    };
    let audit = Audit::new(settings).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..MANY / 4).for_each(|number| {
                    audit.record(Some(1000), || {
                        record(format!("{number}{:?}", thread::current().id()).as_bytes())
                    })
                })
            });
        }
    });
    drop(audit);
    let lines = sink.lines();
    let written = lines.iter().filter(|line| line["type"] == "refusal").count();
    let dropped: u64 = lines.iter().filter_map(|line| line["count"].as_u64()).sum();
    assert!((20..MANY / 2).contains(&written), "{written}");
    assert_eq!(written as u64 + dropped, MANY as u64);
}

#[test]
fn dropped_records_are_reported_soon_even_if_nothing_more_happens() {
    let sink = Sink::default();
    let settings = AuditSettings {
        per_second: NonZeroU32::MIN,
        audit_log: Some(AuditLog::to(sink.clone())),
        ..AuditSettings::default()
    };
    const MANY: u64 = 100;
    let audit = Audit::new(settings).unwrap();
    records(MANY).for_each(|record| audit.record(Some(1000), || record));
    let counted = || sink.lines().iter().filter_map(|line| line["count"].as_u64()).sum::<u64>();
    let written = || sink.lines().iter().filter(|line| line["type"] == "refusal").count() as u64;
    let begin = Instant::now();
    while written() + counted() < MANY {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", sink.lines());
        thread::sleep(Duration::from_millis(10));
    }
    assert!(counted() > 0);
    drop(audit);
    assert_eq!(written() + counted(), MANY, "each once");
}

#[test]
fn records_lost_on_a_full_disk_are_counted_and_reported_later() {
    let sink = Sink::default();
    let mut audit_log = AuditLog::to(sink.clone());
    let mut put = |name: &[u8]| audit_log.keep(&record(name));
    put(b"first");
    *sink.room.lock() = Some(40);
    (0..3).for_each(|_| put(b"lost"));
    *sink.room.lock() = None;
    put(b"last");
    let bytes = sink.bytes.lock();
    let lines: Vec<Option<Value>> =
        bytes.split(|&byte| byte == b'\n').map(|line| serde_json::from_slice(line).ok()).collect();
    // The second was cut by the full disk, and behind the last line feed there is nothing.
    let [Some(first), None, Some(last), Some(dropped), None] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&first["name"], &last["name"]), (&json!("first"), &json!("last")));
    assert_eq!(dropped["count"], 3);
}

#[test]
fn an_audit_log_is_readable_by_owner_and_group_and_appended_to() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    for _ in 0..2 {
        AuditLog::append(&path).unwrap().keep(&record(b"\xFF"));
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(AuditLog::append(&fifo).is_err(), "nobody reads it");
}

#[test]
fn an_audit_log_that_blocks_does_not_delay_requests() {
    struct Stuck;
    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            loop {
                thread::park();
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let settings = AuditSettings {
        per_second: NonZeroU32::MAX,
        audit_log: Some(AuditLog::to(Stuck)),
        ..AuditSettings::default()
    };
    let audit = Audit::new(settings).unwrap();
    let begin = Instant::now();
    (0..10_000).for_each(|_| audit.record(Some(1000), || record(b"\xFF")));
    drop(audit);
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn an_audit_log_that_was_moved_away_is_created_again_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let (path, old) = (dir.path().join("audit.log"), dir.path().join("audit.log.1"));
    let audit_log = Some(AuditLog::append(&path).unwrap());
    let settings = AuditSettings { audit_log, ..AuditSettings::default() };
    let recent = settings.recent.clone();
    let audit = Audit::new(settings).unwrap();
    let names = |path: &PathBuf| -> Vec<String> {
        let lines = fs::read_to_string(path).unwrap_or_default();
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["name"].to_string()).collect()
    };
    let wait_for = |what: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !what() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{:?} {:?}", names(&old), names(&path));
            thread::sleep(Duration::from_millis(5));
        }
    };
    audit.record(None, || record(b"one"));
    wait_for(&|| names(&path).len() == 1);
    fs::rename(&path, &old).unwrap();
    audit.record(None, || record(b"two"));
    wait_for(&|| names(&old).len() == 2);
    (0..2).for_each(|_| audit.record(None, || record(b"two")));
    wait_for(&|| recent.last().iter().any(|refusal| refusal.count == 3));
    audit.reopen();
    wait_for(&|| path.exists());
    assert_eq!(names(&old).len(), 3, "repeats are in the file of the first one");
    // Nor is it a repeat in the new file.
    audit.record(None, || record(b"two"));
    wait_for(&|| names(&path).len() == 1);
    // The directory has gone: better the old file than none.
    fs::remove_dir_all(dir.path()).unwrap();
    audit.reopen();
    audit.record(None, || record(b"four"));
    drop(audit);
}

#[test]
fn recorded_and_dropped_records_are_counted() {
    let sink = Sink::default();
    let metrics = Arc::<Metrics>::default();
    let settings = AuditSettings {
        per_second: NonZeroU32::new(5).unwrap(),
        audit_log: Some(AuditLog::to(sink.clone())),
        metrics: metrics.clone(),
        ..AuditSettings::default()
    };
    *sink.room.lock() = Some(0);
    const MANY: u64 = 80;
    let audit = Audit::new(settings).unwrap();
    records(MANY).for_each(|record| audit.record(Some(1), || record));
    let begin = Instant::now();
    let dropped = || (metrics.snapshot().audit.dropped_file, metrics.snapshot().audit.dropped_rate);
    while dropped().0 + dropped().1 < MANY {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", metrics.snapshot().audit);
        thread::sleep(Duration::from_millis(5));
    }
    *sink.room.lock() = None;
    audit.record(Some(2), || record(b"\xFF"));
    drop(audit);
    let counts = metrics.snapshot().audit;
    assert_eq!((counts.recorded, counts.dropped_queue), (1, 0));
    assert_eq!(counts.dropped_rate + counts.dropped_file, MANY);
    assert!(counts.dropped_file >= 5 && counts.dropped_rate > 0, "{counts:?}");
    let lines = sink.lines();
    let dropped: Vec<_> = lines.iter().filter(|line| line["type"] == "dropped").collect();
    let told = |reason: &str| {
        dropped
            .iter()
            .filter(|line| line["reason"] == reason)
            .map(|line| line["count"].as_u64().unwrap())
            .sum::<u64>()
    };
    // What was not told because there was no room is missing too.
    assert_eq!(told("rate") + told("disk"), MANY, "{lines:?}");
}

#[test]
fn a_refusal_that_is_repeated_makes_one_record_at_once_and_one_with_the_number() {
    let (sink, metrics) = (Sink::default(), Arc::<Metrics>::default());
    let settings = AuditSettings {
        audit_log: Some(AuditLog::to(sink.clone())),
        metrics: metrics.clone(),
        ..AuditSettings::default()
    };
    let recent = settings.recent.clone();
    let audit = Audit::new(settings).unwrap();
    let retry = |number: u64| {
        let requester = Requester { pid: 7 + number as u32, ..record(b"").requester };
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
        AuditRecord { time, requester, ..record(b"storm") }
    };
    audit.record(Some(1000), || retry(0));
    let begin = Instant::now();
    while sink.lines().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        thread::sleep(Duration::from_millis(5));
    }
    (1..60).for_each(|number| audit.record(Some(1000), || retry(number)));
    // Each differs in one part.
    audit.record(Some(1000), || AuditRecord { operation: "create", ..retry(0) });
    audit.record(Some(1000), || AuditRecord { parent: Some("other".into()), ..retry(0) });
    audit.record(Some(1000), || AuditRecord { rule: None, ..retry(0) });
    audit.record(Some(1001), || {
        let requester = Requester { uid: Some(1001), ..retry(0).requester };
        AuditRecord { requester, ..retry(0) }
    });
    drop(audit);
    let lines = sink.lines();
    let found: Vec<_> = lines.iter().map(|line| (line["pid"].as_u64().unwrap(), line.get("count"))).collect();
    assert_eq!(found, [(7, None), (7, None), (7, None), (7, None), (7, None), (66, Some(&json!(59)))]);
    assert_eq!(lines[5]["time"], "1970-01-01T00:00:59Z");
    assert_eq!(metrics.snapshot().audit.recorded, 64);
    assert_eq!(recent.last().iter().map(|refusal| refusal.count).sum::<u64>(), 64);
    let text = AuditRecord { count: 59, ..retry(59) }.to_string();
    assert!(text.ends_with("; 59 times since the last record of it"), "{text}");
}
