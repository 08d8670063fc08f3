//! Reduces the privileges and system calls of a server to those that it needs.
//!
//! This has two steps. Before the mount, and before a second thread exists, the server gives up all capabilities except
//! [`FOR_SERVING`]. When the mount is live, it can no longer gain privileges, and makes only the system calls that serving
//! needs (`calls`).
//!
//! A user without privileges has nothing to give up, and needs the set-user-id program fusermount3(1) to unmount, so the
//! second step is skipped.
//!
//! Sources: capabilities(7), seccomp(2), PR_SET_NO_NEW_PRIVS(2const).

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod calls;

use std::fs;
use std::io;
use std::path::Path;

use namegate_sys::capability::{CapabilitySet, CapabilitySets, bound};
use namegate_sys::mounts::{MountEntry, mounts};
use nix::errno::Errno;
use nix::sys::prctl::set_no_new_privs;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Capabilities by their numbers in linux/capability.h.
mod number {
    pub(super) const CHOWN: u8 = 0;
    pub(super) const DAC_OVERRIDE: u8 = 1;
    pub(super) const DAC_READ_SEARCH: u8 = 2;
    pub(super) const FOWNER: u8 = 3;
    pub(super) const FSETID: u8 = 4;
    pub(super) const SETGID: u8 = 6;
    pub(super) const SETUID: u8 = 7;
    pub(super) const LINUX_IMMUTABLE: u8 = 9;
    pub(super) const SYS_PTRACE: u8 = 19;
    pub(super) const SYS_ADMIN: u8 = 21;
    pub(super) const MKNOD: u8 = 27;
    pub(super) const LEASE: u8 = 28;
    pub(super) const SETFCAP: u8 = 31;
}

/// The capabilities that a server needs, each with the operation that fails without it.
///
/// CAP_SYS_RESOURCE is excluded on purpose: with it the server would ignore the quotas of its clients.
pub const FOR_SERVING: CapabilitySet = CapabilitySet::from_numbers(&[
    // chown(2) by a client that is allowed to.
    number::CHOWN,
    // Opening files that the kernel has already let the client open, and names in directories of any user.
    number::DAC_OVERRIDE,
    // open_by_handle_at(2), for inodes that cost no descriptor.
    number::DAC_READ_SEARCH,
    // chmod(2), utimensat(2), ACLs and other attributes of files of any user; removal from sticky directories.
    number::FOWNER,
    // Set-id bits that stay when root writes, and set-group-id for groups that the client has and the server does not.
    number::FSETID,
    // setfsgid(2) and setgroups(2): new files belong to the client.
    number::SETGID,
    // setfsuid(2), likewise.
    number::SETUID,
    // chattr(1) +i and +a.
    number::LINUX_IMMUTABLE,
    // Mounting and unmounting, backing files that the kernel reads and writes itself, attributes in `trusted.` and
    // `security.`.
    number::SYS_ADMIN,
    // Devices, by mknod(2).
    number::MKNOD,
    // A lease for a moment, to learn whether a file of any user is open for writing.
    number::LEASE,
    // The attribute `security.capability`.
    number::SETFCAP,
]);

/// The capability that the health check process needs to reach the mount.
const FOR_PROBING: CapabilitySet = CapabilitySet::from_numbers(&[number::DAC_READ_SEARCH]);

/// Gives up the capabilities that serving does not need, for this thread and all threads that it creates. With `sees_calls`
/// the server may still see which system call a client is in.
///
/// # Errors
/// The process has other threads already, which would keep all capabilities; or the kernel refuses.
pub fn give_up(sees_calls: bool) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() > 1 {
        return Err(io::Error::other("the process has more than one thread"));
    }
    let mut kept = FOR_SERVING;
    // /proc shows system calls, and where processes are hidden also groups and commands, only with this capability.
    if sees_calls || hides_processes(&mounts()?) {
        kept = CapabilitySet(kept.0 | CapabilitySet::from_numbers(&[number::SYS_PTRACE]).0);
    }
    Ok(keep(kept)?)
}

