//! Checks that links lead to existing files, paths in backquotes exist, and every page can be reached.

use std::collections::BTreeSet;
use std::fs;

use super::markdown::{blocks, linked, pages, prose, quoted, read, root};

/// The targets of the links and images in a page's prose.
fn targets(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_link_leads_to_an_existing_file_and_heading() {
    let mut broken = Vec::new();
    for page in pages() {
        let prose = prose(&read(&page));
        for target in targets(&prose).filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { root().join(&page) } else { linked(&page, file) };
            let has_anchor = || anchors(&fs::read_to_string(&path).unwrap()).contains(anchor);
            if !path.exists() || !anchor.is_empty() && !has_anchor() {
                broken.push(format!("{page}: {target}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_of_docs_is_in_an_index() {
    for (index, dir) in [
        ("docs/README.md", "docs"),
        ("docs/README.md", "docs/tasks"),
        ("docs/SEMANTICS.md", "docs/semantics"),
    ] {
        let page = read(index);
        let listed: BTreeSet<_> =
            targets(&page).map(|target| linked(index, target.split('#').next().unwrap())).collect();
        let missing: Vec<_> = fs::read_dir(root().join(dir))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file() && !path.ends_with(index) && !path.ends_with("session.svg"))
            .filter(|path| !listed.contains(path))
            .collect();
        assert!(missing.is_empty(), "{index} does not list {missing:?}");
    }
}

#[test]
fn every_path_of_the_repository_that_is_named_exists() {
    let tops =
        ["src/", "crates/", "tests/", "scripts/", "docs/", "systemd/", "benches/", "fuzz/", "examples/"];
    let mut missing = Vec::new();
    for page in &pages() {
        let prose = prose(&read(page));
        for path in quoted(&prose).filter_map(|words| words.split(' ').next()) {
            let is_one = tops.iter().any(|top| path.starts_with(top)) && !path.contains(['*', '<', '{']);
            if is_one && !root().join(path).exists() {
                missing.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn the_modules_in_the_tree_of_modules_exist() {
    let page = read("docs/ARCHITECTURE.md");
    let tree = blocks(&page).into_iter().next().expect("the page begins with a tree of the modules");
    let (mut base, mut shown) = ("", 0);
    for line in tree.lines {
        let name = line.split_whitespace().next().expect("no line of the tree is empty");
        if !line.starts_with(' ') {
            base = name;
        } else if line.starts_with("  ") && !line.starts_with("   ") {
            assert!(root().join(base).join(name).exists(), "there is no {base}{name}");
            shown += 1;
        }
    }
    let modules = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let modules = modules.lines().filter(|line| line.starts_with("pub mod ")).count();
    assert!(shown >= modules, "the tree shows {shown} modules, src alone has {modules}");
}

#[test]
fn targets_and_anchors_are_understood() {
    assert_eq!(targets("[a](b.md#c) ![d](e.svg) f(g)").collect::<Vec<_>>(), ["b.md#c", "e.svg"]);
    assert!(anchors("## What it's for: `fix`, \"undo\"\n").contains("what-its-for-fix-undo"));
}
