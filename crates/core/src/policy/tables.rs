//! The rules of a policy, arranged for checking: no check searches the list of rules. Made once, when a policy is compiled.

use super::active_rule::{ActiveRule, RuleWeight};
use super::collision::Equivalence;
use super::entry::AppliesTo;
use super::profile::{Chars, Limit, NamePart, ReservedNames, Test};
use super::rule::{RuleId, RuleKind};
use crate::name::age::{self, AssignedSet};
use crate::name::normalize::Form;

/// The number of rules, for tables indexed by [`RuleId`].
pub(super) const RULES_LEN: usize = RuleId::PathTooLong as usize + 1;

/// A reserved word.
#[derive(Clone, Debug)]
pub(super) struct ReservedWord {
    pub(super) part: NamePart,
    pub(super) word: Box<[u8]>,
    pub(super) applies_to: AppliesTo,
    pub(super) weight: RuleWeight,
}

impl ReservedWord {
    fn all(names: &ReservedNames, weight: RuleWeight) -> impl Iterator<Item = Self> {
        let &ReservedNames { part, applies_to, .. } = names;
        names.iter().map(move |word| Self { part, word: word.as_bytes().into(), applies_to, weight })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Tables {
    /// The rules that need no parameter.
    pub(super) plain: [Option<RuleWeight>; RULES_LEN],
    /// Versions of Unicode other than the one compiled in, for `unassigned`.
    pub(super) ages: Vec<(AssignedSet, RuleWeight)>,
    /// For each ASCII character the weight with which it is reserved.
    pub(super) reserved_ascii: Box<[Option<RuleWeight>; 128]>,
    /// The reserved characters of rules that have some beyond ASCII.
    pub(super) reserved_beyond_ascii: Vec<(Chars, RuleWeight)>,
    /// Words that are compared with the base of a name.
    pub(super) bases: Vec<ReservedWord>,
    /// Words that are compared with other parts of a name.
    pub(super) words: Vec<ReservedWord>,
    /// Words of names that programs of the target skip.
    pub(super) skipped: Vec<ReservedWord>,
    pub(super) lengths: Vec<(Limit, RuleWeight)>,
    pub(super) path_lengths: Vec<(AppliesTo, Limit, RuleWeight)>,
    pub(super) forms: Vec<(Form, RuleWeight)>,
    /// Whether names are compared by an equivalence that fingerprints reflect.
    pub(super) compares_spellings: bool,
    /// The other equivalences, each with a seed.
    pub(super) other_equivalences: Vec<(Equivalence, u64)>,
    /// Whether any rule checks single code points.
    pub(super) reads_scalars: bool,
    /// Whether any rule needs the class of a code point.
    pub(super) reads_classes: bool,
}

impl Tables {
    /// Whether the policy has a rule that has no parameters.
    pub(super) fn has(&self, rule: RuleId) -> bool {
        self.plain[rule as usize].is_some()
    }

    pub(super) fn new(rules: &[ActiveRule]) -> Self {
        let mut tables = Self {
            plain: [None; RULES_LEN],
            ages: Vec::new(),
            reserved_ascii: Box::new([None; 128]),
            reserved_beyond_ascii: Vec::new(),
            bases: Vec::new(),
            words: Vec::new(),
            skipped: Vec::new(),
            lengths: Vec::new(),
            path_lengths: Vec::new(),
            forms: Vec::new(),
            compares_spellings: false,
            other_equivalences: Vec::new(),
            reads_scalars: false,
            reads_classes: false,
        };
        for rule in rules {
            tables.add(&rule.test, rule.weight());
        }
        tables
    }

    fn add(&mut self, test: &Test, weight: RuleWeight) {
        match Equivalence::for_test(test) {
            Some(equivalence) if equivalence.is_in_fingerprint() => self.compares_spellings = true,
            Some(equivalence) if self.other_equivalences.iter().all(|&(other, _)| other != equivalence) => {
                let seed = (self.other_equivalences.len() as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                self.other_equivalences.push((equivalence, seed));
            }
            _ => {}
        }
        self.reads_scalars |= test.rule().rule().kind == RuleKind::Scalar;
        match test {
            Test::Plain(rule) => {
                self.plain[*rule as usize] = Some(weight);
                self.reads_classes |= rule.rule().kind == RuleKind::Scalar && *rule != RuleId::Iso2022Escape;
            }
            Test::Unassigned(None) => {
                self.plain[RuleId::Unassigned as usize] = Some(weight);
                self.reads_classes = true;
            }
            Test::Unassigned(Some(version)) => {
                let assigned = age::assigned_by(*version).expect("profiles state known versions of Unicode");
                self.ages.push((assigned, weight));
            }
            Test::Reserved(chars) => {
                if !chars.is_ascii() {
                    self.reserved_beyond_ascii.push((chars.clone(), weight));
                }
                for (byte, known) in (0_u8..).zip(self.reserved_ascii.iter_mut()) {
                    if chars.contains(char::from(byte)) {
                        *known = Some(known.map_or(weight, |known: RuleWeight| known.merge(weight)));
                    }
                }
            }
            Test::Named(names) => {
                let list = if names.part == NamePart::Base { &mut self.bases } else { &mut self.words };
                list.extend(ReservedWord::all(names, weight));
            }
            Test::Skipped(names) => self.skipped.extend(ReservedWord::all(names, weight)),
            Test::Length(limit) => self.lengths.push((*limit, weight)),
            Test::PathLength(limit) => self.path_lengths.push((AppliesTo::Everything, *limit, weight)),
            Test::PathLengthOf(applies_to, limit) => self.path_lengths.push((*applies_to, *limit, weight)),
            Test::Form(form) => self.forms.push((*form, weight)),
            // The names of a directory are compared by their own code.
            Test::SameForm(_) | Test::SameFold { .. } => {}
        }
    }
}
