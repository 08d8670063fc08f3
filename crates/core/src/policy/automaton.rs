//! A policy as a finite automaton over bytes, for programs that cannot call this crate, such as a kernel.
//!
//! An [`Automaton`] accepts or refuses a name; it does not say why. It covers the rules that a finite automaton can check:
//! [`Coverage`] separates them from the others. For every name the automaton refuses exactly if [`Policy::verdict`] refuses
//! under a policy of the covered rules; tests hold this law for every profile.
//!
//! ```
//! use namegate_core::policy::{Policy, automaton::{Automaton, Coverage}, profile};
//! let windows = Policy::from_profiles(&[profile::by_name("windows")?]);
//! let coverage = Coverage::new(&windows);
//! let automaton = Automaton::new(&coverage)?;
//! assert!(automaton.refuses(b"aux.h") && automaton.refuses(b"caf\xE9") && !automaton.refuses(b"report.txt"));
//! // Two names that differ only in case are not a property of one name.
//! assert_eq!(coverage.left_out[0].rule.name(), "collision-case");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::fmt;

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::{alphabet::ByteClasses, primitives::StateID};
use regex_automata::{Anchored, Input, MatchKind};

use super::compile::OnMismatch;
use super::profile::{Limit, Test, Unit};
use super::rule::{RuleId, Severity};
use super::{ActiveRule, AppliesTo, Policy};

mod language;

/// The most memory that the construction may take, in bytes. Policies of all profiles together stay far below it; a list of
/// reserved names from a configuration can have any size.
const MEMORY: usize = 64 << 20;

/// Why an [`Automaton`] does not check a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The rule compares the names of a directory, or checks a path.
    NotOneName,
    /// The rule depends on the text around a code point.
    Context,
    /// The rule depends on a normalization form.
    Normalization,
    /// The rule reads words: their scripts, or how they were decoded.
    Words,
    /// The rule limits a length in a unit other than bytes, UTF-16 units, code points and dots.
    Unit,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOneName => "it depends on other names",
            Self::Context => "it depends on the text around a code point",
            Self::Normalization => "it depends on a normalization form",
            Self::Words => "it reads words",
            Self::Unit => "it counts in a unit of its own",
        })
    }
}

/// A rule that refuses names under the policy but not in the automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The rule.
    pub rule: RuleId,
    /// Why it is left out.
    pub obstacle: Obstacle,
}

/// What of a policy an [`Automaton`] covers. Warnings refuse nothing, so they are in neither list.
#[derive(Clone, Debug)]
pub struct Coverage<'p> {
    /// The rules that the automaton checks, besides those of the encoding, which are in every policy.
    pub covered: Vec<&'p ActiveRule>,
    /// The rules that it does not check.
    pub left_out: Vec<LeftOut>,
}

impl<'p> Coverage<'p> {
    /// Separates the rules of `policy`.
    pub fn new(policy: &'p Policy) -> Self {
        let mut coverage = Self { covered: Vec::new(), left_out: Vec::new() };
        for rule in policy.rules().iter().filter(|rule| rule.severity == Severity::Error) {
            match obstacle(&rule.test) {
                None => coverage.covered.push(rule),
                Some(obstacle) => coverage.leave_out(LeftOut { rule: rule.test.rule(), obstacle }),
            }
        }
        // Who converts checks the converted name, too; who matches finds other spellings.
        if policy.normalization().is_some_and(|n| n.on_mismatch != OnMismatch::Refuse) {
            coverage.leave_out(LeftOut { rule: RuleId::NotInForm, obstacle: Obstacle::Normalization });
        }
        coverage
    }

    fn leave_out(&mut self, left_out: LeftOut) {
        if !self.left_out.contains(&left_out) {
            self.left_out.push(left_out);
        }
    }
}

fn obstacle(test: &Test) -> Option<Obstacle> {
    match test {
        Test::Plain(RuleId::DefaultIgnorable) => Some(Obstacle::Context),
        Test::Plain(RuleId::MixedScript | RuleId::Mojibake | RuleId::LostCharacters) => Some(Obstacle::Words),
        Test::Plain(RuleId::CollisionConfusable)
        | Test::SameForm(_)
        | Test::SameFold { .. }
        | Test::PathLength(_)
        | Test::PathLengthOf(..) => Some(Obstacle::NotOneName),
        // The kernel program sees a name without the kind and the place of its entry.
        Test::Named(names) if names.applies_to != AppliesTo::Everything => Some(Obstacle::NotOneName),
        Test::Form(_) => Some(Obstacle::Normalization),
        Test::Length(limit) => match limit.unit {
            Unit::Bytes | Unit::Utf16 | Unit::CodePoints | Unit::Dots => None,
            Unit::BytesIn(_) | Unit::Utf16In(_) => Some(Obstacle::Normalization),
            _ => Some(Obstacle::Unit),
        },
        Test::Plain(_) | Test::Reserved(_) | Test::Named(_) | Test::Skipped(_) | Test::Unassigned(_) => None,
    }
}

