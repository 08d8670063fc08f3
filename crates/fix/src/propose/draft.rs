//! A plan that can still be changed: its lines as sorted records, so that memory does not grow with their number.
//!
//! The lines are written by the threads that read the directories. Only the ids of the renames are still missing then: they
//! follow from the order of all lines.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_core::policy::rule::RuleId;
use namegate_core::policy::{EntryKind, Policy};
use namegate_findings::records::{EntryRecord, IndexedRecords, RecordCursor, RecordSorter, SortedRecords};
use namegate_scan::source::scope::Exclude;
use nix::errno::Errno;

use super::root_set::RootSet;
use super::settings::PlanSettings;
use crate::plan::is_within;
use crate::plan::{PlanDirectory, PlanLine, PlanParser, PlanRoot, Rename, Skipped, components, path_in};

/// The first byte of the key of a record, which the name follows. In this order the lines of a directory are written.
pub(super) mod tag {
    /// An entry whose path is too long without any rename. Not yet part of the plan.
    pub const LONG: u8 = b'L';
    pub(crate) const RENAME: u8 = b'R';
    /// An entry without a new name.
    pub const SKIPPED: u8 = b'S';
    /// An entry whose path is too long after all renames.
    pub(crate) const TOO_LONG: u8 = b'T';
}

/// The beginning of the line of a rename that has no id yet.
const WITHOUT_ID: &str = r#"{"type":"rename","id":0"#;

/// The length of the text in front of the id.
const BEFORE_ID: usize = WITHOUT_ID.len() - 1;

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
    /// Id and new name of each rename, by directory and old name. Only if links or path lengths need it.
    names: IndexedRecords,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DraftCounts {
    pub renames: u64,
    pub skipped: u64,
}

/// A record of the lines of a plan: its key, and its payload.
pub(super) type LineRecord = (Vec<u8>, Vec<u8>);

impl DirectoryPlan {
    pub(super) fn records(&self) -> Vec<LineRecord> {
        let long = self.long.iter().map(|line| skipped_record(tag::LONG, line));
        let renames = self.renames.iter().map(rename_record);
        let skipped = self.skipped.iter().map(|line| skipped_record(tag::SKIPPED, line));
        long.chain(renames).chain(skipped).collect()
    }
}

pub(super) fn rename_record(rename: &Rename) -> LineRecord {
    ([&[tag::RENAME], &*rename.old].concat(), rename_payload(rename))
}

/// The record of another line.
pub(super) fn skipped_record(tag: u8, line: &Skipped) -> LineRecord {
    ([&[tag], &*line.name].concat(), line.to_line().into_bytes())
}

/// The new name, with its length in front, and the line without its id.
pub(super) fn rename_payload(rename: &Rename) -> Vec<u8> {
    let line = match rename.id {
        0 => rename.to_line(),
        _ => Rename { id: 0, ..rename.clone() }.to_line(),
    };
    let len = u32::try_from(rename.new.len()).expect("a name is shorter than 4 GiB");
    [&len.to_le_bytes()[..], rename.new.as_bytes(), line.as_bytes()].concat()
}

/// The new name and the line in the payload of a rename.
fn split_payload(payload: &[u8]) -> io::Result<(&[u8], &[u8])> {
    let damaged = || io::Error::other("a temporary file was changed");
    let (len, rest) = payload.split_first_chunk::<4>().ok_or_else(damaged)?;
    rest.split_at_checked(u32::from_le_bytes(*len) as usize).ok_or_else(damaged)
}

/// Parses a line of the program's own.
pub(super) fn parse_own(line: &[u8]) -> io::Result<PlanLine> {
    let mut parser = PlanParser::for_own_lines();
    parser.parse_line(line).ok_or_else(|| io::Error::other("a temporary file was changed"))
}

