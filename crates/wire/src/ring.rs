//! io_uring: requests come over rings, and replies go back over them (fuse-io-uring.rst of the kernel, since Linux 6.14).
//!
//! The kernel puts a request into the queue of the processor on which its client runs. A thread on that processor serves it: waking
//! it costs a fraction of what waking a thread on another processor does, and one system call both replies and waits for the next
//! request. Processors that this process may not use, and those that are not there yet, have queues too; the threads share these.
//!
//! An entry of a ring is in use from a request until its reply. So each queue has more entries than there are requests, as long as
//! there are fewer than `MOST_ENTRIES`: no request may wait because others are stuck in the pool. What has no reply (FORGET,
//! INTERRUPT) comes over /dev/fuse, and so do requests that came before the rings were ready.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::{fs, mem};

use namegate_sys::uring::{Completion, EntryNumber, FuseRing};
use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use zerocopy::IntoBytes;

use super::device::{Device, header};
use super::journal::NoJournal;
use super::reply::Reply;
use super::ring_reply::{RingEntry, RingReplies, RingReply, WaitingReplies};
use super::service::{Service, serve};

/// Number of entries that a queue gets whenever fewer than this are free. An entry costs a page of memory once it was used, and more
/// after a long read or write.
const SPARE_ENTRIES: usize = 16;
/// Maximum number of entries of a queue. Further requests from its processor wait.
const MOST_ENTRIES: usize = 512;

/// Where root enables rings, in a kernel that has them.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// Whether the kernel uses rings for new mounts: root has enabled `fuse.enable_uring`.
pub fn is_enabled() -> bool {
    fs::read_to_string(PARAMETER).is_ok_and(|value| matches!(value.trim(), "Y" | "1"))
}

/// Threads with a ring each. They end when this is dropped, unless they serve requests.
#[derive(Debug)]
pub struct Rings(Vec<RingHandle>);

#[derive(Debug)]
struct RingHandle {
    orders: Sender<Order>,
    results: Receiver<nix::Result<()>>,
    replies: Arc<RingReplies>,
    thread: JoinHandle<()>,
}

/// What a thread is to do next. It reports when it has done that.
enum Order {
    /// Register the queues with the connection of this device.
    Register(Arc<Device>),
    /// Serve requests until the mount is gone, or until it is to stop.
    Serve(Arc<dyn Service>),
}

impl Rings {
    /// Starts the threads, for reads and writes of at most `max_transfer` bytes.
    ///
    /// # Errors
    /// The kernel has no io_uring, or none for this process, or does not show its processors.
    pub fn start(max_transfer: u32) -> io::Result<Self> {
        let usable = usable_processors()?;
        let mut queues: BTreeMap<usize, Vec<u16>> = BTreeMap::new();
        for queue in 0..possible_processors()? {
            let processor = match usable.binary_search(&queue.into()) {
                Ok(_) => queue.into(),
                Err(_) => usable[usize::from(queue) % usable.len()],
            };
            queues.entry(processor).or_default().push(queue);
        }
        let start = |(processor, queues)| RingHandle::start(processor, queues, max_transfer);
        Ok(Self(queues.into_iter().map(start).collect::<io::Result<_>>()?))
    }

    /// Registers the queues with the connection of `device`, after INIT. Requests wait in them until they are served.
    ///
    /// # Errors
    /// What the kernel answers. Then all requests come over the device.
    pub(super) fn register(&self, device: &Arc<Device>) -> nix::Result<()> {
        self.order(|| Order::Register(device.clone()));
        self.wait_for_results()
    }

    /// Has `service` serve requests, until [`Rings::stop`] or the end of the mount.
    pub(super) fn serve(&self, service: &Arc<dyn Service>) {
        self.order(|| Order::Serve(service.clone()));
    }

    /// Ends what [`Rings::serve`] has begun, when all requests are answered that are being served. Others wait.
    pub(super) fn stop(&self) {
        self.0.iter().for_each(|ring| ring.replies.stop(true));
        // They have been logged.
        let _ = self.wait_for_results();
        self.0.iter().for_each(|ring| ring.replies.stop(false));
    }

    /// Ends the threads, after the mount is gone, and waits for them.
    pub(super) fn end(self) {
        self.0.iter().for_each(|ring| ring.replies.stop(true));
        for RingHandle { orders, thread, .. } in self.0 {
            drop(orders);
            if thread.join().is_err() {
                log::error!("a thread with a ring has died");
            }
        }
    }

    fn order(&self, order: impl Fn() -> Order) {
        // If a thread has died, the result tells.
        self.0.iter().for_each(|ring| drop(ring.orders.send(order())));
    }

    fn wait_for_results(&self) -> nix::Result<()> {
        let results = self.0.iter().map(|ring| ring.results.recv().unwrap_or(Err(Errno::EIO)));
        // All of them are waited for.
        results.fold(Ok(()), nix::Result::and)
    }
}

