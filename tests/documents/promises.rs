//! Checks that every promise of `docs/SEMANTICS.md` and the pages in `docs/semantics` names tests, and that they exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::markdown::{pages, read, root};

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

/// Promises that the pages have. The number grows with each one.
const PROMISES: usize = 275;

#[test]
fn every_promise_names_tests_that_exist() {
    let functions = functions();
    let mut promises = 0;
    for page in
        pages().iter().filter(|page| *page == "docs/SEMANTICS.md" || page.starts_with("docs/semantics/"))
    {
        let document = read(page);
        for test in tests_named(&document) {
            assert!(functions.contains(test), "{page}: there is no test `{test}`");
        }
        for section in document.split("\n## ").skip(1) {
            let end = ["\nDecided here:", "\nNot promised"].map(|words| section.find(words));
            let promised = &section[..end.into_iter().flatten().min().unwrap_or(section.len())];
            for promise in promised.split("\n- ").skip(1) {
                assert!(tests_named(promise).next().is_some(), "{page}: no test holds this: {promise}");
                promises += 1;
            }
        }
    }
    assert!(
        promises >= PROMISES,
        "the pages have {promises} promises, not {PROMISES}: add or mend, do not drop"
    );
}
