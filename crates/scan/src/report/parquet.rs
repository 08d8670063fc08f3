//! Findings as a Parquet file: the table of `namegate-arrow`, so that the findings of a scan and of an engine go together. The
//! summary is in the metadata of the file, as JSON.

use std::io::{self, Write};

use arrow_array::RecordBatch;
use namegate_arrow::{FindingRows, schema};
use namegate_findings::fingerprint::CheckBasis;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::json::lines::SummaryLine;
use super::{DirectoryFindings, RenderedFindings, Report, Summary};

/// The key of the summary in the metadata of the file.
pub const SUMMARY_KEY: &str = "namegate.summary";

/// Rows of a row group, which is kept in memory until it is complete.
const ROW_GROUP: usize = 1 << 17;

/// Writes records as a Parquet file.
pub struct Parquet<W: Write + Send> {
    /// `None` until the first row.
    writer: Option<ArrowWriter<W>>,
    out: Option<W>,
    rows: FindingRows,
}

impl<W: Write + Send> Parquet<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { writer: None, out: Some(out), rows: FindingRows::default() }
    }

    fn writer(&mut self) -> Result<&mut ArrowWriter<W>> {
        if let Some(out) = self.out.take() {
            let settings = WriterProperties::builder()
                .set_compression(Compression::SNAPPY)
                .set_max_row_group_row_count(Some(ROW_GROUP))
                .build();
            self.writer = Some(ArrowWriter::try_new(out, schema::findings(), Some(settings))?);
        }
        self.writer.as_mut().ok_or_else(|| ParquetError::General("the file was not begun".to_owned()))
    }

    fn write_batches(&mut self, batches: &[RecordBatch]) -> io::Result<()> {
        batches.iter().try_for_each(|batch| self.writer()?.write(batch)).map_err(into_io)
    }
}

/// The error of the output, if that is what failed.
fn into_io(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}

impl<W: Write + Send> Report for Parquet<W> {
    fn write(&mut self, findings: &DirectoryFindings, _rendered: &RenderedFindings) -> io::Result<()> {
        let mut full = Vec::new();
        findings.records.iter().for_each(|record| self.rows.append(record, &mut |batch| full.push(batch)));
        self.write_batches(&full)
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        let mut full = Vec::new();
        self.rows.append_fault(Some(path), message, &mut |batch| full.push(batch));
        self.write_batches(&full)
    }

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        let mut rest = Vec::new();
        self.rows.flush(&mut |batch| rest.push(batch));
        self.write_batches(&rest)?;
        let summary = serde_json::to_string(&SummaryLine::new(basis, summary))?;
        let mut end = || {
            let writer = self.writer()?;
            writer.append_key_value_metadata(KeyValue::new(SUMMARY_KEY.to_owned(), summary.clone()));
            writer.finish().map(drop)
        };
        end().map_err(into_io)
    }
}
