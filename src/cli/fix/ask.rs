//! Asks which renames belong into the plan.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;

use namegate_core::name::display::display;
use namegate_core::policy::rule::RuleId;
use namegate_core::policy::{Confidence, Policy};
use namegate_fix::plan::Rename;
use namegate_fix::plan::check::check_renames;
use namegate_fix::propose::{DirectoryPlan, PlanDraft};
use namegate_scan::report::layout::{BOLD, DIM};

use super::CliError;

/// The longest answer, in bytes.
const MAX_ANSWER: u64 = 1 << 16;

const HELP: &str = "\
  y  include this rename
  n  keep the old name
  a  include this rename and all others for the same rule
  d  keep this name and all others for the same rule
  e  enter another new name
  q  keep this name and all that follow
";

/// The answer for all renames of a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RuleAnswer {
    Include,
    Keep,
}

/// Asks about each rename of the draft, and removes those that the user does not want.
///
/// # Errors
/// A question cannot be written, or an answer cannot be read.
pub fn ask_about_renames(
    draft: &mut PlanDraft,
    policy: &Policy,
    answers: &mut dyn BufRead,
    questions: &mut dyn Write,
) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::new(format_args!("cannot ask about a rename: {error}"));
    let count = draft.counts().map_err(failed)?.renames;
    let rule_answers = HashMap::new();
    let mut dialog = RenameDialog { policy, answers, questions, rule_answers, at: 0, count, has_quit: false };
    draft.change_directories(&mut |draft, planned| dialog.ask_about_directory(draft, planned)).map_err(failed)
}

struct RenameDialog<'a> {
    policy: &'a Policy,
    answers: &'a mut dyn BufRead,
    questions: &'a mut dyn Write,
    rule_answers: HashMap<Option<RuleId>, RuleAnswer>,
    /// The number of the current rename.
    at: u64,
    count: u64,
    has_quit: bool,
}

impl RenameDialog<'_> {
    fn ask_about_directory(&mut self, draft: &PlanDraft, planned: &mut DirectoryPlan) -> io::Result<()> {
        let mut has_heading = false;
        let mut wanted = vec![true; planned.renames.len()];
        for at in 0..planned.renames.len() {
            self.at += 1;
            let rename = &planned.renames[at];
            if !self.has_quit && self.rule_answer(rename).is_none() && !has_heading {
                writeln!(self.questions, "{BOLD}{}{BOLD:#}", display(&planned.directory.path))?;
                has_heading = true;
            }
            wanted[at] = !self.has_quit && self.ask(draft, planned, &wanted, at)?;
            // A person has chosen the name.
            planned.renames[at].confidence = Confidence::Certain;
        }
        let mut wanted = wanted.into_iter();
        planned.renames.retain(|_| wanted.next().unwrap_or_default());
        Ok(())
    }

    /// The rule of a rename: the first that its name breaks.
    fn rule(rename: &Rename) -> Option<RuleId> {
        rename.reasons.first().copied()
    }

    fn rule_answer(&self, rename: &Rename) -> Option<RuleAnswer> {
        self.rule_answers.get(&Self::rule(rename)).copied()
    }

    /// Asks about the rename `at`, which may get another new name; reports whether the user wants it.
    fn ask(
        &mut self,
        draft: &PlanDraft,
        planned: &mut DirectoryPlan,
        wanted: &[bool],
        at: usize,
    ) -> io::Result<bool> {
        let rename = &planned.renames[at];
        if let Some(answer) = self.rule_answer(rename) {
            return Ok(answer == RuleAnswer::Include);
        }
        loop {
            let rename = &planned.renames[at];
            self.describe(rename)?;
            let rule = Self::rule(rename).map_or("mapping", RuleId::name);
            write!(self.questions, "({}/{}) {rule} [y,n,a,d,e,q,?]? ", self.at, self.count)?;
            let Some(answer) = self.read_answer()? else {
                self.has_quit = true;
                return Ok(false);
            };
            match answer.as_str() {
                "y" => return Ok(true),
                "n" => return Ok(false),
                "a" => {
                    self.rule_answers.insert(Self::rule(rename), RuleAnswer::Include);
                    return Ok(true);
                }
                "d" => {
                    self.rule_answers.insert(Self::rule(rename), RuleAnswer::Keep);
                    return Ok(false);
                }
                "q" => {
                    self.has_quit = true;
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
        let (old, new) = (display(&rename.old), display(rename.new.as_bytes()));
        let (confidence, reading) = (rename.confidence.as_str(), &rename.reading);
        writeln!(self.questions, "  {old} → {BOLD}{new}{BOLD:#}  {DIM}{confidence}: {reading}{DIM:#}")?;
        if let Some(evidence) = &rename.evidence {
            writeln!(self.questions, "  {DIM}{evidence}{DIM:#}")?;
        }
        for other in &rename.alternatives {
            let name = display(other.new.as_bytes());
            writeln!(self.questions, "  {DIM}or{DIM:#} {name}  {DIM}{}{DIM:#}", other.reading)?;
        }
        Ok(())
    }

    /// Asks for another new name for the rename `at`. Breaks when it has one.
    fn edit(
        &mut self,
        draft: &PlanDraft,
        planned: &mut DirectoryPlan,
        wanted: &[bool],
        at: usize,
    ) -> io::Result<ControlFlow<()>> {
        write!(self.questions, "  new name: ")?;
        let Some(name) = self.read_answer()?.filter(|name| !name.is_empty()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut edited = planned.renames[at].clone();
        if name.as_bytes() == edited.old {
            writeln!(self.questions, "  that is the old name")?;
            return Ok(ControlFlow::Continue(()));
        }
        edited.new = name;
        "by hand".clone_into(&mut edited.reading);
        edited.evidence = None;
        let before = std::mem::replace(&mut planned.renames[at], edited);
        let listing = match draft.list_names(&planned.directory) {
            Ok(listing) => listing,
            Err(error) => {
                planned.renames[at] = before;
                writeln!(self.questions, "  cannot read its directory: {error}")?;
                return Ok(ControlFlow::Continue(()));
            }
        };
        let listing: Vec<&[u8]> = listing.iter().map(Vec::as_slice).collect();
        let staying = planned.renames.iter().zip(wanted).filter(|(_, wanted)| **wanted);
        let renames: Vec<&Rename> = staying.map(|(rename, _)| rename).collect();
        let conflicts = check_renames(Some(self.policy), &listing, &renames);
        let conflict = conflicts.iter().find(|found| renames[found.at].old == planned.renames[at].old);
        if let Some(conflict) = conflict {
            writeln!(self.questions, "  {}", conflict.why)?;
            planned.renames[at] = before;
            return Ok(ControlFlow::Continue(()));
        }
        Ok(ControlFlow::Break(()))
    }

    /// The next line; `None` at the end of the input, and for a line that is not UTF-8.
    fn read_answer(&mut self) -> io::Result<Option<String>> {
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
