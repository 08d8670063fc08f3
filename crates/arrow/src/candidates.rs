//! Cut directories, the last step: each is checked by one task, which has only the names that matter.
//!
//! These are the candidates, and the names that have the numbers of suggested names. Which numbers these are is known only when names
//! are suggested: [`CandidateChecker::wanted`] gives them, the engine adds the names that have them, and so on until none is missing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use namegate_core::policy::{EntryKind, FingerprintIndex, NamesInUse, Policy};
use namegate_findings::directory::CheckedNames;
use namegate_findings::group::{GroupedDirectory, Groups};
use namegate_findings::located_names::LocatedNames;
use namegate_findings::record::DirectoryFindings;
use namegate_findings::split::Shape;

use crate::check::{CheckSettings, DirectoryRows, FindingsReader};
use crate::columns::{Columns, entry_word};
use crate::numbers::to_sql;
use crate::rows::MOST_BYTES;
use crate::schema;

/// What a row of [`schema::candidates`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateKind {
    /// A name that may have findings.
    Candidate,
    /// A name that has a wanted number.
    Occupant,
    /// A number that names were asked for, and all names that have it are occupants.
    Known,
    /// The directory, so that it counts if it has no candidates.
    Directory,
}

impl CandidateKind {
    const ALL: [Self; 4] = [Self::Candidate, Self::Occupant, Self::Known, Self::Directory];

    /// `candidate`, `occupant`, `known` or `directory`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Candidate => "candidate",
            Self::Occupant => "occupant",
            Self::Known => "known",
            Self::Directory => "directory",
        }
    }
}

/// Checks cut directories: all rows of a directory must be in one task.
#[derive(Debug)]
pub struct CandidateChecker {
    settings: CheckSettings,
    /// Rows of each directory; the first byte says what a row is.
    groups: Groups,
}

impl CandidateChecker {
    /// Creates a checker for one task.
    pub fn new(settings: CheckSettings) -> Self {
        let groups = Groups::new(Shape::Key, settings.memory);
        Self { settings, groups }
    }

    /// Adds rows of [`schema::candidates`].
    ///
    /// # Errors
    /// The columns are missing or of another type, or have invalid values; the temporary files cannot be written.
    pub fn add(&mut self, rows: &RecordBatch) -> Result<(), ArrowError> {
        let columns = Columns::new("candidates", rows);
        let (parents, kinds) = (columns.bytes("parent")?, columns.bytes("kind")?);
        let (names, numbers) = (columns.bytes("name")?, columns.integers("number")?);
        let entries = columns.kinds_if_any("entry")?;
        for at in 0..rows.num_rows() {
            let kind =
                CandidateKind::ALL.into_iter().find(|kind| kinds.get(at) == Some(kind.as_str().as_bytes()));
            let value = match (kind, names.get(at), numbers.get(at)) {
                (Some(CandidateKind::Known), _, Some(number)) => {
                    Some(format!("k{:016x}", number.cast_unsigned()).into_bytes())
                }
                (Some(CandidateKind::Directory), _, _) => Some(b"d".to_vec()),
                (Some(CandidateKind::Candidate), Some(name), _) => Some([b"c", name].concat()),
                (Some(CandidateKind::Occupant), Some(name), _) => Some([b"o", name].concat()),
                _ => None,
            };
            let (Some(parent), Some(value)) = (parents.get(at), value) else {
                return Err(ArrowError::InvalidArgumentError(format!(
                    "row {at} of the candidates is invalid"
                )));
            };
            self.groups.add_pair(parent, &value, entries.get(at), 0)?;
        }
        Ok(())
    }

    /// Hands `emit` the numbers whose names are not known yet, as rows of the kind `known`. The check is complete once there are none.
    ///
    /// # Errors
    /// The temporary files cannot be read.
    pub fn wanted(self, emit: &mut dyn FnMut(RecordBatch)) -> Result<(), ArrowError> {
        let Self { settings, groups } = self;
        let mut rows = CandidateRows::default();
        for part in groups.into_parts()? {
            let part = part.load()?;
            for directory in (0..part.len()).map(|at| part.directory(at)) {
                let wanted =
                    CandidateDirectory::new(&directory, &settings.policy).check(&settings, &mut |_| {});
                for number in wanted {
                    rows.append_number(&directory.dir, number, emit);
                }
            }
        }
        rows.flush(emit);
        Ok(())
    }

    /// Checks the directories. It fails where a number is wanted.
    ///
    /// # Errors
    /// The temporary files cannot be written.
    pub fn finish(self) -> Result<FindingsReader, ArrowError> {
        let Self { settings, groups } = self;
        let summary = settings.summary();
        Ok(FindingsReader::new(settings, groups.into_parts()?, DirectoryRows::Candidates, summary))
    }
}

