//! Output formats: `--format` of every command that has one, and the options of every command with findings.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::CliError;
use super::words::word_parser;
use crate::explain::CodePoint;
use clap::builder::{EnumValueParser, PossibleValue};
use clap::error::{ErrorKind, Result as ClapResult};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, ValueEnum};
use namegate_core::name::display::display;
use namegate_core::name::reading::Encoding;
use namegate_files::time::timestamp_of_now;
use namegate_scan::report::counts::{CountBy, CountFormat, CountReport};
use namegate_scan::report::csv::Csv;
use namegate_scan::report::github::Github;
use namegate_scan::report::html::{Glyph, Html, ReportMetadata};
use namegate_scan::report::json::Json;
use namegate_scan::report::junit::Junit;
use namegate_scan::report::layout::{BOLD, Layout, PLAIN, styled, write_wrapped};
use namegate_scan::report::multi_report::{FaultReport, MultiReport};
#[cfg(feature = "parquet")]
use namegate_scan::report::parquet::Parquet;
use namegate_scan::report::sarif::Sarif;
use namegate_scan::report::text::Text;
use namegate_scan::report::{FailOn, Report};

/// The output format of a command: `--format`, and `--json`, which means `--format json` wherever there is a format.
///
/// The first of the formats is the default.
#[derive(Clone, Copy, Debug)]
pub struct FormatArgs<F> {
    /// The format.
    pub format: F,
    /// Whether an option names it.
    pub is_given: bool,
}

impl<F: ValueEnum + Send + Sync + 'static> clap::Args for FormatArgs<F> {
    fn augment_args(command: Command) -> Command {
        let default = F::value_variants().first().and_then(F::to_possible_value);
        let default = default.iter().map(PossibleValue::get_name).collect::<String>();
        let format = Arg::new("format").long("format").value_name("FORMAT");
        let format = format.help(format!("Output format [default: {default}]"));
        let json = Arg::new("json").long("json").help("The same as --format json");
        command
            .arg(format.value_parser(EnumValueParser::<F>::new()))
            .arg(json.action(ArgAction::SetTrue).conflicts_with("format"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<F: ValueEnum + Send + Sync + 'static> FromArgMatches for FormatArgs<F> {
    fn from_arg_matches(matches: &ArgMatches) -> ClapResult<Self> {
        let json = matches.get_flag("json").then(|| F::from_str("json", false).ok()).flatten();
        let given = json.or_else(|| matches.get_one::<F>("format").cloned());
        let is_given = given.is_some();
        let format = given.or_else(|| F::value_variants().first().cloned());
        format
            .map(|format| Self { format, is_given })
            .ok_or_else(|| clap::Error::new(ErrorKind::MissingRequiredArgument))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> ClapResult<()> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// A format of a command that writes text or JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlainFormat {
    /// Text for people
    Text,
    /// JSON: one object on each line
    Json,
}

/// The options.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct ReportArgs {
    #[command(flatten)]
    pub format: FormatArgs<ReportFormat>,
    /// Exit with status 1 for findings of at least this severity
    #[arg(long, value_name = "SEVERITY", value_parser = word_parser(FailOn::WORDS), default_value = "warn")]
    pub fail_on: FailOn,
    /// Title of an HTML report [default: "File names: namegate report"]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
}

/// The options of commands that suggest names.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct SuggestionArgs {
    /// Encoding of names that are not UTF-8, for suggested names (`namegate rules --encodings` lists all)
    /// [default: guessed from the names]
    #[arg(long, value_name = "NAME")]
    pub encoding: Option<Encoding>,
}

/// Writes the name of a field, and its value wrapped in the columns behind `width`.
pub(super) fn write_field(out: &mut dyn Write, width: usize, name: &str, value: &str) -> io::Result<()> {
    write!(out, "{}", styled(BOLD, name, width))?;
    write_wrapped(out, width, PLAIN, value)
}

/// A format for findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text for people
    Text,
    /// JSON Lines: one object per finding, the summary last
    Json,
    /// Table for spreadsheets: one row per violation
    Csv,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// JUnit XML, for build servers
    Junit,
    /// HTML page that needs no network
    Html,
    /// Annotations in the log of a workflow on GitHub: at most ten errors and ten warnings
    Github,
    /// Parquet file: one row per violation, the summary in its metadata
    #[cfg(feature = "parquet")]
    Parquet,
}

