//! Holds the shape of the crate: which module may import which, what the pure modules must not touch, and where the
//! crates with side effects and the keyword `unsafe` may stand. Source of the lines: the module map in the design.
//!
//! Every file under `src/` is cut into tokens, without comments and literals, and its paths are resolved to absolute
//! ones. Code under `#[cfg(test)]`, and the files `tests.rs` that hold it, may import and open what they like.

use std::fs;
use std::path::Path;

use tokens::{Token, tokens, without_tests};

#[path = "layers/tokens.rs"]
mod tokens;

/// What a top-level module may import of this crate, besides itself: a module, or one item of it. A module that has no
/// line here yet has to be given one before it can be built on.
const LAYERS: &[(&str, &[&str])] = &[
    ("name", &[]),
    ("sys", &[]),
    ("policy", &["name"]),
    ("gate", &["policy", "name"]),
    ("source", &["name", "sys"]),
    ("report", &["policy", "name"]),
    ("explain", &["policy", "report", "name"]),
    ("scan", &["policy", "source", "report", "name"]),
    ("fix", &["policy", "source", "sys", "name"]),
    ("daemon", &["report", "gate", "policy", "name", "sys"]),
    ("doctor", &["sys", "name::display"]),
    ("passthrough", &["sys", "gate::Admitted"]),
    // What it finds becomes a record of the audit: there is one shape of record, not two.
    ("watch", &["policy", "source", "daemon::audit", "sys", "name"]),
    (
        "fuse",
        &["passthrough", "gate", "daemon::audit", "daemon::metrics", "name", "sys::mounts", "sys::socket"],
    ),
    (
        "cli",
        &[
            "name",
            "sys",
            "policy",
            "gate",
            "source",
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

/// Modules that open no file, read no clock and write no log.
const PURE: &[&str] = &["name", "policy", "gate", "fix::plan"];

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
];

/// Macros that write, likewise.
const PRINTING: &[&str] = &["print", "println", "eprint", "eprintln"];

/// Crates that are named in one module only.
const CONFINED: &[(&str, &str)] =
    &[("fuser", "fuse"), ("walkdir", "source::walk"), ("ignore", "source::scope")];

/// Names that say nothing about what a module is for.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "misc"];

const MAX_LINES: usize = 600;

/// A path as written out in full (`crate::name::utf8`, `std::fs`), and its line.
type FullPath = (Vec<String>, usize);

/// Every path of the tokens, with `use` trees spelt out and `self` and `super` resolved against `module`.
fn paths(tokens: &[Token], module: &[String]) -> Vec<FullPath> {
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
    let is_word = |i: usize| text(i).starts_with(|c: char| c == '_' || c.is_alphabetic());
    let (mut found, mut inline, mut depth, mut i) = (Vec::new(), Vec::<(String, usize)>::new(), 0usize, 0);
    while i < tokens.len() {
        let here: Vec<String> = module.iter().cloned().chain(inline.iter().map(|(m, _)| m.clone())).collect();
        match text(i) {
            "mod" if text(i + 2) == "{" => {
                inline.push((text(i + 1).into(), depth));
                depth += 1;
                i += 3;
            }
            "{" => {
                depth += 1;
                i += 1;
            }
            "}" => {
                depth = depth.saturating_sub(1);
                inline.retain(|(_, opened)| *opened < depth);
                i += 1;
            }
            "use" => i = spell_out(tokens, i + 1, &[], &here, &mut found),
            _ if is_word(i) && text(i + 1) == "::" => i = spell_out(tokens, i, &[], &here, &mut found),
            _ => i += 1,
        }
    }
    found
}

/// Reads one path or `use` tree that begins at `i` below `prefix`; returns the index behind it.
fn spell_out(
    tokens: &[Token],
    mut i: usize,
    prefix: &[String],
    here: &[String],
    found: &mut Vec<FullPath>,
) -> usize {
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
    let line = tokens.get(i).map_or(0, |token| token.line);
    let mut path = prefix.to_vec();
    if text(i) == "::" {
        i += 1;
    }
    loop {
        match text(i) {
            "{" => {
                i += 1;
                while i < tokens.len() && text(i) != "}" {
                    i = if text(i) == "," {
                        i + 1
                    } else {
                        spell_out(tokens, i, &path, here, found).max(i + 1)
                    };
                }
                return i + 1;
            }
            "self" if path.is_empty() => path = absolute(here),
            "super" if path.is_empty() => path = absolute(&here[..here.len().saturating_sub(1)]),
            "super" => path.truncate(path.len().max(2) - 1),
            "self" => {}
            word => path.push(word.into()),
        }
        i += 1;
        let more = text(i + 1).starts_with(|c: char| c == '_' || c == '{' || c == '*' || c.is_alphabetic());
        if text(i) != "::" || !more {
            break;
        }
        i += 1;
    }
    if text(i) == "as" {
        i += 2;
    }
    found.push((path, line));
    i
}

fn absolute(module: &[String]) -> Vec<String> {
    [String::from("crate")].into_iter().chain(module.iter().cloned()).collect()
}

/// Whether `path` is `prefix` or lies below it.
fn within(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The module that `file`, a path below `src/` with forward slashes, holds: `name::utf8`, or `main`, or `lib`.
fn module_of(file: &str) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    stem.strip_suffix("/mod").unwrap_or(stem).split('/').map(String::from).collect()
}

/// Everything in the source of one file that crosses a line, each as a sentence with file and line number.
fn offences(file: &str, source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut offend = |line: usize, what: String| found.push(format!("src/{file}:{line}: {what}"));
    let module = module_of(file);
    let full_name = module.join("::");
    let all = tokens(source);
    let is_test_file =
        module.last().is_some_and(|last| last == "tests") || module.iter().any(|m| m == "tests");

    let lines = source.lines().count();
    if lines > MAX_LINES {
        offend(lines, format!("more than {MAX_LINES} lines: the file probably has two topics"));
    }
    for part in module.iter().filter(|part| EMPTY_NAMES.contains(&part.as_str())) {
        offend(1, format!("a module called `{part}` says nothing about its content"));
    }
    for (i, token) in all.iter().enumerate() {
        let next = all.get(i + 1).map_or("", |next| next.text.as_str());
        match token.text.as_str() {
            "unsafe" if module[0] != "sys" => offend(token.line, "`unsafe` stands only in sys".into()),
            "todo" | "unimplemented" if next == "!" => {
                offend(token.line, format!("`{}!`: code that is not there yet", token.text));
            }
            "mod" if EMPTY_NAMES.contains(&next) => {
                offend(token.line, format!("a module called `{next}` says nothing about its content"));
            }
            _ => {}
        }
    }
    if is_test_file {
        return found;
    }

    let kept = without_tests(&all);
    let pure = PURE.iter().any(|pure| within(&full_name, pure));
    for (i, token) in kept.iter().enumerate() {
        let next = kept.get(i + 1).map_or("", |next| next.text.as_str());
        if token.text == "mod" && next == "tests" {
            offend(token.line, "`mod tests` without #[cfg(test)]".into());
        }
        if pure && next == "!" && PRINTING.contains(&token.text.as_str()) {
            offend(token.line, format!("{full_name} is pure and must not use `{}!`", token.text));
        }
    }
    let allowed = LAYERS.iter().find(|(name, _)| *name == module[0]).map(|(_, allowed)| *allowed);
    if allowed.is_none() && module[0] != "lib" {
        offend(1, format!("the module `{}` has no line in LAYERS: say what it may import", module[0]));
    }
    let root_of_binary = module[0] == "main";
    for (path, line) in paths(&kept, if module[0] == "lib" || root_of_binary { &[] } else { &module }) {
        let joined = path.join("::");
        let own = match path[0].as_str() {
            "crate" if !root_of_binary => joined.strip_prefix("crate::"),
            "namegate" => joined.strip_prefix("namegate::"),
            _ => None,
        };
        if let (Some(target), Some(allowed)) = (own, allowed) {
            let itself = within(target, &module[0]);
            if !itself && !allowed.iter().any(|allowed| within(target, allowed)) {
                offend(line, format!("{full_name} must not import `{target}`"));
            }
        }
        if pure && EFFECTS.iter().any(|effect| within(&joined, effect)) {
            offend(line, format!("{full_name} is pure and must not use `{joined}`"));
        }
        for (krate, home) in CONFINED {
            if within(&joined, krate) && !within(&full_name, home) {
                offend(line, format!("the crate `{krate}` is named only in {home}"));
            }
        }
    }
    found
}

/// All Rust files below `dir`, as paths relative to `base` with forward slashes.
fn rust_files(dir: &Path, base: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("src is readable") {
        let path = entry.expect("src is readable").path();
        if path.is_dir() {
            found.extend(rust_files(&path, base));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let relative = path.strip_prefix(base).expect("it was found below base");
            found.push(relative.to_str().expect("our own file names are UTF-8").replace('\\', "/"));
        }
    }
    found.sort();
    found
}

#[test]
fn every_source_file_keeps_to_its_layer() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = rust_files(&src, &src);
    assert!(files.iter().any(|file| file == "lib.rs"), "src/lib.rs was not among {files:?}");
    let offences: Vec<String> = files
        .iter()
        .flat_map(|file| offences(file, &fs::read_to_string(src.join(file)).expect("src is readable")))
        .collect();
    assert!(offences.is_empty(), "\n{}", offences.join("\n"));
}

#[test]
fn the_checker_catches_what_crosses_a_line() {
    let cases = [
        ("name/utf8.rs", "use crate::policy::Rule;", "must not import `policy::Rule`"),
        ("name/utf8.rs", "use super::super::policy;", "must not import `policy`"),
        ("name/utf8.rs", "use crate::{name::Span, gate::Gate};", "must not import `gate::Gate`"),
        ("name/utf8.rs", "fn f() -> crate::policy::Rule { g() }", "must not import `policy::Rule`"),
        ("name/utf8.rs", "use crate::VERSION;", "must not import `VERSION`"),
        ("name/utf8.rs", "use crate::*;", "must not import `*`"),
        ("name/mod.rs", "mod inner { use super::super::scan; }", "must not import `scan`"),
        ("policy/rule.rs", "pub(crate) use crate::gate as g;", "must not import `gate`"),
        ("gate.rs", "use crate::scan::Scan;", "must not import `scan::Scan`"),
        ("source/walk.rs", "use crate::policy::Policy;", "must not import `policy::Policy`"),
        ("report/text.rs", "use crate::source::Batch;", "must not import `source::Batch`"),
        ("passthrough/create.rs", "use crate::gate::{Admitted, Gate};", "must not import `gate::Gate`"),
        ("passthrough/create.rs", "use crate::gate::*;", "must not import `gate::*`"),
        ("fuse/adapter.rs", "use crate::daemon::config;", "must not import `daemon::config`"),
        ("scan.rs", "use crate::cli::Options;", "must not import `cli::Options`"),
        ("main.rs", "use namegate::scan::Scan;", "must not import `scan::Scan`"),
        ("novelty/mod.rs", "", "`novelty` has no line in LAYERS"),
        ("name/utf8.rs", "use std::{fmt, fs::File};", "must not use `std::fs::File`"),
        ("policy/mod.rs", "fn f() { std::env::var(x); }", "must not use `std::env::var`"),
        ("gate.rs", "use std::time::Instant;", "must not use `std::time::Instant`"),
        ("gate.rs", "fn f() { log::info!(x) }", "must not use `log::info`"),
        ("gate.rs", "fn f() { eprintln!(x) }", "must not use `eprintln!`"),
        ("fix/plan.rs", "use std::io;", "must not use `std::io`"),
        ("scan.rs", "use fuser::Request;", "the crate `fuser` is named only in fuse"),
        ("source/list.rs", "use walkdir::WalkDir;", "the crate `walkdir` is named only in source::walk"),
        ("scan.rs", "fn f() { unsafe { g() } }", "`unsafe` stands only in sys"),
        ("scan/tests.rs", "fn f() { unsafe { g() } }", "`unsafe` stands only in sys"),
        ("scan.rs", "fn f() { todo!() }", "code that is not there yet"),
        ("scan.rs", "fn f() { unimplemented!() }", "code that is not there yet"),
        ("name/util.rs", "", "`util` says nothing"),
        ("name/common/mod.rs", "", "`common` says nothing"),
        ("scan.rs", "mod misc { }", "`misc` says nothing"),
        ("name/mod.rs", "mod tests;", "without #[cfg(test)]"),
        ("name/mod.rs", "#[cfg(test)] mod tests { use std::fs; } use std::io;", "must not use `std::io`"),
        ("name/mod.rs", "#[cfg(test)] use a::{b}; use std::io;", "must not use `std::io`"),
        ("name/mod.rs", "const Q: char = '\"'; use std::io; // \"", "must not use `std::io`"),
        ("name/mod.rs", "fn f<'a>(x: &'a str) { use std::io; let c = 'a'; }", "must not use `std::io`"),
        ("name/mod.rs", "const R: &str = r#\"\\\"#; use std::io;", "must not use `std::io`"),
        ("name/mod.rs", "/* /* */ */ use std::io;", "must not use `std::io`"),
    ];
    for (file, source, expected) in cases {
        let found = offences(file, source);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{file}: {source}\n{found:?}, not {expected}"
        );
    }
    let long = "\n".repeat(MAX_LINES + 1);
    assert!(offences("scan.rs", &long)[0].contains("two topics"));
    assert_eq!(offences("scan.rs", &"\n".repeat(MAX_LINES)), [""; 0]);
}

