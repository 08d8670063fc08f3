//! Checking an accepted name allocates nothing, whatever the policy: verified by a counting allocator.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "an allocator cannot be written without it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::OsStr;
use std::hint::black_box;
use std::sync::Arc;

use namegate_core::gate::{Gate, Intent, Mode};
use namegate_core::name::normalize::Form;
use namegate_core::policy::rule::{RULES, Severity};
use namegate_core::policy::{Normalization, OnMismatch, Policy, Verdict, profile};

/// Counts allocations per thread, so that parallel tests do not disturb the count.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded to the system's allocator with its arguments unchanged; the counter is a constant
// thread-local without a destructor, so touching it neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` comes from `alloc` above, that is from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of<T>(work: impl FnOnce() -> T) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    black_box(work());
    ALLOCATIONS.with(Cell::get) - before
}

/// Long names, names in many scripts, names that nearly break a rule, and names with warnings.
fn names() -> Vec<String> {
    let long = ["a", "é", "日", "\u{1F600}", "e\u{301}", "ab."].map(|text| text.repeat(120 / text.len()));
    let short = [
        "report-2024.txt",
        "REPORT.TXT",
        ".gitignore",
        "gitk",
        "common.h",
        "Übersicht.pdf",
        "отчёт.docx",
        "日本語のファイル",
        "한국어.txt",
        "می\u{200C}خواهم",
        "👩\u{200D}👩\u{200D}👧 family",
        "🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}",
        "❤\u{FE0F}",
        "A\u{30A}ngstro\u{308}m",
        "🦒.png",
        "com0.txt",
        "clock$",
        "a:b",
        "-rf",
        "~x",
        "p\u{430}ypal",
        "cafÃ©",
        "a\u{A0}b",
        "x\u{F022}",
        "~$draft",
        "forms",
        "~1000000é",
    ];
    short.map(String::from).into_iter().chain(long).collect()
}

fn policies() -> Vec<(String, Policy)> {
    let one = profile::ALL.iter().map(|p| (p.name.to_owned(), Policy::from_profiles(&[p])));
    let pairs = [["windows", "macos"], ["portable", "security"]];
    let both = pairs
        .map(|pair| (pair.join(","), Policy::from_profiles(&pair.map(|p| profile::by_name(p).unwrap()))));
    let everything = RULES.iter().fold(Policy::builder().profiles(profile::ALL), |builder, rule| {
        let is_word =
            matches!(rule.name, "mojibake" | "lost-characters" | "dot-git-lookalike" | "mixed-script");
        if is_word { builder.severity(rule.id, Some(Severity::Warn)) } else { builder }
    });
    let forms = Form::ALL.into_iter().flat_map(|form| {
        OnMismatch::ALL.map(|on_mismatch| {
            let policy = Policy::builder().normalization(Normalization { form, on_mismatch });
            (format!("{form} {}", on_mismatch.as_str()), policy.build().unwrap())
        })
    });
    one.chain(both).chain(forms).chain([("everything".to_owned(), everything.build().unwrap())]).collect()
}

#[test]
fn accepting_a_name_allocates_nothing_under_any_policy() {
    for (which, policy) in policies() {
        let mut accepted = 0;
        for name in names() {
            // Run it once without counting: tables of the data crates may be built at their first use.
            if !matches!(policy.verdict(name.as_bytes()), Verdict::Accept(_)) {
                continue;
            }
            accepted += 1;
            let count = allocations_of(|| matches!(policy.verdict(name.as_bytes()), Verdict::Accept(_)));
            assert_eq!(count, 0, "{name:?} under {which}");
        }
        assert!(accepted > 0, "{which} accepts none of the names");
    }
}

#[test]
fn admitting_a_name_equal_to_its_key_allocates_nothing() {
    for on_mismatch in OnMismatch::ALL {
        let normalization = Normalization { form: Form::Nfc, on_mismatch };
        let strict = profile::by_name("strict").unwrap();
        let policy = Policy::builder().profiles(&[strict]).normalization(normalization).build().unwrap();
        let gate = Gate::new(Arc::new(policy), Mode::Enforcing);
        for name in ["report.txt", "Übersicht.pdf", "日本語", "👩\u{200D}👩\u{200D}👧"] {
            for intent in [Intent::Create, Intent::Address] {
                let count = allocations_of(|| gate.admit(intent, OsStr::new(name)).is_ok());
                assert_eq!(count, 0, "{name} for {intent:?}, {}", on_mismatch.as_str());
            }
        }
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations_of(|| Vec::<u8>::with_capacity(black_box(10))), 1);
    assert_eq!(allocations_of(|| black_box(1) + 1), 0);
}
