use std::collections::BTreeMap;
use std::io::{IoSliceMut, Read, Seek};
use std::os::fd::RawFd;
use std::time::Instant;

use log::kv::Value;
use nix::sys::socket::{ControlMessageOwned, recvmsg};

use super::*;

/// The fields of an entry, read as the protocol describes them.
fn fields(mut bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut fields = BTreeMap::new();
    while !bytes.is_empty() {
        let line = bytes.iter().position(|&byte| byte == b'\n').expect("every field ends");
        let (name, value) = match bytes[..line].iter().position(|&byte| byte == b'=') {
            Some(equals) => {
                let field = (&bytes[..equals], &bytes[equals + 1..line]);
                bytes = &bytes[line + 1..];
                field
            }
            None => {
                let (length, rest) = bytes[line + 1..].split_first_chunk::<8>().unwrap();
                let length = u64::from_le_bytes(*length) as usize;
                assert_eq!(rest[length], b'\n');
                let field = (&bytes[..line], &rest[..length]);
                bytes = &rest[length + 1..];
                field
            }
        };
        let name = String::from_utf8(name.to_vec()).unwrap();
        assert!(name.starts_with(|c: char| c.is_ascii_uppercase()), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'), "{name}");
        assert!(fields.insert(name, value.to_vec()).is_none());
    }
    fields
}

/// A journal that a test is.
struct Listening {
    _dir: tempfile::TempDir,
    socket: UnixDatagram,
    journal: JournalSocket,
}

impl Listening {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("socket");
        let socket = UnixDatagram::bind(&place).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { _dir: dir, socket, journal: JournalSocket::new(&place) }
    }

    fn send(&self, level: Level, message: &str, keys: &[(&str, Value<'_>)]) -> SendResult {
        let mut builder = Record::builder();
        builder.level(level).target("a::b").key_values(&keys);
        self.journal.send(&builder.args(format_args!("{message}")).build())
    }

    /// The next entry, and whether it came as a file.
    fn next(&self) -> (BTreeMap<String, Vec<u8>>, bool) {
        let mut datagram = vec![0; 1 << 18];
        let mut room = nix::cmsg_space!([RawFd; 2]);
        let mut parts = [IoSliceMut::new(&mut datagram)];
        let received =
            recvmsg::<()>(self.socket.as_raw_fd(), &mut parts, Some(&mut room), MsgFlags::empty()).unwrap();
        let (length, controls) = (received.bytes, received.cmsgs().unwrap().collect::<Vec<_>>());
        match controls.first() {
            Some(ControlMessageOwned::ScmRights(fds)) => {
                assert_eq!((length, fds.len()), (0, 1));
                // Opened anew by its name in /proc, so that no descriptor is taken over by hand.
                let mut file = File::open(format!("/proc/self/fd/{}", fds[0])).unwrap();
                let seals = fcntl(&file, FcntlArg::F_GET_SEALS).unwrap();
                assert_eq!(seals & 0xF, 0xF, "nobody can change it");
                nix::unistd::close(fds[0]).unwrap();
                let mut bytes = Vec::new();
                file.rewind().unwrap();
                file.read_to_end(&mut bytes).unwrap();
                (fields(&bytes), true)
            }
            _ => (fields(&datagram[..length]), false),
        }
    }
}

fn text<'f>(fields: &'f BTreeMap<String, Vec<u8>>, name: &str) -> &'f str {
    fields.get(name).map_or("", |value| std::str::from_utf8(value).unwrap())
}

#[test]
fn an_entry_has_its_message_its_priority_and_its_fields() {
    let listening = Listening::new();
    let keys =
        [("rule", Value::from("truncated")), ("uid", Value::from(1000)), ("message_id", Value::from("5"))];
    assert_eq!(listening.send(Level::Warn, "refused: mkdir", &keys), SendResult::Done);
    let (fields, _) = listening.next();
    let expected = [
        ("MESSAGE", "refused: mkdir"),
        ("MESSAGE_ID", "5"),
        ("NAMEGATE_MODULE", "a::b"),
        ("NAMEGATE_RULE", "truncated"),
        ("NAMEGATE_UID", "1000"),
        ("PRIORITY", "4"),
        ("SYSLOG_IDENTIFIER", "namegate"),
    ];
    let found: Vec<(&str, &str)> = fields.keys().map(|name| (name.as_str(), text(&fields, name))).collect();
    assert_eq!(found, expected);
    for (level, priority) in
        [(Level::Error, "3"), (Level::Info, "6"), (Level::Debug, "7"), (Level::Trace, "7")]
    {
        listening.send(level, "", &[]);
        assert_eq!(text(&listening.next().0, "PRIORITY"), priority);
    }
}

#[test]
fn no_value_can_be_mistaken_for_another_field() {
    let listening = Listening::new();
    let hostile = "x\nPRIORITY=0\n_UID=0\nMESSAGE\n\u{1}\0\0\0\0\0\0\0y\n";
    let keys = [("name", Value::from(hostile)), ("a=b\nc", Value::from("=")), ("", Value::from("\n"))];
    assert_eq!(listening.send(Level::Warn, hostile, &keys), SendResult::Done);
    let (fields, _) = listening.next();
    assert_eq!((text(&fields, "MESSAGE"), text(&fields, "NAMEGATE_NAME")), (hostile, hostile));
    assert_eq!((text(&fields, "PRIORITY"), text(&fields, "NAMEGATE_A_B_C")), ("4", "="));
    assert_eq!((text(&fields, "NAMEGATE_"), fields.len()), ("\n", 7));
}

#[test]
fn an_entry_too_long_for_a_datagram_is_sent_as_a_sealed_file() {
    let listening = Listening::new();
    let long = "long ".repeat(200_000);
    assert_eq!(listening.send(Level::Info, &long, &[("rule", Value::from("overlong"))]), SendResult::Done);
    let (fields, is_file) = listening.next();
    assert!(is_file);
    assert_eq!((text(&fields, "MESSAGE"), text(&fields, "NAMEGATE_RULE")), (long.as_str(), "overlong"));
}

#[test]
fn a_journal_that_blocks_delays_a_thread_once_and_later_gets_the_count_of_lost_messages() {
    let listening = Listening::new();
    let begun = Instant::now();
    let sent: Vec<SendResult> = (0..5000).map(|_| listening.send(Level::Info, "hello", &[])).collect();
    assert!(begun.elapsed() < Duration::from_secs(60), "only the first of those that are lost waits");
    let lost = sent.iter().filter(|&&sent| sent == SendResult::Lost).count();
    assert_eq!(lost + sent.iter().filter(|&&sent| sent == SendResult::Done).count(), 5000);
    assert!(lost > 0);
    (0..5000 - lost).for_each(|_| drop(listening.next()));
    assert_eq!(listening.send(Level::Info, "again", &[]), SendResult::Done);
    let said = text(&listening.next().0, "MESSAGE").to_owned();
    assert_eq!(said, format!("{lost} messages are lost: the journal accepted nothing"));
    assert_eq!(text(&listening.next().0, "MESSAGE"), "again");
}

#[test]
fn a_missing_journal_is_reported_and_found_when_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("socket");
    let journal = JournalSocket::new(&place);
    let send = || journal.send(&Record::builder().args(format_args!("x")).build());
    assert_eq!(send(), SendResult::NobodyListens);
    let socket = UnixDatagram::bind(&place).unwrap();
    assert_eq!(send(), SendResult::Done);
    drop(socket);
    assert_eq!(send(), SendResult::NobodyListens);
}
