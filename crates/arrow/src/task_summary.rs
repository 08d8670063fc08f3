//! The summary of a task.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::ArrowError;
use namegate_core::policy::UnknownWord;
use namegate_core::policy::profile::ProfileSet;
use namegate_findings::fingerprint::CheckBasis;

use crate::columns::Columns;
use crate::schema;

/// The counts of a task, and what it checked with. Only summaries with the same basis can be added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSummary {
    /// Names checked, each directory and name once.
    pub names: u64,
    /// Directories.
    pub directories: u64,
    /// Groups of names that become one.
    pub collisions: u64,
    /// Keys that could not be checked.
    pub faults: u64,
    /// Names with a violation.
    pub findings: u64,
    /// What names were checked with.
    pub basis: CheckBasis,
}

impl TaskSummary {
    /// A summary that has counted nothing.
    pub fn new(basis: CheckBasis) -> Self {
        Self { names: 0, directories: 0, collisions: 0, faults: 0, findings: 0, basis }
    }

    /// The summary as a batch with one row of [`schema::summary`]; `task` identifies the task.
    pub fn to_batch(&self, task: &str) -> RecordBatch {
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
        let count = |count: u64| -> ArrayRef {
            Arc::new(Int64Array::from(vec![i64::try_from(count).unwrap_or(i64::MAX)]))
        };
        let CheckBasis { namegate, unicode, policy, min_severity, profiles: set } = &self.basis;
        let mut profiles = ListBuilder::new(StringBuilder::new());
        profiles.append_value(set.names().map(Some));
        let columns = vec![
            text(task),
            count(self.names),
            count(self.directories),
            count(self.collisions),
            count(self.faults),
            text(policy),
            text(unicode),
            text(namegate),
            Arc::new(profiles.finish()),
            count(self.findings),
            text(min_severity.as_str()),
        ];
        RecordBatch::try_new(schema::summary(), columns).expect("the columns are those of the schema")
    }

    /// Reads rows of [`schema::summary`], also from another library: columns in any order and layout.
    ///
    /// # Errors
    /// A column is missing or of another type, or a value is missing or unknown to this version.
    pub fn read(batch: &RecordBatch) -> Result<Vec<Self>, ArrowError> {
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let columns = Columns::new("summaries", batch);
        let invalid = |at: usize, name: &str| {
            ArrowError::ParseError(format!("row {at} of the summaries has no valid `{name}`"))
        };
        let counts = |name: &'static str| {
            let column = columns.integers(name)?;
            Ok::<_, ArrowError>(move |at: usize| {
                let count = column.get(at).and_then(|count| u64::try_from(count).ok());
                count.ok_or_else(|| invalid(at, name))
            })
        };
        let texts = |name: &'static str| {
            let column = columns.bytes(name)?;
            Ok::<_, ArrowError>(move |at: usize| {
                let text = column.get(at).and_then(|text| std::str::from_utf8(text).ok());
                text.map(str::to_owned).ok_or_else(|| invalid(at, name))
            })
        };
        let (names, directories, collisions) =
            (counts("names")?, counts("directories")?, counts("collisions")?);
        let (faults, findings) = (counts("faults")?, counts("findings")?);
        let (namegate, unicode, policy) = (texts("namegate")?, texts("unicode")?, texts("policy")?);
        let (min_severity, profiles) = (texts("min_severity")?, columns.words("profiles")?);
        let read_row = |at: usize| {
            let unknown =
                |error: UnknownWord| ArrowError::ParseError(format!("row {at} of the summaries: {error}"));
            Ok(Self {
                names: names(at)?,
                directories: directories(at)?,
                collisions: collisions(at)?,
                faults: faults(at)?,
                findings: findings(at)?,
                basis: CheckBasis {
                    namegate: namegate(at)?,
                    unicode: unicode(at)?,
                    policy: policy(at)?,
                    min_severity: min_severity(at)?.parse().map_err(unknown)?,
                    profiles: ProfileSet::from_names(profiles.get(at)?.iter().map(String::as_str))
                        .map_err(unknown)?,
                },
            })
        };
        (0..batch.num_rows()).map(read_row).collect()
    }
}