/// Raises the limit of open files to the highest possible: `fs.nr_open`, up to 1,048,576. Call this before [`give_up`]:
/// raising the hard limit needs CAP_SYS_RESOURCE. Without that, the limit is unchanged.
pub fn raise_open_files() {
    /// A higher limit would let clients use too much memory. The systemd unit has the same limit.
    const MAX_OPEN_FILES: u64 = 1 << 20;
    let allowed =
        fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|number| number.trim().parse().ok());
    if let (Some(allowed), Ok((_, hard))) = (allowed, getrlimit(Resource::RLIMIT_NOFILE)) {
        let most = MAX_OPEN_FILES.min(allowed).max(hard);
        if let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, most, most) {
            log::debug!("the hard limit of open files stays at {hard}: {error}");
        }
    }
}

/// Gives up more capabilities in the health check process, which starts no other process. It continues if this fails.
pub(super) fn keep_for_probing() {
    let _ = keep(FOR_PROBING);
    let _ = set_no_new_privs();
}

/// Gives up all capabilities in a process that needs none and starts no other process. It continues if this fails.
pub(super) fn keep_nothing() {
    let _ = keep(CapabilitySet::default());
    let _ = set_no_new_privs();
}

fn keep(kept: CapabilitySet) -> Result<(), Errno> {
    match bound(kept) {
        // Without CAP_SETPCAP. The bounding set only affects programs that this process starts, and it starts none.
        Err(Errno::EPERM) => {}
        done => done?,
    }
    let permitted = CapabilitySets::of_thread()?.permitted.and(kept);
    CapabilitySets { effective: permitted, permitted, inheritable: CapabilitySet::default() }.apply()
}

/// Whether processes of other users are hidden in /proc (`hidepid`, proc(5)). The last of several mounts on /proc counts.
fn hides_processes(table: &[MountEntry]) -> bool {
    let mount = table.iter().rfind(|mount| mount.point == Path::new("/proc"));
    let options = String::from_utf8_lossy(mount.map_or(&[], |mount| &mount.options));
    options.split(',').any(|option| {
        option.strip_prefix("hidepid=").is_some_and(|how| !matches!(how, "0" | "off" | "1" | "noaccess"))
    })
}

/// Whether a server is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// The server is confined.
    Done,
    /// The server is not confined: it needs fusermount3(1) to unmount, which a confined process could not run.
    NeedsHelper,
    /// The server cannot gain privileges, but its system calls are not restricted: there are no filters for this
    /// architecture.
    NoFilters,
}

/// Confines all threads of this process: from now on they cannot gain privileges, and make only the system calls that a
/// server needs. Call this when everything is mounted.
///
/// # Errors
/// The kernel refuses.
pub fn confine() -> io::Result<Confinement> {
    if !CapabilitySets::of_thread()?.effective.contains(CapabilitySet::from_numbers(&[number::SYS_ADMIN])) {
        return Ok(Confinement::NeedsHelper);
    }
    // This applies to this thread only. The filters extend it to the others (seccomp(2), SECCOMP_FILTER_FLAG_TSYNC).
    set_no_new_privs()?;
    filter()
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn filter() -> io::Result<Confinement> {
    for filter in calls::filters().map_err(io::Error::other)? {
        namegate_sys::seccomp::install(&filter.program, filter.is_logged)?;
    }
    Ok(Confinement::Done)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn filter() -> io::Result<Confinement> {
    Ok(Confinement::NoFilters)
}

#[cfg(test)]
mod tests {
    use namegate_sys::mounts::parse;

    use super::*;

    #[test]
    fn processes_are_hidden_where_the_last_mount_on_proc_says_so() {
        let table = |options: &str| {
            format!(
                "22 1 0:5 / /proc rw - proc proc rw\n23 1 8:1 / / rw - ext4 /dev/sda rw,hidepid=2\n24 22 0:6 / /proc rw shared:5 - proc proc {options}\n"
            )
        };
        for (options, hidden) in [
            ("rw", false),
            ("rw,hidepid=0", false),
            ("rw,hidepid=noaccess", false),
            ("rw,hidepid=2", true),
            ("rw,gid=4,hidepid=invisible", true),
            ("rw,hidepid=ptraceable,gid=4", true),
        ] {
            assert_eq!(hides_processes(&parse(table(options).as_bytes())), hidden, "{options}");
        }
        assert!(!hides_processes(&parse(b"\xFF nonsense")));
    }
}
