//! The program as its users run it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod check;
mod explain;
mod hostile;
mod mount;
mod policy;
mod readme;
mod report;
mod run;
mod scan;