impl RingHandle {
    fn start(processor: usize, queues: Vec<u16>, max_transfer: u32) -> io::Result<Self> {
        let (orders, ordered) = channel();
        let (reports, results) = channel();
        let (made, waited_for) = channel();
        let run = move || match RingThread::new(processor, queues, max_transfer) {
            Ok(mut thread) => {
                let _ = made.send(Ok(thread.replies.clone()));
                while let Ok(order) = ordered.recv() {
                    // Nobody waits for the result at the end.
                    let _ = reports.send(thread.obey(order));
                }
            }
            Err(error) => drop(made.send(Err(error))),
        };
        let thread = thread::Builder::new().name(format!("ring-{processor}")).spawn(run)?;
        let replies = waited_for.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
        Ok(Self { orders, results, replies, thread })
    }
}

#[derive(Debug)]
struct Queue {
    number: u16,
    /// Number of entries.
    entries: usize,
    /// Number of entries with a request.
    in_use: usize,
}

impl Queue {
    /// Number of entries that are missing.
    fn missing(&self) -> usize {
        let free = self.entries - self.in_use;
        if free >= SPARE_ENTRIES { 0 } else { SPARE_ENTRIES.min(MOST_ENTRIES.saturating_sub(self.entries)) }
    }
}

struct RingThread {
    ring: FuseRing,
    replies: Arc<RingReplies>,
    /// Taken replies; kept for the memory.
    taken: WaitingReplies,
    queues: Vec<Queue>,
    /// Entries with requests that are not served yet.
    requests: VecDeque<EntryNumber>,
    /// The connection, once the queues are registered.
    device: Option<Arc<Device>>,
    /// The last error with which an entry has ended.
    ended_by: Option<Errno>,
}

impl RingThread {
    /// For the calling thread, which stays on `processor` from now on.
    fn new(processor: usize, queues: Vec<u16>, max_transfer: u32) -> io::Result<Self> {
        let mut its = CpuSet::new();
        its.set(processor)?;
        sched_setaffinity(Pid::from_raw(0), &its)?;
        let ring = FuseRing::new(max_transfer as usize, 2 * MOST_ENTRIES as u32)?;
        let replies = Arc::new(RingReplies::for_this_thread(ring.event()?));
        let queue = |number| Queue { number, entries: 0, in_use: 0 };
        let queues = queues.into_iter().map(queue).collect();
        let (taken, requests) = (WaitingReplies::default(), VecDeque::new());
        Ok(Self { ring, replies, taken, queues, requests, device: None, ended_by: None })
    }

    fn obey(&mut self, order: Order) -> nix::Result<()> {
        match order {
            Order::Register(device) => {
                self.register_first(&device)?;
                self.device = Some(device);
                Ok(())
            }
            Order::Serve(service) => {
                let device = self.device.clone().ok_or(Errno::ENOTCONN)?;
                self.serve_requests(&device, &*service).inspect_err(|errno| {
                    log::error!("requests of a processor are no longer served: its ring has failed: {errno}");
                })
            }
        }
    }

    /// Registers one entry of each queue. The kernel uses the rings when all queues have one.
    fn register_first(&mut self, device: &Device) -> nix::Result<()> {
        for queue in &mut self.queues {
            self.ring.register(device.number(), queue.number)?;
            queue.entries += 1;
        }
        self.ring.poll()?;
        self.take_completions()?;
        self.ended_by.map_or(Ok(()), Err)
    }

    fn serve_requests(&mut self, device: &Device, service: &dyn Service) -> nix::Result<()> {
        loop {
            self.add_entries(device);
            while let Some(entry) = self.requests.pop_front() {
                self.serve_one(entry, service)?;
                self.commit_replies(device)?;
                if !self.requests.is_empty() {
                    // This client must not wait until the others are served.
                    self.ring.submit()?;
                }
            }
            self.commit_replies(device)?;
            if self.is_to_stop() {
                return Ok(());
            }
            self.ring.wait()?;
            self.take_completions()?;
        }
    }

    /// Whether to stop serving: somebody wants it, or the kernel has given up all entries because the mount is gone.
    fn is_to_stop(&self) -> bool {
        let is_over = || self.queues.iter().all(|queue| queue.entries == 0);
        self.replies.is_to_stop() || self.ended_by.is_some() && is_over()
    }

