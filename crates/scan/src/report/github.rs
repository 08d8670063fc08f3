//! Annotations for the log of a workflow on GitHub: workflow commands, one for each name.
//!
//! GitHub shows a limited number of annotations of a step, so no more are written, and the last one says how many are left out
//! (<https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands>; the escapes are those of
//! <https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts>).

use std::io::{self, Write};

use namegate_core::name::display::display;
use namegate_core::policy::CheckOutcome;
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::location::Container;

use super::layout::counted;
use super::{DirectoryFindings, RenderedFindings, Report, ReportedName, Summary};

/// Maximum number of annotations of each level.
const MAX_ANNOTATIONS: u64 = 10;

/// Writes records as annotations.
pub struct Github<W> {
    out: W,
    errors: u64,
    warnings: u64,
    faults: u64,
}

impl<W: Write + Send> Github<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, errors: 0, warnings: 0, faults: 0 }
    }

    /// Writes an annotation of the file at `path`.
    fn annotate(&mut self, level: &str, path: &[u8], title: &str, message: &str) -> io::Result<()> {
        let path = display(path.strip_prefix(b"./").unwrap_or(path)).to_string();
        let (path, title) = (escape(&path, true), escape(title, true));
        writeln!(self.out, "::{level} file={path},title={title}::{}", escape(message, false))
    }

    /// Writes an annotation of the run.
    fn note(&mut self, level: &str, message: &str) -> io::Result<()> {
        writeln!(self.out, "::{level} title=namegate::{}", escape(message, false))
    }
}

/// Text in a workflow command; a property has further characters that end it.
fn escape(text: &str, is_property: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '%' => escaped.push_str("%25"),
            '\r' => escaped.push_str("%0D"),
            '\n' => escaped.push_str("%0A"),
            ':' if is_property => escaped.push_str("%3A"),
            ',' if is_property => escaped.push_str("%2C"),
            c => escaped.push(c),
        }
    }
    escaped
}

impl<W: Write + Send> Github<W> {
    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        let (level, count) = match record.outcome() {
            CheckOutcome::Accept => return Ok(()),
            CheckOutcome::Warn => ("warning", &mut self.warnings),
            CheckOutcome::Reject => ("error", &mut self.errors),
        };
        *count += 1;
        if *count > MAX_ANNOTATIONS {
            return Ok(());
        }
        let mut rules: Vec<&str> = record.objections.iter().map(|o| o.violation.rule.name()).collect();
        rules.dedup();
        let note = record.encoding_note().into_iter();
        let parts = note.chain(record.objections.iter().map(|o| record.counted_message(o)));
        let parts: Vec<_> = parts.collect();
        let path = record.path();
        // A list or an archive is the file that has to change; its names are not files.
        let container = record.place.as_ref().and_then(|place| place.container.as_deref());
        let (file, shown) = match container {
            Some(Container::List { file } | Container::Archive { file, .. }) => (file, &path),
            _ => (&path, &record.name),
        };
        let mut message = format!("`{}`: {}", display(shown), parts.join("; "));
        if let Some(repair) = &record.repair {
            let (name, confidence) = (display(repair.name.as_bytes()), repair.confidence.as_str());
            message.push_str(&format!(". Suggested name: `{name}` ({confidence})"));
        }
        self.annotate(level, file, &rules.join(", "), &message)
    }
}

impl<W: Write + Send> Report for Github<W> {
    fn write(&mut self, findings: &DirectoryFindings, _rendered: &RenderedFindings) -> io::Result<()> {
        findings.records.iter().try_for_each(|record| self.record(record))
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.faults += 1;
        match self.faults > MAX_ANNOTATIONS {
            true => Ok(()),
            false => self.annotate("error", path, "could not be read", message),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        let left_out = [
            (self.errors, "name with errors", "names with errors"),
            (self.warnings, "name with warnings only", "names with warnings only"),
            (self.faults, "entry that could not be read", "entries that could not be read"),
        ];
        let left_out = left_out.map(|(count, one, many)| (count.saturating_sub(MAX_ANNOTATIONS), one, many));
        let left_out: Vec<String> = left_out
            .into_iter()
            .filter(|&(count, ..)| count > 0)
            .map(|(count, one, many)| counted(count, one, many))
            .collect();
        if !left_out.is_empty() {
            self.note("notice", &format!("left out here: {}", left_out.join(", ")))?;
        }
        if let Some(what) = summary.incompleteness() {
            self.note("error", &what)?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_ends_its_part_of_a_command() {
        assert_eq!(escape("100%: a,b\r\n::error::x", true), "100%25%3A a%2Cb%0D%0A%3A%3Aerror%3A%3Ax");
        assert_eq!(escape("100%: a,b\n::x", false), "100%25: a,b%0A::x");
    }
}
