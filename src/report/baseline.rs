//! Baselines: known, accepted findings, so that only new ones are reported.
//!
//! A baseline is JSON Lines, a path and a rule in each line, sorted: a change of one finding is a change of one line. It has
//! nothing else, so that a change of wording, profiles or severities does not make a known finding a new one.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use namegate_findings::fingerprint::CheckBasis;
use serde::{Deserialize, Serialize};

use super::{Detail, Report, ReportedName, Summary};
use crate::json::{self, Base64};
use crate::policy::rule::RuleId;

/// Known findings, and which of them occurred.
#[derive(Debug, Default)]
pub struct Baseline {
    by_path: HashMap<Vec<u8>, Vec<KnownFinding>>,
    len: u64,
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
    /// The error.
    pub what: String,
}

impl fmt::Display for BaselineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for BaselineError {}

/// A line; unknown fields, such as a reason, belong to the user.
#[derive(Serialize, Deserialize)]
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
    /// use namegate::{policy::rule::RuleId, report::baseline::Baseline};
    /// let known = Baseline::parse(b"{\"path\":\"a/b?\",\"rule\":\"reserved-character\"}\n").unwrap();
    /// assert!(known.accepts(b"a/b?", RuleId::ReservedCharacter));
    /// assert!(!known.accepts(b"a/b?", RuleId::TrailingDot));
    /// assert_eq!(known.met(), 1);
    /// ```
    pub fn parse(text: &[u8]) -> Result<Self, BaselineError> {
        let mut baseline = Self::default();
        for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
            if !line.trim_ascii().is_empty() {
                let (path, rule) = entry(line).map_err(|what| BaselineError { line: at + 1, what })?;
                let known = baseline.by_path.entry(path).or_default();
                if known.iter().all(|known| known.rule != rule) {
                    known.push(KnownFinding { rule, is_met: AtomicBool::new(false) });
                    baseline.len += 1;
                }
            }
        }
        Ok(baseline)
    }

    /// Reports whether it is known that the name at `path` breaks `rule`, and marks that finding as met.
    pub fn accepts(&self, path: &[u8], rule: RuleId) -> bool {
        let known = self.by_path.get(path).and_then(|known| known.iter().find(|known| known.rule == rule));
        known.inspect(|known| known.is_met.store(true, Relaxed)).is_some()
    }

    /// Number of findings that were met; each counts once.
    pub fn met(&self) -> u64 {
        self.by_path.values().flatten().filter(|known| known.is_met.load(Relaxed)).count() as u64
    }

    /// Number of known findings.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Reports whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

fn entry(line: &[u8]) -> Result<(Vec<u8>, RuleId), String> {
    let entry: BaselineEntry<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let rule = entry.rule.parse().map_err(|error: crate::policy::UnknownWord| error.to_string())?;
    let path = match (entry.path, entry.path_base64) {
        (_, Some(Base64(path))) => path,
        (Some(path), None) => path.into_bytes(),
        (None, None) => return Err("neither `path` nor `path_base64`".into()),
    };
    Ok((path, rule))
}

/// Collects findings and writes them as a baseline at the end. It keeps all of them, because they are sorted.
pub struct BaselineWriter<W> {
    out: W,
    found: BTreeSet<(Vec<u8>, &'static str)>,
}

impl<W: Write + Send> BaselineWriter<W> {
    /// Writes to `out` at the end.
    pub fn new(out: W) -> Self {
        Self { out, found: BTreeSet::new() }
    }
}

impl<W: Write + Send> Report for BaselineWriter<W> {
    fn detail(&self) -> Detail {
        Detail::Violations
    }

    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        let path = record.path();
        self.found.extend(record.objections.iter().map(|o| (path.clone(), o.violation.rule.name())));
        Ok(())
    }

    fn fault(&mut self, _path: &[u8], _message: &str) -> io::Result<()> {
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, _basis: &CheckBasis, _summary: &Summary) -> io::Result<()> {
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
        let mistake = |text: &str| Baseline::parse(text.as_bytes()).unwrap_err();
        assert_eq!(mistake("\n{}\n").line, 2);
        assert!(mistake("{\"rule\":\"truncated\"}").what.contains("neither"));
        let unknown = mistake("{\"path\":\"a\",\"rule\":\"truncate\"}");
        assert!(unknown.to_string().contains("line 1: unknown rule `truncate`; did you mean `truncated`?"));
        assert!(mistake("{\"path_base64\":\"?\",\"rule\":\"truncated\"}").what.contains("`?` is not base64"));
    }

    #[test]
    fn blank_lines_duplicates_and_unknown_fields_are_ignored() {
        let line = "{\"path_base64\":\"/w==\",\"rule\":\"invalid-octet\",\"reason\":\"old\"}\n";
        let baseline = Baseline::parse(format!("{line}\n\r\n{line}").as_bytes()).unwrap();
        assert_eq!(baseline.len(), 1);
        assert!(baseline.accepts(b"\xFF", RuleId::InvalidOctet) && !baseline.is_empty());
    }
}
