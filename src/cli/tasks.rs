//! `namegate help TASK`: the commands of a task, in the order in which they are run.
//!
//! The words are those of the pages in docs/tasks: what a page says first, its first block, and the pages in its last paragraph.

use std::ffi::OsString;
use std::fmt::Write;

use clap::builder::Styles;
use namegate_core::policy::UnknownWord;

/// The tasks: the word for each, and its page.
const TASKS: [(&str, &str); 6] = [
    ("migration", include_str!("../../docs/tasks/MIGRATION.md")),
    ("repair", include_str!("../../docs/tasks/REPAIR.md")),
    ("share", include_str!("../../docs/tasks/SHARE.md")),
    ("server", include_str!("../../docs/tasks/SERVER.md")),
    ("repository", include_str!("../../docs/tasks/REPOSITORY.md")),
    ("keys", include_str!("../../docs/tasks/KEYS.md")),
];

/// What `namegate help WORD` prints, if the word is `tasks` or one of them.
pub fn asked(words: &[OsString]) -> Option<String> {
    let [_, help, word] = words else { return None };
    let word = word.to_str().filter(|_| help == "help")?;
    if word == "tasks" {
        return Some(list());
    }
    TASKS.iter().find(|(known, _)| *known == word).map(|(_, page)| text(page))
}

/// The tasks, for the end of `namegate --help`.
pub fn list() -> String {
    let header = *Styles::styled().get_header();
    let mut list = format!("{header}Tasks, step by step:{header:#}\n");
    for (word, page) in TASKS {
        // Writing to memory does not fail.
        let _ = writeln!(list, "  namegate help {word:12}{}", title(page));
    }
    list
}

/// The tasks with their texts, each behind a line with its title.
pub fn all() -> impl Iterator<Item = (&'static str, String)> {
    TASKS.iter().map(|(_, page)| (title(page), text(page)))
}

/// The words of the tasks.
pub fn words() -> [&'static str; 6] {
    TASKS.map(|(word, _)| word)
}

/// The task that was mistyped.
pub fn mistyped(word: &str) -> Option<&'static str> {
    words().into_iter().find(|known| UnknownWord::is_mistyped(word, known))
}

fn title(page: &str) -> &str {
    page.lines().next().unwrap_or_default().trim_start_matches("# ")
}

fn text(page: &str) -> String {
    let purpose = page.lines().nth(2).unwrap_or_default();
    let commands = page.lines().skip_while(|line| *line != "```sh").skip(1).take_while(|line| *line != "```");
    let mut text = format!("{purpose}\n\n");
    for line in commands {
        let _ = writeln!(text, "  {line}");
    }
    let last = page.trim_end().lines().last().unwrap_or_default();
    let pages = last.split("](../").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let pages: Vec<String> = pages.map(|page| format!("docs/{page}")).collect();
    let _ = writeln!(text, "\nMore: {}", pages.join(", "));
    text
}
