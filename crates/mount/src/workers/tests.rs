use std::sync::Barrier;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;

use parking_lot::Mutex;

use super::*;

const KIND: RequestKind = 7;

/// Long enough for a busy machine. Jobs that are stuck here are stuck for ever.
const PATIENCE: Duration = Duration::from_secs(60);

fn lane(user: u32) -> Lane {
    Lane { user, domain: Domain::Own, load: Load::Light }
}

fn limits() -> PoolLimits {
    PoolLimits { threads: 16, domain: 12, lane: 3, heavy: 2, ..PoolLimits::default() }
}

#[track_caller]
fn wait_until(holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(2));
    }
}

/// A job that reports that it runs, and is stuck until the sender is dropped.
fn stuck(running: &Sender<u32>, user: u32) -> (impl FnOnce() + Send + 'static, Sender<()>) {
    let (release, released) = channel::<()>();
    let running = running.clone();
    let job = move || {
        // A test that has seen enough ends before the jobs that still wait.
        let _ = running.send(user);
        let _ = released.recv();
    };
    (job, release)
}

/// Asserts that exactly `count` more jobs run.
#[track_caller]
fn assert_arrive(running: &Receiver<u32>, count: usize) {
    for _ in 0..count {
        running.recv_timeout(PATIENCE).unwrap();
    }
    assert_eq!(running.recv_timeout(Duration::from_millis(300)), Err(RecvTimeoutError::Timeout));
}

#[test]
fn a_user_with_stuck_jobs_occupies_a_limited_share_of_the_threads() {
    let workers = Workers::start(2, limits()).unwrap();
    let (begins, running) = channel();
    let mut releases = Vec::new();
    for _ in 0..40 {
        let (job, release) = stuck(&begins, 1);
        workers.submit(lane(1), KIND, 0, job);
        releases.push(release);
    }
    assert_arrive(&running, 3);
    assert_eq!((workers.usage().threads, workers.usage().queued), (3, 37));
    // Other users are served, however many jobs are stuck.
    for user in 2..6 {
        let (job, _release) = stuck(&begins, user);
        workers.submit(lane(user), KIND, 0, job);
        assert_eq!(running.recv_timeout(PATIENCE), Ok(user));
    }
    // Jobs in another domain are served, too.
    let (job, release) = stuck(&begins, 1);
    releases.push(release);
    workers.submit(Lane { domain: Domain::Other(5), ..lane(1) }, KIND, 0, job);
    assert_eq!(running.recv_timeout(PATIENCE), Ok(1));
    drop(releases);
    // All jobs are served in the end.
    assert_arrive(&running, 37);
    assert!(workers.wait_until_idle(PATIENCE));
}

#[test]
fn a_domain_that_is_full_leaves_threads_for_others_and_for_probes() {
    let workers = Workers::start(2, limits()).unwrap();
    let (begins, running) = channel();
    let mut releases = Vec::new();
    for user in 0..40 {
        let (job, release) = stuck(&begins, user);
        workers.submit(lane(user), KIND, 0, job);
        releases.push(release);
    }
    assert_arrive(&running, 12);
    for other in [
        Lane { user: 0, domain: Domain::Own, load: Load::Probe },
        Lane { user: 0, domain: Domain::Other(1), load: Load::Light },
    ] {
        let (job, _release) = stuck(&begins, 99);
        workers.submit(other, KIND, 0, job);
        assert_eq!(running.recv_timeout(PATIENCE), Ok(99));
    }
    drop(releases);
}

#[test]
fn users_take_turns() {
    let workers = Workers::start(2, PoolLimits { threads: 1, ..limits() }).unwrap();
    let (begins, running) = channel();
    let (first, release) = stuck(&begins, 0);
    workers.submit(lane(0), KIND, 0, first);
    running.recv().unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    for user in [1, 1, 1, 1, 2, 2, 3] {
        let order = order.clone();
        workers.submit(lane(user), KIND, 0, move || order.lock().push(user));
    }
    drop(release);
    assert!(workers.wait_until_idle(PATIENCE));
    assert_eq!(*order.lock(), [1, 2, 3, 1, 2, 1, 1]);
}

