//! A mount: receives requests of the kernel by [`wire`](namegate_wire) or `fuser`, and serves them by
//! [`passthrough`].
//!
//! `service` finds the method of an operation, whatever the transport; `by_fuser` makes requests of the callbacks of `fuser`, and
//! `fuser_reply` sends replies by its types. The methods are in `entries`, `attributes`, `content`, `listing` and `locks`: each weighs the
//! request, `dispatch` chooses the thread that serves it, and `request_context` replies to it and counts it. Those of `ConfiguredServer`
//! check names at the gate and call the backing tree; they are tested without a mount. All errors become an errno in one place,
//! [`RequestFailure`]. What a successor has to know goes to a [`MountJournal`].
//!
//! Sources: fuse(4), linux/fuse.h, and `fuser` 0.18.

mod admission;
mod alias;
mod attach;
mod attributes;
mod backing;
mod by_fuser;
mod coherence;
mod content;
mod dispatch;
mod dropper;
mod encode;
mod entries;
mod error;
mod failure;
mod forced_drops;
mod fuser_reply;
mod holders;
mod journal;
mod listing;
mod lock_waiters;
mod locks;
mod mount;
mod mount_call;
mod mounted;
mod mountpoint;
mod node_number;
mod options;
mod other_spelling;
pub mod passthrough;
mod prune;
mod readers;
mod request_context;
mod request_core;
mod reroot;
mod serve_config;
mod server;
mod service;
mod session;
mod source;
mod spelling;
mod timeouts;
mod wanted;
pub mod workers;

pub use coherence::CacheStatus;
pub use dropper::{DropProcess, drop_names_for};
pub use error::Error;
pub use failure::RequestFailure;
pub use journal::{HandedOn, KeptNames, LeftMount, MountJournal, MountRecord};
pub use mount::{check, mount, resume};
pub use mounted::{EndOfService, Handle, Mounted};
pub use mountpoint::{detach, detach_dead, is_mounted};
pub use options::{Caching, Options};
pub use serve_config::ServeConfig;
pub use source::SourceRequirements;
pub use wanted::MAX_TRANSFER;
