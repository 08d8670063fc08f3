//! Reads names from a column of a Parquet file, several row groups at a time.
//!
//! The column is read as bytes, whatever its annotation says: a column of strings can have bytes that are not UTF-8, which is what
//! namegate looks for, and readers that make text of it refuse the whole file.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use namegate_findings::split::MAX_NAME;
use parquet::basic::Type;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{AsBytes, DataType};
use parquet::errors::{ParquetError, Result};

use super::fields::{Field, Missing};
use crate::parquet_file::{ParquetFile, guarded};

/// Rows that a thread hands over at a time.
const ROWS: usize = 1 << 13;

/// How many times [`ROWS`] a thread reads ahead in a row group.
const AHEAD: usize = 32;

type RowsResult = io::Result<ColumnRows>;

/// Values of the column, from one row group.
struct ColumnRows {
    /// The number of the first row in the file, from 1.
    first: u64,
    rows: Vec<Field>,
}

/// Hands each value of the column, with the number of its row from 1, to `visit`, in the order of the rows.
///
/// # Errors
/// The file cannot be read, is damaged, or has no such column of bytes.
pub fn read(
    file: &Path,
    column: &str,
    jobs: NonZeroUsize,
    visit: &mut dyn FnMut(u64, Field) -> io::Result<()>,
) -> io::Result<()> {
    let opened = ParquetFile::open(file)?;
    let at = find_column(&opened, column)?;
    let mut next_first = 1;
    let firsts: Vec<u64> = opened
        .metadata()
        .row_groups()
        .iter()
        .map(|group| {
            let first = next_first;
            next_first += u64::try_from(group.num_rows()).unwrap_or_default();
            first
        })
        .collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel::<(usize, Receiver<RowsResult>)>(jobs.get());
        for _ in 0..jobs.get().min(firsts.len()) {
            let (sender, next, firsts, opened) = (sender.clone(), &next, &firsts, &opened);
            scope.spawn(move || {
                loop {
                    let group = next.fetch_add(1, Relaxed);
                    let Some(&first) = firsts.get(group) else { return };
                    let (rows, received) = sync_channel(AHEAD);
                    if sender.send((group, received)).is_err() {
                        return;
                    }
                    if let Err(error) = guarded(|| read_group(opened, group, at, first, &rows)) {
                        // A receiver that is gone has failed itself.
                        let error = io::Error::new(error.kind(), format!("row group {group}: {error}"));
                        let _ = rows.send(Err(error));
                    }
                }
            });
        }
        drop(sender);
        // In their order: the number of a name is that of the first row that has it.
        let mut waiting = BTreeMap::new();
        for group in 0..firsts.len() {
            while !waiting.contains_key(&group) {
                let Ok((of, rows)) = receiver.recv() else { break };
                waiting.insert(of, rows);
            }
            for rows in waiting.remove(&group).into_iter().flatten() {
                let ColumnRows { first, rows } = rows?;
                for (number, field) in (first..).zip(rows) {
                    visit(number, field)?;
                }
            }
        }
        Ok(())
    })
}

fn find_column(opened: &ParquetFile, name: &str) -> io::Result<usize> {
    let schema = opened.metadata().file_metadata().schema_descr();
    let mut found = (0..).zip(schema.columns()).filter(|(_, column)| column.path().string() == name);
    let at = match (found.next(), found.next()) {
        (Some((at, _)), None) => at,
        (None, _) => {
            let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
            return Err(io::Error::other(format!("it has no column `{name}`, but: {}", names.join(", "))));
        }
        // Programs differ in which one they read.
        (Some(_), Some(_)) => {
            return Err(io::Error::other(format!(
                "it has more than one column `{name}`; write it again with other names"
            )));
        }
    };
    let column = schema.column(at);
    let is_bytes = matches!(column.physical_type(), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY);
    match is_bytes && column.max_rep_level() == 0 {
        true => Ok(at),
        false => Err(io::Error::other(format!("its column `{name}` has neither bytes nor text"))),
    }
}

/// Sends the values of one row group.
fn read_group(
    opened: &ParquetFile,
    group: usize,
    column: usize,
    first: u64,
    sender: &SyncSender<RowsResult>,
) -> Result<()> {
    let descriptor = opened.metadata().file_metadata().schema_descr().column(column);
    match get_column_reader(descriptor, opened.pages(group, column)?) {
        ColumnReader::ByteArrayColumnReader(reader) => send_values(reader, first, sender),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => send_values(reader, first, sender),
        _ => Err(ParquetError::General("the column has another type than the schema says".to_owned())),
    }
}

fn send_values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    mut first: u64,
    sender: &SyncSender<RowsResult>,
) -> Result<()> {
    let (mut levels, mut values) = (Vec::with_capacity(ROWS), Vec::with_capacity(ROWS));
    loop {
        levels.clear();
        values.clear();
        let (records, ..) = reader.read_records(ROWS, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Ok(());
        }
        let mut present = values.iter().map(|value| match value.as_bytes() {
            bytes if bytes.len() > MAX_NAME => Err(Missing::TooLong),
            bytes => Ok(bytes.to_vec()),
        });
        let of_values = levels.iter().copied().max();
        let rows = match of_values {
            // A column that cannot be null has no levels.
            None => present.collect(),
            Some(most) => levels
                .iter()
                .map(|&level| (level == most).then(|| present.next()).flatten().unwrap_or(Err(Missing::Null)))
                .collect(),
        };
        if sender.send(Ok(ColumnRows { first, rows })).is_err() {
            return Ok(());
        }
        first += records as u64;
    }
}