#[test]
fn copies_share_the_processors_until_they_turn_out_to_wait() {
    // The pool notices after a moment that they wait, or not during this test.
    for fresh in [Duration::from_millis(100), 2 * PATIENCE] {
        let workers = Workers::start(2, PoolLimits { fresh, ..limits() }).unwrap();
        let (begins, running) = channel();
        let begun = Instant::now();
        let mut releases = Vec::new();
        for user in 1..=4 {
            let (job, release) = stuck(&begins, user);
            workers.submit(Lane { load: Load::Heavy, ..lane(user) }, KIND, 0, job);
            releases.push(release);
        }
        if fresh > PATIENCE {
            assert_arrive(&running, 2);
        } else {
            (0..3).for_each(|_| assert!(running.recv_timeout(PATIENCE).is_ok()));
            assert!(begun.elapsed() >= fresh, "three at once");
            assert!(running.recv_timeout(PATIENCE).is_ok());
        }
        // Jobs that mostly wait are not delayed by those.
        let (job, _release) = stuck(&begins, 5);
        workers.submit(lane(5), KIND, 0, job);
        assert_eq!(running.recv_timeout(PATIENCE), Ok(5));
    }
}

#[test]
fn a_job_that_panics_costs_no_thread_and_no_share() {
    let workers = Workers::start(2, limits()).unwrap();
    for _ in 0..20 {
        // Unwinds like a panic, without the message of one.
        workers.submit(lane(1), KIND, 10, || std::panic::resume_unwind(Box::new(())));
    }
    assert!(workers.wait_until_idle(PATIENCE));
    let (sends, receives) = channel();
    workers.submit(lane(1), KIND, 0, move || sends.send(()).unwrap());
    assert_eq!(receives.recv_timeout(PATIENCE), Ok(()));
}

#[test]
fn the_memory_of_waiting_jobs_is_known() {
    let workers = Workers::start(2, PoolLimits { lane_bytes: 100, ..limits() }).unwrap();
    let (begins, running) = channel();
    let (job, release) = stuck(&begins, 1);
    assert!(workers.has_room(lane(1)));
    workers.submit(lane(1), KIND, 100, job);
    running.recv().unwrap();
    assert!(!workers.has_room(lane(1)) && workers.has_room(lane(2)));
    drop(release);
    assert!(workers.wait_until_idle(PATIENCE));
    assert!(workers.has_room(lane(1)));
}

#[test]
fn remaining_jobs_are_dropped_after_the_threads_have_ended() {
    let workers = Workers::start(2, limits()).unwrap();
    let (begins, running) = channel();
    let (job, release) = stuck(&begins, 1);
    workers.submit(lane(1), KIND, 0, job);
    running.recv().unwrap();
    drop(workers);
    drop(release);
}

/// Threads that read requests from a channel, as a transport does.
fn readers(workers: &Arc<Workers>, regular: usize) -> Sender<Box<dyn FnOnce(&Workers) + Send>> {
    let (asks, asked) = channel::<Box<dyn FnOnce(&Workers) + Send>>();
    let asked = Arc::new(Mutex::new(asked));
    for _ in 0..regular + ReaderThreads::RESERVE {
        let (workers, asked) = (workers.clone(), asked.clone());
        thread::spawn(move || {
            loop {
                let next = asked.lock().recv();
                let Ok(request) = next else { return };
                let turn = workers.begin(KIND);
                request(&workers);
                drop(turn);
                workers.park_if_unneeded();
            }
        });
    }
    asks
}

#[test]
fn the_last_reading_thread_sends_every_request_to_the_pool() {
    const REGULAR: usize = 2;
    let workers = Arc::new(Workers::start(REGULAR, limits()).unwrap());
    let asks = readers(&workers, REGULAR);
    let (answers, answered) = channel();
    let ask = || {
        let answers = answers.clone();
        asks.send(Box::new(move |workers| answers.send(workers.is_short()).unwrap())).unwrap();
        answered.recv_timeout(PATIENCE)
    };
    // A thread in reserve notices that with its first request.
    wait_until(|| ask() == Ok(false));
    // The regular threads get stuck, all at once.
    let all_stuck = Arc::new(Barrier::new(REGULAR + 1));
    let mut releases = Vec::new();
    let mut stick = |all_stuck: &Arc<Barrier>| {
        let (release, released) = channel::<()>();
        let all_stuck = all_stuck.clone();
        let request = move |_: &Workers| {
            all_stuck.wait();
            let _ = released.recv();
        };
        asks.send(Box::new(request)).unwrap();
        releases.push(release);
    };
    (0..REGULAR).for_each(|_| stick(&all_stuck));
    all_stuck.wait();
    // One more is in reserve. On a busy machine a thread that waits for a processor may count as stuck for a moment.
    wait_until(|| ask() == Ok(false));
    // The next one gets stuck, too.
    let stuck_too = Arc::new(Barrier::new(2));
    stick(&stuck_too);
    stuck_too.wait();
    for _ in 0..20 {
        assert_eq!(ask(), Ok(true), "this is the last one");
    }
    // A request ends after its answer is sent, and the supervisor looks twice before it considers a thread stuck.
    wait_until(|| workers.in_progress_longer_than(Duration::ZERO).len() == REGULAR + 1);
    // They continue, and the pool is not needed any more.
    drop(releases);
    wait_until(|| ask() == Ok(false));
}

