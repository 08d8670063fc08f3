//! INIT: kernel and server agree on what is used.

use super::abi::{InitIn, InitOut, MAJOR, MINOR, OLDEST_MINOR, init};

/// What the server can use. What the kernel does not offer is not used.
#[derive(Clone, Copy, Debug)]
pub struct InitRequest {
    /// Flags of [`init`].
    pub flags: u64,
    /// Longest read and write of one request, in bytes.
    pub max_transfer: u32,
    /// Number of requests that nobody waits for and that are sent at the same time.
    pub max_background: u16,
    /// The size of a page of memory.
    pub page_size: u32,
}

/// What kernel and server have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The minor version of the protocol that the kernel speaks.
    pub minor: u32,
    /// Flags of [`init`].
    pub flags: u64,
}

impl Negotiated {
    /// Whether all of `flags` are used.
    pub fn has(&self, flags: u64) -> bool {
        self.flags & flags == flags
    }
}

/// The reply to an INIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitOutcome {
    /// Both sides use this from now on.
    Negotiated(InitOut, Negotiated),
    /// The kernel is newer by a major version. It sends INIT again after this reply.
    AskAgain(InitOut),
    /// The kernel is too old.
    TooOld,
}

/// What is used of `wanted` with a kernel that sends this INIT.
pub fn negotiate(offer: &InitIn, flags2: u32, wanted: &InitRequest) -> InitOutcome {
    let answer = InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() };
    if offer.major > MAJOR {
        return InitOutcome::AskAgain(answer);
    }
    if (offer.major, offer.minor) < (MAJOR, OLDEST_MINOR) {
        return InitOutcome::TooOld;
    }
    // Without INIT_EXT the second word has no meaning.
    let has_more = u64::from(offer.flags) & init::INIT_EXT != 0;
    let offered = u64::from(offer.flags) | if has_more { u64::from(flags2) << 32 } else { 0 };
    let flags = offered & (wanted.flags | init::INIT_EXT);
    let has = |flag: u64| flags & flag != 0;
    let pages = wanted.max_transfer.div_ceil(wanted.page_size.max(1));
    let answer = InitOut {
        minor: offer.minor.min(MINOR),
        max_readahead: offer.max_readahead,
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        max_background: wanted.max_background,
        congestion_threshold: wanted.max_background - wanted.max_background / 4,
        max_write: wanted.max_transfer,
        // One nanosecond.
        time_gran: 1,
        max_pages: if has(init::MAX_PAGES) { u16::try_from(pages).unwrap_or(u16::MAX) } else { 0 },
        // The backing file system must not be stacked on another one then: the kernel counts to two.
        max_stack_depth: has(init::PASSTHROUGH).into(),
        ..answer
    };
    InitOutcome::Negotiated(answer, Negotiated { minor: answer.minor, flags: flags & !init::INIT_EXT })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: InitRequest = InitRequest {
        flags: init::ASYNC_READ | init::MAX_PAGES | init::POSIX_ACL | init::PASSTHROUGH,
        max_transfer: 1 << 20,
        max_background: 1024,
        page_size: 4096,
    };

    fn offer(minor: u32, flags: u64) -> (InitIn, u32) {
        let offer = InitIn { major: 7, minor, max_readahead: 131_072, flags: flags as u32 };
        (offer, (flags >> 32) as u32)
    }

    fn set_negotiated(minor: u32, flags: u64) -> (InitOut, Negotiated) {
        let (offer, flags2) = offer(minor, flags);
        match negotiate(&offer, flags2, &WANTED) {
            InitOutcome::Negotiated(answer, negotiated) => (answer, negotiated),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_offered_is_not_used_and_what_is_not_wanted_neither() {
        let (answer, negotiated) = set_negotiated(31, init::ASYNC_READ | init::POSIX_ACL | 1 << 16);
        assert_eq!(negotiated, Negotiated { minor: 31, flags: init::ASYNC_READ | init::POSIX_ACL });
        assert_eq!((u64::from(answer.flags), answer.flags2), (negotiated.flags, 0));
        assert_eq!((answer.minor, answer.max_pages, answer.max_stack_depth), (31, 0, 0));
        assert_eq!((answer.max_readahead, answer.max_write), (131_072, 1 << 20));
    }

    #[test]
    fn the_second_word_counts_only_if_the_kernel_says_that_it_has_one() {
        let (answer, negotiated) = set_negotiated(45, init::PASSTHROUGH | init::INIT_EXT | init::MAX_PAGES);
        assert!(negotiated.has(init::PASSTHROUGH) && !negotiated.has(init::PASSTHROUGH | init::POSIX_ACL));
        assert_eq!((answer.flags2, answer.max_stack_depth, answer.max_pages), (1 << 5, 1, 256));
        assert_ne!(u64::from(answer.flags) & init::INIT_EXT, 0);
        let (answer, negotiated) = set_negotiated(45, init::PASSTHROUGH);
        assert_eq!((negotiated.flags, answer.flags2, answer.max_stack_depth), (0, 0, 0));
    }

    #[test]
    fn versions_that_are_too_old_or_too_new() {
        let (old, _) = offer(30, 0);
        assert_eq!(negotiate(&old, 0, &WANTED), InitOutcome::TooOld);
        assert_eq!(negotiate(&InitIn { major: 6, ..old }, 0, &WANTED), InitOutcome::TooOld);
        let newer = negotiate(&InitIn { major: 8, ..old }, 0, &WANTED);
        assert!(matches!(newer, InitOutcome::AskAgain(InitOut { major: 7, flags: 0, .. })));
        assert_eq!(set_negotiated(99, 0).0.minor, MINOR);
    }
}
