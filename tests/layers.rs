//! Holds which room of the program may import which. The compiler holds the rest: namegate-core cannot import the program,
//! and `unsafe` is denied outside of `sys`.

use std::fs;
use std::path::Path;

/// What a room may import of this crate, besides itself: a room, a module, or one item.
const ROOMS: &[(&str, &[&str])] = &[
    ("sys", &[]),
    ("time", &[]),
    ("workers", &[]),
    ("output", &["sys"]),
    ("json", &["name::display"]),
    ("progress", &["json"]),
    // It reads names and checks none.
    ("source", &["name", "check", "sys"]),
    ("report", &["json", "policy", "source::location", "name"]),
    ("explain", &["json", "policy", "report", "name"]),
    ("scan", &["check", "json", "policy", "progress", "source", "report", "name"]),
    ("fix", &["check", "json", "policy", "progress", "source", "output", "sys", "name"]),
    ("doctor", &["sys", "name::display"]),
    ("passthrough", &["sys", "gate::Admitted"]),
    ("telemetry", &["json", "report", "policy", "output", "name", "time"]),
    ("settings", &["gate", "policy", "name", "telemetry"]),
    ("watch", &["policy", "source", "telemetry", "sys", "name"]),
    ("fuse", &["passthrough", "gate", "settings", "telemetry", "name", "sys", "workers"]),
    (
        "service",
        &["fuse", "json", "settings", "telemetry", "report", "gate", "policy", "name", "sys", "time"],
    ),
    (
        "cli",
        &[
            "name",
            "json",
            "progress",
            "sys",
            "policy",
            "gate",
            "source",
            "output",
            "report",
            "explain",
            "scan",
            "fix",
            "fuse",
            "watch",
            "service",
            "settings",
            "telemetry",
            "time",
            "doctor",
        ],
    ),
    ("main", &["cli"]),
    ("lib", &[]),
];

/// Texts that stand below one path only. A plan, and all of the core, is computed without files, clock and output.
const CONFINED: &[(&str, &[&str])] = &[
    ("fuser::", &["src/fuse"]),
    ("walkdir::", &["src/source/walk.rs"]),
    ("ignore::", &["src/source/scope.rs"]),
    ("allow(unsafe_code", &["src/sys/mod.rs"]),
];

/// Sources without effects, and what would be one.
const PURE: &[&str] = &["src/fix/plan", "crates/namegate-core/src"];
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

/// What `line` imports of this crate: `name::utf8` for `use crate::name::utf8;`.
fn imports(line: &str) -> impl Iterator<Item = &str> {
    let paths = line.split("crate::").skip(1);
    paths.map(|path| {
        path.split(|c: char| c != '_' && c != ':' && !c.is_alphanumeric()).next().unwrap_or_default()
    })
}

/// Whether `path` is `room`, or lies in it.
fn is_within(path: &str, room: &str) -> bool {
    path.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn may_import(room: &str, path: &str) -> bool {
    let (_, allowed) =
        ROOMS.iter().find(|(name, _)| *name == room).unwrap_or_else(|| panic!("`{room}` has no line"));
    is_within(path, room) || allowed.iter().any(|allowed| is_within(path, allowed))
}

#[test]
fn every_room_imports_only_what_it_may() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut offences = Vec::new();
    for directory in ["src", "crates/namegate-core/src"] {
        visit_sources(&root.join(directory), &mut |path, lines| {
            let file = Path::new(path).strip_prefix(root).expect("it lies below the root");
            let below = file.strip_prefix("src").ok().and_then(|below| below.iter().next()?.to_str());
            let room = below.map(|below| below.trim_end_matches(".rs"));
            let is_below =
                |place: &&str| file.with_extension("").starts_with(place) || file.starts_with(place);
            for (number, line) in (1..).zip(lines) {
                let mut offend = |what: &str| offences.push(format!("{}:{number}: {what}", file.display()));
                for path in imports(line).filter(|path| room.is_some_and(|room| !may_import(room, path))) {
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
fn an_import_that_crosses_a_line_is_seen() {
    let found = |line| imports(line).collect::<Vec<_>>();
    assert_eq!(found("use crate::policy::{Policy, rule::RuleId};"), ["policy::"]);
    assert_eq!(found("fn f(a: crate::cli::Options) -> crate::scan {"), ["cli::Options", "scan"]);
    // Several rooms in one import could hide one.
    assert!(!may_import("scan", found("use crate::{name, cli};")[0]));
    assert!(!may_import("scan", "cli::Options") && !may_import("scan", "policyx"));
    assert!(!may_import("passthrough", "gate::") && may_import("passthrough", "gate::Admitted"));
    assert!(may_import("scan", "scan::kept") && may_import("scan", "policy::"));
}
