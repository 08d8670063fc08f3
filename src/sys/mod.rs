//! The system calls that std and nix lack, or offer in a shape that does not fit: the only module with `unsafe` in it.
//!
//! One small wrapper per call: it checks what the call returned, names its manual page, and decides nothing. Errors are
//! the errno, as [`Errno`](nix::errno::Errno). Linux only.

#![allow(unsafe_code)]

pub mod capability;
pub mod directory;
pub mod fanotify;
pub mod flags;
pub mod handle;
pub mod identity;
pub mod iflags;
pub mod locale;
pub mod mounts;
pub mod nowait;
pub mod open;
pub mod process;
pub mod rename;
pub mod seccomp;
pub mod socket;
pub mod stat;
pub mod tree;
pub mod trust;
pub mod xattr;