/// Parses the rename in a payload; `id` is its id, 0 if it has none yet.
pub(super) fn parse_rename(payload: &[u8], id: u64) -> io::Result<Rename> {
    let (_, line) = split_payload(payload)?;
    // No line of a plan has the id 0.
    let line = [&line[..BEFORE_ID], b"1", &line[WITHOUT_ID.len()..]].concat();
    match parse_own(&line)? {
        PlanLine::Rename(rename) => Ok(Rename { id, ..rename }),
        _ => Err(io::Error::other("a temporary file was changed")),
    }
}

fn parse_skipped(line: &[u8]) -> io::Result<Skipped> {
    match parse_own(line)? {
        PlanLine::Skipped(skipped) => Ok(skipped),
        _ => Err(io::Error::other("a temporary file was changed")),
    }
}

struct DraftLine<'l> {
    dir: &'l [u8],
    tag: u8,
    name: &'l [u8],
    payload: &'l [u8],
    /// The id of a rename; 0 for other lines.
    id: u64,
}

/// Reads the lines of a plan.
struct DraftLines<'d> {
    cursor: RecordCursor<'d>,
    ids: u64,
    /// The last rename, by directory and name. A directory may have been read both with the name of a root and with a tree.
    last: (Vec<u8>, Vec<u8>),
}

impl DraftLines<'_> {
    fn next(&mut self) -> io::Result<Option<DraftLine<'_>>> {
        let damaged = || io::Error::other("a temporary file was changed");
        let mut id = 0;
        loop {
            self.cursor.advance()?;
            let Some(EntryRecord { dir, name: key, .. }) = self.cursor.record() else { break };
            let (&tag, name) = key.split_first().ok_or_else(damaged)?;
            if tag != tag::RENAME {
                break;
            }
            let last = &mut self.last;
            if last.0 != dir {
                last.0.clear();
                last.0.extend_from_slice(dir);
            } else if last.1 == name {
                continue;
            }
            last.1.clear();
            last.1.extend_from_slice(name);
            self.ids += 1;
            id = self.ids;
            break;
        }
        let Some(EntryRecord { dir, name: key, payload }) = self.cursor.record() else { return Ok(None) };
        let (&tag, name) = key.split_first().ok_or_else(damaged)?;
        Ok(Some(DraftLine { dir, tag, name, payload, id }))
    }
}

impl PlanDraft {
    pub(super) fn new(
        root_set: RootSet,
        exclude: Exclude,
        lines: SortedRecords,
        linked: SortedRecords,
    ) -> Self {
        let names = IndexedRecords::default();
        Self { roots: root_set.roots(), left_out: 0, git_renames: 0, root_set, exclude, lines, linked, names }
    }