#[test]
fn after_a_slow_request_similar_ones_count_as_slow_for_a_while() {
    let slow = SlowRequests::default();
    let now = Instant::now();
    slow.record_duration(KIND, 1, Duration::from_millis(1), now);
    assert!(!slow.contains(KIND, 1, now));
    slow.record_duration(KIND, 1, Duration::from_millis(50), now);
    assert!(slow.contains(KIND, 1, now) && slow.contains(KIND, 1, now + Duration::from_millis(900)));
    assert!(!slow.contains(KIND, 2, now) && !slow.contains(KIND + 1, 1, now));
    assert!(!slow.contains(KIND, 1, now + Duration::from_millis(1100)));
}

/// A job that waits in a system call until it is interrupted, and says how long that took; it never waits for ever.
fn interruptible(done: Sender<Option<Duration>>) -> impl FnOnce() + Send + 'static {
    move || {
        let begun = Instant::now();
        let waited = nix::poll::poll(&mut [], 20_000u16);
        done.send((waited == Err(nix::errno::Errno::EINTR)).then(|| begun.elapsed())).unwrap();
    }
}

#[test]
fn a_job_is_interrupted_before_it_comes_while_it_waits_and_while_it_runs_and_no_other_is() {
    let workers = Workers::start(2, PoolLimits { lane: 1, ..limits() }).unwrap();
    let (done, says) = channel();
    // It comes after its interrupt.
    workers.interrupt(10);
    workers.submit_with(Some(10), lane(1), KIND, 0, interruptible(done.clone()));
    assert!(says.recv_timeout(PATIENCE).unwrap().is_some());
    // One of two runs, and the other one waits.
    for interrupt_id in [12, 14] {
        workers.submit_with(Some(interrupt_id), lane(1), KIND, 0, interruptible(done.clone()));
    }
    wait_until(|| workers.usage().queued == 1);
    workers.interrupt(14);
    assert_eq!(says.recv_timeout(Duration::from_millis(300)), Err(RecvTimeoutError::Timeout));
    workers.interrupt(12);
    for _ in [12, 14] {
        assert!(says.recv_timeout(PATIENCE).unwrap().is_some());
    }
    // Nothing is left for the next jobs of the same thread, whatever their tickets.
    for interrupt_id in [None, Some(16)] {
        let done = done.clone();
        workers.submit_with(interrupt_id, lane(1), KIND, 0, move || {
            let waited = nix::poll::poll(&mut [], 100u16);
            done.send((waited != Ok(0)).then_some(Duration::ZERO)).unwrap();
        });
        assert_eq!(says.recv_timeout(PATIENCE).unwrap(), None);
    }
}

#[test]
fn interrupts_of_jobs_that_end_at_that_moment_never_reach_the_next_one() {
    let workers = Workers::start(2, PoolLimits { lane: 1, ..limits() }).unwrap();
    let (done, says) = channel();
    let jobs = 400;
    for interrupt_id in 0..jobs {
        let done = done.clone();
        workers.submit_with(Some(2 * interrupt_id), lane(1), KIND, 0, move || {
            done.send((interrupt_id, nix::poll::poll(&mut [], 1u16))).unwrap();
        });
    }
    // Only every other job is interrupted, most of them while they begin or end.
    let mut interrupted = 0;
    for _ in 0..jobs {
        let (interrupt_id, waited) = says.recv_timeout(PATIENCE).unwrap();
        match interrupt_id % 2 {
            0 => interrupted += u64::from(waited.is_err()),
            _ => assert_eq!(waited, Ok(0), "job {interrupt_id} was interrupted"),
        }
        let next = interrupt_id + 2 - interrupt_id % 2;
        workers.interrupt(2 * next);
    }
    println!("{interrupted} of {} were interrupted", jobs / 2);
}
