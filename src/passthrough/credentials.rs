//! Acting for a caller: ids, groups and umask of one thread, and what it may keep of set-id bits, by guards that undo
//! themselves.
//!
//! Sources: credentials(7), setfsuid(2), umask(2), unshare(2) for CLONE_FS, capabilities(7) for CAP_FSETID.

use std::cell::Cell;
use std::fs;
use std::marker::PhantomData;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, getegid, setfsgid, setfsuid};

use super::{Passthrough, Result};
use crate::sys::identity::{set_fsetid, set_thread_groups};

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
        take_umask(caller.umask)?;
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
    }
}

/// Gives this thread that umask, and it keeps it: nothing is created but for a caller, and callers hardly ever differ.
fn take_umask(mask: u32) -> Result<()> {
    // Threads share theirs at first.
    thread_local!(static OWN: Cell<Option<u32>> = const { Cell::new(None) });
    if OWN.get().is_none() {
        unshare(CloneFlags::CLONE_FS)?;
    }
    if OWN.get() != Some(mask) {
        umask(Mode::from_bits_truncate(mask));
        OWN.set(Some(mask));
    }
    Ok(())
}

/// As long as it lives, what this thread changes loses its set-id bits, as when a user without rights changes it.
pub(super) struct ClearingSetId {
    was_keeping: bool,
    _not_send: PhantomData<*const ()>,
}

impl ClearingSetId {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { was_keeping: set_fsetid(false)?, _not_send: PhantomData })
    }
}

impl Drop for ClearingSetId {
    fn drop(&mut self) {
        if self.was_keeping && set_fsetid(true).is_err() {
            unreachable!("what a thread is permitted it can let work again");
        }
    }
}

/// What becomes of the set-id bits of a file whose content is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetId {
    /// They stay, as where root changes it.
    Kept,
    /// They go, as where anybody else does.
    Cleared,
}

impl SetId {
    /// Changes content accordingly.
    pub(super) fn changing<T>(self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let _clearing = match self {
            Self::Kept => None,
            Self::Cleared => Some(ClearingSetId::new()?),
        };
        change()
    }
}

impl Caller {
    /// What becomes of set-id bits when this caller changes content. CAP_FSETID decides; requests tell ids alone, and root
    /// has it.
    pub fn set_id(&self) -> SetId {
        if self.uid == 0 { SetId::Kept } else { SetId::Cleared }
    }
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
