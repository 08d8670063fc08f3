//! One page for browsers: readiness, charts, a table of all findings, and each name octet by octet.
//!
//! The page is one file and asks nobody for anything: its Content-Security-Policy lets in the script and the style that
//! stand in it, by their hashes, and no address at all. Names are data: they stand in a block of JSON in which nothing is
//! markup, escaped for display as on a terminal, and the script puts them on the page as text only. Findings are written
//! as they come; what is drawn from all of them follows at the end.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Group, Objection, Record, Report, Summary, json};
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
/// SHA-256 of the style and the script, in base64, a line each; a test keeps it so.
const HASHES: &str = include_str!("html/hashes.txt");

/// So many findings have a row. A browser takes no more than that, and a person even less.
const MAX_ROWS: u64 = 200_000;
/// So many members of a collision are listed.
const MAX_MEMBERS: usize = 500;
/// So many code points are told by name, and so many faults are listed.
const MAX_LISTED: usize = 10_000;

/// What the page says of a code point.
#[derive(Clone, Debug)]
pub struct Glyph {
    /// Its Unicode name.
    pub name: String,
    /// General_Category.
    pub category: &'static str,
    /// Script.
    pub script: &'static str,
}

/// Writes records as a page.
pub struct Html<W> {
    out: W,
    glyph: fn(u32) -> Option<Glyph>,
    has_begun: bool,
    has_elements: bool,
    rows: u64,
    place: Option<Arc<DirectoryPath>>,
    groups: HashMap<String, usize>,
    /// Who objects and who refuses: few combinations, and many findings that share them.
    sets: Vec<(ProfileSet, ProfileSet)>,
    glyphs: BTreeMap<u32, Glyph>,
    faults: Vec<Fault>,
}

#[derive(Serialize)]
struct Fault {
    path: String,
    message: String,
}

/// A finding: the name as it is shown, its bytes in hex if that is not the name itself, its objections, a
/// better name and how certain it is, where in its holder it stands.
#[derive(Serialize)]
struct Row<'r>(String, Option<String>, Vec<Reason<'r>>, Option<String>, Option<&'static str>, Option<String>);

/// An objection: rule, whether it is an error, bytes, who objects, why, collision.
#[derive(Serialize)]
struct Reason<'r>(usize, u8, usize, usize, usize, &'r str, Option<usize>);

impl<W: Write + Send> Html<W> {
    /// Writes to `out`; `glyph` tells what a code point is.
    pub fn new(out: W, glyph: fn(u32) -> Option<Glyph>) -> Self {
        Self {
            out,
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

    /// Writes one element of the findings: a directory that all rows behind it stand in, a collision, or a row.
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

    /// Everything that is not a finding.
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
        json!({
            "summary": json::summary_line(policy, summary),
            "titles": titles,
            "rules": rules.collect::<Vec<_>>(),
            "directories": directories.iter().map(|(dir, count)| json!([display(dir).to_string(), count])).collect::<Vec<_>>(),
            "scripts": summary.scripts,
            "sets": self.sets.iter().map(|&(all, refuse)| json!([names(all), names(refuse)])).collect::<Vec<_>>(),
            "glyphs": glyphs,
            "faults": self.faults,
            "rows": self.rows,
        })
    }
}

impl<W: Write + Send> Report for Html<W> {
    fn collision(&mut self, group: &Group) -> io::Result<()> {
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

    fn record(&mut self, record: &Record) -> io::Result<()> {
        // `check` gives every name, and a name that nothing is said against is no finding.
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
        let hex = (shown.as_bytes() != record.name).then(|| HEXLOWER.encode(&record.name));
        let reasons = record.objections.iter().map(|Objection { violation: v, message, group }| {
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
