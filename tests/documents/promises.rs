//! Checks that every promise of `docs/SEMANTICS.md` names tests, and that they exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::markdown::{read, root};

/// The text of all Rust files below `dir`.
fn sources(dir: &Path) -> String {
    let entries = fs::read_dir(dir).expect("the directory is part of the repository");
    entries
        .map(|entry| {
            let path = entry.expect("the directory can be read").path();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => sources(&path),
                Some("rs") => fs::read_to_string(&path).expect("sources are UTF-8"),
                _ => String::new(),
            }
        })
        .collect()
}

/// The names of all functions in the sources.
pub fn functions() -> BTreeSet<String> {
    let sources = ["src", "tests", "crates"].map(|dir| sources(&root().join(dir))).concat();
    let names = sources.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// Texts in backquotes that look like the name of a test.
fn tests_named(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| word.matches('_').count() >= 3 && !word.contains([' ', ':', '.']))
}

#[test]
fn every_promise_names_tests_that_exist() {
    let document = read("docs/SEMANTICS.md");
    let functions = functions();
    let mut promises = 0;
    for section in document.split("\n## ").skip(1) {
        let promised = section.split("\nDecided here:").next().unwrap_or_default();
        for promise in promised.split("\n- ").skip(1) {
            let mut held = tests_named(promise).peekable();
            assert!(held.peek().is_some(), "no test holds this: {promise}");
            for test in held {
                assert!(functions.contains(test), "there is no test `{test}`: {promise}");
            }
            promises += 1;
        }
    }
    assert!(promises > 20, "only {promises} promises were understood");
}
