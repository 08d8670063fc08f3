//! Who a thread is to the file system: supplementary groups of one thread.
//!
//! glibc's setgroups(3) changes all threads of the process; a server that acts for many users at once must not do that.
//! `setfsuid` and `setfsgid`, which are per thread in glibc too, come from nix.

use nix::errno::Errno;
use nix::unistd::Gid;

/// Gives the calling thread, and no other, the supplementary `groups`. See setgroups(2), "C library/kernel differences".
///
/// # Errors
/// EPERM without CAP_SETGID; EINVAL for more groups than the kernel takes.
pub fn set_thread_groups(groups: &[Gid]) -> Result<(), Errno> {
    let raw: Vec<libc::gid_t> = groups.iter().map(|group| group.as_raw()).collect();
    // SAFETY: `raw` holds as many ids as the first argument says, and the kernel only reads them.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, raw.len(), raw.as_ptr()) };
    Errno::result(result).map(drop)
}