    fn take_completions(&mut self) -> nix::Result<()> {
        while let Some(completion) = self.ring.completion() {
            match completion {
                Completion::Woken => self.ring.await_event()?,
                Completion::Request(entry) => {
                    if let Some(queue) = self.queue(entry) {
                        queue.in_use += 1;
                    }
                    self.requests.push_back(entry);
                }
                Completion::Ended(entry, errno) => {
                    log::debug!("an entry of a ring has ended: {errno}");
                    self.ended_by = Some(errno);
                    if let Some(queue) = self.queue(entry) {
                        queue.entries -= 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn queue(&mut self, entry: EntryNumber) -> Option<&mut Queue> {
        let number = self.ring.queue(entry)?;
        self.queues.iter_mut().find(|queue| queue.number == number)
    }

    /// Gives each queue more entries before it runs out of them.
    fn add_entries(&mut self, device: &Device) {
        if self.ended_by.is_some() {
            return;
        }
        for queue in &mut self.queues {
            for _ in 0..queue.missing() {
                if let Err(errno) = self.ring.register(device.number(), queue.number) {
                    log::warn!("requests from processor {} may have to wait: {errno}", queue.number);
                    return;
                }
                queue.entries += 1;
            }
        }
    }

    /// Serves the request of `entry`. A later reply comes by [`RingEntry`].
    fn serve_one(&mut self, entry: EntryNumber, service: &dyn Service) -> nix::Result<()> {
        let unique = self.ring.unique(entry).ok_or(Errno::EINVAL)?;
        let its = RingEntry::new(self.replies.clone(), entry);
        let Some(message) = self.ring.request(entry) else {
            log::error!("the kernel sent a request with contradicting lengths");
            its.reply(-libc::EIO, unique, &[]);
            return Ok(());
        };
        // Mounts over rings have no successor.
        serve(service, &NoJournal, message, |unique| Reply::to_ring(its, unique));
        Ok(())
    }

    /// Hands over the replies that are there.
    fn commit_replies(&mut self, device: &Device) -> nix::Result<()> {
        /// Beyond this, memory is given back.
        const KEPT: usize = 64 << 10;
        self.replies.swap(&mut self.taken);
        let mut taken = mem::take(&mut self.taken);
        let mut rest = &taken.bytes[..];
        for &RingReply { entry, error, unique, len } in &taken.list {
            let payload;
            (payload, rest) = rest.split_at(len);
            let mut commit = |error, payload: &[u8]| {
                let header = header(payload.len(), error, unique).ok_or(Errno::EMSGSIZE)?;
                self.ring.commit(device.number(), entry, header.as_bytes(), payload)
            };
            match commit(error, payload) {
                Err(Errno::EMSGSIZE) => commit(-libc::EIO, &[])?,
                committed => committed?,
            }
            if let Some(queue) = self.queue(entry) {
                queue.in_use -= 1;
            }
        }
        taken.list.clear();
        taken.bytes.clear();
        taken.bytes.shrink_to(KEPT);
        self.taken = taken;
        Ok(())
    }
}

/// The processors on which this process may run, in order.
fn usable_processors() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))?;
    let usable: Vec<_> = (0..CpuSet::count()).filter(|&number| set.is_set(number) == Ok(true)).collect();
    if usable.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(usable) }
}

/// The number of processors that the machine can ever have, as the kernel counts its queues.
fn possible_processors() -> io::Result<u16> {
    count_in_ranges(&fs::read_to_string("/sys/devices/system/cpu/possible")?)
        .ok_or(io::ErrorKind::InvalidData.into())
}

/// The number of numbers in ranges such as `0-3,8`.
fn count_in_ranges(ranges: &str) -> Option<u16> {
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    ranges.trim().split(',').map(count).try_fold(0u16, |sum, count| sum.checked_add(count?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_gets_entries_before_it_runs_out_of_them_up_to_a_limit() {
        let queue = |entries, in_use| Queue { number: 0, entries, in_use };
        assert_eq!(queue(1, 0).missing(), SPARE_ENTRIES);
        assert_eq!((queue(40, 24).missing(), queue(40, 25).missing()), (0, SPARE_ENTRIES));
        assert_eq!((queue(510, 510).missing(), queue(MOST_ENTRIES, MOST_ENTRIES).missing()), (2, 0));
    }

    #[test]
    fn processors_are_counted_as_the_kernel_lists_them() {
        for (ranges, count) in [("0\n", Some(1)), ("0-127\n", Some(128)), ("0-1,4,6-7\n", Some(5))] {
            assert_eq!(count_in_ranges(ranges), count, "{ranges}");
        }
        for nonsense in ["", "1-0", "a", "0-70000", "0-65535,1"] {
            assert_eq!(count_in_ranges(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn threads_end_when_they_are_not_needed() {
        match Rings::start(8192) {
            Err(error) => println!("SKIPPED: io_uring: {error}"),
            Ok(Rings(rings)) => {
                let threads: Vec<_> = rings.into_iter().map(|ring| ring.thread).collect();
                threads.into_iter().for_each(|thread| thread.join().unwrap());
            }
        }
    }
}
