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
use super::{CollisionGroup, DirectoryFindings, RenderedFindings, Renderer, Report, ReportedName, Summary};

/// Writes records as JSON Lines.
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

struct JsonRenderer;

impl Renderer for JsonRenderer {
    fn render(&self, findings: &DirectoryFindings) -> RenderedFindings {
        let mut lines = Vec::new();
        write_findings(&mut lines, findings).expect("memory takes every write");
        RenderedFindings::Bytes(lines)
    }
}

fn write_findings(out: &mut impl Write, findings: &DirectoryFindings) -> io::Result<()> {
    findings.groups.iter().try_for_each(|group| json::write_line(out, &CollisionLine::from(&**group)))?;
    findings.records.iter().try_for_each(|record| json::write_line(out, &RecordLine::from(record)))
}

impl<W: Write + Send> Report for Json<W> {
    fn renderer(&self) -> Box<dyn Renderer> {
        Box::new(JsonRenderer)
    }

    fn directory(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        match rendered {
            RenderedFindings::Bytes(lines) => self.out.write_all(lines),
            _ => write_findings(&mut self.out, findings),
        }
    }

    fn collision(&mut self, group: &CollisionGroup) -> io::Result<()> {
        self.line(&CollisionLine::from(group))
    }

    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        self.line(&RecordLine::from(record))
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.line(&FaultLine::new(path, message))
    }

    fn pause(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        self.line(&SummaryLine::new(basis, summary))?;
        self.out.flush()
    }
}
