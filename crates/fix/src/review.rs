//! A page for browsers in which a person decides about the renames of a plan.
//!
//! Each rename is a row of a block of JSON; rows are written as the lines of the plan come, so memory does not grow with their number.
//! What the person decides is saved by the page as a file of [`super::decisions`].

mod limits;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_core::name::display::display;
use namegate_core::name::reading::Encoding;
use namegate_core::policy::Policy;
use namegate_core::policy::rule::{RULES, Rule, Severity};
use namegate_files::json::{self, Hex};
use namegate_files::page::{self, Page};
use serde::Serialize;
use serde_json::json;

use self::limits::NameLimit;
use super::plan::{FileKind, PlanDirectory, PlanHeader, PlanLine, Rename, path_in};

const PAGE: Page = Page {
    title: "Review of new names: namegate",
    style: include_str!("review/review.css"),
    body: include_str!("review/body.html"),
    script: concat!(include_str!("review/names.js"), include_str!("review/review.js")),
};

/// Maximum number of renames on a page: what a browser can handle.
const MAX_ROWS: u64 = 200_000;
/// Maximum number of existing names that a page knows, of all directories.
const MAX_TAKEN: usize = 500_000;
/// Maximum number of entries without a new name that are listed.
const MAX_SKIPPED: usize = 1_000;

/// The file of the plan that a page is about.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReviewedPlan {
    /// Its name, escaped for display.
    pub name: String,
    pub sha256: Hex,
}

/// Writes a page from the lines of a plan.
pub struct ReviewWriter<W> {
    out: W,
    header: PlanHeader,
    directory: Option<Arc<PlanDirectory>>,
    has_elements: bool,
    /// Texts that many rows share, by number.
    texts: HashMap<String, usize>,
    taken: usize,
    rows: u64,
    renames: u64,
    retargets: u64,
    skipped: Vec<[String; 2]>,
    skipped_count: u64,
}

/// A rename: its id, the displayed name, its bytes in hex if they differ from the displayed name, the new name, the level of
/// confidence, the numbers of the reading and the evidence, the rules, other names with the numbers of their readings, and 1 for a
/// directory.
#[derive(Serialize)]
struct RenameRow<'r>(
    u64,
    String,
    Option<Hex<&'r [u8]>>,
    &'r str,
    u8,
    usize,
    usize,
    Vec<usize>,
    Vec<(&'r str, usize)>,
    u8,
);

impl<W: Write> ReviewWriter<W> {
    /// Begins a page in `out`.
    pub fn new(mut out: W) -> io::Result<Self> {
        PAGE.begin(&mut out)?;
        page::begin_block(&mut out, "renames")?;
        out.write_all(b"[")?;
        Ok(Self {
            out,
            header: PlanHeader::default(),
            directory: None,
            has_elements: false,
            texts: HashMap::new(),
            taken: 0,
            rows: 0,
            renames: 0,
            retargets: 0,
            skipped: Vec::new(),
            skipped_count: 0,
        })
    }

