//! Parses a plan. Every error is found, each with its line.
//!
//! Names that lead out of the roots, and names that no entry can have, are rejected. Whether the new names are free is
//! checked against the directories: [`super::check`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use namegate_core::name::display::display;
use namegate_core::policy::rule::RuleId;
use serde::Deserialize;

use super::id_set::IdSet;
use super::line::{
    InDirectory, KnownDirectory, LineHead, LineType, RENAME_BEGIN, RenameLine, RetargetLine, SkippedLine,
};
use super::{
    MAX_HEADER_BYTES, MAX_LINE_BYTES, PlanDirectory, PlanHeader, Rename, Retarget, Skipped, VERSION,
    components, name_objection, new_name_objection, path_objection,
};

/// At most this many errors are reported.
const MAX_ERRORS: usize = 100;

/// An error in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The line, from 1; 0 for the plan as a whole.
    pub line: usize,
    /// A sentence, escaped for display.
    pub message: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for PlanError {}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanLine {
    /// The first line.
    Header(PlanHeader),
    Rename(Rename),
    /// A new target for a symbolic link.
    Retarget(Retarget),
    /// An entry without a new name.
    Skipped(Skipped),
}

impl PlanLine {
    /// The directory of the entry; `None` for the first line.
    pub fn directory(&self) -> Option<&Arc<PlanDirectory>> {
        match self {
            Self::Header(_) => None,
            Self::Rename(Rename { directory, .. })
            | Self::Retarget(Retarget { directory, .. })
            | Self::Skipped(Skipped { directory, .. }) => Some(directory),
        }
    }

    /// The line, without a line feed.
    pub fn to_line(&self) -> String {
        match self {
            Self::Header(header) => header.to_line(),
            Self::Rename(rename) => rename.to_line(),
            Self::Retarget(retarget) => retarget.to_line(),
            Self::Skipped(skipped) => skipped.to_line(),
        }
    }
}

/// Lines that follow each other, parsed without regard to others.
pub(crate) struct ParsedBlock {
    /// The lines without an error, with their numbers.
    found: Vec<(usize, PlanLine)>,
    /// The errors.
    parser: PlanParser,
}

impl ParsedBlock {
    /// Parses `lines` from the line number `first` on, each without its line feed. `header` is the first line, if it has no error. Renames
    /// are without the fields that are only for people: this thread frees them.
    pub(crate) fn parse<'l>(
        header: Option<&PlanHeader>,
        first: usize,
        lines: impl Iterator<Item = &'l [u8]>,
    ) -> Self {
        let (header, line) = (header.cloned(), first - 1);
        let mut parser = PlanParser { header, has_header: true, line, ..PlanParser::default() };
        let mut found = Vec::new();
        for line in lines {
            if let Some(mut parsed) = parser.parse_alone(line) {
                if let PlanLine::Rename(rename) = &mut parsed {
                    (rename.reasons, rename.reading, rename.evidence, rename.alternatives) =
                        Default::default();
                }
                found.push((parser.line, parsed));
            }
        }
        Self { found, parser }
    }
}

/// Parses a plan line by line. The parser keeps an error, and the function that met it returns `None`.
#[derive(Default)]
pub struct PlanParser {
    header: Option<PlanHeader>,
    has_header: bool,
    line: usize,
    known: KnownDirectory,
    /// The directory of the line before, if its path is valid and covered by a root.
    checked: Option<(Arc<PlanDirectory>, bool)>,
    ids: IdSet,
    /// The line of each link with a new target, by the path of its directory.
    retargeted: HashMap<Vec<u8>, HashMap<Vec<u8>, usize>>,
    errors: Vec<PlanError>,
    further: usize,
}

impl PlanParser {
    /// A parser for single lines that the program wrote itself.
    pub(crate) fn for_own_lines() -> Self {
        Self { has_header: true, ..Self::default() }
    }

    /// The number of the last line, from 1.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// Parses the line `number` of a table, which is a line of a plan or an error; `None` for an error.
    pub(crate) fn parse_row(&mut self, number: usize, line: Result<Vec<u8>, String>) -> Option<PlanLine> {
        self.line = number.saturating_sub(1);
        match line {
            Ok(line) => self.parse_line(&line),
            Err(message) => self.fail_at(number, message),
        }
    }

    /// Parses the next line, without its line feed; `None` for an empty line, and for one with an error.
    pub fn parse_line(&mut self, line: &[u8]) -> Option<PlanLine> {
        let parsed = self.parse_alone(line)?;
        self.compare(self.line, parsed)
    }

    /// The first line, if it has no error.
    pub(crate) fn header(&self) -> Option<&PlanHeader> {
        self.header.as_ref()
    }

    /// Gives the lines of the next block that have no error to `take`, with their numbers.
    pub(crate) fn add_block<E>(
        &mut self,
        ParsedBlock { found, parser }: ParsedBlock,
        take: &mut dyn FnMut(PlanLine, usize) -> Result<(), E>,
    ) -> Result<(), E> {
        self.line = parser.line;
        parser.errors.into_iter().for_each(|error| _ = self.fail_at::<()>(error.line, error.message));
        self.further += parser.further;
        for (number, parsed) in found {
            if let Some(parsed) = self.compare(number, parsed) {
                take(parsed, number)?;
            }
        }
        Ok(())
    }

