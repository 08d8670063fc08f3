//! Rules, profiles, and the policy that is compiled from them.
//!
//! A [`Policy`] is immutable. [`Policy::verdict`] decides whether a name is allowed, [`Policy::check`] reports all its
//! violations. Both use the same code, so they always agree.
//!
//! ```
//! use namegate_core::policy::{Policy, Verdict, profile};
//! let policy = Policy::from_profiles(&[profile::by_name("strict")?]);
//! assert_eq!(policy.verdict(b"report.txt"), Verdict::Accept("report.txt"));
//! let Verdict::Reject(reason) = policy.verdict(b"caf\xE9.txt") else { panic!("Latin-1 is not UTF-8") };
//! assert_eq!((reason.rule.name(), reason.span.start), ("truncated", 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod active_rule;
#[cfg(feature = "automaton")]
pub mod automaton;
mod collision;
mod compile;
#[cfg(feature = "config")]
pub mod config;
mod describe;
mod dotgit;
mod entry;
mod fingerprint;
mod length;
mod message;
mod prefilter;
pub mod profile;
pub mod rule;
mod suggest;
mod tables;
mod violation;
mod visit;

pub use crate::nearest::UnknownWord;
pub use active_rule::ActiveRule;
pub use collision::Collision;
pub use compile::{MissingParameter, Normalization, OnMismatch, Policy, PolicyBuilder};
pub use entry::{AppliesTo, Entry, EntryKind};
pub use fingerprint::{Fingerprints, SharedFingerprints, UsedFingerprints};
pub use suggest::{
    Confidence, DecodedAs, DecodedName, EncodingHint, FingerprintIndex, LegacyReader, NamesInUse,
    PartsSuggester, RepairScope, SuggestedName,
};
pub(crate) use suggest::{ImperfectName, Occupants};
pub use violation::{CheckOutcome, NameCheck, Verdict, Violation};
