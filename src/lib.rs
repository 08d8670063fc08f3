//! namegate keeps file names well-formed.
//!
//! The library says of any byte string whether it is an admissible file name, which rule it breaks, at which bytes and
//! why. Data flows one way: `name` (what a name is) → `policy` (what is allowed) → everything that acts on a verdict.
//!
//! ```
//! use namegate::policy::{Policy, profile};
//! let policy = Policy::of(&[profile::by_name("windows")?, profile::by_name("macos")?]);
//! let check = policy.check(b"CON.txt");
//! assert_eq!(check.violations[0].rule.name(), "reserved-name");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cli;
pub mod daemon;
pub mod doctor;
pub mod explain;
pub mod fix;
pub mod fuse;
pub mod gate;
pub mod name;
pub mod passthrough;
pub mod policy;
pub mod report;
pub mod scan;
pub mod source;
pub mod sys;
pub mod watch;
