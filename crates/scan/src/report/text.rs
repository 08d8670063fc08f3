//! Text for people: grouped by directory or by rule, with the bad bytes marked and all names escaped.

mod names;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

use anstyle::Style;
use namegate_core::name::Span;
use namegate_core::name::display::{display, display_part};
use namegate_core::policy::Confidence;
use namegate_core::policy::rule::{Concern, RuleId};
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::location::DirectoryPath;

use self::names::{marked, render};
use super::layout::{
    BOLD, DIM, ERROR, GOOD, GroupBy, Layout, PLAIN, WARN, counted, grouped, severity_style, styled,
};
use super::readiness::{Readiness, ReadinessVerdict, TargetCounts};
use super::{
    Detail, DirectoryFindings, RenderedFindings, Renderer, Report, ReportedName, Summary, render_later,
};
use crate::encoded_text::EncodedText;

/// Writes findings as text. Colours are escape sequences; the underlying writer removes them if they are not wanted.
pub struct Text<W> {
    out: W,
    layout: Layout,
    /// The directory of the last heading.
    place: Option<Arc<DirectoryPath>>,
    by_rule: BTreeMap<(Concern, RuleId), Vec<String>>,
}

impl<W: Write + Send> Text<W> {
    /// Writes to `out`.
    pub fn new(out: W, layout: Layout) -> Self {
        Self { out, layout, place: None, by_rule: BTreeMap::new() }
    }

    /// Writes the heading of the directory of `record`, unless it is that of the last record.
    fn begin_directory(&mut self, record: &ReportedName) -> io::Result<()> {
        let Some(place) = &record.place else { return Ok(()) };
        if self.place.as_ref().is_none_or(|last| !last.is_same(place)) {
            if self.place.is_some() {
                writeln!(self.out)?;
            }
            writeln!(self.out, "{}", styled(self.layout.style(BOLD), display(&place.heading()), 0))?;
            self.place = Some(Arc::clone(place));
        }
        Ok(())
    }

    fn keep(&mut self, record: &ReportedName) {
        let path = record.path();
        let name_at = path.len() - record.name.len();
        let dir = display_part(&path, Span::new(0, name_at));
        for objection in &record.objections {
            let violation = &objection.violation;
            let severity = styled(severity_style(violation.severity), violation.severity, 5);
            let name = marked(&record.name, std::slice::from_ref(objection));
            let message = record.message_of(objection);
            let line = format!("  {severity}  {dir}{name}\n         {DIM}{message}{DIM:#}");
            let rule = violation.rule;
            self.by_rule.entry((rule.rule().concern, rule)).or_default().push(line);
        }
    }

    fn write_by_rule(&mut self) -> io::Result<()> {
        for ((concern, rule), mut lines) in std::mem::take(&mut self.by_rule) {
            let count = counted(lines.len() as u64, "violation", "violations");
            writeln!(self.out, "{}  {concern}, {count}", styled(BOLD, rule, 0))?;
            lines.sort_unstable();
            for line in lines {
                writeln!(self.out, "{line}")?;
            }
            writeln!(self.out)?;
        }
        Ok(())
    }
}

impl<W: Write + Send> Report for Text<W> {
    fn detail(&self) -> Detail {
        match self.layout.group_by {
            GroupBy::Directory => Detail::OneMessagePerRule,
            GroupBy::Rule => Detail::Everything,
        }
    }

    fn renderer(&self) -> Renderer {
        match self.layout {
            Layout { group_by: GroupBy::Rule, .. } => render_later(),
            layout => Box::new(move |findings| RenderedFindings::Bytes(render(layout, &findings.records))),
        }
    }

    fn write(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        if self.layout.group_by == GroupBy::Rule {
            findings.records.iter().for_each(|record| self.keep(record));
        } else if let Some(first) = findings.records.first() {
            self.begin_directory(first)?;
        }
        self.out.write_all(rendered.bytes())
    }