#[test]
fn the_checker_lets_pass_what_is_allowed() {
    let cases = [
        ("name/utf8.rs", "use super::Span; use crate::name::{legacy, scalar::*}; use std::ffi::OsStr;"),
        ("policy/rule.rs", "use crate::name; use super::violation::Violation; use core::fmt;"),
        ("gate.rs", "use crate::{name::escape, policy::{Policy, Verdict}};"),
        ("scan.rs", "use crate::{name, policy, report, source}; use std::io;"),
        ("passthrough/create.rs", "use crate::{gate::Admitted, sys};"),
        ("fuse/adapter.rs", "use fuser::Request; use crate::daemon::audit::Record;"),
        ("source/walk.rs", "use walkdir::WalkDir; use crate::name::arena::Arena;"),
        ("cli/mod.rs", "use crate::{gate, scan}; use self::check::run; mod check;"),
        ("main.rs", "fn main() -> std::process::ExitCode { namegate::cli::run() }"),
        ("lib.rs", "pub mod name; pub mod util_free; pub use name::Span;"),
        ("sys/open.rs", "fn f() { unsafe { g() } }"),
        (
            "name/mod.rs",
            "// use std::fs;\n/* unsafe /* todo!() */ */ //! crate::policy\n/// [`crate::policy`]\nfn f() {}",
        ),
        (
            "name/mod.rs",
            "const A: &str = \"unsafe \\\" use std::fs;\"; const B: &[u8] = br##\"std::fs \"# todo!()\"##;",
        ),
        ("name/mod.rs", "const Q: (char, u8) = ('\\'', b'\"'); const S: &str = \"std::io::x\";"),
        ("name/mod.rs", "#[cfg(test)] mod tests { use std::fs; fn f() { crate::policy::g() } } fn h() {}"),
        ("name/mod.rs", "#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\n#[cfg(test)] use std::{fs, io};"),
        ("name/mod/tests.rs", "use std::fs; use crate::policy::Policy;"),
        ("name/mod.rs", "#![forbid(unsafe_code)] fn logs(log: u8) -> u8 { log }"),
        ("name/mod.rs", "mod inner { use super::Span; } pub(super) fn f() {} pub(in crate::name) fn g() {}"),
    ];
    for (file, source) in cases {
        assert_eq!(offences(file, source), [""; 0], "{file}: {source}");
    }
}
