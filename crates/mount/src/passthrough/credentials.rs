//! Acts for a caller: sets the ids, groups, capabilities and umask of one thread, with guards that restore them.
//!
//! A thread that acts for no caller has the file system rights of root, without CAP_SYS_RESOURCE. `setfsuid` to another user
//! drops CAP_FSETID and the capabilities that override file permissions, and `setfsuid` back to root restores them. So acting
//! for a user needs no capset(2). A change of ids costs about as much as a small write. The group does not matter while the
//! thread is root, so it stays until a caller with another group comes.
//!
//! Sources: credentials(7), setfsuid(2), umask(2), unshare(2) for CLONE_FS, capabilities(7), "Effect of user ID changes on
//! capabilities".

use std::cell::Cell;
use std::marker::PhantomData;

use namegate_sys::capability::{CapabilitySet, CapabilitySets};
use namegate_sys::identity::{self, set_thread_groups};
use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, setfsgid, setfsuid};

use super::{Passthrough, Result};

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User id for the file system.
    pub uid: u32,
    /// Group id for the file system.
    pub gid: u32,
    /// The thread id of the client, or 0 if it is not visible from here.
    pub pid: u32,
    /// For an operation that creates a file: the group of the directory, if the request says that it is one of the caller's
    /// supplementary groups.
    pub group: Option<u32>,
    /// The bits removed from the mode of a new file, unless the directory has a default ACL.
    pub umask: u32,
    /// Whether it uses an alias of the node, in which the kernel must not cache names.
    pub uses_alias: bool,
}

impl Caller {
    /// The client of a request with these ids.
    ///
    /// Where idmapped mounts are allowed, only requests that create a file have ids, and those are the owner of the new file: see
    /// `fuse_get_req` in fs/fuse/dev.c. /proc has the ids of the process then, as processes on the host see them. A client that is not
    /// visible from here counts as nobody.
    pub fn of_request((uid, gid): (u32, u32), pid: u32, group: Option<u32>) -> Self {
        let (uid, gid) = match uid {
            u32::MAX => identity::status(pid).ids.unwrap_or((NOBODY.as_raw(), NOBODY.as_raw())),
            _ => (uid, gid),
        };
        Self { uid, gid, pid, group, umask: 0, uses_alias: false }
    }
}

/// Capabilities by their numbers in linux/capability.h.
pub(super) const FSETID: CapabilitySet = CapabilitySet::from_numbers(&[4]);
/// CAP_SETGID and CAP_SETUID.
const SWITCHING: CapabilitySet = CapabilitySet::from_numbers(&[6, 7]);
const SYS_RESOURCE: CapabilitySet = CapabilitySet::from_numbers(&[24]);
/// CAP_FS_SET of the kernel: dropped when the file system user id changes from root, and restored when it changes back.
pub(super) const OF_FILES: CapabilitySet = CapabilitySet::from_numbers(&[0, 1, 2, 3, 4, 9, 27, 32]);
/// CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER.
const ANY_FILE: CapabilitySet = CapabilitySet::from_numbers(&[1, 2, 3]);
const NONE: CapabilitySet = CapabilitySet::from_numbers(&[]);

/// A user who owns no files and has no reserved blocks. Not root: the user id alone would open the reserve of ext4
/// (`ext4_has_free_clusters`).
const NOBODY: Uid = Uid::from_raw(65534);

/// A thread that serves requests, in its state while it acts for no caller.
#[derive(Clone, Copy)]
pub(super) struct RequestThread {
    own: CapabilitySets,
    /// Whether the thread may take ids of other users.
    switches: bool,
    /// The file system group id, as the last caller left it.
    fsgid: Gid,
}

thread_local!(static THREAD: Cell<Option<RequestThread>> = const { Cell::new(None) });

impl RequestThread {
    /// The state of this thread. The first call gives up what no request may use: CAP_SYS_RESOURCE, with which a write
    /// ignores quotas and uses reserved blocks, and the groups of the user who started the server.
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
    // An invalid id: the call changes nothing and returns the current id (setfsgid(2)).
    setfsgid(Gid::from_raw(u32::MAX))
}

fn current_fsuid() -> Uid {
    setfsuid(Uid::from_raw(u32::MAX))
}

