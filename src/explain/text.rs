//! An explanation as text: a headline, then tables.
//!
//! All parts of the name pass through [`name::display`](namegate_core::name::display), so that none acts on the
//! terminal. Styles are always written; the underlying stream removes them if they are not wanted.
//! Lines fit in 80 columns, unless the name itself or the name of a code point is too long.

use std::collections::BTreeSet;
use std::io::{self, Write};

use anstyle::Style;
use namegate_core::name::display::display;
use namegate_scan::report::layout::{BOLD, DIM, ERROR, GOOD, MARKER, PLAIN, WARN, width, write_wrapped};
use unicode_width::UnicodeWidthStr;

use super::{
    CodePoint, Difference, ExplainedViolation, Explanation, OctetRow, Properties, Role, SequenceRow,
};
use table::Cell;

mod table;

/// Maximum number of places that are listed for a change or violation.
const SHOWN: usize = 4;

/// Writes `it`, ending with a line feed.
///
/// # Errors
/// As writing to `out`.
///
/// ```
/// use namegate::explain::{Explanation, text};
/// let mut out = Vec::new();
/// text::write(&mut out, &Explanation::new(b"\xC0\xAF", namegate::explain::DEFAULT_PROFILES)).unwrap();
/// assert!(String::from_utf8(out).unwrap().contains("an overlong form of U+002F `/`"));
/// ```
pub fn write(out: &mut dyn Write, it: &Explanation) -> io::Result<()> {
    headline(out, it)?;
    octets(out, it)?;
    code_points(out, it)?;
    forms(out, it)?;
    objections(out, it)
}

