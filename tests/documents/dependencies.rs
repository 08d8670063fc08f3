//! Compares `docs/DEPENDENCIES.md` with the manifests of both packages: every direct dependency has a row in the right table,
//! and every row has a dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use super::markdown::{read, root};

/// The manifests of the program and of the packages that it consists of.
fn program() -> Vec<String> {
    let crates = fs::read_dir(root().join("crates")).expect("it can be read");
    let names = crates.map(|entry| entry.expect("it can be read").file_name().into_string().expect("UTF-8"));
    let manifests = names.map(|name| format!("crates/{name}/Cargo.toml"));
    let program = manifests.filter(|path| !ARROW.contains(&&**path) && root().join(path).exists());
    program.chain(["Cargo.toml".into()]).collect()
}

/// The packages for engines that read Arrow.
const ARROW: [&str; 2] = ["crates/arrow/Cargo.toml", "crates/python/Cargo.toml"];

/// The package that the program builds on.
const CORE: &str = "namegate-core";

/// Whether a crate is a package of the workspace.
fn is_own(krate: &str) -> bool {
    krate.starts_with("namegate")
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
    let page = read("docs/DEPENDENCIES.md");
    let (program, arrow) = (program(), ARROW.map(String::from));
    let all = [&program[..], &arrow].concat();
    let declared = |packages: &[String], table: &str| -> BTreeSet<String> {
        // Those of the workspace come from nowhere else.
        packages.iter().flat_map(|path| declared(&read(path), table)).filter(|name| !is_own(name)).collect()
    };
    let (linked, in_program) = (declared(&all, "dependencies"), declared(&program, "dependencies"));
    let tables = [
        (in_program.clone(), "In the program"),
        (&linked - &in_program, "In namegate-arrow and the Python package"),
        // A crate that the tests of one package use and another package links already has its row.
        (&declared(&all, "dev-dependencies") - &linked, "In tests and benches only"),
    ];
    for (declared, heading) in tables {
        let described = described(&page, heading);
        assert!(!declared.is_empty(), "no dependency belongs below \"{heading}\"");
        let silent: Vec<_> = declared.difference(&described).collect();
        let stale: Vec<_> = described.difference(&declared).collect();
        assert!(silent.is_empty(), "without a row below \"{heading}\": {silent:?}");
        assert!(stale.is_empty(), "with a row below \"{heading}\", but not declared: {stale:?}");
    }
    for table in ["build-dependencies", "target"] {
        assert!(declared(&all, table).is_empty(), "[{table}] is new: give it a table and a line here");
    }
}

/// The output of `cargo tree` for Linux on x86-64, with these arguments.
fn tree(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--target", "x86_64-unknown-linux-gnu"])
        .args(args)
        .current_dir(root())
        .output()
        .expect("cargo runs: it runs this test");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("names of crates are ASCII")
}

/// The number of crates in the output of `cargo tree` with these arguments, without namegate's own.
fn crates(args: &[&str]) -> usize {
    let text = tree(&[&["--prefix", "none"], args].concat());
    let found: BTreeSet<&str> = text
        .lines()
        .map(|line| line.trim_end_matches(" (*)").trim_end_matches(" (proc-macro)"))
        .filter(|line| !line.is_empty() && !line.starts_with("namegate"))
        .collect();
    found.len()
}

/// Each crate with those that it depends on, as `name version`.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The graph behind the text of `cargo tree --prefix depth`, where a crate's dependencies stand below its first line.
fn graph(text: &str) -> Graph {
    let (mut graph, mut above) = (Graph::new(), Vec::<String>::new());
    for line in text.lines() {
        let krate = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let Ok(depth) = line[..line.len() - krate.len()].parse() else { continue };
        let krate = krate.split(' ').take(2).collect::<Vec<_>>().join(" ");
        above.truncate(depth);
        if let Some(parent) = above.last() {
            graph.entry(parent.clone()).or_default().insert(krate.clone());
        }
        above.push(krate);
    }
    graph
}

/// How many crates can be reached from namegate, when its packages do not depend on `without` themselves.
fn reached(graph: &Graph, without: &str) -> usize {
    let mut reached = BTreeSet::new();
    let mut ahead: Vec<&str> =
        graph.keys().map(String::as_str).filter(|krate| krate.starts_with("namegate ")).collect();
    while let Some(krate) = ahead.pop() {
        if reached.insert(krate) {
            let next = graph.get(krate).into_iter().flatten().map(String::as_str);
            ahead.extend(next.filter(|next| !(is_own(krate) && next.split(' ').next() == Some(without))));
        }
    }
    reached.into_iter().filter(|krate| !is_own(krate)).count()
}

#[test]
fn the_page_says_how_many_crates_would_go_with_each_row() {
    let page = read("docs/DEPENDENCIES.md");
    for (heading, edges) in
        [("In the program", "normal,build"), ("In tests and benches only", "normal,build,dev")]
    {
        let graph = graph(&tree(&["-p", "namegate", "-e", edges, "--prefix", "depth"]));
        let all = reached(&graph, "");
        assert!(all > 100, "only {all} crates were found");
        for name in described(&page, heading) {
            let row =
                page.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).expect("it has a row");
            let said = row.trim_end_matches([' ', '|']).rsplit("| ").next().expect("a row has cells");
            let alone = (all - reached(&graph, &name)).to_string();
            assert_eq!(said.split(',').next(), Some(alone.as_str()), "{name}, the last cell");
        }
    }
}

#[test]
fn the_page_counts_as_cargo_does() {
    // Sentences can be broken across lines anywhere.
    let page = read("docs/DEPENDENCIES.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let core = ["-p", CORE, "-e", "normal,no-proc-macro"];
    let alone = crates(&[&core[..], &["--no-default-features"]].concat());
    assert!(alone <= 30, "a policy alone links {alone} crates");
    let rows = described(&read("docs/DEPENDENCIES.md"), "In the program").len();
    let program = ["-p", "namegate", "-e", "normal"];
    let (all, plain) = (crates(&program), crates(&[&program[..], &["--no-default-features"]].concat()));
    for said in [
        format!("The core links {} crates, and {alone} without its features", crates(&core)),
        format!("the program links {all} crates, including the {rows} in the table below"),
        format!(
            "Without its features `git`, `archive`, `guard` and `parquet` it links {plain}, {} fewer",
            all - plain
        ),
        format!("Building it takes {}:", crates(&["-p", "namegate", "-e", "normal,build"])),
    ] {
        assert!(page.contains(&said), "docs/DEPENDENCIES.md does not say: {said}");
    }
}

#[test]
fn rows_and_entries_are_recognized() {
    let manifest = "[dependencies]\na = \"1\"\nb-c = { version = \"2\" }\n[dev-dependencies]\nd = \"1\"\n";
    assert_eq!(declared(manifest, "dependencies"), BTreeSet::from(["a".into(), "b-c".into()]));
    assert_eq!(declared(manifest, "build-dependencies"), BTreeSet::new());
    let page = "# One\n| `x` | no |\n## Two\nwords `y` |\n| name | what |\n|---|---|\n| `a` | `z` |\n## Three\n| `q` | |\n";
    assert_eq!(described(page, "Two"), BTreeSet::from(["a".into()]));
    assert_eq!(described(page, "Four"), BTreeSet::new());
    let graph = graph("0namegate v1 (/x)\n1a v1\n2b v1\n3c v2 (*)\n1d v1\n2b v1 (*)\n");
    assert_eq!([reached(&graph, ""), reached(&graph, "a"), reached(&graph, "d")], [4, 3, 3]);
}
