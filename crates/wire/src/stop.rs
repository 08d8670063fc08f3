//! Stops the threads that read requests, without losing one: each serves the request that it has read, and reads no other.
//!
//! A thread that waits for a request is interrupted by a signal. The kernel hands out a request as a whole or not at all, so an
//! interrupted read has taken none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use namegate_sys::process::{interrupt_by, signal_thread};
use nix::sys::signal::Signal;
use nix::unistd::{Pid, gettid};
use parking_lot::Mutex;

/// The signal that interrupts a read. By default it is ignored.
const INTERRUPTING: Signal = Signal::SIGURG;

/// Asks the threads that read requests to stop.
#[derive(Debug, Default)]
pub struct StopReading {
    is_asked: AtomicBool,
    readers: Mutex<Vec<(Pid, Arc<AtomicBool>)>>,
}

impl StopReading {
    /// Whether reading was stopped.
    pub fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Stops reading, and waits until no thread reads any more and all requests that were read in place are served.
    pub fn stop(&self) {
        /// A signal that comes between the last look at the flag and the read is lost, so it is sent again.
        const INTERVAL: Duration = Duration::from_millis(1);
        interrupt_by(INTERRUPTING);
        self.is_asked.store(true, Ordering::SeqCst);
        loop {
            let readers = self.readers.lock();
            if readers.is_empty() {
                return;
            }
            // Nothing but a read is interrupted.
            let waiting = readers.iter().filter(|(_, is_waiting)| is_waiting.load(Ordering::SeqCst));
            waiting.for_each(|(thread, _)| signal_thread(*thread, INTERRUPTING));
            drop(readers);
            thread::sleep(INTERVAL);
        }
    }
}

/// The current thread, which reads requests until this is dropped.
#[derive(Debug)]
pub(super) struct Reader {
    stop: Arc<StopReading>,
    is_waiting: Arc<AtomicBool>,
}

impl Reader {
    pub(super) fn new(stop: Arc<StopReading>) -> Self {
        let is_waiting = Arc::<AtomicBool>::default();
        stop.readers.lock().push((gettid(), is_waiting.clone()));
        Self { stop, is_waiting }
    }

    /// Whether this thread must read no other request.
    pub(super) fn is_to_stop(&self) -> bool {
        self.stop.is_asked()
    }

    /// Calls `read`, which [`StopReading::stop`] interrupts.
    pub(super) fn waiting<T>(&self, read: impl FnOnce() -> T) -> T {
        self.is_waiting.store(true, Ordering::Relaxed);
        let result = read();
        self.is_waiting.store(false, Ordering::Relaxed);
        result
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let own = &self.is_waiting;
        self.stop.readers.lock().retain(|(_, other)| !Arc::ptr_eq(own, other));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_thread_that_waits_is_interrupted_and_one_that_serves_ends_its_request_first() {
        let stop = Arc::<StopReading>::default();
        let (pipe, _open): (PipeReader, _) = std::io::pipe().unwrap();
        let (serves, is_serving) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let (waiting, serving) = (stop.clone(), stop.clone());
        let waiter = thread::spawn(move || {
            let reader = Reader::new(waiting);
            let mut pipe = pipe;
            let mut reads = 0;
            while !reader.is_to_stop() {
                let read = reader.waiting(|| pipe.read(&mut [0]));
                assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::Interrupted);
                reads += 1;
            }
            reads
        });
        let server = thread::spawn(move || {
            let _reader = Reader::new(serving);
            serves.send(()).unwrap();
            let is_interrupted = goes_on.recv_timeout(Duration::from_secs(60)).is_err();
            assert!(!is_interrupted);
        });
        is_serving.recv().unwrap();
        let stopping = stop.clone();
        let stopper = thread::spawn(move || stopping.stop());
        // None if it was to stop before it had begun.
        assert!(waiter.join().unwrap() <= 1);
        assert!(!stopper.is_finished(), "a request is being served");
        go_on.send(()).unwrap();
        server.join().unwrap();
        stopper.join().unwrap();
        assert!(stop.readers.lock().is_empty());
    }
}
