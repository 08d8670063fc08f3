//! A mount: receives requests of the kernel by [`wire`](crate::wire) or `fuser`, and serves them by
//! [`passthrough`](crate::passthrough).
//!
//! `by_wire` and `by_fuser` decode a request, `operations` determines its weight, `dispatch` chooses the thread that serves
//! it, a `do_*` method of `Server` executes it, and `request_context` replies to it and counts it. `replies` has the
//! replies of both transports. The `do_*` methods check names at the gate, call the backing tree and return a `Result`; they
//! are tested without a mount. All errors become an errno in one place, [`RequestFailure`].
//!
//! Sources: fuse(4), linux/fuse.h, and `fuser` 0.18.

mod admission;
mod attach;
mod backing;
mod by_fuser;
mod by_wire;
mod content;
mod dispatch;
mod error;
mod export;
mod failure;
mod holders;
mod listing;
mod locks;
mod mount;
mod mounted;
mod mountpoint;
mod operations;
mod options;
mod prune;
mod readers;
mod replies;
mod request_context;
mod reroot;
mod serve_config;
mod server;
mod session;
mod source;
mod spelling;
mod timeouts;
mod translate;

use std::os::fd::OwnedFd;

use namegate_settings::LockKeeping;
use namegate_sys::process::page_size;

use crate::state::SurvivalState;
use crate::wire::abi::init;
use crate::wire::{Device, InitRequest};
pub use error::Error;
pub use failure::RequestFailure;
pub use mount::{check, mount, resume};
pub use mounted::{EndOfService, Handle};
pub use mountpoint::{detach_dead, is_mounted};
pub use options::Options;
pub use serve_config::ServeConfig;
pub use source::SourceRequirements;

/// The state of a mount that the previous program of this process has left.
///
/// # Errors
/// It has another layout.
pub fn open_state(fd: OwnedFd) -> std::io::Result<&'static SurvivalState> {
    SurvivalState::open(fd, Device::buffer_len(MAX_TRANSFER))
}

/// Longest read and write of one request, in bytes.
const MAX_TRANSFER: u32 = 1 << 20;

/// The same over io_uring, where every request that can come at the same time has a buffer of this length.
const RING_TRANSFER: u32 = 256 << 10;

/// The state of a mount that is to survive its server.
///
/// # Errors
/// There is no memory for it.
pub fn new_state() -> std::io::Result<&'static SurvivalState> {
    SurvivalState::new(Device::buffer_len(MAX_TRANSFER))
}

/// The capabilities requested from the kernel for a mount with `options`, whatever the transport. Those that the kernel does not offer
/// are not used.
fn wanted(options: &Options) -> InitRequest {
    let passthrough = if options.passthrough { init::PASSTHROUGH } else { 0 };
    let idmap = if options.idmap { init::ALLOW_IDMAP } else { 0 };
    let locks = match options.locks {
        LockKeeping::Kernel => 0,
        LockKeeping::Backing => init::POSIX_LOCKS | init::FLOCK_LOCKS,
    };
    InitRequest {
        flags: passthrough
            | locks
            | idmap
            | init::ASYNC_READ
            | init::BIG_WRITES
            | init::MAX_PAGES
            | init::ASYNC_DIO
            // Descriptors with O_DIRECT can be mapped, as on other file systems: the kernel writes the pages of a map back before it
            // goes around them.
            | init::DIRECT_IO_ALLOW_MMAP
            | init::AUTO_INVAL_DATA
            // The target of a symbolic link never changes: another target means another inode.
            | init::CACHE_SYMLINKS
            // The server clears set-id bits and capabilities when content changes, so the kernel need not ask before every
            // write.
            | init::HANDLE_KILLPRIV_V2
            | init::DO_READDIRPLUS
            | init::READDIRPLUS_AUTO
            // The umask of the caller is applied when the file is created, where default ACLs are known.
            | init::DONT_MASK
            | init::PARALLEL_DIROPS
            | init::POSIX_ACL,
        max_transfer: MAX_TRANSFER,
        // The limit of requests for which no client waits in the kernel (readahead, asynchronous writes, closes). At the
        // limit, such requests of all users wait until one is answered. It is high enough that one user alone cannot reach
        // it, and low enough that passing all of them to the pool takes no longer than a lookup may wait.
        max_background: 1024,
        page_size: page_size(),
    }
}
