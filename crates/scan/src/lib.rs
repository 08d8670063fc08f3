//! Scans: names from trees, lists, git repositories and archives, checked against a policy, and reports of the findings.

pub mod collect;
pub mod encoded_text;
#[cfg(feature = "parquet")]
mod parquet_file;
pub mod probe;
pub mod progress;
pub mod report;
mod scan;
pub mod source;

pub use scan::*;
