//! What is allowed: rules, profiles, and the policy that is compiled from them.
//!
//! Pure: no file, no clock, no log. A [`Policy`] is immutable; [`Policy::verdict`] decides about a name,
//! [`Policy::check`] tells every reason. Both run over the same violations, so that they cannot disagree.
//!
//! ```
//! use namegate::policy::{Policy, Verdict, profile};
//! let policy = Policy::of(&[profile::by_name("strict")?]);
//! assert_eq!(policy.verdict(b"report.txt"), Verdict::Accept("report.txt"));
//! let Verdict::Reject(reason) = policy.verdict(b"caf\xE9.txt") else { panic!("Latin-1 is not UTF-8") };
//! assert_eq!((reason.rule.name(), reason.span.start), ("truncated", 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collision;
mod compile;
pub mod config;
mod describe;
mod dotgit;
mod fingerprint;
mod judge;
mod length;
mod message;
pub mod nearest;
pub mod profile;
mod quick;
mod repair;
pub mod rule;
mod tables;
mod violation;

pub use collision::Collision;
pub use compile::{Active, Builder, MissingParameter, Normalization, OnMismatch, Policy};
pub use fingerprint::{Fingerprints, Shared};
pub use nearest::Unknown;
pub use repair::{Confidence, How, Legacy, Meaning, Repair};
pub use violation::{NameCheck, Outcome, Verdict, Violation};
