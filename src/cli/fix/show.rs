//! A plan as a table: old name, new name, rules.

use std::io::{self, IsTerminal, Write};

use anstyle::Style;
use namegate_core::name::display::display;
use namegate_core::policy::rule::RuleId;
use namegate_core::policy::{Confidence, Policy};
use namegate_fix::plan::{Rename, Retarget, Skipped, path_in};
use namegate_fix::propose::{DirectoryPlan, DraftCounts, PlanDraft};
use namegate_scan::report::layout::{BOLD, DIM, DOUBT, GOOD, PLAIN, WARN, counted, grouped, styled};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The space between two columns.
const GAP: usize = 2;

/// A row: old name, new name, rules, and the style of the new name.
pub(super) type TableRow = ([String; 3], Style);

/// The style of a new name.
const fn style(confidence: Confidence) -> Style {
    match confidence {
        Confidence::Certain => GOOD,
        Confidence::Likely => WARN,
        Confidence::Guess => DOUBT,
    }
}

/// The width for the table: that of the terminal. A file gets one line for each rename, whatever the terminal.
pub fn output_width() -> usize {
    let terminal = terminal_size::terminal_size().filter(|_| io::stdout().is_terminal());
    terminal.map_or(usize::MAX, |(columns, _)| usize::from(columns.0))
}

/// Writes the plan as a table of at most `width` columns.
///
/// # Errors
/// The output cannot be written.
pub fn write_table(
    out: &mut dyn Write,
    draft: &PlanDraft,
    retargets: &[Retarget],
    width: usize,
) -> io::Result<()> {
    let mut directories = draft.directories()?;
    while let Some(DirectoryPlan { directory, renames, skipped, .. }) = directories.next()? {
        if renames.is_empty() && skipped.is_empty() {
            continue;
        }
        let rows = renames.iter().map(rename_row).chain(skipped.iter().map(skipped_row)).collect();
        write_rows(out, &display(&directory.path).to_string(), rows, width)?;
    }
    if !retargets.is_empty() {
        write_rows(
            out,
            "Symbolic links with a new target",
            retargets.iter().map(retarget_row).collect(),
            width,
        )?;
    }
    Ok(())
}

/// Writes the numbers of renames, links and skipped entries.
///
/// # Errors
/// The output cannot be written.
pub fn write_counts(
    out: &mut dyn Write,
    draft: &PlanDraft,
    retargets: &[Retarget],
    policy: &Policy,
) -> io::Result<()> {
    let DraftCounts { renames, skipped, skip_reasons } = draft.counts()?;
    let mut counts = counted(renames, "rename", "renames");
    if !retargets.is_empty() {
        counts += &format!(", {}", counted(retargets.len() as u64, "new link target", "new link targets"));
    }
    if skipped > 0 {
        counts += &format!(", {} without a new name", counted(skipped, "entry", "entries"));
    }
    writeln!(out, "{counts}")?;
    for (why, count) in skip_reasons {
        writeln!(out, "  {count}: {why}")?;
    }
    if draft.git_renames > 0 {
        let renames = counted(draft.git_renames, "rename is", "renames are");
        writeln!(out, "{renames} in Git work trees; `fix apply --git` changes Git's index too")?;
    }
    if draft.left_out > 0 {
        let profiles: Vec<&str> = policy.profiles().iter().map(|profile| profile.name).collect();
        let who = match &*profiles {
            [] => "the policy only advises".to_owned(),
            [one] => format!("{one} only advises"),
            many => format!("{} only advise", many.join(", ")),
        };
        let (names, were, them) =
            if draft.left_out == 1 { ("name", "was", "it") } else { ("names", "were", "them") };
        let count = grouped(draft.left_out);
        writeln!(
            out,
            "{count} {names} that {who} against {were} left out; --min-severity warn includes {them}"
        )?;
    }
    Ok(())
}

fn names(rules: &[RuleId]) -> String {
    rules.iter().map(|rule| rule.name()).collect::<Vec<_>>().join(", ")
}

