//! Mounts that survive their server: it is killed while clients know the right result of each call. Needs root and /dev/fuse; a test
//! that cannot run prints SKIPPED.
//!
//! `NAMEGATE_TEST_KILLS` sets the number of kills, 20 by default.

#![allow(clippy::unwrap_used, reason = "a test ends where something is wrong")]

mod clients;
mod coherent;
mod faults;
mod kills;
mod remains;
mod service;
mod upgrades;

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use namegate_testkit::mounted::{TestMount, transport};
use namegate_testkit::wait_until;

/// A mount that survives; `None`, after a message, if nothing can be mounted.
fn surviving(args: &[&str]) -> Option<TestMount> {
    if transport() != "dev" {
        println!("SKIPPED: mounts survive over the transport dev alone");
        return None;
    }
    TestMount::new(&[&["--survive"], args].concat())
}

/// Whether a process has not ended. One that was killed is a child until its parent has noticed.
fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The child of a holder, if it has one.
fn only_child(holder: Pid) -> Option<Pid> {
    let children = fs::read_to_string(format!("/proc/{holder}/task/{holder}/children")).unwrap();
    let mut all = children.split_whitespace().filter_map(|pid| Some(Pid::from_raw(pid.parse().ok()?)));
    all.find(|pid| is_alive(*pid))
}

/// The server of a mount: the child of the holder.
fn server_of(mounted: &TestMount) -> Pid {
    let holder = Pid::from_raw(mounted.server().cast_signed());
    let mut found = None;
    wait_until("the start of a server", || {
        found = only_child(holder);
        found.is_some()
    });
    found.unwrap()
}

/// Kills the server, and waits until another one has started.
fn kill_server(mounted: &TestMount) {
    let server = server_of(mounted);
    kill(server, Signal::SIGKILL).unwrap();
    wait_until("the start of another server", || server_of(mounted) != server);
}

fn kills() -> usize {
    std::env::var("NAMEGATE_TEST_KILLS").map_or(20, |number| number.parse().unwrap())
}

/// A client that waits for longer than this counts as stuck.
const STUCK: Duration = Duration::from_secs(60);
