//! SARIF 2.1.0 (OASIS Standard), for code scanning.
//!
//! Results are written as they arrive, so that a report of any length needs no memory. Code scanning requires a line for each
//! result and a name has none, so every region is line 1 of the file with the name. It reads a limited number of results of a
//! run; the report has no more, and says how many it leaves out.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use namegate_core::name::display::display;
use namegate_core::name::scalar::UNICODE_VERSION;
use namegate_core::policy::rule::{Concern, RULES, Rule, Severity};
use namegate_files::json::{self, Hex};
use namegate_findings::fingerprint::CheckBasis;
use serde::Serialize;
use serde_json::{Value, json};

use super::json::lines::SummaryLine;
use super::uri::reference;
use super::{
    CollisionGroup, DirectoryFindings, RenderedFindings, Renderer, Report, ReportedName, ReportedViolation,
    Summary,
};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Maximum number of results: GitHub rejects a run with more
/// (<https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning>).
const MAX_RESULTS: u64 = 25_000;

/// Maximum number of members of a collision, and of faults, that are listed.
const LISTED: usize = 1000;

/// Writes findings as one SARIF log.
pub struct Sarif<W> {
    out: W,
    has_begun: bool,
    /// How many results were written; renderers read it.
    results: Arc<AtomicU64>,
    left_out: u64,
    faults: Vec<Value>,
    more_faults: u64,
}

impl<W: Write + Send> Sarif<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        let (results, faults) = (Arc::default(), Vec::new());
        Self { out, has_begun: false, results, left_out: 0, faults, more_faults: 0 }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.has_begun {
            return Ok(());
        }
        self.has_begun = true;
        write!(self.out, "{{\"$schema\":\"{SCHEMA}\",\"version\":\"2.1.0\",\"runs\":[{{\"tool\":")?;
        json::write(&mut self.out, &tool())?;
        self.out.write_all(b",\"columnKind\":\"unicodeCodePoints\",\"results\":[")
    }

    /// Writes `count` results, each with a comma before it.
    fn write_results(&mut self, bytes: &[u8], count: u64) -> io::Result<()> {
        self.begin()?;
        let is_first = self.results.fetch_add(count, Relaxed) == 0;
        self.out.write_all(if is_first { bytes.strip_prefix(b",").unwrap_or(bytes) } else { bytes })
    }
}

fn tool() -> Value {
    let (major, minor, patch) = UNICODE_VERSION;
    json!({ "driver": {
        "name": "namegate",
        "version": env!("CARGO_PKG_VERSION"),
        "semanticVersion": env!("CARGO_PKG_VERSION"),
        "rules": RULES.iter().map(rule).collect::<Vec<_>>(),
        "properties": { "unicode": format!("{major}.{minor}.{patch}") },
    }})
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Warn => "warning",
        Severity::Error => "error",
    }
}

fn rule(rule: &Rule) -> Value {
    let Rule { name, kind, default, concern, summary, source, .. } = rule;
    let summary = summary.replace('`', "'");
    let mut properties = json!({
        "tags": [concern.as_str(), kind.as_str()],
        "precision": "very-high",
        "problem.severity": level(*default),
    });
    if *concern == Concern::Security {
        // GitHub sorts security alerts by this value: high for errors, medium for warnings.
        properties["security-severity"] = match default {
            Severity::Error => "7.0",
            Severity::Warn => "4.0",
        }
        .into();
    }
    let help = format!(
        "{summary}. Concern: {concern}. Source: {source}. `namegate explain NAME` shows a name byte by byte."
    );
    json!({
        "id": name,
        "name": name,
        "shortDescription": message(&summary),
        "fullDescription": message(&format!("A file name breaks the rule {name}: {summary}.")),
        "help": { "text": literal(&help), "markdown": literal(&help) },
        "defaultConfiguration": { "level": level(*default) },
        "properties": properties,
    })
}

/// Escapes text so that no viewer reads it as a link or a placeholder (SARIF 2.1.0, 3.11.5 and 3.11.6): a name may contain
/// either.
fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '[' | ']' => out.extend(['\\', c]),
            '{' | '}' => out.extend([c, c]),
            _ => out.push(c),
        }
    }
    out
}

/// A message that viewers show as it is.
fn message(text: &str) -> SarifMessage {
    SarifMessage { text: literal(text) }
}

#[derive(Serialize)]
struct SarifMessage {
    text: String,
}

// What every result has is a struct: a `Value` would allocate each key again.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult<'r> {
    rule_id: &'static str,
    rule_index: usize,
    level: &'static str,
    message: SarifMessage,
    locations: [&'r SarifLocation; 1],
    partial_fingerprints: PartialFingerprints,
    properties: ResultProperties<'r>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    related_locations: Vec<SarifLocation>,
}

#[derive(Serialize)]
struct PartialFingerprints {
    #[serde(rename = "pathAndRule/v1")]
    path_and_rule: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResultProperties<'r> {
    concern: &'static str,
    name_hex: Hex<&'r [u8]>,
    start_byte: usize,
    end_byte: usize,
    profiles: Vec<&'static str>,
    refused_by: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repair_confidence: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reading: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reading_confidence: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'r str>,
}

/// The location of a file, with line 1 for viewers that require a line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifLocation {
    physical_location: PhysicalLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<SarifMessage>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: ArtifactLocation,
    region: Region,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactLocation {
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri_base_id: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: u32,
}

impl SarifLocation {
    fn new(path: &[u8]) -> Self {
        let path = path.strip_prefix(b"./").unwrap_or(path);
        let uri_base_id = (!path.starts_with(b"/")).then_some("%SRCROOT%");
        let artifact_location = ArtifactLocation { uri: reference(path), uri_base_id };
        let physical_location = PhysicalLocation { artifact_location, region: Region { start_line: 1 } };
        Self { physical_location, id: None, message: None }
    }
}

