//! JSON Lines: one object per line, the summary last.
//!
//! Exact bytes are always present, in base64 and hex; `path` is present only if it is UTF-8, because JSON text cannot
//! represent other bytes. Everything that could act on a terminal is escaped, so that the output can be displayed.

pub mod lines;

use std::io::{self, Write};

use namegate_files::json;
use namegate_findings::fingerprint::CheckBasis;
use serde::Serialize;

use self::lines::{CollisionLine, FaultLine, RecordLine, SummaryLine};
use super::{DirectoryFindings, RenderedFindings, Renderer, Report, Summary};

/// Writes findings as JSON Lines.
pub struct Json<W> {
    out: W,
}

impl<W: Write + Send> Json<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    fn line(&mut self, object: &impl Serialize) -> io::Result<()> {
        json::write_line(&mut self.out, object)
    }
}

fn render(findings: &DirectoryFindings) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for group in &findings.groups {
        json::write_line(&mut lines, &CollisionLine::from(&**group))?;
    }
    for record in &findings.records {
        json::write_line(&mut lines, &RecordLine::from(record))?;
    }
    Ok(lines)
}

impl<W: Write + Send> Report for Json<W> {
    fn renderer(&self) -> Renderer {
        Box::new(|findings| RenderedFindings::Bytes(render(findings).expect("memory takes every write")))
    }

    fn write(&mut self, _findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        self.out.write_all(rendered.bytes())
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.line(&FaultLine::new(path, message))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        self.line(&SummaryLine::new(basis, summary))?;
        self.out.flush()
    }
}
