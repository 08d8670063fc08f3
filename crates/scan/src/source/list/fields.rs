//! Reads names from one column of a CSV file, or from one field of JSON Lines.

use std::fmt;
use std::io::{self, BufRead, Read};
use std::str::FromStr;

use namegate_files::json;
use namegate_findings::split::{MAX_NAME, TOO_DEEP};
use serde_json::Value;

use super::bounded::BoundedReader;
use super::{ListItem, NameReader};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListFormat {
    /// Items with a separator.
    #[default]
    Plain,
    /// CSV (RFC 4180).
    Csv(Column),
    /// The `manifest.json` of an S3 Inventory, and the files that it names.
    S3Manifest,
    /// The column with this name of a Parquet file.
    #[cfg(feature = "parquet")]
    Parquet(String),
    /// One JSON object per line; the field with this name, or at this JSON pointer (RFC 6901) if it begins with `/`.
    JsonLines(String),
}

/// A column of a CSV file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The column with this number, from 1; there is no header.
    Number(usize),
    /// The column with this header in the first record.
    Header(String),
}

impl FromStr for ListFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "plain" => Ok(Self::Plain),
            Some(("csv", column)) if !column.is_empty() => Ok(Self::Csv(match column.parse() {
                Ok(0) => return Err("columns are counted from 1".into()),
                Ok(number) => Column::Number(number),
                Err(_) => Column::Header(column.into()),
            })),
            None if text == "s3-manifest" => Ok(Self::S3Manifest),
            #[cfg(feature = "parquet")]
            Some(("parquet", column)) if !column.is_empty() => Ok(Self::Parquet(column.into())),
            Some(("jsonl", field)) if !field.is_empty() => Ok(Self::JsonLines(field.into())),
            _ => Err("expected plain, csv:COLUMN, jsonl:FIELD, parquet:COLUMN or s3-manifest".into()),
        }
    }
}

/// The bytes of one field, or why there are none.
pub type Field = Result<Vec<u8>, Missing>;

/// Why a record has no name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It is longer than [`MAX_NAME`].
    TooLong,
    /// It is a path of too many components.
    TooDeep,
    /// It is not a JSON object.
    NotJson,
    /// It has no such column or field.
    NoField,
    NotText,
    /// The text is not encoded as it should be.
    NotEncoded,
    Null,
    /// It is not the kind of an entry, as pairs have it.
    NotAKind,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => {
                write!(f, "it has more than {MAX_NAME} bytes; is the separator the right one (`-0` for NUL)?")
            }
            Self::TooDeep => write!(f, "it has {TOO_DEEP}"),
            Self::NotJson => f.write_str("it is not JSON"),
            Self::NoField => f.write_str("it has no such field"),
            Self::NotText => f.write_str("the field is not text"),
            Self::NotEncoded => f.write_str("it is not encoded as `--decode` says"),
            Self::Null => f.write_str("it is null"),
            Self::NotAKind => f.write_str("a pair is a directory, a name, and `d`, `f` or nothing"),
        }
    }
}

/// Hands each item of `stream` to `visit`, until `visit` breaks.
///
/// # Errors
/// The stream cannot be read, or is not valid CSV.
pub fn read<R: BufRead>(
    format: &ListFormat,
    stream: R,
    separator: u8,
    visit: &mut dyn FnMut(Field) -> io::Result<()>,
) -> io::Result<()> {
    let field = match format {
        ListFormat::Csv(column) => return read_csv(column, stream, visit),
        ListFormat::JsonLines(field) => Some(field),
        // The others are no streams of fields.
        _ => None,
    };
    for item in NameReader::new(stream, separator) {
        visit(match (item?, field) {
            (ListItem::TooLong(_), _) => Err(Missing::TooLong),
            (ListItem::Name(name), None) => Ok(name),
            (ListItem::Name(line), Some(field)) => json_field(&line, field),
        })?;
    }
    Ok(())
}

fn json_field(line: &[u8], field: &str) -> Field {
    let Ok(object) = serde_json::from_slice::<Value>(line) else { return unusual_field(line, field) };
    let value = if field.starts_with('/') { object.pointer(field) } else { object.get(field) };
    match value {
        None => Err(Missing::NoField),
        Some(Value::String(text)) => Ok(text.clone().into_bytes()),
        Some(_) => Err(Missing::NotText),
    }
}

/// The field of an object that is JSON, but not of UTF-8: a name that some program wrote as it was.
fn unusual_field(line: &[u8], field: &str) -> Field {
    let step = |step: &str| step.replace("~1", "/").replace("~0", "~");
    let steps: Vec<String> = match field.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(step).collect(),
        None => vec![field.to_owned()],
    };
    match json::text_at(line, &steps) {
        Ok(text) => text.ok_or(Missing::NoField),
        Err(error) if error.is_data() => Err(Missing::NotText),
        Err(_) => Err(Missing::NotJson),
    }
}

