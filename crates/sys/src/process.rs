//! Forking a process, closing its descriptors, and what the kernel says about one.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{AccessFlags, ForkResult, Pid, access};

use super::inherited::open_numbers;
use super::single_thread::check_single_thread;

/// How many processors this process may use; 1 if the system does not say it.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Reports whether execvp(3) would find the program.
///
/// # Errors
/// As access(2) says; ENOENT if no directory of PATH has it.
pub fn check_program(program: &OsStr) -> Result<(), Errno> {
    let is_program = |path: &Path| {
        access(path, AccessFlags::X_OK).and_then(|()| if path.is_dir() { Err(Errno::EACCES) } else { Ok(()) })
    };
    if program.as_encoded_bytes().contains(&b'/') {
        return is_program(Path::new(program));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    match env::split_paths(&path).any(|dir| is_program(&dir.join(program)).is_ok()) {
        true => Ok(()),
        false => Err(Errno::ENOENT),
    }
}

/// The path of a program that was removed or replaced while a process runs it, by the link `exe` of the process (proc_pid_exe(5)).
pub fn replaced_program(exe: &Path) -> Option<&[u8]> {
    exe.as_os_str().as_bytes().strip_suffix(b" (deleted)")
}

/// fork(2), in a process with only one thread: only then the child can do everything that its parent can.
///
/// # Errors
/// EDEADLK if there are more threads, or /proc does not show them; otherwise as the page says.
pub fn fork() -> Result<ForkResult, Errno> {
    check_single_thread()?;
    // SAFETY: no other thread exists that could hold a lock in the child, and only this thread could start one.
    unsafe { nix::unistd::fork() }
}

/// Reads a number from what the kernel says about a descriptor (proc_pid_fdinfo(5)): such as `mnt_id` of a file. `None` if it
/// does not say it.
///
/// # Errors
/// /proc does not show the descriptor.
pub fn fd_info(fd: impl AsFd, field: &str) -> io::Result<Option<u64>> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd()))?;
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Ok(value.and_then(|value| value.trim().parse().ok()))
}

/// The name of `pid` if that is a thread of the kernel (proc_pid_stat(5)). No program can be taken for one.
pub fn kernel_thread(pid: u32) -> Option<String> {
    kernel_thread_of_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

fn kernel_thread_of_stat(stat: &[u8]) -> Option<String> {
    /// `PF_KTHREAD` of linux/sched.h.
    const KERNEL_THREAD: u32 = 0x0020_0000;
    let (head, fields) = split_stat(stat)?;
    let flags = fields.split(' ').nth(6)?.parse::<u32>().ok()?;
    let (_, name) = std::str::from_utf8(head).ok()?.split_once(" (")?;
    (flags & KERNEL_THREAD != 0).then(|| name.into())
}

/// Divides a line of proc_pid_stat(5) behind the name of the process.
fn split_stat(stat: &[u8]) -> Option<(&[u8], &str)> {
    // The name may contain anything, the fields after it are a letter and numbers.
    let end = stat.windows(2).rposition(|pair| pair == b") ")?;
    Some((&stat[..end], std::str::from_utf8(&stat[end + 2..]).ok()?))
}

/// Whether the main thread of the process `pid` has ended, also if other threads of it have not.
pub fn has_main_thread_ended(pid: u32) -> bool {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => split_stat(&stat).is_some_and(|(_, fields)| fields.starts_with(['Z', 'X'])),
        Err(_) => true,
    }
}

/// The system call in which a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingCall {
    /// rename(2), renameat(2) or renameat2(2), with both paths if they can be read.
    Rename(Option<[PathBuf; 2]>),
    Other,
}

/// The system call in which the thread `tid` waits. `None` if /proc does not say it (proc_pid_syscall(5)): that needs CAP_SYS_PTRACE, or the same
/// user and no Yama.
pub fn waiting_call(tid: u32) -> Option<WaitingCall> {
    /// A thread that has just woken this one may not sleep yet. On a busy machine it waits for a processor first.
    const ATTEMPTS: u32 = 1000;
    const PAUSE: Duration = Duration::from_micros(500);
    let path = format!("/proc/{tid}/syscall");
    for attempt in 0..ATTEMPTS {
        let said = fs::read_to_string(&path).ok()?;
        let mut words = said.split_ascii_whitespace();
        match words.next()? {
            "running" if attempt < ATTEMPTS / 2 => thread::yield_now(),
            "running" => thread::sleep(PAUSE),
            number => {
                return Some(match paths_of_rename(number.parse().ok()?) {
                    Some(places) => WaitingCall::Rename(read_paths(tid, &words.collect::<Vec<_>>(), places)),
                    None => WaitingCall::Other,
                });
            }
        }
    }
    None
}

