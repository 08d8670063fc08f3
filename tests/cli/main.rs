//! The program as its users run it.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

#[cfg(feature = "archive")]
mod archive;
#[cfg(feature = "archive")]
mod archive_encodings;
#[cfg(feature = "archive")]
mod archive_tars;
mod baseline;
mod check;
mod config;
#[cfg(feature = "parquet")]
mod counts;
mod engines;
mod explain;
mod fix_conversion;
mod fix_decisions;
mod fix_defaults;
mod fix_evidence;
mod fix_plan;
mod fix_table;
#[cfg(feature = "git")]
mod git;
#[cfg(feature = "git")]
mod git_history;
#[cfg(feature = "guard")]
mod guard;
mod help;
#[cfg(feature = "git")]
mod hooks;
mod hostile;
mod incomplete;
mod kinds;
mod list;
mod long_runs;
mod mount;
mod outputs;
mod pairs;
#[cfg(all(feature = "archive", feature = "parquet"))]
mod parquet;
mod policy;
mod probe;
mod report;
mod scan;
mod signals;
mod signatures;
#[cfg(feature = "parquet")]
mod stored;
mod tasks;
#[path = "../../examples/make_tree.rs"]
#[allow(dead_code, reason = "the example is a program too")]
mod trees;
mod verify;
#[path = "../fix/whole_plan.rs"]
mod whole_plan;
