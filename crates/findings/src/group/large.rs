//! Directories with more names than are handed over together.

use std::io;
use std::mem;
use std::ops::ControlFlow;

use namegate_core::policy::EntryKind;

use super::{FirstNumbers, GroupedDirectory};
use crate::records::{EntryRecord, RecordCursor, SortedRecords};

/// The names of a directory.
#[derive(Debug)]
pub enum GroupedNames<'l, 'p> {
    /// All of them.
    Whole(GroupedDirectory),
    /// They are read in parts.
    Large(&'l mut LargeGroup<'p>),
}

/// A directory whose names are read in parts, as often as they are needed.
#[derive(Debug)]
pub struct LargeGroup<'p> {
    first: GroupedDirectory,
    /// Stands at the first name of the second part.
    second: RecordCursor<'p>,
    /// Stands behind the directory, once it was read to its end.
    end: Option<RecordCursor<'p>>,
    /// Bytes of names in a part.
    most_together: usize,
}

impl<'p> LargeGroup<'p> {
    /// Hands over all names in parts, sorted by their bytes, each once. Can be called again.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn each_part(&mut self, take: &mut dyn FnMut(GroupedDirectory)) -> io::Result<()> {
        take(self.first.clone());
        let (mut part, mut cursor) = (NameCollector::new(&self.first.dir), self.second.fork());
        loop {
            let has_ended = part.fill(&mut cursor, self.most_together)?;
            take(part.take());
            if has_ended {
                self.end = Some(cursor);
                return Ok(());
            }
        }
    }

    /// A cursor behind the directory.
    fn into_end(self) -> io::Result<RecordCursor<'p>> {
        let Self { first, mut second, end, .. } = self;
        if let Some(end) = end {
            return Ok(end);
        }
        while second.record().is_some_and(|record| record.dir == first.dir) {
            second.advance()?;
        }
        Ok(second)
    }
}

/// Hands over the directories of `sorted`, whose payloads are numbers, until `visit` breaks; those with more than `most_together` bytes of
/// names in parts.
pub(super) fn each_sorted(
    sorted: &SortedRecords,
    most_together: usize,
    visit: &mut dyn FnMut(GroupedNames<'_, '_>) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let mut cursor = sorted.cursor()?;
    cursor.advance()?;
    while let Some(record) = cursor.record() {
        let mut names = NameCollector::new(record.dir);
        let is_whole = names.fill(&mut cursor, most_together)?;
        let first = names.take();
        let answer = if is_whole {
            visit(GroupedNames::Whole(first))
        } else {
            let mut large = LargeGroup { first, second: cursor, end: None, most_together };
            let answer = visit(GroupedNames::Large(&mut large));
            cursor = large.into_end()?;
            answer
        };
        if answer.is_break() {
            return Ok(answer);
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Puts the names of a directory together, or of a part of it.
#[derive(Debug)]
pub(super) struct NameCollector {
    directory: GroupedDirectory,
    /// The numbers of the names that contain a NUL.
    of_nul: Vec<u64>,
    /// Bytes of names.
    size: usize,
}

impl NameCollector {
    pub(super) fn new(dir: &[u8]) -> Self {
        let directory = GroupedDirectory { dir: dir.to_vec(), ..GroupedDirectory::default() };
        Self { directory, of_nul: Vec::new(), size: 0 }
    }

    pub(super) fn reserve(&mut self, bytes: usize, names: usize) {
        self.directory.names.reserve(bytes);
        self.directory.numbers.reserve(names);
    }

    pub(super) fn push(&mut self, name: &[u8], numbers: FirstNumbers) {
        self.size += name.len() + 1;
        if let Some(clash) = numbers.clash() {
            self.directory.clashes.insert(name.to_vec(), clash);
        }
        let number = numbers.first();
        let names = &mut self.directory.names;
        if names.is_empty() && numbers.kind() != EntryKind::Unknown {
            // Most lists say it of all names or of none.
            names.expect_known_kinds();
        }
        match names.push(name) {
            Ok(at) => {
                names.mark(at, numbers.kind());
                self.directory.numbers.push(number);
            }
            Err(_) => {
                self.directory.holding_nul.push(name.to_vec());
                self.of_nul.push(number);
            }
        }
    }

    /// Takes the names; the next ones are another part of the directory.
    pub(super) fn take(&mut self) -> GroupedDirectory {
        let next = GroupedDirectory { dir: self.directory.dir.clone(), ..GroupedDirectory::default() };
        self.directory.numbers.append(&mut self.of_nul);
        self.size = 0;
        mem::replace(&mut self.directory, next)
    }

    /// Adds names of the directory from `cursor`, each once with its first number, until there are more than `most` bytes; reports
    /// whether the directory ends there. The cursor then stands at a name that was not added.
    fn fill(&mut self, cursor: &mut RecordCursor<'_>, most: usize) -> io::Result<bool> {
        let mut last = Vec::new();
        loop {
            let of_directory = cursor.record().filter(|record| record.dir == self.directory.dir);
            let Some(record) = of_directory else { return Ok(true) };
            if self.size > most {
                return Ok(false);
            }
            last.clear();
            last.extend_from_slice(record.name);
            let mut numbers = FirstNumbers::default();
            numbers.add(number_of(record));
            cursor.advance()?;
            while let Some(same) =
                cursor.record().filter(|next| next.name == last && next.dir == self.directory.dir)
            {
                numbers.add(number_of(same));
                cursor.advance()?;
            }
            self.push(&last, numbers);
        }
    }
}

/// The number of the path that has the name.
pub(super) fn number_of(record: EntryRecord<'_>) -> u64 {
    u64::from_le_bytes(record.payload.try_into().expect("it was written as a number"))
}
