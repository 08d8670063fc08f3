//! Baselines: known, accepted findings, so that only new ones are reported.
//!
//! A baseline is JSON Lines, a path and a rule in each line, sorted: a change of one finding is a change of one line. It has
//! nothing else, so that a change of wording, profiles or severities does not make a known finding a new one. Paths on disk are
//! [relative to the root](RelativePaths) of the scan, whatever the path to the root is.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use namegate_core::policy::rule::RuleId;
use namegate_files::json::{self, Base64, TextBytes, TypedObject};
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::location::DirectoryPath;
use serde::{Deserialize, Serialize};

use super::layout::grouped;
use super::summary::Accepted;
use super::{Detail, DirectoryFindings, RenderedFindings, Report, Summary};

/// With fewer entries that match nothing, names may just have been corrected.
const MANY: u64 = 100;

/// Known findings, and which of them occurred.
#[derive(Debug, Default)]
pub struct Baseline {
    by_path: HashMap<Vec<u8>, Vec<KnownFinding>>,
    count: u64,
    paths: RelativePaths,
}

/// A rule that the name at a path is known to break.
#[derive(Debug)]
struct KnownFinding {
    rule: RuleId,
    is_met: AtomicBool,
}

/// Why a file is not a valid baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineError {
    /// The line, from 1.
    pub line: usize,
    pub what: String,
}

impl fmt::Display for BaselineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for BaselineError {}

/// A line; unknown fields, such as a reason, belong to the user.
#[derive(Deserialize)]
struct KnownEntry<'e> {
    path: Option<TextBytes>,
    path_base64: Option<Base64>,
    rule: std::borrow::Cow<'e, str>,
}

/// The `type` of the first line.
const HEADER: &str = "baseline";

/// The first line. Files that people wrote or merged may have none, or several.
#[derive(Deserialize)]
struct BaselineHeader<'h> {
    r#type: std::borrow::Cow<'h, str>,
    version: u32,
}

/// A line as it is written.
#[derive(Serialize)]
struct BaselineEntry<'e> {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<Base64>,
    rule: std::borrow::Cow<'e, str>,
}

impl Baseline {
    /// Parses a baseline.
    ///
    /// # Errors
    /// The first line that is not an object with a path and a known rule.
    ///
    /// ```
    /// use namegate_findings::location::DirectoryPath;
    /// use namegate_core::policy::rule::RuleId;
    /// use namegate_scan::report::baseline::Baseline;
    /// let known = b"{\"path\":\"a/b?\",\"rule\":\"reserved-character\"}\n";
    /// let known = Baseline::parse(known, Default::default()).unwrap();
    /// let place = DirectoryPath { container: None, dir: b"a".to_vec(), inode: None };
    /// assert!(known.accepts(&place, b"b?", RuleId::ReservedCharacter));
    /// assert!(!known.accepts(&place, b"b?", RuleId::TrailingDot));
    /// assert_eq!(known.met(), 1);
    /// ```
    pub fn parse(text: &[u8], paths: RelativePaths) -> Result<Self, BaselineError> {
        let mut baseline = Self { paths, ..Self::default() };
        for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
            if line.trim_ascii().is_empty() {
                continue;
            }
            if let Some((path, rule)) = entry(line).map_err(|what| BaselineError { line: at + 1, what })? {
                let known = baseline.by_path.entry(path).or_default();
                if known.iter().all(|known| known.rule != rule) {
                    known.push(KnownFinding { rule, is_met: AtomicBool::new(false) });
                    baseline.count += 1;
                }
            }
        }
        Ok(baseline)
    }

    /// Reports whether it is known that `name` in the directory `place` breaks `rule`, and marks that finding as met.
    pub fn accepts(&self, place: &DirectoryPath, name: &[u8], rule: RuleId) -> bool {
        let known = self.by_path.get(&self.paths.relative(place, name));
        let known = known.and_then(|known| known.iter().find(|known| known.rule == rule));
        known.inspect(|known| known.is_met.store(true, Relaxed)).is_some()
    }

    /// Number of findings that were met; each counts once.
    pub fn met(&self) -> u64 {
        self.by_path.values().flatten().filter(|known| known.is_met.load(Relaxed)).count() as u64
    }

    /// Number of known findings.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl Accepted {
    /// What is wrong if the baseline is evidently not one of what was scanned: most of its entries, and many, match nothing.
    pub fn mismatch(&self) -> Option<String> {
        let stale = self.stale.filter(|&stale| stale >= MANY && stale > self.accepted)?;
        Some(format!(
            "{} of {} entries match nothing that was found: it seems to be the baseline of another tree. Write a new one with \
             --write-baseline, or scan the tree, or the part of it, that it was written for",
            grouped(stale),
            grouped(stale + self.accepted)
        ))
    }
}

