//! Checks which module of the program may import which. Cargo checks the packages in `crates/`, and the compiler denies `unsafe`
//! outside of `sys`.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The imports from this crate that a module may have, besides itself: a module or one item.
const MODULES: &[(&str, &[&str])] = &[
    ("explain", &[]),
    ("doctor", &[]),
    ("service", &[]),
    ("cli", &["explain", "service", "doctor"]),
    ("main", &["cli"]),
    ("lib", &[]),
];

/// Texts that may occur only below one path. Plans, and all of the core, are computed without files, clock and output.
const CONFINED: &[(&str, &[&str])] = &[
    (
        "fuser::",
        &[
            "crates/mount/src/by_fuser.rs",
            "crates/mount/src/fuser_reply.rs",
            "crates/mount/src/session.rs",
            "crates/sys/src/fuse.rs",
        ],
    ),
    ("walkdir::", &["crates/scan/src/source/walk.rs"]),
    ("aya::", &["crates/guard/src"]),
    ("ignore::", &["crates/scan/src/source/scope.rs"]),
    ("allow(unsafe_code", &["crates/sys/src/lib.rs", "crates/testkit/src/process.rs"]),
    // What an engine calls opens no files but these.
    ("tempfile::tempfile(", &["crates/findings/src/temporary.rs"]),
];

/// Sources without side effects, and the texts that would be one.
const PURE: &[&str] = &[
    "crates/fix/src/plan",
    "crates/arrow/src",
    "crates/core/src",
    "crates/findings/src/container_rules",
    "crates/findings/src/decode",
    "crates/findings/src/directory",
    "crates/findings/src/fingerprint",
    "crates/findings/src/location",
    "crates/findings/src/record",
    "crates/findings/src/split",
    "crates/findings/src/uri",
];
const EFFECTS: &[&str] = &[
    "std::env::",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::time",
    " nix::",
    "print!",
    "println!",
];

/// A longer file probably has two topics.
const MAX_LINES: usize = 600;

/// Calls `visit` with the path of every Rust file below `dir`, and its lines up to the unit tests, without comments.
fn visit_sources(dir: &Path, visit: &mut dyn FnMut(&str, &[&str])) {
    for entry in fs::read_dir(dir).expect("the sources are readable") {
        let path = entry.expect("the sources are readable").path();
        let name = path.to_str().expect("our own file names are UTF-8");
        if path.is_dir() {
            visit_sources(&path, visit);
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).expect("the sources are readable");
            assert!(text.lines().count() <= MAX_LINES, "{name}: more than {MAX_LINES} lines");
            let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
            visit(name, &lines.map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>());
        }
    }
}

/// The paths that `line` imports from this crate: `name::utf8` for `use crate::name::utf8;`.
fn imports(line: &str) -> impl Iterator<Item = &str> {
    let paths = line.split("crate::").skip(1);
    paths.map(|path| {
        path.split(|c: char| c != '_' && c != ':' && !c.is_alphanumeric()).next().unwrap_or_default()
    })
}

/// Whether `path` is `module`, or lies in it.
fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn may_import(module: &str, path: &str) -> bool {
    let (_, allowed) =
        MODULES.iter().find(|(name, _)| *name == module).unwrap_or_else(|| panic!("`{module}` has no row"));
    is_within(path, module) || allowed.iter().any(|allowed| is_within(path, allowed))
}

#[test]
fn every_module_imports_only_what_it_may() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut offences = Vec::new();
    let crates = fs::read_dir(root.join("crates")).expect("the packages are readable");
    let sources = crates.map(|package| package.expect("the packages are readable").path().join("src"));
    for directory in sources.filter(|directory| directory.exists()).chain([root.join("src")]) {
        visit_sources(&directory, &mut |path, lines| {
            let file = Path::new(path).strip_prefix(root).expect("it lies below the root");
            let below = file.strip_prefix("src").ok().and_then(|below| below.iter().next()?.to_str());
            let module = below.map(|below| below.trim_end_matches(".rs"));
            let is_below =
                |place: &&str| file.with_extension("").starts_with(place) || file.starts_with(place);
            for (number, line) in (1..).zip(lines) {
                let mut offend = |what: &str| offences.push(format!("{}:{number}: {what}", file.display()));
                for path in
                    imports(line).filter(|path| module.is_some_and(|module| !may_import(module, path)))
                {
                    offend(&format!("must not import `{path}`"));
                }
                for (text, places) in CONFINED {
                    if line.contains(text) && !places.iter().any(is_below) {
                        offend(&format!("`{text}` stands only in {places:?}"));
                    }
                }
                let effect = EFFECTS.iter().find(|effect| line.contains(*effect));
                if let Some(effect) = effect.filter(|_| PURE.iter().any(is_below)) {
                    offend(&format!("pure, and must not use `{effect}`"));
                }
            }
        });
    }
    assert!(offences.is_empty(), "\n{}", offences.join("\n"));
}

#[test]
fn fix_is_built_and_tested_without_git_archives_arrow_and_mounts() {
    let arguments = ["tree", "--locked", "--offline", "--target", "x86_64-unknown-linux-gnu"];
    let package = ["--package", "namegate-fix", "--edges", "normal,build,dev", "--prefix", "none"];
    let output = Command::new(env!("CARGO")).args(arguments).args(package).output();
    let tree = String::from_utf8(output.expect("cargo runs: it runs this test").stdout).expect("UTF-8");
    let crates: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(crates.contains(&"namegate-scan"), "{tree}");
    let is_heavy = |name: &&&str| {
        matches!(**name, "aya" | "bzip2" | "flate2" | "fuser" | "parquet" | "rawzip" | "ruzstd")
            || name.starts_with("arrow")
            || name.starts_with("gix")
    };
    assert_eq!(crates.iter().find(is_heavy), None);
}

#[test]
fn a_forbidden_import_is_found() {
    let found = |line| imports(line).collect::<Vec<_>>();
    assert_eq!(found("use crate::policy::{Policy, rule::RuleId};"), ["policy::"]);
    assert_eq!(found("fn f(a: crate::cli::Options) -> crate::scan {"), ["cli::Options", "scan"]);
    // Several modules in one import could hide one.
    assert!(!may_import("cli", found("use crate::{name, doctor};")[0]));
    assert!(!may_import("service", "cli::Options") && !may_import("cli", "doctorx"));
    assert!(may_import("service", "service::serve") && may_import("cli", "doctor::"));
}

#[test]
fn packages_without_a_public_api_are_required_in_their_exact_version() {
    let manifest =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).expect("it is there");
    let manifest: toml::Table = manifest.parse().expect("it is TOML");
    let workspace = manifest["workspace"].as_table().expect("a table");
    let version = workspace["package"]["version"].as_str().expect("a text");
    for (name, required) in workspace["dependencies"].as_table().expect("a table") {
        let Some(required) = required.get("version").filter(|_| name.starts_with("namegate-")) else {
            continue;
        };
        let is_public = ["namegate-arrow", "namegate-core", "namegate-findings"].contains(&name.as_str());
        let expected = if is_public { version.to_owned() } else { format!("={version}") };
        assert_eq!(required.as_str(), Some(expected.as_str()), "{name}");
    }
}
