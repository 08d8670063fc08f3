//! The settings of a mount.

pub mod config;
