//! A plan as CSV (RFC 4180), for people who edit tables.
//!
//! The last column has the line of the plan as JSON: the exact bytes, and everything else that no one needs to read. The other
//! columns show it. `new` and `confidence` can be edited there; a change of any other cell is an error, because it would have no
//! effect, or because a program has changed cells that nobody edited.
//!
//! Spreadsheets read some cells as formulas, numbers and dates. Such a name, and no other, has an apostrophe in front.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::{self, BufRead, Write};
use std::rc::Rc;

use csv::{ByteRecord, ReaderBuilder, Terminator, WriterBuilder};
use namegate_core::name::display::display;
use namegate_core::policy::Confidence;
use namegate_files::json::{Base64, to_line};
use namegate_files::spreadsheet::{self, BYTE_ORDER_MARK};
use namegate_scan::source::list::bounded::BoundedReader;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::plan::MAX_HEADER_BYTES;
use super::propose::char_table::code_point;

/// The columns, in the order in which they are written.
const COLUMNS: [&str; 9] =
    ["type", "directory", "old", "new", "confidence", "reasons", "reading", "note", RECORD];
const OLD: usize = 2;
const NEW: usize = 3;
const CONFIDENCE: usize = 4;
/// The column with the line of the plan.
const RECORD: &str = "record";
const RECORD_AT: usize = COLUMNS.len() - 1;

/// The longest row, in bytes: quotes are doubled, and most of a line appears twice.
const MAX_ROW_BYTES: u64 = 4 * MAX_HEADER_BYTES as u64;

/// The parts of a line that the columns show.
#[derive(Deserialize)]
struct ShownLine<'l> {
    #[serde(borrow)]
    r#type: Cow<'l, str>,
    #[serde(default)]
    directory_base64: Base64,
    old: Option<Cow<'l, str>>,
    name: Option<Cow<'l, str>>,
    new: Option<Cow<'l, str>>,
    new_target: Option<Cow<'l, str>>,
    confidence: Option<Cow<'l, str>>,
    #[serde(default)]
    reasons: Vec<Cow<'l, str>>,
    reading: Option<Cow<'l, str>>,
    evidence: Option<Cow<'l, str>>,
    old_target: Option<Cow<'l, str>>,
    why: Option<Cow<'l, str>>,
}

/// The cells of a line, in the order of [`COLUMNS`].
fn cells(line: &str) -> Result<[Cow<'_, str>; COLUMNS.len()], serde_json::Error> {
    let shown: ShownLine<'_> = serde_json::from_str(line)?;
    let new = shown.new.map(|new| display(new.as_bytes()).to_string().into());
    Ok([
        shown.r#type,
        display(&shown.directory_base64).to_string().into(),
        shown.old.or(shown.name).unwrap_or_default(),
        new.or(shown.new_target).unwrap_or_default(),
        shown.confidence.unwrap_or_default(),
        shown.reasons.join(" ").into(),
        shown.reading.unwrap_or_default(),
        shown.evidence.or(shown.why).or(shown.old_target).unwrap_or_default(),
        line.into(),
    ])
}

/// The cell of a name in a form that no spreadsheet runs or changes.
fn inert(cell: &str) -> Cow<'_, str> {
    // Reading takes one apostrophe away.
    match cell.starts_with('\'') || spreadsheet::is_converted(cell) {
        true => format!("'{cell}").into(),
        false => spreadsheet::inert(cell),
    }
}

/// The text of a cell with or without an apostrophe in front.
fn without_apostrophe(cell: &str) -> &str {
    cell.strip_prefix('\'').unwrap_or(cell)
}

/// Reads back what [`display`] escapes.
fn unescape(text: &str) -> Result<String, String> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        name.push_str(plain);
        let (c, after) = unescape_one(escaped).ok_or_else(|| {
            let escape: String = escaped.chars().take(4).collect();
            format!("`\\{}` is no escape; a backslash is `\\\\`", display(escape.as_bytes()))
        })?;
        name.push(c);
        rest = after;
    }
    Ok(name + rest)
}

