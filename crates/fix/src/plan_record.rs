//! Lines of a plan as records that can be sorted, while a plan is made and while it is applied: so memory does not grow with their number.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use namegate_core::policy::Confidence;
use namegate_core::policy::rule::RuleId;
use namegate_findings::records::EntryRecord;

use super::plan::{
    Alternative, FileHandle, FileKind, InodeTime, PlanDirectory, PlanLine, PlanParser, Rename, SeenBirth,
    SeenEntry, Skipped,
};

/// The first byte of the key of a record, which the name follows. In this order the lines of a directory are written.
pub(crate) mod tag {
    /// An entry whose path is too long without any rename. Not yet part of the plan.
    pub const LONG: u8 = b'L';
    pub const RENAME: u8 = b'R';
    /// An entry without a new name.
    pub const SKIPPED: u8 = b'S';
    /// An entry whose path is too long after all renames.
    pub const TOO_LONG: u8 = b'T';
}

const KINDS: [FileKind; 7] = [
    FileKind::File,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::Block,
    FileKind::Character,
];

/// The numbers at the beginning of a rename: id, line, inode of the directory, kind, confidence, inode, three times, length, whether there is a
/// birth time, length of the new name. The new name follows, and then the fields that are only for people, as JSON or not at all.
const NUMBERS: usize = 15;

/// A line as a record of its directory.
#[derive(Default)]
pub(crate) struct LineRecord {
    pub(crate) key: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

/// The fields of a rename that are only for people, and the handle of its directory, which nothing is renamed by.
type RenameTexts<'t> = (
    Option<Cow<'t, FileHandle>>,
    Vec<Cow<'t, str>>,
    Cow<'t, str>,
    Option<Cow<'t, str>>,
    Cow<'t, [Alternative]>,
);

impl LineRecord {
    /// Changes the record to that of a rename in the line `line`, without the fields that are only for people.
    pub(crate) fn set_rename(&mut self, rename: &Rename, line: usize) {
        let SeenEntry { inode, ctime, kind, birth } = rename.entry;
        let none = SeenBirth { born: InodeTime::default(), mtime: InodeTime::default(), size: 0 };
        let SeenBirth { born, mtime, size } = birth.unwrap_or(none);
        let seconds = |time: InodeTime| time.seconds.cast_unsigned();
        let numbers: [u64; NUMBERS] = [
            rename.id,
            line as u64,
            rename.directory.inode,
            KINDS.iter().position(|known| *known == kind).unwrap_or_default() as u64,
            rename.confidence as u64,
            inode,
            seconds(ctime),
            ctime.nanoseconds.into(),
            seconds(born),
            born.nanoseconds.into(),
            seconds(mtime),
            mtime.nanoseconds.into(),
            size,
            birth.is_some().into(),
            rename.new.len() as u64,
        ];
        self.key.clear();
        self.key.push(tag::RENAME);
        self.key.extend_from_slice(&rename.old);
        self.payload.clear();
        numbers.iter().for_each(|number| self.payload.extend_from_slice(&number.to_le_bytes()));
        self.payload.extend_from_slice(rename.new.as_bytes());
    }

    /// The record of a rename that has no line yet.
    pub(crate) fn new_rename(rename: &Rename) -> Self {
        let mut record = Self::default();
        record.set_rename(rename, 0);
        let texts: RenameTexts<'_> = (
            rename.directory.handle.as_ref().map(Cow::Borrowed),
            rename.reasons.iter().map(|rule| rule.name().into()).collect(),
            (&*rename.reading).into(),
            rename.evidence.as_deref().map(Cow::from),
            (&*rename.alternatives).into(),
        );
        serde_json::to_writer(&mut record.payload, &texts)
            .expect("it has no maps, and memory takes every write");
        record
    }

    /// The record of an entry without a new name.
    pub(crate) fn new_skipped(tag: u8, line: &Skipped) -> Self {
        let key = [&[tag], &*line.name].concat();
        Self { key, payload: line.to_line().into_bytes() }
    }

    /// The record in the directory `dir`.
    pub(crate) fn in_directory<'r>(&'r self, dir: &'r [u8]) -> EntryRecord<'r> {
        EntryRecord { dir, name: &self.key, payload: &self.payload }
    }
}

/// Reads the record of a rename.
pub(crate) struct RenameReader<'p> {
    numbers: &'p [[u8; 8]],
    pub(crate) new: &'p str,
    texts: &'p [u8],
}

