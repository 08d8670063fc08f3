//! Asking which renames are to be in the plan.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;

use super::{CliError, show};
use crate::fix::plan::Rename;
use crate::fix::plan::check::{Objection, check};
use crate::fix::propose::{Draft, Planned};
use crate::name::display::{display, width};
use crate::policy::Policy;
use crate::policy::rule::RuleId;
use crate::report::layout::{BOLD, DIM};

/// A longer answer is none.
const MAX_ANSWER: u64 = 1 << 16;

const HELP: &str = "\
  y  take this rename into the plan
  n  leave the name as it is
  a  take this one and all others of the same rule
  d  leave this one and all others of the same rule
  e  give it another name
  q  leave this one and all that follow
";

/// What was said of a rule.
#[derive(Clone, Copy)]
enum Ruled {
    Take,
    Leave,
}

/// Asks about each rename of the draft, and leaves out those that are not wanted.
///
/// # Errors
/// Questions cannot be asked, or answers not read.
pub fn about(
    draft: &mut Draft,
    policy: &Policy,
    answers: &mut dyn BufRead,
    questions: &mut dyn Write,
) -> Result<(), CliError> {
    let count = draft.renames();
    let mut asking =
        Asking { policy, answers, questions, ruled: HashMap::new(), at: 0, count, has_left: false };
    let mut directories = std::mem::take(&mut draft.directories);
    for planned in &mut directories {
        asking
            .about(draft, planned)
            .map_err(|error| CliError::new(format_args!("cannot ask about a rename: {error}")))?;
    }
    directories.retain(|planned| !planned.renames.is_empty() || !planned.skipped.is_empty());
    draft.directories = directories;
    Ok(())
}

struct Asking<'a> {
    policy: &'a Policy,
    answers: &'a mut dyn BufRead,
    questions: &'a mut dyn Write,
    ruled: HashMap<Option<RuleId>, Ruled>,
    /// The number of the rename that is asked about.
    at: usize,
    count: usize,
    has_left: bool,
}

impl Asking<'_> {
    /// Asks about what is planned in one directory.
    fn about(&mut self, draft: &Draft, planned: &mut Planned) -> io::Result<()> {
        let mut is_told = false;
        let mut wanted = vec![true; planned.renames.len()];
        for at in 0..planned.renames.len() {
            self.at += 1;
            let rename = &planned.renames[at];
            if !self.has_left && self.ruling(rename).is_none() && !is_told {
                writeln!(self.questions, "{BOLD}{}{BOLD:#}", display(&planned.directory.path))?;
                is_told = true;
            }
            wanted[at] = !self.has_left && self.wants(draft, planned, &wanted, at)?;
        }
        let mut wanted = wanted.into_iter();
        planned.renames.retain(|_| wanted.next().unwrap_or_default());
        Ok(())
    }

    /// The rule under which a rename is asked about: the first that its name breaks.
    fn rule(rename: &Rename) -> Option<RuleId> {
        rename.reasons.first().copied()
    }

    fn ruling(&self, rename: &Rename) -> Option<Ruled> {
        self.ruled.get(&Self::rule(rename)).copied()
    }

    /// Whether the rename at `at` is wanted; it may get another new name.
    fn wants(
        &mut self,
        draft: &Draft,
        planned: &mut Planned,
        wanted: &[bool],
        at: usize,
    ) -> io::Result<bool> {
        let rename = &planned.renames[at];
        if let Some(ruled) = self.ruling(rename) {
            return Ok(matches!(ruled, Ruled::Take));
        }
        loop {
            let rename = &planned.renames[at];
            self.describe(rename)?;
            let rule = Self::rule(rename).map_or("mapping", RuleId::name);
            write!(self.questions, "({}/{}) {rule} [y,n,a,d,e,q,?]? ", self.at, self.count)?;
            let Some(answer) = self.answer()? else {
                self.has_left = true;
                return Ok(false);
            };
            match answer.as_str() {
                "y" => return Ok(true),
                "n" => return Ok(false),
                "a" => {
                    self.ruled.insert(Self::rule(rename), Ruled::Take);
                    return Ok(true);
                }
                "d" => {
                    self.ruled.insert(Self::rule(rename), Ruled::Leave);
                    return Ok(false);
                }
                "q" => {
                    self.has_left = true;
                    return Ok(false);
                }
                "e" => {
                    if self.edit(draft, planned, wanted, at)?.is_break() {
                        return Ok(true);
                    }
                }
                _ => self.questions.write_all(HELP.as_bytes())?,
            }
        }
    }

    fn describe(&mut self, rename: &Rename) -> io::Result<()> {
        writeln!(self.questions, "  {}", show::line(rename, width(&rename.old), 0))?;
        if let Some(evidence) = &rename.evidence {
            writeln!(self.questions, "  {DIM}{evidence}{DIM:#}")?;
        }
        for other in &rename.alternatives {
            let name = display(other.new.as_bytes());
            writeln!(self.questions, "  {DIM}or{DIM:#} {name}  {DIM}{}{DIM:#}", other.reading)?;
        }
        Ok(())
    }

    /// Breaks when the rename at `at` has got another name.
    fn edit(
        &mut self,
        draft: &Draft,
        planned: &mut Planned,
        wanted: &[bool],
        at: usize,
    ) -> io::Result<ControlFlow<()>> {
        write!(self.questions, "  new name: ")?;
        let Some(name) = self.answer()?.filter(|name| !name.is_empty()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut edited = planned.renames[at].clone();
        if name.as_bytes() == edited.old {
            writeln!(self.questions, "  that is the old one")?;
            return Ok(ControlFlow::Continue(()));
        }
        edited.new = name;
        "by hand".clone_into(&mut edited.reading);
        edited.evidence = None;
        let before = std::mem::replace(&mut planned.renames[at], edited);
        let listing = match draft.listing(&planned.directory) {
            Ok(listing) => listing,
            Err(error) => {
                planned.renames[at] = before;
                writeln!(self.questions, "  its directory cannot be read: {error}")?;
                return Ok(ControlFlow::Continue(()));
            }
        };
        let listing: Vec<&[u8]> = listing.iter().map(Vec::as_slice).collect();
        let staying = planned.renames.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        let renames: Vec<&Rename> = staying.map(|(rename, _)| rename).collect();
        let objections = check(Some(self.policy), &listing, &renames);
        let id = |objection: &&Objection| renames[objection.at].old == planned.renames[at].old;
        if let Some(objection) = objections.iter().find(id) {
            writeln!(self.questions, "  {}", objection.why)?;
            planned.renames[at] = before;
            return Ok(ControlFlow::Continue(()));
        }
        Ok(ControlFlow::Break(()))
    }

    /// The next line; `None` at the end of the answers, and for what is no text.
    fn answer(&mut self) -> io::Result<Option<String>> {
        self.questions.flush()?;
        let mut line = Vec::new();
        io::Read::take(&mut *self.answers, MAX_ANSWER).read_until(b'\n', &mut line)?;
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.is_empty() || line.len() as u64 == MAX_ANSWER {
            return Ok(None);
        }
        Ok(String::from_utf8(line).ok())
    }
}