    fn fault(&mut self, _path: &[u8], message: &str) -> io::Result<()> {
        if self.layout.faults {
            writeln!(self.out, "{}  {message}", styled(ERROR, "error", 0))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        if self.place.is_some() {
            writeln!(self.out)?;
        }
        self.write_by_rule()?;
        self.out.write_all(summary_text(basis, summary).as_bytes())?;
        if self.layout.readiness {
            self.out.write_all(readiness_text(summary).as_bytes())?;
        }
        self.out.flush()
    }
}

fn summary_text(basis: &CheckBasis, summary: &Summary) -> String {
    let mut text = String::new();
    let profiles: Vec<&str> = basis.profiles.names().collect();
    // People know Unicode by two numbers.
    let unicode = basis.unicode.strip_suffix(".0").unwrap_or(&basis.unicode);
    let by = format!("{}; Unicode {unicode}", profiles.join(", "));
    let within = match summary.directories {
        0 => String::new(),
        directories => format!(" in {}", counted(directories, "directory", "directories")),
    };
    let names = counted(summary.names, "name", "names");
    let _ = match summary.findings() {
        0 => {
            let (style, word) = match () {
                () if !summary.is_complete() => (WARN, "incomplete"),
                () if summary.encodings() == Some(Confidence::Guess) => (WARN, "uncertain"),
                () => (GOOD, "clean"),
            };
            let (word, none) = (styled(style, word, 0), summary.no_finding());
            writeln!(text, "{word}  {none} among {names}{within} ({by})")
        }
        findings => {
            // Findings that were stored without a summary do not say how many names were checked.
            let among = match summary.names >= findings {
                true => format!(" among {names}{within}"),
                false => String::new(),
            };
            let style = if summary.rejected > 0 { ERROR } else { WARN };
            writeln!(
                text,
                "{}{among} ({by}): {} rejected, {} with warnings only",
                styled(style, counted(findings, "name with findings", "names with findings"), 0),
                grouped(summary.rejected),
                grouped(summary.warned)
            )
        }
    };
    write_rules(&mut text, summary);
    write_directories(&mut text, summary);
    if let Some(baseline) = summary.baseline {
        let accepted = counted(baseline.accepted, "known finding is", "known findings are");
        let _ = writeln!(text, "{accepted} accepted by the baseline");
        if let Some(stale @ 1..) = baseline.stale {
            let stale = counted(stale, "entry of the baseline is", "entries of the baseline are");
            let _ = writeln!(text, "{stale} no longer found");
        }
    }
    write_unmarked(&mut text, summary);
    write_remarks(&mut text, summary);
    text
}

/// The violations by concern and rule.
fn write_rules(text: &mut String, summary: &Summary) {
    let rules = summary.rules_by_count();
    let concerns = Concern::ALL.map(|concern| {
        let of: Vec<_> = rules.iter().filter(|(rule, _)| rule.rule().concern == concern).collect();
        (concern, of)
    });
    for (concern, rules) in concerns.into_iter().filter(|(_, rules)| !rules.is_empty()) {
        let violations = rules.iter().map(|(_, counts)| counts.violations).sum();
        let violations = counted(violations, "violation", "violations");
        let _ = writeln!(text, "{}, {violations}", styled(BOLD, concern, 0));
        for (rule, counts) in rules {
            let name = styled(counts.worst.map_or(DIM, severity_style), rule, 24);
            let _ = writeln!(text, "{:>11}  {name} {}", grouped(counts.violations), rule.rule().summary);
        }
    }
}

/// What else people should know of the scan.
fn write_remarks(text: &mut String, summary: &Summary) {
    if let Some(what) = summary.incompleteness() {
        let _ = writeln!(text, "{}", styled(ERROR, what, 0));
    }
    if summary.vanished > 0 {
        let vanished = counted(summary.vanished, "entry", "entries");
        let _ = writeln!(text, "{vanished} vanished while the scan ran");
    }
    if summary.in_repositories > 0 {
        let names = counted(summary.in_repositories, "name is", "names are");
        let _ = writeln!(text, "{names} inside repositories, which new names would damage");
    }
    if summary.encoded.names > 0 {
        let names = counted(summary.encoded.names, "name has", "names have");
        let kinds: Vec<&str> = summary.encoded.kinds().map(EncodedText::as_str).collect();
        let kinds = kinds.join(",");
        let _ = writeln!(text, "{names} encoded text, which `namegate fix plan --decode {kinds}` decodes");
    }
}

/// How names of archives were read that are not marked as UTF-8.
fn write_unmarked(text: &mut String, summary: &Summary) {
    for names in &summary.unmarked {
        let members = counted(names.members(), "member", "members");
        let style = if names.confidence() == Some(Confidence::Guess) { WARN } else { BOLD };
        let _ = writeln!(
            text,
            "{}: names of {members} are not {}: {}",
            display(&names.file),
            names.missing(),
            styled(style, names, 0)
        );
    }
    if summary.encodings().is_some_and(|confidence| confidence != Confidence::Certain) {
        text.push_str(
            "  a program that unpacks them in another encoding creates other names: --archive-encoding checks these\n",
        );
    }
}

/// The directories with the most findings, if there are many.
fn write_directories(text: &mut String, summary: &Summary) {
    const MANY: usize = 10;
    const SHOWN: usize = 5;
    let directories = summary.worst_directories();
    if directories.len() < MANY {
        return;
    }
    let _ = writeln!(text, "{}", styled(BOLD, "most names with findings in", 0));
    for (dir, count) in &directories[..SHOWN] {
        let _ = writeln!(text, "{:>11}  {}", grouped(*count), display(dir));
    }
}

const fn verdict_style(verdict: ReadinessVerdict) -> Style {
    match verdict {
        ReadinessVerdict::Ready => GOOD,
        ReadinessVerdict::Doubtful | ReadinessVerdict::Uncertain | ReadinessVerdict::Incomplete => WARN,
        ReadinessVerdict::NotReady => ERROR,
    }
}

/// What each target does with the names, and a verdict.
fn readiness_text(summary: &Summary) -> String {
    const COLUMN: usize = 9;
    let mut text = String::new();
    let targets = &summary.targets;
    let Some(worst) = targets.iter().map(|target| summary.verdict(target)).max() else { return text };
    let width = targets.iter().map(|target| target.target.name.len()).max().unwrap_or(0).max("target".len());
    // Most trees have no such files, and a narrower table is easier to read.
    let has_left_behind = targets.iter().any(|target| target.counts.left_behind > 0);
    let heads = ["ready", "refused", "changed", "merged", "too long", "warned"];
    let _ = write!(text, "\n{}", styled(BOLD, "target", width));
    for head in heads {
        let _ = write!(text, " {head:>COLUMN$}");
    }
    if has_left_behind {
        let _ = write!(text, "  left behind");
    }
    let _ = writeln!(text, "  verdict");
    for target in targets {
        let _ = write!(text, "{:width$}", target.target.name);
        let TargetCounts { refused, changed, merged, too_long, left_behind, warned, .. } = target.counts;
        let counts = [target.ready(summary.names), refused, changed, merged, too_long, warned];
        let left_behind = has_left_behind.then_some((left_behind, "left behind".len() + 1));
        for (count, width) in counts.map(|count| (count, COLUMN)).into_iter().chain(left_behind) {
            let style = if count == 0 { DIM } else { PLAIN };
            let count = grouped(count);
            let _ = write!(text, " {style}{count:>width$}{style:#}");
        }
        let verdict = summary.verdict(target);
        let _ = writeln!(text, "  {}", styled(verdict_style(verdict), verdict, 0));
    }
    write_rules_by_target(&mut text, targets);
    write_verdict(&mut text, summary, worst);
    text
}

/// The worst verdict, for which targets it is, and why.
fn write_verdict(text: &mut String, summary: &Summary, worst: ReadinessVerdict) {
    let verdict = styled(verdict_style(worst), worst, 0);
    let names = summary.targets.iter().filter(|target| summary.verdict(target) == worst);
    let names: Vec<&str> = names.map(|target| target.target.name).collect();
    let _ = write!(text, "\nverdict: {verdict} for {}", names.join(", "));
    let lost = |count| counted(count, "name does not arrive as it is", "names do not arrive as they are");
    let _ = match worst {
        ReadinessVerdict::Ready | ReadinessVerdict::Doubtful => match summary.encodings() {
            Some(Confidence::Likely) => writeln!(text, ": not all names are marked as UTF-8"),
            _ => writeln!(text),
        },
        ReadinessVerdict::Uncertain => writeln!(text, ": it depends on a guessed encoding"),
        ReadinessVerdict::Incomplete => writeln!(text, ": not all names were checked"),
        ReadinessVerdict::NotReady => writeln!(text, ": {}", lost(summary.lost_or_changed)),
    };
}

/// How many names break each rule, for each target.
fn write_rules_by_target(text: &mut String, targets: &[Readiness]) {
    let rules: std::collections::BTreeSet<RuleId> =
        targets.iter().flat_map(|of| of.rules.keys().copied()).collect();
    let Some(width) = rules.iter().map(|rule| rule.name().len()).max() else { return };
    let columns: Vec<usize> = targets.iter().map(|of| of.target.name.len().max(7)).collect();
    let _ = write!(text, "\n{}", styled(BOLD, "names by rule", width));
    for (of, &column) in targets.iter().zip(&columns) {
        let _ = write!(text, "  {:>column$}", of.target.name);
    }
    text.push('\n');
    for rule in rules {
        let _ = write!(text, "{rule:width$}");
        for (of, &column) in targets.iter().zip(&columns) {
            let count = of.rules.get(&rule).map_or_else(|| "-".to_owned(), |count| grouped(*count));
            let _ = write!(text, "  {count:>column$}");
        }
        text.push('\n');
    }
}
