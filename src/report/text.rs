//! Text for people: grouped by directory, the offending bytes marked, nothing of a name acts on the terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use anstyle::Style;

use super::layout::{BOLD, DIM, ERROR, GOOD, PLAIN, WARN, counted, grouped, severity_style, styled};
use super::{Objection, Record, Report, Summary};
use crate::name::Span;
use crate::name::display::{display, display_part};
use crate::name::place::Place;
use crate::name::scalar::UNICODE_VERSION;
use crate::policy::rule::RuleId;
use crate::policy::{Outcome, Policy};

/// So many violations of one name are told one by one. A name with more is noise, and a screen full of it says no more
/// than a count.
const SHOWN: usize = 12;

/// Writes records as text. Colours are escape sequences; the writer below strips them where they are not wanted.
pub struct Text<W, E> {
    out: W,
    faults: E,
    /// The directory whose heading was written last.
    place: Option<Arc<Place>>,
}

impl<W: Write + Send, E: Write + Send> Text<W, E> {
    /// Writes to `out`, and what could not be read to `faults`: among findings it would be taken for one.
    pub fn new(out: W, faults: E) -> Self {
        Self { out, faults, place: None }
    }
}

impl<W: Write + Send, E: Write + Send> Report for Text<W, E> {
    fn record(&mut self, record: &Record) -> io::Result<()> {
        let indent = match &record.place {
            None => {
                let outcome = record.outcome();
                write!(self.out, "{}  ", styled(outcome_style(outcome), outcome.as_str(), 6))?;
                "        "
            }
            Some(place) => {
                if self.place.as_ref().is_none_or(|last| !last.is_same(place)) {
                    if self.place.is_some() {
                        writeln!(self.out)?;
                    }
                    writeln!(self.out, "{}", styled(BOLD, display(&place.heading()), 0))?;
                    self.place = Some(Arc::clone(place));
                }
                self.out.write_all(b"  ")?;
                "    "
            }
        };
        let (shown, rest) = record.objections.split_at(record.objections.len().min(SHOWN));
        write!(self.out, "{}", marked(&record.name, shown))?;
        match record.mark {
            Some(mark) => writeln!(self.out, "  {}", styled(DIM, mark, 0))?,
            None => writeln!(self.out)?,
        }
        let rule_width = shown.iter().map(|o| o.violation.rule.name().len()).max().unwrap_or(0);
        let place_width = shown.iter().map(|o| place_of(o.violation.span).len()).max().unwrap_or(0);
        for Objection { violation, message } in shown {
            let severity = styled(severity_style(violation.severity), violation.severity, 5);
            let rule = styled(PLAIN, violation.rule, rule_width);
            let place = styled(DIM, place_of(violation.span), place_width);
            writeln!(self.out, "{indent}{severity}  {rule}  {place}  {message}")?;
        }
        if !rest.is_empty() {
            let more = counted(rest.len() as u64, "more violation", "more violations");
            writeln!(self.out, "{indent}{}  and {more}: {}", styled(PLAIN, "", 5), by_rule(rest))?;
        }
        if let Some(repair) = &record.repair {
            let name = styled(GOOD, display(repair.name.as_bytes()), 0);
            let confidence = styled(DIM, format_args!("({})", repair.confidence.as_str()), 0);
            writeln!(self.out, "{indent}{}  {name} {confidence}", styled(GOOD, "fix", 5))?;
        }
        Ok(())
    }

    fn fault(&mut self, _path: &[u8], message: &str) -> io::Result<()> {
        writeln!(self.faults, "namegate: {message}")?;
        self.faults.flush()
    }

    fn pause(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, policy: &Policy, summary: &Summary) -> io::Result<()> {
        if self.place.is_some() {
            writeln!(self.out)?;
        }
        self.out.write_all(summary_text(policy, summary).as_bytes())?;
        self.out.flush()
    }
}

fn outcome_style(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Accept => GOOD,
        Outcome::Warn => WARN,
        Outcome::Reject => ERROR,
    }
}

/// The name with the bytes of these violations in their severity's style.
fn marked(name: &[u8], objections: &[Objection]) -> String {
    let mut cuts: Vec<usize> =
        objections.iter().flat_map(|o| [o.violation.span.start, o.violation.span.end]).collect();
    cuts.extend([0, name.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut text = String::new();
    for part in cuts.windows(2).map(|cut| Span::new(cut[0], cut[1])) {
        // A violation of the whole name marks nothing: there is no part that it could set apart.
        let covers = |span: Span| span.start <= part.start && part.end <= span.end && span.len() < name.len();
        let severities = objections.iter().filter(|o| covers(o.violation.span)).map(|o| o.violation.severity);
        let shown = display_part(name, part);
        let _ = match severities.max() {
            Some(severity) => write!(text, "{}", styled(severity_style(severity), shown, 0)),
            None => write!(text, "{shown}"),
        };
    }
    text
}

/// How often each rule is violated, the most frequent first.
fn by_rule(objections: &[Objection]) -> String {
    let mut counts = BTreeMap::<RuleId, usize>::new();
    for objection in objections {
        *counts.entry(objection.violation.rule).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(rule, count)| (std::cmp::Reverse(count), rule));
    let counts: Vec<String> =
        counts.iter().map(|(rule, count)| format!("{} {rule}", grouped(*count as u64))).collect();
    counts.join(", ")
}

/// Where in the name, in bytes from 0: `byte 3`, `bytes 3..5`.
fn place_of(span: Span) -> String {
    if span.len() == 1 {
        format!("byte {}", span.start)
    } else {
        format!("bytes {}..{}", span.start, span.end)
    }
}

fn summary_text(policy: &Policy, summary: &Summary) -> String {
    let mut text = String::new();
    let (major, minor, _) = UNICODE_VERSION;
    let profiles: Vec<&str> = policy.asked_by().names().collect();
    let by = format!("{}; Unicode {major}.{minor}", profiles.join(", "));
    let within = match summary.directories {
        0 => String::new(),
        directories => format!(" in {}", counted(directories, "directory", "directories")),
    };
    let names = counted(summary.names, "name", "names");
    let _ = match summary.findings() {
        0 => {
            let (style, word) = if summary.unreadable == 0 { (GOOD, "clean") } else { (WARN, "incomplete") };
            writeln!(text, "{}  no finding among {names}{within} ({by})", styled(style, word, 0))
        }
        findings => {
            let style = if summary.rejected > 0 { ERROR } else { WARN };
            writeln!(
                text,
                "{} among {names}{within} ({by}): {} rejected, {} with warnings",
                styled(style, counted(findings, "finding", "findings"), 0),
                grouped(summary.rejected),
                grouped(summary.warned)
            )
        }
    };
    let mut rules: Vec<_> = summary.rules.iter().collect();
    rules.sort_by_key(|(rule, (count, _))| (std::cmp::Reverse(*count), **rule));
    for (rule, (count, severity)) in rules {
        let style = severity.map_or(DIM, severity_style);
        let name = styled(style, rule, 24);
        let _ = writeln!(text, "{:>11}  {name} {}", grouped(*count), rule.rule().summary);
    }
    if summary.unreadable > 0 {
        let unread = format!("{} could not be read", counted(summary.unreadable, "entry", "entries"));
        let holds = if summary.unreadable == 1 { "it holds" } else { "they hold" };
        let _ = writeln!(text, "{}: what {holds} was not judged", styled(ERROR, unread, 0));
    }
    if summary.vanished > 0 {
        let vanished = counted(summary.vanished, "entry", "entries");
        let _ = writeln!(text, "{vanished} vanished while the scan ran");
    }
    text
}
