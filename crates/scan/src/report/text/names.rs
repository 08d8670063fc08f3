//! Names and their violations as text.
//!
//! A tree can have as many findings as names, so what is written for each takes no memory of its own, and nothing is formatted that
//! is text already.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::Write as _;

use anstyle::Style;
use namegate_core::name::Span;
use namegate_core::name::display::{display, display_part, is_plain};
use namegate_core::policy::CheckOutcome;

use crate::report::layout::{
    DIM, ERROR, GOOD, Layout, PLAIN, WARN, grouped, severity_style, styled, terminal_width, write_wrapped_to,
};
use crate::report::{ReportedName, ReportedViolation};

/// Maximum number of further places in a line for a rule; the rest is counted.
const MORE_PLACES: usize = 3;

/// Maximum number of violations that are marked in a name: more marks are unreadable.
const MOST_MARKED: usize = 64;

/// Minimum width of a message next to the rule and the place; otherwise it begins on the next line.
const MIN_MESSAGE: usize = 30;

/// About what a name with its violations takes.
const BYTES_OF_A_NAME: usize = 256;

const IN_MEMORY: &str = "memory takes every write";

/// The violations of one rule and severity in a name, which share a line.
struct RuleLine<'v> {
    first: &'v ReportedViolation,
    /// The number of others.
    others: usize,
    /// The places of the first of them.
    more: [Span; MORE_PLACES],
}

/// The names of a directory and their violations, without its heading.
pub(super) fn render(layout: Layout, records: &[ReportedName]) -> Vec<u8> {
    let mut out = Vec::with_capacity(BYTES_OF_A_NAME * records.len());
    let mut lines = Vec::new();
    for record in records {
        lines.clear();
        collect_lines(&record.objections, &mut lines);
        for unlisted in &record.unlisted {
            let is_of = |line: &&mut RuleLine<'_>| {
                let violation = line.first.violation;
                (violation.rule, violation.severity) == (unlisted.rule, unlisted.severity)
            };
            if let Some(line) = lines.iter_mut().find(is_of) {
                line.others += unlisted.count as usize;
            }
        }
        write_name(&mut out, layout, record, &lines);
    }
    out
}

/// Collects the violations by rule and severity, in the order of their first places.
fn collect_lines<'v>(objections: &'v [ReportedViolation], lines: &mut Vec<RuleLine<'v>>) {
    for objection in objections {
        let key = |o: &ReportedViolation| (o.violation.rule, o.violation.severity);
        match lines.iter_mut().find(|line| key(line.first) == key(objection)) {
            Some(line) => {
                if let Some(span) = line.more.get_mut(line.others) {
                    *span = objection.violation.span;
                }
                line.others += 1;
            }
            None => {
                let more = [Span::new(0, 0); MORE_PLACES];
                lines.push(RuleLine { first: objection, others: 0, more });
            }
        }
    }
}

