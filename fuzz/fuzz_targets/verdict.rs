//! Any name with any profile and any normalization: verdict and check agree, a suggested name is valid and needs no other, and
//! messages never act on a terminal. The first two bytes choose the policy.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use namegate_core::name::display::acts_or_hides;
use namegate_core::name::normalize::Form;
use namegate_core::policy::{
    CheckOutcome, EncodingHint, EntryKind, Normalization, OnMismatch, Policy, Verdict, profile,
};

static POLICIES: LazyLock<Vec<Policy>> = LazyLock::new(|| {
    let mut policies: Vec<Policy> = profile::ALL.iter().map(|p| Policy::from_profiles(&[p])).collect();
    policies.push(Policy::from_profiles(profile::ALL));
    for form in Form::ALL {
        for on_mismatch in OnMismatch::ALL {
            let builder = Policy::builder().profiles(&[profile::by_name("portable").unwrap()]);
            policies.push(builder.normalization(Normalization { form, on_mismatch }).build().unwrap());
        }
    }
    policies
});

fuzz_target!(|input: &[u8]| {
    let Some((&choice, name)) = input.split_first() else { return };
    let policy = &POLICIES[usize::from(choice) % POLICIES.len()];
    let check = policy.check(name);
    match policy.verdict(name) {
        Verdict::Accept(text) => {
            assert_eq!(text.as_bytes(), name);
            assert_ne!(check.outcome(), CheckOutcome::Reject);
        }
        Verdict::Rewrite(stored) => {
            assert_ne!(check.outcome(), CheckOutcome::Reject);
            assert_eq!(policy.verdict(stored.as_bytes()), Verdict::Accept(&stored));
        }
        Verdict::Reject(violation) => assert!(check.violations.contains(&violation)),
    }
    for violation in &check.violations {
        assert!(violation.span.end <= name.len());
        assert!(!check.message(policy, violation).chars().any(acts_or_hides));
    }
    if let Some(repair) = policy.suggest_name(name, EncodingHint::Unknown, &mut |_| false) {
        assert_eq!(policy.verdict(repair.name.as_bytes()), Verdict::Accept(&repair.name));
        assert!(policy.suggest_name(repair.name.as_bytes(), EncodingHint::Unknown, &mut |_| false).is_none());
    }
    let names: Vec<&[u8]> = name.split(|&b| b == b'\n').collect();
    for collision in policy.collisions(&names) {
        assert!(collision.members.len() > 1 && collision.members.is_sorted());
    }
    for kind in [EntryKind::Unknown, EntryKind::Directory, EntryKind::File] {
        policy.check_path(name, kind);
    }
});
