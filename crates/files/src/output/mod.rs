//! Files at paths that a user gave: written next to the old file and renamed into place when complete, or appended to. They
//! are never written through a symbolic link of another user, and never into a file of another user.
//!
//! This module walks each path itself, component by component and by descriptor. The kernel is no help: it refuses links of
//! others only in sticky world-writable directories, and only if `fs.protected_symlinks` is on. `place` decides
//! which links are followed.

mod append;
mod create;
mod place;
mod waiting;

pub use append::append;
pub use create::{Output, Replacement, remove, remove_unfinished, write};
pub use place::{Destination, NamedEntry};
pub use waiting::{WaitingWriter, waiting, writing};
