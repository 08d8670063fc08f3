//! Holds the shape of the program: which module may import which, what the pure modules must not touch, and where crates
//! with side effects may stand. Source of the lines: the module map in the design.
//!
//! The compiler holds the rest: namegate-core cannot import the program, nor a crate that is not in its manifest; `unsafe`
//! is denied outside of `sys`; clippy denies `todo!` and `unimplemented!`.

use std::fs;
use std::path::Path;

/// What a top-level module may import of this crate, besides itself: a module, or one item of it. A module that has no
/// line here yet has to be given one before it can be built on.
const LAYERS: &[(&str, &[&str])] = &[
    ("sys", &[]),
    ("workers", &[]),
    ("output", &["sys"]),
    // It judges nothing: it hands names over in the shape in which they are checked.
    ("source", &["name", "check", "sys"]),
    ("report", &["policy", "name"]),
    ("explain", &["policy", "report", "name"]),
    ("scan", &["check", "policy", "source", "report", "name"]),
    ("fix", &["check", "policy", "source", "output", "sys", "name"]),
    ("daemon", &["report", "gate", "policy", "output", "name", "sys"]),
    ("doctor", &["sys", "name::display"]),
    ("passthrough", &["sys", "gate::Admitted"]),
    // What it finds becomes a record of the audit: there is one shape of record, not two.
    ("watch", &["policy", "source", "daemon::audit", "sys", "name"]),
    (
        "fuse",
        &[
            "passthrough",
            "gate",
            "daemon::audit",
            "daemon::metrics",
            "name",
            "sys::mounts",
            "sys::process",
            "sys::socket",
            "sys::tree",
            "workers",
        ],
    ),
    (
        "cli",
        &[
            "name",
            "sys",
            "policy",
            "gate",
            "source",
            "output",
            "report",
            "explain",
            "scan",
            "fix",
            "passthrough",
            "fuse",
            "watch",
            "daemon",
            "doctor",
        ],
    ),
    ("main", &["cli"]),
];

/// Modules of the program that open no file, read no clock and write no log. All of namegate-core is pure, too.
const PURE: &[&str] = &["fix::plan"];

/// What makes a module impure.
const EFFECTS: &[&str] = &[
    "std::env",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::time",
    "libc",
    "log",
    "nix",
    "env_logger",
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
];

/// Crates that are named in one module only.
const CONFINED: &[(&str, &str)] =
    &[("fuser", "fuse"), ("walkdir", "source::walk"), ("ignore", "source::scope")];

/// Names that say nothing about what a module is for.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "misc"];

const MAX_LINES: usize = 600;

/// Whether `path` is `prefix` or lies below it.
fn within(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The paths of `line` that begin with the word `word`: `crate::name::utf8` for `crate`.
fn paths<'l>(line: &'l str, word: &str) -> impl Iterator<Item = &'l str> {
    let is_part = |c: char| c == '_' || c.is_alphanumeric();
    let starts = line.match_indices(word).map(|(at, _)| at);
    starts.filter_map(move |at| {
        let end = line[at..].find(|c| !is_part(c) && c != ':' && c != '!').unwrap_or(line.len() - at);
        let path = line[at..at + end].trim_end_matches(':');
        let is_whole = !line[..at].ends_with(is_part) && !line[..at].ends_with("::");
        let is_meant = path.strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_part));
        (is_whole && is_meant).then_some(path)
    })
}

