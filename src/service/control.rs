//! The control socket of an instance: how it is asked how it is, and told what to do, while it serves.
//!
//! One line of JSON goes in and one comes out ([`ControlRequest`], [`ControlReply`]); then the connection ends. The socket is for its owner
//! and root alone: by its mode, and because the server asks the kernel who is there. Whoever is there can still be hostile,
//! or merely slow: a request is short and has little time, and connections that say nothing delay nobody. The client for its
//! part asks the kernel who listens, before it believes anything.
//!
//! Nothing here knows what a mount is: [`ControlHandler`] is asked.
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
    ActivePolicy, ControlReply, ControlRequest, InstanceCounters, InstanceStatus, LastReload, ReloadOutcome,
    VERSION, harmless,
};
pub use server::{ControlHandler, ControlServer, ReservedSocket};

use std::time::Duration;

/// How long a request or a reply may take on its way.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
