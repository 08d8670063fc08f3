//! The lines of findings, by directory.

use std::fs::File;
use std::io::{self, BufWriter};

use namegate_core::policy::EntryKind;
use namegate_files::json;
use namegate_findings::group::{Groups, LIMIT};
use namegate_findings::split::Shape;
use namegate_findings::temporary;

use super::runs::Runs;
use crate::report::json::lines::FaultLine;

/// Findings that are put together.
pub struct FindingsCollection {
    /// The lines of each directory.
    pub(super) lines: Groups,
    /// Number of lines.
    pub(super) count: u64,
    pub(super) faults: Option<BufWriter<File>>,
    pub(super) runs: Runs,
    pub(super) has_owners: bool,
}

impl Default for FindingsCollection {
    fn default() -> Self {
        Self {
            lines: Groups::new(Shape::Key, LIMIT),
            count: 0,
            faults: None,
            runs: Runs::default(),
            has_owners: false,
        }
    }
}

impl FindingsCollection {
    /// Adds a line of JSON to those of a directory.
    pub(super) fn add_line(&mut self, directory: &[u8], line: &[u8]) -> io::Result<()> {
        self.count += 1;
        self.lines.add_pair(directory, line, EntryKind::Unknown, self.count)
    }

    pub(super) fn add_fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        let faults = match &mut self.faults {
            Some(faults) => faults,
            none => none.insert(BufWriter::new(temporary::file()?)),
        };
        json::write_line(faults, &FaultLine::new(path, message))
    }
}
