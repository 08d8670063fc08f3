//! Checks the documentation: sessions, commands, links, paths, numbers, promises, dependencies.
//!
//! With `NAMEGATE_UPDATE=1` the tests write the output of the program into the pages.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod commands;
mod configurations;
mod dependencies;
mod field;
mod fixtures;
mod links;
mod markdown;
mod numbers;
mod picture;
mod promises;
mod sandbox;
mod sessions;
mod shell;
mod standards;
