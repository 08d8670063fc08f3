//! The words of settings that have a few values: for files, options of the command line and the schema alike.

use nix::errno::Errno;

use crate::gate::{Existing, Mode};

/// A word, and what it stands for.
#[derive(Clone, Copy, Debug)]
pub struct Choice<T> {
    /// As it is written.
    pub word: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// What it means.
    pub value: T,
}

const fn choice<T>(word: &'static str, value: T, help: &'static str) -> Choice<T> {
    Choice { word, help, value }
}

/// What happens when a name that breaks the policy is to be created. The first one is the default.
pub const MODES: &[Choice<Mode>] = &[
    choice("enforcing", Mode::Enforcing, "It is refused"),
    choice("permissive", Mode::Permissive, "It is created, and recorded"),
];

/// How names that are there and not UTF-8 are seen. The first one is the default.
pub const EXISTING: &[Choice<Existing>] = &[
    choice("escape", Existing::Escape, "Escaped, so that everything that leaves the mount is UTF-8: caf‛E9"),
    choice("show", Existing::Show, "As they are"),
    choice("hide", Existing::Hide, "Not at all; a directory that holds them cannot be removed"),
];

/// The error that a refused name gets. The first one is the default.
pub const ERRNOS: &[Choice<Option<Errno>>] = &[
    choice("by-rule", None, "EILSEQ if the name is not UTF-8, EINVAL if it breaks another rule"),
    choice("EILSEQ", Some(Errno::EILSEQ), "Invalid or incomplete multibyte or wide character"),
    choice("EINVAL", Some(Errno::EINVAL), "Invalid argument"),
    choice("EACCES", Some(Errno::EACCES), "Permission denied"),
    choice("EPERM", Some(Errno::EPERM), "Operation not permitted"),
];

/// The word for a value; empty for one that has none.
pub fn word_of<T: PartialEq>(choices: &[Choice<T>], value: &T) -> &'static str {
    choices.iter().find(|choice| choice.value == *value).map_or("", |choice| choice.word)
}
