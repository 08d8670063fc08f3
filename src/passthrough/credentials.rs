//! Acting for a caller: the ids, groups, capabilities and umask of one thread, by guards that undo themselves.
//!
//! While a thread acts for nobody it is root to the file system, without CAP_SYS_RESOURCE. `setfsuid` to another user drops
//! CAP_FSETID and the other capabilities that override file permissions, and `setfsuid` back to root restores them: acting for
//! a user needs no capset(2). A change of ids costs about as much as a small write, so the group, which means nothing while
//! the thread is root, stays as it is until a caller with another group comes.
//!
//! Sources: credentials(7), setfsuid(2), umask(2), unshare(2) for CLONE_FS, capabilities(7), "Effect of user ID changes on
//! capabilities".

use std::cell::Cell;
use std::marker::PhantomData;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};

use super::{Passthrough, Result};
use crate::sys::capability::{CapabilitySet, CapabilitySets};
use crate::sys::identity::{self, set_thread_groups};

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

/// Capabilities by their numbers in linux/capability.h.
pub(super) const FSETID: CapabilitySet = CapabilitySet::from_numbers(&[4]);
/// CAP_SETGID and CAP_SETUID.
const SWITCHING: CapabilitySet = CapabilitySet::from_numbers(&[6, 7]);
const SYS_RESOURCE: CapabilitySet = CapabilitySet::from_numbers(&[24]);
/// CAP_FS_SET of the kernel: what a change of the file system's user id from root drops, and one back to root restores.
pub(super) const OF_FILES: CapabilitySet = CapabilitySet::from_numbers(&[0, 1, 2, 3, 4, 9, 27, 32]);
/// CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER.
const ANY_FILE: CapabilitySet = CapabilitySet::from_numbers(&[1, 2, 3]);
const NONE: CapabilitySet = CapabilitySet::from_numbers(&[]);

/// The user who owns nothing and whom no reserve is for. Not root, whose id alone opens the reserve of ext4
/// (`ext4_has_free_clusters`).
const NOBODY: Uid = Uid::from_raw(65534);

/// A thread that serves requests, as it is while it acts for nobody.
#[derive(Clone, Copy)]
pub(super) struct RequestThread {
    own: CapabilitySets,
    /// Whether it may take on ids of others.
    switches: bool,
    /// The group id for the file system, as the last caller left it.
    fsgid: Gid,
}

thread_local!(static THREAD: Cell<Option<RequestThread>> = const { Cell::new(None) });

impl RequestThread {
    /// This thread. The first time it gives up what no request may have: CAP_SYS_RESOURCE, with which a write ignores quotas
    /// and takes reserved blocks, and the groups of whoever started the server.
    pub(super) fn current() -> Result<Self> {
        if let Some(thread) = THREAD.get() {
            return Ok(thread);
        }
        let mut own = CapabilitySets::of_thread()?;
        if own.effective.0 & SYS_RESOURCE.0 != 0 {
            own.effective.0 &= !SYS_RESOURCE.0;
            own.apply()?;
        }
        let switches = own.effective.contains(SWITCHING);
        if switches {
            set_thread_groups(&[])?;
        }
        let thread = Self { own, switches, fsgid: current_fsgid() };
        THREAD.set(Some(thread));
        Ok(thread)
    }

    pub(super) fn switches(&self) -> bool {
        self.switches
    }
}

fn current_fsgid() -> Gid {
    // No id: the call changes nothing and returns what there is (setfsgid(2)).
    setfsgid(Gid::from_raw(u32::MAX))
}

fn current_fsuid() -> Uid {
    setfsuid(Uid::from_raw(u32::MAX))
}

/// As long as it lives, this thread acts for somebody.
pub(super) struct Acting {
    thread: RequestThread,
    uid: Uid,
    recapped: bool,
    regrouped: bool,
    // What it changes belongs to the thread that made it.
    _not_send: PhantomData<*const ()>,
}

/// Whom a thread acts for.
#[derive(Clone, Copy)]
pub(super) struct CallerIdentity<'g> {
    uid: Uid,
    /// `None` to leave it as it is, where no outcome depends on it.
    gid: Option<Gid>,
    /// Supplementary groups; `None` for those of the thread, which has none.
    groups: Option<&'g [Gid]>,
    /// Which of [`OF_FILES`] it has.
    rights: CapabilitySet,
}

impl<'g> CallerIdentity<'g> {
    /// The user and the group of a caller, with the rights that the user id gives.
    pub(super) fn for_caller(caller: &Caller) -> Self {
        let uid = Uid::from_raw(caller.uid);
        let rights = if uid.is_root() { OF_FILES } else { NONE };
        Self { uid, gid: Some(Gid::from_raw(caller.gid)), groups: None, rights }
    }

