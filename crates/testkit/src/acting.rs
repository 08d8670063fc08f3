//! Acting as another user.

use std::thread;

use namegate_sys::identity::set_thread_groups;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};

/// Runs `work` in a thread with the file system ids of this user.
pub fn act_as<T: Send>(uid: u32, gid: u32, groups: &[u32], mask: u32, work: impl FnOnce() -> T + Send) -> T {
    let groups: Vec<Gid> = groups.iter().copied().map(Gid::from_raw).collect();
    thread::scope(|scope| {
        let acting = scope.spawn(move || {
            unshare(CloneFlags::CLONE_FS).unwrap();
            umask(Mode::from_bits_truncate(mask));
            set_thread_groups(&groups).unwrap();
            setfsgid(Gid::from_raw(gid));
            setfsuid(Uid::from_raw(uid));
            work()
        });
        acting.join().unwrap()
    })
}
