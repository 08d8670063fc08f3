//! Serves a mount, or runs a watch, as a service: signals, control socket, health checks, service manager and confinement.

pub mod confinement;
pub mod control;
pub mod detach;
mod drop_process;
#[cfg(feature = "guard")]
pub mod guard_events;
pub mod health;
pub mod mount_config;
mod mount_service;
pub mod notify;
pub mod serve;
pub mod serve_error;
pub mod signals;
mod supervision;
pub mod watch_service;