/// Maximum size of a CSV record in bytes. An unclosed quote makes one record of the rest of the file.
const MAX_RECORD: u64 = 1 << 20;

fn read_csv<R: Read>(
    column: &Column,
    stream: R,
    visit: &mut dyn FnMut(Field) -> io::Result<()>,
) -> io::Result<()> {
    let (stream, left) = BoundedReader::new(stream, || {
        io::Error::other(format!("a record has more than {MAX_RECORD} bytes; is a quote not closed?"))
    });
    left.set(MAX_RECORD);
    let has_headers = matches!(column, Column::Header(_));
    let mut records = csv::ReaderBuilder::new().has_headers(has_headers).flexible(true).from_reader(stream);
    let at = match column {
        Column::Number(number) => number - 1,
        Column::Header(header) => {
            let headers = records.byte_headers()?;
            let mut columns = headers.iter().zip(0..).filter(|(text, _)| *text == header.as_bytes());
            match (columns.next(), columns.next()) {
                (Some((_, at)), None) => at,
                (None, _) => {
                    return Err(io::Error::other(format!("the first record has no column `{header}`")));
                }
                (Some((_, at)), Some(_)) => {
                    // Programs differ in which one they read.
                    let at = at + 1;
                    let text = format!(
                        "the first record has more than one column `{header}`; use a number, as in csv:{at}"
                    );
                    return Err(io::Error::other(text));
                }
            }
        }
    };
    let mut record = csv::ByteRecord::new();
    loop {
        left.set(MAX_RECORD);
        if !records.read_byte_record(&mut record)? {
            return Ok(());
        }
        visit(record.get(at).map(<[u8]>::to_vec).ok_or(Missing::NoField))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(format: &str, text: &[u8]) -> (Vec<Field>, Option<String>) {
        let mut found = Vec::new();
        let end = read(&format.parse().unwrap(), text, b'\n', &mut |item| {
            found.push(item);
            Ok(())
        });
        (found, end.err().map(|error| error.to_string()))
    }

    fn text(text: &str) -> Field {
        Ok(text.as_bytes().to_vec())
    }

    #[test]
    fn a_column_is_found_by_its_number_or_its_header() {
        let csv = b"bucket,key\r\nb,\"a,\"\"b\"\"\nc\"\r\nb\r\n";
        let rows = vec![text("a,\"b\"\nc"), Err(Missing::NoField)];
        assert_eq!(items("csv:key", csv), (rows.clone(), None));
        assert_eq!(items("csv:2", csv), ([vec![text("key")], rows].concat(), None));
        assert!(items("csv:nothing", csv).1.unwrap().contains("no column `nothing`"));
        assert!(items("csv:key", b"b,key,key\nb,c,d\n").1.unwrap().contains("as in csv:2"));
        let raw = items("csv:1", b"\xFF\0\n").0;
        assert_eq!(raw, [Ok(b"\xFF\0".to_vec())]);
    }

    #[test]
    fn a_quote_that_is_never_closed_ends_the_list_and_does_not_fill_the_memory() {
        let csv = [b"good\n\"".to_vec(), b"x\n".repeat(2 * MAX_RECORD as usize)].concat();
        let (found, error) = items("csv:1", &csv);
        assert_eq!(found, [text("good")]);
        assert!(error.unwrap().contains("is a quote not closed?"));
    }

    #[test]
    fn a_field_of_json_lines_is_found_by_its_name_or_its_pointer() {
        let lines = b"{\"k\":\"a\\u00e9\"}\nnonsense\n{}\n{\"k\":1}\n{\"k\":\"a/b\"}";
        let found =
            [text("aé"), Err(Missing::NotJson), Err(Missing::NoField), Err(Missing::NotText), text("a/b")];
        assert_eq!(items("jsonl:k", lines).0, found);
        assert_eq!(items("jsonl:/k", lines).0, found);
        assert_eq!(items("jsonl:/a/0", b"{\"a\":[\"x\"]}").0, [text("x")]);
    }

    #[test]
    fn formats_are_read_from_the_command_line() {
        for bad in ["csv", "csv:", "csv:0", "jsonl:", "xml:a", ""] {
            assert!(bad.parse::<ListFormat>().is_err(), "{bad}");
        }
        assert_eq!("csv:key:2".parse(), Ok(ListFormat::Csv(Column::Header("key:2".into()))));
    }
}
