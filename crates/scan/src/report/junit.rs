//! JUnit XML, as build servers read it: a directory with findings is a suite, a finding is a test that fails.
//!
//! There is no standard; the elements are those that Jenkins, GitLab and others have in common. A run without findings has
//! one test that passes, because some of them treat a file without tests as an error.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::mem;
use std::sync::Arc;

use namegate_core::name::display::display;
use namegate_core::policy::CheckOutcome;
use namegate_core::policy::rule::Severity;
use namegate_findings::fingerprint::CheckBasis;
use namegate_findings::location::DirectoryPath;
use namegate_findings::temporary;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use super::{
    DirectoryFindings, FailOn, RenderedFindings, Renderer, Report, ReportedName, ReportedViolation, Summary,
};

/// Bytes of the cases of a suite that are held in memory; the rest waits in a temporary file.
const MOST_HELD: usize = 1 << 20;

/// Writes findings as JUnit XML.
pub struct Junit<W: Write> {
    out: Writer<W>,
    fail_on: FailOn,
    has_begun: bool,
    /// The current directory and its cases; a suite begins with their number.
    place: Option<Arc<DirectoryPath>>,
    cases: RenderedCases,
}

/// The cases of a suite, as XML.
#[derive(Default)]
struct RenderedCases {
    /// The first cases, if there are many.
    earlier: Option<File>,
    xml: Vec<u8>,
    tests: usize,
    failures: usize,
    errors: usize,
}

impl RenderedCases {
    fn push(&mut self, xml: &[u8]) -> io::Result<()> {
        if self.xml.len() + xml.len() > MOST_HELD {
            if self.earlier.is_none() {
                self.earlier = Some(temporary::file()?);
            }
            self.earlier.iter_mut().try_for_each(|file| file.write_all(&self.xml))?;
            self.xml.clear();
        }
        self.xml.extend_from_slice(xml);
        Ok(())
    }

    fn write_to(self, out: &mut impl Write) -> io::Result<()> {
        if let Some(mut file) = self.earlier {
            file.rewind()?;
            io::copy(&mut file, out)?;
        }
        out.write_all(&self.xml)
    }
}

struct Case<'c> {
    name: &'c str,
    suite: &'c str,
    /// The output of the test; whether it fails depends on `result`.
    lines: &'c [String],
    kind: &'static str,
    result: Result,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Result {
    Passed,
    Failed,
    NotRun,
}

/// The result of the test for a record.
fn result_of(record: &ReportedName, fail_on: FailOn) -> Result {
    let outcome = record.outcome();
    let fails = match fail_on {
        FailOn::Warn => outcome >= CheckOutcome::Warn,
        FailOn::Error => outcome == CheckOutcome::Reject,
        FailOn::Never => false,
    };
    if fails { Result::Failed } else { Result::Passed }
}

/// The name of the suite for a directory.
fn suite_name(place: Option<&Arc<DirectoryPath>>) -> String {
    place.map_or_else(|| "names".to_owned(), |place| display(&place.heading()).to_string())
}

/// Writes an XML event on a line of its own.
fn write_line(out: &mut Writer<impl Write>, event: Event<'_>) -> io::Result<()> {
    out.get_mut().write_all(b"\n")?;
    out.write_event(event)
}

impl Case<'_> {
    fn write(&self, out: &mut Writer<impl Write>) -> io::Result<()> {
        let start =
            BytesStart::new("testcase").with_attributes([("name", self.name), ("classname", self.suite)]);
        let Some(first) = self.lines.first() else { return write_line(out, Event::Empty(start)) };
        write_line(out, Event::Start(start))?;
        let element = match self.result {
            Result::Passed => "system-out",
            Result::Failed => "failure",
            Result::NotRun => "error",
        };
        let mut inner = BytesStart::new(element);
        if self.result != Result::Passed {
            inner.extend_attributes([("type", self.kind), ("message", first.as_str())]);
        }
        write_line(out, Event::Start(inner))?;
        out.write_event(Event::Text(BytesText::new(&self.lines.join("\n"))))?;
        out.write_event(Event::End(BytesEnd::new(element)))?;
        write_line(out, Event::End(BytesEnd::new("testcase")))
    }
}

/// Writes the case for a record.
fn write_record(
    out: &mut Writer<impl Write>,
    suite: &str,
    fail_on: FailOn,
    record: &ReportedName,
) -> io::Result<()> {
    // The gravest first: build servers show only the first line.
    let mut objections: Vec<_> = record.objections.iter().collect();
    objections.sort_by_key(|o| std::cmp::Reverse(o.violation.severity));
    let line = |o: &&ReportedViolation| {
        let (rule, severity) = (o.violation.rule, o.violation.severity);
        format!("{severity} {rule} ({}): {}", rule.rule().concern, record.counted_message(o))
    };
    let mut lines: Vec<String> = record.encoding_note().into_iter().map(Cow::into_owned).collect();
    lines.extend(objections.iter().map(line));
    lines.extend(record.location.map(|location| location.to_string()));
    lines.extend(
        record.repair.as_ref().map(|repair| {
            format!("fix {} ({})", display(repair.name.as_bytes()), repair.confidence.as_str())
        }),
    );
    let case = Case {
        name: &display(&record.name).to_string(),
        suite,
        lines: &lines,
        kind: objections.first().map_or("", |o| o.violation.rule.name()),
        result: result_of(record, fail_on),
    };
    case.write(out)
}

