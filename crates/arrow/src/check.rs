//! The second step: findings of whole directories.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use namegate_core::name::reading::Encoding;
use namegate_core::policy::Policy;
use namegate_core::policy::rule::Severity;
use namegate_findings::directory::{CheckedNames, DirectoryScan};
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::group::{GroupedPart, Groups, LIMIT, PartSource};
use namegate_findings::located_names::LocatedNames;
use namegate_findings::record::{Detail, DirectoryFindings};
use namegate_findings::split::{MAX_NAME, Shape, takes};

use crate::candidates::CandidateDirectory;
use crate::columns::Columns;
use crate::pairs::KeyFault;
use crate::rows::FindingRows;
use crate::{TaskSummary, schema};

/// What names are checked with.
#[derive(Clone, Debug)]
pub struct CheckSettings {
    /// The policy.
    pub policy: Arc<Policy>,
    /// The prefix of each path on the target, without a separator at its end. Lengths of paths count it.
    pub prefix: Vec<u8>,
    /// The encoding of names that are not UTF-8, for suggested names; guessed per directory if `None`.
    pub encoding: Option<Encoding>,
    /// Findings of a lower severity are left out.
    pub min_severity: Severity,
    /// Bytes of names that a task keeps in memory; the rest goes to temporary files.
    pub memory: usize,
}

impl CheckSettings {
    /// Settings for a policy: no prefix, guessed encodings, all findings.
    pub fn new(policy: Arc<Policy>) -> Self {
        Self { policy, prefix: Vec::new(), encoding: None, min_severity: Severity::Warn, memory: LIMIT }
    }

    pub(crate) fn scan(&self) -> DirectoryScan<'_> {
        let Self { policy, encoding, min_severity, .. } = self;
        let (encoding, min_severity) = (*encoding, *min_severity);
        DirectoryScan { encoding, min_severity, ..DirectoryScan::new(policy, Detail::Everything) }
    }

    /// The summary of a task that has counted nothing.
    pub(crate) fn summary(&self) -> TaskSummary {
        let Self { policy, prefix, encoding, min_severity, .. } = self;
        TaskSummary::new(CheckBasis::new(policy, prefix, *encoding, *min_severity))
    }
}

/// Collects the pairs of whole directories.
#[derive(Debug)]
pub struct DirectoryChecker {
    settings: CheckSettings,
    groups: Groups,
    faults: u64,
}

impl DirectoryChecker {
    /// Creates a checker for one task.
    pub fn new(settings: CheckSettings) -> Self {
        let groups = Groups::new(Shape::Key, settings.memory);
        Self { settings, groups, faults: 0 }
    }

    /// Adds pairs: the columns `parent` and `name`, and `fault` and `entry` if there are any. Returns the findings about pairs that cannot be
    /// checked.
    ///
    /// # Errors
    /// The columns are missing or of another type; the temporary files cannot be written.
    pub fn add(&mut self, pairs: &RecordBatch) -> Result<Vec<RecordBatch>, ArrowError> {
        let columns = Columns::new("pairs", pairs);
        let (parents, names) = (columns.bytes("parent")?, columns.bytes("name")?);
        let (faults, kinds) = (columns.bytes_if_any("fault")?, columns.kinds_if_any("entry")?);
        let (mut rows, mut batches) = (FindingRows::default(), Vec::new());
        for at in 0..pairs.num_rows() {
            let fault = faults.as_ref().and_then(|faults| faults.get(at));
            let message = match (fault, parents.get(at), names.get(at)) {
                (Some(word), ..) => KeyFault::message_for(&String::from_utf8_lossy(word)),
                (None, Some(parent), Some(name)) if parent.len().max(name.len()) > MAX_NAME => {
                    format!("the parent or the name has more than {MAX_NAME} bytes")
                }
                (None, Some(parent), Some(_)) if !takes(parent) => KeyFault::TooDeep.message(),
                (None, Some(parent), Some(name)) => {
                    self.groups.add_pair(parent, name, kinds.get(at), 0)?;
                    continue;
                }
                (None, None, _) => "the parent is null".to_owned(),
                (None, _, None) => "the name is null".to_owned(),
            };
            self.faults += 1;
            let shown = names.get(at).map(|name| &name[..name.len().min(MAX_NAME)]);
            rows.append_fault(shown, &message, &mut |batch| batches.push(batch));
        }
        rows.flush(&mut |batch| batches.push(batch));
        Ok(batches)
    }

