//! Aligned columns of any content.

use std::io::{self, Write};

use anstyle::Style;
use namegate_scan::report::layout::DIM;
use unicode_width::UnicodeWidthStr;

/// One cell: pieces of text, each in its own style.
pub(super) struct Cell {
    parts: Vec<(String, Style)>,
    is_right: bool,
}

impl Cell {
    pub(super) fn left(text: impl Into<String>, style: Style) -> Self {
        Self::parts([(text.into(), style)])
    }

    pub(super) fn right(text: impl Into<String>, style: Style) -> Self {
        Self { is_right: true, ..Self::left(text, style) }
    }

    pub(super) fn parts(parts: impl IntoIterator<Item = (String, Style)>) -> Self {
        Self { parts: parts.into_iter().collect(), is_right: false }
    }

    fn width(&self) -> usize {
        self.parts.iter().map(|(text, _)| text.width()).sum()
    }
}

/// Writes `rows` under `heads`, indented by two; a row has at most as many cells as there are heads.
pub(super) fn write(out: &mut dyn Write, heads: &[&str], rows: &[Vec<Cell>]) -> io::Result<()> {
    let widths: Vec<usize> = heads
        .iter()
        .enumerate()
        .map(|(column, head)| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(Cell::width);
            cells.fold(head.width(), usize::max)
        })
        .collect();
    let is_right =
        |column: usize| rows.first().and_then(|row| row.get(column)).is_some_and(|cell| cell.is_right);
    let head = heads
        .iter()
        .enumerate()
        .map(|(column, head)| Cell { parts: vec![((*head).to_owned(), DIM)], is_right: is_right(column) });
    write_row(out, &head.collect::<Vec<_>>(), &widths)?;
    rows.iter().try_for_each(|row| write_row(out, row, &widths))
}

fn write_row(out: &mut dyn Write, row: &[Cell], widths: &[usize]) -> io::Result<()> {
    let mut owed = 2;
    // Spaces are written before the next cell, so that no line ends with one.
    for (cell, width) in row.iter().zip(widths) {
        let gap = width - cell.width();
        let (before, after) = if cell.is_right { (gap, 0) } else { (0, gap) };
        owed += before;
        for (text, style) in cell.parts.iter().filter(|(text, _)| !text.is_empty()) {
            write!(out, "{:owed$}{style}{text}{style:#}", "")?;
            owed = 0;
        }
        owed += after + 2;
    }
    writeln!(out)
}
