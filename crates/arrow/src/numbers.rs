//! Cut directories, the first two steps: numbers of names, and the names that share one.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, BooleanBuilder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use namegate_core::check::DirectoryNames;
use namegate_core::name::arena::Arena;
use namegate_core::name::escape::stable_hash;
use namegate_core::policy::EntryKind;
use namegate_findings::group::{GroupedDirectory, Groups};
use namegate_findings::split::Shape;

use crate::byte_column::ByteColumn;
use crate::candidates::CandidateRows;
use crate::check::CheckSettings;
use crate::columns::{Columns, entry_word};
use crate::rows::MOST_BYTES;
use crate::{TaskSummary, schema};

/// Numbers the names of pairs: one row of [`schema::numbered`] for each number of a name, in batches that it hands to `emit`. Names
/// of a directory that collide share a number. A name is a suspect if it has findings, whatever the other names are.
///
/// # Errors
/// The columns are missing or of another type, or a parent or a name is null.
pub fn number_names(
    pairs: &RecordBatch,
    settings: &CheckSettings,
    emit: &mut dyn FnMut(RecordBatch),
) -> Result<(), ArrowError> {
    let columns = Columns::new("pairs", pairs);
    let (parents, names) = (columns.bytes("parent")?, columns.bytes("name")?);
    let kinds = columns.kinds_if_any("entry")?;
    let (mut rows, mut at) = (NumberedRows::default(), 0);
    while at < pairs.num_rows() {
        let parent = required(&parents, at, "parent")?;
        let others = (at..pairs.num_rows()).find(|&row| parents.get(row) != Some(parent));
        let end = others.unwrap_or(pairs.num_rows());
        let mut together = Arena::new();
        for row in at..end {
            // A name with a NUL is a suspect in any case.
            if let Ok(name) = together.push(required(&names, row, "name")?) {
                together.mark(name, kinds.get(row));
            }
        }
        let directory = DirectoryNames {
            prefix: &settings.prefix,
            path: parent.strip_prefix(b"/").unwrap_or(parent),
            ..DirectoryNames::new(&together)
        };
        let mut found = Arena::new();
        settings.policy.add_suspects(&mut found, &directory);
        // They are in the order of the names.
        let mut suspects = found.iter().map(|(_, name)| name).peekable();
        for row in at..end {
            let name = required(&names, row, "name")?;
            let is_suspect = name.contains(&0) || suspects.next_if_eq(&name).is_some();
            let mut is_first = true;
            let mut append = |number| {
                rows.append((parent, name, kinds.get(row)), number, is_suspect, is_first);
                is_first = false;
            };
            match std::str::from_utf8(name) {
                Ok(text) => settings.policy.each_number(text, append),
                // It equals no other name, but needs a task.
                Err(_) => append(stable_hash(name)),
            }
            if rows.bytes >= MOST_BYTES {
                emit(rows.finish());
            }
        }
        at = end;
    }
    if rows.bytes > 0 {
        emit(rows.finish());
    }
    Ok(())
}

fn required<'c>(column: &'c ByteColumn, at: usize, name: &str) -> Result<&'c [u8], ArrowError> {
    let null = || {
        ArrowError::InvalidArgumentError(format!(
            "row {at}: `{name}` is null; only pairs of cut directories are numbered"
        ))
    };
    column.get(at).ok_or_else(null)
}

/// Numbers have 64 bits, and so have integers of SQL, which have a sign.
pub(crate) const fn to_sql(number: u64) -> i64 {
    number.cast_signed()
}

/// Rows of [`schema::numbered`].
#[derive(Default)]
struct NumberedRows {
    parents: BinaryBuilder,
    names: BinaryBuilder,
    numbers: Int64Builder,
    suspects: BooleanBuilder,
    firsts: BooleanBuilder,
    entries: StringBuilder,
    bytes: usize,
}

impl NumberedRows {
    fn append(
        &mut self,
        (parent, name, kind): (&[u8], &[u8], EntryKind),
        number: u64,
        is_suspect: bool,
        is_first: bool,
    ) {
        self.parents.append_value(parent);
        self.names.append_value(name);
        self.numbers.append_value(to_sql(number));
        self.suspects.append_value(is_suspect);
        self.firsts.append_value(is_first);
        self.entries.append_option(entry_word(kind));
        self.bytes += parent.len() + name.len() + size_of::<u64>();
    }

