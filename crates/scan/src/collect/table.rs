//! Findings and summaries in Parquet files, of a scan or of an engine.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use namegate_arrow::{FindingRow, FindingTable, TaskSummary, ViolationRow};
use namegate_core::name::display::display;
use namegate_files::json::{Base64, Hex, to_line};
use namegate_findings::location::DirectoryPath;

use super::collection::FindingsCollection;
use super::json_lines::{CollectedLine, key_of, parse};
use super::record::ROW;
use crate::parquet_file::ParquetFile;
use crate::report::json::lines::{RecordLine, ViolationLine};
use crate::report::parquet::SUMMARY_KEY;

/// Adds the rows of a file.
pub(super) fn read(file: &Path, name: &str, collection: &mut FindingsCollection) -> io::Result<()> {
    let file = ParquetFile::open(file)?;
    let columns = file.columns();
    let has = |wanted: &[&str]| wanted.iter().all(|name| columns.contains(name));
    match () {
        () if has(&["path_encoded", "verdict", "rule"]) => read_findings(&file, name, collection),
        () if has(&["task", "names", "directories", "policy"]) => file.each_batch(&mut |batch| {
            for task in TaskSummary::read(&batch).map_err(damaged)? {
                collection.runs.add_task(task, name)?;
            }
            Ok(())
        }),
        () => Err(io::Error::other(format!(
            "it has neither findings nor summaries of namegate, but the columns {}",
            columns.join(", ")
        ))),
    }
}

fn damaged(error: ArrowError) -> io::Error {
    let message = match error {
        ArrowError::SchemaError(message) | ArrowError::ParseError(message) => message,
        error => error.to_string(),
    };
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn read_findings(file: &ParquetFile, name: &str, collection: &mut FindingsCollection) -> io::Result<()> {
    let summary = file.text(SUMMARY_KEY);
    let mut rows = 0;
    file.each_batch(&mut |batch| {
        rows += batch.num_rows();
        add_batch(&batch, summary.is_some(), collection)
    })?;
    match summary {
        Some(summary) => match parse(summary.as_bytes())? {
            CollectedLine::Summary(summary) => collection.runs.add_scan(&summary, name),
            _ => Err(io::Error::other(format!("its metadata `{SUMMARY_KEY}` are no summary"))),
        },
        None => {
            if rows > 0 {
                collection.runs.add_table(name);
            }
            Ok(())
        }
    }
}

fn add_batch(batch: &RecordBatch, is_scan: bool, collection: &mut FindingsCollection) -> io::Result<()> {
    for row in FindingTable::new(batch).map_err(damaged)?.rows() {
        match row.map_err(damaged)? {
            // The message of a scan names what could not be read, that of an engine does not.
            FindingRow::Fault { key, message } if is_scan => {
                collection.add_fault(key.unwrap_or_default(), message)?
            }
            FindingRow::Fault { key: None, message } => collection.add_fault(b"", message)?,
            FindingRow::Fault { key: Some(key), message } => {
                let begin = &key[..key.len().min(SHOWN)];
                let more = if begin.len() < key.len() { "…" } else { "" };
                collection.add_fault(key, &format!("{}{more}: {message}", display(begin)))?;
            }
            FindingRow::Violation(row) => {
                if !is_scan {
                    collection.runs.add_objecting(&row.profiles);
                }
                add_violation(row, collection)?;
            }
        }
    }
    Ok(())
}

/// Bytes of a key that a message shows.
const SHOWN: usize = 256;

/// Adds a row as a line: all findings are stored and read in one way.
fn add_violation(row: ViolationRow<'_>, collection: &mut FindingsCollection) -> io::Result<()> {
    let place = DirectoryPath { container: None, dir: row.directory.to_vec(), inode: None };
    let words = |words: Vec<String>| words.into_iter().map(Cow::Owned).collect();
    let violation = ViolationLine {
        rule: row.rule.into(),
        severity: row.severity.into(),
        start: row.start,
        end: row.end,
        message: row.message.into(),
        concern: Cow::default(),
        profiles: words(row.profiles),
        refused_by: words(row.refused_by),
        group: row.group.map(Cow::Borrowed),
        certain: row.is_certain,
    };
    let line = RecordLine {
        r#type: ROW.into(),
        path_base64: Some(Base64(place.join(row.name).into())),
        name_hex: Hex(row.name.into()),
        violations: vec![violation],
        repair: row.repair.map(Cow::Borrowed),
        repair_confidence: row.repair_confidence.map(Cow::Borrowed),
        reading: row.reading.map(Cow::Borrowed),
        reading_confidence: row.reading_confidence.map(Cow::Borrowed),
        ..RecordLine::default()
    };
    let line = to_line(&line).into_bytes();
    let CollectedLine::Record(read) = parse(&line)? else { return Ok(()) };
    collection.add_line(&key_of(read.record.place.as_deref()), &line)
}
