//! What is asked of the kernel by INIT.

use namegate_settings::LockKeeping;
use namegate_sys::process::page_size;
use namegate_wire::InitRequest;
use namegate_wire::abi::init;

use super::options::Options;

/// Longest read and write of one request, in bytes.
pub const MAX_TRANSFER: u32 = 1 << 20;

/// The same over io_uring, where every request that can come at the same time has a buffer of this length.
pub(super) const RING_TRANSFER: u32 = 256 << 10;

/// The capabilities requested from the kernel for a mount with `options`, whatever the transport. Those that the kernel does not offer
/// are not used.
pub(super) fn wanted(options: &Options) -> InitRequest {
    let passthrough = if options.passthrough { init::PASSTHROUGH } else { 0 };
    let idmap = if options.idmap { init::ALLOW_IDMAP } else { 0 };
    let locks = match options.locks {
        LockKeeping::Kernel => 0,
        LockKeeping::Backing => init::POSIX_LOCKS | init::FLOCK_LOCKS,
    };
    InitRequest {
        flags: passthrough
            | locks
            | idmap
            | init::ASYNC_READ
            | init::BIG_WRITES
            | init::MAX_PAGES
            | init::ASYNC_DIO
            // Descriptors with O_DIRECT can be mapped, as on other file systems: the kernel writes the pages of a map back before it
            // goes around them.
            | init::DIRECT_IO_ALLOW_MMAP
            | init::AUTO_INVAL_DATA
            // The target of a symbolic link never changes: another target means another inode.
            | init::CACHE_SYMLINKS
            // The server clears set-id bits and capabilities when content changes, so the kernel need not ask before every
            // write.
            | init::HANDLE_KILLPRIV_V2
            | init::DO_READDIRPLUS
            | init::READDIRPLUS_AUTO
            // The umask of the caller is applied when the file is created, where default ACLs are known.
            | init::DONT_MASK
            | init::PARALLEL_DIROPS
            | init::POSIX_ACL,
        max_transfer: MAX_TRANSFER,
        // The limit of requests for which no client waits in the kernel (readahead, asynchronous writes, closes). At the
        // limit, such requests of all users wait until one is answered. It is high enough that one user alone cannot reach
        // it, and low enough that passing all of them to the pool takes no longer than a lookup may wait.
        max_background: 1024,
        page_size: page_size(),
    }
}