    fn finish(&mut self) -> RecordBatch {
        self.bytes = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.parents.finish()),
            Arc::new(self.names.finish()),
            Arc::new(self.numbers.finish()),
            Arc::new(self.suspects.finish()),
            Arc::new(self.firsts.finish()),
            Arc::new(self.entries.finish()),
        ];
        RecordBatch::try_new(schema::numbered(), columns).expect("the columns are those of the schema")
    }
}

/// Finds the candidates among numbered names: suspects, and names that share a number. All rows with the same number must be in one
/// task.
#[derive(Debug)]
pub struct CandidateFinder {
    settings: CheckSettings,
    /// The names with each number: a number and a directory take the place of a directory.
    groups: Groups,
}

/// What the flags of a stored name begin with: a byte that is not NUL.
const FLAGS: u8 = b'0';
const SUSPECT: u8 = 1;
const FIRST: u8 = 2;

impl CandidateFinder {
    /// Creates a finder for one task.
    pub fn new(settings: CheckSettings) -> Self {
        let groups = Groups::new(Shape::Key, settings.memory);
        Self { settings, groups }
    }

    /// Adds rows of [`schema::numbered`].
    ///
    /// # Errors
    /// The columns are missing or of another type, or a value is null; the temporary files cannot be written.
    pub fn add(&mut self, numbered: &RecordBatch) -> Result<(), ArrowError> {
        let columns = Columns::new("numbered names", numbered);
        let (parents, names) = (columns.bytes("parent")?, columns.bytes("name")?);
        let (numbers, suspects, firsts) =
            (columns.integers("number")?, columns.flags("suspect")?, columns.flags("first")?);
        let kinds = columns.kinds_if_any("entry")?;
        for at in 0..numbered.num_rows() {
            let (parent, name) = (required(&parents, at, "parent")?, required(&names, at, "name")?);
            let number = numbers.get(at).unwrap_or_default();
            let flags = FLAGS | if suspects[at] { SUSPECT } else { 0 } | if firsts[at] { FIRST } else { 0 };
            let (dir, name) = ([&number.to_be_bytes(), parent].concat(), [&[flags], name].concat());
            self.groups.add_pair(&dir, &name, kinds.get(at), 0)?;
        }
        Ok(())
    }

    /// Hands the candidates and their directories to `emit`, and returns a summary that counts the names.
    ///
    /// # Errors
    /// The temporary files cannot be read.
    pub fn finish(self, emit: &mut dyn FnMut(RecordBatch)) -> Result<TaskSummary, ArrowError> {
        let Self { settings, groups } = self;
        let (mut rows, mut summary) = (CandidateRows::default(), settings.summary());
        // Only large directories are cut, so there are few.
        let mut parents: HashSet<Box<[u8]>> = HashSet::new();
        for part in groups.into_parts()? {
            let part = part.load()?;
            for directory in (0..part.len()).map(|at| part.directory(at)) {
                let parent = &directory.dir[size_of::<u64>()..];
                if !parents.contains(parent) {
                    parents.insert(parent.into());
                    rows.append_directory(parent, emit);
                }
                let names = flagged_names(&directory);
                let are_alike = names.len() > 1;
                for (name, (flags, kinds)) in names {
                    summary.names += u64::from(flags & FIRST != 0);
                    if are_alike || flags & SUSPECT != 0 || kinds.len() > 1 {
                        kinds.into_iter().for_each(|kind| rows.append_name(parent, name, kind, emit));
                    }
                }
            }
        }
        rows.flush(emit);
        Ok(summary)
    }
}

/// The names of a directory, each once, with all its flags and the kinds of its entry. What is found of a name can depend on the kind,
/// so its rows can have different flags.
fn flagged_names(directory: &GroupedDirectory) -> BTreeMap<&[u8], (u8, Vec<EntryKind>)> {
    let mut found = BTreeMap::<&[u8], (u8, Vec<EntryKind>)>::new();
    let stored =
        directory.names.iter().map(|(_, name)| name).chain(directory.holding_nul.iter().map(Vec::as_slice));
    for stored in stored {
        let Some((flags, name)) = stored.split_first() else { continue };
        let (all_flags, kinds) = found.entry(name).or_default();
        *all_flags |= flags;
        match directory.clashes.contains_key(stored) {
            true => kinds.extend([EntryKind::File, EntryKind::Directory]),
            false => kinds.push(directory.names.kind_of(stored)),
        }
    }
    found
}
