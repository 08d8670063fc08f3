//! A plan as `fix apply` uses it: checked line by line, and sorted for the order of the work.
//!
//! The renames are sorted records ([`RecordSorter`]), so memory does not grow with their number. The links with a new target
//! are kept in memory, with the new names of the entries that they lead to.

mod renames;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::ops::ControlFlow;

use namegate_core::name::display::display;
use namegate_core::policy::Confidence;
use namegate_files::signature::{self, TextKind};
use namegate_findings::records::{RecordSorter, SortedRecords};
use namegate_findings::temporary;
use namegate_sys::process::processors;
use sha2::{Digest, Sha256};

use self::renames::read_rename;
pub use self::renames::{DirectoryRenames, StoredDirectories};
use super::checked_input::CheckedInput;
pub use super::checked_input::StoredPlanError;
use super::decisions::{DecisionCounts, Decisions};
use super::in_order::in_order;
use super::new_names::{NewNames, push_new_name};
use super::plan::id_set::IdSet;
use super::plan::parse::{ParsedBlock, quoted};
use super::plan::{FileKind, PlanError, PlanHeader, PlanLine, PlanParser, Rename, Retarget};
use super::plan_record::{LineRecord, RenameReader};
use super::plan_table::PlanTableReader;
use super::propose::PlanDraft;

#[derive(Debug)]
pub struct StoredPlan {
    /// The first line.
    pub header: PlanHeader,
    /// The links with a new target.
    pub retargets: Vec<Retarget>,
    /// The number of renames of each confidence, in the order of [`Confidence::ALL`].
    renames: [u64; 3],
    /// The number of entries without a new name.
    pub skipped: u64,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The CRC-32 of the file.
    pub check: u32,
    /// The file is a table.
    pub is_table: bool,
    /// What was decided, if the plan was read with decisions.
    pub decided: Option<DecisionCounts>,
    /// The new names of the entries that links lead to, by the ids of their renames.
    pub(super) target_names: HashMap<u64, Vec<u8>>,
    /// The renames of links with a new target, by directory and name.
    pub(super) link_renames: HashMap<(Vec<u8>, Vec<u8>), Rename>,
    sorted: SortedRecords,
}

/// The lines of a plan while it is read.
#[derive(Default)]
struct PlanLines {
    sorter: RecordSorter,
    header: PlanHeader,
    retargets: Vec<Retarget>,
    renames: [u64; 3],
    skipped: u64,
    decisions: Option<Decisions>,
    decided: DecisionCounts,
    errors: Vec<PlanError>,
    /// Memory that is used again.
    record: LineRecord,
}

impl PlanLines {
    fn add(&mut self, line: PlanLine, number: usize) -> io::Result<()> {
        match line {
            PlanLine::Header(header) => self.header = header,
            PlanLine::Rename(mut rename) => {
                if let Some(decisions) = &mut self.decisions {
                    match decisions.apply_to(&mut rename, &mut self.decided) {
                        Ok(true) => {}
                        Ok(false) => return Ok(()),
                        Err(message) => {
                            self.errors.push(PlanError { line: number, message });
                            return Ok(());
                        }
                    }
                }
                self.renames[rename.confidence as usize] += 1;
                self.record.set_rename(&rename, number);
                self.sorter.push(self.record.in_directory(&rename.directory.path))?;
            }
            PlanLine::Retarget(retarget) => self.retargets.push(retarget),
            PlanLine::Skipped(_) => self.skipped += 1,
        }
        Ok(())
    }
}

impl StoredPlan {
    /// Reads a plan, from JSON Lines or a table.
    ///
    /// # Errors
    /// The plan cannot be read or has errors, or a temporary file cannot be written.
    pub fn read(input: impl Read) -> Result<Self, StoredPlanError> {
        Self::read_with(input, None)
    }

    /// Reads a plan, and keeps what `decisions` rename, with the names that they give.
    ///
    /// # Errors
    /// As [`StoredPlan::read`]; or the decisions are not about this plan, or give a name that no entry can have.
    pub fn read_decided(input: impl Read, decisions: Decisions) -> Result<Self, StoredPlanError> {
        Self::read_with(input, Some(decisions))
    }

