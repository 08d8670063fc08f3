//! A page for browsers: readiness, charts, a table of all findings, and each name byte by byte.
//!
//! Names are data: they are in a block of JSON without markup, escaped for display as on a terminal, and the script inserts them as
//! text only. Findings are written as they arrive; the head and the charts need all of them, and follow at the end.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namegate_core::name::display::display;
use namegate_core::name::utf8;
use namegate_core::policy::profile::ProfileSet;
use namegate_core::policy::rule::{RULES, Severity};
use namegate_files::json::{self, Hex};
use namegate_files::page::{self, Page};
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::location::DirectoryPath;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};

use super::json::lines::SummaryLine;
use super::{
    CollisionGroup, DirectoryFindings, RenderedFindings, Renderer, Report, ReportedName, ReportedViolation,
    Summary,
};

const PAGE: Page = Page {
    title: "File names: namegate report",
    style: include_str!("html/page.css"),
    body: include_str!("html/body.html"),
    script: include_str!("html/page.js"),
};

/// Maximum number of findings with a row: what a browser can handle.
const MAX_ROWS: u64 = 200_000;
/// Maximum number of members that are listed for a collision.
const MAX_MEMBERS: usize = 500;
/// Maximum number of code points that are named, and of errors that are listed.
const MAX_LISTED: usize = 10_000;

/// Information about a code point.
#[derive(Clone, Debug)]
pub struct Glyph {
    pub name: String,
    /// General_Category.
    pub category: &'static str,
    pub script: &'static str,
}

/// Information about the run for the head of the page. All of it is escaped for display.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReportMetadata {
    pub title: String,
    /// When the run began, as RFC 3339 in UTC.
    pub date: String,
    /// Name of the machine.
    pub host: String,
    /// Paths, lists, repositories and archives.
    pub scanned: Vec<String>,
    /// The place of the names on the target; empty if not given.
    pub prefix: String,
    /// Whether the table has a column for owners.
    #[serde(rename = "owners")]
    pub has_owners: bool,
}

/// Writes findings as a page.
pub struct Html<W> {
    out: W,
    head: ReportMetadata,
    index: Arc<RowIndex>,
    has_begun: bool,
    has_elements: bool,
    rows: u64,
    place: Option<Arc<DirectoryPath>>,
    faults: Vec<Fault>,
}

/// What rows refer to by number. The report and the threads that render rows share it.
struct RowIndex {
    glyph: fn(u32) -> Option<Glyph>,
    /// The page has as many rows as it can have.
    is_full: AtomicBool,
    entries: Mutex<IndexEntries>,
}

#[derive(Default)]
struct IndexEntries {
    /// Pairs of profiles that object and profiles that reject: few combinations, which many findings share.
    sets: Vec<(ProfileSet, ProfileSet)>,
    glyphs: BTreeMap<u32, Glyph>,
}

#[derive(Serialize)]
struct Fault {
    path: String,
    message: String,
}

/// A finding: the displayed name, its bytes in hex if they differ from the displayed name, its violations, a
/// suggested name and its confidence, its location in the container, its owner, and that it is not UTF-8.
#[derive(Serialize)]
struct Row<'r>(
    String,
    Option<Hex<&'r [u8]>>,
    Vec<Reason<'r>>,
    Option<String>,
    Option<&'static str>,
    Option<String>,
    Option<&'r str>,
    Option<Cow<'r, str>>,
);

/// A violation: rule, 1 for an error, first byte, end, profiles, message, id of the collision.
#[derive(Serialize)]
struct Reason<'r>(usize, u8, usize, usize, usize, Cow<'r, str>, Option<&'r str>);

