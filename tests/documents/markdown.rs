//! The pages, and the parts of Markdown that they use.

use std::fs;
use std::path::{Path, PathBuf};

/// The directory of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file of the repository.
pub fn read(file: &str) -> String {
    let path = root().join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// All pages, as paths relative to the repository.
pub fn pages() -> Vec<String> {
    let mut pages = Vec::from(
        [
            "README.md",
            "CONTRIBUTING.md",
            "CHANGELOG.md",
            "SECURITY.md",
            "CODE_OF_CONDUCT.md",
            "packaging/README.md",
        ]
        .map(str::to_owned),
    );
    let libraries = ["crates/arrow", "crates/core", "crates/findings", "crates/python"];
    for dir in ["docs", "docs/semantics", "docs/tasks"].into_iter().chain(libraries) {
        let entries = fs::read_dir(root().join(dir)).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".md"));
        pages.extend(names.map(|name| format!("{dir}/{name}")));
    }
    pages.sort();
    assert!(pages.len() > 20, "only {pages:?} were found");
    pages
}

/// The manual pages that are not generated, as text without the escapes of roff.
pub fn manual_pages() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("docs/man")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages = entries.map(|name| format!("docs/man/{}", name.into_string().unwrap()));
    pages.map(|page| (page.clone(), read(&page).replace("\\-", "-"))).collect()
}

/// The file that a link of `page` to `target` leads to.
pub fn linked(page: &str, target: &str) -> PathBuf {
    root().join(page).parent().unwrap().join(target)
}

/// A fenced or indented block.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'t> {
    /// The word behind the fence: `console`, `toml`; of an indented block `sh`.
    pub language: &'t str,
    /// The reason in the comment `<!-- not run: REASON -->` above the block.
    pub not_run: Option<&'t str>,
    /// The lines between the fences, or without their indentation.
    pub lines: Vec<&'t str>,
    /// The index of the first of these lines in the page.
    pub first: usize,
}

/// The blocks of a page.
pub fn blocks(page: &str) -> Vec<Block<'_>> {
    let lines: Vec<&str> = page.lines().collect();
    let (mut blocks, mut at) = (Vec::new(), 0);
    let mut not_run = None;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if let Some(language) = line.strip_prefix("```") {
            let first = at;
            at += lines[at..].iter().position(|line| *line == "```").expect("a block that begins ends");
            blocks.push(Block { language, not_run, lines: lines[first..at].to_vec(), first });
            at += 1;
        } else if line.starts_with("    ") && at >= 2 && lines[at - 2].is_empty() {
            let first = at - 1;
            at = first + lines[first..].iter().take_while(|line| line.starts_with("    ")).count();
            let lines = lines[first..at].iter().map(|line| &line[4..]).collect();
            blocks.push(Block { language: "sh", not_run, lines, first });
        }
        let comment = line.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->"));
        if comment.is_some() || !line.is_empty() {
            not_run = comment;
        }
    }
    blocks
}

/// A page without its blocks.
pub fn prose(page: &str) -> String {
    let mut lines: Vec<&str> = page.lines().collect();
    for block in blocks(page) {
        lines[block.first..block.first + block.lines.len()].fill("");
    }
    lines.join("\n")
}

/// The texts in backquotes in the prose of a page.
pub fn quoted(prose: &str) -> impl Iterator<Item = &str> {
    prose.lines().filter(|line| !line.starts_with("```")).flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn blocks_are_distinguished_from_the_text_around_them() {
    let page = "text `a/b`\n\n<!-- not run: needs root -->\n\n```console\n# reboot\n```\n\n    indented\n    twice\n\ntext\n    no block\n";
    let console =
        Block { language: "console", not_run: Some("needs root"), lines: vec!["# reboot"], first: 5 };
    let indented = Block { language: "sh", not_run: None, lines: vec!["indented", "twice"], first: 8 };
    assert_eq!(blocks(page), [console, indented]);
    assert_eq!(quoted(&prose(page)).collect::<Vec<_>>(), ["a/b"]);
}
