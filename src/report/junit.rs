//! JUnit XML, as build servers read it: a directory with findings is a suite, a finding is a test that fails.
//!
//! There is no standard; the elements are those that Jenkins, GitLab and others have in common. A run without findings has
//! one test that passes, because some of them treat a file without tests as an error.

use std::io::{self, Write};
use std::sync::Arc;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use super::{FailOn, Report, ReportedName, Summary};
use crate::name::display::display;
use crate::policy::rule::Severity;
use crate::policy::{CheckOutcome, Policy};
use crate::source::location::DirectoryPath;

/// Writes records as JUnit XML.
pub struct Junit<W: Write> {
    out: Writer<W>,
    fail_on: FailOn,
    has_begun: bool,
    /// The current directory and its cases; a suite begins with their number.
    place: Option<Arc<DirectoryPath>>,
    cases: Vec<Case>,
}

/// One test.
struct Case {
    name: String,
    /// The output of the test; whether it fails depends on `result`.
    lines: Vec<String>,
    kind: &'static str,
    result: Result,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Result {
    Passed,
    Failed,
    NotRun,
}

impl<W: Write + Send> Junit<W> {
    /// Writes to `out`; a finding below `fail_on` is a test that passes, with the finding in its output.
    pub fn new(out: W, fail_on: FailOn) -> Self {
        Self { out: Writer::new(out), fail_on, has_begun: false, place: None, cases: Vec::new() }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.has_begun {
            return Ok(());
        }
        self.has_begun = true;
        self.out.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
        self.line(Event::Start(BytesStart::new("testsuites").with_attributes([("name", "namegate")])))
    }

    fn line(&mut self, event: Event<'_>) -> io::Result<()> {
        self.out.get_mut().write_all(b"\n")?;
        self.out.write_event(event)
    }

    /// Writes the suite of the current directory.
    fn end_suite(&mut self) -> io::Result<()> {
        let cases = std::mem::take(&mut self.cases);
        let dir = self.place.take().map(|place| display(&place.heading()).to_string());
        if cases.is_empty() { Ok(()) } else { self.suite(dir.as_deref().unwrap_or("names"), &cases) }
    }

    fn suite(&mut self, name: &str, cases: &[Case]) -> io::Result<()> {
        self.begin()?;
        let of = |result| cases.iter().filter(|case| case.result == result).count().to_string();
        let suite = BytesStart::new("testsuite").with_attributes([
            ("name", name),
            ("tests", &cases.len().to_string()),
            ("failures", &of(Result::Failed)),
            ("errors", &of(Result::NotRun)),
            ("skipped", "0"),
        ]);
        self.line(Event::Start(suite))?;
        for case in cases {
            self.case(name, case)?;
        }
        self.line(Event::End(BytesEnd::new("testsuite")))
    }

    fn case(&mut self, suite: &str, case: &Case) -> io::Result<()> {
        let start =
            BytesStart::new("testcase").with_attributes([("name", case.name.as_str()), ("classname", suite)]);
        let Some(first) = case.lines.first() else { return self.line(Event::Empty(start)) };
        self.line(Event::Start(start))?;
        let element = match case.result {
            Result::Passed => "system-out",
            Result::Failed => "failure",
            Result::NotRun => "error",
        };
        let mut inner = BytesStart::new(element);
        if case.result != Result::Passed {
            inner.extend_attributes([("type", case.kind), ("message", first.as_str())]);
        }
        self.line(Event::Start(inner))?;
        self.out.write_event(Event::Text(BytesText::new(&case.lines.join("\n"))))?;
        self.out.write_event(Event::End(BytesEnd::new(element)))?;
        self.line(Event::End(BytesEnd::new("testcase")))
    }
}

impl<W: Write + Send> Report for Junit<W> {
    fn record(&mut self, record: &ReportedName) -> io::Result<()> {
        let same = match (&self.place, &record.place) {
            (Some(a), Some(b)) => a.is_same(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        if !same {
            self.end_suite()?;
            self.place.clone_from(&record.place);
        }
        let outcome = record.outcome();
        let fails = match self.fail_on {
            FailOn::Warn => outcome >= CheckOutcome::Warn,
            FailOn::Error => outcome == CheckOutcome::Reject,
            FailOn::Never => false,
        };
        // The gravest first: build servers show only the first line.
        let mut objections: Vec<_> = record.objections.iter().collect();
        objections.sort_by_key(|o| std::cmp::Reverse(o.violation.severity));
        let line = |o: &&super::ReportedViolation| {
            let (rule, severity) = (o.violation.rule, o.violation.severity);
            format!("{severity} {rule} ({}): {}", rule.rule().concern, o.message)
        };
        let mut lines: Vec<String> = objections.iter().map(line).collect();
        lines.extend(record.location.map(|location| location.to_string()));
        lines.extend(record.repair.as_ref().map(|repair| {
            format!("fix {} ({})", display(repair.name.as_bytes()), repair.confidence.as_str())
        }));
        self.cases.push(Case {
            name: display(&record.name).to_string(),
            kind: objections.first().map_or("", |o| o.violation.rule.name()),
            lines,
            result: if fails { Result::Failed } else { Result::Passed },
        });
        Ok(())
    }

    fn fault(&mut self, path: &[u8], message: &str) -> io::Result<()> {
        self.end_suite()?;
        let case = Case {
            name: display(path).to_string(),
            lines: vec![message.to_owned()],
            kind: "unreadable",
            result: Result::NotRun,
        };
        self.suite("could not be read", &[case])
    }

    fn pause(&mut self) -> io::Result<()> {
        self.out.get_mut().flush()
    }

    fn finish(&mut self, _policy: &Policy, summary: &Summary) -> io::Result<()> {
        self.end_suite()?;
        if summary.worst() < Some(Severity::Warn) && summary.unreadable == 0 {
            let name = format!("{} names without a finding", summary.names);
            let case = Case { name, lines: Vec::new(), kind: "", result: Result::Passed };
            self.suite("namegate", &[case])?;
        }
        self.begin()?;
        self.line(Event::End(BytesEnd::new("testsuites")))?;
        self.out.get_mut().write_all(b"\n")?;
        self.out.get_mut().flush()
    }
}