    /// Compares a line with those above; `None` for an error.
    fn compare(&mut self, number: usize, parsed: PlanLine) -> Option<PlanLine> {
        match &parsed {
            PlanLine::Rename(rename) if !self.ids.insert(rename.id) => {
                self.fail_at(number, format_args!("a line above has the id {} too", rename.id))
            }
            PlanLine::Retarget(Retarget { directory, name, .. }) => {
                let of_directory = self.retargeted.entry(directory.path.clone()).or_default();
                match of_directory.insert(name.clone(), number) {
                    Some(other) => {
                        let message = format!("line {other} retargets the link {} too", quoted(name));
                        self.fail_at(number, message)
                    }
                    None => Some(parsed),
                }
            }
            _ => Some(parsed),
        }
    }

    /// Parses the next line without regard to others, except the first.
    fn parse_alone(&mut self, line: &[u8]) -> Option<PlanLine> {
        self.line += 1;
        let room = self.room();
        if line.len() > room {
            return self.fail(format_args!("longer than {room} bytes"));
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        let head = match line.starts_with(RENAME_BEGIN) {
            true => LineHead { r#type: LineType::Rename, version: None },
            false => self.read(line)?,
        };
        let is_first = !std::mem::replace(&mut self.has_header, true);
        match head.r#type {
            LineType::Plan if !is_first => self.fail("a second line of type `plan`"),
            LineType::Plan => self.parse_header(line, head.version).map(PlanLine::Header),
            _ if is_first => self.fail("the first line must have the type `plan`"),
            LineType::Rename => self.parse_rename(line).map(PlanLine::Rename),
            LineType::Retarget => self.parse_retarget(line).map(PlanLine::Retarget),
            LineType::Skipped => self.parse_skipped(line).map(PlanLine::Skipped),
        }
    }

    /// Reports whether a line was parsed.
    pub(crate) const fn has_header(&self) -> bool {
        self.has_header
    }

    /// The longest next line, in bytes.
    pub const fn room(&self) -> usize {
        if self.has_header { MAX_LINE_BYTES } else { MAX_HEADER_BYTES }
    }

    /// Ends the plan.
    ///
    /// # Errors
    /// All errors in the plan, at most a hundred.
    pub fn finish(mut self) -> Result<(), Vec<PlanError>> {
        if !self.has_header && self.errors.is_empty() {
            self.line = 0;
            self.fail::<()>("no line of type `plan`: the file is empty or not a plan");
        }
        self.errors.sort_by_key(|error| error.line);
        if self.further > 0 {
            let message = format!("and {} more errors", self.further);
            self.errors.push(PlanError { line: 0, message });
        }
        if self.errors.is_empty() { Ok(()) } else { Err(self.errors) }
    }

    fn fail<T>(&mut self, message: impl fmt::Display) -> Option<T> {
        self.fail_at(self.line, message)
    }

    /// Keeps an error in a line.
    pub(crate) fn fail_at<T>(&mut self, line: usize, message: impl fmt::Display) -> Option<T> {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(PlanError { line, message: message.to_string() });
        } else {
            self.further += 1;
        }
        None
    }