/// The cases of a directory.
fn render(records: &[ReportedName], fail_on: FailOn) -> io::Result<Vec<u8>> {
    let suite = suite_name(records.first().and_then(|record| record.place.as_ref()));
    let mut xml = Writer::new(Vec::new());
    records.iter().try_for_each(|record| write_record(&mut xml, &suite, fail_on, record))?;
    Ok(xml.into_inner())
}

impl<W: Write + Send> Junit<W> {
    /// Writes to `out`; a finding below `fail_on` is a test that passes, with the finding in its output.
    pub fn new(out: W, fail_on: FailOn) -> Self {
        let cases = RenderedCases::default();
        Self { out: Writer::new(out), fail_on, has_begun: false, place: None, cases }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.has_begun {
            return Ok(());
        }
        self.has_begun = true;
        self.out.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        let suites = BytesStart::new("testsuites").with_attributes([("name", "namegate")]);
        write_line(&mut self.out, Event::Start(suites))
    }

    /// Writes the suite of the current directory.
    fn end_suite(&mut self) -> io::Result<()> {
        let (cases, place) = (mem::take(&mut self.cases), self.place.take());
        if cases.tests == 0 { Ok(()) } else { self.suite(&suite_name(place.as_ref()), cases) }
    }

    fn suite(&mut self, name: &str, cases: RenderedCases) -> io::Result<()> {
        self.begin()?;
        let suite = BytesStart::new("testsuite").with_attributes([
            ("name", name),
            ("tests", &cases.tests.to_string()),
            ("failures", &cases.failures.to_string()),
            ("errors", &cases.errors.to_string()),
            ("skipped", "0"),
        ]);
        write_line(&mut self.out, Event::Start(suite))?;
        cases.write_to(self.out.get_mut())?;
        write_line(&mut self.out, Event::End(BytesEnd::new("testsuite")))
    }

    /// Writes a suite of one case.
    fn suite_of_one(&mut self, case: &Case<'_>) -> io::Result<()> {
        let mut xml = Writer::new(Vec::new());
        case.write(&mut xml)?;
        let errors = usize::from(case.result == Result::NotRun);
        let cases = RenderedCases { xml: xml.into_inner(), tests: 1, errors, ..RenderedCases::default() };
        self.suite(case.suite, cases)
    }
}

impl<W: Write + Send> Report for Junit<W> {
    fn renderer(&self) -> Renderer {
        let fail_on = self.fail_on;
        Box::new(move |findings| {
            RenderedFindings::Bytes(render(&findings.records, fail_on).expect("memory takes every write"))
        })
    }

    fn write(&mut self, findings: &DirectoryFindings, rendered: &RenderedFindings) -> io::Result<()> {
        let records = &findings.records;
        let Some(first) = records.first() else { return Ok(()) };
        let is_same = match (&self.place, &first.place) {
            (Some(a), Some(b)) => a.is_same(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        if !is_same {
            self.end_suite()?;
            self.place.clone_from(&first.place);
        }
        self.cases.push(rendered.bytes())?;
        self.cases.tests += records.len();
        self.cases.failures +=
            records.iter().filter(|record| result_of(record, self.fail_on) == Result::Failed).count();
        Ok(())
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.end_suite()?;
        self.suite_of_one(&Case {
            name: &display(path).to_string(),
            suite: "could not be read",
            lines: &[message.to_owned()],
            kind: "unreadable",
            result: Result::NotRun,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.get_mut().flush()
    }

    fn finish(&mut self, _basis: &CheckBasis, summary: &Summary) -> io::Result<()> {
        self.end_suite()?;
        if let Some(what) = summary.incompleteness() {
            let (name, suite, lines) = ("the run as a whole", "incomplete", &[what][..]);
            let (kind, result) = ("incomplete", Result::NotRun);
            self.suite_of_one(&Case { name, suite, lines, kind, result })?;
        } else if summary.worst() < Some(Severity::Warn) {
            let name = &format!("{} names, {}", summary.names, summary.no_finding());
            let result = Result::Passed;
            self.suite_of_one(&Case { name, suite: "namegate", lines: &[], kind: "", result })?;
        }
        self.begin()?;
        write_line(&mut self.out, Event::End(BytesEnd::new("testsuites")))?;
        self.out.get_mut().write_all(b"\n")?;
        self.out.get_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_that_wait_in_a_file_are_written_in_their_order() {
        let (mut cases, mut expected) = (RenderedCases::default(), Vec::new());
        for number in 0..3 * MOST_HELD as u64 / 50_000 {
            let xml = format!("{number:0>50000}\n").into_bytes();
            cases.push(&xml).unwrap();
            expected.extend(xml);
            assert!(cases.xml.len() <= MOST_HELD);
        }
        assert!(cases.earlier.is_some());
        let mut written = Vec::new();
        cases.write_to(&mut written).unwrap();
        assert!(written == expected);
    }
}
