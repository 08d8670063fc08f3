//! The control socket of an instance: clients request its status, and change it while it serves.
//!
//! One line of JSON goes in and one comes out ([`ControlRequest`], `ControlReply`); then the connection ends. Only its owner
//! and root can use the socket: by its mode, and because the server asks the kernel who connects. A client can still be hostile
//! or slow: a request is short and has little time, and silent connections delay nobody. The client asks the kernel who
//! listens before it trusts an answer.
//!
//! This module is independent of mounts: a [`ControlHandler`] answers the requests.
//!
//! Sources: unix(7), sd_listen_fds is not used; hier(7) and the XDG Base Directory Specification for the places.

mod client;
mod directory;
mod name;
mod place;
mod protocol;
mod server;

pub use client::{RequestError, ask_all, sockets};
pub use directory::{FoundSocket, FoundSockets};
pub use name::InstanceName;
pub use place::{NameTaken, directory, reserve};
pub use protocol::{
    ActivePolicy, CacheKind, ControlRequest, HolderStatus, InstanceCounters, InstanceStatus, LastReload,
    ReloadOutcome,
};
pub use server::{ControlHandler, ControlServer, ReservedSocket};

use std::time::Duration;

/// Time limit for sending a request or a reply.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