/// The paths in `places` of the arguments of a call, as /proc shows them; `None` if they cannot be read.
fn read_paths(tid: u32, arguments: &[&str], places: [usize; 2]) -> Option<[PathBuf; 2]> {
    let memory = fs::File::open(format!("/proc/{tid}/mem")).ok()?;
    let read = |place: usize| {
        let at = u64::from_str_radix(arguments.get(place)?.strip_prefix("0x")?, 16).ok()?;
        let mut bytes = [0; libc::PATH_MAX as usize];
        let len = memory.read_at(&mut bytes, at).ok()?;
        let path = bytes[..len].split(|&byte| byte == 0).next()?;
        Some(PathBuf::from(OsStr::from_bytes(path)))
    };
    Some([read(places[0])?, read(places[1])?])
}

/// Where a call that renames has its paths among its arguments; `None` for others. `number` is that of any of the machine's calling
/// conventions: none of these numbers is that of another call that looks up a path.
fn paths_of_rename(number: i64) -> Option<[usize; 2]> {
    /// The bit of x32, arch/x86/include/uapi/asm/unistd.h.
    const X32: i64 = 0x4000_0000;
    // renameat2(2) and, where they exist, renameat(2) and rename(2).
    #[cfg(target_arch = "x86_64")]
    const RENAMES: (&[i64], &[i64]) =
        (&[libc::SYS_rename, 38], &[libc::SYS_renameat, libc::SYS_renameat2, 302, 353]);
    #[cfg(target_arch = "aarch64")]
    const RENAMES: (&[i64], &[i64]) = (&[], &[libc::SYS_renameat, libc::SYS_renameat2, 329, 382]);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const RENAMES: (&[i64], &[i64]) = (&[], &[libc::SYS_renameat2 as i64]);
    match number & !X32 {
        number if RENAMES.0.contains(&number) => Some([0, 1]),
        number if RENAMES.1.contains(&number) => Some([1, 3]),
        _ => None,
    }
}