fn write_name(out: &mut Vec<u8>, layout: Layout, record: &ReportedName, lines: &[RuleLine<'_>]) {
    let indent = match &record.place {
        None => {
            let outcome = record.outcome();
            write!(out, "{}  ", styled(outcome_style(outcome), outcome.as_str(), 6)).expect(IN_MEMORY);
            "        "
        }
        Some(_) => {
            out.extend_from_slice(b"  ");
            "    "
        }
    };
    match layout.is_styled {
        true => out.extend_from_slice(marked(&record.name, &record.objections).as_bytes()),
        false => push_name(out, &record.name),
    }
    if let Some(location) = record.location {
        write!(out, "  {}", styled(layout.style(DIM), location, 0)).expect(IN_MEMORY);
    }
    out.push(b'\n');
    if let Some(note) = record.encoding_note() {
        out.extend_from_slice(indent.as_bytes());
        out.extend_from_slice(note.as_bytes());
        out.push(b'\n');
    }
    write_lines(out, layout, indent, lines);
    if let Some(repair) = &record.repair {
        out.extend_from_slice(indent.as_bytes());
        push_column(out, layout.style(GOOD), 5, 3, |out| out.extend_from_slice(b"fix"));
        push_styled(out, layout.style(GOOD), |out| push_name(out, repair.name.as_bytes()));
        out.push(b' ');
        push_styled(out, layout.style(DIM), |out| {
            for part in ["(", repair.confidence.as_str(), ")"] {
                out.extend_from_slice(part.as_bytes());
            }
        });
        out.push(b'\n');
    }
}

/// Writes the violations of a name: severity, rule, bytes and message.
fn write_lines(out: &mut Vec<u8>, layout: Layout, indent: &str, lines: &[RuleLine<'_>]) {
    let firsts = || lines.iter().map(|line| &line.first.violation);
    let rule_width = firsts().map(|first| first.rule.name().len()).max().unwrap_or(0);
    let bytes_width = firsts().map(|first| ByteRange(first.span).len()).max().unwrap_or(0);
    let width = terminal_width().filter(|_| layout.is_wrapped).unwrap_or(usize::MAX);
    let column = indent.len() + 5 + 2 + rule_width + 2 + bytes_width + 2;
    for line in lines {
        let violation = &line.first.violation;
        let (severity, rule) = (violation.severity.as_str(), violation.rule.name());
        out.extend_from_slice(indent.as_bytes());
        push_column(out, layout.style(severity_style(violation.severity)), 5, severity.len(), |out| {
            out.extend_from_slice(severity.as_bytes());
        });
        push_column(out, PLAIN, rule_width, rule.len(), |out| out.extend_from_slice(rule.as_bytes()));
        let bytes = ByteRange(violation.span);
        push_column(out, layout.style(DIM), bytes_width, bytes.len(), |out| {
            write!(out, "{bytes}").expect(IN_MEMORY);
        });
        let message = line.message();
        let at = match width.saturating_sub(column) >= MIN_MESSAGE {
            true => column,
            false => {
                let at = indent.len() + 7;
                write!(out, "\n{:at$}", "").expect(IN_MEMORY);
                at
            }
        };
        write_wrapped_to(out, width, at, PLAIN, &message).expect(IN_MEMORY);
    }
}

impl<'v> RuleLine<'v> {
    /// The message of the first violation, with the places of the others.
    fn message(&self) -> Cow<'v, str> {
        let first = self.first.message.as_str();
        let Some(last) = self.others.checked_sub(1) else { return Cow::Borrowed(first) };
        let mut message = String::with_capacity(first.len() + 64);
        message.push_str(first);
        message.push_str("; also at ");
        // What does not fit is counted, as the last of the places.
        for at in 0..self.others.min(MORE_PLACES + 1) {
            message.push_str(match at {
                0 => "",
                _ if at == last.min(MORE_PLACES) => " and ",
                _ => ", ",
            });
            let _ = match self.more.get(at) {
                Some(&span) => write!(message, "{}", ByteRange(span)),
                None => write!(message, "{} more", grouped((self.others - MORE_PLACES) as u64)),
            };
        }
        Cow::Owned(message)
    }
}

/// Appends a name, escaped.
fn push_name(out: &mut Vec<u8>, name: &[u8]) {
    match is_plain(name) {
        true => out.extend_from_slice(name),
        false => write!(out, "{}", display(name)).expect(IN_MEMORY),
    }
}

fn push_styled(out: &mut Vec<u8>, style: Style, push: impl FnOnce(&mut Vec<u8>)) {
    if style == PLAIN {
        return push(out);
    }
    write!(out, "{style}").expect(IN_MEMORY);
    push(out);
    write!(out, "{style:#}").expect(IN_MEMORY);
}

/// Appends a column of `width` columns with ASCII text of `len` bytes, and the two spaces after it.
fn push_column(out: &mut Vec<u8>, style: Style, width: usize, len: usize, push: impl FnOnce(&mut Vec<u8>)) {
    push_styled(out, style, push);
    out.resize(out.len() + width + 2 - len.min(width), b' ');
}

/// Bytes of a name, from 0: `byte 3`, `bytes 3..5`.
struct ByteRange(Span);

impl ByteRange {
    fn len(&self) -> usize {
        let digits = |number: usize| number.checked_ilog10().map_or(1, |log| log as usize + 1);
        match self.0.len() {
            1 => "byte ".len() + digits(self.0.start),
            _ => "bytes ..".len() + digits(self.0.start) + digits(self.0.end),
        }
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => write!(f, "byte {}", self.0.start),
            _ => write!(f, "bytes {}..{}", self.0.start, self.0.end),
        }
    }
}

fn outcome_style(outcome: CheckOutcome) -> Style {
    match outcome {
        CheckOutcome::Accept => GOOD,
        CheckOutcome::Warn => WARN,
        CheckOutcome::Reject => ERROR,
    }
}

/// The name, with the bytes of these violations in the style of their severity.
pub(super) fn marked(name: &[u8], objections: &[ReportedViolation]) -> String {
    let objections = &objections[..objections.len().min(MOST_MARKED)];
    if objections.iter().all(|o| o.violation.span.len() == name.len()) {
        return display(name).to_string();
    }
    let mut cuts: Vec<usize> =
        objections.iter().flat_map(|o| [o.violation.span.start, o.violation.span.end]).collect();
    cuts.extend([0, name.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut text = String::new();
    for part in cuts.windows(2).map(|cut| Span::new(cut[0], cut[1])) {
        // A violation of the whole name locations nothing: there is no part that it could set apart.
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
