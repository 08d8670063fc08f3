//! Waiting for a condition, not for a time.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Long enough for a busy machine, and for an emulated one.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// Waits until `holds` returns true; panics with `what` after a while.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what} did not happen");
        sleep(Duration::from_millis(5));
    }
}