    fn lines(&self) -> io::Result<DraftLines<'_>> {
        Ok(DraftLines { cursor: self.lines.cursor()?, ids: 0, last: Default::default() })
    }

    /// The plan, directory by directory.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub fn directories(&self) -> io::Result<DraftDirectories<'_>> {
        Ok(DraftDirectories { lines: self.lines()?, next: None })
    }

    /// Calls `change` with the plan of each directory.
    ///
    /// # Errors
    /// Those of `change`; or a temporary file cannot be read or written.
    pub fn change_directories(
        &mut self,
        change: &mut dyn FnMut(&Self, &mut DirectoryPlan) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut changed, mut directories) = (RecordSorter::default(), self.directories()?);
        while let Some(mut planned) = directories.next()? {
            change(self, &mut planned)?;
            for (key, payload) in planned.records() {
                changed.push(EntryRecord { dir: &planned.directory.path, name: &key, payload: &payload })?;
            }
        }
        drop(directories);
        self.lines = changed.finish()?;
        Ok(())
    }

    /// Adds the paths that are too long after all renames to the skipped entries, and prepares the search for links. No rename
    /// changes after this.
    ///
    /// # Errors
    /// A temporary file cannot be read or written.
    pub fn finish_renames(&mut self, policy: &Policy, settings: &PlanSettings) -> io::Result<()> {
        let has_links = self.linked.cursor()?.next()?.is_some();
        if !has_links && !policy.checks_paths() {
            return Ok(());
        }
        let (mut names, mut lines) = (RecordSorter::default(), self.lines()?);
        while let Some(line) = lines.next()? {
            if line.tag == tag::RENAME {
                let payload = [&line.id.to_le_bytes()[..], split_payload(line.payload)?.0].concat();
                names.push(EntryRecord { dir: line.dir, name: line.name, payload: &payload })?;
            }
        }
        drop(lines);
        self.names = names.finish()?.index()?;
        if policy.checks_paths() { self.add_too_long(policy, settings) } else { Ok(()) }
    }

    fn add_too_long(&mut self, policy: &Policy, settings: &PlanSettings) -> io::Result<()> {
        let (mut changed, mut lines) = (RecordSorter::default(), self.lines()?);
        // The directory of the line before, with its new path.
        let mut new_dir = (Vec::new(), Vec::new());
        while let Some(DraftLine { dir, tag, name, payload, .. }) = lines.next()? {
            if matches!(tag, tag::LONG | tag::RENAME) {
                if new_dir.0 != dir {
                    new_dir = (dir.to_vec(), self.new_path(dir)?);
                }
                let new_name = if tag == tag::RENAME { split_payload(payload)?.0 } else { name };
                let mut is_long = false;
                if let Some(root) = self.root_set.root_of(&path_in(dir, name)) {
                    let new = path_in(&new_dir.1, new_name);
                    let root_len = self.new_path(&root.path)?.len();
                    let path = settings.target_path(new.get(root_len..).unwrap_or_default());
                    // What is too long for any entry: its kind is not in the draft.
                    is_long = !policy.check_path(&path, EntryKind::File).is_empty();
                }
                if is_long {
                    let line = match tag {
                        tag::LONG => payload.to_vec(),
                        _ => {
                            let Rename { directory, old, .. } = parse_rename(payload, 0)?;
                            too_long(&directory, old).to_line().into_bytes()
                        }
                    };
                    let key = [&[tag::TOO_LONG], name].concat();
                    changed.push(EntryRecord { dir, name: &key, payload: &line })?;
                }
            }
            if tag != tag::LONG {
                let key = [&[tag], name].concat();
                changed.push(EntryRecord { dir, name: &key, payload })?;
            }
        }
        drop(lines);
        self.lines = changed.finish()?;
        Ok(())
    }

    /// Calls `write` with each line of all directories, without its line feed.
    ///
    /// # Errors
    /// Those of `write`; or a temporary file cannot be read.
    pub fn each_line(&self, write: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        let (mut lines, mut whole) = (self.lines()?, Vec::new());
        while let Some(line) = lines.next()? {
            whole.clear();
            match line.tag {
                tag::RENAME => {
                    let (_, text) = split_payload(line.payload)?;
                    whole.extend_from_slice(&text[..BEFORE_ID]);
                    write!(whole, "{}", line.id)?;
                    whole.extend_from_slice(&text[WITHOUT_ID.len()..]);
                }
                tag::LONG => continue,
                _ => whole.extend_from_slice(line.payload),
            }
            write(std::str::from_utf8(&whole).map_err(io::Error::other)?)?;
        }
        Ok(())
    }

    /// Counts the lines.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub fn counts(&self) -> io::Result<DraftCounts> {
        let (mut counts, mut lines) = (DraftCounts::default(), self.lines()?);
        while let Some(line) = lines.next()? {
            match line.tag {
                tag::RENAME => counts.renames += 1,
                tag::LONG => {}
                _ => counts.skipped += 1,
            }
        }
        Ok(counts)
    }

    /// How many entries get no new name, by the reason; at most ten reasons.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub fn skip_reasons(&self) -> io::Result<BTreeMap<String, u64>> {
        const MAX: usize = 10;
        let (mut reasons, mut lines) = (BTreeMap::new(), self.lines()?);
        while let Some(line) = lines.next()? {
            if matches!(line.tag, tag::SKIPPED | tag::TOO_LONG) {
                let why = parse_skipped(line.payload)?.why;
                if reasons.len() < MAX || reasons.contains_key(&why) {
                    *reasons.entry(why).or_default() += 1;
                }
            }
        }
        Ok(reasons)
    }

    /// Counts the renames below the directories `tops`.
    pub(super) fn count_in(&self, tops: &BTreeSet<Vec<u8>>) -> io::Result<u64> {
        let (mut count, mut lines) = (0, self.lines()?);
        let is_below = |dir: &[u8]| tops.iter().any(|top| is_within(dir, top));
        let mut last = (Vec::new(), false);
        while let Some(line) = lines.next()?.filter(|_| !tops.is_empty()) {
            if last.0 != line.dir {
                last = (line.dir.to_vec(), is_below(line.dir));
            }
            count += u64::from(last.1 && line.tag == tag::RENAME);
        }
        Ok(count)
    }

    /// The id and the new name of `name` in the directory `dir`, if it is renamed.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub(super) fn find_rename(&self, dir: &[u8], name: &[u8]) -> io::Result<Option<(u64, Vec<u8>)>> {
        let Some(payload) = self.names.find(dir, name)? else { return Ok(None) };
        let damaged = || io::Error::other("a temporary file was changed");
        let (id, new) = payload.split_first_chunk::<8>().ok_or_else(damaged)?;
        Ok(Some((u64::from_le_bytes(*id), new.to_vec())))
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
        let mut lines = self.lines()?;
        while let Some(line) = lines.next()? {
            if line.tag == tag::RENAME {
                take(line.name);
            }
        }
        Ok(())
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

