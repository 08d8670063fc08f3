//! SARIF 2.1.0 (OASIS Standard), for code scanning.
//!
//! Results are written as they arrive, so that a report of any length needs no memory. Code scanning requires a line for each
//! result and a name has none, so every region is line 1 of the file with the name.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::json::summary_line;
use super::uri::reference;
use super::{CollisionGroup, Report, ReportedName, ReportedViolation, Summary};
use crate::json::{self, Hex};
use crate::name::display::display;
use crate::name::scalar::UNICODE_VERSION;
use crate::policy::Policy;
use crate::policy::rule::{Concern, RULES, Rule, Severity};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// Maximum number of members of a collision, and of faults, that are listed.
const LISTED: usize = 1000;

/// Writes records as one SARIF log.
pub struct Sarif<W> {
    out: W,
    has_begun: bool,
    has_results: bool,
    faults: Vec<Value>,
    more_faults: u64,
}

impl<W: Write + Send> Sarif<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, has_begun: false, has_results: false, faults: Vec::new(), more_faults: 0 }
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
        "shortDescription": { "text": literal(&summary) },
        "fullDescription": { "text": literal(&format!("A file name breaks the rule {name}: {summary}.")) },
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

/// The location of a file, with line 1 for viewers that require a line.
fn location(path: &[u8]) -> Value {
    let path = path.strip_prefix(b"./").unwrap_or(path);
    let mut artifact = json!({ "uri": reference(path) });
    if !path.starts_with(b"/") {
        artifact["uriBaseId"] = "%SRCROOT%".into();
    }
    json!({ "physicalLocation": { "artifactLocation": artifact, "region": { "startLine": 1 } } })
}

fn result(record: &ReportedName, objection: &ReportedViolation) -> Value {
    let ReportedViolation { violation, message, group } = objection;
    let name = display(&record.name);
    let mut text = format!("`{name}`: {message}");
    let mut properties = json!({
        "concern": violation.rule.rule().concern.as_str(),
        "nameHex": Hex(&record.name),
        "startByte": violation.span.start,
        "endByte": violation.span.end,
        "profiles": violation.profiles.names().collect::<Vec<_>>(),
        "refusedBy": violation.refused_by.names().collect::<Vec<_>>(),
    });
    if let Some(repair) = &record.repair {
        text += &format!(". Suggested name: `{}`", display(repair.name.as_bytes()));
        properties["repair"] = repair.name.as_str().into();
        properties["repairConfidence"] = repair.confidence.as_str().into();
    }
    if let Some(place) = record.place.as_ref().filter(|place| place.container.is_some()) {
        properties["place"] = display(&place.heading()).to_string().into();
    }
    if let Some(location) = record.location {
        properties["mark"] = location.to_string().into();
    }
    let path = record.path();
    let mut result = json!({
        "ruleId": violation.rule.name(),
        "ruleIndex": violation.rule as usize,
        "level": level(violation.severity),
        "message": { "text": literal(&text) },
        "locations": [location(&path)],
        "partialFingerprints": { "pathAndRule/v1": record.fingerprint(violation.rule) },
        "properties": properties,
    });
    if let Some(group) = group {
        result["properties"]["group"] = group.id.as_str().into();
        result["relatedLocations"] = related(group, &record.name);
    }
    result
}

fn related(group: &CollisionGroup, name: &[u8]) -> Value {
    let others = group.members.iter().filter(|member| *member != name).take(LISTED);
    let all = others.enumerate().map(|(at, member)| {
        let mut place = location(&group.place.join(member));
        place["id"] = (at + 1).into();
        place["message"] = json!({ "text": literal(&format!("becomes one with `{}`", display(member))) });
        place
    });
    all.collect()
}

impl<W: Write + Send> Report for Sarif<W> {
    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        self.begin()?;
        for objection in &record.objections {
            self.out.write_all(if self.has_results { b",\n" } else { b"\n" })?;
            self.has_results = true;
            json::write(&mut self.out, &result(record, objection))?;
        }
        Ok(())
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        if self.faults.len() == LISTED {
            self.more_faults += 1;
            return Ok(());
        }
        self.faults.push(json!({
            "level": "error",
            "message": { "text": literal(message) },
            "locations": [location(path)],
        }));
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, policy: &Policy, summary: &Summary) -> io::Result<()> {
        self.begin()?;
        if self.more_faults > 0 {
            let text = format!("{} more could not be read", self.more_faults);
            self.faults.push(json!({ "level": "error", "message": { "text": text } }));
        }
        let invocation = json!({
            "executionSuccessful": summary.unreadable == 0,
            "toolExecutionNotifications": self.faults,
        });
        let properties = json!({
            "profiles": policy.profile_set().names().collect::<Vec<_>>(),
            "summary": summary_line(policy, summary),
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
