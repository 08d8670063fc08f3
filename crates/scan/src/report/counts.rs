//! Counts of findings by rule, target or prefix, instead of the findings: the first look at very many.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::str::FromStr;

use anstyle::Style;
use namegate_core::name::display::display;
use namegate_core::policy::rule::RuleId;
use namegate_files::json::{self, Base64};
use namegate_files::spreadsheet::{BYTE_ORDER_MARK, inert};
use namegate_findings::fingerprint::CheckBasis;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use super::csv::rows;
use super::json::Json;
use super::layout::{BOLD, Layout, PLAIN, grouped, styled};
use super::text::Text;
use super::{Detail, DirectoryFindings, RenderedFindings, Report, ReportedName, Summary};

/// The most rows of a table: each is kept in memory.
const MOST_ROWS: usize = 1_000_000;

/// What findings are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountBy {
    Rule,
    /// The profile that objects.
    Target,
    /// The directory, up to this many levels.
    Prefix(usize),
}

impl FromStr for CountBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "rule" => Ok(Self::Rule),
            None if text == "target" => Ok(Self::Target),
            Some(("prefix", levels)) => match levels.parse() {
                Ok(levels @ 1..) => Ok(Self::Prefix(levels)),
                _ => Err("expected a number of levels from 1, as in prefix:2".into()),
            },
            _ => Err("expected rule, target or prefix:LEVELS".into()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum CountFormat {
    /// Text for people, with the summary.
    Text(Layout),
    /// JSON Lines, with the summary.
    Json,
    Csv,
}

/// One row of the table; what is not counted by is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct CountKey {
    prefix: Option<Vec<u8>>,
    target: Option<&'static str>,
    rule: Option<RuleId>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    names: u64,
    violations: u64,
}

/// Counts findings, and writes a table at the end.
pub struct CountReport<W> {
    out: W,
    by: Vec<CountBy>,
    format: CountFormat,
    counts: HashMap<CountKey, Counts>,
}

#[derive(Serialize)]
struct CountLine<'c> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<&'c str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix_base64: Option<Base64<&'c [u8]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'c str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'c str>,
    names: u64,
    violations: u64,
}

impl<W: Write + Send> CountReport<W> {
    /// Writes to `out` at the end.
    pub fn new(out: W, by: Vec<CountBy>, format: CountFormat) -> Self {
        Self { out, by, format, counts: HashMap::new() }
    }

    fn has(&self, by: CountBy) -> bool {
        self.by.contains(&by)
    }

    /// The rows, those with the most violations first.
    fn sorted(&self) -> Vec<(&CountKey, Counts)> {
        let mut sorted: Vec<_> = self.counts.iter().map(|(key, counts)| (key, *counts)).collect();
        sorted.sort_unstable_by(|a, b| b.1.violations.cmp(&a.1.violations).then_with(|| a.0.cmp(b.0)));
        sorted
    }

    /// The headings, and the cells of each row.
    fn table(&self) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let columns = self.by.iter().map(|by| match by {
            CountBy::Rule => "rule",
            CountBy::Target => "target",
            CountBy::Prefix(_) => "prefix",
        });
        let cells = |(key, counts): (&CountKey, Counts)| {
            let cells = self.by.iter().map(|by| match by {
                CountBy::Rule => key.rule.map(RuleId::name).unwrap_or_default().to_owned(),
                CountBy::Target => key.target.unwrap_or_default().to_owned(),
                CountBy::Prefix(_) => display(key.prefix.as_deref().unwrap_or_default()).to_string(),
            });
            cells.chain([counts.names.to_string(), counts.violations.to_string()]).collect()
        };
        (columns.chain(["names", "violations"]).collect(), self.sorted().into_iter().map(cells).collect())
    }

    fn write_text(&mut self) -> io::Result<()> {
        let (headings, mut table) = self.table();
        let words = self.by.len();
        for cell in table.iter_mut().flat_map(|row| &mut row[words..]) {
            *cell = grouped(cell.parse().expect("it is a number"));
        }
        let widths: Vec<usize> = (0..headings.len())
            .map(|at| table.iter().map(|row| row[at].width()).fold(headings[at].len(), usize::max))
            .collect();
        let line = |style: Style, cells: &[&str]| {
            let cells = cells.iter().zip(&widths).enumerate().map(|(at, (cell, &width))| match at < words {
                true => styled(style, cell, width).to_string(),
                false => format!("{:padding$}{}", "", styled(style, cell, 0), padding = width - cell.len()),
            });
            cells.collect::<Vec<_>>().join("  ")
        };
        writeln!(self.out, "{}", line(BOLD, &headings))?;
        for row in &table {
            writeln!(self.out, "{}", line(PLAIN, &row.iter().map(String::as_str).collect::<Vec<_>>()))?;
        }
        Ok(())
    }
}

