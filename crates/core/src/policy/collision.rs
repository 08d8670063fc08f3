//! Collisions: names in one directory that a target treats as the same name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::active_rule::RuleWeight;
use super::profile::Test;
use super::rule::RuleId;
use super::{Policy, Violation};
use crate::name::casefold::{self, Fold};
use crate::name::normalize::Form;
use crate::name::{Span, confusable};

/// Names that collide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collision {
    /// The indexes of the names in the checked list: at least two, ascending.
    pub members: Vec<usize>,
    /// The violation of each member; its span covers the whole name.
    pub violations: Vec<Violation>,
}

impl Policy {
    /// Whether any rule of the policy compares the names in a directory.
    pub fn finds_collisions(&self) -> bool {
        self.rules.iter().any(|rule| Equivalence::for_test(&rule.test).is_some())
    }

    /// Groups those of `names`, the distinct names in one directory, that are equal under an equivalence of the policy.
    /// Names that are not UTF-8 never collide.
    ///
    /// ```
    /// # use namegate_core::policy::{Policy, profile};
    /// let policy = Policy::from_profiles(&[profile::by_name("windows").unwrap()]);
    /// let groups = policy.collisions(&[b"Makefile", b"readme", b"README", b"makefile"]);
    /// let members: Vec<_> = groups.iter().map(|g| g.members.clone()).collect();
    /// assert_eq!(members, [[0, 3], [1, 2]]);
    /// ```
    pub fn collisions(&self, names: &[&[u8]]) -> Vec<Collision> {
        let texts: Vec<(usize, &str)> = names
            .iter()
            .enumerate()
            .filter_map(|(at, name)| Some((at, std::str::from_utf8(name).ok()?)))
            .collect();
        let mut found = BTreeMap::new();
        for rule in &self.rules {
            let Some(equivalence) = Equivalence::for_test(&rule.test) else { continue };
            for members in equivalence.groups(&texts) {
                // Windows and exFAT report one collision, not two.
                let weight = found.entry((members, rule.test.rule())).or_insert_with(|| rule.weight());
                *weight = weight.merge(rule.weight());
            }
        }
        found
            .into_iter()
            .map(|((members, rule), weight)| Collision::new(members, rule, weight, names))
            .collect()
    }
}

impl Collision {
    fn new(members: Vec<usize>, rule: RuleId, weight: RuleWeight, names: &[&[u8]]) -> Self {
        let span = |&at: &usize| Span::new(0, names[at].len());
        let violations = members.iter().map(|at| weight.violation(rule, span(at))).collect();
        Self { members, violations }
    }
}

/// When two names count as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Equivalence {
    Form(Form),
    Fold(Fold, Option<Form>),
    Look,
}

impl Equivalence {
    /// The equivalence by which a test compares names; `None` if it compares none.
    pub(super) fn for_test(test: &Test) -> Option<Self> {
        match *test {
            Test::SameForm(form) => Some(Self::Form(form)),
            Test::SameFold { fold, form } => Some(Self::Fold(fold, form)),
            Test::Plain(RuleId::CollisionConfusable) => Some(Self::Look),
            _ => None,
        }
    }

    /// The comparison key: equal for equal names.
    pub(super) fn key(self, name: &str) -> Cow<'_, str> {
        match self {
            Self::Form(form) => casefold::key(name, Some(form), None),
            Self::Fold(fold, form) => casefold::key(name, form, Some(fold)),
            // The skeleton of ASCII is not the identity (`1` becomes `l`), so there is no shortcut.
            Self::Look => Cow::Owned(confusable::skeleton(name)),
        }
    }

    /// Whether these names, equal under the equivalence, are so under a weaker one that has a rule of its own.
    fn is_explained_by_form(self, names: &mut dyn Iterator<Item = &str>) -> bool {
        let Self::Fold(_, Some(form)) = self else { return false };
        let mut keys = names.map(|name| casefold::key(name, Some(form), None));
        let Some(first) = keys.next() else { return true };
        keys.all(|key| key == first)
    }

    fn groups(self, texts: &[(usize, &str)]) -> Vec<Vec<usize>> {
        let mut keyed: Vec<(Cow<'_, str>, usize, &str)> =
            texts.iter().map(|&(at, name)| (self.key(name), at, name)).collect();
        keyed.sort_unstable();
        keyed
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|group| group.len() > 1)
            .filter(|group| !self.is_explained_by_form(&mut group.iter().map(|&(_, _, name)| name)))
            .map(|group| group.iter().map(|&(_, at, _)| at).collect())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::profile;

    #[test]
    fn names_are_equal_by_form_by_case_or_by_look_and_only_as_text() {
        let members = |profile: &str, names: &[&[u8]]| {
            let policy = Policy::from_profiles(&[profile::by_name(profile).unwrap()]);
            let found = policy.collisions(names).into_iter();
            found.map(|collision| (collision.violations[0].rule, collision.members)).collect::<Vec<_>>()
        };
        let look = [&b"scope"[..], b"x", "ѕсоре".as_bytes()];
        assert_eq!(members("security", &look), [(RuleId::CollisionConfusable, vec![0, 2])]);
        assert_eq!(members("windows", &look), []);
        let case = [&b"caf\xE9"[..], b"CAF\xE9", b"b", b"a", b"A", b"B"];
        let cases = [(RuleId::CollisionCase, vec![2, 5]), (RuleId::CollisionCase, vec![3, 4])];
        assert_eq!(members("windows", &case), cases);
        assert_eq!(members("utf8", &case), []);
        // What one form explains is no collision of case as well.
        let form = ["é".as_bytes(), "e\u{301}".as_bytes()];
        assert_eq!(members("macos", &form), [(RuleId::CollisionNormalization, vec![0, 1])]);
        let both = ["é".as_bytes(), "e\u{301}".as_bytes(), "É".as_bytes()];
        assert!(members("macos", &both).contains(&(RuleId::CollisionCase, vec![0, 1, 2])));
    }
}
