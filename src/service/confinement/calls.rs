//! Filters for the system calls of a server.
//!
//! Calls in [`ALLOWED`] pass. Others fail with ENOSYS and are recorded in the kernel's audit log. Libraries treat ENOSYS as
//! an older kernel and use a fallback, so a new release of a library breaks nothing. For the same reason the list includes
//! calls that a program of this kind may use in the future, not only those that were observed. Calls that only an attacker's
//! code would make here end the process ([`FOREIGN`]).
//!
//! Sources: seccomp(2), syscalls(2); the groups of system calls in systemd.exec(5), "SystemCallFilter=".

use std::collections::BTreeMap;
use std::process;

use namegate_sys::seccomp::Instruction;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// The number of a system call.
type SyscallNumber = i64;

/// Calls that this C library does not name yet. Calls this recent have the same number on all architectures.
mod young {
    use super::SyscallNumber;
    pub(super) const FUTEX_WAITV: SyscallNumber = 449;
    pub(super) const CACHESTAT: SyscallNumber = 451;
    pub(super) const FCHMODAT2: SyscallNumber = 452;
    pub(super) const MAP_SHADOW_STACK: SyscallNumber = 453;
    pub(super) const FUTEX_WAKE: SyscallNumber = 454;
    pub(super) const FUTEX_WAIT: SyscallNumber = 455;
    pub(super) const FUTEX_REQUEUE: SyscallNumber = 456;
    pub(super) const STATMOUNT: SyscallNumber = 457;
    pub(super) const LISTMOUNT: SyscallNumber = 458;
    pub(super) const MSEAL: SyscallNumber = 462;
    pub(super) const SETXATTRAT: SyscallNumber = 463;
    pub(super) const GETXATTRAT: SyscallNumber = 464;
    pub(super) const LISTXATTRAT: SyscallNumber = 465;
    pub(super) const REMOVEXATTRAT: SyscallNumber = 466;
    pub(super) const FILE_GETATTR: SyscallNumber = 468;
    pub(super) const FILE_SETATTR: SyscallNumber = 469;
}

/// Calls that are allowed with any arguments.
#[rustfmt::skip]
const ALLOWED: &[SyscallNumber] = &[
    // Files, by descriptor and below one.
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64,
    libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_lseek, libc::SYS_openat,
    libc::SYS_openat2, libc::SYS_close, libc::SYS_close_range, libc::SYS_dup, libc::SYS_dup3,
    libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_getdents64,
    libc::SYS_readlinkat, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_mkdirat, libc::SYS_mknodat,
    libc::SYS_symlinkat, libc::SYS_linkat, libc::SYS_unlinkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_fchmod, libc::SYS_fchmodat,
    young::FCHMODAT2, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_utimensat, libc::SYS_truncate, libc::SYS_ftruncate,
    libc::SYS_fallocate, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range, libc::SYS_syncfs,
    libc::SYS_copy_file_range, libc::SYS_sendfile, libc::SYS_splice, libc::SYS_tee, libc::SYS_vmsplice,
    libc::SYS_fadvise64, libc::SYS_readahead, libc::SYS_flock, libc::SYS_getcwd, libc::SYS_chdir, libc::SYS_fchdir,
    libc::SYS_umask, libc::SYS_memfd_create, young::CACHESTAT, young::FILE_GETATTR, young::FILE_SETATTR,
    libc::SYS_name_to_handle_at, libc::SYS_open_by_handle_at, libc::SYS_inotify_init1, libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Extended attributes.
    libc::SYS_getxattr, libc::SYS_lgetxattr, libc::SYS_fgetxattr, young::GETXATTRAT, libc::SYS_setxattr,
    libc::SYS_lsetxattr, libc::SYS_fsetxattr, young::SETXATTRAT, libc::SYS_listxattr, libc::SYS_llistxattr,
    libc::SYS_flistxattr, young::LISTXATTRAT, libc::SYS_removexattr, libc::SYS_lremovexattr, libc::SYS_fremovexattr,
    young::REMOVEXATTRAT,
    // The mount: status and unmounting.
    libc::SYS_umount2, young::STATMOUNT, young::LISTMOUNT,
    // Acting for a caller.
    libc::SYS_setfsuid, libc::SYS_setfsgid, libc::SYS_setgroups, libc::SYS_getgroups, libc::SYS_capget, libc::SYS_capset,
    libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getresuid, libc::SYS_getresgid,
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getpgid, libc::SYS_getsid, libc::SYS_setsid,
    // Pipes, events and waiting. No ring can be made any more, and those that exist can only read and talk to /dev/fuse.
    libc::SYS_pipe2, libc::SYS_eventfd2, libc::SYS_signalfd4, libc::SYS_timerfd_create, libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2, libc::SYS_io_uring_enter, libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_restart_syscall,
    // Sockets that exist; for new ones see SOCKET_FAMILIES.
    libc::SYS_socketpair, libc::SYS_bind, libc::SYS_listen, libc::SYS_accept, libc::SYS_accept4, libc::SYS_connect,
    libc::SYS_getsockname, libc::SYS_getpeername, libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_sendmsg,
    libc::SYS_recvmsg, libc::SYS_sendmmsg, libc::SYS_recvmmsg, libc::SYS_shutdown, libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    // Memory.
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise,
    libc::SYS_msync, libc::SYS_mincore, libc::SYS_mlock, libc::SYS_munlock, libc::SYS_membarrier, young::MSEAL,
    young::MAP_SHADOW_STACK, libc::SYS_pkey_alloc, libc::SYS_pkey_free, libc::SYS_pkey_mprotect,
    // Threads, and the end of a thread or of the process. No program can be started, so a child process still runs this
    // program.
    // Only by clone(2), whose flags a filter can check: allowed_partly.
    libc::SYS_exit, libc::SYS_exit_group, libc::SYS_futex, young::FUTEX_WAITV,
    young::FUTEX_WAKE, young::FUTEX_WAIT, young::FUTEX_REQUEUE, libc::SYS_set_robust_list, libc::SYS_get_robust_list,
    libc::SYS_rseq, libc::SYS_set_tid_address, libc::SYS_sched_yield, libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam, libc::SYS_sched_getscheduler, libc::SYS_getpriority,
    libc::SYS_getcpu, libc::SYS_prctl, libc::SYS_seccomp, libc::SYS_wait4, libc::SYS_waitid,
    // Signals to this process: TO_ITSELF.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait, libc::SYS_rt_sigsuspend, libc::SYS_sigaltstack,
    // Time and system information.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_nanosleep,
    libc::SYS_gettimeofday, libc::SYS_times, libc::SYS_timer_create, libc::SYS_timer_settime, libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun, libc::SYS_timer_delete, libc::SYS_getitimer, libc::SYS_setitimer, libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_getrusage, libc::SYS_sysinfo, libc::SYS_uname,
    libc::SYS_getrandom,
];