/// Makes the paths of findings on disk relative to the root of the scan. With several roots they are relative to the deepest
/// directory that has them all. The root's own name is at the path `.`. Paths in a list, an archive or a repository stay as they are.
#[derive(Clone, Debug, Default)]
pub struct RelativePaths {
    /// Each root as it was given, and its relative path. The longest are first, so that of two roots that hold a path the inner one is found.
    roots: Vec<(Vec<u8>, Vec<u8>)>,
}

impl RelativePaths {
    /// For a scan of `roots`. Symbolic links that lead to a root are followed.
    pub fn new(roots: &[PathBuf]) -> Self {
        let real: Vec<PathBuf> = roots.iter().map(|root| real_path(root)).collect();
        let mut top = real.first().cloned().unwrap_or_default();
        while !real.iter().all(|root| root.starts_with(&top)) && top.pop() {}
        let relative = real.iter().map(|root| root.strip_prefix(&top).unwrap_or(root));
        let relative = relative.map(|root| root.as_os_str().as_bytes().to_vec());
        let given = roots.iter().map(|root| components(root.as_os_str().as_bytes()));
        let mut roots: Vec<_> = given.zip(relative).collect();
        roots.sort_by_key(|(given, _)| std::cmp::Reverse(given.len()));
        Self { roots }
    }

    /// The path of `name` in the directory `place`.
    pub fn relative(&self, place: &DirectoryPath, name: &[u8]) -> Vec<u8> {
        let path = place.join(name);
        if place.container.is_some() || self.roots.is_empty() {
            return path;
        }
        let path = components(&path);
        let below = self.roots.iter().find_map(|(given, relative)| {
            let rest = path.strip_prefix(&given[..])?;
            let is_below = rest.is_empty() || given.is_empty() || given == b"/" || rest.starts_with(b"/");
            is_below.then(|| (relative, rest.strip_prefix(b"/").unwrap_or(rest)))
        });
        let Some((relative, rest)) = below else { return path };
        match (relative.is_empty(), rest.is_empty()) {
            (true, true) => b".".to_vec(),
            (true, false) => rest.to_vec(),
            (false, true) => relative.clone(),
            (false, false) => [relative, rest].join(&b"/"[..]),
        }
    }
}

/// The absolute path without symbolic links; without `..` at least, if it leads nowhere.
fn real_path(path: &Path) -> PathBuf {
    fs::canonicalize(path).or_else(|_| path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// A path without `.`, empty components and a separator at its end.
fn components(path: &[u8]) -> Vec<u8> {
    let components = path.split(|&byte| byte == b'/').filter(|part| !matches!(part, [] | [b'.']));
    let joined = components.collect::<Vec<_>>().join(&b"/"[..]);
    if path.starts_with(b"/") { [b"/", &joined[..]].concat() } else { joined }
}

/// `None` for the line that says what the file is.
fn entry(line: &[u8]) -> Result<Option<(Vec<u8>, RuleId)>, String> {
    let entry: KnownEntry<'_> = match serde_json::from_slice(line) {
        Ok(entry) => entry,
        Err(error) => {
            let header: BaselineHeader<'_> = serde_json::from_slice(line).map_err(|_| error.to_string())?;
            return match &*header.r#type {
                HEADER => json::check_version(header.version).map(|_| None),
                _ => Err(error.to_string()),
            };
        }
    };
    let rule = entry.rule.parse().map_err(|error: namegate_core::policy::UnknownWord| error.to_string())?;
    let path = match (entry.path, entry.path_base64) {
        (_, Some(Base64(path))) => path,
        (Some(TextBytes(path)), None) => path,
        (None, None) => return Err("neither `path` nor `path_base64`".into()),
    };
    Ok(Some((path, rule)))
}

/// Collects findings and writes them as a baseline at the end. It keeps all of them, because they are sorted.
pub struct BaselineWriter<W> {
    out: W,
    paths: RelativePaths,
    found: BTreeSet<(Vec<u8>, &'static str)>,
}

impl<W: Write + Send> BaselineWriter<W> {
    /// Writes to `out` at the end.
    pub fn new(out: W, paths: RelativePaths) -> Self {
        Self { out, paths, found: BTreeSet::new() }
    }
}

impl<W: Write + Send> Report for BaselineWriter<W> {
    fn detail(&self) -> Detail {
        Detail::Violations
    }

    fn write(&mut self, findings: &DirectoryFindings, _rendered: &RenderedFindings) -> io::Result<()> {
        for record in &findings.records {
            let place = record.place.as_ref();
            let path = place.map_or_else(|| record.path(), |place| self.paths.relative(place, &record.name));
            self.found.extend(record.objections.iter().map(|o| (path.clone(), o.violation.rule.name())));
        }
        Ok(())
    }

