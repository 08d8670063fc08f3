//! Who a thread is to the file system: supplementary groups and capabilities of one thread.
//!
//! glibc's setgroups(3) changes all threads of the process; a server that acts for many users at once must not do that.
//! `setfsuid` and `setfsgid`, which are per thread in glibc too, come from nix.

use nix::errno::Errno;
use nix::unistd::Gid;

use super::capability::{Set, Sets};

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

/// `CAP_FSETID` of linux/capability.h: set-id bits stay when a file is changed.
const FSETID: Set = Set::of(&[4]);

/// Lets CAP_FSETID work for the calling thread, and no other, or stops it from working; returns whether it did before.
/// See capset(2), capabilities(7).
///
/// # Errors
/// EPERM for a thread that may not have it.
pub fn set_fsetid(is_on: bool) -> Result<bool, Errno> {
    let mut sets = Sets::of_thread()?;
    let was_on = sets.effective.contains(FSETID);
    if was_on != is_on {
        sets.effective.0 ^= FSETID.0;
        sets.apply()?;
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
            Set(u64::from_str_radix(&line, 16).unwrap()).contains(FSETID)
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