impl ReportArgs {
    /// The head of an HTML report; `writes_html` says whether the run writes one.
    ///
    /// # Errors
    /// A title without an HTML report; a format that is no text on standard output.
    pub fn head(&self, writes_html: bool) -> Result<ReportMetadata, CliError> {
        if self.format.format.is_binary() {
            return Err(CliError::new("this format is written to a file or a pipe: -o FILE.parquet"));
        }
        if self.title.is_some() && !writes_html {
            return Err(CliError::new("--title needs an HTML report: --format html, or -o FILE.html"));
        }
        // The name that the kernel has for this machine: nobody on the network is asked.
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let title = self.title.as_deref().unwrap_or("File names: namegate report");
        Ok(ReportMetadata {
            title: display(title.as_bytes()).to_string(),
            date: timestamp_of_now(),
            host: display(host.trim_end().as_bytes()).to_string(),
            ..ReportMetadata::default()
        })
    }

    /// The report that writes counts to `out`, and to `faults` what could not be read, where `out` is made for programs.
    ///
    /// # Errors
    /// A format that has no tables.
    pub fn counts<'o>(
        &self,
        out: &'o mut (dyn Write + Send),
        faults: &'o mut (dyn Write + Send),
        layout: Layout,
        by: &[CountBy],
    ) -> Result<Box<dyn Report + 'o>, CliError> {
        let format = match self.format.format {
            ReportFormat::Text => CountFormat::Text(layout),
            ReportFormat::Json => CountFormat::Json,
            ReportFormat::Csv => CountFormat::Csv,
            _ => return Err(CliError::new("--summary-by needs --format text, json or csv")),
        };
        let report = Box::new(CountReport::new(out, by.to_vec(), format));
        Ok(match format {
            CountFormat::Json => report,
            _ => Box::new(MultiReport::new(vec![Box::new(FaultReport::new(faults)), report])),
        })
    }

    /// The report that writes the format asked for to `out`, and to `faults` what could not be read, where `out` is made
    /// for programs that would not look for it.
    pub fn report<'o>(
        &self,
        out: &'o mut (dyn Write + Send),
        faults: &'o mut (dyn Write + Send),
        layout: Layout,
        head: &ReportMetadata,
    ) -> Box<dyn Report + 'o> {
        let report = self.format.format.report(out, self.fail_on, layout, head);
        match self.format.format {
            ReportFormat::Text | ReportFormat::Csv => {
                Box::new(MultiReport::new(vec![Box::new(FaultReport::new(faults)), report]))
            }
            _ => report,
        }
    }
}

impl ReportFormat {
    /// Whether the format is no text, and has bytes that look like colours.
    pub fn is_binary(self) -> bool {
        match self {
            #[cfg(feature = "parquet")]
            Self::Parquet => true,
            Self::Text | Self::Json | Self::Csv | Self::Sarif | Self::Junit | Self::Html | Self::Github => {
                false
            }
        }
    }

    /// The report that writes this format to `out`.
    pub fn report<'o>(
        self,
        out: &'o mut (dyn Write + Send),
        fail_on: FailOn,
        layout: Layout,
        head: &ReportMetadata,
    ) -> Box<dyn Report + 'o> {
        match self {
            Self::Text => Box::new(Text::new(out, layout)),
            Self::Json => Box::new(Json::new(out)),
            Self::Csv => Box::new(Csv::new(out)),
            Self::Sarif => Box::new(Sarif::new(out)),
            Self::Junit => Box::new(Junit::new(out, fail_on)),
            Self::Html => Box::new(Html::new(out, head.clone(), glyph)),
            Self::Github => Box::new(Github::new(out)),
            #[cfg(feature = "parquet")]
            Self::Parquet => Box::new(Parquet::new(out)),
        }
    }

    /// The format that a file of this name has by custom.
    pub fn from_file_name(file: &Path) -> Option<Self> {
        match file.extension().and_then(OsStr::to_str)?.to_ascii_lowercase().as_str() {
            "txt" | "log" => Some(Self::Text),
            "json" if file.to_string_lossy().ends_with(".sarif.json") => Some(Self::Sarif),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "sarif" => Some(Self::Sarif),
            "xml" => Some(Self::Junit),
            "html" | "htm" => Some(Self::Html),
            #[cfg(feature = "parquet")]
            "parquet" => Some(Self::Parquet),
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
