//! Parquet files of anybody: nothing in them is trusted.
//!
//! Damaged files can make the library panic, and claim any length; here both are errors. Pages that are packed with Zstandard are
//! unpacked by `ruzstd`: the library would link C for it, which reads bytes that an attacker chose.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Once};

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::Compression;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use parquet::file::serialized_reader::SerializedPageReader;
use ruzstd::decoding::StreamingDecoder;

/// Rows of a batch: names can have 65,536 bytes, and the offsets of a column address 2 GB.
const ROWS: usize = 1 << 13;

/// The memory that a packed page may refer back to.
const MAX_WINDOW: u64 = 128 << 20;

/// An open Parquet file.
#[derive(Clone)]
pub struct ParquetFile {
    file: Arc<PositionedFile>,
    metadata: Arc<ParquetMetaData>,
}

impl ParquetFile {
    /// Opens the file and reads its metadata.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let file = Arc::new(PositionedFile { len: file.metadata()?.len(), file: Arc::new(file) });
        let opened = guarded(|| {
            SerializedFileReader::new(PositionedFile { file: Arc::clone(&file.file), len: file.len })
        })?;
        Ok(Self { file, metadata: Arc::new(opened.metadata().clone()) })
    }

    pub fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }

    /// The names of the columns at the top.
    pub fn columns(&self) -> Vec<&str> {
        self.metadata.file_metadata().schema().get_fields().iter().map(|field| field.name()).collect()
    }

    /// The text that the metadata of the file have for `key`.
    pub fn text(&self, key: &str) -> Option<&str> {
        let texts = self.metadata.file_metadata().key_value_metadata()?;
        texts.iter().find(|text| text.key == key)?.value.as_deref()
    }

    /// Reads the pages of a column in a row group.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn pages(&self, group: usize, column: usize) -> Result<Box<dyn PageReader>> {
        let group = self.metadata.row_group(group);
        let rows = usize::try_from(group.num_rows())?;
        let chunk = group.column(column);
        if let codec @ (Compression::BROTLI(_) | Compression::LZ4 | Compression::LZ4_RAW | Compression::LZO) =
            chunk.compression()
        {
            let codec = codec.to_string();
            let codec = codec.split_once('(').map_or(&*codec, |(codec, _)| codec);
            let text = format!(
                "its column `{}` is compressed with {codec}, which is not supported; write the file again with ZSTD, SNAPPY or GZIP, in DuckDB \
                 with `COPY (FROM 'in.parquet') TO 'out.parquet' (COMPRESSION zstd)`",
                chunk.column_path().string()
            );
            return Err(ParquetError::External(text.into()));
        }
        let file = Arc::clone(&self.file);
        if !matches!(chunk.compression(), Compression::ZSTD(_)) {
            return Ok(Box::new(SerializedPageReader::new(file, chunk, rows, None)?));
        }
        let largest = u64::try_from(chunk.uncompressed_size())?;
        // Pages come as they are stored.
        let chunk = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        Ok(Box::new(ZstdPages { pages: SerializedPageReader::new(file, &chunk, rows, None)?, largest }))
    }

    /// Hands all rows to `take`, batch by batch.
    ///
    /// # Errors
    /// The file is damaged or cannot be read, or `take` fails.
    pub fn each_batch(&self, take: &mut dyn FnMut(RecordBatch) -> io::Result<()>) -> io::Result<()> {
        let mut batches = guarded(|| {
            let schema = self.metadata.file_metadata().schema_descr();
            // Without the schema of Arrow that a writer may have added: what is stored counts.
            let levels = parquet_to_arrow_field_levels(schema, ProjectionMask::all(), None)?;
            ParquetRecordBatchReader::try_new_with_row_groups(&levels, self, ROWS, None)
        })?;
        while let Some(batch) = guarded(|| batches.next().transpose().map_err(ParquetError::from))? {
            take(batch)?;
        }
        Ok(())
    }
}

impl RowGroups for ParquetFile {
    fn num_rows(&self) -> usize {
        self.metadata
            .row_groups()
            .iter()
            .map(|group| usize::try_from(group.num_rows()).unwrap_or_default())
            .sum()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>> {
        Ok(Box::new(ColumnChunks { file: self.clone(), column, next: 0 }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The pages of a column, one row group after the other.
struct ColumnChunks {
    file: ParquetFile,
    column: usize,
    next: usize,
}

impl Iterator for ColumnChunks {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.next;
        self.next += 1;
        (group < self.file.metadata.num_row_groups()).then(|| self.file.pages(group, self.column))
    }
}

impl PageIterator for ColumnChunks {}

/// Unpacks pages.
struct ZstdPages {
    pages: SerializedPageReader<PositionedFile>,
    /// No page is larger than all pages of its column chunk.
    largest: u64,
}

impl ZstdPages {
    fn unpack(&self, packed: &[u8]) -> Result<Bytes> {
        let failed = |error: &dyn std::fmt::Display| {
            ParquetError::General(format!("a page cannot be unpacked: {error}"))
        };
        let mut rest = packed;
        let decoder = StreamingDecoder::new_with_max_window_size(&mut rest, MAX_WINDOW)
            .map_err(|error| failed(&error))?;
        let mut unpacked = Vec::new();
        decoder.take(self.largest + 1).read_to_end(&mut unpacked).map_err(|error| failed(&error))?;
        match unpacked.len() as u64 > self.largest {
            true => Err(failed(&"it is larger than the metadata say")),
            false => Ok(unpacked.into()),
        }
    }

    fn unpack_page(&self, mut page: Page) -> Result<Page> {
        match &mut page {
            Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => *buf = self.unpack(buf)?,
            Page::DataPageV2 { is_compressed: false, .. } => {}
            Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, is_compressed, .. } => {
                // The levels come before the values, and are not packed.
                let levels = *def_levels_byte_len as usize + *rep_levels_byte_len as usize;
                let (levels, values) = buf.split_at_checked(levels).ok_or_else(|| {
                    ParquetError::General("the levels of a page are longer than the page".to_owned())
                })?;
                if !values.is_empty() {
                    *buf = [levels, &self.unpack(values)?].concat().into();
                }
                *is_compressed = false;
            }
        }
        Ok(page)
    }
}

impl PageReader for ZstdPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.map(|page| self.unpack_page(page)).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

impl Iterator for ZstdPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

thread_local! {
    /// Whether a panic of this thread becomes an error, about which nothing else is written.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a step of the library. Damaged files can make it panic.
///
/// # Errors
/// Those of the step; InvalidData if it panics.
pub fn guarded<T>(step: impl FnOnce() -> Result<T>) -> io::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_GUARDED.get() {
                others(panic);
            }
        }));
    });
    let was_guarded = IS_GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(step));
    IS_GUARDED.set(was_guarded);
    match done {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(ParquetError::External(error))) => Err(io::Error::other(error)),
        Ok(Err(error)) => Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
        Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the file is damaged")),
    }
}

/// A file that several threads read: its own offset is not used.
struct PositionedFile {
    file: Arc<File>,
    len: u64,
}

impl Length for PositionedFile {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for PositionedFile {
    type T = BufReader<FilePosition>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::new(FilePosition { file: Arc::clone(&self.file), at: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // A damaged file can claim any length.
        let is_within = start.checked_add(length as u64).is_some_and(|end| end <= self.len);
        if !is_within {
            return Err(ParquetError::EOF(format!("it ends before byte {start} + {length}")));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

/// A position in a shared file.
struct FilePosition {
    file: Arc<File>,
    at: u64,
}

impl Read for FilePosition {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
