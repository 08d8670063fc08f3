//! Repairs of new names: the name under which a repairing gate stores an entry.
//!
//! The repair of a name depends on the name alone, so that every request finds the entry again. Two names can have the same
//! repair; they are then two names of one entry.

use super::{Existing, Gate, Mode, NAME_MAX, can_be_stored};
use crate::name::escape::reads_as_escape;
use crate::name::substitutes::KnownMap;
use crate::policy::rule::{RuleId, Severity};
use crate::policy::{Confidence, Verdict, Violation};

impl Gate {
    /// The name that is stored instead of `name`; `None` if `name` is stored itself, or if it cannot be repaired.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use namegate_core::gate::{Gate, Intent, Mode};
    /// use namegate_core::policy::{Policy, profile};
    ///
    /// let policy = Policy::from_profiles(&[profile::by_name("windows")?]);
    /// let gate = Gate::new(Arc::new(policy), Mode::Repairing).with_substitutes("to-rclone".parse().ok());
    /// let stored = |name: &[u8]| gate.repaired(name);
    /// assert_eq!(stored(b"a:b").as_deref(), Some("a\u{FF1A}b"));
    /// assert_eq!(stored(b"con").as_deref(), Some("con_"));
    /// assert_eq!(stored(b"good"), None);
    /// let asked = gate.admit_bytes(Intent::Address, b"a:b")?;
    /// assert_eq!((asked.as_bytes(), asked.key_bytes()), (&b"a:b"[..], "a\u{FF1A}b".as_bytes()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn repaired(&self, name: &[u8]) -> Option<String> {
        let is_bad = self.mode == Mode::Repairing && matches!(self.policy.verdict(name), Verdict::Reject(_));
        is_bad.then(|| self.repair(name)).flatten()
    }

    /// The name that is stored instead of `name`, which the policy rejects.
    pub(super) fn repair(&self, name: &[u8]) -> Option<String> {
        if self.mode != Mode::Repairing || !can_be_stored(name) {
            return None;
        }
        let text = std::str::from_utf8(name).ok()?;
        let mut violations = self.policy.check(name).violations;
        violations.retain(|violation| violation.severity == Severity::Error);
        // Long names that begin alike would become one name.
        if name.len() > NAME_MAX || violations.iter().any(|violation| violation.rule == RuleId::NameTooLong) {
            return None;
        }
        let new = self.substitutes.map_or_else(|| text.to_owned(), |map| substitute(map, text, &violations));
        if new.len() > NAME_MAX {
            return None;
        }
        let new = if self.is_stored_as_given(&new) { Some(new) } else { self.suggested(&new) };
        new.filter(|new| self.is_stored_as_given(new))
    }

    fn suggested(&self, text: &str) -> Option<String> {
        let suggested = self.policy.suggest_replacing(text)?;
        (suggested.confidence != Confidence::Guess).then_some(suggested.name)
    }

    fn is_stored_as_given(&self, name: &str) -> bool {
        name.len() <= NAME_MAX
            && !(self.existing() == Existing::Escape && reads_as_escape(name))
            && matches!(self.policy.verdict(name.as_bytes()), Verdict::Accept(_))
    }
}

