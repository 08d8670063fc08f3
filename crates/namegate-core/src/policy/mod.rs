//! Rules, profiles, and the policy that is compiled from them.
//!
//! A [`Policy`] is immutable. [`Policy::verdict`] decides whether a name is allowed, [`Policy::check`] reports all its
//! violations. Both walk over the same violations, so that they cannot disagree.
//!
//! ```
//! use namegate_core::policy::{Policy, Verdict, profile};
//! let policy = Policy::of(&[profile::by_name("strict")?]);
//! assert_eq!(policy.verdict(b"report.txt"), Verdict::Accept("report.txt"));
//! let Verdict::Reject(reason) = policy.verdict(b"caf\xE9.txt") else { panic!("Latin-1 is not UTF-8") };
//! assert_eq!((reason.rule.name(), reason.span.start), ("truncated", 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod collision;
mod compile;
#[cfg(feature = "config")]
pub mod config;
mod describe;
mod dotgit;
mod fingerprint;
mod length;
mod message;
pub mod nearest;
pub mod profile;
mod quick;
mod repair;
pub mod rule;
mod tables;
mod violation;
mod visit;

pub use collision::Collision;
pub use compile::{Active, Builder, MissingParameter, Normalization, OnMismatch, Policy};
pub use fingerprint::{Fingerprints, Shared};
pub use nearest::Unknown;
pub(crate) use repair::Occupants;
pub use repair::{Confidence, How, Legacy, Meaning, Repair};
pub use violation::{NameCheck, Outcome, Verdict, Violation};
