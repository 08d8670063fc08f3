//! The renames of a stored plan, as records and directory by directory.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use namegate_core::policy::Confidence;
use namegate_findings::records::{EntryRecord, RecordCursor};

use crate::plan::{FileKind, InodeTime, PlanDirectory, Rename, SeenBirth, SeenEntry};

/// The number of renames of a directory that are held in memory; the others are read again when they are needed.
const MOST_HELD: usize = 16_384;

const KINDS: [FileKind; 7] = [
    FileKind::File,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::Block,
    FileKind::Character,
];

/// The numbers in a payload: id, line, inode of the directory, inode, three times, length; then the kind, the confidence and
/// the new name.
const NUMBERS: usize = 11;

/// The number that says that there is a birth time.
const HAS_BIRTH: u64 = 1;

pub(super) fn write_payload(rename: &Rename, line: u64, to: &mut Vec<u8>) {
    let SeenEntry { inode, ctime, kind, birth } = rename.entry;
    let none = SeenBirth { born: InodeTime::default(), mtime: InodeTime::default(), size: 0 };
    let SeenBirth { born, mtime, size } = birth.unwrap_or(none);
    let nanoseconds = u64::from(born.nanoseconds) << 32 | u64::from(mtime.nanoseconds);
    let has_birth = if birth.is_some() { HAS_BIRTH } else { 0 };
    let numbers: [u64; NUMBERS] = [
        rename.id,
        line,
        rename.directory.inode,
        inode,
        ctime.seconds.cast_unsigned(),
        ctime.nanoseconds.into(),
        born.seconds.cast_unsigned(),
        mtime.seconds.cast_unsigned(),
        nanoseconds,
        size,
        has_birth,
    ];
    numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
    to.push(KINDS.iter().position(|known| *known == kind).unwrap_or_default() as u8);
    to.push(rename.confidence as u8);
    to.extend_from_slice(rename.new.as_bytes());
}

/// Reads what [`write_payload`] wrote.
pub(super) struct PayloadReader<'p>(pub(super) &'p [u8]);

impl<'p> PayloadReader<'p> {
    fn number(&self, at: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self.0[8 * at + i]))
    }

    pub(super) fn id(&self) -> u64 {
        self.number(0)
    }

    fn line(&self) -> usize {
        self.number(1) as usize
    }

    pub(super) fn directory_inode(&self) -> u64 {
        self.number(2)
    }

    pub(super) fn kind(&self) -> FileKind {
        KINDS[usize::from(self.0[8 * NUMBERS])]
    }

    fn confidence(&self) -> Confidence {
        Confidence::ALL[usize::from(self.0[8 * NUMBERS + 1])]
    }

    pub(super) fn new_name(&self) -> &'p [u8] {
        &self.0[8 * NUMBERS + 2..]
    }

    fn entry(&self) -> SeenEntry {
        let time = |seconds: u64, nanoseconds: u64| InodeTime {
            seconds: seconds.cast_signed(),
            nanoseconds: (nanoseconds & 0xFFFF_FFFF) as u32,
        };
        let nanoseconds = self.number(8);
        let birth = (self.number(10) == HAS_BIRTH).then(|| SeenBirth {
            born: time(self.number(6), nanoseconds >> 32),
            mtime: time(self.number(7), nanoseconds),
            size: self.number(9),
        });
        SeenEntry {
            inode: self.number(3),
            ctime: time(self.number(4), self.number(5)),
            kind: self.kind(),
            birth,
        }
    }
}

/// Reads the renames of a plan, directory by directory.
pub struct StoredDirectories<'p> {
    /// Before the first record, at the first one of the next directory, or at one of the directory that was returned last.
    cursor: RecordCursor<'p>,
    last: Option<Arc<PlanDirectory>>,
    most_held: usize,
}

/// The renames of one directory, by old name; without the fields that are only for the reader.
pub struct DirectoryRenames<'p> {
    pub directory: Arc<PlanDirectory>,
    /// The first ones, with their lines.
    held: Vec<(Rename, usize)>,
    /// A cursor at the first of the others, if there are any.
    rest: Option<RecordCursor<'p>>,
}

/// Takes a rename and its line. Breaks to see no other.
type RenameSink<'s> = dyn FnMut(&Rename, usize) -> io::Result<ControlFlow<()>> + 's;

impl<'p> StoredDirectories<'p> {
    pub(super) fn new(cursor: RecordCursor<'p>) -> Self {
        Self { cursor, last: None, most_held: MOST_HELD }
    }

    /// The renames of the next directory.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    #[allow(clippy::should_implement_trait, reason = "reading can fail, and ends there")]
    pub fn next(&mut self) -> io::Result<Option<DirectoryRenames<'p>>> {
        match self.last.take() {
            None => self.cursor.advance()?,
            Some(last) => {
                while self.cursor.record().is_some_and(|record| record.dir == last.path) {
                    self.cursor.advance()?;
                }
            }
        }
        let Some(record) = self.cursor.record() else { return Ok(None) };
        let (first, line) = read_rename(record, None)?;
        let directory = Arc::clone(&first.directory);
        self.last = Some(Arc::clone(&directory));
        let mut held = vec![(first, line)];
        loop {
            self.cursor.advance()?;
            match self.cursor.record().filter(|record| record.dir == directory.path) {
                Some(record) if held.len() < self.most_held => {
                    held.push(read_rename(record, Some(&directory))?)
                }
                more => {
                    let rest = more.is_some().then(|| self.cursor.fork());
                    return Ok(Some(DirectoryRenames { directory, held, rest }));
                }
            }
        }
    }
}

impl DirectoryRenames<'_> {
    /// Gives each rename to `take`, in the same order each time.
    ///
    /// # Errors
    /// Those of `take`; or the temporary file cannot be read.
    pub fn each(
        &self,
        take: &mut dyn FnMut(&Rename) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<ControlFlow<()>> {
        self.each_with_line(&mut |rename, _| take(rename))
    }

    pub(super) fn each_with_line(&self, take: &mut RenameSink<'_>) -> io::Result<ControlFlow<()>> {
        for (rename, line) in &self.held {
            if take(rename, *line)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let Some(rest) = &self.rest else { return Ok(ControlFlow::Continue(())) };
        let mut rest = rest.fork();
        while let Some(record) = rest.record().filter(|record| record.dir == self.directory.path) {
            let (rename, line) = read_rename(record, Some(&self.directory))?;
            if take(&rename, line)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            rest.advance()?;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Reads a rename, with its line; `directory` is that of the record before, if it has the same path.
pub(super) fn read_rename(
    record: EntryRecord<'_>,
    directory: Option<&Arc<PlanDirectory>>,
) -> io::Result<(Rename, usize)> {
    let payload = PayloadReader(record.payload);
    let inode = payload.directory_inode();
    let directory = match directory {
        Some(directory) if directory.inode == inode => Arc::clone(directory),
        _ => Arc::new(PlanDirectory { path: record.dir.to_vec(), inode, handle: None }),
    };
    let new = std::str::from_utf8(payload.new_name()).map_err(io::Error::other)?.to_owned();
    let rename = Rename {
        id: payload.id(),
        directory,
        old: record.name.to_vec(),
        new,
        entry: payload.entry(),
        reasons: Vec::new(),
        confidence: payload.confidence(),
        reading: String::new(),
        evidence: None,
        alternatives: Vec::new(),
    };
    Ok((rename, payload.line()))
}