/// The greatest lengths that are allowed. Counters beside the automaton check them: as states they would be thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CounterLimits {
    /// In bytes.
    pub bytes: u32,
    /// In UTF-16 units.
    pub utf16: u32,
    /// In code points.
    pub code_points: u32,
}

impl CounterLimits {
    fn new(rules: &[&ActiveRule]) -> Self {
        let least = |unit: Unit| {
            let max = rules.iter().filter_map(|rule| match rule.test {
                Test::Length(Limit { max, unit: of }) if of == unit => Some(max),
                _ => None,
            });
            max.min().and_then(|max| u32::try_from(max).ok()).unwrap_or(u32::MAX)
        };
        Self { bytes: least(Unit::Bytes), utf16: least(Unit::Utf16), code_points: least(Unit::CodePoints) }
    }
}

/// The policy needs too large an automaton.
#[derive(Clone, Debug)]
pub struct AutomatonError(String);

impl fmt::Display for AutomatonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the policy is too large for an automaton: {}", self.0)
    }
}

impl std::error::Error for AutomatonError {}

/// A minimal deterministic automaton over bytes that accepts or refuses names.
#[derive(Clone, Debug)]
pub struct Automaton {
    /// The class of each byte. Bytes of one class lead from every state to the same one.
    classes: [u8; 256],
    /// The next state, by state and class.
    next: Vec<u16>,
    stride: usize,
    start: u16,
    /// States below this number accept.
    accepting: u16,
    limits: CounterLimits,
}

impl Automaton {
    /// Builds the automaton of the covered rules.
    ///
    /// # Errors
    /// [`AutomatonError`] if the policy is too large; that takes many thousands of reserved names.
    pub fn new(coverage: &Coverage<'_>) -> Result<Self, AutomatonError> {
        let languages = language::of_rules(&coverage.covered);
        let too_large = |e: &dyn fmt::Display| AutomatonError(e.to_string());
        let nfa = thompson::Compiler::new()
            .configure(thompson::Config::new().utf8(false).nfa_size_limit(Some(MEMORY)))
            .build_many_from_hir(&languages)
            .map_err(|e| too_large(&e))?;
        let config = dense::Config::new()
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Anchored)
            .accelerate(false)
            .dfa_size_limit(Some(MEMORY))
            .determinize_size_limit(Some(MEMORY));
        let dfa = dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|e| too_large(&e))?;
        let full = FullTable::read(&dfa, nfa.byte_classes());
        let blocks = full.equivalent_states();
        Self::assemble(&full, &blocks, CounterLimits::new(&coverage.covered))
            .ok_or_else(|| AutomatonError("more than 65,535 states".into()))
    }

    /// Whether `name` is refused.
    pub fn refuses(&self, name: &[u8]) -> bool {
        let mut state = self.start;
        let (mut utf16, mut code_points) = (0, 0);
        for &byte in name {
            let class = self.classes[usize::from(byte)];
            state = self.next[usize::from(state) * self.stride + usize::from(class)];
            let begins = u32::from(byte & 0xC0 != 0x80);
            code_points += begins;
            utf16 += begins + u32::from(byte >= 0xF0);
        }
        state >= self.accepting
            || name.len() > self.limits.bytes as usize
            || utf16 > self.limits.utf16
            || code_points > self.limits.code_points
    }

    /// The number of states.
    pub fn state_count(&self) -> usize {
        self.next.len() / self.stride
    }

    /// The class of each byte.
    pub fn classes(&self) -> &[u8; 256] {
        &self.classes
    }

    /// The next states, [`Automaton::stride`] of them for each state, in the order of the classes.
    pub fn transitions(&self) -> &[u16] {
        &self.next
    }

    /// The number of classes of bytes.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// The state before the first byte.
    pub fn start(&self) -> u16 {
        self.start
    }

    /// A name is refused if its last state is this one or a higher one.
    pub fn first_refusing(&self) -> u16 {
        self.accepting
    }

    /// The lengths that the counters allow.
    pub fn limits(&self) -> CounterLimits {
        self.limits
    }

    /// One state for each block of equivalent ones, the accepting ones first, and one class for equal columns. `None` if a
    /// number does not fit.
    fn assemble(full: &FullTable, blocks: &[u32], limits: CounterLimits) -> Option<Self> {
        let count = *blocks.iter().max()? as usize + 1;
        let mut member = vec![0; count];
        for (state, &block) in blocks.iter().enumerate() {
            member[block as usize] = state;
        }
        member.sort_by_key(|&state| !full.accepts[state]);
        let mut number = vec![0; count];
        for (new, &state) in member.iter().enumerate() {
            number[blocks[state] as usize] = u16::try_from(new).ok()?;
        }
        let number = |state: usize| number[blocks[state] as usize];
        let mut columns: Vec<Vec<u16>> = Vec::new();
        let classes = full.classes.iter().map(|&class| {
            let target = |&state: &usize| number(full.next[state][usize::from(class)] as usize);
            let column: Vec<u16> = member.iter().map(target).collect();
            columns.iter().position(|other| *other == column).unwrap_or_else(|| {
                columns.push(column);
                columns.len() - 1
            }) as u8
        });
        let classes: Vec<u8> = classes.collect();
        Some(Self {
            classes: classes.try_into().expect("there are 256 bytes"),
            next: (0..count).flat_map(|state| columns.iter().map(move |column| column[state])).collect(),
            stride: columns.len(),
            start: number(0),
            accepting: u16::try_from(member.iter().filter(|&&state| full.accepts[state]).count()).ok()?,
            limits,
        })
    }
}

