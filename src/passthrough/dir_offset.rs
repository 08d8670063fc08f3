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

/// Which offsets a directory has.
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

    /// The offset for clients of the entry at `next`, which follows the one at `at`.
    pub(super) fn for_clients(self, at: u64, next: u64) -> u64 {
        match self {
            Self::Hashes if hash(next) != hash(at) => hash(next),
            Self::Hashes | Self::Plain => next,
        }
    }

    /// The offset to which to seek for that of a client.
    pub(super) fn to_seek(self, offset: u64) -> u64 {
        match self {
            Self::Hashes if offset == SHORT_END => END,
            Self::Hashes if Self::is_ambiguous(offset) => offset << 32,
            Self::Hashes | Self::Plain => offset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_short_where_its_first_half_says_it_all() {
        let offsets = [1 << 32, 5 << 32 | 7, 9 << 32 | 3, 9 << 32 | 8, (SHORT_END - 1) << 32 | 1, END];
        let mut at = 0;
        let shown = offsets.map(|next| {
            let shown = Offsets::Hashes.for_clients(at, next);
            assert!(Offsets::Hashes.to_seek(shown) <= next && Offsets::Hashes.to_seek(shown) > at);
            assert_eq!(Offsets::Plain.for_clients(at, next), next);
            at = next;
            shown
        });
        assert_eq!(shown, [1, 5, 9, 9 << 32 | 8, SHORT_END - 1, SHORT_END]);
        assert!(
            shown.into_iter().filter(|&shown| shown != 9 << 32 | 8).all(|shown| i32::try_from(shown).is_ok())
        );
        assert_eq!(Offsets::Hashes.to_seek(SHORT_END), END);
        assert_eq!(Offsets::Plain.to_seek(24), 24);
        assert_eq!((Offsets::Hashes.to_seek(0), Offsets::Hashes.to_seek(END)), (0, END));
    }
}
