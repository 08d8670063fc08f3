//! The options that say where findings go besides standard output, and the files that they name.

use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::CliError;
use super::colours::ColourFilter;
use super::format::{ReportArgs, ReportFormat, words};
use crate::name::display::shown;
use crate::output::Output;
use crate::report::baseline::BaselineWriter;
use crate::report::counts::CountBy;
use crate::report::fan::{FaultReport, SummaryReport};
use crate::report::html::Head;
use crate::report::text::{GroupBy, Layout};
use crate::report::{FailOn, Report};
use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;

/// Where findings go, and in which order.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Also write the findings to FILE, in the format of its extension (.txt .jsonl .csv .sarif .xml .html .parquet) or in FORMAT, as in
    /// junit:result; repeatable
    #[arg(short, long, value_name = "[FORMAT:]FILE", help_heading = None, display_order = 2)]
    output: Vec<OutputTarget>,
    /// Order of the findings in text
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    group_by: GroupBy,
    /// Print no findings; the exit status and the files still report them
    #[arg(short, long, conflicts_with_all = ["format", "json"])]
    pub quiet: bool,
    /// Print only the summary; files get all findings
    #[arg(long, conflicts_with = "quiet")]
    pub summary: bool,
    /// Print no findings, but their counts by `rule`, `target` (the profile that objects) or `prefix:LEVELS` (the first levels of
    /// the directory), or by several of these
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', conflicts_with_all = ["quiet", "summary"])]
    pub summary_by: Vec<CountBy>,
    /// Write the findings to FILE as known findings, for --baseline
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,
}

words!(GroupBy {
    Directory = "dir": "By directory",
    Rule = "rule": "By rule, security first",
});

/// A file and its format.
#[derive(Clone, Debug)]
struct OutputTarget {
    format: ReportFormat,
    file: PathBuf,
}

impl FromStr for OutputTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((format, file)) = text.split_once(':')
            && let Ok(format) = ReportFormat::from_str(format, true)
            && !file.is_empty()
        {
            return Ok(Self { format, file: file.into() });
        }
        let format = ReportFormat::from_file_name(Path::new(text))
            .ok_or("its extension is not that of a format; put the format in front, as in `html:FILE`")?;
        Ok(Self { format, file: text.into() })
    }
}

impl OutputArgs {
    /// How text is laid out on standard output.
    pub fn layout(&self, readiness: bool) -> Layout {
        let is_styled = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
        Layout { group_by: self.group_by, readiness, faults: false, is_wrapped: true, is_styled }
    }

    /// The report for standard output: `out`, and `faults` for what could not be read.
    ///
    /// # Errors
    /// As of [`ReportArgs::counts`].
    pub fn printed<'o>(
        &self,
        args: &ReportArgs,
        out: &'o mut (dyn Write + Send),
        faults: &'o mut (dyn Write + Send),
        layout: Layout,
        head: &Head,
    ) -> Result<Box<dyn Report + 'o>, CliError> {
        Ok(match (self.quiet, self.summary) {
            (true, _) => Box::new(FaultReport::new(faults)),
            (_, true) => Box::new(SummaryReport::new(args.report(out, faults, layout, head))),
            _ if !self.summary_by.is_empty() => args.counts(out, faults, layout, &self.summary_by)?,
            _ => args.report(out, faults, layout, head),
        })
    }

    /// Whether a file gets this format.
    pub fn writes(&self, format: ReportFormat) -> bool {
        self.output.iter().any(|target| target.format == format)
    }

    /// Begins all files.
    ///
    /// # Errors
    /// One that cannot be written, or that is named twice.
    pub fn begin(&self) -> Result<Files, CliError> {
        let named = self.output.iter().map(|target| (Some(target.format), target.file.as_path()));
        let baseline = self.write_baseline.iter().map(|file| (None, file.as_path()));
        let mut files: Vec<(Option<ReportFormat>, OutputFile)> = Vec::new();
        for (format, path) in named.chain(baseline) {
            let mut file = OutputFile::create(path).map_err(|error| cannot_write(path, &error))?;
            if format.is_some_and(ReportFormat::is_binary) {
                file.colours = None;
            }
            if files.iter().any(|(_, other)| other.key == file.key) {
                return Err(CliError::new(format!("{}: named for two outputs", shown(path))));
            }
            files.push((format, file));
        }
        Ok(Files(files))
    }
}

pub(super) fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    CliError::new(format!("{}: cannot be written: {error}", shown(path)))
}

/// The files of a run.
pub struct Files(Vec<(Option<ReportFormat>, OutputFile)>);

impl Files {
    /// The reports that write them.
    pub fn reports(&mut self, fail_on: FailOn, layout: Layout, head: &Head) -> Vec<Box<dyn Report + '_>> {
        let layout = Layout { is_styled: false, ..layout };
        let mut reports: Vec<Box<dyn Report + '_>> = Vec::with_capacity(self.0.len());
        for (format, file) in &mut self.0 {
            reports.push(match format {
                Some(format) => format.report(file, fail_on, layout, head),
                None => Box::new(BaselineWriter::new(file)),
            });
        }
        reports
    }

    /// Puts all of them in their places, once they are whole.
    ///
    /// # Errors
    /// One that cannot be written or put there.
    pub fn finish(self) -> Result<(), CliError> {
        for (_, file) in self.0 {
            let path = file.path.clone();
            match file.finish() {
                // A pipe whose reader has what it wanted.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                result => result.map_err(|error| cannot_write(&path, &error))?,
            }
        }
        Ok(())
    }
}

/// A file that appears under its name when it is whole, or a pipe or a device that is written to.
pub(super) struct OutputFile {
    path: PathBuf,
    /// What two outputs must not have in common.
    key: (u64, u64, OsString),
    file: BufWriter<Output>,
    /// Takes out colours, which only text has; `None` for a format that is no text.
    colours: Option<ColourFilter>,
}

impl OutputFile {
    /// Begins the file.
    ///
    /// # Errors
    /// Its directory cannot be written to, or the path leads through a link of somebody else.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let output = Output::create(path)?;
        let key = output.key()?;
        let colours = Some(ColourFilter::default());
        Ok(Self { path: path.into(), key, file: BufWriter::new(output), colours })
    }

    /// Puts it in its place.
    ///
    /// # Errors
    /// Writing what was still held back failed, or putting it there.
    pub(super) fn finish(self) -> io::Result<()> {
        self.file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.colours {
            Some(colours) => colours.write_to(&mut self.file, bytes)?,
            None => self.file.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    /// Nobody reads what is not there yet, so it is not hurried.
    fn flush(&mut self) -> io::Result<()> {
        match self.file.get_ref() {
            Output::New(_) => Ok(()),
            Output::InPlace(_) => self.file.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_told_by_a_word_in_front_or_by_the_ending() {
        let format =
            |text: &str| text.parse::<OutputTarget>().map(|t| (t.format, t.file.display().to_string()));
        assert_eq!(format("a.html"), Ok((ReportFormat::Html, "a.html".into())));
        assert_eq!(format("junit:a"), Ok((ReportFormat::Junit, "a".into())));
        assert_eq!(format("csv:a.html"), Ok((ReportFormat::Csv, "a.html".into())));
        assert_eq!(format("a:b.sarif.json"), Ok((ReportFormat::Sarif, "a:b.sarif.json".into())));
        assert!(format("a").unwrap_err().contains("html:FILE"));
    }
}