/// The first levels of the directory of a path, with a separator at the end unless it is empty.
fn prefix(dir: &[u8], levels: usize) -> Vec<u8> {
    let end = memchr::memchr_iter(b'/', dir).nth(levels - 1).unwrap_or(dir.len());
    let mut prefix = dir[..end].to_vec();
    if !prefix.is_empty() && prefix.last() != Some(&b'/') {
        prefix.push(b'/');
    }
    prefix
}

impl<W: Write + Send> CountReport<W> {
    fn count(&mut self, record: &ReportedName) -> io::Result<()> {
        let levels = self.by.iter().find_map(|by| match by {
            CountBy::Prefix(levels) => Some(*levels),
            _ => None,
        });
        let dir = record.place.as_ref().map_or(&b""[..], |place| &place.dir);
        let prefix = levels.map(|levels| prefix(dir, levels));
        let (by_rule, by_target) = (self.has(CountBy::Rule), self.has(CountBy::Target));
        let mut of_name = BTreeSet::new();
        for objection in &record.objections {
            let violation = &objection.violation;
            let rule = by_rule.then_some(violation.rule);
            let targets = violation.profiles.names().filter(|_| by_target).map(Some);
            for target in targets.chain((!by_target).then_some(None)) {
                let key = CountKey { prefix: prefix.clone(), target, rule };
                if self.counts.len() >= MOST_ROWS && !self.counts.contains_key(&key) {
                    let message = "the table has more than 1,000,000 rows; choose fewer levels of prefix";
                    return Err(io::Error::other(message));
                }
                let counts = self.counts.entry(key.clone()).or_default();
                counts.violations += 1;
                counts.names += u64::from(of_name.insert(key));
            }
        }
        Ok(())
    }
}

impl<W: Write + Send> Report for CountReport<W> {
    fn detail(&self) -> Detail {
        Detail::Violations
    }

    fn write(&mut self, findings: &DirectoryFindings, _rendered: &RenderedFindings) -> io::Result<()> {
        findings.records.iter().try_for_each(|record| self.count(record))
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        match self.format {
            CountFormat::Text(layout) => Text::new(&mut self.out, layout).fault(path, message),
            CountFormat::Json => Json::new(&mut self.out).fault(path, message),
            CountFormat::Csv => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        match self.format {
            CountFormat::Text(layout) => {
                self.write_text()?;
                Text::new(&mut self.out, layout).finish(basis, summary)
            }
            CountFormat::Json => {
                let mut lines = Vec::new();
                for (key, Counts { names, violations }) in self.sorted() {
                    let line = CountLine {
                        r#type: "count",
                        prefix: key.prefix.as_deref().and_then(|prefix| std::str::from_utf8(prefix).ok()),
                        prefix_base64: key.prefix.as_deref().map(Base64),
                        target: key.target,
                        rule: key.rule.map(RuleId::name),
                        names,
                        violations,
                    };
                    json::write_line(&mut lines, &line)?;
                }
                self.out.write_all(&lines)?;
                Json::new(&mut self.out).finish(basis, summary)
            }
            CountFormat::Csv => {
                let (headings, mut table) = self.table();
                table.extend(summary.incompleteness().map(|what| {
                    let mut row = vec![String::new(); headings.len()];
                    row[0] = format!("incomplete: {what}");
                    row
                }));
                let text = rows(|out| {
                    out.write_record(headings)?;
                    table
                        .iter()
                        .try_for_each(|row| out.write_record(row.iter().map(|cell| inert(cell).into_owned())))
                });
                self.out.write_all(BYTE_ORDER_MARK.as_bytes())?;
                self.out.write_all(&text)?;
                self.out.flush()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_the_first_levels_of_the_directory() {
        let cases: [(&[u8], usize, &[u8]); 6] = [
            (b"", 1, b""),
            (b"a", 1, b"a/"),
            (b"a/b", 1, b"a/"),
            (b"a/b", 2, b"a/b/"),
            (b"a/b", 9, b"a/b/"),
            (b"/", 1, b""),
        ];
        for (dir, levels, expected) in cases {
            assert_eq!(prefix(dir, levels), expected, "{levels} of {}", dir.escape_ascii());
        }
        for bad in ["", "prefix", "prefix:0", "prefix:x", "name"] {
            assert!(bad.parse::<CountBy>().is_err(), "{bad}");
        }
    }
}