/// Everything in one file that crosses a line. `file` is its path below `src/`; `is_core` tells the sources of namegate-core.
///
/// Reads line by line, without comments, up to the unit tests: a macro or an import of several modules at once could hide a
/// path from it, so the second is an offence of its own.
fn offences(file: &str, source: &str, is_core: bool) -> Vec<String> {
    let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let (module, parts) = (stem.replace('/', "::"), stem.split('/').collect::<Vec<_>>());
    let mut found = Vec::new();
    if source.lines().count() > MAX_LINES {
        found.push(format!("{file}: more than {MAX_LINES} lines: the file probably has two topics"));
    }
    found.extend(
        parts
            .iter()
            .filter(|part| EMPTY_NAMES.contains(part))
            .map(|part| format!("{file}: `{part}` says nothing")),
    );
    if parts.contains(&"tests") || matches!(stem, "lib" | "main") {
        return found;
    }
    let allowed = LAYERS.iter().find(|(name, _)| *name == parts[0]).map(|(_, allowed)| *allowed);
    if allowed.is_none() && !is_core {
        found.push(format!("{file}: `{}` has no line in LAYERS: say what it may import", parts[0]));
    }
    let is_pure = is_core || PURE.iter().any(|pure| within(&module, pure));
    let lines = source.lines().take_while(|line| *line != "#[cfg(test)]");
    for (number, line) in (1..).zip(lines) {
        let line = line.split("//").next().unwrap_or_default();
        let mut offend = |what: String| found.push(format!("{file}:{number}: {what}"));
        if line.contains("use crate::{") || is_pure && line.contains("use std::{") {
            offend("import one module in each line".into());
        }
        if line.contains(&"super::".repeat(parts.len())) {
            offend("`super` leads to the root: write `crate`".into());
        }
        if !is_core && line.contains("allow(unsafe_code") && parts[0] != "sys" {
            offend("`unsafe` stands only in sys".into());
        }
        for path in paths(line, "crate") {
            let Some(target) = path.strip_prefix("crate::") else { continue };
            let may = |allowed: &[&str]| allowed.iter().any(|allowed| within(target, allowed));
            if !is_core && !within(target, parts[0]) && !allowed.is_some_and(may) {
                offend(format!("{module} must not import `{target}`"));
            }
        }
        let has = |effect: &str| paths(line, effect).any(|path| effect.ends_with('!') || path.contains("::"));
        if let Some(effect) = EFFECTS.iter().find(|effect| is_pure && has(effect)) {
            offend(format!("{module} is pure and must not use `{effect}`"));
        }
        for (krate, home) in CONFINED {
            let is_named = paths(line, krate).any(|path| path.contains("::"));
            if is_named && !within(&module, home) {
                offend(format!("the crate `{krate}` is named only in {home}"));
            }
        }
    }
    found
}

/// All Rust files below `dir`, as paths relative to `base`.
fn rust_files(dir: &Path, base: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("the sources are readable") {
        let path = entry.expect("the sources are readable").path();
        if path.is_dir() {
            found.extend(rust_files(&path, base));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path.strip_prefix(base).expect("it was found below base");
            found.push(relative.to_str().expect("our own file names are UTF-8").to_owned());
        }
    }
    found
}

#[test]
fn every_source_file_keeps_to_its_layer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut offending = Vec::new();
    for (src, is_core) in [("src", false), ("crates/namegate-core/src", true)] {
        let src = root.join(src);
        let files = rust_files(&src, &src);
        assert!(files.iter().any(|file| file == "lib.rs"), "lib.rs was not among {files:?}");
        for file in files {
            let source = fs::read_to_string(src.join(&file)).expect("the sources are readable");
            offending.extend(offences(&file, &source, is_core));
        }
    }
    assert!(offending.is_empty(), "\n{}", offending.join("\n"));
}

#[test]
fn what_crosses_a_line_is_seen_and_nothing_else() {
    let cases = [
        ("source/walk.rs", "use crate::policy::Policy;", "must not import `policy::Policy`"),
        ("scan.rs", "fn f() -> crate::cli::Options {", "must not import `cli::Options`"),
        ("passthrough/create.rs", "use crate::gate::{Admitted, Gate};", "must not import `gate`"),
        ("scan.rs", "use crate::{name, cli};", "import one module in each line"),
        ("scan.rs", "use super::cli::Options;", "`super` leads to the root"),
        ("fuse/adapter.rs", "use super::super::cli::Options;", "`super` leads to the root"),
        ("novelty/mod.rs", "", "`novelty` has no line in LAYERS"),
        ("fix/plan/order.rs", "use std::fs::File;", "must not use `std::fs`"),
        ("fix/plan.rs", "    println!(\"{x}\");", "must not use `println!`"),
        ("scan.rs", "use fuser::Request;", "`fuser` is named only in fuse"),
        ("source/list.rs", "#![allow(unsafe_code)]", "`unsafe` stands only in sys"),
        ("source/util.rs", "", "`util` says nothing"),
    ];
    for (file, source, expected) in cases {
        let found = offences(file, source, false);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{file}: {source}\n{found:?}, not {expected}"
        );
    }
    assert!(
        offences("name/utf8.rs", "use std::time::Instant;", true)[0].contains("must not use `std::time`")
    );
    assert!(offences("scan.rs", &"\n".repeat(MAX_LINES + 1), false)[0].contains("two topics"));
    let passes = [
        ("scan.rs", "use crate::policy::{Policy, rule::RuleId}; // crate::cli\nuse self::kept::Kept;"),
        ("fix/plan.rs", "fn logs(log: &[u8]) {}\n/// `std::fs`\nlet x = prologue::x;"),
        ("fuse/adapter.rs", "use fuser::Request;\nuse super::server::Server;"),
        ("fix/plan.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}"),
        ("fix/plan/tests.rs", "use std::fs;"),
        ("sys/open.rs", "#![allow(unsafe_code)]"),
    ];
    for (file, source) in passes {
        assert_eq!(offences(file, source, false), [""; 0], "{file}: {source}");
    }
}
