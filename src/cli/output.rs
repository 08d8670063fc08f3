//! The options that say where findings go besides standard output, and the files that they name.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;
use namegate_core::name::display::shown;
use namegate_files::output::Output;
use namegate_scan::report::baseline::{BaselineWriter, RelativePaths};
use namegate_scan::report::counts::CountBy;
use namegate_scan::report::html::ReportMetadata;
use namegate_scan::report::layout::{GroupBy, Layout};
use namegate_scan::report::multi_report::{FaultReport, SummaryReport};
use namegate_scan::report::{FailOn, Report, Summary};

use super::CliError;
use super::colours::ColourFilter;
use super::format::{ReportArgs, ReportFormat};
use super::words::word_parser;

/// Where findings go, and in which order.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Also write the findings to FILE, in the format of its extension (.txt .jsonl .csv .sarif .xml .html .parquet) or in FORMAT, as in
    /// junit:result; `-` is standard output, in the format of --format or in FORMAT; repeatable
    #[arg(short, long, value_name = "[FORMAT:]FILE", help_heading = None, display_order = 2)]
    output: Vec<OutputTarget>,
    /// Order of the findings in text
    #[arg(long, value_name = "WHAT", value_parser = word_parser(GroupBy::WORDS), default_value = "dir")]
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
    /// Write the findings to FILE as known findings, for --baseline; a run that is incomplete does not replace FILE
    #[arg(long, value_name = "FILE")]
    write_baseline: Option<PathBuf>,
}

/// An output and its format.
#[derive(Clone, Debug)]
enum OutputTarget {
    File {
        format: ReportFormat,
        file: PathBuf,
    },
    /// Standard output, in the format of `--format` if there is none.
    Stdout(Option<ReportFormat>),
}

impl FromStr for OutputTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, file) = match split_output::<ReportFormat>(OsStr::new(text)) {
            // Its bytes must not pass what takes colours out.
            (Some(format), None) if format.is_binary() => (Some(format), STDOUT_FILE.into()),
            (format, None) => return Ok(Self::Stdout(format)),
            (format, Some(file)) => (format, file),
        };
        if let Some(format) = format {
            return Ok(Self::File { format, file });
        }
        let format = ReportFormat::from_file_name(Path::new(text))
            .ok_or("its extension is not that of a format; put the format in front, as in `html:FILE`")?;
        Ok(Self::File { format, file: text.into() })
    }
}

/// The name of standard output.
const STDOUT: &str = "-";

/// The argument of `-o` in every command: `[FORMAT:]FILE`, where the file `-` is standard output and becomes `None`.
pub(super) fn split_output<F: ValueEnum>(argument: &OsStr) -> (Option<F>, Option<PathBuf>) {
    let bytes = argument.as_bytes();
    let in_front = bytes.iter().position(|byte| *byte == b':').and_then(|colon| {
        let format = F::from_str(str::from_utf8(&bytes[..colon]).ok()?, true).ok()?;
        Some((Some(format), &bytes[colon + 1..])).filter(|(_, file)| !file.is_empty())
    });
    let (format, file) = in_front.unwrap_or((None, bytes));
    (format, (file != STDOUT.as_bytes()).then(|| OsStr::from_bytes(file).into()))
}

/// The error for two outputs on standard output.
pub(super) fn two_on_stdout() -> CliError {
    CliError::new("two outputs on standard output: write one of them to a file")
}

/// The file that is standard output.
const STDOUT_FILE: &str = "/dev/stdout";

impl OutputArgs {
    /// Takes over the format of `-o FORMAT:-` as that of standard output, and prints what `-o -` asks for.
    ///
    /// # Errors
    /// Two outputs on standard output.
    pub fn resolve_stdout(&mut self, args: &mut ReportArgs) -> Result<(), CliError> {
        let mut targets = self.output.iter().filter_map(|target| match target {
            OutputTarget::Stdout(format) => Some(*format),
            OutputTarget::File { .. } => None,
        });
        let writes_binary = |target: &OutputTarget| matches!(target, OutputTarget::File { format, file } if format.is_binary() && file == Path::new(STDOUT_FILE));
        if self.output.iter().any(writes_binary) && io::stdout().is_terminal() {
            return Err(CliError::new("this format is not for a terminal: write it to a file or a pipe"));
        }
        let Some(target) = targets.next() else { return Ok(()) };
        let differs = |format| args.format.is_given && args.format.format != format;
        let prints_other = self.summary || !self.summary_by.is_empty();
        if targets.next().is_some() || target.is_some_and(differs) || prints_other {
            return Err(two_on_stdout());
        }
        args.format.format = target.unwrap_or(args.format.format);
        self.quiet = false;
        Ok(())
    }

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
        head: &ReportMetadata,
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
        let written =
            |target: &OutputTarget| matches!(target, OutputTarget::File { format: of, .. } if *of == format);
        self.output.iter().any(written)
    }

    /// Whether known findings are written.
    pub fn writes_baseline(&self) -> bool {
        self.write_baseline.is_some()
    }

    /// Begins all files.
    ///
    /// # Errors
    /// One that cannot be written, or that is named twice.
    pub fn begin(&self) -> Result<Files, CliError> {
        let named = self.output.iter().filter_map(|target| match target {
            OutputTarget::File { format, file } => Some((Some(*format), file.as_path())),
            OutputTarget::Stdout(_) => None,
        });
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
    CliError::new(WriteError::new(path, error))
}

