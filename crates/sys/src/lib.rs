//! System calls that std and nix lack, or offer in an unsuitable form. The only package with `unsafe` code.
//!
//! Each is a small wrapper around one call: it checks the result, names the manual page, and decides nothing. Errors are
//! the errno, as [`Errno`](nix::errno::Errno). Linux only.

#![allow(unsafe_code)]

pub mod allocation;
pub mod bpf;
pub mod capability;
pub mod directory;
pub mod fanotify;
pub mod fanotify_events;
pub mod flock;
pub mod fuse;
pub mod handle;
pub mod identity;
pub mod iflags;
pub mod inherited;
pub mod lease;
pub mod locale;
#[cfg(feature = "gix")]
pub mod mapped;
pub mod mounts;
pub mod nowait;
pub mod open;
pub mod open_files;
pub mod process;
pub mod release;
pub mod rename;
pub mod seccomp;
pub mod shared;
mod single_thread;
pub mod socket;
pub mod stat;
pub mod tree;
pub mod trust;
pub mod uring;
pub mod xattr;
pub mod xfs;
