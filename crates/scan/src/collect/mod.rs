//! Findings of earlier runs, put together for a report: from JSON Lines and Parquet files, of one scan or of the tasks of an
//! engine.
//!
//! Findings are grouped by directory before they are reported, because the files can have them in any order and a row of a table
//! is only one violation. So the same findings give the same report, however they were distributed. What does not fit into memory
//! is kept in temporary files.

pub(crate) mod collected_directory;
mod collection;
mod files;
mod json_lines;
pub(crate) mod record;
mod runs;
#[cfg(feature = "parquet")]
mod table;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::Path;

use namegate_core::name::display::{harmless, shown};
use namegate_core::policy::rule::RuleId;
use namegate_files::signature::{self, TextKind};
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::group::GroupedPart;

use self::collected_directory::{CollectedDirectory, GroupsById};
pub use self::collection::FindingsCollection;
pub use self::files::findings_files;
use self::json_lines::CollectedLine;
use crate::report::json::lines::FaultLine;
use crate::report::{DirectoryFindings, Report, Summary};

impl FindingsCollection {
    /// Adds a file of findings or of summaries; `-` is standard input.
    ///
    /// # Errors
    /// The file cannot be read, is damaged or is no file of findings, or its findings were made in another way than those before.
    /// The message names the file.
    pub fn add(&mut self, file: &Path) -> io::Result<()> {
        let name = if file == Path::new("-") { "standard input".to_owned() } else { shown(file) };
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("cannot read {name}: {error}"));
        let stream: Box<dyn BufRead> = match file == Path::new("-") {
            true => Box::new(io::stdin().lock()),
            false => Box::new(BufReader::with_capacity(BUFFER, File::open(file).map_err(failed)?)),
        };
        let mut stream = signature::skip(stream, TextKind::Syntax, &name).map_err(failed)?;
        let begin = stream.fill_buf().map_err(failed)?;
        if begin.is_empty() {
            return Err(failed(io::Error::other("it is empty: the run that should have written it failed")));
        }
        match begin.starts_with(b"PAR1") {
            true => self.add_table(file, &name),
            false => json_lines::read(&mut stream, &name, self),
        }
        .map_err(failed)
    }

    #[cfg(feature = "parquet")]
    fn add_table(&mut self, file: &Path, name: &str) -> io::Result<()> {
        table::read(file, name, self)
    }

    #[cfg(not(feature = "parquet"))]
    fn add_table(&mut self, _file: &Path, _name: &str) -> io::Result<()> {
        Err(io::Error::other(
            "it is a Parquet file, and this program was built without the feature `parquet`",
        ))
    }

    /// Ends the collection.
    ///
    /// # Errors
    /// There is no summary.
    pub fn finish(self) -> io::Result<CollectedFindings> {
        let (basis, summary) = self.runs.summary()?;
        Ok(CollectedFindings { collection: self, basis, summary })
    }
}

/// Findings that were put together.
pub struct CollectedFindings {
    collection: FindingsCollection,
    basis: CheckBasis,
    summary: Summary,
}

impl CollectedFindings {
    /// Reports whether findings name owners.
    pub fn has_owners(&self) -> bool {
        self.collection.has_owners
    }

    /// Reports everything, and returns the summary.
    ///
    /// # Errors
    /// A temporary file cannot be read, or the report cannot be written.
    pub fn report(self, report: &mut dyn Report) -> io::Result<Summary> {
        let Self { collection, basis, mut summary } = self;
        let FindingsCollection { lines, faults, runs, .. } = collection;
        if let Some(faults) = faults {
            report_faults(faults.into_inner().map_err(io::IntoInnerError::into_error)?, report)?;
        }
        let render = report.renderer();
        for part in lines.into_parts()? {
            let part = part.load()?;
            for at in 0..part.len() {
                let findings = findings_of(&part, at)?;
                count(&mut summary, &findings);
                report.write(&findings, &render(&findings))?;
            }
        }
        for (path, message) in runs.missing(summary.findings()) {
            summary.unreadable += 1;
            report.fault(path.as_bytes(), &message)?;
        }
        // Violations that a baseline accepts are not among the findings.
        if let Some((targets, lost_or_changed)) = runs.targets_with_accepted() {
            (summary.targets, summary.lost_or_changed) = (targets, lost_or_changed);
        }
        report.finish(&basis, &summary)?;
        Ok(summary)
    }
}

/// Bytes of a file that are read at a time.
const BUFFER: usize = 1 << 18;

fn report_faults(mut faults: File, report: &mut dyn Report) -> io::Result<()> {
    faults.rewind()?;
    for line in BufReader::new(faults).split(b'\n') {
        let line = line?;
        let fault: FaultLine<'_> = serde_json::from_slice(&line)?;
        report.fault(&fault.path_base64.0, &harmless(&fault.message))?;
    }
    Ok(())
}

fn findings_of(part: &GroupedPart, at: usize) -> io::Result<DirectoryFindings> {
    let lines = part.directory(at);
    let mut lines: Vec<(u64, &[u8])> =
        lines.numbers.iter().copied().zip(lines.names.iter().map(|(_, line)| line)).collect();
    lines.sort_unstable_by_key(|&(number, _)| number);
    let mut directory = CollectedDirectory::default();
    for (_, line) in lines {
        match json_lines::parse(line)? {
            CollectedLine::Record(record) => directory.records.push(*record),
            CollectedLine::Group(group) => directory.groups.push(group),
            CollectedLine::Fault(_) | CollectedLine::Summary(_) => {}
        }
    }
    let place = directory.records.iter().find_map(|of| of.record.place.clone());
    Ok(directory.into_findings(place, &GroupsById::new()))
}

/// Counts as a scan does: a name that has several records, as in the history of a repository, counts once.
fn count(summary: &mut Summary, findings: &DirectoryFindings) {
    let mut last: Option<(&[u8], Vec<RuleId>)> = None;
    for record in &findings.records {
        match &mut last {
            Some((name, known)) if *name == record.name && record.place.is_some() => {
                summary.count_rules(record, known);
            }
            last => {
                summary.count(record);
                *last = Some((&record.name, Vec::new()));
            }
        }
        if let Some((_, known)) = &mut last {
            known.extend(record.objections.iter().map(|objection| objection.violation.rule));
        }
    }
    summary.collisions += findings.groups.len() as u64;
}
