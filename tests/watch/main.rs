//! `namegate watch`, from outside: the built program watches directories of real file systems, and names are made in them.
//! What needs root says SKIPPED without.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod commands;
mod findings;
mod lost;
mod options;
mod places;
mod rest;
mod watching;
