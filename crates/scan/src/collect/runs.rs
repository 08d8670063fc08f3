//! What the summaries of the runs say: whether their findings can be put together, and whether all are there.

use std::collections::BTreeSet;
use std::io;

use namegate_core::policy::profile::{self, Profile, ProfileSet};
use namegate_core::policy::rule::Severity;
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::unmarked::UnmarkedNames;

use crate::report::Summary;
use crate::report::json::lines::{SummaryLine, TargetLine};
use crate::report::readiness::Readiness;
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
    /// The profiles that object in such tables.
    objecting: BTreeSet<String>,
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

impl Runs {
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
        let stale = line.baseline_stale;
        if let Some(accepted) = line.baseline_accepted {
            let sum = counts.baseline.get_or_insert(Accepted { accepted: 0, stale: Some(0) });
            let stale = sum.stale.zip(stale).map(|(sum, stale)| sum + stale);
            *sum = Accepted { accepted: sum.accepted + accepted, stale };
        }
        for line in &line.unmarked {
            let (file, reading, are_stored) = line.reading().map_err(|error| invalid(error.to_string()))?;
            match counts
                .unmarked
                .iter_mut()
                .find(|names| names.file == file && names.are_stored == are_stored)
            {
                Some(names) => names.readings.push(reading),
                None => {
                    let (file, readings) = (file.to_vec(), vec![reading]);
                    counts.unmarked.push(UnmarkedNames { file, readings, are_stored });
                }
            }
        }
        let targets = line.targets.iter().map(TargetLine::read).collect::<Result<Vec<_>, _>>();
        let targets = targets.map_err(|error| invalid(error.to_string()))?;
        if counts.targets.is_empty() {
            counts.targets = targets;
        } else {
            for part in targets {
                let of_target = counts.targets.iter_mut().find(|sum| sum.target.name == part.target.name);
                of_target.into_iter().for_each(|sum| sum.add(part.clone()));
            }
        }
        counts.lost_or_changed += line.lost_or_changed;
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

    /// Notes profiles that object in such a table.
    #[cfg(feature = "parquet")]
    pub(super) fn add_objecting(&mut self, profiles: &[String]) {
        for profile in
            profiles.iter().filter(|profile| !self.objecting.contains(*profile)).collect::<Vec<_>>()
        {
            self.objecting.insert(profile.clone());
        }
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
        let Some(first) = &self.first else { return self.summary_of_table() };
        let mut summary = self.counts.clone();
        summary.targets = Summary::for_targets(&first.targets).targets;
        summary.lost_or_changed = 0;
        Ok((first.basis.clone(), summary))
    }

    /// What a table of findings alone says: which profiles object, and nothing of names without findings.
    fn summary_of_table(&self) -> io::Result<(CheckBasis, Summary)> {
        if self.table.is_none() || !self.cut.is_empty() {
            let file = self.cut.first().map_or("the input", String::as_str);
            return Err(invalid(format!("{file} has no summary: the run that wrote it was killed")));
        }
        let profiles = ProfileSet::from_names(self.objecting.iter().map(String::as_str));
        let profiles = profiles.map_err(|error| invalid(error.to_string()))?;
        let targets: Vec<_> = profiles.names().filter_map(|name| profile::by_name(name).ok()).collect();
        let unknown = || "unknown".to_owned();
        let basis = CheckBasis {
            namegate: unknown(),
            unicode: unknown(),
            policy: unknown(),
            min_severity: Severity::Warn,
            profiles,
        };
        Ok((basis, Summary::for_targets(&targets)))
    }

    /// What the targets do with the names by the summaries, if a scan had a baseline: it accepts violations that are not among the
    /// findings. Also the names that do not arrive unchanged at one or more of them.
    pub(super) fn targets_with_accepted(&self) -> Option<(Vec<Readiness>, u64)> {
        self.counts.baseline.map(|_| (self.counts.targets.clone(), self.counts.lost_or_changed))
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
                format!(
                    "{file} has no summary: its names are not counted, and others may be missing. The summaries of Spark are in \
                     OUTPUT/summaries: name OUTPUT; Python has it in `findings.summary()`: write it to a second file, and name \
                     both"
                ),
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