pub(super) fn retarget_row(link: &Retarget) -> TableRow {
    let path = path_in(&link.directory.path, &link.name);
    let new = format!("{} → {}", display(&link.old_target), display(&link.new_target));
    ([display(&path).to_string(), new, String::new()], PLAIN)
}

pub(super) fn rename_row(rename: &Rename) -> TableRow {
    let (old, new) = (display(&rename.old).to_string(), display(rename.new.as_bytes()).to_string());
    let reading = format!("({}: {})", rename.confidence.as_str(), rename.reading);
    let rules = names(&rename.reasons);
    let rules = if rules.is_empty() { reading } else { format!("{rules} {reading}") };
    ([old, new, rules], style(rename.confidence))
}

pub(super) fn skipped_row(skipped: &Skipped) -> TableRow {
    ([display(&skipped.name).to_string(), format!("stays: {}", skipped.why), names(&skipped.reasons)], DIM)
}

pub(super) fn write_rows(
    out: &mut dyn Write,
    heading: &str,
    rows: Vec<TableRow>,
    width: usize,
) -> io::Result<()> {
    let natural =
        [0, 1, 2].map(|column| rows.iter().map(|(cells, _)| cells[column].width()).max().unwrap_or(0));
    let columns = fit_columns(natural, width.saturating_sub(2 + 2 * GAP));
    writeln!(out, "{BOLD}{heading}{BOLD:#}")?;
    for (cells, style) in rows {
        let lines = [0, 1, 2].map(|column| wrap_cell(&cells[column], columns[column]));
        for number in 0..lines.iter().map(Vec::len).max().unwrap_or(0) {
            let cell = |column: usize| lines[column].get(number).map_or("", String::as_str);
            let old = styled(PLAIN, cell(0), columns[0]);
            match cell(2) {
                "" => writeln!(out, "  {old}{:GAP$}{style}{}{style:#}", "", cell(1))?,
                rules => {
                    let new = styled(style, cell(1), columns[1]);
                    writeln!(out, "  {old}{:GAP$}{new}{:GAP$}{DIM}{rules}{DIM:#}", "", "")?;
                }
            }
        }
    }
    writeln!(out)
}

/// Shrinks columns until they fit into `width`, the widest first.
fn fit_columns(mut columns: [usize; 3], width: usize) -> [usize; 3] {
    /// No column gets narrower than this.
    const MIN: usize = 10;
    while columns.iter().sum::<usize>() > width {
        let Some(widest) = columns.iter_mut().max().filter(|widest| **widest > MIN) else { break };
        *widest -= 1;
    }
    columns
}

/// Lines of at most `width` columns, broken at a space if there is one.
fn wrap_cell(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for c in text.chars() {
        let line = lines.last_mut().expect("there is a line from the start");
        if line.width() + c.width().unwrap_or(0) <= width.max(2) {
            line.push(c);
            continue;
        }
        let rest = match line.rfind(' ') {
            Some(at) if c != ' ' => line.split_off(at + 1),
            _ => String::new(),
        };
        line.truncate(line.trim_end().len());
        lines.push(rest);
        if c != ' ' {
            lines.last_mut().expect("there is a line from the start").push(c);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_wrap_at_spaces_or_else_anywhere() {
        assert_eq!(wrap_cell("", 10), [""]);
        assert_eq!(wrap_cell("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap_cell("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap_cell("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap_cell("日本日本", 4), ["日本", "日本"]);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [40, 60, 80, 200] {
            let mut out = Vec::new();
            let cells =
                ["x".repeat(70), "y z ".repeat(20), "a-rule, another-rule (likely: KOI8-R)".to_owned()];
            write_rows(&mut out, "/srv", vec![(cells.clone(), GOOD)], width).unwrap();
            let text = anstream::adapter::strip_bytes(&out).into_vec();
            let text = String::from_utf8(text).unwrap();
            assert!(text.lines().all(|line| line.width() <= width), "{text}");
            let letters = |text: &str| text.chars().filter(|c| *c == 'x').count();
            assert_eq!(letters(&text), 70, "nothing is lost: {text}");
        }
    }
}
