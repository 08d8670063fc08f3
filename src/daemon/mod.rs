//! Running in the background, and what is written down there.

pub mod audit;
pub mod detach;
pub mod log;
pub mod metrics;
