//! Rows of findings, read again.

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::byte_column::ByteColumn;
use crate::columns::{Columns, IntegerColumn, WordsColumn};

/// Reads rows of [`schema::findings`](crate::schema::findings), also from another library: columns in any order and layout.
pub struct FindingTable {
    directory: ByteColumn,
    name: ByteColumn,
    verdict: ByteColumn,
    rule: ByteColumn,
    severity: ByteColumn,
    start: IntegerColumn,
    end: IntegerColumn,
    message: ByteColumn,
    profiles: WordsColumn,
    refused_by: WordsColumn,
    group: ByteColumn,
    repair: ByteColumn,
    repair_confidence: ByteColumn,
    reading: ByteColumn,
    reading_confidence: ByteColumn,
    certain: ByteColumn,
    rows: usize,
}

/// A row of findings. Its texts are those of the table: they need not be ones that namegate wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingRow<'r> {
    /// A violation of a name.
    Violation(ViolationRow<'r>),
    /// A key that could not be checked.
    Fault {
        /// The key, or its beginning; `None` if it is null.
        key: Option<&'r [u8]>,
        /// The message.
        message: &'r str,
    },
}

/// A violation of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViolationRow<'r> {
    /// The directory of the name.
    pub directory: &'r [u8],
    /// The name.
    pub name: &'r [u8],
    /// The id of the rule.
    pub rule: &'r str,
    /// `warn` or `error`.
    pub severity: &'r str,
    /// The first byte.
    pub start: usize,
    /// The byte after the last one.
    pub end: usize,
    /// The message.
    pub message: &'r str,
    /// The profiles that object.
    pub profiles: Vec<String>,
    /// Those for which the violation is an error.
    pub refused_by: Vec<String>,
    /// For collisions: the names with the same one collide.
    pub group: Option<&'r str>,
    /// The suggested name.
    pub repair: Option<&'r str>,
    /// How certain the suggested name is.
    pub repair_confidence: Option<&'r str>,
    /// For a name that is not UTF-8 and has a suggested name: how its bytes were decoded.
    pub reading: Option<&'r str>,
    /// How certain the reading is.
    pub reading_confidence: Option<&'r str>,
    /// `false`: the rule may not apply, which depends on the kind or the place of the entry.
    pub is_certain: bool,
}

impl FindingTable {
    /// Reads a batch.
    ///
    /// # Errors
    /// A column is missing or of another type.
    pub fn new(batch: &RecordBatch) -> Result<Self, ArrowError> {
        let columns = Columns::new("findings", batch);
        Ok(Self {
            directory: columns.bytes("directory")?,
            name: columns.bytes("name")?,
            verdict: columns.bytes("verdict")?,
            rule: columns.bytes("rule")?,
            severity: columns.bytes("severity")?,
            start: columns.integers("start")?,
            end: columns.integers("end")?,
            message: columns.bytes("message")?,
            profiles: columns.words("profiles")?,
            refused_by: columns.words("refused_by")?,
            group: columns.bytes("group")?,
            repair: columns.bytes("repair")?,
            repair_confidence: columns.bytes("repair_confidence")?,
            reading: columns.bytes("reading")?,
            reading_confidence: columns.bytes("reading_confidence")?,
            certain: columns.bytes("certain")?,
            rows: batch.num_rows(),
        })
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = Result<FindingRow<'_>, ArrowError>> {
        (0..self.rows).map(|at| {
            self.row(at).map_err(|what| ArrowError::ParseError(format!("row {at} of a batch: {what}")))
        })
    }

    fn row(&self, at: usize) -> Result<FindingRow<'_>, String> {
        let message = required("message", text("message", &self.message, at)?)?;
        if text("verdict", &self.verdict, at)? == Some("fault") {
            return Ok(FindingRow::Fault { key: self.name.get(at), message });
        }
        let position = |name: &str, column: &IntegerColumn| {
            required(name, column.get(at).and_then(|position| usize::try_from(position).ok()))
        };
        let words = |column: &WordsColumn| column.get(at).map_err(|error| error.to_string());
        Ok(FindingRow::Violation(ViolationRow {
            directory: required("directory", self.directory.get(at))?,
            name: required("name", self.name.get(at))?,
            rule: required("rule", text("rule", &self.rule, at)?)?,
            severity: required("severity", text("severity", &self.severity, at)?)?,
            start: position("start", &self.start)?,
            end: position("end", &self.end)?,
            message,
            profiles: words(&self.profiles)?,
            refused_by: words(&self.refused_by)?,
            group: text("group", &self.group, at)?,
            repair: text("repair", &self.repair, at)?,
            repair_confidence: text("repair_confidence", &self.repair_confidence, at)?,
            reading: text("reading", &self.reading, at)?,
            reading_confidence: text("reading_confidence", &self.reading_confidence, at)?,
            is_certain: text("certain", &self.certain, at)? != Some("false"),
        }))
    }
}

fn text<'c>(name: &str, column: &'c ByteColumn, at: usize) -> Result<Option<&'c str>, String> {
    let text = column.get(at).map(std::str::from_utf8).transpose();
    text.map_err(|_| format!("`{name}` is not UTF-8"))
}

fn required<T>(name: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("`{name}` is missing"))
}
