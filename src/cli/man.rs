//! `namegate man`: manual pages, made from the definition of the command line, and those that were written by hand.
//!
//! The sections and their order are those of man-pages(7). What the help of a command says behind its options (examples,
//! exit status, remarks) is told apart by how its paragraphs begin.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use namegate_core::name::display::shown;
use namegate_files::output::write;

use super::{CliError, ExitStatus};

const EXAMPLES: &str = "\
Examples:
  namegate man | man -l -
  namegate man pages                                         # write all pages
  install -Dm644 -t /usr/local/share/man/man1 pages/*.1
  install -Dm644 -t /usr/local/share/man/man5 pages/*.5
  install -Dm644 -t /usr/local/share/man/man8 pages/*.8";

/// Print the manual page, or write the pages of all commands into a directory
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ManArgs {
    /// Directory for the pages; created if it does not exist
    dir: Option<PathBuf>,
}

pub(super) fn run(args: &ManArgs, out: &mut dyn Write) -> Result<ExitStatus, CliError> {
    let mut command = super::command().disable_help_subcommand(true);
    command.build();
    let mut helper = super::mount::Helper::command();
    helper.build();
    match &args.dir {
        None => write_page(&command, &USER_COMMANDS, out)?,
        Some(dir) => fs::create_dir_all(dir)
            .and_then(|()| write_pages(&command, dir))
            .and_then(|()| write_to(dir, &helper, &ADMINISTRATION))
            .and_then(|()| {
                WRITTEN.iter().try_for_each(|(name, page)| {
                    let page = page.replace(SETTINGS, &namegate_settings::manual());
                    write(&dir.join(name), page.as_bytes())
                })
            })
            .map_err(|error| {
                CliError::new(format!("cannot write manual pages to {}: {error}", shown(dir)))
            })?,
    }
    Ok(ExitStatus::Clean)
}

/// A section of the manual (man-pages(7)).
struct Section {
    number: &'static str,
    title: &'static str,
}

const USER_COMMANDS: Section = Section { number: "1", title: "User Commands" };
const ADMINISTRATION: Section = Section { number: "8", title: "System Administration" };

/// The line of a written page where the settings of a mount go.
const SETTINGS: &str = ".\\\" SETTINGS\n";

/// Pages that no command line has.
const WRITTEN: [(&str, &str); 2] = [
    ("namegate.toml.5", include_str!("../../docs/man/namegate.toml.5")),
    ("namegate-units.8", include_str!("../../docs/man/namegate-units.8")),
];

/// Writes the pages of the command and of all commands below it.
fn write_pages(command: &clap::Command, dir: &Path) -> io::Result<()> {
    for below in command.get_subcommands() {
        write_pages(below, dir)?;
    }
    write_to(dir, command, &USER_COMMANDS)
}

/// Writes one page into its file.
fn write_to(dir: &Path, command: &clap::Command, section: &Section) -> io::Result<()> {
    let mut page = Vec::new();
    write_page(command, section, &mut page)?;
    let man = Man::new(command.clone()).section(section.number);
    write(&dir.join(man.get_filename()), &page)
}

fn write_page(command: &clap::Command, section: &Section, out: &mut dyn Write) -> io::Result<()> {
    let mut page = Vec::new();
    put_together(command, section, &mut page)?;
    out.write_all(tidy(&String::from_utf8_lossy(&page)).as_bytes())
}

/// The same page as the library writes it, without what roff has to pass over: breaks beside an empty line, which breaks by itself,
/// and a backslash that is escaped in a way that holds in macros alone (groff_char(7)).
fn tidy(page: &str) -> String {
    let lines: Vec<&str> = page.lines().collect();
    let is_empty = |at: Option<usize>| at.and_then(|at| lines.get(at)).is_some_and(|line| line.is_empty());
    let kept = lines
        .iter()
        .enumerate()
        .filter(|(at, line)| **line != ".br" || !(is_empty(at.checked_sub(1)) || is_empty(Some(at + 1))));
    kept.flat_map(|(_, line)| [line.replace("\\\\", "\\(rs"), "\n".into()]).collect()
}

fn put_together(command: &clap::Command, section: &Section, out: &mut dyn Write) -> io::Result<()> {
    let Section { number, title } = section;
    let man = Man::new(command.clone()).section(*number);
    let name = man.get_filename();
    let name = name.trim_end_matches(number).trim_end_matches('.');
    // A date would make the page depend on the day, and without one the library leaves out the field, not its value.
    writeln!(out, ".TH {name} {number} \"\" \"namegate {}\" \"{title}\"", env!("CARGO_PKG_VERSION"))?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(out)?;
    }
    let remarks = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let Remarks { exit_status, notes, examples } = Remarks::of(&remarks);
    let mut roff = Roff::new();
    if name == "namegate" {
        put_tasks(&mut roff);
    }
    for (heading, lines) in [("EXIT STATUS", exit_status), ("NOTES", notes)] {
        for (number, paragraph) in lines.split(|line| line.is_empty()).enumerate() {
            match number {
                0 if lines.is_empty() => break,
                0 => roff.control("SH", [heading]),
                _ => roff.control("PP", []),
            };
            if paragraph.iter().any(|line| line.starts_with(' ')) {
                put_lines(paragraph, &mut roff);
            } else {
                roff.text([roman(paragraph.join(" "))]);
            }
        }
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
        put_lines(&examples, &mut roff);
    }
    roff.to_writer(out)
}

/// What `namegate help TASK` prints.
fn put_tasks(roff: &mut Roff) {
    roff.control("SH", ["TASKS"]);
    for (title, text) in super::tasks::all() {
        roff.control("SS", [title]);
        put_lines(&text.trim_end().lines().collect::<Vec<_>>(), roff);
    }
}

/// Lines that stay as they are, such as those of a table.
fn put_lines(lines: &[&str], roff: &mut Roff) {
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(*line)]);
    }
    roff.control("fi", []);
}

/// What stands behind the options in the help of a command, by its subject.
#[derive(Debug, Default, PartialEq, Eq)]
struct Remarks<'h> {
    exit_status: Vec<&'h str>,
    notes: Vec<&'h str>,
    examples: Vec<&'h str>,
}

impl<'h> Remarks<'h> {
    fn of(help: &'h str) -> Self {
        let mut remarks = Self::default();
        let mut is_example = false;
        for line in help.lines() {
            if let Some(status) = line.strip_prefix("Exit status: ") {
                remarks.exit_status.push(status);
            } else if let Some(("Example" | "Examples", title)) = line.split_once(':') {
                is_example = true;
                let title = title.trim_start();
                remarks.examples.extend((!title.is_empty()).then_some(title));
            } else if line.is_empty() {
                is_example = false;
                // One between two paragraphs, with examples between them too.
                remarks
                    .notes
                    .extend(remarks.notes.last().is_some_and(|last| !last.is_empty()).then_some(line));
            } else if is_example {
                remarks.examples.push(line);
            } else {
                remarks.notes.push(line);
            }
        }
        remarks.notes.pop_if(|last| last.is_empty());
        remarks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_title_in_five_fields_and_the_sections_of_man_pages() {
        let mut command = crate::cli::command();
        command.build();
        let scan = command.find_subcommand("scan").expect("there is one");
        let mut page = Vec::new();
        write_page(scan, &USER_COMMANDS, &mut page).expect("memory does not fail");
        let page = String::from_utf8(page).expect("pages are text");
        let title = page.lines().next().expect("a page has lines");
        assert!(
            title.starts_with(".TH namegate-scan 1 \"\" \"namegate ") && title.ends_with("\"User Commands\"")
        );
        let headings: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        assert_eq!(headings[..3], ["NAME", "SYNOPSIS", "DESCRIPTION"]);
        assert_eq!(headings[headings.len() - 3..], ["\"EXIT STATUS\"", "NOTES", "EXAMPLES"]);
    }

    #[test]
    fn every_page_passes_a_checker_of_manual_pages() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().to_path_buf();
        run(&ManArgs { dir: Some(place.clone()) }, &mut io::sink()).unwrap();
        let mut pages: Vec<PathBuf> =
            fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).collect();
        pages.sort();
        for name in ["namegate.1", "namegate.toml.5", "mount.namegate.8", "namegate-units.8"] {
            assert!(pages.iter().any(|page| page.ends_with(name)), "{name}");
        }
        for page in pages {
            let lint = std::process::Command::new("mandoc")
                .args(["-T", "lint", "-W", "warning"])
                .arg(&page)
                .output();
            let text = fs::read_to_string(&page).unwrap();
            assert!(!page.ends_with("namegate.toml.5") || text.contains(".B check\\-targets\n"), "{text}");
            let Ok(output) = lint else { return println!("SKIPPED: no mandoc") };
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            // There is none on purpose: a page must not depend on the day.
            let wrong: Vec<&str> = said.lines().filter(|line| !line.contains("missing date")).collect();
            assert!(wrong.is_empty(), "{wrong:#?}");
        }
    }

    #[test]
    fn remarks_are_told_apart_by_how_they_begin() {
        let help = "Examples:\n  a | b\n  c\n\nOne\ntwo.\n\nThree.\n\nExit status: 0 good.";
        let expected = Remarks {
            exit_status: vec!["0 good."],
            notes: vec!["One", "two.", "", "Three."],
            examples: vec!["  a | b", "  c"],
        };
        assert_eq!(Remarks::of(help), expected);
        let expected = Remarks { examples: vec!["save it", "  x"], ..Remarks::default() };
        assert_eq!(Remarks::of("Example: save it\n  x"), expected);
    }
}
