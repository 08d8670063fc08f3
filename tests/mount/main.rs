//! Tests of mounts from outside: the built program serves a temporary directory, and system calls go through the mount. All
//! need root and /dev/fuse; a test that cannot run prints SKIPPED.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod acls;
mod audit;
mod background;
mod cached_spellings;
mod coherent;
mod content;
mod control;
mod descriptors;
mod differential;
mod encode;
mod handles;
mod helper;
mod idmap;
mod iflags;
mod ignore_case;
mod kept_content;
mod lifetime;
mod links;
mod listings;
mod locks;
mod logs;
mod metadata;
mod metrics;
mod nameless;
mod names;
mod normalize;
mod one_check;
mod ownership;
mod privileged;
mod programs_32_bit;
mod reload;
mod requests;
mod rings;
mod roots;
mod servers;
mod service;
mod set_id;
mod set_id_kinds;
mod source;
mod special;
mod stacked;
mod submounts;
mod times;
mod unsupported;
mod user;
mod why;
