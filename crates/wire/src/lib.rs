//! The FUSE protocol of the kernel over /dev/fuse and io_uring, without a library.
//!
//! `abi` has the messages as they are in memory, `request` takes requests apart, `reply` writes replies, `init` agrees with the
//! kernel on what is used. A `Session` reads requests from devices in a few threads, which `stop` ends; `ring` gets them from
//! io_uring; `notify` tells the kernel what it did not ask for. Nothing here knows names, files or policies: a `Service` does. What a
//! successor has to know goes to a `RequestJournal`.
//!
//! Sources: fuse(4), linux/fuse.h up to 7.45 (Linux 6.18), fs/fuse/dev.c and fs/fuse/dev_uring.c of the kernel.

pub mod abi;
mod device;
mod init;
mod journal;
mod notify;
mod reply;
pub mod request;
pub mod ring;
mod ring_reply;
mod service;
mod session;
mod stop;

pub use device::Device;
pub use init::{InitRequest, Negotiated};
pub use journal::{InFlight, NoJournal, PriorRequest, Recovery, RequestJournal};
pub use notify::Notifier;
pub use reply::{Entries, Reply, ReplySink};
pub use request::{Operation, Request};
pub use ring::Rings;
pub use service::{Service, serve_next};
pub use session::Session;
pub use stop::StopReading;
