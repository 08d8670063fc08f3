//! CSV (RFC 4180) with a header: one row for each violation.
//!
//! A spreadsheet runs a cell that begins with `=`, `+`, `-` or `@` as a formula, and a name can begin with these characters.
//! Such a cell gets an apostrophe in front, which spreadsheets read as "this is text". The exact bytes are in `path_encoded`,
//! percent-encoded, which never begins with one of them.

use namegate_findings::fingerprint::CheckBasis;
use std::borrow::Cow;
use std::io::{self, Write};

use super::uri::encoded;
use super::{DirectoryFindings, RenderedFindings, Renderer, Report, ReportedName, Summary};
use crate::name::display::display;

/// The columns; new ones are added at the end.
const COLUMNS: [&str; 18] = [
    "path",
    "path_encoded",
    "name",
    "verdict",
    "rule",
    "concern",
    "severity",
    "start",
    "end",
    "message",
    "profiles",
    "refused_by",
    "group",
    "repair",
    "repair_confidence",
    "directory",
    "mark",
    "owner",
];

/// Writes records as CSV.
pub struct Csv<W> {
    out: W,
    has_heading: bool,
}

impl<W: Write + Send> Csv<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, has_heading: false }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.has_heading {
            return Ok(());
        }
        self.has_heading = true;
        self.out.write_all(&rows(|out| out.write_record(COLUMNS)))
    }
}

/// Rows that `write` writes to memory.
pub(super) fn rows(write: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> csv::Result<()>) -> Vec<u8> {
    let mut rows = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    write(&mut rows).expect("memory takes every write, and all rows have the same columns");
    rows.into_inner().expect("memory takes every write")
}

/// Renders a row for each violation.
struct CsvRenderer;

impl Renderer for CsvRenderer {
    fn render(&self, findings: &DirectoryFindings) -> RenderedFindings {
        let write = |out: &mut _| findings.records.iter().try_for_each(|record| write_record(out, record));
        RenderedFindings::Bytes(rows(write))
    }
}

/// The cell in a form that no spreadsheet runs.
pub(super) fn inert(cell: &str) -> Cow<'_, str> {
    // Full-width forms too: some spreadsheets fold them first. Control characters cannot occur in displayed text.
    let runs = cell.starts_with(['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠']);
    if runs { format!("'{cell}").into() } else { cell.into() }
}

/// Writes a row for each violation.
fn write_record(out: &mut csv::Writer<Vec<u8>>, record: &ReportedName) -> csv::Result<()> {
    let path = record.path();
    let (shown, name) = (display(&path).to_string(), display(&record.name).to_string());
    let repair = record.repair.as_ref();
    let fix = repair.map(|repair| display(repair.name.as_bytes()).to_string()).unwrap_or_default();
    let confidence = repair.map_or("", |repair| repair.confidence.as_str());
    let dir = record.place.as_ref().map(|place| display(&place.heading()).to_string()).unwrap_or_default();
    let location = record.location.map(|location| location.to_string()).unwrap_or_default();
    let (path, verdict) = (encoded(&path), record.outcome().as_str());
    for objection in &record.objections {
        let violation = &objection.violation;
        let rule = violation.rule.rule();
        let [profiles, refused_by] =
            [violation.profiles, violation.refused_by].map(|set| set.names().collect::<Vec<_>>().join(" "));
        let cells: [&str; COLUMNS.len()] = [
            &shown,
            &path,
            &name,
            verdict,
            rule.name,
            rule.concern.as_str(),
            violation.severity.as_str(),
            &violation.span.start.to_string(),
            &violation.span.end.to_string(),
            &objection.message,
            &profiles,
            &refused_by,
            objection.group.as_ref().map_or("", |group| &group.id),
            &fix,
            confidence,
            &dir,
            &location,
            record.owner.as_deref().unwrap_or_default(),
        ];
        for cell in cells {
            out.write_field(inert(cell).as_bytes())?;
        }
        out.write_record(None::<&[u8]>)?;
    }
    Ok(())
}

impl<W: Write + Send> Report for Csv<W> {
    fn renderer(&self) -> Box<dyn Renderer> {
        Box::new(CsvRenderer)
    }

    fn directory(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        let RenderedFindings::Bytes(rows) = rendered else {
            return findings.records.iter().try_for_each(|record| self.record(record));
        };
        self.begin()?;
        self.out.write_all(rows)
    }

    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        self.begin()?;
        self.out.write_all(&rows(|out| write_record(out, record)))
    }

    fn fault(&mut self, _path: &[u8], _message: &str) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _basis: &CheckBasis, _summary: &Summary) -> io::Result<()> {
        self.begin()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        for cell in ["=1+1", "+1", "-1", "@SUM(A1)", "＝1"] {
            assert_eq!(inert(cell), format!("'{cell}"));
        }
        for cell in ["", "a=1", "'=1", "1"] {
            assert_eq!(inert(cell), cell);
        }
    }
}
