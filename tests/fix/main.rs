//! Tests of `namegate fix` on real directories: plans are applied, interrupted, resumed and undone.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod again;
mod crash;
mod interrupt;
mod laws;
mod places;
mod program;
mod races;
#[allow(dead_code, reason = "other tests use all of it")]
mod random;
mod torn;
mod tree;
mod whole_plan;
mod written_journal;