/// The automaton before equivalent states are merged. State 0 is the start.
struct FullTable {
    /// The class of each byte.
    classes: Box<[u8]>,
    /// The next states of each state, by class.
    next: Vec<Vec<u32>>,
    accepts: Vec<bool>,
}

impl FullTable {
    /// Reads the states that can be reached. The automaton of `regex-automata` says which languages a name is in; whether it
    /// is allowed follows from that. So its own minimization would keep states apart that differ in nothing here.
    fn read(dfa: &dense::DFA<Vec<u32>>, classes: &ByteClasses) -> Self {
        let start = dfa
            .start_state_forward(&Input::new(b"").anchored(Anchored::Yes))
            .expect("the automaton has an anchored start, and no byte ends its search");
        let bytes: Vec<u8> = classes.representatives(..).filter_map(|unit| unit.as_u8()).collect();
        let mut states = vec![start];
        let mut numbers: HashMap<StateID, u32> = HashMap::from([(start, 0)]);
        let mut table = Self {
            classes: (0..=u8::MAX).map(|byte| classes.get(byte)).collect(),
            next: Vec::new(),
            accepts: Vec::new(),
        };
        while let Some(&state) = states.get(table.next.len()) {
            let next = bytes.iter().map(|&byte| {
                let next = dfa.next_state(state, byte);
                *numbers.entry(next).or_insert_with(|| {
                    states.push(next);
                    states.len() as u32 - 1
                })
            });
            table.next.push(next.collect());
            let end = dfa.next_eoi_state(state);
            let matches = if dfa.is_match_state(end) { dfa.match_len(end) } else { 0 };
            let languages = (0..matches).map(|at| dfa.match_pattern(end, at).as_usize());
            table.accepts.push(language::is_allowed(languages));
        }
        table
    }

    /// The block of each state; states are in one block if no name tells them apart (Moore's algorithm).
    fn equivalent_states(&self) -> Vec<u32> {
        let mut blocks: Vec<u32> = self.accepts.iter().map(|&accepts| accepts.into()).collect();
        let mut count = 0;
        loop {
            let mut seen: HashMap<Vec<u32>, u32> = HashMap::new();
            let refined = (0..blocks.len()).map(|state| {
                let targets = self.next[state].iter().map(|&next| blocks[next as usize]);
                let signature = targets.chain([blocks[state]]).collect();
                let fresh = seen.len() as u32;
                *seen.entry(signature).or_insert(fresh)
            });
            let refined = refined.collect();
            if seen.len() == count {
                return refined;
            }
            count = seen.len();
            blocks = refined;
        }
    }
}

#[cfg(test)]
mod tests;
