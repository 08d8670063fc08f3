//! The identity of a thread for the file system: its supplementary groups, and what /proc shows of other threads.
//!
//! glibc's setgroups(3) changes all threads of the process; a server that acts for many users at once must not do that.
//! `setfsuid` and `setfsgid`, which are per thread in glibc too, come from nix.

use std::fs;

use nix::errno::Errno;
use nix::unistd::Gid;

use super::capability::CapabilitySet;

/// Sets the supplementary groups of the calling thread only. See setgroups(2), "C library/kernel differences".
///
/// # Errors
/// EPERM without CAP_SETGID; EINVAL for more groups than the kernel allows.
pub fn set_thread_groups(groups: &[Gid]) -> Result<(), Errno> {
    let raw: Vec<libc::gid_t> = groups.iter().map(|group| group.as_raw()).collect();
    // SAFETY: `raw` holds as many ids as the first argument says, and the kernel only reads them.
    let result = unsafe { libc::syscall(libc::SYS_setgroups, raw.len(), raw.as_ptr()) };
    Errno::result(result).map(drop)
}

/// Ids, groups and capabilities of a thread, as far as /proc shows them.
#[derive(Debug, Default)]
pub struct ThreadStatus {
    /// User id and group id for the file system.
    pub ids: Option<(u32, u32)>,
    /// Supplementary groups.
    pub groups: Vec<Gid>,
    /// Effective capabilities, in the thread's own user namespace; `None` if the thread is gone or not visible.
    pub effective: Option<CapabilitySet>,
}

/// Reads the status of the thread `tid`; nothing for 0. See proc_pid_status(5).
pub fn status(tid: u32) -> ThreadStatus {
    let text = match tid {
        0 => String::new(),
        _ => fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default(),
    };
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    // The last of four: real, effective, saved, file system.
    let id = |name| line(name)?.split_ascii_whitespace().nth(3)?.parse().ok();
    let groups = line("Groups:").unwrap_or_default().split_ascii_whitespace();
    ThreadStatus {
        ids: id("Uid:").zip(id("Gid:")),
        groups: groups.filter_map(|id| id.parse().ok()).map(Gid::from_raw).collect(),
        effective: line("CapEff:")
            .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
            .map(CapabilitySet),
    }
}

#[cfg(test)]
mod tests {
    use super::super::capability::CapabilitySets;
    use super::*;

    #[test]
    fn the_status_of_a_thread_has_its_groups_and_capabilities() {
        let own = status(nix::unistd::gettid().as_raw() as u32);
        assert_eq!(own.effective, Some(CapabilitySets::of_thread().unwrap().effective));
        let mut groups = nix::unistd::getgroups().unwrap();
        groups.sort_by_key(|group| group.as_raw());
        assert_eq!(own.groups, groups);
        let ids = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        assert_eq!(own.ids, Some(ids));
        for nobody in [0, u32::MAX] {
            let status = status(nobody);
            assert_eq!((status.groups, status.effective), (Vec::new(), None));
        }
    }
}
