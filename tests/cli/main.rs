//! The program as its users run it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

#[cfg(feature = "archive")]
mod archive;
mod check;
mod explain;
#[cfg(feature = "git")]
mod git;
#[cfg(feature = "git")]
mod hooks;
mod hostile;
mod list;
mod mount;
mod policy;
mod readme;
mod report;
mod run;
mod scan;
