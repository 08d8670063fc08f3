//! Holds the documentation to the truth: sessions, commands, links, paths, numbers, promises, dependencies.
//!
//! With `NAMEGATE_UPDATE=1` the tests write into the pages what the program prints.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod commands;
mod dependencies;
mod links;
mod markdown;
mod numbers;
mod picture;
mod promises;
mod sessions;
