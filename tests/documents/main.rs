//! Checks the documentation: sessions, commands, links, paths, numbers, promises, dependencies.
//!
//! With `NAMEGATE_UPDATE=1` the tests write the output of the program into the pages.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod commands;
mod dependencies;
mod field;
mod links;
mod markdown;
mod numbers;
mod picture;
mod promises;
mod sessions;
mod standards;
