//! Acting for a caller: ids, groups and umask of one thread, by a guard that undoes itself.
//!
//! Sources: credentials(7), setfsuid(2), umask(2), unshare(2) for CLONE_FS.

use std::cell::Cell;
use std::fs;
use std::marker::PhantomData;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, getegid, setfsgid, setfsuid};

use super::{Passthrough, Result};
use crate::sys::identity::set_thread_groups;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id for the file system.
    pub uid: u32,
    /// Group id for the file system.
    pub gid: u32,
    /// The asking thread, or 0 if it is not to be seen from here.
    pub pid: u32,
    /// What is taken from the mode of what is created, unless a default ACL decides.
    pub umask: u32,
}

/// As long as it lives, this thread acts for a caller.
struct Acting {
    switched: bool,
    regrouped: bool,
    // What it changes belongs to the thread that made it.
    _not_send: PhantomData<*const ()>,
}

impl Acting {
    /// For `caller`; with `groups` as supplementary groups, or with those that the thread has.
    fn new(caller: &Caller, acts_for_others: bool, groups: Option<&[Gid]>) -> Result<Self> {
        own_umask()?;
        umask(Mode::from_bits_truncate(caller.umask));
        let (uid, gid) = (Uid::from_raw(caller.uid), Gid::from_raw(caller.gid));
        let mut acting = Self { switched: false, regrouped: false, _not_send: PhantomData };
        if !acts_for_others || (uid.is_root() && gid == getegid()) {
            return Ok(acting);
        }
        if let Some(groups) = groups {
            set_thread_groups(groups)?;
            acting.regrouped = true;
        }
        // From here on every way out goes through drop.
        acting.switched = true;
        setfsgid(gid);
        setfsuid(uid);
        // Both calls return the former id whether they did anything or not: what is there now has to be asked for. An
        // id that does not exist changes nothing (setfsuid(2)).
        if setfsgid(Gid::from_raw(u32::MAX)) != gid || setfsuid(Uid::from_raw(u32::MAX)) != uid {
            return Err(Errno::EPERM);
        }
        Ok(acting)
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if self.switched {
            // The effective user is root all the time, so that the way back is always open.
            setfsuid(Uid::from_raw(0));
            setfsgid(getegid());
        }
        if self.regrouped && set_thread_groups(&[]).is_err() {
            // Without CAP_SETGID there would have been no way to here.
            unreachable!("a thread that could set its groups can clear them");
        }
        umask(Mode::empty());
    }
}

/// Makes the umask this thread's own; threads share it at first.
fn own_umask() -> Result<()> {
    thread_local!(static IS_OWN: Cell<bool> = const { Cell::new(false) });
    if !IS_OWN.get() {
        unshare(CloneFlags::CLONE_FS)?;
        IS_OWN.set(true);
    }
    Ok(())
}

/// The supplementary groups of a thread, by proc_pid_status(5); none if it is gone or out of sight.
fn groups_of(pid: u32) -> Vec<Gid> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|id| id.parse().ok()).map(Gid::from_raw).collect()
}

impl Passthrough {
    /// Runs `create` under the ids and the umask of `caller`.
    ///
    /// A caller's supplementary groups cost more than the creation itself, so they are taken on only where the outcome
    /// hangs on them: when `groups_matter`, or when it was refused without them.
    pub(super) fn as_caller<T>(
        &self,
        caller: &Caller,
        groups_matter: bool,
        create: impl Fn() -> Result<T>,
    ) -> Result<T> {
        let may_need_groups = self.acts_for_others && caller.uid != 0 && caller.pid != 0;
        if !(may_need_groups && groups_matter) {
            let result = {
                let _acting = Acting::new(caller, self.acts_for_others, None)?;
                create()
            };
            match result {
                Err(Errno::EACCES | Errno::EPERM) if may_need_groups => {}
                result => return result,
            }
        }
        let groups = groups_of(caller.pid);
        let _acting = Acting::new(caller, self.acts_for_others, Some(&groups))?;
        create()
    }
}
