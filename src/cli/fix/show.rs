//! A plan for people: old and new names in two columns, directory by directory.

use std::io::{self, Write};

use anstyle::Style;
use unicode_width::UnicodeWidthStr;

use crate::fix::plan::{Rename, Retarget};
use crate::fix::propose::{Draft, Planned};
use crate::name::display::{display, width};
use crate::policy::Confidence;
use crate::report::layout::{BOLD, DIM, DOUBT, GOOD, WARN, counted, styled};

/// A longer old name does not push the others to the right.
const MOST_COLUMNS: usize = 48;

/// The style of a new name.
const fn style(confidence: Confidence) -> Style {
    match confidence {
        Confidence::Certain => GOOD,
        Confidence::Likely => WARN,
        Confidence::Guess => DOUBT,
    }
}

/// Writes the plan.
///
/// # Errors
/// Whatever writing meets.
pub fn table(out: &mut dyn Write, draft: &Draft, retargets: &[Retarget]) -> io::Result<()> {
    for planned in &draft.directories {
        directory(out, planned)?;
    }
    if !retargets.is_empty() {
        writeln!(out, "{BOLD}symbolic links that follow{BOLD:#}")?;
    }
    for retarget in retargets {
        let path = crate::fix::plan::path_in(&retarget.directory.path, &retarget.name);
        let (old, new) = (display(&retarget.old_target), display(&retarget.new_target));
        writeln!(out, "  {}: {old} → {new}", display(&path))?;
    }
    let skipped = draft.directories.iter().map(|planned| planned.skipped.len()).sum::<usize>();
    let mut told = counted(draft.renames() as u64, "rename", "renames");
    if !retargets.is_empty() {
        told += &format!(", {}", counted(retargets.len() as u64, "link", "links"));
    }
    if skipped > 0 {
        told += &format!(", {} left as they are", counted(skipped as u64, "name", "names"));
    }
    writeln!(out, "{told}")?;
    out.flush()
}

fn directory(out: &mut dyn Write, planned: &Planned) -> io::Result<()> {
    writeln!(out, "{BOLD}{}{BOLD:#}", display(&planned.directory.path))?;
    let old = planned.renames.iter().map(|rename| width(&rename.old));
    let columns = old.filter(|&columns| columns <= MOST_COLUMNS).max().unwrap_or_default();
    let new = planned.renames.iter().map(|rename| width(rename.new.as_bytes()));
    let new_columns = new.filter(|&columns| columns <= MOST_COLUMNS).max().unwrap_or_default();
    for rename in &planned.renames {
        writeln!(out, "  {}", line(rename, columns, new_columns))?;
    }
    for skipped in &planned.skipped {
        let rules: Vec<&str> = skipped.reasons.iter().map(|rule| rule.name()).collect();
        writeln!(
            out,
            "  {}  {DIM}stays{DIM:#} {}: {}",
            display(&skipped.name),
            rules.join(", "),
            skipped.why
        )?;
    }
    writeln!(out)
}

/// A rename in columns of at least this width.
pub fn line(rename: &Rename, columns: usize, new_columns: usize) -> String {
    let old = display(&rename.old).to_string();
    let padding = columns.saturating_sub(old.width());
    let new = styled(style(rename.confidence), display(rename.new.as_bytes()), new_columns);
    format!("{old}{:padding$} → {new}  {DIM}{}, {}{DIM:#}", "", rename.confidence.as_str(), rename.reading)
}
