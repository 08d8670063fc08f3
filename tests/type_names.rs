//! A type name means one thing in the whole workspace: no two public or crate-visible types share a name.
//!
//! A reader who sees `Place` in one module must not have to ask which of seven it is. Private types may repeat a name:
//! they are not visible outside of their module.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The visible types that `source` defines at the top level of its module.
fn visible_types(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub")?;
        let rest = match rest.strip_prefix('(') {
            Some(scope) => scope.split_once(") ")?.1,
            None => rest.strip_prefix(' ')?,
        };
        let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
        let (keyword, rest) = rest.split_once(' ')?;
        let is_type = matches!(keyword, "struct" | "enum" | "trait" | "type" | "union");
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        // `Result` with the error of its module is an idiom, as `io::Result`.
        (is_type && &rest[..end] != "Result").then(|| &rest[..end])
    })
}

/// Adds the types of all Rust files below `dir`, but for those of unit tests, by name.
fn collect(dir: &Path, types: &mut BTreeMap<String, Vec<String>>) {
    for entry in fs::read_dir(dir).expect("the sources are readable") {
        let path = entry.expect("the sources are readable").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if stem == "tests" {
            continue;
        }
        if path.is_dir() {
            collect(&path, types);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("the sources are readable");
            for name in visible_types(&source) {
                types.entry(name.to_owned()).or_default().push(path.display().to_string());
            }
        }
    }
}

#[test]
fn no_two_visible_types_share_a_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut types = BTreeMap::new();
    collect(&root.join("src"), &mut types);
    collect(&root.join("crates"), &mut types);
    assert!(types.contains_key("Policy") && types.len() > 300, "the sources were not found: {}", types.len());
    types.retain(|_, files| files.len() > 1);
    let shared: Vec<String> =
        types.iter().map(|(name, files)| format!("{name}: {}", files.join(", "))).collect();
    assert!(shared.is_empty(), "give each type a name of its own:\n{}", shared.join("\n"));
}

#[test]
fn visible_types_are_recognized_by_their_definition() {
    let source = "pub struct A;\npub(super) enum B<'a> {\npub(in crate::x) trait C: D {}\npub type E = u8;\n\
                  struct Private;\n    pub struct Inner;\npub fn f() {}\npub unsafe trait F {}\npub use g::G;\n\
                  pub type Result<T> = R<T, E>;\n";
    assert_eq!(visible_types(source).collect::<Vec<_>>(), ["A", "B", "C", "E", "F"]);
}
