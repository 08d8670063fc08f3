//! What the summaries of the runs say: whether their findings can be put together, and whether all are there.

use std::io;

use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::unmarked::UnmarkedNames;

use crate::policy::profile::{self, Profile};
use crate::report::Summary;
use crate::report::json::lines::SummaryLine;
use crate::report::summary::Accepted;

/// What was checked with what, of the first summary.
struct FirstRun {
    file: String,
    basis: CheckBasis,
    targets: Vec<&'static Profile>,
}

/// The summaries of all runs.
#[derive(Default)]
pub(super) struct Runs {
    first: Option<FirstRun>,
    /// The counts that cannot be made from findings.
    counts: Summary,
    /// Names with a violation, by the summaries.
    findings: u64,
    has_tasks: bool,
    /// Files of scans without a summary at their end.
    cut: Vec<String>,
    /// A table of findings whose metadata have no summary.
    table: Option<String>,
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

impl Runs {
    /// Adds the summary of a scan.
    pub(super) fn add_scan(&mut self, line: &SummaryLine<'_>, file: &str) -> io::Result<()> {
        let basis = line.basis().map_err(|error| invalid(error.to_string()))?;
        let targets = line.targets.iter().map(|of| profile::by_name(&of.target)).collect::<Result<_, _>>();
        self.compare(file, basis, targets.map_err(|error| invalid(error.to_string()))?)?;
        self.findings += line.findings;
        let counts = &mut self.counts;
        counts.directories += line.directories;
        counts.names += line.names;
        counts.unreadable += line.unreadable;
        counts.vanished += line.vanished;
        counts.was_interrupted |= line.interrupted;
        if let (Some(accepted), Some(stale)) = (line.baseline_accepted, line.baseline_stale) {
            let sum = counts.baseline.get_or_insert_default();
            *sum = Accepted { accepted: sum.accepted + accepted, stale: sum.stale + stale };
        }
        for line in &line.unmarked {
            let (file, reading) = line.reading().map_err(|error| invalid(error.to_string()))?;
            match counts.unmarked.iter_mut().find(|names| names.file == file) {
                Some(names) => names.readings.push(reading),
                None => {
                    let file = file.to_vec();
                    counts.unmarked.push(UnmarkedNames { file, readings: vec![reading] });
                }
            }
        }
        Ok(())
    }

    /// Adds the summary of a task of an engine.
    #[cfg(feature = "parquet")]
    pub(super) fn add_task(&mut self, task: namegate_arrow::TaskSummary, file: &str) -> io::Result<()> {
        let targets = task.basis.profiles.names().filter_map(|name| profile::by_name(name).ok()).collect();
        self.compare(file, task.basis, targets)?;
        self.has_tasks = true;
        self.findings += task.findings;
        self.counts.directories += task.directories;
        self.counts.names += task.names;
        self.counts.unreadable += task.faults;
        Ok(())
    }

    /// Notes a file of a scan whose summary is missing.
    pub(super) fn add_cut(&mut self, file: &str) {
        self.cut.push(file.to_owned());
    }

    /// Notes a table of findings without a summary of its own: those of tasks have them in other files.
    #[cfg(feature = "parquet")]
    pub(super) fn add_table(&mut self, file: &str) {
        self.table.get_or_insert_with(|| file.to_owned());
    }

    fn compare(&mut self, file: &str, basis: CheckBasis, targets: Vec<&'static Profile>) -> io::Result<()> {
        let Some(first) = &self.first else {
            self.first = Some(FirstRun { file: file.to_owned(), basis, targets });
            return Ok(());
        };
        let names = |targets: &[&'static Profile]| {
            let mut names: Vec<_> = targets.iter().map(|target| target.name).collect();
            names.sort_unstable();
            names.join(",")
        };
        let (own, others) = (names(&first.targets), names(&targets));
        let difference = first.basis.difference(&basis);
        match difference.or((own != others).then_some(("list of targets", &*own, &*others))) {
            None => Ok(()),
            Some((what, own, others)) => Err(invalid(format!(
                "its {what} is {others}, but that of {} is {own}; only findings of the same version, policy, prefix, encoding, \
                 severity and targets can be put together",
                first.file
            ))),
        }
    }

    /// What names were checked with, and a summary in which only findings have to be counted.
    pub(super) fn summary(&self) -> io::Result<(CheckBasis, Summary)> {
        let Some(first) = &self.first else {
            let file = self.cut.first().or(self.table.as_ref()).map_or("the input", String::as_str);
            return Err(invalid(format!(
                "{file} has no summary: the run that wrote it was killed, or its summaries are in other files (those of tasks \
                 in Spark are in OUTPUT/summaries: name OUTPUT; in Python write `findings.summary()` beside it, and name the directory)"
            )));
        };
        let mut summary = self.counts.clone();
        summary.targets = Summary::for_targets(&first.targets).targets;
        Ok((first.basis.clone(), summary))
    }

    /// What is missing, if `findings` names with a violation were read: files, each with a message.
    pub(super) fn missing(&self, findings: u64) -> Vec<(&str, String)> {
        let cut = self.cut.iter().map(|file| {
            let message = format!(
                "{file} has no summary: its run was killed, and names that were not checked are missing"
            );
            (file.as_str(), message)
        });
        let table = self.table.iter().filter(|_| !self.has_tasks).map(|file| {
            (
                file.as_str(),
                format!("{file} has no summary: its names are not counted, and others may be missing"),
            )
        });
        let mut missing: Vec<(&str, String)> = cut.chain(table).collect();
        if missing.is_empty() && findings != self.findings {
            let message = format!(
                "the summaries count {} names with findings, and there are {findings}: a file is missing, cut or given twice",
                self.findings
            );
            missing.push(("-", message));
        }
        missing
    }
}