impl<'p> RenameReader<'p> {
    pub(crate) fn new(payload: &'p [u8]) -> io::Result<Self> {
        let parts = || {
            let numbers = payload.as_chunks().0.get(..NUMBERS)?;
            let (new, texts) =
                payload[8 * NUMBERS..].split_at_checked(u64::from_le_bytes(numbers[14]) as usize)?;
            Some(Self { numbers, new: std::str::from_utf8(new).ok()?, texts })
        };
        parts().ok_or_else(damaged)
    }

    fn number(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.numbers[at])
    }

    pub(crate) fn id(&self) -> u64 {
        self.number(0)
    }

    pub(crate) fn line(&self) -> usize {
        self.number(1) as usize
    }

    pub(crate) fn directory_inode(&self) -> u64 {
        self.number(2)
    }

    /// Whether the new name is at least as certain as `least`.
    pub(crate) fn is_at_least(&self, least: Confidence) -> bool {
        self.number(4) <= least as u64
    }

    pub(crate) fn kind(&self) -> io::Result<FileKind> {
        KINDS.get(self.number(3) as usize).copied().ok_or_else(damaged)
    }

    fn entry(&self) -> io::Result<SeenEntry> {
        let time = |at: usize| InodeTime {
            seconds: self.number(at).cast_signed(),
            nanoseconds: self.number(at + 1) as u32,
        };
        let birth = SeenBirth { born: time(8), mtime: time(10), size: self.number(12) };
        let birth = Some(birth).filter(|_| self.number(13) > 0);
        Ok(SeenEntry { inode: self.number(5), ctime: time(6), kind: self.kind()?, birth })
    }

    /// The rename, whose record is `record`. `last` is the directory of the record before.
    pub(crate) fn rename(
        &self,
        record: EntryRecord<'_>,
        last: Option<&Arc<PlanDirectory>>,
    ) -> io::Result<Rename> {
        let (handle, reasons, reading, evidence, alternatives) = match self.texts {
            b"" => RenameTexts::default(),
            texts => serde_json::from_slice(texts)?,
        };
        let (inode, handle) = (self.directory_inode(), handle.map(Cow::into_owned));
        let is_last = |last: &&Arc<PlanDirectory>| {
            last.path == record.dir && last.inode == inode && last.handle == handle
        };
        let path = || record.dir.to_vec();
        let rule = |name: &Cow<'_, str>| name.parse::<RuleId>().map_err(|_| damaged());
        Ok(Rename {
            id: self.id(),
            directory: last
                .filter(is_last)
                .cloned()
                .unwrap_or_else(|| Arc::new(PlanDirectory { path: path(), inode, handle })),
            old: record.name.get(1..).ok_or_else(damaged)?.to_vec(),
            new: self.new.to_owned(),
            entry: self.entry()?,
            reasons: reasons.iter().map(rule).collect::<io::Result<_>>()?,
            confidence: *Confidence::ALL.get(self.number(4) as usize).ok_or_else(damaged)?,
            reading: reading.into_owned(),
            evidence: evidence.map(Cow::into_owned),
            alternatives: alternatives.into_owned(),
        })
    }
}

/// Reads the record of an entry without a new name.
pub(crate) fn read_skipped(record: EntryRecord<'_>) -> io::Result<Skipped> {
    match PlanParser::for_own_lines().parse_line(record.payload) {
        Some(PlanLine::Skipped(skipped)) => Ok(skipped),
        _ => Err(damaged()),
    }
}

/// The error for a temporary file that has something else than was written.
pub(crate) fn damaged() -> io::Error {
    io::Error::other("a temporary file was changed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{rename, skipped};

    #[test]
    fn a_line_comes_back_from_its_record() {
        let whole = rename(7, b"/srv/caf\xE9", b"caf\xE9.", "café");
        let mut bare =
            Rename { evidence: None, alternatives: Vec::new(), reasons: Vec::new(), ..whole.clone() };
        bare.entry.birth = None;
        bare.directory = Arc::new(PlanDirectory { handle: None, ..(*bare.directory).clone() });
        for rename in [whole, bare] {
            let record = LineRecord::new_rename(&rename);
            let found = record.in_directory(&rename.directory.path);
            let reader = RenameReader::new(&record.payload).unwrap();
            assert_eq!(reader.rename(found, None).unwrap(), rename);
            let shared = reader.rename(found, Some(&rename.directory)).unwrap();
            assert!(Arc::ptr_eq(&shared.directory, &rename.directory));
            let cut = &record.payload[..8 * NUMBERS + rename.new.len() - 1];
            assert!(RenameReader::new(cut).is_err());
        }
        let record = LineRecord::new_skipped(tag::SKIPPED, &skipped());
        assert_eq!(read_skipped(record.in_directory(b"/srv")).unwrap(), skipped());
    }
}