/// Closes all descriptors from 3 on except `kept`. See close_range(2); if the kernel lacks it (before 5.9), they are closed
/// one by one.
///
/// The caller guarantees that no owner of a closed descriptor in this process is used or dropped afterwards: [`fork`] followed by
/// a loop that never returns does.
///
/// # Errors
/// /proc does not show the open descriptors.
pub fn close_all_but(kept: &OwnedFd) -> Result<(), Errno> {
    const FIRST: RawFd = 3;
    let kept = kept.as_raw_fd();
    for (first, last) in [(FIRST, kept - 1), (kept + 1, RawFd::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: close_range touches no memory; the caller guarantees that no owner of a closed descriptor is used afterwards.
        match Errno::result(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }) {
            Ok(_) => {}
            Err(Errno::ENOSYS) => close_one_by_one(kept)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Revokes the device at `path` in this process, whatever thread uses it: each of its descriptors is replaced by one of
/// `null` and keeps its number, so that no other file can get that number. For a process that is about to end with stuck threads:
/// its descriptors would be closed only when the last thread ends.
///
/// # Errors
/// As dup3(2) says; or /proc does not show the open descriptors.
pub fn replace_descriptors(path: &Path, null: &OwnedFd) -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        // By its name: a file system that does not answer must not be asked about its open files.
        let is_it = fs::read_link(entry.path()).is_ok_and(|found| found == path);
        if let (Some(number), true) = (number, is_it) {
            // SAFETY: the owner of the descriptor still owns one with the same number, and replacing its file touches no memory.
            Errno::result(unsafe { libc::dup3(null.as_raw_fd(), number, libc::O_CLOEXEC) })?;
        }
    }
    Ok(())
}

/// Makes `signal` interrupt the system call of the thread that it is sent to, and do nothing else. See sigaction(2).
pub fn interrupt_by(signal: Signal) {
    extern "C" fn nothing(_: libc::c_int) {}
    // Without SA_RESTART.
    let action = SigAction::new(SigHandler::Handler(nothing), SaFlags::empty(), SigSet::empty());
    // SAFETY: a handler that does nothing may run at any moment. The call fails for no signal that can be handled.
    let _ = unsafe { sigaction(signal, &action) };
}

/// Sends `signal` to a thread of this process, which must not have ended. See tgkill(2).
pub fn signal_thread(thread: Pid, signal: Signal) {
    let (process, thread) = (std::process::id().cast_signed(), thread.as_raw());
    // SAFETY: the call touches no memory. It fails only for a thread that has ended, which needs no signal.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal as libc::c_int) };
}

/// Makes this thread handle the signals that were sent to it before: the next system call is not interrupted by them.
pub fn handle_signals() {
    // The kernel has them handled when a system call ends. This one is short, and none that a library answers by itself.
    // SAFETY: the call touches no memory.
    unsafe { libc::syscall(libc::SYS_gettid) };
}

/// The size of a page of memory. See sysconf(3).
pub fn page_size() -> u32 {
    // SAFETY: sysconf takes any number, and touches no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u32::try_from(size).unwrap_or(4096)
}

fn close_one_by_one(kept: RawFd) -> Result<(), Errno> {
    let open = open_numbers().map_err(|_| Errno::ENOSYS)?;
    for fd in open.into_iter().filter(|&fd| fd >= 3 && fd != kept) {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::process;

    use super::*;

    #[test]
    fn a_revoked_device_reads_like_its_replacement() {
        use std::io::Read;
        let (mut zero, null) = (fs::File::open("/dev/zero").unwrap(), fs::File::open("/dev/null").unwrap());
        let mut byte = [1];
        assert_eq!(zero.read(&mut byte).unwrap(), 1);
        replace_descriptors(Path::new("/dev/zero"), &null.into()).unwrap();
        assert_eq!(zero.read(&mut byte).unwrap(), 0);
    }

    #[test]
    fn a_kernel_thread_is_told_by_its_flags_and_not_by_its_name() {
        let of = |stat: &str| kernel_thread_of_stat(stat.as_bytes()).as_deref() == Some("nfsd");
        assert!(of("1234 (nfsd) S 2 0 0 0 -1 2129984 0 0 0 0 0 12\n"));
        // A program may have any name, with numbers in it too.
        assert!(!of("1234 (nfsd) S 1 1234 1234 0 -1 4194560 0 0\n"));
        assert!(!of("1234 (nfsd) S 2 0 0 0 -1 2129984) S 1 1234 1234 0 -1 4194560 0 0\n"));
        assert!(
            !of("1234 (x (nfsd) S 2 0 0 0 -1 2129984 0 0\n") && !of("1234 (nfsd4) S 2 0 0 0 -1 2129984 0\n")
        );
        assert!(!of("") && !of("1234 (nfsd) "));
        assert_eq!((kernel_thread(process::id()), kernel_thread(0)), (None, None));
        // In the first process namespace the kernel starts its threads by this one.
        if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
            assert_eq!(kernel_thread(2).as_deref(), Some("kthreadd"));
        } else {
            println!("SKIPPED: no threads of the kernel are visible here");
        }
    }

    #[test]
    fn the_paths_of_a_rename_are_read() {
        let place = |text: &CStr| format!("{:#x}", text.as_ptr().addr());
        let (from, to) = (place(c"dir/Name//"), place(c"other"));
        let paths = |arguments: &[&str], places| read_paths(process::id(), arguments, places);
        let both = Some(["dir/Name//".into(), "other".into()]);
        assert_eq!(paths(&[&from, &to, "0x1"], [0, 1]), both);
        assert_eq!(paths(&["0xffffffffffffff9c", &from, "0x3", &to], [1, 3]), both);
        assert_eq!((paths(&["0x1", &to], [0, 1]), paths(&[&from], [0, 1])), (None, None));
        assert_eq!(paths_of_rename(libc::SYS_renameat2), Some([1, 3]));
        assert_eq!([libc::SYS_openat, -1].map(paths_of_rename), [None; 2]);
    }

    #[test]
    fn a_thread_that_sleeps_does_not_rename() {
        let mut child = process::Command::new("sleep").arg("60").spawn().unwrap();
        let said = waiting_call(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        match fs::read_to_string("/proc/self/syscall") {
            Ok(_) => assert_eq!(said, Some(WaitingCall::Other)),
            Err(why) => println!("SKIPPED: /proc does not show system calls here: {why}"),
        }
        assert_eq!(waiting_call(child.id()), None, "it has ended");
    }

    #[test]
    fn a_process_with_threads_does_not_fork() {
        let result = thread::spawn(fork).join().expect("it does not panic");
        assert!(matches!(result, Err(Errno::EDEADLK)), "{result:?}");
    }
}
