//! The fingerprints of many names, in four bytes each.

/// Fingerprints up to this number, or a thirty-second of those that are packed, are stored as they are.
const MOST_UNPACKED: usize = 1 << 16;

/// Sorted fingerprints, of which 48 bits are kept: two of four million different names share them once in thirty directories.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    packed: PackedNumbers,
    unpacked: Vec<u64>,
}

impl Numbers {
    /// Makes room for a few more.
    pub(super) fn reserve(&mut self, count: usize) {
        self.unpacked.reserve(count);
    }

    /// Adds a fingerprint.
    pub(super) fn push(&mut self, number: u64) {
        self.unpacked.push(kept(number));
        if self.unpacked.len() >= MOST_UNPACKED.max(self.packed.low.len() / 32) {
            self.pack();
        }
    }

    fn pack(&mut self) {
        self.unpacked.sort_unstable();
        self.packed.merge(&self.unpacked);
        self.unpacked.clear();
    }

    /// Sorts those that were added since the last time.
    pub(super) fn sort(&mut self) {
        if self.packed.low.is_empty() {
            self.unpacked.sort_unstable();
        } else {
            self.pack();
            self.unpacked = Vec::new();
        }
    }

    /// All, sorted. [`Numbers::sort`] must have been called.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.packed.iter().chain(self.unpacked.iter().copied())
    }

    /// How often `number` is there. [`Numbers::sort`] must have been called.
    pub(super) fn count(&self, number: u64) -> usize {
        let number = kept(number);
        self.packed.count(number) + equal(&self.unpacked, number)
    }

    /// Those that are there more than once, each of them once.
    pub(super) fn repeated(&self) -> Self {
        let mut numbers = self.iter();
        let mut repeated = Self::default();
        if let Some(mut last) = numbers.next() {
            for number in numbers {
                if number == last && repeated.unpacked.last() != Some(&number) {
                    repeated.unpacked.push(number);
                }
                last = number;
            }
        }
        repeated
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packed.low.is_empty() && self.unpacked.is_empty()
    }
}

/// What is kept of a fingerprint: its upper 48 bits.
fn kept(number: u64) -> u64 {
    number >> 16
}

/// How often `number` is in `sorted`.
fn equal<T: Ord>(sorted: &[T], number: T) -> usize {
    let from = sorted.partition_point(|other| *other < number);
    sorted[from..].iter().take_while(|other| **other == number).count()
}

/// Sorted numbers of 48 bits: the upper 16 are those of the group, the lower 32 are stored.
#[derive(Clone, Debug, Default)]
struct PackedNumbers {
    low: Vec<u32>,
    /// Where each group ends in `low`; empty without numbers.
    ends: Vec<usize>,
}

impl PackedNumbers {
    const GROUPS: usize = 1 << 16;

    /// Where `group` begins in `low`.
    fn start(&self, group: usize) -> usize {
        group.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Adds sorted numbers. Those that are there move up from the end, so no second copy is needed.
    fn merge(&mut self, added: &[u64]) {
        self.ends.resize(Self::GROUPS, self.low.len());
        // What is below it has not moved.
        let mut moved = self.low.len();
        self.low.resize(moved + added.len(), 0);
        let mut left = added.len();
        for group in (0..Self::GROUPS).rev() {
            let (start, end) = (self.start(group), self.ends[group]);
            self.ends[group] += left;
            while let Some(&number) =
                added[..left].last().filter(|&number| number >> u32::BITS == group as u64)
            {
                let low = number as u32;
                let at = start + self.low[start..end.min(moved)].partition_point(|&other| other <= low);
                self.low.copy_within(at..moved, at + left);
                (moved, left) = (at, left - 1);
                self.low[moved + left] = low;
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.ends.len()).flat_map(|group| {
            let low = &self.low[self.start(group)..self.ends[group]];
            low.iter().map(move |&low| (group as u64) << u32::BITS | u64::from(low))
        })
    }

    fn count(&self, number: u64) -> usize {
        let group = (number >> u32::BITS) as usize;
        match self.ends.get(group) {
            Some(&end) => equal(&self.low[self.start(group)..end], number as u32),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of which every third is there again, in no order.
    fn scattered(count: u64) -> Vec<u64> {
        (0..count).map(|at| (at - u64::from(at % 3 == 2)).wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect()
    }

    #[test]
    fn packed_numbers_are_those_that_were_added() {
        for count in [0, 1, 10, MOST_UNPACKED as u64 - 1, MOST_UNPACKED as u64, 5 * MOST_UNPACKED as u64 / 2]
        {
            let all = scattered(count);
            let mut numbers = Numbers::default();
            all.iter().for_each(|&number| numbers.push(number));
            numbers.sort();
            assert_eq!(numbers.packed.low.is_empty(), count < MOST_UNPACKED as u64, "{count}");
            let mut expected: Vec<u64> = all.iter().map(|number| number >> 16).collect();
            expected.sort_unstable();
            assert!(numbers.iter().eq(expected.iter().copied()), "{count}");
            let repeated = numbers.repeated();
            let twice = expected.windows(2).filter(|two| two[0] == two[1]).map(|two| two[0]);
            assert!(repeated.iter().eq(twice), "{count}");
            for (at, &number) in all.iter().enumerate().step_by(1000) {
                let is_repeated = at % 3 == 2 || at % 3 == 1 && at + 1 < all.len();
                assert_eq!(numbers.count(number), 1 + usize::from(is_repeated), "{count} {at}");
                assert_eq!(repeated.count(number), usize::from(is_repeated), "{count} {at}");
            }
            for absent in scattered(3 * count + 3).into_iter().skip(count as usize + 1).step_by(1000) {
                assert_eq!(numbers.count(absent), 0, "{count}");
            }
        }
    }
}