/// Replaces the characters of `name` that have a violation of their own and a substitute.
fn substitute(map: KnownMap, name: &str, violations: &[Violation]) -> String {
    let is_bad = |at: usize, c: char| {
        violations.iter().any(|violation| {
            let rules =
                [RuleId::ReservedCharacter, RuleId::C0Control, RuleId::TrailingSpace, RuleId::TrailingDot];
            rules.contains(&violation.rule)
                && (violation.span.start, violation.span.end) == (at, at + c.len_utf8())
        })
    };
    let new = |(at, c): (usize, char)| match is_bad(at, c) {
        true => map.substitute(c, at + c.len_utf8() == name.len()).unwrap_or(c),
        false => c,
    };
    name.char_indices().map(new).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::gate::{Intent, Refusal};
    use crate::name::normalize::Form;
    use crate::policy::profile::{Chars, ProfileRule, Test};
    use crate::policy::{Normalization, OnMismatch, Policy, profile};

    fn repairing(policy: Policy) -> Gate {
        Gate::new(Arc::new(policy), Mode::Repairing).with_substitutes(Some(KnownMap::TO_RCLONE))
    }

    fn windows() -> Gate {
        repairing(Policy::from_profiles(&[profile::by_name("windows").unwrap()]))
    }

    #[test]
    fn a_repairing_gate_admits_a_valid_name_that_stays() {
        let gate = windows();
        for (name, stored) in [
            ("a:b", "a：b"),
            ("a?:*", "a？：＊"),
            ("con", "con_"),
            ("end. ", "end.␠"),
            ("a\tb", "a␉b"),
            ("nul:", "nul："),
            ("con.a?", "con_.a？"),
        ] {
            let admitted = gate.admit_bytes(Intent::Create, name.as_bytes()).unwrap();
            assert_eq!(std::str::from_utf8(admitted.as_bytes()), Ok(stored), "{name:?}");
            assert!(admitted.noted().is_some());
            let found = gate.admit_bytes(Intent::Address, name.as_bytes()).unwrap();
            assert_eq!((found.as_bytes(), found.key_bytes()), (name.as_bytes(), stored.as_bytes()));
            assert!(gate.has_other_spellings_bytes(name.as_bytes()));
            assert_eq!(gate.repaired(stored.as_bytes()), None);
            assert_eq!(
                gate.key_bytes(name.as_bytes()),
                name.as_bytes(),
                "an entry that is stored so stays so"
            );
        }
        let enforcing = gate.with_mode(Mode::Enforcing);
        assert!(enforcing.admit_bytes(Intent::Create, b"a:b").is_err());
    }

    #[test]
    fn a_repairing_gate_refuses_what_it_cannot_repair() {
        let gate = windows();
        let long = "?".repeat(255);
        for name in [&b"caf\xE9"[..], b"\xC0\xAF", b"a:\xFF", b"", b".", b"..", b"a/b", long.as_bytes()] {
            assert!(matches!(gate.admit_bytes(Intent::Create, name), Err(Refusal::Violates(_))), "{name:?}");
            assert_eq!(gate.repaired(name), None);
        }
    }

    #[test]
    fn a_name_of_full_length_is_repaired_and_a_longer_one_is_not() {
        let utf8 = profile::by_name("utf8").unwrap();
        let colon = ProfileRule::error(Test::Reserved(Chars::one_of(":")), "test");
        let policy = Policy::builder().profiles(&[utf8]).rule(colon).build().unwrap();
        let gate = repairing(policy).with_substitutes(None);
        let name = |len: usize| format!("{}:", "a".repeat(len - 1));
        let stored = format!("{}_", "a".repeat(NAME_MAX - 1));
        assert_eq!(gate.repaired(name(NAME_MAX).as_bytes()), Some(stored));
        assert_eq!(gate.repaired(name(NAME_MAX + 1).as_bytes()), None);
        // The substitute has three bytes.
        let gate = gate.with_substitutes(Some(KnownMap::TO_RCLONE));
        let stored = format!("{}：", "a".repeat(NAME_MAX - 3));
        assert_eq!(gate.repaired(name(NAME_MAX - 2).as_bytes()), Some(stored));
        assert_eq!(gate.repaired(name(NAME_MAX - 1).as_bytes()), None);
    }

    #[test]
    fn only_the_characters_with_a_violation_are_substituted() {
        let colon = ProfileRule::error(Test::Reserved(Chars::one_of(":")), "test");
        let gate = repairing(Policy::builder().rule(colon).build().unwrap());
        assert_eq!(gate.repaired(b"a:b?*:").as_deref(), Some("a：b?*："));
        assert_eq!(gate.repaired(b"a?"), None);
    }

    #[test]
    fn a_repair_has_the_form_of_a_policy_that_converts() {
        let normalization = Normalization { form: Form::Nfc, on_mismatch: OnMismatch::Convert };
        let windows = profile::by_name("windows").unwrap();
        let policy = Policy::builder().profiles(&[windows]).normalization(normalization).build().unwrap();
        let stored = repairing(policy).repaired("e\u{301}:".as_bytes());
        assert_eq!(stored.as_deref(), Some("é："));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_repair_is_valid_and_stays(
            name in "[\u{1}-\u{1F}\"*:<>?\\\\| .~a-zäé\u{301}\u{200B}\u{202E}\u{E000}\u{F022}：␦]{1,12}",
            at in 0..profile::ALL.len(),
            has_substitutes in any::<bool>(),
        ) {
            let gate = repairing(Policy::from_profiles(&[profile::ALL[at]]));
            let gate = if has_substitutes { gate } else { gate.with_substitutes(None) };
            if let Some(stored) = gate.repaired(name.as_bytes()) {
                prop_assert!(gate.clone().with_mode(Mode::Enforcing).admit_bytes(Intent::Create, stored.as_bytes()).is_ok());
                prop_assert_eq!(gate.repaired(stored.as_bytes()), None);
                prop_assert_ne!(stored, name);
            }
        }
    }
}