    /// Checks the directories.
    ///
    /// # Errors
    /// The temporary files cannot be written.
    pub fn finish(self) -> Result<FindingsReader, ArrowError> {
        let Self { settings, groups, faults } = self;
        let summary = TaskSummary { faults, ..settings.summary() };
        Ok(FindingsReader::new(settings, groups.into_parts()?, DirectoryRows::Pairs, summary))
    }
}

/// What the names of a directory are collected as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DirectoryRows {
    /// All names.
    Pairs,
    /// Those of a cut directory that may have findings, and what they are compared with.
    Candidates,
}

/// The findings of a task, batch by batch.
#[derive(Debug)]
pub struct FindingsReader {
    settings: CheckSettings,
    parts: std::vec::IntoIter<PartSource>,
    /// A part, and the index of its next directory.
    current: Option<(GroupedPart, usize)>,
    of: DirectoryRows,
    rows: FindingRows,
    /// Batches of the last directory, the next one last.
    ready: Vec<RecordBatch>,
    summary: TaskSummary,
}

impl FindingsReader {
    pub(crate) fn new(
        settings: CheckSettings,
        parts: Vec<PartSource>,
        of: DirectoryRows,
        summary: TaskSummary,
    ) -> Self {
        let (parts, rows) = (parts.into_iter(), FindingRows::default());
        Self { settings, parts, current: None, of, rows, ready: Vec::new(), summary }
    }

    /// The summary; complete once the last batch was read.
    pub fn summary(&self) -> &TaskSummary {
        &self.summary
    }

    /// Checks the next directory; `false` if there is none.
    fn check_next(&mut self) -> Result<bool, ArrowError> {
        let (part, at) = loop {
            match &mut self.current {
                Some((part, next)) if *next < part.len() => {
                    *next += 1;
                    break (&*part, *next - 1);
                }
                current => {
                    let Some(part) = self.parts.next() else { return Ok(false) };
                    // The part before is no longer needed.
                    *current = None;
                    *current = Some((part.load()?, 0));
                }
            }
        };
        let directory = part.directory(at);
        let Self { settings, rows, ready, summary, .. } = self;
        summary.directories += 1;
        let emit = &mut |findings: DirectoryFindings| {
            summary.collisions += findings.groups.len() as u64;
            summary.findings += findings.records.len() as u64;
            findings.records.iter().for_each(|record| rows.append(record, &mut |batch| ready.push(batch)));
        };
        match self.of {
            DirectoryRows::Pairs => {
                let names = LocatedNames {
                    clashes: &directory.clashes,
                    ..LocatedNames::new(directory.names(&settings.prefix), &directory.dir)
                };
                settings.scan().check(&names, CheckedNames::All, emit);
                summary.names += directory.numbers.len() as u64;
            }
            DirectoryRows::Candidates => {
                let wanted = CandidateDirectory::new(&directory, &settings.policy).check(settings, emit);
                if !wanted.is_empty() {
                    let message = "names with the numbers that suggested names have are missing: ask for them with `wanted`";
                    return Err(ArrowError::InvalidArgumentError(message.to_owned()));
                }
            }
        }
        ready.reverse();
        Ok(true)
    }
}

impl Iterator for FindingsReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.ready.is_empty() {
            match self.check_next() {
                Ok(true) => {}
                Ok(false) => {
                    self.rows.flush(&mut |batch| self.ready.push(batch));
                    break;
                }
                Err(error) => return Some(Err(error)),
            }
        }
        self.ready.pop().map(Ok)
    }
}

impl arrow_array::RecordBatchReader for FindingsReader {
    fn schema(&self) -> SchemaRef {
        schema::findings()
    }
}
