//! Asking which renames are to be in the plan.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Write};
use std::ops::ControlFlow;

use super::{Trouble, show};
use crate::fix::plan::{Rename, name_objection};
use crate::fix::propose::Draft;
use crate::name::display::{display, width};
use crate::policy::rule::RuleId;
use crate::policy::{Policy, Verdict};
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
) -> Result<(), Trouble> {
    let count = draft.renames();
    let mut asking =
        Asking { policy, answers, questions, ruled: HashMap::new(), at: 0, count, has_left: false };
    for planned in &mut draft.directories {
        let path = &planned.directory.path;
        let mut is_told = false;
        let mut wanted = Vec::with_capacity(planned.renames.len());
        // A new name may not be that of another entry here, as far as these are known; applying looks at all of them.
        let mut taken: HashSet<Vec<u8>> =
            planned.renames.iter().map(|rename| rename.new.clone().into_bytes()).collect();
        taken.extend(planned.renames.iter().map(|rename| rename.old.clone()));
        for mut rename in std::mem::take(&mut planned.renames) {
            asking.at += 1;
            if asking.has_left {
                continue;
            }
            if asking.ruling(&rename).is_none() && !is_told {
                writeln!(asking.questions, "{BOLD}{}{BOLD:#}", display(path)).map_err(Trouble::from)?;
                is_told = true;
            }
            if asking
                .wants(&mut rename, &mut taken)
                .map_err(|error| Trouble::new(format_args!("cannot ask about a rename: {error}")))?
            {
                wanted.push(rename);
            }
        }
        planned.renames = wanted;
    }
    draft.directories.retain(|planned| !planned.renames.is_empty() || !planned.skipped.is_empty());
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
    /// The rule under which a rename is asked about: the first that its name breaks.
    fn rule(rename: &Rename) -> Option<RuleId> {
        rename.reasons.first().copied()
    }

    fn ruling(&self, rename: &Rename) -> Option<Ruled> {
        self.ruled.get(&Self::rule(rename)).copied()
    }

    /// Whether the rename is wanted; it may get another new name.
    fn wants(&mut self, rename: &mut Rename, taken: &mut HashSet<Vec<u8>>) -> io::Result<bool> {
        if let Some(ruled) = self.ruling(rename) {
            return Ok(matches!(ruled, Ruled::Take));
        }
        loop {
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
                    if self.edit(rename, taken)?.is_break() {
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

    /// Breaks when the rename has got another name.
    fn edit(&mut self, rename: &mut Rename, taken: &mut HashSet<Vec<u8>>) -> io::Result<ControlFlow<()>> {
        write!(self.questions, "  new name: ")?;
        let Some(name) = self.answer()?.filter(|name| !name.is_empty()) else {
            return Ok(ControlFlow::Continue(()));
        };
        let bytes = name.as_bytes();
        let objection = if let Some(why) = name_objection(bytes) {
            Some(why.to_owned())
        } else if bytes == rename.old {
            Some("is the old one".to_owned())
        } else if bytes != rename.new.as_bytes() && taken.contains(bytes) {
            Some("is that of another entry".to_owned())
        } else if let Verdict::Reject(violation) = self.policy.verdict(bytes) {
            Some(format!("breaks the rule {}", violation.rule))
        } else {
            None
        };
        if let Some(why) = objection {
            writeln!(self.questions, "  {} {why}", display(bytes))?;
            return Ok(ControlFlow::Continue(()));
        }
        taken.insert(bytes.to_vec());
        rename.new = name;
        "by hand".clone_into(&mut rename.reading);
        rename.evidence = None;
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
