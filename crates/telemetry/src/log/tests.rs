use std::time::{Duration, UNIX_EPOCH};

use log::kv::Value;

use super::*;

#[test]
fn standard_error_is_the_journals_if_device_and_inode_are() {
    for (stream, expected) in [
        ("8:4711", true),
        ("8:4712", false),
        ("9:4711", false),
        ("8:4711:1", false),
        ("8", false),
        ("", false),
        (" 8:4711", false),
    ] {
        assert_eq!(is_stream(stream, 8, 4711), expected, "{stream}");
    }
}

#[test]
fn a_line_of_json_is_one_line_with_the_fields_as_they_are() {
    let keys = [
        ("name", Value::from("a\"\n\u{202E}\u{1B}[2J")),
        ("uid", Value::from(1000u32)),
        ("by", Value::from(-1)),
    ];
    let mut line = Vec::new();
    let time = UNIX_EPOCH + Duration::from_millis(1500);
    let keys: &[(&str, Value<'_>)] = &keys;
    let mut builder = Record::builder();
    builder.level(Level::Warn).target("namegate::fuse").key_values(&keys);
    json_line(&builder.args(format_args!("first\nsecond\u{7f}")).build(), time, &mut line);
    let (last, inside) = line.split_last().unwrap();
    assert!(*last == b'\n' && inside.iter().all(u8::is_ascii_graphic), "{}", line.escape_ascii());
    let read: Json = serde_json::from_slice(&line).unwrap();
    let expected = serde_json::json!({
        "type": "log", "version": 1, "time": "1970-01-01T00:00:01.5Z", "level": "warn", "module": "namegate::fuse",
        "message": "first\nsecond\u{7f}",
        "fields": {"name": "a\"\n\u{202E}\u{1B}[2J", "uid": 1000, "by": -1},
    });
    assert_eq!(read, expected);
}

#[test]
fn every_line_has_its_priority_so_that_none_can_claim_a_graver_one() {
    let mut lines = Vec::new();
    numbered_lines(&Record::builder().level(Level::Info).args(format_args!("a\n<0>b")).build(), &mut lines);
    assert_eq!(lines, b"<6>a\n<6><0>b\n");
}
