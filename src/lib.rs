//! The program namegate: what it reads, writes, serves and watches.
//!
//! The modules here are no public API: they change with the program. What a name is and whether a policy allows it is
//! the crate [`namegate_core`], which others can use.

pub mod cli;
pub mod doctor;
pub mod explain;
pub mod service;
