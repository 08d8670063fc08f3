//! Tests of `namegate fix` on real directories: plans are applied, interrupted, resumed and undone.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod again;
#[cfg(feature = "archive")]
mod archives;
mod crash;
mod laws;
mod places;
mod program;
mod races;
mod torn;
mod tree;
mod whole_plan;
mod written_journal;
