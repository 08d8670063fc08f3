//! What the tests of the program share. It is for tests alone, and never published.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

pub mod acting;
pub mod hung;
pub mod metrics;
pub mod mounted;
pub mod normalization_test;
pub mod process;
pub mod program;
pub mod random;
mod waiting;

pub use waiting::{PATIENCE, wait_until};
