//! The summary of a task.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use namegate_core::name::scalar::UNICODE_VERSION;

use crate::schema;

/// The counts of a task, and what it checked with. Only summaries with the same policy and versions can be added up.
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
    /// The fingerprint of the policy and of the other settings that findings depend on.
    pub policy: String,
    /// The profiles of the policy.
    pub profiles: Vec<&'static str>,
}

impl TaskSummary {
    /// The summary as a batch with one row of [`schema::summary`]; `task` identifies the task.
    pub fn to_batch(&self, task: &str) -> RecordBatch {
        let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
        let count = |count: u64| -> ArrayRef {
            Arc::new(Int64Array::from(vec![i64::try_from(count).unwrap_or(i64::MAX)]))
        };
        let (major, minor, patch) = UNICODE_VERSION;
        let mut profiles = ListBuilder::new(StringBuilder::new());
        profiles.append_value(self.profiles.iter().map(Some));
        let columns = vec![
            text(task),
            count(self.names),
            count(self.directories),
            count(self.collisions),
            count(self.faults),
            text(&self.policy),
            text(&format!("{major}.{minor}.{patch}")),
            text(env!("CARGO_PKG_VERSION")),
            Arc::new(profiles.finish()),
        ];
        RecordBatch::try_new(schema::summary(), columns).expect("the columns are those of the schema")
    }
}