/// The character of an escape, of which `text` follows the backslash, and the rest.
fn unescape_one(text: &str) -> Option<(char, &str)> {
    let mut chars = text.chars();
    let c = match chars.next()? {
        '\\' => '\\',
        't' => '\t',
        'n' => '\n',
        'r' => '\r',
        'u' => {
            let (digits, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
            return code_point(digits).map(|c| (c, rest));
        }
        _ => return None,
    };
    Some((c, chars.as_str()))
}

pub struct PlanTableWriter<W: Write>(csv::Writer<W>);

impl<W: Write> PlanTableWriter<W> {
    /// Writes the first row.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(BYTE_ORDER_MARK.as_bytes())?;
        let mut table = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(out);
        table.write_record(COLUMNS).map_err(cause)?;
        Ok(Self(table))
    }

    /// Writes a line of a plan, without its line feed.
    ///
    /// # Errors
    /// The output cannot be written, or the line is not one of a plan.
    pub fn write_line(&mut self, line: &str) -> io::Result<()> {
        let mut cells = cells(line)?;
        for at in [OLD, NEW] {
            cells[at] = inert(&cells[at]).into_owned().into();
        }
        self.0.write_record(cells.iter().map(|cell| cell.as_bytes())).map_err(cause)
    }

    /// Writes what is buffered.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The I/O error in a CSV error. The conversion in the crate csv hides a closed pipe.
fn cause(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// Reads a plan from a table. A spreadsheet may have moved columns, added others, and separated cells by `;` or a tab.
pub struct PlanTableReader<R> {
    rows: csv::Reader<BoundedReader<R>>,
    left: Rc<Cell<u64>>,
    row: ByteRecord,
    /// The place of each of [`COLUMNS`].
    places: [Option<usize>; COLUMNS.len()],
}

/// A line of the table: its number, and the line of the plan or an error.
pub type TableLine = (usize, Result<Vec<u8>, String>);

impl<R: BufRead> PlanTableReader<R> {
    /// Reports whether a file is a table: lines of JSON begin with a brace.
    pub fn is_table(input: &mut R) -> io::Result<bool> {
        let begin = input.fill_buf()?;
        Ok(begin.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|&byte| byte != b'{'))
    }

    /// Reads the first row; `None` if it is not that of a plan.
    pub fn open(mut input: R) -> io::Result<Option<Self>> {
        let begin = input.fill_buf()?;
        let first = begin.split(|&b| b == b'\n').next().unwrap_or_default();
        let has_record = |delimiter: &u8| {
            let cells = first.split(|b| b == delimiter);
            cells.map(<[u8]>::trim_ascii).any(|cell| matches!(cell, b"record" | b"\"record\""))
        };
        let Some(delimiter) = [b',', b';', b'\t'].into_iter().find(has_record) else { return Ok(None) };
        let (limited, left) = BoundedReader::new(input, || {
            io::Error::new(io::ErrorKind::InvalidData, format!("a row has more than {MAX_ROW_BYTES} bytes"))
        });
        left.set(MAX_ROW_BYTES);
        let mut builder = ReaderBuilder::new();
        let mut rows = builder.has_headers(false).flexible(true).delimiter(delimiter).from_reader(limited);
        let mut row = ByteRecord::new();
        rows.read_byte_record(&mut row).map_err(cause)?;
        let places = COLUMNS.map(|column| row.iter().position(|cell| cell.trim_ascii() == column.as_bytes()));
        Ok(places[RECORD_AT].is_some().then_some(Self { rows, left, row, places }))
    }

    /// Reads the next line of the plan, with the changes of the row.
    ///
    /// # Errors
    /// The file cannot be read, or a row is too long.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<TableLine>> {
        loop {
            self.left.set(MAX_ROW_BYTES);
            if !self.rows.read_byte_record(&mut self.row).map_err(cause)? {
                return Ok(None);
            }
            // A spreadsheet keeps rows that were emptied.
            if !self.row.iter().all(|cell| cell.trim_ascii().is_empty()) {
                let line = self.row.position().map_or(0, |position| position.line() as usize);
                return Ok(Some((line, self.read_row())));
            }
        }
    }

    /// The cell of a column; `None` if the table has no such column.
    fn cell(&self, at: usize) -> Result<Option<&str>, String> {
        let Some(place) = self.places[at] else { return Ok(None) };
        let cell = std::str::from_utf8(self.row.get(place).unwrap_or_default());
        cell.map(Some).map_err(|_| in_column(at, "is not UTF-8; save the table in UTF-8"))
    }

    fn read_row(&self) -> Result<Vec<u8>, String> {
        let record = self.cell(RECORD_AT)?.unwrap_or_default();
        let expected = cells(record).map_err(|error| in_column(RECORD_AT, &error.to_string()))?;
        let is_rename = expected[0] == "rename";
        let mut edits = Vec::new();
        for (at, expected) in expected.iter().enumerate().take(RECORD_AT) {
            let Some(cell) = self.cell(at)? else { continue };
            let is_name = matches!(at, OLD | NEW);
            if cell == expected || is_name && (cell == inert(expected)) {
                continue;
            }
            match at {
                NEW if is_rename => {
                    let name = unescape(without_apostrophe(cell)).map_err(|why| in_column(at, &why))?;
                    edits.push(("new", name));
                }
                CONFIDENCE if is_rename => {
                    let words = Confidence::ALL.map(Confidence::as_str);
                    let word = cell.trim();
                    if !words.contains(&word) {
                        return Err(in_column(at, &format!("must be one of {}", words.join(", "))));
                    }
                    edits.push(("confidence", word.to_owned()));
                }
                _ => {
                    let why = "differs from the column `record`; only `new` and `confidence` of renames can be edited";
                    return Err(in_column(at, why));
                }
            }
        }
        if edits.is_empty() {
            return Ok(record.as_bytes().to_vec());
        }
        let mut line: Map<String, Value> =
            serde_json::from_str(record).map_err(|error| in_column(RECORD_AT, &error.to_string()))?;
        line.extend(edits.into_iter().map(|(key, value)| (key.to_owned(), value.into())));
        Ok(to_line(&line).into_bytes())
    }
}

fn in_column(at: usize, why: &str) -> String {
    format!("column `{}`: {}", COLUMNS[at], display(why.as_bytes()))
}

#[cfg(test)]
#[path = "plan_table/tests.rs"]
mod tests;
