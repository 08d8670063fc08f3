//! The program namegate: what it reads, writes, serves and watches.
//!
//! The modules here are no public API: they change with the program. What a name is and whether a policy allows it is
//! the crate [`namegate_core`], which others can use.

pub mod cli;
pub mod collect;
pub mod doctor;
pub mod encoded_text;
pub mod explain;
pub mod fix;
pub mod fuse;
#[cfg(feature = "guard")]
pub mod guard;
#[cfg(feature = "parquet")]
pub mod parquet_file;
pub mod passthrough;
pub mod progress;
pub mod report;
pub mod scan;
pub mod service;
pub mod source;
pub mod state;
pub mod state_home;
pub mod watch;
pub mod wire;
pub mod workers;
