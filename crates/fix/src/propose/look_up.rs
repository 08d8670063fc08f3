//! Makes the lines of one directory: looks up the entries that get new names.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use namegate_scan::progress::Observer;
use namegate_scan::source::Fault;
use nix::errno::Errno;

use super::directory::DirectoryProposals;
use super::draft::{LineRecord, rename_record, skipped_record, tag, too_long};
use super::parts::in_parts;
use super::proposal::{NameProposal, Proposal, Unplanned};
use super::root_set::{OpenedDirectory, RootSet};
use crate::plan::{PlanDirectory, Rename, SeenEntry, Skipped, path_in};

/// The longest path of a directory, in bytes: a longer path does not fit into a line of a plan.
const MAX_PATH_BYTES: usize = 128 << 10;

/// Takes lines of one directory, from any thread.
pub(super) type LineSink<'s> = dyn Fn(&[LineRecord]) -> io::Result<()> + Sync + 's;

/// Makes the lines of one directory.
pub(super) struct LineMaker<'r> {
    opened: OpenedDirectory,
    directory: Arc<PlanDirectory>,
    observer: &'r dyn Observer,
}

impl<'r> LineMaker<'r> {
    /// Opens the directory `dir`; `None` if that fails, which is reported unless the directory is gone.
    pub(super) fn open(root_set: &RootSet, dir: &[u8], observer: &'r dyn Observer) -> Option<Self> {
        let report = |attempt, error| {
            let path = PathBuf::from(OsStr::from_bytes(dir));
            observer.problem(&Fault { path, attempt, error });
        };
        if dir.len() > MAX_PATH_BYTES {
            report("plan renames in", io::Error::other("the path is too long for a plan"));
            return None;
        }
        match root_set.open_directory(dir) {
            Ok(opened) => {
                let directory = Arc::new(opened.describe(dir));
                Some(Self { opened, directory, observer })
            }
            // It was removed or replaced.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => None,
            Err(error) => {
                report("open the directory", error.into());
                None
            }
        }
    }

    /// Gives the lines of `proposals` to `take`, made in at most `jobs` threads. `has_long`: with the names whose paths are too long.
    pub(super) fn make_lines(
        &self,
        proposals: &DirectoryProposals<'_>,
        has_long: bool,
        jobs: usize,
        take: &LineSink<'_>,
    ) -> io::Result<()> {
        let mut lines = LineBuffer::new(take);
        for name in proposals.long().filter(|_| has_long) {
            lines.add(self.long_line(name))?;
        }
        lines.finish()?;
        let look_up = |part: Range<usize>| {
            let mut lines = LineBuffer::new(take);
            for name in proposals.names(part) {
                if let Some(line) = self.line_of(name) {
                    lines.add(line)?;
                }
            }
            lines.finish()
        };
        in_parts(proposals.len(), jobs, &look_up).into_iter().collect()
    }

    /// Whether the plan is no longer wanted.
    pub(super) fn is_stopped(&self) -> bool {
        self.observer.is_stopped()
    }

    /// The line of a name whose path is too long without any rename.
    pub(super) fn long_line(&self, name: &[u8]) -> LineRecord {
        skipped_record(tag::LONG, &too_long(&self.directory, name.to_vec()))
    }

    /// The line of a name in the plan; `None` if the entry is gone or cannot be looked up.
    pub(super) fn line_of(&self, name: NameProposal) -> Option<LineRecord> {
        let Self { opened, directory, observer } = self;
        let proposal = match name {
            NameProposal::Skip(unplanned) => {
                return Some(skipped_record(tag::SKIPPED, &unplanned.into_skipped(directory)));
            }
            NameProposal::Rename(proposal) => proposal,
        };
        let skip = |proposal: Proposal, why| {
            let unplanned = Unplanned { name: proposal.old, reasons: proposal.reasons, why };
            Some(skipped_record(tag::SKIPPED, &unplanned.into_skipped(directory)))
        };
        match opened.look_up(&proposal.old) {
            Ok(Some(entry)) if proposal.new.contains('/') => {
                match opened.obstacle(&proposal.old, &entry, &proposal.new) {
                    Some(why) => skip(proposal, why),
                    None => Some(rename_record(&proposal.into_rename(directory, entry))),
                }
            }
            Ok(Some(entry)) => Some(rename_record(&proposal.into_rename(directory, entry))),
            Ok(None) => skip(proposal, "a file system is mounted on it; unmount it first".to_owned()),
            Err(Errno::ENOENT) => None,
            Err(error) => {
                let path = PathBuf::from(OsStr::from_bytes(&path_in(&directory.path, &proposal.old)));
                let attempt = "read the metadata of";
                observer.problem(&Fault { path, attempt, error: error.into() });
                None
            }
        }
    }
}

/// Collects lines of one directory.
pub(super) struct LineBuffer<'t> {
    lines: Vec<LineRecord>,
    take: &'t LineSink<'t>,
}

impl<'t> LineBuffer<'t> {
    /// So many lines are written together.
    const TOGETHER: usize = 256;

    pub(super) fn new(take: &'t LineSink<'t>) -> Self {
        Self { lines: Vec::new(), take }
    }

    pub(super) fn add(&mut self, line: LineRecord) -> io::Result<()> {
        self.lines.push(line);
        if self.lines.len() < Self::TOGETHER { Ok(()) } else { self.finish() }
    }

    pub(super) fn finish(&mut self) -> io::Result<()> {
        (self.take)(&self.lines)?;
        self.lines.clear();
        Ok(())
    }
}

impl Proposal {
    fn into_rename(self, directory: &Arc<PlanDirectory>, entry: SeenEntry) -> Rename {
        let Self { old, new, reasons, confidence, reading, evidence, alternatives } = self;
        let directory = Arc::clone(directory);
        Rename { id: 0, directory, old, new, entry, reasons, confidence, reading, evidence, alternatives }
    }
}

impl Unplanned {
    fn into_skipped(self, directory: &Arc<PlanDirectory>) -> Skipped {
        let Self { name, reasons, why } = self;
        Skipped { directory: Arc::clone(directory), name, reasons, why }
    }
}
