//! The FUSE protocol of the kernel over /dev/fuse and io_uring, without a library.
//!
//! [`abi`] has the messages as they are in memory, [`request`] takes requests apart, [`answer`] writes replies, [`init`] agrees
//! with the kernel on what is used, [`device`] reads requests in a few threads, which [`stop`] ends, [`ring`] gets them from io_uring, and [`notify`] tells
//! the kernel what it did not ask for. Nothing here knows names, files or policies: a [`Service`] does.
//!
//! Sources: fuse(4), linux/fuse.h up to 7.45 (Linux 6.18), fs/fuse/dev.c and fs/fuse/dev_uring.c of the kernel.

pub mod abi;
pub mod answer;
pub mod device;
pub mod init;
pub mod notify;
pub mod request;
pub mod ring;
pub mod stop;

pub use answer::{Entries, Reply};
pub use device::{Device, Service, Session};
pub use init::{InitRequest, Negotiated};
pub use notify::Notifier;
pub use request::{Operation, Request};
pub use ring::Rings;
pub use stop::StopReading;