impl RowIndex {
    fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The numbers of the pairs of profiles of all violations of `records`, in order. Adds the code points of the names.
    fn add(&self, records: &[ReportedName]) -> Vec<usize> {
        let names = records.iter().filter(|record| is_finding(record)).map(|record| &record.name);
        let code_points: BTreeSet<u32> = names.flat_map(|name| code_points(name)).collect();
        let mut entries = self.entries.lock();
        let IndexEntries { sets, glyphs } = &mut *entries;
        for value in code_points {
            if glyphs.len() < MAX_LISTED && !glyphs.contains_key(&value) {
                glyphs.extend((self.glyph)(value).map(|glyph| (value, glyph)));
            }
        }
        let violations = records.iter().flat_map(|record| &record.objections).map(|o| &o.violation);
        let mut number = |pair| {
            sets.iter().position(|&known| known == pair).unwrap_or_else(|| {
                sets.push(pair);
                sets.len() - 1
            })
        };
        violations.map(|violation| number((violation.profiles, violation.refused_by))).collect()
    }

    /// Renders the collisions and rows of a directory, each with a comma before it.
    fn render(&self, groups: &[Arc<CollisionGroup>], records: &[ReportedName]) -> Vec<u8> {
        let mut out = Vec::new();
        groups.iter().for_each(|group| render_collision(group, &mut out));
        let mut sets = self.add(records).into_iter();
        for record in records.iter().filter(|record| is_finding(record)) {
            let shown = display(&record.name).to_string();
            let hex = (shown.as_bytes() != record.name).then(|| Hex(&*record.name));
            let mut reasons = Vec::with_capacity(record.objections.len());
            for objection in &record.objections {
                let ReportedViolation { violation: v, group, .. } = objection;
                let group = group.as_ref().map(|group| group.id.as_str());
                let is_error = u8::from(v.severity == Severity::Error);
                let set = sets.next().unwrap_or_default();
                reasons.push(Reason(
                    v.rule as usize,
                    is_error,
                    v.span.start,
                    v.span.end,
                    set,
                    record.counted_message(objection),
                    group,
                ));
            }
            let repair = record.repair.as_ref();
            let row = Row(
                shown,
                hex,
                reasons,
                repair.map(|repair| display(repair.name.as_bytes()).to_string()),
                repair.map(|repair| repair.confidence.as_str()),
                record.location.map(|location| location.to_string()),
                record.owner.as_deref(),
                record.encoding_note(),
            );
            render_element(&row, &mut out);
        }
        out
    }
}

/// `check` reports every name, and a name without violations is not a finding.
fn is_finding(record: &ReportedName) -> bool {
    !record.objections.is_empty()
}

/// The code points in a name, and those that ill-formed sequences stand for.
fn code_points(name: &[u8]) -> impl Iterator<Item = u32> {
    let encoded = name.utf8_chunks().flat_map(|chunk| chunk.valid().chars()).map(u32::from);
    encoded.chain(utf8::ill_formed(name).filter_map(|found| found.value))
}

/// Renders an element of the findings, with a comma before it: the directory of all following rows, a collision, or a row.
fn render_element(element: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\n");
    json::write_in_markup(out, element).expect("memory takes every write, and an element has no maps");
}

fn render_collision(group: &CollisionGroup, out: &mut Vec<u8>) {
    let members: Vec<String> =
        group.members.iter().take(MAX_MEMBERS).map(|name| display(name).to_string()).collect();
    let element = json!({
        "id": group.id, "rule": group.violation.rule as usize, "count": group.members.len(), "members": members,
    });
    render_element(&element, out);
}

