//! Files at paths that a user gave: written beside the name and put in place when they are whole, or appended to; never through
//! a symbolic link of somebody else, and never into somebody else's file.
//!
//! A path is walked here, component by component and by descriptor, and not by the kernel, because the kernel refuses links of
//! others only in sticky directories that everybody may write, and only where `fs.protected_symlinks` is on. `place` says
//! which links are followed.

mod append;
mod create;
mod place;

pub use append::append;
pub use create::{Output, Replacement, remove, write};
pub use place::{Destination, NamedEntry};
