//! Reports what the program does: audit records, metrics and log.

pub mod audit;
pub mod log;
pub mod metrics;
