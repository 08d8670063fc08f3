//! Lengths of records, and the words in them that the state itself reads.

use std::os::fd::RawFd;

/// Length of a node's record in words.
pub(super) const NODE_WORDS: usize = 16;
/// Length of an open file's record in words.
pub(super) const OPEN_WORDS: usize = 8;
/// Length of a journal in words.
pub(super) const JOURNAL_WORDS: usize = 320;
/// Of a half of the names that the kernel keeps: more than a million.
pub(super) const KEPT_WORDS: usize = 1 << 22;

/// The words in which a descriptor is recorded: of a node, and of an open file.
pub(super) const NODE_FD: usize = 5;
pub(super) const OPEN_FD: usize = 4;

/// The word of a journal with the request that was finished last.
pub(super) const ANSWERED: usize = 1;

/// `None` is 0, so that a number is stored with 1 added.
pub(super) fn option(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.wrapping_add(1))
}

pub(super) fn from_option(word: u64) -> Option<u64> {
    word.checked_sub(1)
}

/// The descriptor that is recorded in a word.
pub(super) fn descriptor(word: u64) -> Option<RawFd> {
    from_option(word).and_then(|fd| fd.try_into().ok())
}