    fn fault(&mut self, _path: &[u8], _message: &str) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, _basis: &CheckBasis, _summary: &Summary) -> io::Result<()> {
        json::write_line(&mut self.out, &TypedObject::new(HEADER, ()))?;
        for (path, rule) in std::mem::take(&mut self.found) {
            let (path, path_base64) = match String::from_utf8(path) {
                Ok(path) => (Some(path), None),
                Err(error) => (None, Some(Base64(error.into_bytes()))),
            };
            json::write_line(&mut self.out, &BaselineEntry { path, path_base64, rule: rule.into() })?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let mistake = |text: &str| Baseline::parse(text.as_bytes(), RelativePaths::default()).unwrap_err();
        assert_eq!(mistake("\n{}\n").line, 2);
        assert!(mistake("{\"rule\":\"truncated\"}").what.contains("neither"));
        let unknown = mistake("{\"path\":\"a\",\"rule\":\"truncate\"}");
        assert!(unknown.to_string().contains("line 1: unknown rule `truncate`; did you mean `truncated`?"));
        assert!(mistake("{\"path_base64\":\"?\",\"rule\":\"truncated\"}").what.contains("`?` is not base64"));
        assert!(mistake("{\"type\":\"baseline\",\"version\":2}").what.contains("reads version 1"));
        assert!(mistake("{\"type\":\"finding\",\"version\":1}").what.contains("missing field `rule`"));
    }

    #[test]
    fn blank_lines_duplicates_and_unknown_fields_are_ignored() {
        let line = "{\"path_base64\":\"/w==\",\"rule\":\"invalid-octet\",\"reason\":\"old\"}\n";
        let text = format!("{line}\n\r\n{line}");
        let baseline = Baseline::parse(text.as_bytes(), RelativePaths::default()).unwrap();
        assert_eq!(baseline.count(), 1);
        assert!(baseline.accepts(&place(""), b"\xFF", RuleId::InvalidOctet));
    }

    fn place(dir: &str) -> DirectoryPath {
        DirectoryPath { container: None, dir: dir.into(), inode: None }
    }

    #[test]
    fn paths_are_relative_to_the_root_or_to_what_all_roots_have_in_common() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path).to_str().unwrap().to_owned();
        fs::create_dir_all(at("share/a")).unwrap();
        fs::create_dir_all(at("share2")).unwrap();
        std::os::unix::fs::symlink("share", at("link")).unwrap();
        let relative = |roots: &[&str], dir: &str, name: &str| {
            let roots: Vec<PathBuf> = roots.iter().map(PathBuf::from).collect();
            String::from_utf8(RelativePaths::new(&roots).relative(&place(dir), name.as_bytes())).unwrap()
        };
        let (share, link, other) = (at("share"), at("link"), at("share2"));
        assert_eq!(relative(&[&share], &share, "x"), "x");
        assert_eq!(relative(&[&share], &format!("{share}/a"), "x"), "a/x");
        assert_eq!(relative(&[&share], &at(""), "share"), ".");
        let with_separators = format!("{link}/.//");
        assert_eq!(relative(&[&with_separators], &with_separators, "x"), "x");
        let (inner, both) = (at("share/a"), [&*share, &*other]);
        assert_eq!(relative(&both, &inner, "x"), "share/a/x");
        assert_eq!(relative(&both, &other, "x"), "share2/x");
        assert_eq!(relative(&both, &at(""), "share2"), "share2");
        assert_eq!(relative(&[&share, &inner], &inner, "x"), "a/x");
        for (root, dir) in [(".", "."), (".", ""), ("./", "./"), ("", "")] {
            assert_eq!(relative(&[root], dir, "x"), "x", "{root} {dir}");
        }
        assert_eq!(relative(&["/"], "/", "x"), "x");
        assert_eq!(relative(&["/"], "/a", "x"), "a/x");
        assert_eq!(relative(&["../missing"], "../missing/a", "x"), "a/x");
    }

    #[test]
    fn a_baseline_of_which_many_entries_and_most_match_nothing_is_of_another_tree() {
        let mismatch = |accepted, stale| Accepted { accepted, stale }.mismatch();
        let message = mismatch(90, Some(1910)).unwrap();
        assert!(message.starts_with("1,910 of 2,000 entries match nothing"), "{message}");
        for (accepted, stale) in [(0, Some(99)), (100, Some(100)), (0, None), (1000, Some(0))] {
            assert_eq!(mismatch(accepted, stale), None);
        }
    }
}