/// What is known of one cut directory.
pub(crate) struct CandidateDirectory<'d> {
    /// The candidates, sorted by their bytes.
    candidates: GroupedDirectory,
    /// Candidates and occupants by their numbers.
    by_number: HashMap<u64, Vec<&'d [u8]>>,
    known: HashSet<u64>,
}

impl<'d> CandidateDirectory<'d> {
    pub(crate) fn new(rows: &'d GroupedDirectory, policy: &Policy) -> Self {
        let mut candidates = GroupedDirectory { dir: rows.dir.clone(), ..GroupedDirectory::default() };
        let (mut by_number, mut known) = (HashMap::<u64, Vec<&[u8]>>::new(), HashSet::new());
        let stored = rows.names.iter().map(|(_, row)| row).chain(rows.holding_nul.iter().map(Vec::as_slice));
        for row in stored {
            let Some((kind, value)) = row.split_first() else { continue };
            if *kind == b'd' {
                continue;
            }
            let text = std::str::from_utf8(value).ok();
            if *kind == b'k' {
                known.extend(text.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
                continue;
            }
            if *kind == b'c' {
                match candidates.names.push(value) {
                    Ok(at) => candidates.names.mark(at, rows.names.kind_of(row)),
                    Err(_) => candidates.holding_nul.push(value.to_vec()),
                }
                if let Some(clash) = rows.clashes.get(row) {
                    candidates.clashes.insert(value.to_vec(), *clash);
                }
            }
            if let Some(text) = text {
                policy.each_number(text, |number| by_number.entry(number).or_default().push(value));
            }
        }
        Self { candidates, by_number, known }
    }

    /// Checks the candidates, and returns the numbers that were looked up and are not known.
    pub(crate) fn check(
        self,
        settings: &CheckSettings,
        emit: &mut dyn FnMut(DirectoryFindings),
    ) -> BTreeSet<u64> {
        let Self { candidates, by_number, known } = self;
        let mut wanted = BTreeSet::new();
        let in_use: &mut NamesInUse<'_> = &mut |numbers, take| {
            for number in numbers {
                if !known.contains(number) {
                    wanted.insert(*number);
                }
                by_number.get(number).into_iter().flatten().for_each(|name| take(name));
            }
        };
        let names = LocatedNames {
            clashes: &candidates.clashes,
            ..LocatedNames::new(candidates.names(&settings.prefix), &candidates.dir)
        };
        let used = FingerprintIndex::ByLookup;
        settings.scan().check(&names, CheckedNames::Suspects { in_use, used, hint: None }, emit);
        wanted
    }
}

/// Rows of [`schema::candidates`].
#[derive(Default)]
pub(crate) struct CandidateRows {
    parents: BinaryBuilder,
    kinds: StringBuilder,
    names: BinaryBuilder,
    numbers: Int64Builder,
    entries: StringBuilder,
    bytes: usize,
}

impl CandidateRows {
    /// Adds a candidate.
    pub(crate) fn append_name(
        &mut self,
        parent: &[u8],
        name: &[u8],
        entry: EntryKind,
        emit: &mut dyn FnMut(RecordBatch),
    ) {
        self.append(parent, CandidateKind::Candidate, Some(name), None, entry, emit);
    }

    /// Adds a number that is known.
    pub(crate) fn append_number(&mut self, parent: &[u8], number: u64, emit: &mut dyn FnMut(RecordBatch)) {
        self.append(parent, CandidateKind::Known, None, Some(number), EntryKind::Unknown, emit);
    }

    /// Adds a directory.
    pub(crate) fn append_directory(&mut self, parent: &[u8], emit: &mut dyn FnMut(RecordBatch)) {
        self.append(parent, CandidateKind::Directory, None, None, EntryKind::Unknown, emit);
    }

    fn append(
        &mut self,
        parent: &[u8],
        kind: CandidateKind,
        name: Option<&[u8]>,
        number: Option<u64>,
        entry: EntryKind,
        emit: &mut dyn FnMut(RecordBatch),
    ) {
        self.parents.append_value(parent);
        self.kinds.append_value(kind.as_str());
        self.names.append_option(name);
        self.numbers.append_option(number.map(to_sql));
        self.entries.append_option(entry_word(entry));
        self.bytes += parent.len() + name.map_or(0, <[u8]>::len) + size_of::<u64>();
        if self.bytes >= MOST_BYTES {
            self.flush(emit);
        }
    }

    pub(crate) fn flush(&mut self, emit: &mut dyn FnMut(RecordBatch)) {
        if self.bytes == 0 {
            return;
        }
        self.bytes = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.parents.finish()),
            Arc::new(self.kinds.finish()),
            Arc::new(self.names.finish()),
            Arc::new(self.numbers.finish()),
            Arc::new(self.entries.finish()),
        ];
        emit(
            RecordBatch::try_new(schema::candidates(), columns).expect("the columns are those of the schema"),
        );
    }
}