/// Older forms of some of these calls, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const ALLOWED_OLD: &[SyscallNumber] = &[
    libc::SYS_open, libc::SYS_creat, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
    libc::SYS_mkdir, libc::SYS_rmdir, libc::SYS_rename, libc::SYS_unlink, libc::SYS_link,
    libc::SYS_symlink, libc::SYS_mknod, libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime,
    libc::SYS_utimes, libc::SYS_futimesat, libc::SYS_getdents, libc::SYS_dup2, libc::SYS_pipe, libc::SYS_eventfd,
    libc::SYS_signalfd, libc::SYS_inotify_init, libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_poll,
    libc::SYS_select, libc::SYS_pause, libc::SYS_alarm, libc::SYS_time, libc::SYS_getpgrp, libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_OLD: &[SyscallNumber] = &[];

/// Calls that no server makes while it serves, but that an attacker's code would try. The list is not complete:
/// `kexec_file_load` has no name in every C library, so it fails with ENOSYS as an unknown call.
#[rustfmt::skip]
const FOREIGN: &[SyscallNumber] = &[
    libc::SYS_mount, libc::SYS_move_mount, libc::SYS_open_tree, libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount,
    libc::SYS_fspick, libc::SYS_mount_setattr, libc::SYS_pivot_root, libc::SYS_chroot, libc::SYS_setns,
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_pidfd_getfd, libc::SYS_kcmp,
    libc::SYS_bpf, libc::SYS_perf_event_open, libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module,
    libc::SYS_kexec_load, libc::SYS_reboot, libc::SYS_swapon, libc::SYS_swapoff,
    libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_adjtimex, libc::SYS_clock_adjtime, libc::SYS_sethostname,
    libc::SYS_setdomainname, libc::SYS_acct, libc::SYS_quotactl,
];

/// Calls that C libraries always try first and can do without: they fail with ENOSYS and are not logged by the kernel.
const QUIETLY_UNKNOWN: &[SyscallNumber] = &[libc::SYS_clone3];

/// Socket families: local sockets for the control socket and the logs, and network sockets for metrics.
const SOCKET_FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// Ioctl requests that reach other processes: the first two insert input into the terminal of the user who started the
/// server, the others select a process or a group that gets a signal when a descriptor is ready (asm/sockios.h).
const REACHING_OTHERS: [u32; 4] = [libc::TIOCSTI as u32, libc::TIOCLINUX as u32, 0x8901, 0x8902];

/// Commands of fcntl(2) that select such a process, and the signal.
const SIGNALLING: [i32; 3] = [libc::F_SETOWN, F_SETOWN_EX, F_SETSIG];

/// From asm-generic/fcntl.h; not every C library names them.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;

/// Flags of clone(2) that create a namespace. `CLONE_NEWTIME` is missing: in clone(2) its bit belongs to the exit signal.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// A condition on the lower 32 bits of the argument number `index`.
fn argument(index: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
}

