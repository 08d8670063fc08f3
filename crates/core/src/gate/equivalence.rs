//! What makes different names one name.

use super::Gate;
use crate::name::casefold::Fold;
use crate::name::normalize::Form;
use crate::policy::OnMismatch;

/// Which names are one name but for case, as a target has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IgnoreCase {
    /// As NTFS: [`Fold::Ntfs`].
    Ntfs,
    /// As APFS: full folding of canonically equivalent names.
    Apfs,
    /// Full folding, without normalization.
    Unicode,
    /// Only A to Z.
    Ascii,
}

/// What makes different names equal: a form, a fold, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NameEquality {
    pub(super) form: Option<Form>,
    pub(super) fold: Option<Fold>,
}

impl Gate {
    /// Whether names that differ only in case are equal.
    pub fn ignores_case(&self) -> bool {
        self.ignore_case.is_some()
    }

    /// What makes different names equal, if anything does.
    pub fn equivalence(&self) -> NameEquality {
        let normalization = self.policy.normalization();
        let compared = normalization.filter(|normalization| normalization.on_mismatch != OnMismatch::Refuse);
        let form = compared.map(|normalization| normalization.form);
        match self.ignore_case {
            None => NameEquality { form, fold: None },
            Some(IgnoreCase::Ntfs) => NameEquality { form, fold: Some(Fold::Ntfs) },
            Some(IgnoreCase::Apfs) => NameEquality { form: form.or(Some(Form::Nfd)), fold: Some(Fold::Full) },
            Some(IgnoreCase::Unicode) => NameEquality { form, fold: Some(Fold::Full) },
            Some(IgnoreCase::Ascii) => NameEquality { form, fold: Some(Fold::Ascii) },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::gate::{EncodingConflict, Intent, Mode};
    use crate::name::substitutes::KnownMap;
    use crate::policy::{Normalization, Policy};

    fn gate(ignore_case: IgnoreCase, normalization: Option<(Form, OnMismatch)>) -> Gate {
        let builder = Policy::builder();
        let builder = match normalization {
            Some((form, on_mismatch)) => builder.normalization(Normalization { form, on_mismatch }),
            None => builder,
        };
        Gate::new(Arc::new(builder.build().unwrap()), Mode::Enforcing).with_ignore_case(Some(ignore_case))
    }

    #[test]
    fn each_table_makes_the_names_equal_that_its_system_does() {
        use IgnoreCase::{Apfs, Ascii, Ntfs, Unicode};
        let pairs = [
            ("Readme.TXT", "README.txt", &[Ntfs, Apfs, Unicode, Ascii][..]),
            ("É", "é", &[Ntfs, Apfs, Unicode]),
            ("\u{C9}", "e\u{301}", &[Apfs]),
            ("straße", "STRASSE", &[Apfs, Unicode]),
            ("ς", "σ", &[Apfs, Unicode]),
            ("K", "\u{212A}", &[Apfs, Unicode]),
            ("I", "ı", &[]),
            ("a", "b", &[]),
        ];
        for (one, other, equal) in pairs {
            for table in [Ntfs, Apfs, Unicode, Ascii] {
                let gate = gate(table, None);
                let [one_key, other_key] = [one, other].map(|name| gate.key_bytes(name.as_bytes()));
                assert_eq!(one_key == other_key, equal.contains(&table), "{one} {other} {table:?}");
                let are_known =
                    [one, other].iter().all(|name| gate.has_other_spellings_bytes(name.as_bytes()));
                assert!(are_known || !equal.contains(&table), "{one} {other} {table:?}");
            }
        }
    }

    #[test]
    fn an_entry_keeps_its_name_or_its_form_and_has_the_key_of_all_spellings() {
        let given = "E\u{301}";
        for (on_mismatch, stored) in [(OnMismatch::Match, given), (OnMismatch::Convert, "É")] {
            let gate = gate(IgnoreCase::Ntfs, Some((Form::Nfc, on_mismatch)));
            let made = gate.admit_bytes(Intent::Create, given.as_bytes()).unwrap();
            assert_eq!(made.as_bytes(), stored.as_bytes());
            for spelling in ["é", "e\u{301}", "É", given] {
                let asked = gate.admit_bytes(Intent::Address, spelling.as_bytes()).unwrap();
                assert_eq!((asked.as_bytes(), asked.key_bytes()), (spelling.as_bytes(), made.key_bytes()));
            }
            let (shown, admitted) = gate.show_bytes(stored.as_bytes()).unwrap();
            assert_eq!((&*shown, admitted.key_bytes()), (stored.as_bytes(), made.key_bytes()));
        }
        // ÿ stands for a backslash, and Ÿ is another name's.
        let windows = Policy::from_profiles(&[crate::policy::profile::by_name("windows").unwrap()]);
        let encoding = Gate::new(Arc::new(windows), Mode::Encoding).with_substitutes(KnownMap::TO_CATIA);
        assert_eq!(encoding.check_encoding(), Ok(()));
        let ignoring = |table| encoding.clone().with_ignore_case(Some(table)).check_encoding();
        assert_eq!(ignoring(IgnoreCase::Ntfs), Err(EncodingConflict::Letter(KnownMap::TO_CATIA)));
        assert_eq!(ignoring(IgnoreCase::Ascii), Ok(()));
        // A name that is not UTF-8 has one spelling.
        assert!(!gate(IgnoreCase::Apfs, None).has_other_spellings_bytes(b"a\xFF"));
    }
}
