//! `namegate fix show`: a plan as a table, with what was decided; or as a page to decide in.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namegate_core::name::display::{display, shown};
use namegate_files::json::Hex;
use namegate_fix::decisions::{Decision, DecisionCounts, Decisions};
use namegate_fix::plan::{PlanDirectory, PlanHeader, PlanLine, Rename};
use namegate_fix::review::{ReviewWriter, ReviewedPlan};
use namegate_fix::stored_plan::{StoredPlanError, read_each_line};
use namegate_scan::report::layout::{DIM, counted};

use super::plan_input::{about, cannot_read, read_policy};
use super::show::{self, TableRow};
use super::{CliError, ExitStatus};
use crate::cli::output::{OutputFile, cannot_write};

const EXAMPLES: &str = "\
Examples:
  namegate fix show plan.jsonl
  namegate fix show plan.jsonl --decisions decisions.jsonl   # what was decided
  namegate fix show plan.csv -o review.html                  # a page to decide in

Exit status: 0, or 2 if the plan or the decisions cannot be read.";

/// Show a plan and what was decided about it, or write a page to decide in.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowPlanArgs {
    /// Plan from `namegate fix plan`, as JSON Lines or CSV.
    plan: PathBuf,
    /// Show what FILE, which the page saved, decides.
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    /// Write a page to decide about the renames, instead of the table.
    #[arg(short, long, value_name = "FILE", conflicts_with = "decisions")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The plan or the decisions cannot be read, or the page cannot be written.
pub fn run(args: &ShowPlanArgs, out: &mut (dyn Write + Send)) -> Result<ExitStatus, CliError> {
    match &args.output {
        Some(page) => write_page(&args.plan, page)?,
        None => write_table(args, out)?,
    }
    Ok(ExitStatus::Clean)
}

fn open(path: &Path) -> Result<File, CliError> {
    File::open(path).map_err(|error| cannot_read(path, StoredPlanError::File(error)))
}

fn write_page(plan: &Path, page: &Path) -> Result<(), CliError> {
    let input = open(plan)?;
    let failed = |error: io::Error| cannot_write(page, &error);
    let mut file = OutputFile::create(page).map_err(failed)?;
    let mut writer = ReviewWriter::new(&mut file).map_err(failed)?;
    let mut header = PlanHeader::default();
    let sha256 = read_each_line(input, &mut |line| {
        if let PlanLine::Header(first) = &line {
            header = first.clone();
        }
        writer.add(line)
    })
    .map_err(|error| cannot_read(plan, error))?;
    let policy = read_policy(&header).map_err(|error| about(plan, error))?;
    let plan = ReviewedPlan { name: shown(plan).to_string(), sha256: Hex(sha256) };
    writer.finish(&plan, policy.as_ref()).and_then(|()| file.finish()).map_err(failed)
}

/// A plan while it is shown: the rows of the last directory, and what was decided so far.
struct ShownPlan<'a> {
    out: &'a mut (dyn Write + Send),
    decisions: Option<Decisions>,
    counts: DecisionCounts,
    renames: u64,
    directory: Option<Arc<PlanDirectory>>,
    rows: Vec<TableRow>,
    width: usize,
}

fn write_table(args: &ShowPlanArgs, out: &mut (dyn Write + Send)) -> Result<(), CliError> {
    let decisions = args
        .decisions
        .as_deref()
        .map(|path| Decisions::read(open(path)?).map_err(|error| cannot_read(path, error)));
    let decisions = decisions.transpose()?;
    if let (Some(path), Some(decisions)) = (&args.decisions, &decisions) {
        // Rows that show the decisions of another plan would be wrong one by one.
        let sha256 = read_each_line(open(&args.plan)?, &mut |_| Ok(()));
        let sha256 = sha256.map_err(|error| cannot_read(&args.plan, error))?;
        decisions
            .check_plan(&sha256)
            .map_err(|error| cannot_read(path, StoredPlanError::Lines(vec![error])))?;
    }
    let mut shown_plan = ShownPlan {
        out,
        decisions,
        counts: DecisionCounts::default(),
        renames: 0,
        directory: None,
        rows: Vec::new(),
        width: show::output_width(),
    };
    read_each_line(open(&args.plan)?, &mut |line| shown_plan.add(line))
        .map_err(|error| cannot_read(&args.plan, error))?;
    shown_plan.finish(args.decisions.as_deref())?;
    Ok(())
}

impl ShownPlan<'_> {
    fn add(&mut self, line: PlanLine) -> io::Result<()> {
        if let Some(directory) = line.directory()
            && self.directory.as_ref() != Some(directory)
        {
            self.write_directory()?;
            self.directory = Some(Arc::clone(directory));
        }
        match line {
            PlanLine::Rename(rename) => {
                self.renames += 1;
                let row = self.rename_row(rename);
                self.rows.push(row);
            }
            PlanLine::Skipped(skipped) => self.rows.push(show::skipped_row(&skipped)),
            PlanLine::Retarget(link) => self.rows.push(show::retarget_row(&link)),
            PlanLine::Header(_) => {}
        }
        Ok(())
    }

    /// The row of a rename, with what was decided about it.
    fn rename_row(&mut self, rename: Rename) -> TableRow {
        let Some(decisions) = &self.decisions else { return show::rename_row(&rename) };
        let decision = decisions.of_rename(rename.id).cloned();
        let (count, words) = match &decision {
            None => (&mut self.counts.undecided, "undecided"),
            Some(Decision::Accept) => (&mut self.counts.accepted, "accepted"),
            Some(Decision::Leave) => (&mut self.counts.left, "left"),
            Some(Decision::Rename(_)) => (&mut self.counts.changed, "changed"),
        };
        *count += 1;
        let (mut cells, mut style) = show::rename_row(&rename);
        match decision {
            Some(Decision::Rename(new)) => cells[1] = display(new.as_bytes()).to_string(),
            Some(Decision::Accept) => {}
            None | Some(Decision::Leave) => style = DIM,
        }
        cells[2] = format!("{words}; {}", cells[2]);
        (cells, style)
    }

    fn write_directory(&mut self) -> io::Result<()> {
        let (Some(directory), rows) = (&self.directory, std::mem::take(&mut self.rows)) else {
            return Ok(());
        };
        match rows.is_empty() {
            true => Ok(()),
            false => show::write_rows(self.out, &display(&directory.path).to_string(), rows, self.width),
        }
    }

    fn finish(&mut self, decisions: Option<&Path>) -> io::Result<()> {
        self.write_directory()?;
        writeln!(self.out, "{}", counted(self.renames, "rename", "renames"))?;
        let (Some(path), Some(read)) = (decisions, &self.decisions) else { return Ok(()) };
        let saved = display(read.saved.as_bytes()).to_string();
        let saved = if saved.is_empty() { saved } else { format!(", saved {saved}") };
        writeln!(self.out, "Decided by {}{saved}: {}.", shown(path), self.counts)
    }
}
