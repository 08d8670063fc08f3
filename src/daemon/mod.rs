//! Running in the background: signals, and what is written down there.

pub mod audit;
pub mod config;
pub mod control;
pub mod detach;
pub mod health;
pub mod log;
pub mod metrics;
pub mod notify;
pub mod privileges;
pub mod signals;
