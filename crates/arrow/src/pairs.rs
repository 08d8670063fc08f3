//! The first step: keys into pairs of a parent and a name.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;
use namegate_core::policy::EntryKind;
use namegate_findings::decode::Decoding;
use namegate_findings::split::{KnownDirectories, MAX_NAME, PairSink, PathSplitter, Shape, TOO_DEEP, takes};

use crate::byte_column::ByteColumn;
use crate::columns::entry_word;
use crate::rows::MOST_BYTES;
use crate::schema;

/// What the keys are.
#[derive(Clone, Copy, Debug)]
pub struct PairSettings {
    /// How a key is split into names.
    pub shape: Shape,
    /// How the keys are encoded.
    pub decoding: Decoding,
}

impl Default for PairSettings {
    /// Object keys that are not encoded.
    fn default() -> Self {
        Self { shape: Shape::Key, decoding: Decoding::None }
    }
}

/// Splits keys into pairs.
#[derive(Debug)]
pub struct PairSplitter {
    splitter: PathSplitter,
    decoding: Decoding,
    known: KnownDirectories,
}

impl PairSplitter {
    /// Creates a splitter, for all batches of a task.
    pub fn new(settings: PairSettings) -> Self {
        let PairSettings { shape, decoding } = settings;
        Self { splitter: PathSplitter::new(shape), decoding, known: KnownDirectories::default() }
    }

    /// Splits the keys of a column into batches of [`schema::pairs`], which it hands to `emit`.
    ///
    /// # Errors
    /// The column has neither bytes nor text.
    pub fn split(&mut self, keys: &ArrayRef, emit: &mut dyn FnMut(RecordBatch)) -> Result<(), ArrowError> {
        let Self { splitter, decoding, known } = self;
        let (column, mut rows) = (ByteColumn::new("key", keys)?, PairRows::new(emit));
        for at in 0..keys.len() {
            let key = match column.get(at) {
                None => {
                    rows.append_fault(None, KeyFault::Null);
                    continue;
                }
                Some(key) if key.len() > MAX_NAME => {
                    rows.append_fault(Some(&key[..MAX_NAME]), KeyFault::TooLong);
                    continue;
                }
                Some(key) => key,
            };
            match decoding.decode(Cow::Borrowed(key)) {
                None => rows.append_fault(Some(key), KeyFault::NotEncoded),
                Some(key) if splitter.shape() != Shape::Name && !takes(&key) => {
                    rows.append_fault(Some(&key), KeyFault::TooDeep);
                }
                Some(key) => {
                    let Ok(()) = splitter.split(&key, &mut SplitKeys { known, rows: &mut rows });
                }
            }
        }
        rows.flush();
        Ok(())
    }
}

/// Why a key cannot be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyFault {
    Null,
    TooLong,
    TooDeep,
    NotEncoded,
}

impl KeyFault {
    const ALL: [Self; 4] = [Self::Null, Self::TooLong, Self::TooDeep, Self::NotEncoded];

    /// The word in the column `fault`.
    const fn word(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::TooLong => "too-long",
            Self::TooDeep => "too-deep",
            Self::NotEncoded => "not-encoded",
        }
    }

    /// The message for a word; the word itself if another version wrote it.
    pub(crate) fn message_for(word: &str) -> String {
        let known = Self::ALL.into_iter().find(|fault| fault.word() == word);
        known.map_or_else(|| word.to_owned(), Self::message)
    }

    pub(crate) fn message(self) -> String {
        match self {
            Self::Null => "the key is null".to_owned(),
            Self::TooLong => format!("the key has more than {MAX_NAME} bytes; its beginning is shown"),
            Self::TooDeep => format!("the key has {TOO_DEEP}"),
            Self::NotEncoded => "the key is not encoded as the setting says".to_owned(),
        }
    }
}

struct SplitKeys<'s, 'e> {
    known: &'s mut KnownDirectories,
    rows: &'s mut PairRows<'e>,
}

impl PairSink for SplitKeys<'_, '_> {
    type Error = Infallible;

    fn knows(&self, dir: &[u8]) -> bool {
        self.known.contains(dir)
    }

    fn put(&mut self, dir: &[u8], name: &[u8], kind: EntryKind) -> Result<(), Infallible> {
        self.known.insert(dir);
        self.rows.append(dir, name, kind);
        Ok(())
    }
}

/// Rows of [`schema::pairs`] on their way.
struct PairRows<'e> {
    parents: BinaryBuilder,
    names: BinaryBuilder,
    faults: StringBuilder,
    entries: StringBuilder,
    bytes: usize,
    emit: &'e mut dyn FnMut(RecordBatch),
}

impl<'e> PairRows<'e> {
    fn new(emit: &'e mut dyn FnMut(RecordBatch)) -> Self {
        let (parents, names, faults, entries) = Default::default();
        Self { parents, names, faults, entries, bytes: 0, emit }
    }

    fn append(&mut self, parent: &[u8], name: &[u8], kind: EntryKind) {
        self.parents.append_value(parent);
        self.names.append_value(name);
        self.faults.append_null();
        self.entries.append_option(entry_word(kind));
        self.count(parent.len() + name.len());
    }

    fn append_fault(&mut self, key: Option<&[u8]>, fault: KeyFault) {
        self.parents.append_null();
        self.names.append_option(key);
        self.faults.append_value(fault.word());
        self.entries.append_null();
        self.count(key.map_or(0, <[u8]>::len));
    }

    /// The parents of one deep key can have more bytes than a batch can address.
    fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= MOST_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.bytes = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.parents.finish()),
            Arc::new(self.names.finish()),
            Arc::new(self.faults.finish()),
            Arc::new(self.entries.finish()),
        ];
        let batch =
            RecordBatch::try_new(schema::pairs(), columns).expect("the columns are those of the schema");
        if batch.num_rows() > 0 {
            (self.emit)(batch);
        }
    }
}