    fn read_with(input: impl Read, decisions: Option<Decisions>) -> Result<Self, StoredPlanError> {
        let sha256 = decisions.as_ref().map(|_| Sha256::new());
        let input = CheckedInput { sha256, ..CheckedInput::new(input) };
        let input = BufReader::with_capacity(1 << 16, input);
        let mut input = signature::skip(input, TextKind::Syntax, "the plan")?;
        let (mut parser, mut lines) =
            (PlanParser::default(), PlanLines { decisions, ..PlanLines::default() });
        let is_table = PlanTableReader::is_table(&mut input)?;
        match is_table {
            true => read_table(&mut input, &mut parser, &mut |line, number| lines.add(line, number))?,
            false => read_lines(&mut input, &mut parser, &mut lines)?,
        }
        let PlanLines { sorter, header, retargets, renames, skipped, decisions, decided, errors, .. } = lines;
        let CheckedInput { bytes, check, sha256, .. } = input.into_inner().1.into_inner();
        // Decisions about another plan would be wrong line by line, and say nothing of its lines.
        if let (Some(decisions), Some(sha256)) = (&decisions, sha256) {
            let checked = decisions.check_plan(&sha256.finalize()).and_then(|()| decisions.check_rest());
            checked.map_err(|error| StoredPlanError::Lines(vec![error]))?;
        }
        errors.into_iter().for_each(|error| _ = parser.fail_at::<()>(error.line, error.message));
        let mut plan = Self {
            header,
            retargets,
            renames,
            skipped,
            bytes,
            check: check.finalize(),
            is_table,
            decided: decisions.map(|decisions| DecisionCounts { check: decisions.check, ..decided }),
            target_names: HashMap::new(),
            link_renames: HashMap::new(),
            sorted: sorter.finish()?,
        };
        plan.check_directories(&mut parser)?;
        parser.finish().map_err(StoredPlanError::Lines)?;
        Ok(plan)
    }

    /// The plan of a draft, whose first line is `header`.
    ///
    /// # Errors
    /// As of [`StoredPlan::read`].
    pub fn from_draft(header: &PlanHeader, draft: &PlanDraft) -> Result<Self, StoredPlanError> {
        let mut file = BufWriter::new(temporary::file()?);
        writeln!(file, "{}", header.to_line())?;
        draft.each_line(&mut |line| writeln!(file, "{line}"))?;
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Self::read(file)
    }

    /// Checks what can be checked only when the lines are sorted, and collects what the links need.
    fn check_directories(&mut self, parser: &mut PlanParser) -> io::Result<()> {
        self.check_contradictions(parser)?;
        if self.retargets.is_empty() {
            return Ok(());
        }
        let parts = self.retargets.iter().flat_map(|retarget| &retarget.after);
        let wanted: HashSet<u64> = parts.map(|part| part.rename).collect();
        let links = self.retargets.iter().map(|link| (link.directory.path.clone(), link.name.clone()));
        let links: HashSet<(Vec<u8>, Vec<u8>)> = links.collect();
        let (mut target_names, mut link_renames) = (HashMap::new(), HashMap::new());
        let mut cursor = self.sorted.cursor()?;
        while let Some(record) = cursor.next()? {
            let rename = RenameReader::new(record.payload)?;
            if wanted.contains(&rename.id()) {
                target_names.insert(rename.id(), rename.new.as_bytes().to_vec());
            }
            if rename.kind()? == FileKind::Symlink {
                let link = (record.dir.to_vec(), record.name[1..].to_vec());
                if links.contains(&link) {
                    link_renames.insert(link, read_rename(record, None)?);
                }
            }
        }
        drop(cursor);
        // A person has deleted the renames that the link would follow, or has decided to leave the names: the link stays too.
        self.retargets.retain(|link| link.after.iter().any(|part| target_names.contains_key(&part.rename)));
        (self.target_names, self.link_renames) = (target_names, link_renames);
        Ok(())
    }

    /// Finds lines that rename the same entry, or that have different inodes for the same directory.
    fn check_contradictions(&self, parser: &mut PlanParser) -> io::Result<()> {
        let (mut last_dir, mut last_name, mut last) = (Vec::new(), Vec::new(), None);
        let mut cursor = self.sorted.cursor()?;
        while let Some(record) = cursor.next()? {
            let rename = RenameReader::new(record.payload)?;
            let (inode, line) = (rename.directory_inode(), rename.line());
            if let Some((last_inode, last_line)) = last.filter(|_| last_dir == record.dir) {
                if inode != last_inode {
                    let dir = display(record.dir);
                    let message = format!("the directory {dir} has another inode in a line above");
                    parser.fail_at::<()>(line.max(last_line), message);
                }
                if record.name == last_name {
                    let name = quoted(&record.name[1..]);
                    parser.fail_at::<()>(line, format_args!("line {last_line} renames {name} too"));
                }
            }
            for (last, now) in [(&mut last_dir, record.dir), (&mut last_name, record.name)] {
                last.clear();
                last.extend_from_slice(now);
            }
            last = Some((inode, line));
        }
        Ok(())
    }

