//! How long threads of a server waited for a processor, so that the load of the machine does not count as slowness of the server.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(2);

/// The waits that ended at some time, of all threads together.
#[derive(Default)]
pub struct Delays(Vec<(Instant, Duration)>);

/// A thread that looks at a server.
pub struct Watch(Arc<AtomicBool>, JoinHandle<Delays>);

impl Delays {
    /// Watches the process `server` from now on.
    pub fn watch(server: u32) -> Watch {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        Watch(is_over, thread::spawn(move || Self::collect(server, &over)))
    }

    fn collect(server: u32, is_over: &AtomicBool) -> Self {
        let (mut delays, mut before, mut at) = (Self::default(), waited(server), Instant::now());
        while !is_over.load(Ordering::Relaxed) {
            sleep(INTERVAL);
            // How late this thread wakes is what others may suffer, too, whose waits are not counted: of a virtual machine, for example.
            let late = at.elapsed().saturating_sub(2 * INTERVAL);
            let after = waited(server);
            at = Instant::now();
            delays.0.push((at, late.max(after.saturating_sub(before))));
            before = after;
        }
        delays
    }

    /// At most how much of this time was waited.
    pub fn between(&self, begin: Instant, end: Instant) -> Duration {
        let from = self.0.partition_point(|(at, _)| *at < begin);
        // A wait is counted when it ends.
        let within = self.0[from..].iter().filter(|(at, waited)| *at < end + *waited + INTERVAL);
        within.map(|(_, waited)| *waited).sum()
    }
}

impl Watch {
    pub fn end(self) -> Delays {
        self.0.store(true, Ordering::Relaxed);
        self.1.join().unwrap()
    }
}

/// How long the threads of a process have waited for a processor until now, where the kernel counts that.
fn waited(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of_one = |thread: PathBuf| -> Option<u64> {
        fs::read_to_string(thread.join("schedstat")).ok()?.split(' ').nth(1)?.parse().ok()
    };
    Duration::from_nanos(threads.filter_map(|thread| of_one(thread.path())).sum())
}
