//! Text for people: grouped by directory, the offending bytes marked, nothing of a name acts on the terminal.

use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::Style;

use super::layout::{BOLD, DIM, ERROR, GOOD, WARN, severity_style, styled};
use super::{Objection, Record, Report, Summary};
use crate::name::Span;
use crate::name::display::{display, display_part};
use crate::name::scalar::UNICODE_VERSION;
use crate::policy::{Outcome, Policy};

/// Writes records as text. Colours are escape sequences; the writer below strips them where they are not wanted.
pub struct Text<W, E> {
    out: W,
    faults: E,
    /// The directory whose heading was written last.
    dir: Option<Vec<u8>>,
}

impl<W: Write + Send, E: Write + Send> Text<W, E> {
    /// Writes to `out`, and what could not be read to `faults`: among findings it would be taken for one.
    pub fn new(out: W, faults: E) -> Self {
        Self { out, faults, dir: None }
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
                if self.dir.as_ref() != Some(&place.dir) {
                    if self.dir.is_some() {
                        writeln!(self.out)?;
                    }
                    let dir = if place.dir.is_empty() { &b"."[..] } else { &place.dir };
                    writeln!(self.out, "{}", styled(BOLD, display(dir), 0))?;
                    self.dir = Some(place.dir.clone());
                }
                self.out.write_all(b"  ")?;
                "    "
            }
        };
        writeln!(self.out, "{}", marked(record))?;
        for Objection { violation, message } in &record.objections {
            let severity = styled(severity_style(violation.severity), violation.severity, 5);
            writeln!(
                self.out,
                "{indent}{severity}  {}  {}  {message}",
                violation.rule,
                place_of(violation.span)
            )?;
        }
        if let Some(repair) = &record.repair {
            let name = styled(GOOD, display(repair.name.as_bytes()), 0);
            let confidence = styled(DIM, format_args!("({})", repair.confidence.as_str()), 0);
            writeln!(self.out, "{indent}{}  {name} {confidence}", styled(GOOD, "fix", 5))?;
        }
        Ok(())
    }

    fn fault(&mut self, _path: &[u8], message: &str) -> io::Result<()> {
        writeln!(self.faults, "namegate: {message}")
    }

    fn finish(&mut self, policy: &Policy, summary: &Summary) -> io::Result<()> {
        if self.dir.is_some() {
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

/// The name with the bytes of its violations in their severity's style.
fn marked(record: &Record) -> String {
    let name = &record.name;
    let mut cuts: Vec<usize> =
        record.objections.iter().flat_map(|o| [o.violation.span.start, o.violation.span.end]).collect();
    cuts.extend([0, name.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut text = String::new();
    for part in cuts.windows(2).map(|cut| Span::new(cut[0], cut[1])) {
        // A violation of the whole name marks nothing: there is no part that it could set apart.
        let covers = |span: Span| span.start <= part.start && part.end <= span.end && span.len() < name.len();
        let severities =
            record.objections.iter().filter(|o| covers(o.violation.span)).map(|o| o.violation.severity);
        let shown = display_part(name, part);
        let _ = match severities.max() {
            Some(severity) => write!(text, "{}", styled(severity_style(severity), shown, 0)),
            None => write!(text, "{shown}"),
        };
    }
    text
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
        0 => writeln!(text, "{}  no finding among {names}{within} ({by})", styled(GOOD, "clean", 0)),
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
        let _ = writeln!(
            text,
            "{}: what they hold was not judged",
            styled(
                ERROR,
                format_args!("{} could not be read", counted(summary.unreadable, "thing", "things")),
                0
            )
        );
    }
    if summary.vanished > 0 {
        let _ = writeln!(
            text,
            "{} gone before they were read",
            counted(summary.vanished, "entry was", "entries were")
        );
    }
    text
}

fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n), if n == 1 { one } else { many })
}

/// `1234567` as `1,234,567`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(n), text);
        }
    }
}
