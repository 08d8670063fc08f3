//! Holds `docs/DEPENDENCIES.md` equal to the manifests of both packages: every direct dependency has its row in the table
//! of its kind, and no row outlives its dependency.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The packages of the workspace.
const MANIFESTS: [&str; 2] = ["Cargo.toml", "crates/namegate-core/Cargo.toml"];

/// The package that the program builds on: no dependency from elsewhere.
const CORE: &str = "namegate-core";

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
    let (manifests, page) = (MANIFESTS.map(read), read("docs/DEPENDENCIES.md"));
    let declared = |table: &str| -> BTreeSet<String> {
        manifests.iter().flat_map(|manifest| declared(manifest, table)).filter(|name| name != CORE).collect()
    };
    let linked = declared("dependencies");
    for (table, heading) in
        [("dependencies", "In the program"), ("dev-dependencies", "In tests and benches only")]
    {
        let (mut declared, described) = (declared(table), described(&page, heading));
        if table == "dev-dependencies" {
            // What the tests of one package use and another package links has its row already.
            declared.retain(|name| !linked.contains(name));
        }
        assert!(!declared.is_empty(), "no manifest has [{table}]");
        let silent: Vec<_> = declared.difference(&described).collect();
        let stale: Vec<_> = described.difference(&declared).collect();
        assert!(silent.is_empty(), "in [{table}], without a row below \"{heading}\": {silent:?}");
        assert!(stale.is_empty(), "with a row below \"{heading}\", not in [{table}]: {stale:?}");
    }
    for table in ["build-dependencies", "target"] {
        assert!(declared(table).is_empty(), "[{table}] is new: give it a table and a line here");
    }
}

/// How many crates besides namegate's own `cargo tree` finds, by these arguments.
fn crates(args: &[&str]) -> usize {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--target", "x86_64-unknown-linux-gnu"])
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs: it runs this test");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let found: BTreeSet<&str> = text
        .lines()
        .map(|line| line.trim_end_matches(" (*)").trim_end_matches(" (proc-macro)"))
        .filter(|line| !line.is_empty() && !line.starts_with("namegate"))
        .collect();
    found.len()
}

#[test]
fn the_page_counts_as_cargo_does() {
    // Lines end anywhere.
    let page = read("docs/DEPENDENCIES.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let core = ["-p", CORE, "-e", "normal,no-proc-macro"];
    let alone = crates(&[&core[..], &["--no-default-features"]].concat());
    assert!(alone < 30, "a policy alone links {alone} crates");
    let rows = described(&read("docs/DEPENDENCIES.md"), "In the program").len();
    for said in [
        format!("The core links {} crates, and {alone} without its features", crates(&core)),
        format!(
            "the program links {} crates, these {rows} included",
            crates(&["-p", "namegate", "-e", "normal"])
        ),
        format!("building it takes {}:", crates(&["-p", "namegate", "-e", "normal,build"])),
    ] {
        assert!(page.contains(&said), "docs/DEPENDENCIES.md does not say: {said}");
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