    /// The value; or `None` and an error.
    fn keep<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.fail::<()>(message)).ok()
    }

    fn read<'l, T: Deserialize<'l>>(&mut self, line: &'l [u8]) -> Option<T> {
        let read = serde_json::from_slice(line).map_err(|error| describe(&error));
        self.keep(read)
    }

    fn parse_header(&mut self, line: &[u8], version: Option<u64>) -> Option<PlanHeader> {
        if let Some(version) = version.filter(|&version| version != VERSION) {
            return self.fail(format_args!(
                "format version {version} is not supported; this program reads version {VERSION}"
            ));
        }
        let header: PlanHeader = self.read(line)?;
        for root in &header.roots {
            if let Some(why) = path_objection(&root.path) {
                return self.fail(format_args!("the root {} {why}", display(&root.path)));
            }
        }
        if header.roots.is_empty() {
            return self.fail("`roots` is empty: nothing could be renamed");
        }
        self.header = Some(header.clone());
        Some(header)
    }

    fn parse_rename(&mut self, line: &[u8]) -> Option<Rename> {
        let mut line: RenameLine<'_> = self.read(line)?;
        let old = std::mem::take(&mut line.old_hex.0).into_owned();
        self.check_name("old", &line.old, &old)?;
        let directory = self.directory(&line, &old)?;
        let entry = self.keep(line.entry())?;
        let new = line.new.into_owned();
        if let Some(why) = new_name_objection(&old, entry.kind, new.as_bytes()) {
            return self.fail(format_args!("the new name {} {why}", quoted(new.as_bytes())));
        }
        if new.as_bytes() == old {
            return self.fail("the new name is the old name; delete the line to keep the name");
        }
        let reasons = self.rules(&line.reasons)?;
        if line.id == 0 {
            return self.fail("`id` must be 1 or more");
        }
        Some(Rename {
            id: line.id,
            directory,
            old,
            new,
            entry,
            reasons,
            confidence: line.confidence,
            reading: line.reading.into_owned(),
            evidence: line.evidence.map(Into::into),
            alternatives: line.alternatives.into_owned(),
        })
    }

    fn parse_retarget(&mut self, line: &[u8]) -> Option<Retarget> {
        let mut line: RetargetLine<'_> = self.read(line)?;
        let name = std::mem::take(&mut line.name_hex.0).into_owned();
        self.check_name("name", &line.name, &name)?;
        let directory = self.directory(&line, &name)?;
        let entry = self.keep(line.entry())?;
        let old_target = line.old_target_base64.0.into_owned();
        let new_target = line.new_target_base64.0.into_owned();
        for (key, text, target) in
            [("old_target", line.old_target, &old_target), ("new_target", line.new_target, &new_target)]
        {
            // Only the bytes count, so editing only the text next to them would have no effect.
            if display(target).to_string() != text {
                return self
                    .fail(format_args!("`{key}` differs from `{key}_base64`; only `new` can be edited"));
            }
            if target.contains(&0) {
                return self.fail(format_args!("`{key}` contains a NUL"));
            }
        }
        let count = components(&old_target).count();
        if let Some(part) = line.after.iter().find(|part| part.component >= count) {
            return self.fail(format_args!(
                "`after` has the component {}; the target has {count} components, from 0",
                part.component
            ));
        }
        let after = line.after.into_owned();
        Some(Retarget { directory, name, entry, old_target, new_target, after })
    }

    fn parse_skipped(&mut self, line: &[u8]) -> Option<Skipped> {
        let mut line: SkippedLine<'_> = self.read(line)?;
        let name = std::mem::take(&mut line.name_hex.0).into_owned();
        self.check_name("name", &line.name, &name)?;
        let directory = self.directory(&line, &name)?;
        let reasons = self.rules(&line.reasons)?;
        Some(Skipped { directory, name, reasons, why: line.why.into_owned() })
    }

    /// Checks a name, and the text next to it.
    fn check_name(&mut self, key: &str, text: &str, name: &[u8]) -> Option<()> {
        if let Some(why) = name_objection(name) {
            return self.fail(format_args!("the name in `{key}_hex` {why}"));
        }
        match display(name).to_string() == text {
            true => Some(()),
            false => self.fail(format_args!("`{key}` differs from `{key}_hex`; only `new` can be edited")),
        }
    }

    fn rules(&mut self, names: &[impl AsRef<str>]) -> Option<Vec<RuleId>> {
        let parse =
            |name: &str| name.parse::<RuleId>().map_err(|unknown| cut(unknown.to_string().as_bytes()));
        let rules = names.iter().map(|name| parse(name.as_ref())).collect();
        self.keep(rules)
    }

    /// The directory of a line, which holds the entry `name`.
    fn directory(&mut self, line: &impl InDirectory, name: &[u8]) -> Option<Arc<PlanDirectory>> {
        let directory = line.directory(&mut self.known);
        let directory = self.keep(directory)?;
        let checked = self.checked.as_ref().filter(|(known, _)| Arc::ptr_eq(known, &directory));
        let is_within_roots = match checked {
            Some((_, is_within_roots)) => *is_within_roots,
            None => {
                if let Some(why) = path_objection(&directory.path) {
                    return self.fail(format_args!("the directory {} {why}", display(&directory.path)));
                }
                // A header with an error is missing, and its error is reported.
                let covers = |header: &PlanHeader| header.covers_directory(&directory.path);
                let is_within_roots = self.header.as_ref().is_none_or(covers);
                self.checked = Some((Arc::clone(&directory), is_within_roots));
                is_within_roots
            }
        };
        let covers = |header: &PlanHeader| header.covers(&directory.path, name);
        if !is_within_roots && !self.header.as_ref().is_none_or(covers) {
            let path = display(&directory.path).to_string();
            return self.fail(format_args!("{} in {path} is outside of the roots", quoted(name)));
        }
        Some(directory)
    }
}

pub(crate) fn quoted(name: &[u8]) -> String {
    format!("`{}`", cut(name))
}

/// The beginning of a text, escaped for display: the whole may be hostile and long.
fn cut(text: &[u8]) -> String {
    const MAX_SHOWN: usize = 300;
    match text.get(..MAX_SHOWN) {
        Some(part) => format!("{}...", display(part)),
        None => display(text).to_string(),
    }
}

/// The message of serde_json without the line, which is always 1. The message may quote the plan.
pub(crate) fn describe(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = match error.column() {
        0 => &*message,
        _ => message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message),
    };
    match error.column() {
        0 => cut(message.as_bytes()),
        column => format!("{} (column {column})", cut(message.as_bytes())),
    }
}
