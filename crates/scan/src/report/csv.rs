//! CSV (RFC 4180) with a header: one row for each violation, and for each thing that could not be read. If not all names were
//! checked, the last row says so: its verdict is `incomplete`.
//!
//! The exact bytes are in `path_encoded`, percent-encoded, which no spreadsheet reads as a formula.

use std::io::{self, Write};

use namegate_core::name::display::display;
use namegate_files::spreadsheet::{BYTE_ORDER_MARK, inert};
use namegate_findings::fingerprint::CheckBasis;

use super::uri::encoded;
use super::{DirectoryFindings, RenderedFindings, Renderer, Report, ReportedName, Summary};

/// The columns; new ones are added at the end.
const COLUMNS: [&str; 20] = [
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
    "reading",
    "reading_confidence",
];
const PATH: usize = 0;
const PATH_ENCODED: usize = 1;
const VERDICT: usize = 3;
const SEVERITY: usize = 6;
const MESSAGE: usize = 9;

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
        self.out.write_all(BYTE_ORDER_MARK.as_bytes())?;
        self.out.write_all(&rows(|out| out.write_record(COLUMNS)))
    }

    /// Writes a row that is about no violation.
    fn row(&mut self, verdict: &str, path: [&str; 2], message: &str) -> io::Result<()> {
        self.begin()?;
        let mut cells = [""; COLUMNS.len()];
        [cells[PATH], cells[PATH_ENCODED]] = path;
        (cells[VERDICT], cells[SEVERITY], cells[MESSAGE]) = (verdict, "error", message);
        self.out.write_all(&rows(|out| out.write_record(cells.map(|cell| inert(cell).into_owned()))))
    }
}

/// Rows that `write` writes to memory.
pub(super) fn rows(write: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> csv::Result<()>) -> Vec<u8> {
    let mut rows = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    write(&mut rows).expect("memory takes every write, and all rows have the same columns");
    rows.into_inner().expect("memory takes every write")
}

/// Writes a row for each violation.
fn write_record(out: &mut csv::Writer<Vec<u8>>, record: &ReportedName) -> csv::Result<()> {
    let path = record.path();
    let (shown, name) = (display(&path).to_string(), display(&record.name).to_string());
    let repair = record.repair.as_ref();
    let fix = repair.map(|repair| display(repair.name.as_bytes()).to_string()).unwrap_or_default();
    let confidence = repair.map_or("", |repair| repair.confidence.as_str());
    let decoded = repair.and_then(|repair| repair.decoded);
    let reading = decoded.map(|decoded| decoded.explanation.to_string()).unwrap_or_default();
    let how_sure = decoded.map_or("", |decoded| decoded.confidence.as_str());
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
            &record.counted_message(objection),
            &profiles,
            &refused_by,
            objection.group.as_ref().map_or("", |group| &group.id),
            &fix,
            confidence,
            &dir,
            &location,
            record.owner.as_deref().unwrap_or_default(),
            &reading,
            how_sure,
        ];
        for cell in cells {
            out.write_field(inert(cell).as_bytes())?;
        }
        out.write_record(None::<&[u8]>)?;
    }
    Ok(())
}

impl<W: Write + Send> Report for Csv<W> {
    fn renderer(&self) -> Renderer {
        Box::new(|findings| {
            let mut records = findings.records.iter();
            RenderedFindings::Bytes(rows(|out| records.try_for_each(|record| write_record(out, record))))
        })
    }

    fn write(&mut self, _findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        self.begin()?;
        self.out.write_all(rendered.bytes())
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.row("fault", [&display(path).to_string(), &encoded(path)], message)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        self.begin()?;
        if let Some(what) = summary.incompleteness() {
            self.row("incomplete", [""; 2], &what)?;
        }
        self.out.flush()
    }
}
