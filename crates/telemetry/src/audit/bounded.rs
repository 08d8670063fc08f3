//! Audit records of limited size. Names, paths, link targets, and names of programs and control groups are chosen by the
//! client; they can be kilobytes long, and grow when they are escaped.
//!
//! In a record that is too long, each long part is shortened to its beginning and its end, with \u{2026} between them.
//! The exact bytes of a path are replaced by a hash of the whole path, so that records of one directory still differ from
//! those of another. The exact bytes of the name, at most 255, are always included.

use namegate_files::json;

use super::record::{AuditLine, AuditRecord, Sentence};

/// Maximum size of a record in any outlet, in bytes: as a line of JSON, or as an entry of the journal, which has the message and
/// all fields.
pub const MAX_BYTES: usize = 2048;

/// Size of a journal entry, or of a JSON log line, without the message and the fields.
const AROUND: usize = 256;
/// Size of a text log line before the message: time, level and module.
const BEFORE: usize = 64;

/// The sizes to which long parts are shortened, tried in this order.
const LEVELS: [usize; 8] = [usize::MAX, 512, 256, 160, 96, 48, 24, 12];

/// A record in the form in which it is written.
pub(super) struct BoundedRecord<'r> {
    pub(super) line: AuditLine<'r>,
    /// The message for people.
    pub(super) message: String,
    /// Size of the line, including its line feed.
    line_bytes: usize,
    /// Size of the message as a JSON string.
    message_bytes: usize,
}

impl<'r> BoundedRecord<'r> {
    pub(super) fn new(record: &'r AuditRecord) -> Self {
        // Each byte takes at least two in the output: sizes that cannot fit need not be tried.
        let long = record.parent.as_ref().map_or(0, |parent| parent.as_os_str().len())
            + record.target.as_ref().map_or(0, |target| target.len());
        let levels = LEVELS.iter().filter(|&&most| most < long || long < MAX_BYTES / 2);
        let mut tries = levels.map(|&most| Self::within(record, most));
        // The last size always fits.
        let fits = |bounded: &Self| bounded.log_bytes(true) <= MAX_BYTES;
        tries.find(fits).unwrap_or_else(|| Self::within(record, LEVELS[LEVELS.len() - 1]))
    }

    fn within(record: &'r AuditRecord, most: usize) -> Self {
        let (line, message) = (AuditLine::within(record, most), Sentence(record, most).to_string());
        let mut bytes = Vec::with_capacity(1024);
        // Writing to a vector does not fail.
        let _ = json::write_line(&mut bytes, &line);
        let line_bytes = bytes.len();
        bytes.clear();
        let _ = json::write_line(&mut bytes, &message);
        Self { line, message, line_bytes, message_bytes: bytes.len() }
    }

    /// Size of the record in the audit log.
    pub(super) fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// Maximum size of the record in the log: with all its fields, or only the message.
    pub(super) fn log_bytes(&self, has_fields: bool) -> usize {
        match has_fields {
            true => self.line_bytes + self.message_bytes + AROUND,
            false => self.message.len() + BEFORE,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::time::SystemTime;

    use namegate_core::name::Span;
    use namegate_core::policy::rule::RULES;

    use super::*;
    use crate::audit::{AuditOutcome, Requester};

    fn record(unit: &[u8]) -> AuditRecord {
        let long = |len: usize| unit.iter().copied().cycle().take(len).collect::<Vec<u8>>();
        let of = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
        let longest = RULES.iter().max_by_key(|rule| rule.name.len()).unwrap();
        let cgroup =
            [b"/user.slice/user@4294967295.service/", &long(255)[..], b".service/", &long(3000)].concat();
        AuditRecord {
            count: u64::MAX,
            time: SystemTime::now(),
            outcome: AuditOutcome::LetThrough,
            operation: "copy_file_range",
            name: of(&long(255)),
            target: Some(of(&long(4095))),
            parent: Some(of(&long(4095)).into()),
            rule: Some(longest.id),
            span: Span::new(4094, 4095),
            requester: Requester {
                uid: Some(u32::MAX),
                gid: Some(u32::MAX),
                pid: 4_194_304,
                command: Some(long(64)),
                cgroup: Some(cgroup),
            },
        }
    }

    #[test]
    fn no_record_is_longer_than_the_bound_whatever_its_parts_are() {
        let units: [&[u8]; 10] = [
            b"a",
            b"a/",
            b"\x1b",
            b"\xFF",
            b"\\",
            b"\"",
            "\u{202e}".as_bytes(),
            "\u{10FFFF}".as_bytes(),
            "\u{e4}/".as_bytes(),
            b" ",
        ];
        for unit in units {
            let record = record(unit);
            let bounded = BoundedRecord::new(&record);
            let (line, log) = (bounded.line_bytes(), bounded.log_bytes(true));
            assert!(line < MAX_BYTES && log <= MAX_BYTES, "{}: {line} {log}", unit.escape_ascii());
            assert!(bounded.log_bytes(false) < log);
            let mut bytes = Vec::new();
            json::write_line(&mut bytes, &bounded.line).unwrap();
            assert_eq!(bytes.len(), line);
            let read: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(read["name_hex"].as_str().unwrap().len(), 510, "the name is there to its last byte");
            assert!(read.get("parent_base64").is_none() && read["parent_bytes"] == 4095, "{read}");
            assert!(read["parent"].as_str().unwrap().contains('\u{2026}'), "{read}");
        }
    }

    #[test]
    fn short_records_are_complete_and_long_paths_differ_by_their_hash() {
        let with = |parent: &str| AuditRecord {
            count: 1,
            name: "x\u{1b}".into(),
            target: None,
            parent: Some(parent.into()),
            requester: Requester { cgroup: None, command: None, uid: Some(1), gid: None, pid: 1 },
            ..record(b"a")
        };
        let short = with("a/b");
        let bounded = BoundedRecord::new(&short);
        assert_eq!(bounded.message, short.to_string());
        let json = serde_json::to_value(&bounded.line).unwrap();
        assert!(
            json["parent"] == "a/b" && json["parent_base64"] == "YS9i" && json.get("parent_hash").is_none()
        );
        let paths = ["/one", "/two"].map(|middle| format!("{0}{middle}{0}", "/deep".repeat(300)));
        let [one, two, again] = [&paths[0], &paths[1], &paths[0]].map(|path| {
            let record = with(path);
            serde_json::to_value(&BoundedRecord::new(&record).line).unwrap()
        });
        assert_eq!(one["parent"], two["parent"]);
        assert_ne!(one["parent_hash"], two["parent_hash"]);
        assert_eq!(one["parent_hash"], again["parent_hash"]);
    }
}
