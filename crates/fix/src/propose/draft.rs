//! A plan that can still be changed: its lines as sorted records, so that memory does not grow with their number.
//!
//! The records are made by the threads that read the directories. Only the ids of the renames are still missing then: they
//! follow from the order of all lines.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_core::policy::rule::RuleId;
use namegate_core::policy::{EntryKind, Policy};
use namegate_findings::records::{EntryRecord, RecordCursor, RecordSorter, SortedRecords};
use namegate_scan::source::scope::Exclude;
use namegate_sys::process::processors;
use nix::errno::Errno;

use super::root_set::RootSet;
use super::settings::PlanSettings;
use crate::in_order::in_order;
use crate::new_names::{NameIndex, push_new_name};
use crate::plan::is_within;
use crate::plan::{PlanDirectory, PlanLine, PlanRoot, Rename, Skipped, components, path_in};
use crate::plan_record::{LineRecord, RenameReader, damaged, read_skipped, tag};

/// So many lines are rendered together.
const LINES_TOGETHER: usize = 512;

/// More threads than this would wait for the one that writes the lines.
const MAX_THREADS: usize = 4;

/// A plan that can still be changed.
#[derive(Debug)]
pub struct PlanDraft {
    /// The roots that were read.
    pub roots: Vec<PlanRoot>,
    /// The number of names that get no new name because the targets only advise against them.
    pub left_out: u64,
    /// The number of renames in Git work trees.
    pub git_renames: u64,
    pub(super) root_set: RootSet,
    pub(super) exclude: Exclude,
    /// The lines: deepest directory first, by tag and name.
    lines: SortedRecords,
    /// The directories with symbolic links.
    pub(super) linked: SortedRecords,
    /// The renames by directory and old name. Only if links or path lengths need it.
    names: NameIndex,
}

#[derive(Clone, Debug)]
pub struct DirectoryPlan {
    pub directory: Arc<PlanDirectory>,
    /// Its renames, by old name.
    pub renames: Vec<Rename>,
    pub skipped: Vec<Skipped>,
    /// Its entries whose paths are too long without any rename.
    pub long: Vec<Skipped>,
}

/// The numbers of lines of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftCounts {
    pub renames: u64,
    pub skipped: u64,
    /// How many entries are skipped, by the reason; at most ten reasons.
    pub skip_reasons: BTreeMap<String, u64>,
}

/// A line of a plan that is made.
struct DraftLine<'l> {
    record: EntryRecord<'l>,
    tag: u8,
    /// The id of a rename; 0 for other lines.
    id: u64,
}

impl DraftLine<'_> {
    fn name(&self) -> &[u8] {
        &self.record.name[1..]
    }

    /// The line as it is written. `last` is the directory of the line before.
    fn parse(&self, last: Option<&Arc<PlanDirectory>>) -> io::Result<PlanLine> {
        Ok(match self.tag {
            tag::RENAME => {
                let rename = RenameReader::new(self.record.payload)?.rename(self.record, last)?;
                PlanLine::Rename(Rename { id: self.id, ..rename })
            }
            _ => PlanLine::Skipped(read_skipped(self.record)?),
        })
    }
}

/// Reads the lines of a plan.
struct DraftLines<'d> {
    cursor: RecordCursor<'d>,
    /// The number of renames up to the current line.
    ids: u64,
    /// The last rename, by directory and key. A directory may have been read both with the name of a root and with a tree.
    last: (Vec<u8>, Vec<u8>),
}

impl DraftLines<'_> {
    fn advance(&mut self) -> io::Result<()> {
        loop {
            self.cursor.advance()?;
            let Some(EntryRecord { dir, name: key, .. }) = self.cursor.record() else { return Ok(()) };
            if key.first() != Some(&tag::RENAME) {
                return Ok(());
            }
            let (last_dir, last_key) = &mut self.last;
            if last_dir == dir && last_key == key {
                continue;
            }
            for (last, now) in [(last_dir, dir), (last_key, key)] {
                last.clear();
                last.extend_from_slice(now);
            }
            self.ids += 1;
            return Ok(());
        }
    }

    fn line(&self) -> Option<DraftLine<'_>> {
        let record = self.cursor.record()?;
        let tag = record.name.first().copied().unwrap_or_default();
        Some(DraftLine { record, tag, id: if tag == tag::RENAME { self.ids } else { 0 } })
    }
}

impl PlanDraft {
    pub(super) fn new(
        root_set: RootSet,
        exclude: Exclude,
        lines: SortedRecords,
        linked: SortedRecords,
    ) -> Self {
        let names = NameIndex::default();
        Self { roots: root_set.roots(), left_out: 0, git_renames: 0, root_set, exclude, lines, linked, names }
    }