/// While this exists, the thread acts for a caller.
pub(super) struct Acting {
    thread: RequestThread,
    uid: Uid,
    recapped: bool,
    regrouped: bool,
    // It changes the thread that has created it.
    _not_send: PhantomData<*const ()>,
}

/// The identity that a thread takes to act for a caller.
#[derive(Clone, Copy)]
pub(super) struct CallerIdentity<'g> {
    uid: Uid,
    /// `None` to keep the current group where it has no effect.
    gid: Option<Gid>,
    /// Supplementary groups; `None` for those of the thread, which has none.
    groups: Option<&'g [Gid]>,
    /// The capabilities of [`OF_FILES`] that it has.
    rights: CapabilitySet,
}

impl<'g> CallerIdentity<'g> {
    /// The user and group of a caller, with the rights that the user id implies.
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
            // The kernel sends these ids if the client has none that the server could know.
            return Err(Errno::EPERM);
        }
        if !thread.switches && (!uid.is_root() || gid.is_some_and(|gid| gid != thread.fsgid)) {
            return Err(Errno::EPERM);
        }
        // From here on, drop restores the thread on every return.
        let mut acting = Self { thread, uid, recapped: false, regrouped: false, _not_send: PhantomData };
        if let Some(groups) = groups.filter(|_| thread.switches) {
            set_thread_groups(groups)?;
            acting.regrouped = true;
        }
        // Both calls return the former id whether they succeed or not, so the id in effect must be read.
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

    /// For reads and writes by the kernel of a file that any client may have opened: nobody, without rights to override
    /// permissions.
    pub(super) fn nobody() -> Result<Self> {
        // This group has no reserved blocks (`ext4_has_free_clusters` excludes the group of root).
        Self::new(CallerIdentity { uid: NOBODY, gid: Some(Gid::from_raw(0)), groups: None, rights: NONE })
    }

    /// Root, without the right to keep set-id bits.
    pub(super) fn without_fsetid() -> Result<Self> {
        let rights = CapabilitySet(OF_FILES.0 & !FSETID.0);
        Self::new(CallerIdentity { uid: Uid::from_raw(0), gid: None, groups: None, rights })
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        if !self.uid.is_root() {
            // The effective user is always root, so this cannot fail. It also restores the capabilities for files.
            setfsuid(Uid::from_raw(0));
        } else if self.recapped && self.thread.own.apply().is_err() {
            unreachable!("what a thread is permitted it can let work again");
        }
        if self.regrouped && set_thread_groups(&[]).is_err() {
            // Without CAP_SETGID the groups would not have been set.
            unreachable!("a thread that could set its groups can clear them");
        }
    }
}

/// Sets the umask of this thread and keeps it: only callers create files, and their umasks rarely differ.
fn take_umask(mask: u32) -> Result<()> {
    // Threads share one umask by default.
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
    /// Setting a caller's supplementary groups costs more than the creation itself, so they are set only if they can change
    /// the result: if `groups_matter`, or if the creation was refused without them. The group of the directory is tried
    /// first, if the request has it. The groups in /proc are tried last: only an ACL for another group needs them.
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
        let create_with = |groups: &[Gid]| {
            let identity = if groups.is_empty() { identity } else { identity.with_groups(groups) };
            let _acting = Acting::new(identity)?;
            create()
        };
        let group = caller.group.filter(|_| caller.uid != 0).map(Gid::from_raw);
        let may_ask = caller.uid != 0 && caller.pid != 0;
        if !groups_matter || (group.is_none() && !may_ask) {
            let result = create_with(&[]);
            if !is_refusal(&result) || (group.is_none() && !may_ask) {
                return result;
            }
        }
        if group.is_some() {
            let result = create_with(group.as_slice());
            if !is_refusal(&result) || !may_ask {
                return result;
            }
        }
        let result = create_with(&identity::status(caller.pid).groups);
        if is_refusal(&result) && self.has_idmap() {
            // The kernel has allowed it by groups that are other ones in the source, and has decided about ownership.
            let _acting = Acting::new(identity.with_rights(ANY_FILE))?;
            return create();
        }
        result
    }

    /// Runs `change`, which the kernel has already allowed, so that allocated blocks and created files belong to the caller.
    ///
    /// It is first tried with the caller's own rights. If they do not suffice (the permission comes from a supplementary
    /// group or a capability), it is tried as the caller with the rights to any file. A network file system may not know
    /// those rights, so it is tried as root last.
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
