//! The columns of a batch by their names, in any of Arrow's layouts.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, OffsetSizeTrait, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use namegate_core::policy::EntryKind;

use crate::byte_column::ByteColumn;

/// The columns of a batch.
pub(crate) struct Columns<'b> {
    /// What the rows are, for errors.
    what: &'static str,
    batch: &'b RecordBatch,
}

impl<'b> Columns<'b> {
    pub(crate) fn new(what: &'static str, batch: &'b RecordBatch) -> Self {
        Self { what, batch }
    }

    /// The column, if there is one that is not of nulls alone.
    pub(crate) fn bytes_if_any(&self, name: &str) -> Result<Option<ByteColumn>, ArrowError> {
        match self.batch.column_by_name(name) {
            Some(column) if column.data_type() != &DataType::Null => ByteColumn::new(name, column).map(Some),
            _ => Ok(None),
        }
    }

    /// A column of bytes or text.
    pub(crate) fn bytes(&self, name: &str) -> Result<ByteColumn, ArrowError> {
        ByteColumn::new(name, self.column(name)?)
    }

    /// A column of integers.
    pub(crate) fn integers(&self, name: &str) -> Result<IntegerColumn, ArrowError> {
        let column = self.column(name)?;
        match column.data_type() {
            DataType::Int32 => Ok(IntegerColumn::Int32(column.as_primitive::<Int32Type>().clone())),
            DataType::Int64 => Ok(IntegerColumn::Int64(column.as_primitive::<Int64Type>().clone())),
            other => Err(self.another_type(name, other, "INT or BIGINT")),
        }
    }

    /// A column of truth values, in which null is false.
    pub(crate) fn flags(&self, name: &str) -> Result<Vec<bool>, ArrowError> {
        let column = self.column(name)?;
        match column.data_type() {
            DataType::Boolean => {
                Ok(column.as_boolean().iter().map(|flag| flag.unwrap_or_default()).collect())
            }
            other => Err(self.another_type(name, other, "BOOLEAN")),
        }
    }

    /// A column of kinds of entries; all are unknown if there is none.
    pub(crate) fn kinds_if_any(&self, name: &str) -> Result<KindColumn, ArrowError> {
        self.bytes_if_any(name).map(KindColumn)
    }

    /// A column of lists of words.
    pub(crate) fn words(&self, name: &str) -> Result<WordsColumn, ArrowError> {
        let column = self.column(name)?;
        match column.data_type() {
            DataType::List(_) => WordsColumn::new::<i32>(name, column),
            DataType::LargeList(_) => WordsColumn::new::<i64>(name, column),
            other => Err(self.another_type(name, other, "a list of STRING")),
        }
    }

    fn column(&self, name: &str) -> Result<&'b ArrayRef, ArrowError> {
        self.batch.column_by_name(name).ok_or_else(|| {
            let known: Vec<_> =
                self.batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
            let (what, known) = (self.what, known.join(", "));
            ArrowError::SchemaError(format!("the {what} have no column `{name}`, but: {known}"))
        })
    }

    fn another_type(&self, name: &str, found: &DataType, expected: &str) -> ArrowError {
        let what = self.what;
        ArrowError::SchemaError(format!(
            "the column `{name}` of the {what} is {found}; {expected} was expected"
        ))
    }
}

/// A column of kinds of entries.
pub(crate) struct KindColumn(Option<ByteColumn>);

impl KindColumn {
    /// The kind in row `at`.
    pub(crate) fn get(&self, at: usize) -> EntryKind {
        let word = self.0.as_ref().and_then(|column| column.get(at));
        let is_word_of = |kind: &EntryKind| entry_word(*kind).map(str::as_bytes) == word;
        let known = [EntryKind::File, EntryKind::Directory].into_iter().find(is_word_of);
        known.unwrap_or(EntryKind::Unknown)
    }
}

/// The word of a kind in the column `entry`.
pub(crate) fn entry_word(kind: EntryKind) -> Option<&'static str> {
    match kind {
        EntryKind::Unknown => None,
        EntryKind::File => Some("file"),
        EntryKind::Directory => Some("directory"),
    }
}

/// A column of integers.
pub(crate) enum IntegerColumn {
    Int32(Int32Array),
    Int64(Int64Array),
}

impl IntegerColumn {
    /// The value in row `at`; `None` if it is null.
    pub(crate) fn get(&self, at: usize) -> Option<i64> {
        match self {
            Self::Int32(column) => column.is_valid(at).then(|| column.value(at).into()),
            Self::Int64(column) => column.is_valid(at).then(|| column.value(at)),
        }
    }
}

/// A column of lists of words.
pub(crate) struct WordsColumn {
    /// Where the words of each row begin, and where those of the last one end.
    offsets: Vec<usize>,
    words: ByteColumn,
}

impl WordsColumn {
    fn new<O: OffsetSizeTrait>(name: &str, column: &ArrayRef) -> Result<Self, ArrowError> {
        let lists = column.as_list::<O>();
        let offsets = lists.value_offsets().iter().map(|offset| offset.as_usize()).collect();
        Ok(Self { offsets, words: ByteColumn::new(name, lists.values())? })
    }

    /// The words in row `at`; none if it is null.
    ///
    /// # Errors
    /// A word is null or not UTF-8.
    pub(crate) fn get(&self, at: usize) -> Result<Vec<String>, ArrowError> {
        let words = (self.offsets[at]..self.offsets[at + 1]).map(|at| {
            let word = self.words.get(at).and_then(|word| std::str::from_utf8(word).ok());
            word.map(str::to_owned)
                .ok_or_else(|| ArrowError::ParseError("a word is missing in a list".to_owned()))
        });
        words.collect()
    }
}
