//! Who a thread is to the file system: supplementary groups and capabilities of one thread.
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

/// What the kernel calls `struct __user_cap_header_struct`.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

/// What the kernel calls `struct __user_cap_data_struct`: one half of the three sets.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Capabilities {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h: sets of 64 bits, in two halves.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// `CAP_FSETID` of linux/capability.h: set-id bits stay when a file is changed.
const FSETID: u32 = 1 << 4;

/// Lets CAP_FSETID work for the calling thread, and no other, or stops it from working; returns whether it did before.
/// See capset(2), capabilities(7).
///
/// # Errors
/// EPERM for a thread that may not have it.
pub fn set_fsetid(is_on: bool) -> Result<bool, Errno> {
    let header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
    let mut sets = [Capabilities::default(); 2];
    // SAFETY: the header says version 3, for which the kernel writes two elements; `sets` has as many.
    Errno::result(unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) })?;
    let was_on = sets[0].effective & FSETID != 0;
    if was_on != is_on {
        sets[0].effective ^= FSETID;
        // SAFETY: likewise, and the kernel only reads.
        Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) })?;
    }
    Ok(was_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_lost_and_regained_by_one_thread_alone() {
        let of_thread = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line =
                status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim().to_owned();
            u64::from_str_radix(&line, 16).unwrap() & u64::from(FSETID) != 0
        };
        std::thread::spawn(move || {
            if !of_thread() {
                assert_eq!(set_fsetid(false), Ok(false), "nothing to lose");
                return println!("SKIPPED: this process has no CAP_FSETID to lose");
            }
            assert_eq!(set_fsetid(false), Ok(true));
            assert!(!of_thread());
            assert!(std::thread::spawn(of_thread).join().is_ok());
            assert_eq!(set_fsetid(false), Ok(false));
            assert_eq!(set_fsetid(true), Ok(false));
            assert!(of_thread());
        })
        .join()
        .unwrap();
    }
}
