//! Findings as rows.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int32Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use namegate_core::policy::profile::ProfileSet;
use namegate_findings::record::ReportedName;
use namegate_findings::uri;

use crate::schema;

/// Bytes of names and texts in one batch: far below what the offsets of a column can address, because one name can have very
/// many violations.
pub(crate) const MOST_BYTES: usize = 16 << 20;

/// Rows in one batch of findings.
const MOST_ROWS: usize = 1 << 14;

/// Collects rows of [`schema::findings`].
#[derive(Debug, Default)]
pub struct FindingRows {
    directory: BinaryBuilder,
    name: BinaryBuilder,
    path_encoded: StringBuilder,
    verdict: StringBuilder,
    rule: StringBuilder,
    concern: StringBuilder,
    severity: StringBuilder,
    start: Int32Builder,
    end: Int32Builder,
    message: StringBuilder,
    profiles: ListBuilder<StringBuilder>,
    refused_by: ListBuilder<StringBuilder>,
    group: StringBuilder,
    repair: StringBuilder,
    repair_confidence: StringBuilder,
    reading: StringBuilder,
    reading_confidence: StringBuilder,
    certain: StringBuilder,
    rows: usize,
    bytes: usize,
}

impl FindingRows {
    /// Adds a row for each violation of a name, and hands `emit` the batches that are full.
    pub fn append(&mut self, record: &ReportedName, emit: &mut dyn FnMut(RecordBatch)) {
        let (path, verdict) = (uri::encoded(&record.path()), record.outcome().as_str());
        let dir = record.place.as_ref().map(|place| place.dir.as_slice());
        let repair = record.repair.as_ref();
        let decoded = repair.and_then(|repair| repair.decoded);
        for objection in &record.objections {
            let (violation, rule) = (&objection.violation, objection.violation.rule.rule());
            let [start, end] =
                [violation.span.start, violation.span.end].map(|at| i32::try_from(at).unwrap_or(i32::MAX));
            self.directory.append_option(dir);
            self.name.append_value(&record.name);
            self.path_encoded.append_value(&path);
            self.verdict.append_value(verdict);
            self.rule.append_value(rule.name);
            self.concern.append_value(rule.concern.as_str());
            self.severity.append_value(violation.severity.as_str());
            self.start.append_value(start);
            self.end.append_value(end);
            self.message.append_value(&objection.message);
            append_words(&mut self.profiles, violation.profiles);
            append_words(&mut self.refused_by, violation.refused_by);
            self.group.append_option(objection.group.as_ref().map(|group| &group.id));
            self.repair.append_option(repair.map(|repair| &repair.name));
            self.repair_confidence.append_option(repair.map(|repair| repair.confidence.as_str()));
            self.reading.append_option(decoded.map(|decoded| decoded.explanation.to_string()));
            self.reading_confidence.append_option(decoded.map(|decoded| decoded.confidence.as_str()));
            self.certain.append_value(if violation.is_certain { "true" } else { "false" });
            let dir_len = dir.map_or(0, <[u8]>::len);
            self.count(dir_len + record.name.len() + path.len() + objection.message.len(), emit);
        }
    }

    /// Adds a row for a key that cannot be checked, and hands `emit` the batch if it is full.
    pub fn append_fault(&mut self, key: Option<&[u8]>, message: &str, emit: &mut dyn FnMut(RecordBatch)) {
        let path = key.map(uri::encoded);
        self.directory.append_null();
        self.name.append_option(key);
        self.path_encoded.append_option(path.as_deref());
        self.verdict.append_value("fault");
        for text in [&mut self.rule, &mut self.concern, &mut self.severity] {
            text.append_null();
        }
        self.start.append_null();
        self.end.append_null();
        self.message.append_value(message);
        append_words(&mut self.profiles, ProfileSet::EMPTY);
        append_words(&mut self.refused_by, ProfileSet::EMPTY);
        for text in [
            &mut self.group,
            &mut self.repair,
            &mut self.repair_confidence,
            &mut self.reading,
            &mut self.reading_confidence,
        ] {
            text.append_null();
        }
        self.certain.append_null();
        self.count(key.map_or(0, <[u8]>::len) + path.map_or(0, |path| path.len()), emit);
    }

    fn count(&mut self, bytes: usize, emit: &mut dyn FnMut(RecordBatch)) {
        self.rows += 1;
        self.bytes += bytes;
        if self.rows >= MOST_ROWS || self.bytes >= MOST_BYTES {
            self.flush(emit);
        }
    }

    /// Hands `emit` the rows since the last batch, if there are any.
    pub fn flush(&mut self, emit: &mut dyn FnMut(RecordBatch)) {
        if self.rows == 0 {
            return;
        }
        (self.rows, self.bytes) = (0, 0);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.directory.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.path_encoded.finish()),
            Arc::new(self.verdict.finish()),
            Arc::new(self.rule.finish()),
            Arc::new(self.concern.finish()),
            Arc::new(self.severity.finish()),
            Arc::new(self.start.finish()),
            Arc::new(self.end.finish()),
            Arc::new(self.message.finish()),
            Arc::new(self.profiles.finish()),
            Arc::new(self.refused_by.finish()),
            Arc::new(self.group.finish()),
            Arc::new(self.repair.finish()),
            Arc::new(self.repair_confidence.finish()),
            Arc::new(self.reading.finish()),
            Arc::new(self.reading_confidence.finish()),
            Arc::new(self.certain.finish()),
        ];
        let batch = RecordBatch::try_new(schema::findings(), columns);
        emit(batch.expect("the columns are those of the schema"));
    }
}

fn append_words(list: &mut ListBuilder<StringBuilder>, set: ProfileSet) {
    set.names().for_each(|name| list.values().append_value(name));
    list.append(true);
}
