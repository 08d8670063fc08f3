//! Offsets in directories that fit into 31 bits.
//!
//! ext4 orders the entries of a directory by a hash of 31 bits, and by another one of 32 bits where that is equal; an offset is both
//! (`hash2pos` in fs/ext4/dir.c of the kernel). Programs of 32 bits get EOVERFLOW for such an offset, or the lower half of it. ext4 gives
//! them the first hash alone, but through a mount the server is the one who asks. So a client gets the first hash wherever it says the same:
//! ext4 seeks to the first entry that has it. Where two entries follow each other with one hash, which one entry in 100,000 does in a
//! directory of 20,000, the whole offset remains, so that no program gets an entry twice.
//!
//! The offset of a client depends on nothing but the directory: it is the same in every open directory, and for every server.

use std::os::fd::AsFd;

use nix::sys::statfs::{EXT4_SUPER_MAGIC, fstatfs};

/// What ext4 says at the end, and the half of it that says the same: no entry has this hash.
const END: u64 = i64::MAX as u64;
const SHORT_END: u64 = hash(END);

/// The first hash of an offset.
const fn hash(offset: u64) -> u64 {
    offset >> 32
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offsets {
    /// Those of the file system, whatever they are.
    Plain,
    /// Hashes of ext4.
    Hashes,
}

impl Offsets {
    /// Those of `directory`, in which the offset after the first entry, `.`, is `second`.
    pub(super) fn of(directory: impl AsFd, second: u64) -> Self {
        // Offsets in a list without order are below the length of the list.
        let is_long = second > u64::from(u32::MAX);
        match is_long && fstatfs(directory).is_ok_and(|found| found.filesystem_type() == EXT4_SUPER_MAGIC) {
            true => Self::Hashes,
            false => Self::Plain,
        }
    }

    /// Whether the directory must be known to find out what a client means by `offset`.
    pub(super) fn is_ambiguous(offset: u64) -> bool {
        (1..=SHORT_END).contains(&offset)
    }

    /// Whether the entry at `next`, which follows the one at `at`, has the hash of that.
    pub(super) fn is_second(self, at: u64, next: u64) -> bool {
        self == Self::Hashes && hash(next) == hash(at)
    }

    /// The offset for clients of the entry at `next`, the first one with its hash.
    pub(super) fn of_first(self, next: u64) -> u64 {
        if self == Self::Hashes { hash(next) } else { next }
    }

    /// The offset for clients of the entry at `next`, the second one with its hash; `behind` is the offset behind it.
    pub(super) fn of_second(next: u64, behind: u64) -> u64 {
        if hash(next) + 1 < hash(behind).min(SHORT_END) { hash(next) + 1 } else { next }
    }

    /// The offset to which to seek for that of a client.
    pub(super) fn to_seek(self, offset: u64) -> u64 {
        match self {
            Self::Hashes if offset == SHORT_END => END,
            Self::Hashes if Self::is_ambiguous(offset) => offset << 32,
            Self::Hashes | Self::Plain => offset,
        }
    }

    /// Where to look for what a client means by `offset`, if that can be the second entry with the hash before.
    pub(super) fn before(self, offset: u64) -> Option<u64> {
        (self == Self::Hashes && (2..SHORT_END).contains(&offset)).then(|| (offset - 1) << 32)
    }

    /// How many entries from [there](Self::before) lie before the one that a client means, if that is known. `behind` are the offsets
    /// behind the first and the second entry there. Of two entries with one hash, the first may have been removed meanwhile.
    pub(super) fn skipped(offset: u64, behind: [Option<u64>; 2]) -> Option<usize> {
        match behind.map(|behind| behind.map_or(SHORT_END, hash)) {
            [first, second] if first < offset => (second > offset).then_some(1),
            [first, _] => (first > offset).then_some(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_fits_into_31_bits_unless_three_entries_have_one_hash() {
        // The last has the next number as its hash, the one before is alone, and `9` has three.
        let offsets = [
            1 << 32,
            5 << 32 | 7,
            7 << 32 | 1,
            7 << 32 | 2,
            9 << 32 | 3,
            9 << 32 | 8,
            9 << 32 | 9,
            20 << 32,
            20 << 32 | 4,
            21 << 32,
            21 << 32 | 1,
            (SHORT_END - 1) << 32 | 1,
            END,
        ];
        let behind = |at: usize| offsets.get(at + 1).copied();
        let shown: Vec<u64> = (0..offsets.len())
            .map(|at| {
                let next = offsets[at];
                let is_second = |at: usize| at > 0 && Offsets::Hashes.is_second(offsets[at - 1], offsets[at]);
                match behind(at) {
                    _ if !is_second(at) => Offsets::Hashes.of_first(next),
                    Some(behind) if !is_second(at - 1) => Offsets::of_second(next, behind),
                    _ => next,
                }
            })
            .collect();
        let long = [9 << 32 | 8, 9 << 32 | 9, 20 << 32 | 4];
        assert_eq!(shown, [1, 5, 7, 8, 9, long[0], long[1], 20, long[2], 21, 22, SHORT_END - 1, SHORT_END]);
        for (at, &shown) in shown.iter().enumerate() {
            let from = |position: u64| offsets.iter().position(|&offset| offset >= position);
            let near = Offsets::Hashes.before(shown).and_then(|before| {
                let from = from(before)?;
                Some(from + Offsets::skipped(shown, [behind(from), behind(from + 1)])?)
            });
            assert_eq!(near.or_else(|| from(Offsets::Hashes.to_seek(shown))), Some(at), "{shown:x}");
            assert_eq!(Offsets::Plain.of_first(offsets[at]), offsets[at]);
        }
        // The second entry, if the first was removed.
        assert_eq!(Offsets::skipped(8, [Some(9 << 32 | 3), Some(9 << 32 | 8)]), Some(0));
        assert_eq!((Offsets::Plain.to_seek(24), Offsets::Plain.before(24)), (24, None));
        assert_eq!((Offsets::Hashes.to_seek(0), Offsets::Hashes.to_seek(END)), (0, END));
    }
}
