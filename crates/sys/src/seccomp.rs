//! System call filters: seccomp(2).

use nix::errno::Errno;

/// One instruction of a filter, in the kernel's layout (linux/filter.h).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// Opcode.
    pub code: u16,
    /// Offset of the next instruction if a condition is true.
    pub jump_true: u8,
    /// Offset of the next instruction if it is false.
    pub jump_false: u8,
    pub operand: u32,
}

/// `struct sock_fprog` of linux/filter.h.
#[repr(C)]
struct Program {
    len: libc::c_ushort,
    filter: *const Instruction,
}

/// Installs `filter` permanently in all threads of this process, in addition to existing filters. With `is_logged` the kernel's
/// audit log reports refused calls.
///
/// # Errors
/// EACCES without no_new_privs and CAP_SYS_ADMIN; EINVAL for an invalid filter; ESRCH if a thread has filters that this one
/// does not have; ENOSYS if the kernel does not support filters.
pub fn install(filter: &[Instruction], is_logged: bool) -> Result<(), Errno> {
    let program =
        Program { len: u16::try_from(filter.len()).map_err(|_| Errno::EINVAL)?, filter: filter.as_ptr() };
    let logging = if is_logged { libc::SECCOMP_FILTER_FLAG_LOG } else { 0 };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | logging;
    // SAFETY: `program` has the number of instructions; the kernel copies and verifies them.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    match Errno::result(result)? {
        0 => Ok(()),
        // The kernel returns the id of a thread that could not get the filter.
        _ => Err(Errno::ESRCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_filter_is_refused() {
        assert_eq!(install(&[], true), Err(Errno::EINVAL));
        let nonsense = Instruction { code: u16::MAX, jump_true: 0, jump_false: 0, operand: 0 };
        let refused = install(&[nonsense], true).unwrap_err();
        assert!(matches!(refused, Errno::EINVAL | Errno::EACCES), "{refused}");
    }
}
