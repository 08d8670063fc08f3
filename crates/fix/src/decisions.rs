//! What a person decided about the renames of a plan. The page of [`super::review`] saves it as JSON Lines; `docs/REVIEW.md`
//! describes them.
//!
//! A file of decisions names its plan by the SHA-256 of the plan's file, because the ids of renames mean something in that plan only.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use namegate_core::policy::Confidence;
use namegate_files::json::Hex;
use namegate_files::signature::{self, TextKind};
use serde::{Deserialize, Serialize};

use super::checked_input::{CheckedInput, StoredPlanError};
use super::plan::parse::{describe, quoted};
use super::plan::{MAX_LINE_BYTES, PlanError, Rename, new_name_objection};

const VERSION: u64 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionsHeader {
    r#type: DecisionsType,
    version: u64,
    /// The SHA-256 of the plan's file.
    plan_sha256: Hex,
    /// The name of the plan's file, for people.
    #[serde(default)]
    plan: String,
    /// When the decisions were saved, in RFC 3339.
    #[serde(default)]
    saved: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DecisionsType {
    Decisions,
}

/// What a person decided about a rename.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The new name of the plan.
    Accept,
    /// The old name stays.
    Leave,
    /// Another new name.
    Rename(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionLine {
    id: u64,
    decision: DecisionWord,
    new: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DecisionWord {
    Accept,
    Leave,
    Rename,
}

/// The decisions about a plan.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    plan_sha256: Vec<u8>,
    /// When they were saved; empty if that is not known.
    pub saved: String,
    /// The CRC-32 of their file.
    pub(super) check: u32,
    by_id: HashMap<u64, Decision>,
}

/// How many renames of a plan were decided in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecisionCounts {
    /// The suggested name was accepted.
    pub accepted: u64,
    /// A person gave another name.
    pub changed: u64,
    /// The old name stays.
    pub left: u64,
    /// Nobody decided.
    pub undecided: u64,
    /// The CRC-32 of the file of decisions.
    pub check: u32,
}

impl fmt::Display for DecisionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, changed, left, undecided, .. } = self;
        write!(
            f,
            "{accepted} accepted, {changed} with another name, {left} left, {undecided} undecided and left"
        )
    }
}

impl Decisions {
    /// Reads JSON Lines.
    ///
    /// # Errors
    /// The file cannot be read, or a line has an error.
    pub fn read(input: impl Read) -> Result<Self, StoredPlanError> {
        let input = BufReader::new(CheckedInput::new(input));
        let mut input = signature::skip(input, TextKind::Syntax, "the decisions")?;
        let (mut decisions, mut number, mut line) = (None::<Self>, 0, Vec::new());
        loop {
            line.clear();
            number += 1;
            if (&mut input).take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if line.trim_ascii().is_empty() {
                continue;
            }
            let added = match &mut decisions {
                None => parse_header(&line).map(|header| decisions = Some(header)),
                Some(decisions) => decisions.add(&line),
            };
            added.map_err(|message| error(number, message))?;
        }
        let Some(mut decisions) = decisions else {
            return Err(error(0, "no line of type `decisions`: the file is empty, or not one of decisions"));
        };
        decisions.check = input.into_inner().1.into_inner().check.finalize();
        Ok(decisions)
    }

    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let DecisionLine { id, decision, new } =
            serde_json::from_slice(line).map_err(|error| describe(&error))?;
        let decision = match (decision, new) {
            (DecisionWord::Accept, None) => Decision::Accept,
            (DecisionWord::Leave, None) => Decision::Leave,
            (DecisionWord::Rename, Some(new)) => Decision::Rename(new),
            (DecisionWord::Rename, None) => return Err("a decision `rename` has no `new`".into()),
            (_, Some(_)) => return Err("`new` belongs to the decision `rename` only".into()),
        };
        match self.by_id.entry(id) {
            Entry::Occupied(_) => Err(format!("a line above decides about the rename {id} too")),
            Entry::Vacant(entry) => {
                entry.insert(decision);
                Ok(())
            }
        }
    }

    /// Fails if they are not about the plan whose file has this SHA-256.
    ///
    /// # Errors
    /// They are about another plan.
    pub fn check_plan(&self, sha256: &[u8]) -> Result<(), PlanError> {
        let message = "the decisions are about another plan, or about this plan before it was edited";
        match self.plan_sha256 == sha256 {
            true => Ok(()),
            false => Err(PlanError { line: 0, message: message.to_owned() }),
        }
    }

    /// Fails if they are about renames that the plan does not have: those that are left when all of it was read.
    pub(super) fn check_rest(&self) -> Result<(), PlanError> {
        self.by_id.keys().min().map_or(Ok(()), |id| {
            let message = format!("the decisions have the rename {id}, which the plan does not have");
            Err(PlanError { line: 0, message })
        })
    }

    /// What was decided about the rename `id`, if anything.
    pub fn of_rename(&self, id: u64) -> Option<&Decision> {
        self.by_id.get(&id)
    }

    /// Carries out what was decided about a rename of the plan; `false` if the entry keeps its name.
    pub(super) fn apply_to(
        &mut self,
        rename: &mut Rename,
        counts: &mut DecisionCounts,
    ) -> Result<bool, String> {
        let (count, is_renamed) = match self.by_id.remove(&rename.id) {
            None => (&mut counts.undecided, false),
            Some(Decision::Leave) => (&mut counts.left, false),
            Some(Decision::Accept) => (&mut counts.accepted, true),
            Some(Decision::Rename(new)) => {
                if let Some(why) = new_name_objection(&rename.old, rename.entry.kind, new.as_bytes()) {
                    return Err(format!("the new name {} in the decisions {why}", quoted(new.as_bytes())));
                }
                let is_other = new.as_bytes() != rename.old;
                rename.new = new;
                (if is_other { &mut counts.changed } else { &mut counts.left }, is_other)
            }
        };
        *count += 1;
        // A person has chosen the name.
        rename.confidence = Confidence::Certain;
        Ok(is_renamed)
    }
}

fn parse_header(line: &[u8]) -> Result<Decisions, String> {
    let header: DecisionsHeader = serde_json::from_slice(line)
        .map_err(|error| format!("the first line must have the type `decisions`: {}", describe(&error)))?;
    match header.version {
        VERSION => {
            Ok(Decisions { plan_sha256: header.plan_sha256.0, saved: header.saved, ..Decisions::default() })
        }
        other => {
            Err(format!("format version {other} is not supported; this program reads version {VERSION}"))
        }
    }
}

fn error(line: usize, message: impl Into<String>) -> StoredPlanError {
    StoredPlanError::Lines(vec![PlanError { line, message: message.into() }])
}
