//! The FUSE protocol of the kernel, by `fuser`: a thin adapter over [`passthrough`](crate::passthrough).
//!
//! `adapter` decodes a request, `dispatch` chooses the thread that serves it, a `do_*` method of [`Server`] executes it, and `reply`
//! answers and counts it. The `do_*` methods check names at the gate, call the backing tree and return a `Result`; they are
//! tested without a mount. All errors become an errno in one place, [`RequestFailure`].
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
mod serve_config;
mod server;
mod spelling;
mod timeouts;
mod translate;

pub use error::Error;
pub use failure::RequestFailure;
pub use mount::mount;
pub use mounted::{Handle, Mounted};
pub use options::Options;
pub use serve_config::ServeConfig;
pub use server::Server;
