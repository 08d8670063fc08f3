//! Holds `docs/DEPENDENCIES.md` equal to `Cargo.toml`: every direct dependency has its row in the table of its kind, and
//! no row outlives its dependency.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// The names in one table of a manifest, such as `dev-dependencies`.
fn declared(manifest: &str, table: &str) -> BTreeSet<String> {
    let manifest: toml::Table = manifest.parse().expect("a manifest is TOML");
    manifest.get(table).and_then(toml::Value::as_table).into_iter().flat_map(|t| t.keys().cloned()).collect()
}

/// The names in the first cells of the tables below one heading: rows that begin with a name in backquotes.
fn described(page: &str, heading: &str) -> BTreeSet<String> {
    let is_heading = |line: &&str| line.starts_with('#');
    let row = |line: &str| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned());
    page.lines()
        .skip_while(|line| line.trim_start_matches('#').trim() != heading || !is_heading(line))
        .skip(1)
        .take_while(|line| !is_heading(line))
        .filter_map(row)
        .collect()
}

#[test]
fn every_dependency_has_its_row_and_every_row_its_dependency() {
    let (manifest, page) = (read("Cargo.toml"), read("docs/DEPENDENCIES.md"));
    for (table, heading) in
        [("dependencies", "In the program"), ("dev-dependencies", "In tests and benches only")]
    {
        let (declared, described) = (declared(&manifest, table), described(&page, heading));
        assert!(!declared.is_empty(), "Cargo.toml has no [{table}]");
        let silent: Vec<_> = declared.difference(&described).collect();
        let stale: Vec<_> = described.difference(&declared).collect();
        assert!(silent.is_empty(), "in [{table}], without a row below \"{heading}\": {silent:?}");
        assert!(stale.is_empty(), "with a row below \"{heading}\", not in [{table}]: {stale:?}");
    }
    for table in ["build-dependencies", "target"] {
        assert!(declared(&manifest, table).is_empty(), "[{table}] is new: give it a table and a line here");
    }
}

#[test]
fn rows_and_entries_are_told_from_their_surroundings() {
    let manifest = "[dependencies]\na = \"1\"\nb-c = { version = \"2\" }\n[dev-dependencies]\nd = \"1\"\n";
    assert_eq!(declared(manifest, "dependencies"), BTreeSet::from(["a".into(), "b-c".into()]));
    assert_eq!(declared(manifest, "build-dependencies"), BTreeSet::new());
    let page = "# One\n| `x` | no |\n## Two\nwords `y` |\n| name | what |\n|---|---|\n| `a` | `z` |\n## Three\n| `q` | |\n";
    assert_eq!(described(page, "Two"), BTreeSet::from(["a".into()]));
    assert_eq!(described(page, "Four"), BTreeSet::new());
}
