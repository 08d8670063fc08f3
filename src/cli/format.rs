//! How findings are written: the options that every command with findings has.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::Path;

use clap::ValueEnum;

use super::CliError;
use crate::explain::CodePoint;
use crate::name::display::display;
use crate::name::reading::Encoding;
use crate::report::csv::Csv;
use crate::report::fan::{FaultReport, MultiReport};
use crate::report::html::{Glyph, Head, Html};
use crate::report::json::Json;
use crate::report::junit::Junit;
use crate::report::sarif::Sarif;
use crate::report::text::{Layout, Text};
use crate::report::{FailOn, Report};
use crate::time::timestamp_of_now;

/// The options.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// How the findings are written.
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Which findings make the exit status 1.
    #[arg(long, value_name = "SEVERITY", value_enum, default_value_t = Least::Warn)]
    fail_on: Least,
    /// The encoding of names that are not UTF-8, for the proposed repairs; guessed from the names if not given.
    #[arg(long, value_name = "NAME")]
    pub encoding: Option<Encoding>,
    /// Title of an HTML report [default: "File names: namegate report"].
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Least {
    /// All.
    Warn,
    /// Errors.
    Error,
    /// None.
    Never,
}

/// A format for findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// JSON Lines: one object a line, the summary last.
    Json,
    /// A table for spreadsheets, a row for each violation.
    Csv,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
    /// JUnit XML, for build servers.
    Junit,
    /// One page for browsers, that needs no network.
    Html,
}

impl ReportArgs {
    /// Which findings make a run fail.
    pub fn fail_on(&self) -> FailOn {
        match self.fail_on {
            Least::Warn => FailOn::Warn,
            Least::Error => FailOn::Error,
            Least::Never => FailOn::Never,
        }
    }

    /// The head of an HTML report; `writes_html` says whether the run writes one.
    ///
    /// # Errors
    /// A title without an HTML report.
    pub fn head(&self, writes_html: bool) -> Result<Head, CliError> {
        if self.title.is_some() && !writes_html {
            return Err(CliError::new("--title needs an HTML report: --format html, or -o FILE.html"));
        }
        // The name that the kernel has for this machine: nobody on the network is asked.
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let title = self.title.as_deref().unwrap_or("File names: namegate report");
        Ok(Head {
            title: display(title.as_bytes()).to_string(),
            date: timestamp_of_now(),
            host: display(host.trim_end().as_bytes()).to_string(),
            ..Head::default()
        })
    }

    /// The report that writes the format asked for to `out`, and to `faults` what could not be read, where `out` is made
    /// for programs that would not look for it.
    pub fn report<'o>(
        &self,
        out: &'o mut (dyn Write + Send),
        faults: &'o mut (dyn Write + Send),
        layout: Layout,
        head: &Head,
    ) -> Box<dyn Report + 'o> {
        let report = self.format.report(out, self.fail_on(), layout, head);
        match self.format {
            ReportFormat::Text | ReportFormat::Csv => {
                Box::new(MultiReport::new(vec![Box::new(FaultReport::new(faults)), report]))
            }
            _ => report,
        }
    }
}

impl ReportFormat {
    /// The report that writes this format to `out`.
    pub fn report<'o>(
        self,
        out: &'o mut (dyn Write + Send),
        fail_on: FailOn,
        layout: Layout,
        head: &Head,
    ) -> Box<dyn Report + 'o> {
        match self {
            Self::Text => Box::new(Text::new(out, layout)),
            Self::Json => Box::new(Json::new(out)),
            Self::Csv => Box::new(Csv::new(out)),
            Self::Sarif => Box::new(Sarif::new(out)),
            Self::Junit => Box::new(Junit::new(out, fail_on)),
            Self::Html => Box::new(Html::new(out, head.clone(), glyph)),
        }
    }

    /// The format that a file of this name has by custom.
    pub fn of(file: &Path) -> Option<Self> {
        match file.extension().and_then(OsStr::to_str)?.to_ascii_lowercase().as_str() {
            "txt" | "log" => Some(Self::Text),
            "json" if file.to_string_lossy().ends_with(".sarif.json") => Some(Self::Sarif),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "sarif" => Some(Self::Sarif),
            "xml" => Some(Self::Junit),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }
}

/// What a page says of a code point.
fn glyph(value: u32) -> Option<Glyph> {
    let CodePoint { name, properties, .. } = CodePoint::from_value(value)?;
    let (category, script) = properties.map(|p| (p.general_category, p.script)).unwrap_or_default();
    Some(Glyph { name, category, script })
}
