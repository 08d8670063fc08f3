//! The control socket of an instance: how it is asked how it is, and told what to do, while it serves.
//!
//! One line of JSON goes in and one comes out ([`Request`], [`Reply`]); then the connection ends. The socket is for its owner
//! and root alone: by its mode, and because the server asks the kernel who is there. Whoever is there can still be hostile,
//! or merely slow: a request is short and has little time, and connections that say nothing delay nobody. The client for its
//! part asks the kernel who listens, before it believes anything.
//!
//! Nothing here knows what a mount is: [`Instance`] is asked.
//!
//! Sources: unix(7), sd_listen_fds is not used; hier(7) and the XDG Base Directory Specification for the places.

mod client;
mod directory;
mod name;
mod place;
mod protocol;
mod server;

pub use client::{Failure, ask_all, sockets};
pub use directory::{Found, Sockets};
pub use name::Name;
pub use place::{Taken, directory, reserve};
pub use protocol::{
    Counters, LastReload, PolicyInForce, Reloaded, Reply, Request, Status, VERSION, harmless,
};
pub use server::{Instance, Reserved, Serving};

use std::time::Duration;

/// How long a request or a reply may take on its way.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