/// Calls that are allowed with some arguments only.
fn allowed_partly() -> Result<Vec<(SyscallNumber, Vec<SeccompRule>)>, BackendError> {
    let is = |index, value: i64| {
        SeccompRule::new(vec![argument(index, SeccompCmpOp::Eq, value as u64 & u64::from(u32::MAX))?])
    };
    let families = SOCKET_FAMILIES.iter().map(|&family| is(0, family.into())).collect::<Result<_, _>>()?;
    let none_of = |index, values: &[u32]| {
        let others = values.iter().map(|&value| argument(index, SeccompCmpOp::Ne, value.into()));
        SeccompRule::new(others.collect::<Result<_, _>>()?)
    };
    let no_namespace = SeccompRule::new(vec![argument(0, SeccompCmpOp::MaskedEq(NAMESPACES as u64), 0)?])?;
    let itself = i64::from(process::id());
    Ok(vec![
        (libc::SYS_socket, families),
        (libc::SYS_ioctl, vec![none_of(1, &REACHING_OTHERS)?]),
        (libc::SYS_fcntl, vec![none_of(1, &SIGNALLING.map(|command| command as u32))?]),
        // Threads. The flags of clone3(2) are in memory, which a filter cannot read: QUIETLY_UNKNOWN.
        (libc::SYS_clone, vec![no_namespace]),
        // Limits of this process, and the CPU affinity of this thread.
        (libc::SYS_prlimit64, vec![is(0, 0)?, is(0, itself)?]),
        (libc::SYS_sched_setaffinity, vec![is(0, 0)?]),
        // A separate umask for each thread; no other unsharing.
        (libc::SYS_unshare, vec![is(0, libc::CLONE_FS.into())?]),
        (libc::SYS_kill, vec![is(0, itself)?]),
        (libc::SYS_tgkill, vec![is(0, itself)?]),
    ])
}

/// A filter, and whether the kernel's audit log records the calls that it refuses.
pub(super) struct SyscallFilter {
    pub(super) program: Vec<Instruction>,
    pub(super) is_logged: bool,
}

/// The filters for this architecture.
///
/// # Errors
/// Only errors in the lists of this module.
pub(super) fn filters() -> Result<[SyscallFilter; 3], BackendError> {
    build(TargetArch::try_from(std::env::consts::ARCH)?)
}

fn build(architecture: TargetArch) -> Result<[SyscallFilter; 3], BackendError> {
    let whole = |calls: &[SyscallNumber]| calls.iter().map(|&call| (call, Vec::new())).collect::<Vec<_>>();
    let mut allowed: BTreeMap<_, _> =
        [whole(ALLOWED), whole(ALLOWED_OLD), allowed_partly()?].into_iter().flatten().collect();
    // The other filters decide about these calls: the kernel uses the strictest result of all filters.
    allowed.extend(whole(FOREIGN));
    allowed.extend(whole(QUIETLY_UNKNOWN));
    let (foreign, quietly) =
        (whole(FOREIGN).into_iter().collect(), whole(QUIETLY_UNKNOWN).into_iter().collect());
    let unknown = || SeccompAction::Errno(libc::ENOSYS as u32);
    let compile = |rules, otherwise, listed, is_logged| -> Result<SyscallFilter, BackendError> {
        let program: BpfProgram = SeccompFilter::new(rules, otherwise, listed, architecture)?.try_into()?;
        let program = program
            .iter()
            .map(|i| Instruction { code: i.code, jump_true: i.jt, jump_false: i.jf, operand: i.k })
            .collect();
        Ok(SyscallFilter { program, is_logged })
    };
    Ok([
        compile(foreign, SeccompAction::Allow, SeccompAction::KillProcess, true)?,
        compile(quietly, SeccompAction::Allow, unknown(), false)?,
        compile(allowed, unknown(), SeccompAction::Allow, true)?,
    ])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_call_is_both_allowed_and_foreign_or_listed_twice() {
        let all: Vec<SyscallNumber> = [ALLOWED, ALLOWED_OLD, FOREIGN, QUIETLY_UNKNOWN].concat();
        let mut seen = BTreeSet::new();
        for call in all.iter().copied().chain(allowed_partly().unwrap().into_iter().map(|(call, _)| call)) {
            assert!(seen.insert(call), "{call} is listed twice");
        }
        for started in [libc::SYS_execve, libc::SYS_execveat] {
            assert!(!seen.contains(&started), "no program is started");
        }
    }

    #[test]
    fn there_are_filters_that_the_kernel_can_take_for_both_architectures() {
        /// `BPF_MAXINSNS` of linux/bpf_common.h.
        const MAX_INSTRUCTIONS: usize = 4096;
        for architecture in [TargetArch::x86_64, TargetArch::aarch64] {
            for filter in build(architecture).unwrap() {
                let len = filter.program.len();
                assert!((1..=MAX_INSTRUCTIONS).contains(&len), "{len}");
            }
        }
    }
}