    /// Adds a line of the plan.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn add(&mut self, line: PlanLine) -> io::Result<()> {
        match line {
            PlanLine::Header(header) => self.header = header,
            PlanLine::Rename(rename) => {
                self.renames += 1;
                if self.rows < MAX_ROWS {
                    self.rows += 1;
                    self.add_rename(&rename)?;
                }
            }
            PlanLine::Retarget(_) => self.retargets += 1,
            PlanLine::Skipped(skipped) => {
                self.skipped_count += 1;
                if self.skipped.len() < MAX_SKIPPED {
                    let path = path_in(&skipped.directory.path, &skipped.name);
                    self.skipped.push([display(&path).to_string(), skipped.why]);
                }
            }
        }
        Ok(())
    }

    fn add_rename(&mut self, rename: &Rename) -> io::Result<()> {
        if self.directory.as_ref().is_none_or(|last| last.path != rename.directory.path) {
            self.directory = Some(Arc::clone(&rename.directory));
            self.write_element(&display(&rename.directory.path).to_string())?;
            let names = self.existing_names(&rename.directory.path);
            self.write_element(&json!({ "taken": names }))?;
        }
        let shown = display(&rename.old).to_string();
        let hex = (shown.as_bytes() != rename.old).then(|| Hex(&*rename.old));
        let reading = self.text(&rename.reading);
        let evidence = self.text(rename.evidence.as_deref().unwrap_or_default());
        let alternatives = rename.alternatives.iter().map(|other| (&*other.new, self.text(&other.reading)));
        let alternatives = alternatives.collect();
        let rules = rename.reasons.iter().map(|&rule| rule as usize).collect();
        let is_directory = u8::from(rename.entry.kind == FileKind::Directory);
        let confidence = rename.confidence as u8;
        self.write_element(&RenameRow(
            rename.id,
            shown,
            hex,
            &rename.new,
            confidence,
            reading,
            evidence,
            rules,
            alternatives,
            is_directory,
        ))
    }

    fn write_element(&mut self, element: &impl Serialize) -> io::Result<()> {
        self.out.write_all(if std::mem::replace(&mut self.has_elements, true) { b",\n" } else { b"\n" })?;
        json::write_in_markup(&mut self.out, element)
    }

    /// The number of a text that many rows share.
    fn text(&mut self, text: &str) -> usize {
        let next = self.texts.len();
        *self.texts.entry(text.to_owned()).or_insert(next)
    }

    /// The names in a directory that are text, with which a new name can collide; `None` if they cannot be read, or are too many. Only
    /// the page uses them: `fix apply` looks itself.
    fn existing_names(&mut self, dir: &[u8]) -> Option<Vec<String>> {
        let entries = fs::read_dir(OsStr::from_bytes(dir)).ok()?;
        let names = entries.map_while(Result::ok).filter_map(|entry| entry.file_name().into_string().ok());
        let most = MAX_TAKEN - self.taken;
        let names: Vec<String> = names.take(most + 1).collect();
        if names.len() > most {
            return None;
        }
        self.taken += names.len();
        Some(names)
    }

    /// Ends the page. `policy` is that of the plan.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(mut self, plan: &ReviewedPlan, policy: Option<&Policy>) -> io::Result<()> {
        self.out.write_all(b"\n]")?;
        page::end_block(&mut self.out)?;
        let active = policy.map_or(&[][..], Policy::rules);
        let severity = |rule: &Rule| {
            let active = active.iter().filter(|active| active.test.rule() == rule.id);
            active.map(|active| active.severity).max().unwrap_or(rule.default)
        };
        let rules = RULES.iter().map(|rule| {
            let is_error = severity(rule) == Severity::Error;
            json!([rule.name, rule.summary, u8::from(is_error)])
        });
        let mut texts = vec![""; self.texts.len()];
        self.texts.iter().for_each(|(text, &number)| texts[number] = text);
        let PlanHeader { created, roots, profiles, encoding, left_out, archive, .. } = &self.header;
        let run = BTreeMap::from([
            ("plan", json!(plan)),
            ("is_archive", json!(archive.is_some())),
            ("created", json!(created)),
            ("roots", json!(roots.iter().map(|root| display(&root.path).to_string()).collect::<Vec<_>>())),
            ("profiles", json!(profiles)),
            ("encoding", json!(encoding)),
            ("left_out", json!(left_out)),
            ("encodings", json!(encodings())),
            ("rules", json!(rules.collect::<Vec<_>>())),
            ("texts", json!(texts)),
            ("limits", json!(active.iter().filter_map(NameLimit::from_rule).collect::<Vec<_>>())),
            ("rows", json!(self.rows)),
            ("renames", json!(self.renames)),
            ("retargets", json!(self.retargets)),
            ("skipped", json!(self.skipped)),
            ("skipped_count", json!(self.skipped_count)),
        ]);
        page::write_block(&mut self.out, "run", &run)?;
        PAGE.end(&mut self.out)?;
        self.out.flush()
    }
}

/// The encodings in which a group of names can be read: the label, and the upper half of a code page in which each byte is a character.
/// Browsers read the others.
fn encodings() -> Vec<(&'static str, Option<String>)> {
    let of_pairs = |encoding: Encoding| {
        let pairs: [&[u8]; 2] = [b"\xB0\xA1", b"\x83\x41"];
        pairs.iter().any(|pair| encoding.read(pair).is_some_and(|text| text.chars().count() == 1))
    };
    let upper_half = |encoding: Encoding| {
        let read = |byte: u8| encoding.read(&[byte]).and_then(|text| text.chars().next());
        (0x80..=0xFF).map(|byte| read(byte).unwrap_or('\u{FFFD}')).collect()
    };
    let all = Encoding::all().map(|(encoding, _)| encoding);
    all.map(|encoding| (encoding.name(), (!of_pairs(encoding)).then(|| upper_half(encoding)))).collect()
}