    fn lines(&self) -> io::Result<DraftLines<'_>> {
        let mut lines = DraftLines { cursor: self.lines.cursor()?, ids: 0, last: Default::default() };
        lines.advance()?;
        Ok(lines)
    }

    fn each(&self, take: &mut dyn FnMut(&DraftLine<'_>) -> io::Result<()>) -> io::Result<()> {
        let mut lines = self.lines()?;
        while let Some(line) = lines.line() {
            take(&line)?;
            lines.advance()?;
        }
        Ok(())
    }

    /// The plan, directory by directory.
    pub fn directories(&self) -> io::Result<DraftDirectories<'_>> {
        self.lines().map(DraftDirectories)
    }

    /// Calls `change` with the plan of each directory.
    pub fn change_directories(
        &mut self,
        change: &mut dyn FnMut(&Self, &mut DirectoryPlan) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut changed, mut directories) = (RecordSorter::default(), self.directories()?);
        while let Some(mut planned) = directories.next()? {
            change(self, &mut planned)?;
            let DirectoryPlan { directory, renames, skipped, long } = &planned;
            let records = long.iter().map(|line| LineRecord::new_skipped(tag::LONG, line));
            let records = records.chain(renames.iter().map(LineRecord::new_rename));
            let skipped = skipped.iter().map(|line| LineRecord::new_skipped(tag::SKIPPED, line));
            records.chain(skipped).try_for_each(|line| changed.push(line.in_directory(&directory.path)))?;
        }
        drop(directories);
        self.lines = changed.finish()?;
        Ok(())
    }

    /// Adds the paths that are too long after all renames to the skipped entries, and prepares the search for links. No rename
    /// changes after this.
    pub fn finish_renames(&mut self, policy: &Policy, settings: &PlanSettings) -> io::Result<()> {
        let has_links = self.linked.cursor()?.next()?.is_some();
        if !has_links && !policy.checks_paths() {
            return Ok(());
        }
        let mut names = RecordSorter::default();
        self.each(&mut |line| match line.tag {
            tag::RENAME => {
                let new = RenameReader::new(line.record.payload)?.new;
                push_new_name(&mut names, line.record.dir, line.name(), line.id, new.as_bytes())
            }
            _ => Ok(()),
        })?;
        self.names = NameIndex::new(names)?;
        if policy.checks_paths() { self.add_too_long(policy, settings) } else { Ok(()) }
    }

    fn add_too_long(&mut self, policy: &Policy, settings: &PlanSettings) -> io::Result<()> {
        let mut changed = RecordSorter::default();
        // The directory of the line before, with its new path.
        let mut new_dir = (Vec::new(), Vec::new());
        self.each(&mut |line| {
            let (EntryRecord { dir, .. }, name) = (line.record, line.name());
            let new_name = match line.tag {
                tag::LONG => Some(name),
                tag::RENAME => Some(RenameReader::new(line.record.payload)?.new.as_bytes()),
                _ => None,
            };
            if let Some((root, new_name)) = self.root_set.root_of(&path_in(dir, name)).zip(new_name) {
                if new_dir.0 != dir {
                    new_dir = (dir.to_vec(), self.new_path(dir)?);
                }
                let (new, root_len) = (path_in(&new_dir.1, new_name), self.new_path(&root.path)?.len());
                let path = settings.target_path(new.get(root_len..).unwrap_or_default());
                // What is too long for any entry: its kind is not in the draft.
                if !policy.check_path(&path, EntryKind::File).is_empty() {
                    let skipped = match line.parse(None)? {
                        PlanLine::Rename(Rename { directory, old, .. }) => too_long(&directory, old),
                        PlanLine::Skipped(skipped) => skipped,
                        _ => return Err(damaged()),
                    };
                    changed.push(LineRecord::new_skipped(tag::TOO_LONG, &skipped).in_directory(dir))?;
                }
            }
            if line.tag == tag::LONG { Ok(()) } else { changed.push(line.record) }
        })?;
        self.lines = changed.finish()?;
        Ok(())
    }

    /// Calls `write` with each line of all directories, without its line feed.
    pub fn each_line(&self, write: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        let parse_lines = |give: &mut dyn FnMut(Vec<PlanLine>) -> ControlFlow<()>| {
            let mut lines = self.lines()?;
            loop {
                let (mut parsed, mut last) = (Vec::new(), None);
                while let Some(line) = lines.line().filter(|_| parsed.len() < LINES_TOGETHER) {
                    if line.tag != tag::LONG {
                        let line = line.parse(last.as_ref())?;
                        last = line.directory().cloned();
                        parsed.push(line);
                    }
                    lines.advance()?;
                }
                if parsed.is_empty() || give(parsed).is_break() {
                    return Ok(());
                }
            }
        };
        let render = |lines: Vec<PlanLine>| lines.iter().map(PlanLine::to_line).collect::<Vec<String>>();
        in_order(processors().min(MAX_THREADS), parse_lines, render, &mut |lines| {
            lines.iter().try_for_each(|line| write(line))
        })
    }

    /// Counts the lines.
    pub fn counts(&self) -> io::Result<DraftCounts> {
        const MAX_REASONS: usize = 10;
        let mut counts = DraftCounts::default();
        self.each(&mut |line| {
            match line.tag {
                tag::RENAME => counts.renames += 1,
                tag::LONG => {}
                _ => {
                    counts.skipped += 1;
                    let (why, reasons) = (read_skipped(line.record)?.why, &mut counts.skip_reasons);
                    if reasons.len() < MAX_REASONS || reasons.contains_key(&why) {
                        *reasons.entry(why).or_default() += 1;
                    }
                }
            }
            Ok(())
        })?;
        Ok(counts)
    }

    /// Counts the renames below the directories `tops`.
    pub(super) fn count_in(&self, tops: &BTreeSet<Vec<u8>>) -> io::Result<u64> {
        let mut count = 0;
        if tops.is_empty() {
            return Ok(count);
        }
        let is_below = |dir: &[u8]| tops.iter().any(|top| is_within(dir, top));
        let mut last = (Vec::new(), false);
        self.each(&mut |line| {
            if last.0 != line.record.dir {
                last = (line.record.dir.to_vec(), is_below(line.record.dir));
            }
            count += u64::from(last.1 && line.tag == tag::RENAME);
            Ok(())
        })?;
        Ok(count)
    }

    /// The id and the new name of `name` in the directory `dir`, if it is renamed.
    pub(super) fn find_rename(&self, dir: &[u8], name: &[u8]) -> io::Result<Option<(u64, Vec<u8>)>> {
        self.names.find(dir, name)
    }

    /// `path` after all renames.
    pub(super) fn new_path(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let (mut old, mut new) = (b"/".to_vec(), b"/".to_vec());
        for name in components(path) {
            let renamed = self.find_rename(&old, name)?;
            new = path_in(&new, renamed.as_ref().map_or(name, |(_, new)| new));
            old = path_in(&old, name);
        }
        Ok(new)
    }

    /// Calls `take` with the old name of each rename.
    pub(super) fn each_old_name(&self, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.each(&mut |line| {
            if line.tag == tag::RENAME {
                take(line.name());
            }
            Ok(())
        })
    }

    /// The current names in a directory.
    ///
    /// # Errors
    /// The directory cannot be read, or was moved.
    pub fn list_names(&self, directory: &PlanDirectory) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = Vec::new();
        self.root_set
            .open_directory(&directory.path)?
            .for_each_entry(&mut |entry| names.push(entry.name.as_bytes().to_vec()))?;
        Ok(names)
    }
}

