//! The files that `fix plan` writes: the plan, and the page to decide about it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use namegate_core::name::display::{display, shown};
use namegate_core::policy::Policy;
use namegate_files::json::Hex;
use namegate_fix::plan::{PlanHeader, PlanParser, PlanRoot, Retarget};
use namegate_fix::plan_table::PlanTableWriter;
use namegate_fix::propose::PlanDraft;
use namegate_fix::review::{ReviewWriter, ReviewedPlan};
use sha2::{Digest, Sha256};

use super::CliError;
use crate::cli::output::{OutputFile, cannot_write};

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PlanFormat {
    /// by the extension with --output, json if it is no other; otherwise text on a terminal and json elsewhere
    Auto,
    /// The plan as JSON Lines
    Json,
    /// The plan as a table for spreadsheets
    Csv,
    /// A page for a browser, to decide about the renames of the plan; only for --output
    Html,
    /// Table: old name, new name, rules
    Text,
}

/// The files of `-o`: each path with its format, which is not `auto` or `text`.
#[derive(Debug, Default)]
pub(super) struct PlanOutputs(Vec<(PlanFormat, PathBuf)>);

/// The files while they are written.
pub(super) type PlanFiles<'p> = Vec<(PlanFormat, &'p Path, OutputFile)>;

impl PlanOutputs {
    /// Adds a file. Its format stands in front of it, or follows from its extension, or is that of `--format`.
    pub(super) fn add(
        &mut self,
        in_front: Option<PlanFormat>,
        format: PlanFormat,
        path: PathBuf,
    ) -> Result<(), CliError> {
        let is_named =
            |extension: &str| path.extension().is_some_and(|own| own.eq_ignore_ascii_case(extension));
        let format = match in_front.unwrap_or(format) {
            PlanFormat::Text if in_front.is_some() => {
                return Err(CliError::new(
                    "--output: a plan in a file is json, csv or html; text is for standard output",
                ));
            }
            PlanFormat::Auto | PlanFormat::Json | PlanFormat::Text
                if in_front.is_none() && is_named("html") =>
            {
                PlanFormat::Html
            }
            PlanFormat::Auto if is_named("csv") => PlanFormat::Csv,
            PlanFormat::Auto | PlanFormat::Text => PlanFormat::Json,
            format => format,
        };
        self.0.push((format, path));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn page(&self) -> Option<&Path> {
        self.0.iter().find(|(format, _)| *format == PlanFormat::Html).map(|(_, path)| &**path)
    }

    /// The plan that the page is about.
    fn plan(&self) -> Option<&Path> {
        self.0.iter().find(|(format, _)| *format != PlanFormat::Html).map(|(_, path)| &**path)
    }

    pub(super) fn has_page(&self) -> bool {
        self.page().is_some()
    }

    /// Adds the plan beside a page that would have none.
    pub(super) fn add_plan_of_page(&mut self) {
        if let (Some(page), None) = (self.page(), self.plan()) {
            let plan = page.with_extension("jsonl");
            self.0.push((PlanFormat::Json, plan));
        }
    }

    /// Creates the files, plans before the pages about them.
    pub(super) fn create(&self) -> Result<PlanFiles<'_>, CliError> {
        let mut files = Vec::new();
        for (format, path) in &self.0 {
            let file = OutputFile::create(path).map_err(|error| cannot_write(path, &error))?;
            files.push((*format, &**path, file));
        }
        files.sort_by_key(|(format, ..)| *format == PlanFormat::Html);
        Ok(files)
    }

    /// Writes how to go on with a page. `archive` is the one whose members the plan renames.
    pub(super) fn write_next_step(&self, archive: Option<&PlanRoot>, out: &mut dyn Write) -> io::Result<()> {
        let (Some(page), Some(plan)) = (self.page(), self.plan()) else { return Ok(()) };
        let (page, plan) = (shown(page), shown(plan));
        let command = match archive {
            Some(archive) => format!("archive {} -o COPY --plan {plan}", display(&archive.path)),
            None => format!("apply {plan}"),
        };
        writeln!(
            out,
            "To decide: open {page} in a browser, save, then namegate fix {command} --decisions decisions.jsonl"
        )
    }
}

/// The parts of a plan.
pub(super) struct FinishedPlan<'p> {
    pub(super) header: &'p PlanHeader,
    pub(super) draft: &'p PlanDraft,
    pub(super) retargets: &'p [Retarget],
}

impl FinishedPlan<'_> {
    /// Calls `write` with each line.
    fn each_line(&self, write: &mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        write(&self.header.to_line())?;
        self.draft.each_line(write)?;
        self.retargets.iter().try_for_each(|retarget| write(&retarget.to_line()))
    }

    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        self.each_line(&mut |line| writeln!(out, "{line}"))?;
        out.flush()
    }

    pub(super) fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = PlanTableWriter::new(out)?;
        self.each_line(&mut |line| table.write_line(line))?;
        table.finish()
    }

    fn write_page(&self, out: &mut dyn Write, plan: &ReviewedPlan, policy: &Policy) -> io::Result<()> {
        let (mut page, mut parser) = (ReviewWriter::new(out)?, PlanParser::default());
        self.each_line(&mut |line| parser.parse_line(line.as_bytes()).map_or(Ok(()), |line| page.add(line)))?;
        page.finish(plan, Some(policy))
    }

    /// Writes all files, each of which appears when it is complete.
    pub(super) fn write_files(&self, files: PlanFiles<'_>, policy: &Policy) -> Result<(), CliError> {
        let mut plan = None;
        for (format, path, mut file) in files {
            let written = match (format, &plan) {
                (PlanFormat::Html, Some(plan)) => self.write_page(&mut file, plan, policy),
                _ => {
                    let mut hashed = HashedOutput { out: &mut file, hash: Sha256::new() };
                    let written = match format {
                        PlanFormat::Csv => self.write_csv(&mut hashed),
                        _ => self.write_json(&mut hashed),
                    };
                    let sha256 = Hex(hashed.hash.finalize().to_vec());
                    plan.get_or_insert(ReviewedPlan { name: shown(path).to_string(), sha256 });
                    written
                }
            };
            written.and_then(|()| file.finish()).map_err(|error| cannot_write(path, &error))?;
        }
        Ok(())
    }
}

/// Computes the SHA-256 of what is written.
struct HashedOutput<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> Write for HashedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        self.hash.update(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