    pub(super) fn with_groups(self, groups: &'g [Gid]) -> Self {
        Self { groups: Some(groups), ..self }
    }

    pub(super) fn with_rights(self, rights: CapabilitySet) -> Self {
        Self { rights, ..self }
    }
}

impl Acting {
    pub(super) fn new(identity: CallerIdentity<'_>) -> Result<Self> {
        let thread = RequestThread::current()?;
        let CallerIdentity { uid, gid, groups, rights } = identity;
        let is_other = |id: u32| id == u32::MAX;
        if is_other(uid.as_raw()) || gid.is_some_and(|gid| is_other(gid.as_raw())) {
            // A request that the kernel sends for nobody that this server could know.
            return Err(Errno::EPERM);
        }
        if !thread.switches && (!uid.is_root() || gid.is_some_and(|gid| gid != thread.fsgid)) {
            return Err(Errno::EPERM);
        }
        // From here on every way out goes through drop.
        let mut acting = Self { thread, uid, recapped: false, regrouped: false, _not_send: PhantomData };
        if let Some(groups) = groups.filter(|_| thread.switches) {
            set_thread_groups(groups)?;
            acting.regrouped = true;
        }
        // Both calls return the former id whether they did anything or not: the id that is in effect has to be read.
        if let Some(gid) = gid.filter(|&gid| gid != thread.fsgid) {
            setfsgid(gid);
            acting.thread.fsgid = current_fsgid();
            THREAD.set(Some(acting.thread));
            if acting.thread.fsgid != gid {
                return Err(Errno::EPERM);
            }
        }
        if !uid.is_root() {
            setfsuid(uid);
            if current_fsuid() != uid {
                return Err(Errno::EPERM);
            }
        }
        let by_itself = if uid.is_root() { OF_FILES } else { NONE };
        if rights != by_itself {
            let mut sets = thread.own;
            sets.effective.0 &= !OF_FILES.0 | rights.0;
            sets.apply()?;
            acting.recapped = true;
        }
        Ok(acting)
    }

    /// For the kernel's own reads and writes of a file that anybody may have opened: nobody, with no rights to override
    /// anything.
    pub(super) fn nobody() -> Result<Self> {
        // The group that no reserve is for (`ext4_has_free_clusters` leaves root's out).
        Self::new(CallerIdentity { uid: NOBODY, gid: Some(Gid::from_raw(0)), groups: None, rights: NONE })
    }

    /// For root, without the right to keep set-id bits.
    pub(super) fn without_fsetid() -> Result<Self> {
        let rights = CapabilitySet(OF_FILES.0 & !FSETID.0);
        Self::new(CallerIdentity { uid: Uid::from_raw(0), gid: None, groups: None, rights })
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if !self.uid.is_root() {
            // The effective user is root all the time, so that the way back is always open. What belongs to files comes back
            // with it.
            setfsuid(Uid::from_raw(0));
        } else if self.recapped && self.thread.own.apply().is_err() {
            unreachable!("what a thread is permitted it can let work again");
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

fn is_refusal<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Errno::EACCES | Errno::EPERM))
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
        take_umask(caller.umask)?;
        if !self.acts_for_others {
            return create();
        }
        let identity = CallerIdentity::for_caller(caller);
        let may_need_groups = caller.uid != 0 && caller.pid != 0;
        if !(may_need_groups && groups_matter) {
            let result = {
                let _acting = Acting::new(identity)?;
                create()
            };
            if !(may_need_groups && is_refusal(&result)) {
                return result;
            }
        }
        let groups = identity::status(caller.pid).groups;
        let _acting = Acting::new(identity.with_groups(&groups))?;
        create()
    }

    /// Runs `change`, which the kernel has allowed already, so that what it allocates and creates is the caller's.
    ///
    /// It is tried with the caller's own rights first. Where they do not suffice (the right is that of a supplementary group,
    /// or of a capability) the thread is the caller with the rights to any file. A file system on another machine may not
    /// know of those: there it is tried as root at last.
    pub(super) fn charged_to<T>(&self, caller: &Caller, change: impl Fn() -> Result<T>) -> Result<T> {
        if !self.acts_for_others || !RequestThread::current()?.switches {
            return change();
        }
        let identity = CallerIdentity::for_caller(caller);
        if caller.uid == 0 {
            let _acting = Acting::new(identity)?;
            return change();
        }
        for rights in [NONE, ANY_FILE] {
            let result = {
                let _acting = Acting::new(identity.with_rights(rights))?;
                change()
            };
            if !is_refusal(&result) {
                return result;
            }
        }
        let _acting = Acting::without_fsetid()?;
        change()
    }
}
