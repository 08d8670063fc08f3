//! A page for browsers: readiness, charts, a table of all findings, and each name byte by byte.
//!
//! The page is one file and loads nothing: its Content-Security-Policy allows its script and style by their
//! hashes, and no address. Names are data: they are in a block of JSON without markup, escaped for display as
//! on a terminal, and the script inserts them as text only. Findings are written as they arrive; the head and the
//! charts need all of them, and follow at the end.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::json::summary_line;
use super::{CollisionGroup, Report, ReportedName, ReportedViolation, Summary};
use crate::json::{self, Hex};
use crate::name::display::display;
use crate::name::utf8;
use crate::policy::Policy;
use crate::policy::profile::ProfileSet;
use crate::policy::rule::{RULES, Severity};
use crate::source::location::DirectoryPath;

const HEAD: &str = include_str!("html/head.html");
const BODY: &str = include_str!("html/body.html");
const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
/// SHA-256 of the style and the script in base64, one per line; a test keeps them current.
const HASHES: &str = include_str!("html/hashes.txt");

/// Maximum number of findings with a row: what a browser can handle.
const MAX_ROWS: u64 = 200_000;
/// Maximum number of members that are listed for a collision.
const MAX_MEMBERS: usize = 500;
/// Maximum number of code points that are named, and of errors that are listed.
const MAX_LISTED: usize = 10_000;

/// Information about a code point.
#[derive(Clone, Debug)]
pub struct Glyph {
    /// Its Unicode name.
    pub name: String,
    /// General_Category.
    pub category: &'static str,
    /// Script.
    pub script: &'static str,
}

/// Information about the run for the head of the page. All of it is escaped for display.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Head {
    /// The title.
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

/// Writes records as a page.
pub struct Html<W> {
    out: W,
    head: Head,
    glyph: fn(u32) -> Option<Glyph>,
    has_begun: bool,
    has_elements: bool,
    rows: u64,
    place: Option<Arc<DirectoryPath>>,
    groups: HashMap<String, usize>,
    /// Pairs of profiles that object and profiles that reject: few combinations, which many findings share.
    sets: Vec<(ProfileSet, ProfileSet)>,
    glyphs: BTreeMap<u32, Glyph>,
    faults: Vec<Fault>,
}

#[derive(Serialize)]
struct Fault {
    path: String,
    message: String,
}

/// A finding: the displayed name, its bytes in hex if they differ from the displayed name, its violations, a
/// suggested name and its confidence, its location in the container, its owner.
#[derive(Serialize)]
struct Row<'r>(
    String,
    Option<Hex<&'r [u8]>>,
    Vec<Reason<'r>>,
    Option<String>,
    Option<&'static str>,
    Option<String>,
    Option<&'r str>,
);

/// A violation: rule, 1 for an error, first byte, end, profiles, message, collision.
#[derive(Serialize)]
struct Reason<'r>(usize, u8, usize, usize, usize, &'r str, Option<usize>);

