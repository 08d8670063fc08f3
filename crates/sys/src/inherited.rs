//! Descriptors that a process shares with another one, and takes over when that has ended.
//!
//! A child that was created with `CLONE_FILES` (clone(2)) uses the same table of descriptors as its parent. What it has open
//! stays open when it is killed, as long as the parent lives. The next child sorts it out: [`Inherited::sort_out`].

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::unistd::{ForkResult, Pid};
use parking_lot::Mutex;

use super::single_thread::check_single_thread;

/// fork(2) with a common table of descriptors, in a process with only one thread.
///
/// # Errors
/// EDEADLK if there are more threads, or /proc does not show them; otherwise as clone(2) says.
pub fn fork_with_common_descriptors() -> Result<ForkResult, Errno> {
    check_single_thread()?;
    let mut flags = libc::CLONE_FILES | libc::SIGCHLD;
    let own_id = thread_id_place();
    if !own_id.is_null() {
        flags |= libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID;
    }
    // SAFETY: without CLONE_VM the child has memory of its own. No other thread exists that could hold a lock in it. The kernel writes
    // the number of the child where the C library of the child expects it, as the fork of that library asks for.
    let made = unsafe { clone(flags, own_id) };
    Ok(match Errno::result(made)? {
        0 => ForkResult::Child,
        child => ForkResult::Parent { child: Pid::from_raw(child as i32) },
    })
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe fn clone(flags: i32, own_id: *mut i32) -> i64 {
    let none = std::ptr::null_mut::<i32>();
    // SAFETY: those of the caller. The order of the last two arguments depends on the architecture (clone(2)).
    unsafe {
        #[cfg(target_arch = "x86_64")]
        return libc::syscall(libc::SYS_clone, i64::from(flags), none, none, own_id, none);
        #[cfg(target_arch = "aarch64")]
        return libc::syscall(libc::SYS_clone, i64::from(flags), none, none, none, own_id);
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn clone(_: i32, _: *mut i32) -> i64 {
    Errno::ENOSYS.set();
    -1
}

/// Where the C library of this thread has its number: glibc tells the kernel the place. musl tells it another one.
fn thread_id_place() -> *mut i32 {
    let mut place = std::ptr::null_mut::<i32>();
    if cfg!(target_env = "gnu") {
        /// From linux/prctl.h.
        const PR_GET_TID_ADDRESS: i32 = 40;
        // SAFETY: the kernel writes one address. Kernels without CONFIG_CHECKPOINT_RESTORE write none.
        let told = unsafe { libc::prctl(PR_GET_TID_ADDRESS, &raw mut place) };
        if told != 0 {
            return std::ptr::null_mut();
        }
    }
    place
}

/// The numbers of all descriptors of this process.
///
/// # Errors
/// /proc does not show them.
pub fn open_numbers() -> io::Result<HashSet<RawFd>> {
    let names = fs::read_dir("/proc/self/fd")?;
    let numbers: Vec<RawFd> =
        names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok()).collect();
    // The descriptor through which the list was read is in it, and closed by now.
    // SAFETY: F_GETFD only reads flags.
    Ok(numbers.into_iter().filter(|&number| unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0).collect())
}

/// Lets the descriptors with these numbers stay open when this process becomes another program (execve(2)).
pub fn keep_for_next_program(numbers: impl Iterator<Item = RawFd>) {
    for number in numbers {
        // SAFETY: a flag of a descriptor, which nothing here relies on. A number that is not open is of no use to the next program.
        unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
    }
}

/// The descriptor with this number, which the previous program of this process has left; `None` if there is none. To be called once
/// for a number, before anything else could have opened one with that number.
pub fn of_previous_program(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: it only changes flags.
    let is_open = number > 2 && unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == 0;
    // SAFETY: it is open, and by the rule above nothing owns it.
    is_open.then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

/// Gives descriptors other numbers: each pair is an open one and its new number. Whatever has a new number is closed. They are closed when
/// this process becomes another program.
///
/// To be called at the start of the program, while nothing in this process owns a descriptor but the standard streams.
///
/// # Errors
/// As dup(2) says. Some may have their new numbers by then.
pub fn renumber(pairs: &[(RawFd, RawFd)]) -> io::Result<()> {
    // The new number of one may be the old one of another: all go above both first.
    let above = pairs.iter().flat_map(|&(old, new)| [old, new]).max().unwrap_or_default() + 1;
    let mut moved = Vec::new();
    for &(old, new) in pairs {
        // SAFETY: by the rule above nothing owns the old one; a new one affects no other.
        let own = Errno::result(unsafe { libc::fcntl(old, libc::F_DUPFD_CLOEXEC, above) })?;
        // SAFETY: as above.
        unsafe { libc::close(old) };
        moved.push((own, new));
    }
    for (own, new) in moved {
        // SAFETY: nothing owns either number.
        unsafe {
            Errno::result(libc::dup3(own, new, libc::O_CLOEXEC))?;
            libc::close(own);
        }
    }
    Ok(())
}

/// Descriptors that a predecessor has left, and that nobody owns yet.
#[derive(Debug, Default)]
pub struct Inherited(Mutex<HashSet<RawFd>>);

impl Inherited {
    /// Closes all descriptors but those with the numbers in `own`, which have owners in this process, and in `left`, which become the
    /// descriptors that this value offers.
    ///
    /// To be called once, right after the process was created, while its only owners of descriptors are those of `own`.
    ///
    /// # Errors
    /// /proc does not show the open descriptors.
    pub fn sort_out(own: &HashSet<RawFd>, left: &HashSet<RawFd>) -> io::Result<Self> {
        let mut offered = HashSet::new();
        for number in open_numbers()? {
            if own.contains(&number) {
                continue;
            }
            if left.contains(&number) {
                offered.insert(number);
                // Another program has cleared this flag.
                // SAFETY: it only changes flags.
                unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
            } else {
                // SAFETY: the predecessor has ended, and nothing in this process owns the descriptor.
                unsafe { libc::close(number) };
            }
        }
        Ok(Self(Mutex::new(offered)))
    }

    /// The descriptor with this number, for one caller; `None` if there is none.
    pub fn take(&self, number: RawFd) -> Option<OwnedFd> {
        // SAFETY: it was open, and nobody owned it; it is offered only once.
        self.0.lock().remove(&number).then(|| unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// Closes those that nobody has taken.
    pub fn close_rest(&self) {
        for number in self.0.lock().drain() {
            // SAFETY: as in `take`.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}
