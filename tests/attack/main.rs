//! Attacks: what somebody with an account tries against root's tools, against the server, and against other users.
//!
//! Each attack runs in a loop for [`duration`]: for moments in the test suite, for a minute each by `scripts/attack`.
//! docs/SECURITY.md names the attack that tests each promise. Attacks need root, to act as other users; one that cannot run
//! says SKIPPED.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

#[allow(dead_code, reason = "attacks use a part of it")]
#[path = "../mount/acting.rs"]
mod acting;
mod contents;
mod descriptors;
mod hung;
#[allow(dead_code, reason = "attacks use a part of it")]
#[path = "../mount/mounted.rs"]
mod mounted;
mod set_id;
mod workers;

mod audit;
mod control;
mod fix;
mod outputs;
#[allow(dead_code, reason = "attacks use a part of it")]
#[path = "../fix/tree.rs"]
mod tree;

use std::time::Duration;

/// How long one attack goes on: `NAMEGATE_ATTACK_SECONDS`, or two seconds.
fn duration() -> Duration {
    let seconds = std::env::var("NAMEGATE_ATTACK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}