/// The skipped entry for a path that is too long.
pub(super) fn too_long(directory: &Arc<PlanDirectory>, name: Vec<u8>) -> Skipped {
    Skipped {
        directory: Arc::clone(directory),
        name,
        reasons: vec![RuleId::PathTooLong],
        why: "its path is too long for the target; shorten or move a directory above".to_owned(),
    }
}

/// Reads a plan, directory by directory. Stands at the first line of the next directory.
pub struct DraftDirectories<'d>(DraftLines<'d>);

impl DraftDirectories<'_> {
    /// The plan of the next directory.
    pub fn next(&mut self) -> io::Result<Option<DirectoryPlan>> {
        let mut planned: Option<DirectoryPlan> = None;
        while let Some(line) = self.0.line() {
            if planned.as_ref().is_some_and(|planned| planned.directory.path != line.record.dir) {
                break;
            }
            let parsed = line.parse(planned.as_ref().map(|planned| &planned.directory))?;
            let planned = planned.get_or_insert_with(|| DirectoryPlan {
                directory: parsed.directory().cloned().expect("these lines have one"),
                renames: Vec::new(),
                skipped: Vec::new(),
                long: Vec::new(),
            });
            match parsed {
                PlanLine::Rename(rename) => planned.renames.push(rename),
                PlanLine::Skipped(skipped) if line.tag == tag::LONG => planned.long.push(skipped),
                PlanLine::Skipped(skipped) => planned.skipped.push(skipped),
                PlanLine::Header(_) | PlanLine::Retarget(_) => return Err(damaged()),
            }
            self.0.advance()?;
        }
        Ok(planned)
    }
}
