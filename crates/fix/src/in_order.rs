//! An ordered parallel map in bounded memory.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

/// Parts in flight beyond the number of threads.
const AHEAD: usize = 2;

/// Calls `work` with each part, in at most `jobs` threads, and `take` with the results in the order of the parts. `make_parts` gives
/// each part to its argument, until that breaks.
///
/// # Errors
/// Those of `take`, after which no result is taken; then those of `make_parts`.
pub(super) fn in_order<P: Send, R: Send, E>(
    jobs: usize,
    make_parts: impl FnOnce(&mut dyn FnMut(P) -> ControlFlow<()>) -> Result<(), E>,
    work: impl Fn(P) -> R + Sync,
    take: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let mut taken = Ok(());
    if jobs <= 1 {
        let made = make_parts(&mut |part| {
            taken = take(work(part));
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        return taken.and(made);
    }
    let most_waiting = jobs + AHEAD;
    let (sender, receiver) = sync_channel::<(P, SyncSender<R>)>(most_waiting);
    let receiver = Mutex::new(receiver);
    let work_on_parts = || {
        loop {
            let next = receiver.lock().recv();
            let Ok((part, result)) = next else { break };
            // Nobody receives it after an error.
            let _ = result.send(work(part));
        }
    };
    let made = thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(work_on_parts);
        }
        let mut take_next = |results: &mut VecDeque<Receiver<R>>| {
            // Without a result its thread has panicked, and so does the scope at its end.
            match results.pop_front().map(|result| result.recv()) {
                Some(Ok(result)) if taken.is_ok() => taken = take(result),
                _ => return ControlFlow::Break(()),
            }
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let mut results = VecDeque::new();
        let made = make_parts(&mut |part| {
            let (sender_of_result, result) = sync_channel(1);
            results.push_back(result);
            // There is room for as many parts as have no result yet, so this never waits.
            let _ = sender.send((part, sender_of_result));
            if results.len() < most_waiting { ControlFlow::Continue(()) } else { take_next(&mut results) }
        });
        drop(sender);
        while take_next(&mut results).is_continue() {}
        made
    });
    taken.and(made)
}

/// Other threads are started for more items than this.
const WORTH_THREADS: usize = 4096;

/// [`in_order`] with the parts of `0..len`, of at most `size` items each.
pub(super) fn ranges_in_order<R: Send, E>(
    len: usize,
    size: usize,
    jobs: usize,
    work: impl Fn(Range<usize>) -> R + Sync,
    take: &mut dyn FnMut(R) -> Result<(), E>,
) -> Result<(), E> {
    let jobs = if len > WORTH_THREADS { jobs } else { 1 };
    let make_ranges = |give: &mut dyn FnMut(Range<usize>) -> ControlFlow<()>| {
        let _ = (0..len).step_by(size).map(|from| from..len.min(from + size)).try_for_each(give);
        Ok(())
    };
    in_order(jobs, make_ranges, work, take)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::time::Duration;

    use super::*;

    /// Gives the numbers up to `count`, and returns how many were given.
    fn numbers(count: usize, give: &mut dyn FnMut(usize) -> ControlFlow<()>) -> usize {
        (0..count).find(|&number| give(number).is_break()).map_or(count, |last| last + 1)
    }

    #[test]
    fn results_come_in_the_order_of_the_parts_and_few_parts_wait() {
        for jobs in [0, 1, 2, 7] {
            for count in [0, 1, 3, 100] {
                let (made, mut results) = (AtomicUsize::new(0), Vec::new());
                let make_parts = |give: &mut dyn FnMut(usize) -> ControlFlow<()>| {
                    numbers(count, &mut |number| {
                        made.fetch_add(1, Relaxed);
                        give(number)
                    });
                    Ok(())
                };
                let work = |number: usize| {
                    // Later parts are done first.
                    thread::sleep(Duration::from_micros(if number.is_multiple_of(3) { 300 } else { 0 }));
                    number * number
                };
                let taken: Result<(), ()> = in_order(jobs, make_parts, work, &mut |result| {
                    assert!(made.load(Relaxed) <= results.len() + jobs + AHEAD, "{jobs} {count}");
                    results.push(result);
                    Ok(())
                });
                assert_eq!(taken, Ok(()));
                assert!(results.into_iter().eq((0..count).map(|number| number * number)), "{jobs} {count}");
            }
        }
    }

    #[test]
    fn every_number_is_in_one_range_and_the_results_are_in_order() {
        for (len, jobs) in [(0, 2), (1, 0), (4096, 8), (4097, 8), (100_000, 3), (100_000, 1)] {
            let mut ranges = Vec::new();
            let Ok(()) = ranges_in_order(len, 1000, jobs, |range| range, &mut |range| {
                ranges.push(range);
                Ok::<(), Infallible>(())
            });
            assert!(ranges.into_iter().flatten().eq(0..len), "{len} {jobs}");
        }
    }

    #[test]
    fn no_part_is_made_and_no_result_is_taken_after_an_error() {
        for jobs in [1, 2, 7] {
            let (mut given, mut results) = (0, Vec::new());
            let make_parts = |give: &mut dyn FnMut(usize) -> ControlFlow<()>| {
                given = numbers(1000, give);
                Err("the last part")
            };
            let taken = in_order(jobs, make_parts, |number| number, &mut |result| {
                results.push(result);
                if result == 5 { Err("five") } else { Ok(()) }
            });
            assert_eq!(taken, Err("five"));
            assert_eq!(results, [0, 1, 2, 3, 4, 5]);
            assert!(given <= 6 + jobs + AHEAD, "{given}");
            let make_parts = |give: &mut dyn FnMut(usize) -> ControlFlow<()>| {
                numbers(5, give);
                Err("the last part")
            };
            let mut count = 0;
            let taken = in_order(jobs, make_parts, |number| number, &mut |_| {
                count += 1;
                Ok(())
            });
            assert_eq!((taken, count), (Err("the last part"), 5));
        }
    }

    #[test]
    fn a_panic_in_a_thread_ends_the_work() {
        let run = || {
            let make_parts = |give: &mut dyn FnMut(usize) -> ControlFlow<()>| {
                numbers(1000, give);
                Ok::<(), ()>(())
            };
            let work = |number: usize| {
                if number == 7 {
                    resume_unwind(Box::new("on purpose"))
                }
            };
            in_order(2, make_parts, work, &mut |()| Ok(()))
        };
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    }
}