impl<W: Write + Send> Html<W> {
    /// Writes to `out`; `glyph` looks up a code point.
    pub fn new(out: W, head: ReportMetadata, glyph: fn(u32) -> Option<Glyph>) -> Self {
        let index = RowIndex { glyph, is_full: AtomicBool::new(false), entries: Mutex::default() };
        Self {
            out,
            head,
            index: Arc::new(index),
            has_begun: false,
            has_elements: false,
            rows: 0,
            place: None,
            faults: Vec::new(),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.has_begun {
            return Ok(());
        }
        self.has_begun = true;
        PAGE.begin(&mut self.out)?;
        page::begin_block(&mut self.out, "findings")?;
        self.out.write_all(b"[")
    }

    /// Writes rendered elements. Nothing is before the first one.
    fn elements(&mut self, elements: &[u8]) -> io::Result<()> {
        self.begin()?;
        let elements = if self.has_elements { elements } else { elements.get(1..).unwrap_or_default() };
        self.has_elements |= !elements.is_empty();
        self.out.write_all(elements)
    }

    /// Everything except the findings.
    fn run(&self, basis: &CheckBasis, summary: &Summary) -> Value {
        let entries = self.index.entries.lock();
        let glyphs: BTreeMap<String, [&str; 3]> = (entries.glyphs.iter())
            .map(|(value, glyph)| (format!("{value:X}"), [glyph.name.as_str(), glyph.category, glyph.script]))
            .collect();
        let rules = RULES.iter().map(|rule| {
            let counts = summary.rules.get(&rule.id).copied().unwrap_or_default();
            json!({
                "name": rule.name, "kind": rule.kind.as_str(), "concern": rule.concern.as_str(),
                "summary": rule.summary, "source": rule.source,
                "violations": counts.violations, "names": counts.names,
                "error": counts.worst == Some(Severity::Error),
            })
        });
        let directories = summary.worst_directories();
        let titles: BTreeMap<&str, &str> =
            summary.targets.iter().map(|of| (of.target.name, of.target.title)).collect();
        let names = |set: ProfileSet| set.names().collect::<Vec<_>>();
        let mut run = json!({
            "summary": SummaryLine::new(basis, summary),
            "incomplete": summary.incompleteness(),
            "titles": titles,
            "rules": rules.collect::<Vec<_>>(),
            "directories": directories.iter().map(|(dir, count)| json!([display(dir).to_string(), count])).collect::<Vec<_>>(),
            "scripts": summary.scripts,
            "sets": entries.sets.iter().map(|&(all, refuse)| json!([names(all), names(refuse)])).collect::<Vec<_>>(),
            "glyphs": glyphs,
            "faults": self.faults,
            "rows": self.rows,
        });
        if let (Value::Object(run), Ok(Value::Object(head))) = (&mut run, serde_json::to_value(&self.head)) {
            run.extend(head);
        }
        run
    }
}

impl<W: Write + Send> Report for Html<W> {
    fn renderer(&self) -> Renderer {
        let index = Arc::clone(&self.index);
        Box::new(move |DirectoryFindings { groups, records, .. }| {
            RenderedFindings::Bytes(if index.is_full() { Vec::new() } else { index.render(groups, records) })
        })
    }

    fn write(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        if self.index.is_full() {
            return Ok(());
        }
        let DirectoryFindings { groups, records: all, .. } = findings;
        if let Some(place) = all.first().and_then(|record| record.place.as_ref())
            && self.place.as_ref().is_none_or(|last| !last.is_same(place))
        {
            let mut directory = Vec::new();
            render_element(&display(&place.heading()).to_string(), &mut directory);
            self.elements(&directory)?;
            self.place = Some(Arc::clone(place));
        }
        let records = &all[..all.len().min((MAX_ROWS - self.rows) as usize)];
        self.rows += records.iter().filter(|record| is_finding(record)).count() as u64;
        if self.rows >= MAX_ROWS {
            self.index.is_full.store(true, Ordering::Relaxed);
        }
        match records.len() < all.len() {
            true => self.elements(&self.index.render(groups, records)),
            false => self.elements(rendered.bytes()),
        }
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        if self.faults.len() < MAX_LISTED {
            self.faults.push(Fault { path: display(path).to_string(), message: message.to_owned() });
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        self.begin()?;
        self.out.write_all(b"\n]")?;
        page::end_block(&mut self.out)?;
        let run = self.run(basis, summary);
        page::write_block(&mut self.out, "run", &run)?;
        PAGE.end(&mut self.out)?;
        self.out.flush()
    }
}