impl<W: Write + Send> Html<W> {
    /// Writes to `out`; `glyph` looks up a code point.
    pub fn new(out: W, head: Head, glyph: fn(u32) -> Option<Glyph>) -> Self {
        Self {
            out,
            head,
            glyph,
            has_begun: false,
            has_elements: false,
            rows: 0,
            place: None,
            groups: HashMap::new(),
            sets: Vec::new(),
            glyphs: BTreeMap::new(),
            faults: Vec::new(),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.has_begun {
            return Ok(());
        }
        self.has_begun = true;
        let mut hashes = HASHES.lines();
        let [style, script] = [(); 2].map(|()| hashes.next().unwrap_or_default());
        let policy = format!(
            "default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; base-uri 'none'; \
             form-action 'none'"
        );
        self.out.write_all(HEAD.replace("{policy}", &policy).as_bytes())?;
        write!(self.out, "<style>{STYLE}</style>\n</head>\n{BODY}")?;
        self.out.write_all(b"<script type=\"application/json\" id=\"findings\">[")
    }

    /// Writes one element of the findings: the directory of all following rows, a collision, or a row.
    fn element(&mut self, element: &impl Serialize) -> io::Result<()> {
        self.begin()?;
        self.out.write_all(if self.has_elements { b",\n" } else { b"\n" })?;
        self.has_elements = true;
        json::write_in_markup(&mut self.out, element)
    }

    fn set(&mut self, pair: (ProfileSet, ProfileSet)) -> usize {
        self.sets.iter().position(|&known| known == pair).unwrap_or_else(|| {
            self.sets.push(pair);
            self.sets.len() - 1
        })
    }

    fn note_glyphs(&mut self, name: &[u8]) {
        let encoded = name.utf8_chunks().flat_map(|chunk| chunk.valid().chars()).map(u32::from);
        let meant = utf8::ill_formed(name).filter_map(|found| found.value);
        for value in encoded.chain(meant) {
            if self.glyphs.len() < MAX_LISTED && !self.glyphs.contains_key(&value) {
                self.glyphs.extend((self.glyph)(value).map(|glyph| (value, glyph)));
            }
        }
    }

    /// Everything except the findings.
    fn run(&self, policy: &Policy, summary: &Summary) -> Value {
        let glyphs: BTreeMap<String, [&str; 3]> = (self.glyphs.iter())
            .map(|(value, glyph)| (format!("{value:X}"), [glyph.name.as_str(), glyph.category, glyph.script]))
            .collect();
        let rules = RULES.iter().map(|rule| {
            json!({
                "name": rule.name, "kind": rule.kind.as_str(), "concern": rule.concern.as_str(),
                "summary": rule.summary, "source": rule.source,
                "count": summary.rules.get(&rule.id).map_or(0, |&(count, _)| count),
                "error": summary.rules.get(&rule.id).is_some_and(|&(_, worst)| worst == Some(Severity::Error)),
            })
        });
        let directories = summary.worst_directories();
        let titles: BTreeMap<&str, &str> =
            summary.targets.iter().map(|of| (of.target.name, of.target.title)).collect();
        let names = |set: ProfileSet| set.names().collect::<Vec<_>>();
        let mut run = json!({
            "summary": summary_line(policy, summary),
            "titles": titles,
            "rules": rules.collect::<Vec<_>>(),
            "directories": directories.iter().map(|(dir, count)| json!([display(dir).to_string(), count])).collect::<Vec<_>>(),
            "scripts": summary.scripts,
            "sets": self.sets.iter().map(|&(all, refuse)| json!([names(all), names(refuse)])).collect::<Vec<_>>(),
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
    fn collision(&mut self, group: &CollisionGroup) -> io::Result<()> {
        if self.rows >= MAX_ROWS {
            return Ok(());
        }
        let at = self.groups.len();
        self.groups.insert(group.id.clone(), at);
        let members: Vec<String> =
            group.members.iter().take(MAX_MEMBERS).map(|name| display(name).to_string()).collect();
        self.element(&json!({
            "rule": group.violation.rule as usize, "count": group.members.len(), "members": members,
        }))
    }

    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        // `check` reports every name, and a name without violations is not a finding.
        if record.objections.is_empty() || self.rows >= MAX_ROWS {
            return Ok(());
        }
        self.rows += 1;
        if let Some(place) = &record.place
            && self.place.as_ref().is_none_or(|last| !last.is_same(place))
        {
            self.element(&display(&place.heading()).to_string())?;
            self.place = Some(Arc::clone(place));
        }
        self.note_glyphs(&record.name);
        let shown = display(&record.name).to_string();
        let hex = (shown.as_bytes() != record.name).then(|| Hex(&*record.name));
        let reasons = record.objections.iter().map(|ReportedViolation { violation: v, message, group }| {
            let set = self.set((v.profiles, v.refused_by));
            let group = group.as_ref().and_then(|group| self.groups.get(&group.id).copied());
            let is_error = u8::from(v.severity == Severity::Error);
            Reason(v.rule as usize, is_error, v.span.start, v.span.end, set, message, group)
        });
        let reasons = reasons.collect();
        let repair = record.repair.as_ref();
        self.element(&Row(
            shown,
            hex,
            reasons,
            repair.map(|repair| display(repair.name.as_bytes()).to_string()),
            repair.map(|repair| repair.confidence.as_str()),
            record.location.map(|location| location.to_string()),
            record.owner.as_deref(),
        ))
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        if self.faults.len() < MAX_LISTED {
            self.faults.push(Fault { path: display(path).to_string(), message: message.to_owned() });
        }
        Ok(())
    }

    fn pause(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, policy: &Policy, summary: &Summary) -> io::Result<()> {
        self.begin()?;
        self.out.write_all(b"\n]</script>\n<script type=\"application/json\" id=\"run\">")?;
        let run = self.run(policy, summary);
        json::write_in_markup(&mut self.out, &run)?;
        write!(self.out, "</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n")?;
        self.out.flush()
    }
}
