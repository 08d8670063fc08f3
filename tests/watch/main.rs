//! Tests of `namegate watch` from outside: the built program watches directories on real file systems in which names are created.
//! Tests that need root print SKIPPED without it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod commands;
mod findings;
mod lost;
mod options;
mod places;
mod replaced;
mod watching;