/// Writes at most `most` results for a name, each with a comma before it, and returns their number.
fn write_record(out: &mut Vec<u8>, record: &ReportedName, most: usize) -> usize {
    let location = SarifLocation::new(&record.path());
    let name = display(&record.name).to_string();
    let repair = record.repair.as_ref();
    let suggestion = repair.map_or_else(String::new, |repair| {
        format!(". Suggested name: `{}`", display(repair.name.as_bytes()))
    });
    let decoded = repair.and_then(|repair| repair.decoded);
    let reading = decoded.map(|decoded| decoded.explanation.to_string());
    let place = record.place.as_ref().filter(|place| place.container.is_some());
    let place = place.map(|place| display(&place.heading()).to_string());
    let mark = record.location.map(|location| location.to_string());
    let objections = record.objections.iter().take(most);
    let count = objections.len();
    for objection in objections {
        let ReportedViolation { violation, group, .. } = objection;
        let result = SarifResult {
            rule_id: violation.rule.name(),
            rule_index: violation.rule as usize,
            level: level(violation.severity),
            message: message(&format!("`{name}`: {}{suggestion}", record.message_of(objection))),
            locations: [&location],
            partial_fingerprints: PartialFingerprints { path_and_rule: record.fingerprint(violation.rule) },
            properties: ResultProperties {
                concern: violation.rule.rule().concern.as_str(),
                name_hex: Hex(&record.name),
                start_byte: violation.span.start,
                end_byte: violation.span.end,
                profiles: violation.profiles.names().collect(),
                refused_by: violation.refused_by.names().collect(),
                repair: repair.map(|repair| repair.name.as_str()),
                repair_confidence: repair.map(|repair| repair.confidence.as_str()),
                reading: reading.clone(),
                reading_confidence: decoded.map(|decoded| decoded.confidence.as_str()),
                place: place.as_deref(),
                mark: mark.as_deref(),
                group: group.as_ref().map(|group| group.id.as_str()),
            },
            related_locations: group.as_ref().map(|group| related(group, &record.name)).unwrap_or_default(),
        };
        out.extend_from_slice(b",\n");
        json::write(out, &result).expect("memory takes every write");
    }
    count
}

fn related(group: &CollisionGroup, name: &[u8]) -> Vec<SarifLocation> {
    let others = group.members.iter().filter(|member| *member != name).take(LISTED);
    let location = |(at, member): (usize, &Vec<u8>)| SarifLocation {
        id: Some(at + 1),
        message: Some(message(&format!("becomes one with `{}`", display(member)))),
        ..SarifLocation::new(&group.place.join(member))
    };
    others.enumerate().map(location).collect()
}

impl<W: Write + Send> Report for Sarif<W> {
    fn renderer(&self) -> Renderer {
        let written = Arc::clone(&self.results);
        Box::new(move |findings| {
            let mut results = Vec::new();
            let records = findings.records.iter().filter(|_| written.load(Relaxed) < MAX_RESULTS);
            for record in records {
                write_record(&mut results, record, usize::MAX);
            }
            RenderedFindings::Bytes(results)
        })
    }

    fn write(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        let count = findings.records.iter().map(|record| record.objections.len() as u64).sum();
        if count <= MAX_RESULTS - self.results.load(Relaxed) {
            return self.write_results(rendered.bytes(), count);
        }
        for record in &findings.records {
            let (mut results, room) = (Vec::new(), MAX_RESULTS - self.results.load(Relaxed));
            let written = if room > 0 { write_record(&mut results, record, room as usize) } else { 0 };
            self.left_out += (record.objections.len() - written) as u64;
            self.write_results(&results, written as u64)?;
        }
        Ok(())
    }

    fn fault(&mut self, path: &[u8], text: &str) -> io::Result<()> {
        if self.faults.len() == LISTED {
            self.more_faults += 1;
            return Ok(());
        }
        self.faults.push(json!({
            "level": "error",
            "message": message(text),
            "locations": [SarifLocation::new(path)],
        }));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        self.begin()?;
        if self.more_faults > 0 {
            let text = format!("{} more could not be read", self.more_faults);
            self.faults.push(json!({ "level": "error", "message": { "text": text } }));
        }
        if self.left_out > 0 {
            let text = format!(
                "{} more results are left out: code scanning accepts {MAX_RESULTS} in a run. The summary counts all; use a \
                 baseline, or another format",
                self.left_out
            );
            self.faults.push(json!({ "level": "warning", "message": { "text": text } }));
        }
        for names in &summary.unmarked {
            let text = format!("names of {} members are not {}: {names}", names.members(), names.missing());
            self.faults.push(json!({
                "level": "note",
                "message": message(&text),
                "locations": [SarifLocation::new(&names.file)],
            }));
        }
        if let Some(what) = summary.incompleteness() {
            self.faults.push(json!({ "level": "error", "message": { "text": what } }));
        }
        let invocation = json!({
            "executionSuccessful": summary.is_complete(),
            "toolExecutionNotifications": self.faults,
        });
        let properties = json!({
            "profiles": basis.profiles.names().collect::<Vec<_>>(),
            "summary": SummaryLine::new(basis, summary),
        });
        self.out.write_all(b"\n],\"invocations\":[")?;
        json::write(&mut self.out, &invocation)?;
        self.out.write_all(b"],\"properties\":")?;
        json::write(&mut self.out, &properties)?;
        self.out.write_all(b"}]}\n")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_neither_a_link_nor_a_placeholder() {
        assert_eq!(literal("[a](http://x) {0}"), r"\[a\](http://x) {{0}}");
    }
}
