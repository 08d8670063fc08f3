//! Large directories: their names are worked on in several threads, and what many of them have in common is kept once.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::panic::resume_unwind;
use std::thread;

/// Another thread is started for at least so many names.
const NAMES_OF_A_THREAD: usize = 4096;

/// Calls `work` with parts of `0..len`, in at most `jobs` threads. Returns the results in the order of the parts.
pub(super) fn in_parts<T: Send>(
    len: usize,
    jobs: usize,
    work: &(impl Fn(Range<usize>) -> T + Sync),
) -> Vec<T> {
    let size = len.div_ceil(jobs.max(1)).max(NAMES_OF_A_THREAD);
    let mut parts = (0..len).step_by(size).map(|from| from..len.min(from + size));
    thread::scope(|scope| {
        let Some(own) = parts.next() else { return Vec::new() };
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut results = vec![work(own)];
        let join = |other: thread::ScopedJoinHandle<'_, T>| {
            other.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        results.extend(others.into_iter().map(join));
        results
    })
}

/// Values that many names have, each once.
#[derive(Debug)]
pub(super) struct Distinct<T>(HashMap<T, u32>);

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Eq + Hash> Distinct<T> {
    /// The number of a value, from 0 in the order in which they come.
    pub(super) fn number(&mut self, value: T) -> u32 {
        let next = u32::try_from(self.0.len()).expect("a directory has fewer names");
        *self.0.entry(value).or_insert(next)
    }

    /// The values in the order of their numbers.
    pub(super) fn into_sorted(self) -> impl Iterator<Item = T> {
        let mut values: Vec<(T, u32)> = self.0.into_iter().collect();
        values.sort_unstable_by_key(|(_, number)| *number);
        values.into_iter().map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_one_part_and_the_results_are_in_order() {
        for (len, jobs) in [(0, 2), (1, 0), (4096, 8), (4097, 8), (100_000, 3), (100_000, 1)] {
            let parts = in_parts(len, jobs, &|part: Range<usize>| part);
            assert!(parts.len() <= jobs.max(1));
            assert!(parts.into_iter().flatten().eq(0..len), "{len} {jobs}");
        }
    }

    #[test]
    fn a_value_has_one_number() {
        let mut values = Distinct::default();
        let numbers: Vec<u32> = "abcabd".chars().map(|c| values.number(c)).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1, 3]);
        assert_eq!(values.into_sorted().collect::<String>(), "abcd");
    }
}
