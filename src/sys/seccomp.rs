//! Filters of system calls: seccomp(2).

use nix::errno::Errno;

/// One instruction of a filter, as the kernel reads it (linux/filter.h).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// What is done.
    pub code: u16,
    /// Where it goes on if so.
    pub jump_true: u8,
    /// Where it goes on if not.
    pub jump_false: u8,
    /// With what.
    pub operand: u32,
}

/// `struct sock_fprog` of linux/filter.h.
#[repr(C)]
struct Program {
    len: libc::c_ushort,
    filter: *const Instruction,
}

/// Puts `filter` on all threads of this process, for good, beside those that are there. With `is_logged` the kernel's audit log
/// reports what it refuses.
///
/// # Errors
/// EACCES without no_new_privs and CAP_SYS_ADMIN; EINVAL for what is no filter; ESRCH when a thread has filters that this one
/// has not; ENOSYS where the kernel has no such filters.
pub fn install(filter: &[Instruction], is_logged: bool) -> Result<(), Errno> {
    let program =
        Program { len: u16::try_from(filter.len()).map_err(|_| Errno::EINVAL)?, filter: filter.as_ptr() };
    let logging = if is_logged { libc::SECCOMP_FILTER_FLAG_LOG } else { 0 };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | logging;
    // SAFETY: `program` tells how many instructions there are, and the kernel copies and checks them.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    match Errno::result(result)? {
        0 => Ok(()),
        // The thread that could not be brought along.
        _ => Err(Errno::ESRCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_filter_is_refused() {
        assert_eq!(install(&[], true), Err(Errno::EINVAL));
        let nonsense = Instruction { code: u16::MAX, jump_true: 0, jump_false: 0, operand: 0 };
        let refused = install(&[nonsense], true).unwrap_err();
        assert!(matches!(refused, Errno::EINVAL | Errno::EACCES), "{refused}");
    }
}