/// Writes the line between two explanations.
///
/// # Errors
/// As writing to `out`.
pub fn write_divider(out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{DIM}{}{DIM:#}\n", "─".repeat(width()))
}

fn headline(out: &mut dyn Write, it: &Explanation) -> io::Result<()> {
    let name = if it.bytes == 0 { "(empty)" } else { &it.display };
    writeln!(out, "{BOLD}{name}{BOLD:#}")?;
    wrapped(out, 0, if it.is_utf8 { GOOD } else { ERROR }, &it.summary)?;
    for (at, reading) in it.readings.iter().enumerate() {
        let text = display(reading.text.as_bytes());
        let begin = if at == 0 { "Reads as" } else { "or as" };
        writeln!(out, "{begin:>8} `{text}` in {}", reading.encoding)?;
    }
    Ok(())
}

fn octets(out: &mut dyn Write, it: &Explanation) -> io::Result<()> {
    if it.octets.is_empty() {
        return Ok(());
    }
    let has_joints = it.octets.iter().any(continues);
    let role = if has_joints { "  role" } else { "role" };
    let heads = ["at", "hex", "bits", role, "UCS-4", "RFC 3629"];
    let rows = it.octets.iter().enumerate().map(|(index, octet)| {
        let sequence = &it.sequences[octet.sequence];
        let is_last = it.octets.get(index + 1).is_none_or(|next| !continues(next));
        octet_cells(octet, sequence, is_last, has_joints)
    });
    section(out, "Octets")?;
    table::write(out, &heads, &rows.collect::<Vec<_>>())?;
    if let Some(end) = it.explained_bytes {
        writeln!(out, "  {DIM}... bytes not shown: {}{DIM:#}", it.bytes - end)?;
    }
    let classes: BTreeSet<u8> = it.sequences.iter().filter_map(|s| s.annex_r7_class).collect();
    for class in classes {
        let meaning = match class {
            1 => "a lead octet without all its continuation octets",
            2 => "a continuation octet without a lead octet",
            _ => "an octet that is never used",
        };
        wrapped(out, 2, DIM, &format!("class {class} of ISO/IEC 10646-1, R.7: {meaning}"))?;
    }
    Ok(())
}

fn continues(octet: &OctetRow) -> bool {
    matches!(octet.role, Role::Continuation { .. })
}

fn octet_cells(octet: &OctetRow, sequence: &SequenceRow, is_last: bool, has_joints: bool) -> Vec<Cell> {
    let verdict = if sequence.well_formed { GOOD } else { ERROR };
    let (joint, role) = match octet.role {
        Role::Single => (" ", "single".to_owned()),
        Role::Lead { of } => (if is_last { " " } else { "┌" }, format!("lead of {of}")),
        Role::Continuation { index, of } => {
            (if is_last { "└" } else { "├" }, format!("continuation {index} of {of}"))
        }
        Role::UnexpectedContinuation => (" ", "unexpected continuation".to_owned()),
        Role::Invalid => (" ", "invalid".to_owned()),
    };
    let mut cells = vec![
        Cell::right(octet.offset.to_string(), DIM),
        Cell::right(octet.hex.clone(), BOLD),
        bits(octet),
        Cell::parts([
            (if has_joints { format!("{joint} ") } else { String::new() }, DIM),
            (role, if sequence.well_formed { PLAIN } else { ERROR }),
        ]),
    ];
    if continues(octet) {
        return cells;
    }
    // A stray octet and one that is never used have said it by their role.
    let reason = match (sequence.malformation, octet.role) {
        (None, _) => "ok",
        (Some(_), Role::UnexpectedContinuation | Role::Invalid) => "ill-formed",
        (Some(rule), _) => rule,
    };
    let remark = match (sequence.annex_r7_class, &sequence.code_point) {
        (Some(class), _) => format!(", class {class}"),
        (None, Some(CodePoint { properties: Some(p), .. })) if sequence.well_formed => {
            format!("  {}", character(p.character))
        }
        _ => String::new(),
    };
    let remark_style = if sequence.well_formed { BOLD } else { ERROR };
    cells.extend([
        Cell::left(octet.ucs4.clone().unwrap_or_default(), PLAIN),
        Cell::parts([(reason.to_owned(), verdict), (remark, remark_style)]),
    ]);
    cells
}

fn bits(octet: &OctetRow) -> Cell {
    let dot = if octet.value_bits.is_empty() { "" } else { "·" };
    Cell::parts([
        (octet.marker_bits.clone(), MARKER),
        (dot.to_owned(), DIM),
        (octet.value_bits.clone(), PLAIN),
    ])
}

/// A combining mark is shown on U+25CC, as in the Unicode charts.
fn character(c: char) -> String {
    let alone = display(c.to_string().as_bytes()).to_string();
    let on_circle = format!("\u{25CC}{c}");
    match display(on_circle.as_bytes()).to_string() {
        shown if shown == on_circle && !alone.starts_with(c) => shown,
        _ => alone,
    }
}

/// Each code point once, in the order of their first occurrence.
fn code_points(out: &mut dyn Write, it: &Explanation) -> io::Result<()> {
    let mut seen = BTreeSet::new();
    let distinct: Vec<(&SequenceRow, &CodePoint)> = it
        .sequences
        .iter()
        .filter_map(|row| Some((row, row.code_point.as_ref()?)))
        .filter(|(row, point)| seen.insert((&point.code_point, row.well_formed)))
        .collect();
    if distinct.is_empty() {
        return Ok(());
    }
    section(out, "Code points")?;
    let points = distinct.iter().map(|(_, p)| p.code_point.len()).max().unwrap_or(0);
    let shown = |point: &CodePoint| point.properties.map_or_else(String::new, |p| character(p.character));
    let characters = distinct.iter().map(|(_, p)| shown(p).width()).max().unwrap_or(0);
    let facts = |point: &CodePoint| point.properties.as_ref().map_or_else(String::new, facts);
    let longest = distinct.iter().map(|(_, p)| facts(p).width()).max().unwrap_or(0);
    // Below the name, or as far to the right as fits.
    let indent = (2 + points + 2 + characters + 2).min(width().saturating_sub(longest));
    for (row, point) in distinct {
        let text = shown(point);
        let gap = " ".repeat(characters - text.width());
        write!(out, "  {:points$}  {BOLD}{text}{BOLD:#}{gap}  {}", point.code_point, point.name)?;
        if !row.well_formed {
            let meant = if point.properties.is_some() { "meant by " } else { "" };
            write!(out, " {ERROR}({meant}{}){ERROR:#}", bytes(row.start, row.end))?;
        }
        writeln!(out)?;
        if point.properties.is_some() {
            let style = if point.properties.is_some_and(|p| p.class.is_some()) { WARN } else { DIM };
            writeln!(out, "{:indent$}{style}{}{style:#}", "", facts(point))?;
        }
    }
    Ok(())
}

fn facts(properties: &Properties) -> String {
    let words = |value: &str| value.replace('_', " ").to_lowercase();
    let (category, bidi) = (words(properties.general_category), words(properties.bidi_class));
    let script = properties.script.replace('_', " ");
    let class = properties.class.map_or_else(String::new, |class| format!(" · {class}"));
    format!("{category} · script {script} · bidi {bidi}{class}")
}

fn forms(out: &mut dyn Write, it: &Explanation) -> io::Result<()> {
    if it.forms.is_empty() {
        return Ok(());
    }
    section(out, "Normal forms")?;
    let is_in: Vec<&str> = it.forms.iter().filter(|f| f.is_in_form).map(|f| f.form.as_str()).collect();
    if !is_in.is_empty() {
        writeln!(out, "  {GOOD}in {}{GOOD:#}", is_in.join(", "))?;
    }
    // Often two forms are equal; the text is shown once.
    let mut spellings: Vec<(&Difference, Vec<&str>)> = Vec::new();
    for row in &it.forms {
        let Some(difference) = &row.difference else { continue };
        match spellings.iter_mut().find(|(known, _)| known.code_points == difference.code_points) {
            Some((_, forms)) => forms.push(&row.form),
            None => spellings.push((difference, vec![&row.form])),
        }
    }
    for (difference, forms) in spellings {
        let text = display(difference.text.as_bytes());
        writeln!(out, "  {WARN}not in {}{WARN:#}, which is `{text}`:", forms.join(", "))?;
        for change in difference.changes.iter().take(SHOWN) {
            let place = bytes(change.start, change.end);
            let change = format!("{place}: {} becomes {}", some(&change.was), some(&change.becomes));
            wrapped(out, 4, PLAIN, &change)?;
        }
        and_more(out, difference.changes.len())?;
    }
    Ok(())
}

/// The beginning of a long list is enough.
fn some(points: &[String]) -> String {
    const POINTS: usize = 12;
    let dots = if points.len() > POINTS { " ..." } else { "" };
    points[..points.len().min(POINTS)].join(" ") + dots
}

/// Writes how many of `all` were left out after the first [`SHOWN`].
fn and_more(out: &mut dyn Write, all: usize) -> io::Result<()> {
    match all.saturating_sub(SHOWN) {
        0 => Ok(()),
        more => writeln!(out, "    {DIM}... and {more} more{DIM:#}"),
    }
}

fn objections(out: &mut dyn Write, it: &Explanation) -> io::Result<()> {
    section(out, "Rules that it breaks")?;
    if it.objections.is_empty() {
        writeln!(out, "  {GOOD}none{GOOD:#}")?;
    }
    let mut groups: Vec<Vec<&ExplainedViolation>> = Vec::new();
    for objection in &it.objections {
        let same = |group: &&mut Vec<&ExplainedViolation>| {
            let first = group[0];
            (first.rule, &first.profiles, &first.only_warned_by)
                == (objection.rule, &objection.profiles, &objection.only_warned_by)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(objection),
            None => groups.push(vec![objection]),
        }
    }
    groups.iter().try_for_each(|group| objection_group(out, group, it.profiles.len()))?;
    wrapped(out, 2, DIM, &format!("checked against {}", it.profiles.join(", ")))?;
    writeln!(out, "\n{DIM}Unicode {}{DIM:#}", it.unicode_version)
}

/// One rule that the same profiles report at several places.
fn objection_group(out: &mut dyn Write, group: &[&ExplainedViolation], asked: usize) -> io::Result<()> {
    let first = group[0];
    let style = if first.severity == "error" { ERROR } else { WARN };
    writeln!(out, "  {style}{} ({}){style:#}", first.rule, first.severity)?;
    for objection in group.iter().take(SHOWN) {
        let line = format!("{}: {}", bytes(objection.start, objection.end), objection.message);
        wrapped(out, 4, PLAIN, &line)?;
    }
    and_more(out, group.len())?;
    let (warned, refused): (Vec<&str>, Vec<&str>) =
        first.profiles.iter().partition(|p| first.only_warned_by.contains(p));
    by_profiles(out, "refused by", &refused, asked)?;
    by_profiles(out, "warned of by", &warned, asked)
}

fn by_profiles(out: &mut dyn Write, what: &str, profiles: &[&str], asked: usize) -> io::Result<()> {
    let who = match profiles {
        [] => return Ok(()),
        all if all.len() == asked && asked > 1 => "every profile".to_owned(),
        [one] => format!("the profile {one}"),
        some => format!("the profiles {}", some.join(", ")),
    };
    wrapped(out, 4, DIM, &format!("{what} {who}"))
}

fn section(out: &mut dyn Write, title: &str) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{title}{BOLD:#}")
}

/// A range for people: `byte 3`, `bytes 3 to 5`.
fn bytes(start: usize, end: usize) -> String {
    match end.saturating_sub(start) {
        0 => "the whole name".into(),
        1 => format!("byte {start}"),
        _ => format!("bytes {start} to {}", end - 1),
    }
}

/// Wraps `text`, which contains no escape sequences, between words.
fn wrapped(out: &mut dyn Write, indent: usize, style: Style, text: &str) -> io::Result<()> {
    write!(out, "{:indent$}", "")?;
    write_wrapped(out, indent, style, text)
}
