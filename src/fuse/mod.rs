//! The kernel's file system protocol, by `fuser`: an adapter over [`passthrough`](crate::passthrough) and nothing more.
//!
//! `adapter` decodes a request, `dispatch` finds the thread that serves it, one `do_*` of [`Server`] is called, and `reply` answers
//! and counts it. The `do_*` ask the gate, call the backing tree
//! and return a `Result`; they are tested without a mount. What goes wrong becomes an errno in one place, [`Failure`].
//!
//! Sources: fuse(4), linux/fuse.h, and `fuser` 0.18.

mod adapter;
mod attach;
mod backing;
mod content;
mod dispatch;
mod error;
mod failure;
mod listing;
mod mount;
mod mounted;
mod mountpoint;
mod options;
mod prune;
mod readers;
mod reply;
mod reroot;
mod server;
mod spelling;
mod terms;
mod timeouts;
mod translate;

pub use error::Error;
pub use failure::Failure;
pub use mount::mount;
pub use mounted::{Handle, Mounted};
pub use options::Options;
pub use server::Server;
pub use terms::Terms;
