use std::ffi::OsStr;

use serde_json::{Value, json};

use super::*;

fn record(name: &[u8]) -> Record {
    Record {
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(1500),
        outcome: Outcome::Refused,
        operation: "mkdir",
        name: OsStr::from_bytes(name).into(),
        target: None,
        parent: Some("2019/März".into()),
        rule: Some(RuleId::Truncated),
        span: Span::new(3, 4),
        asker: Asker { uid: 1000, gid: 100, pid: 4711, command: Some(b"touch".to_vec()) },
    }
}

/// A sink whose content can be seen, and which can be full.
#[derive(Clone, Default)]
struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: Arc<Mutex<Option<usize>>>,
}

impl Sink {
    fn lines(&self) -> Vec<Value> {
        let bytes = self.bytes.lock().unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut room = self.room.lock().unwrap();
        let taken = bytes.len().min(room.unwrap_or(usize::MAX));
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(room) = &mut *room {
            *room -= taken;
        }
        self.bytes.lock().unwrap().extend(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_record_says_who_was_refused_what_where_and_why() {
    assert_eq!(
        record(b"caf\xE9").to_string(),
        r#"refused: mkdir of "caf\xE9" in "2019/März": truncated at bytes 3..4; uid 1000, gid 100, pid 4711 "touch""#
    );
    let mut other = record(b"link");
    other.target = Some(OsStr::from_bytes(b"a/\xFF").into());
    (other.outcome, other.operation, other.rule) = (Outcome::LetThrough, "symlink", None);
    (other.parent, other.asker.command) = (Some(PathBuf::new()), None);
    assert_eq!(
        other.to_string(),
        r#"let through: symlink of "link" to "a/\xFF" in ".": the escape of another name at bytes 3..4; uid 1000, gid 100, pid 4711"#
    );
    let line = serde_json::to_value(Line::from(&record(b"caf\xE9"))).unwrap();
    let expected = json!({
        "type": "refusal", "time": "1970-01-01T00:00:01.5Z", "outcome": "refused", "operation": "mkdir",
        "name": r"caf\xE9", "name_hex": "636166e9", "parent": "2019/März", "parent_base64": "MjAxOS9Nw6Ryeg==",
        "rule": "truncated", "start": 3, "end": 4, "uid": 1000, "gid": 100, "pid": 4711, "command": "touch",
    });
    assert_eq!(line, expected);
}

#[test]
fn nothing_of_a_name_a_path_or_a_command_can_be_taken_for_something_else() {
    let hostile = b"a\"; uid 0\n\x1b[2J\\\"\xE2\x80\xAE\xFF\0";
    let mut record = record(hostile);
    record.parent = Some(OsStr::from_bytes(hostile).into());
    record.target = Some(OsStr::from_bytes(hostile).into());
    record.asker.command = Some(hostile.to_vec());
    let text = record.to_string();
    let shown = r#""a\"; uid 0\n\u{1B}[2J\\\"\u{202E}\xFF\u{0}""#;
    assert_eq!(
        text,
        format!(
            "refused: mkdir of {shown} to {shown} in {shown}: truncated at bytes 3..4; uid 1000, gid 100, pid 4711 {shown}"
        )
    );
    let mut line = Vec::new();
    json::line(&mut line, &Line::from(&record)).unwrap();
    let (last, inside) = line.split_last().unwrap();
    assert!(*last == b'\n' && inside.iter().all(|byte| !byte.is_ascii_control()), "{}", line.escape_ascii());
    let read: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(read["name_hex"], HEXLOWER.encode(hostile));
    assert_eq!(read["parent_base64"], BASE64.encode(hostile));
    assert_eq!(read["target_base64"], BASE64.encode(hostile));
    assert_eq!(read.get("parent"), None, "it is not UTF-8");
}

#[test]
fn a_bucket_lets_pass_so_many_a_second_whenever_they_come() {
    let begin = Instant::now();
    let mut bucket = Bucket::new(NonZeroU32::new(10).unwrap(), begin);
    let mut passed =
        |ms: u64, tries: usize| (0..tries).filter(|_| bucket.take(begin + Duration::from_millis(ms))).count();
    assert_eq!(passed(0, 50), 10);
    assert_eq!(passed(99, 1), 0);
    assert_eq!(passed(100, 5), 1);
    assert_eq!(passed(600, 50), 5);
    assert_eq!(passed(60_000, 50), 10, "what was not used up is not saved");
}

#[test]
fn what_is_too_much_is_counted_and_never_lost_without_a_word() {
    const MANY: usize = 5000;
    let sink = Sink::default();
    let settings = Settings {
        per_second: NonZeroU32::new(20).unwrap(),
        trail: Some(Trail::to(sink.clone())),
        ..Settings::default()
    };
    let audit = Audit::new(settings).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..MANY / 4).for_each(|_| audit.record(|| record(b"caf\xE9"))));
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
fn a_count_is_told_soon_also_when_nothing_more_happens() {
    let sink = Sink::default();
    let settings =
        Settings { per_second: NonZeroU32::MIN, trail: Some(Trail::to(sink.clone())), ..Settings::default() };
    let audit = Audit::new(settings).unwrap();
    (0..3).for_each(|_| audit.record(|| record(b"\xFF")));
    let begin = Instant::now();
    while sink.lines().len() < 2 {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", sink.lines());
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(sink.lines()[1]["count"], 2);
    drop(audit);
    assert_eq!(sink.lines().len(), 2);
}

#[test]
fn a_full_disk_costs_records_and_their_number_is_told_when_there_is_room_again() {
    let sink = Sink::default();
    let mut trail = Trail::to(sink.clone());
    let mut put = |name: &[u8]| trail.put(&Line::from(&record(name)));
    put(b"first");
    *sink.room.lock().unwrap() = Some(40);
    (0..3).for_each(|_| put(b"lost"));
    *sink.room.lock().unwrap() = None;
    put(b"last");
    let bytes = sink.bytes.lock().unwrap();
    let lines: Vec<Option<Value>> =
        bytes.split(|&byte| byte == b'\n').map(|line| serde_json::from_slice(line).ok()).collect();
    // The second was cut by the full disk, and behind the last line feed there is nothing.
    let [Some(first), None, Some(last), Some(dropped), None] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!((&first["name"], &last["name"]), (&json!("first"), &json!("last")));
    assert_eq!(dropped["count"], 3);
}

#[test]
fn a_trail_is_its_owners_alone_and_is_added_to() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trail");
    for _ in 0..2 {
        Trail::append(&path).unwrap().put(&Line::from(&record(b"\xFF")));
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    let fifo = dir.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(Trail::append(&fifo).is_err(), "nobody reads it");
}

#[test]
fn whoever_records_is_not_held_up_by_a_trail_that_takes_nothing() {
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
    let settings =
        Settings { per_second: NonZeroU32::MAX, trail: Some(Trail::to(Stuck)), ..Settings::default() };
    let audit = Audit::new(settings).unwrap();
    let begin = Instant::now();
    (0..10_000).for_each(|_| audit.record(|| record(b"\xFF")));
    drop(audit);
    assert!(begin.elapsed() < Duration::from_secs(20));
}