/// Reads a plan, directory by directory.
pub struct DraftDirectories<'d> {
    lines: DraftLines<'d>,
    next: Option<ParsedLine>,
}

/// A line that was parsed, with the path of its directory.
enum ParsedLine {
    Rename(Rename),
    Skipped(Skipped),
    Long(Skipped),
}

impl ParsedLine {
    fn directory(&self) -> &Arc<PlanDirectory> {
        match self {
            Self::Rename(rename) => &rename.directory,
            Self::Skipped(skipped) | Self::Long(skipped) => &skipped.directory,
        }
    }
}

impl DraftDirectories<'_> {
    fn next_line(&mut self) -> io::Result<Option<ParsedLine>> {
        if let Some(line) = self.next.take() {
            return Ok(Some(line));
        }
        let Some(line) = self.lines.next()? else { return Ok(None) };
        Ok(Some(match line.tag {
            tag::RENAME => ParsedLine::Rename(parse_rename(line.payload, line.id)?),
            tag::LONG => ParsedLine::Long(parse_skipped(line.payload)?),
            _ => ParsedLine::Skipped(parse_skipped(line.payload)?),
        }))
    }

    /// The plan of the next directory.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub fn next(&mut self) -> io::Result<Option<DirectoryPlan>> {
        let mut planned: Option<DirectoryPlan> = None;
        while let Some(line) = self.next_line()? {
            let directory = line.directory();
            if planned.as_ref().is_some_and(|planned| planned.directory.path != directory.path) {
                self.next = Some(line);
                break;
            }
            let planned = planned.get_or_insert_with(|| DirectoryPlan {
                directory: Arc::clone(directory),
                renames: Vec::new(),
                skipped: Vec::new(),
                long: Vec::new(),
            });
            match line {
                ParsedLine::Rename(rename) => planned.renames.push(rename),
                ParsedLine::Skipped(skipped) => planned.skipped.push(skipped),
                ParsedLine::Long(skipped) => planned.long.push(skipped),
            }
        }
        Ok(planned)
    }
}