    /// The renames, directory by directory, each before the directory that holds it.
    pub fn directories(&self) -> io::Result<StoredDirectories<'_>> {
        Ok(StoredDirectories::new(self.sorted.cursor()?))
    }

    /// Calls `take` with the directory, the old name, the id and the new name of each rename that is at least as certain as `least`.
    pub fn each_rename(
        &self,
        least: Confidence,
        take: &mut dyn FnMut(&[u8], &[u8], u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut cursor = self.sorted.cursor()?;
        while let Some(record) = cursor.next()? {
            let rename = RenameReader::new(record.payload)?;
            if rename.is_at_least(least) {
                take(record.dir, &record.name[1..], rename.id(), rename.new.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The number of renames that are at least as certain as `least`.
    pub fn renames(&self, least: Confidence) -> u64 {
        self.renames[..=least as usize].iter().sum()
    }

    /// The new names of directories.
    pub fn new_names(&self) -> io::Result<NewNames> {
        let mut names = RecordSorter::default();
        let mut cursor = self.sorted.cursor()?;
        while let Some(record) = cursor.next()? {
            let rename = RenameReader::new(record.payload)?;
            if rename.kind()? == FileKind::Directory {
                push_new_name(&mut names, record.dir, &record.name[1..], rename.id(), rename.new.as_bytes())?;
            }
        }
        NewNames::new(names, IdSet::default())
    }
}

/// Gives each line of a plan to `take`, with all that people read, and returns the SHA-256 of the file.
///
/// # Errors
/// The plan cannot be read or has errors, or an error of `take`.
pub fn read_each_line(
    input: impl Read,
    take: &mut dyn FnMut(PlanLine) -> io::Result<()>,
) -> Result<Vec<u8>, StoredPlanError> {
    let input = CheckedInput { sha256: Some(Sha256::new()), ..CheckedInput::new(input) };
    let mut input = signature::skip(BufReader::new(input), TextKind::Syntax, "the plan")?;
    let (mut parser, mut line) = (PlanParser::default(), Vec::new());
    if PlanTableReader::is_table(&mut input)? {
        read_table(&mut input, &mut parser, &mut |line, _| take(line))?;
    } else {
        while read_line(&mut input, &mut line, parser.room())? {
            parser.parse_line(&line).map_or(Ok(()), &mut *take)?;
            line.clear();
        }
    }
    parser.finish().map_err(StoredPlanError::Lines)?;
    let sha256 = input.into_inner().1.into_inner().sha256;
    Ok(sha256.map(|sha256| sha256.finalize().to_vec()).unwrap_or_default())
}

/// Reads a table.
fn read_table(
    input: &mut impl BufRead,
    parser: &mut PlanParser,
    take: &mut dyn FnMut(PlanLine, usize) -> io::Result<()>,
) -> Result<(), StoredPlanError> {
    let mut table = PlanTableReader::open(input)?.ok_or_else(|| {
        let message = "neither JSON Lines nor a table with the column `record`: not a plan".to_owned();
        StoredPlanError::Lines(vec![PlanError { line: 1, message }])
    })?;
    while let Some((number, line)) = table.next_line()? {
        if let Some(parsed) = parser.parse_row(number, line) {
            take(parsed, number)?;
        }
    }
    Ok(())
}

/// Lines with so many bytes are parsed together.
const BLOCK_BYTES: usize = 1 << 18;

/// More threads than this would wait for the one that keeps the lines.
const MAX_THREADS: usize = 4;

/// Lines that follow each other, without their line feeds.
struct LineBlock {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
    first: usize,
}

impl LineBlock {
    /// Reads the next block; `None` at the end.
    fn read(input: &mut impl BufRead, first: usize, room: usize) -> io::Result<Option<Self>> {
        let (mut bytes, mut ends) = (Vec::with_capacity(BLOCK_BYTES), Vec::new());
        while bytes.len() < BLOCK_BYTES && read_line(input, &mut bytes, room)? {
            ends.push(bytes.len());
        }
        Ok(Some(Self { bytes, ends, first }).filter(|block| !block.ends.is_empty()))
    }

    fn lines(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}

/// Reads JSON Lines.
fn read_lines(input: &mut impl BufRead, parser: &mut PlanParser, lines: &mut PlanLines) -> io::Result<()> {
    // The first line decides how the others are parsed.
    let mut first = Vec::new();
    while !parser.has_header() && read_line(input, &mut first, parser.room())? {
        if let Some(parsed) = parser.parse_line(&first) {
            lines.add(parsed, parser.line())?;
        }
        first.clear();
    }
    let (header, room, mut number) = (parser.header().cloned(), parser.room(), parser.line() + 1);
    let read_blocks = |give: &mut dyn FnMut(LineBlock) -> ControlFlow<()>| {
        while let Some(block) = LineBlock::read(input, number, room)? {
            number += block.ends.len();
            if give(block).is_break() {
                break;
            }
        }
        Ok(())
    };
    let parse = |block: LineBlock| ParsedBlock::parse(header.as_ref(), block.first, block.lines());
    in_order(processors().min(MAX_THREADS), read_blocks, parse, &mut |block| {
        parser.add_block(block, &mut |parsed, number| lines.add(parsed, number))
    })
}

/// Appends a line without its line feed, and of a line with more than `room` bytes one byte more than that. Reports whether there
/// is one.
fn read_line(input: &mut impl BufRead, to: &mut Vec<u8>, room: usize) -> io::Result<bool> {
    let begin = to.len();
    // Longer lines may have a carriage return.
    let limit = room as u64 + 2;
    if (&mut *input).take(limit).read_until(b'\n', to)? == 0 {
        return Ok(false);
    }
    if to.pop_if(|last| *last == b'\n').is_none() && to.len() - begin > room {
        input.skip_until(b'\n')?;
    }
    Ok(true)
}