/// Why an output cannot be written, with its name: an error of one output among several.
#[derive(Debug)]
pub(super) struct WriteError(String);

impl WriteError {
    fn new(path: &Path, error: &io::Error) -> Self {
        Self(format!("{}: cannot be written: {error}", shown(path)))
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WriteError {}

/// The files of a run.
pub struct Files(Vec<(Option<ReportFormat>, OutputFile)>);

impl Files {
    /// The reports that write them. The paths of known findings are relative to the roots of `paths`.
    pub fn reports(
        &mut self,
        fail_on: FailOn,
        layout: Layout,
        head: &ReportMetadata,
        paths: &RelativePaths,
    ) -> Vec<Box<dyn Report + '_>> {
        let layout = Layout { faults: true, is_wrapped: false, is_styled: false, ..layout };
        let mut reports: Vec<Box<dyn Report + '_>> = Vec::with_capacity(self.0.len());
        for (format, file) in &mut self.0 {
            reports.push(match format {
                Some(format) => format.report(file, fail_on, layout, head),
                None => Box::new(BaselineWriter::new(file, paths.clone())),
            });
        }
        reports
    }

    /// Puts all of them in their places, once they are whole. Known findings of a run that was interrupted are not written, and those
    /// of a run that could not read everything replace no file.
    ///
    /// # Errors
    /// One that cannot be written or put there.
    pub fn finish(self, summary: &Summary) -> Result<(), CliError> {
        for (format, file) in self.0 {
            let path = file.path.clone();
            let is_kept = summary.was_interrupted || file.replaces_file();
            if format.is_none()
                && is_kept
                && let Some(what) = summary.incompleteness()
            {
                let _ = writeln!(
                    anstream::stderr(),
                    "namegate: {}: known findings are not written: {what}",
                    shown(&path)
                );
                continue;
            }
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

    /// Reports whether a file is there that this one will replace.
    fn replaces_file(&self) -> bool {
        matches!(self.file.get_ref(), Output::New(new) if new.replaces_file())
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
        let written = match &mut self.colours {
            Some(colours) => colours.write_to(&mut self.file, bytes),
            None => self.file.write_all(bytes),
        };
        written.map(|()| bytes.len()).map_err(|error| named(&self.path, error))
    }

    /// Nobody reads what is not there yet, so it is not hurried.
    fn flush(&mut self) -> io::Result<()> {
        match self.file.get_ref() {
            Output::New(_) => Ok(()),
            Output::InPlace(_) => self.file.flush().map_err(|error| named(&self.path, error)),
        }
    }
}

/// The error with the name of the output. Its kind says whether a reader has gone.
fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), WriteError::new(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_told_by_a_word_in_front_or_by_the_ending() {
        let format = |text: &str| match text.parse::<OutputTarget>()? {
            OutputTarget::File { format, file } => Ok((Some(format), file.display().to_string())),
            OutputTarget::Stdout(format) => Ok((format, STDOUT.to_owned())),
        };
        let file = |format, file: &str| Ok::<_, String>((Some(format), file.to_owned()));
        assert_eq!(format("a.html"), file(ReportFormat::Html, "a.html"));
        assert_eq!(format("junit:a"), file(ReportFormat::Junit, "a"));
        assert_eq!(format("csv:a.html"), file(ReportFormat::Csv, "a.html"));
        assert_eq!(format("a:b.sarif.json"), file(ReportFormat::Sarif, "a:b.sarif.json"));
        assert_eq!(format("csv:-"), file(ReportFormat::Csv, "-"));
        assert_eq!(format("csv:./-"), file(ReportFormat::Csv, "./-"));
        assert_eq!(format("-"), Ok((None, "-".to_owned())));
        assert!(format("a").unwrap_err().contains("html:FILE"));
    }
}
