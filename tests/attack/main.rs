//! Attacks of a local user on root's tools, on the server, and on other users.
//!
//! Each attack runs in a loop for [`duration`]: two seconds in the test suite, a minute by `scripts/attack`.
//! docs/SECURITY.md names the attack that tests each promise. Attacks need root, to run as other users; an attack that cannot run
//! prints SKIPPED.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod contents;
mod descriptors;
mod set_id;
mod workers;

mod audit;
mod control;
mod fix;
mod outputs;
mod signals;
#[allow(dead_code, reason = "attacks use a part of it")]
#[path = "../fix/tree.rs"]
mod tree;
#[path = "../fix/whole_plan.rs"]
mod whole_plan;

use std::time::Duration;

/// Duration of one attack: `NAMEGATE_ATTACK_SECONDS`, or two seconds.
fn duration() -> Duration {
    let seconds = std::env::var("NAMEGATE_ATTACK_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}
