//! Entries of directories: lookups, and everything that creates, removes or renames a name. Every name passes the gate before the backing
//! tree is touched.
//!
//! Lookups of `.` and `..` are for file handles: name_to_handle_at(2), and the NFS server of the kernel. The kernel asks by node id for a
//! file whose inode it has forgotten (`.`), and for the directory that contains a directory (`..`), if EXPORT_SUPPORT was agreed on.
//!
//! Sources: fuse_get_dentry and fuse_get_parent of fs/fuse/inode.c; exportfs_decode_fh_raw of fs/exportfs/expfs.c.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use namegate_core::gate::{Admitted, Existing};
use namegate_telemetry::metrics::Op;
use namegate_wire::Reply;
use namegate_wire::abi::CreateIn;
use nix::errno::Errno;

use super::alias::RenameLookups;
use super::request_core::RequestCore;
use super::server::{ConfiguredServer, Result};
use super::spelling::NameHash;
use crate::passthrough::{Caller, Fh, LookupEntry, NewEntry, NodeId};

/// A new entry on its way to another thread.
enum OwnedEntry {
    Plain(NewEntry<'static>),
    Symlink(OsString),
}

impl OwnedEntry {
    fn new(new: NewEntry<'_>) -> Self {
        match new {
            NewEntry::Directory { mode } => Self::Plain(NewEntry::Directory { mode }),
            NewEntry::Node { mode, rdev } => Self::Plain(NewEntry::Node { mode, rdev }),
            NewEntry::Symlink(target) => Self::Symlink(target.to_owned()),
        }
    }

    fn as_new(&self) -> NewEntry<'_> {
        match self {
            Self::Plain(new) => *new,
            Self::Symlink(target) => NewEntry::Symlink(target),
        }
    }
}

fn operation(new: NewEntry<'_>) -> Op {
    match new {
        NewEntry::Directory { .. } => Op::Mkdir,
        NewEntry::Node { .. } => Op::Mknod,
        NewEntry::Symlink(_) => Op::Symlink,
    }
}

impl RequestCore {
    pub(super) fn lookup(self: &Arc<Self>, caller: Caller, parent: NodeId, name: &OsStr, reply: Reply) {
        let (pid, name) = (caller.pid, name.to_owned());
        self.serve(Op::Lookup, &caller, self.weight_of(parent), move |serving| {
            serving.core.readers.looked_up(pid, parent);
            serving.note_missed(pid, false);
            let found = serving.look_up(pid, parent, &name);
            serving.entry(&caller, (parent, &name), found, reply);
        });
    }

    /// Looks a file up by its node id.
    pub(super) fn lookup_again(self: &Arc<Self>, caller: Caller, node: NodeId, reply: Reply) {
        self.serve(Op::Lookup, &caller, self.weight_of(node), move |serving| {
            let found = serving.core.server.tree.lookup_again(node);
            serving.found(found.map_err(Into::into), None, reply);
        });
    }

    /// Looks up the directory that contains the directory `node`.
    pub(super) fn lookup_parent(self: &Arc<Self>, caller: Caller, node: NodeId, reply: Reply) {
        self.serve(Op::Lookup, &caller, self.weight_of(node), move |serving| {
            let found = serving.core.server.tree.lookup_parent(node);
            serving.found(found.map_err(Into::into), None, reply);
        });
    }

    /// Subtracts lookups of nodes, always in this thread: this needs only memory, except for dropping removed nodes.
    pub(super) fn forget(self: &Arc<Self>, nodes: impl Iterator<Item = (NodeId, u64)>) {
        // The kernel sends this request for no user.
        let request = self.begin(Op::Forget, 0, self.weight_of(NodeId::ROOT));
        request.run_in_batch(|serving| nodes.for_each(|(node, lookups)| serving.forget(node, lookups)));
    }

    /// MKDIR, MKNOD and SYMLINK.
    pub(super) fn make(
        self: &Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        new: NewEntry<'_>,
        reply: Reply,
    ) {
        let (op, name, new) = (operation(new), name.to_owned(), OwnedEntry::new(new));
        self.serve(op, &caller, self.weight_of(parent), move |serving| {
            let made = serving.server.make(&caller, parent, &name, new.as_new());
            serving.entry(&caller, (parent, &name), made, reply);
        });
    }

    pub(super) fn link(
        self: &Arc<Self>,
        caller: Caller,
        node: NodeId,
        parent: NodeId,
        name: &OsStr,
        reply: Reply,
    ) {
        let name = name.to_owned();
        self.serve(Op::Link, &caller, self.on_both(node, parent), move |serving| {
            let made = serving.server.link(&caller, node, parent, &name);
            serving.entry(&caller, (parent, &name), made, reply);
        });
    }

    pub(super) fn create(
        self: &Arc<Self>,
        caller: Caller,
        parent: NodeId,
        name: &OsStr,
        arg: &CreateIn,
        reply: Reply,
    ) {
        let (mode, flags, name) = (arg.mode, arg.flags.cast_signed(), name.to_owned());
        self.serve(Op::Create, &caller, self.weight_of(parent), move |serving| {
            let server = &serving.server;
            let make = || server.create(&caller, parent, &name, mode, flags);
            let kept = (!caller.uses_alias).then_some((parent, &*name));
            serving.create(&caller, flags, make, kept, reply);
        });
    }

    /// Creates a file without a name: there is no name to check.
    pub(super) fn tmpfile(self: &Arc<Self>, caller: Caller, parent: NodeId, arg: &CreateIn, reply: Reply) {
        let (mode, flags) = (arg.mode, arg.flags.cast_signed());
        self.serve(Op::Tmpfile, &caller, self.weight_of(parent), move |serving| {
            let tree = &serving.core.server.tree;
            let make = || Ok(tree.tmpfile(&caller, parent, mode, flags)?);
            serving.create(&caller, flags, make, None, reply);
        });
    }

    pub(super) fn unlink(self: &Arc<Self>, caller: Caller, parent: NodeId, name: &OsStr, reply: Reply) {
        if self.lookup_threads.must_look_up_again(caller.pid, (parent, name)) {
            return reply.error(Errno::ESTALE);
        }
        let name = name.to_owned();
        self.serve(Op::Unlink, &caller, self.weight_of(parent), move |serving| {
            serving.empty(serving.server.unlink(serving.user(), parent, &name), reply);
        });
    }

    pub(super) fn rmdir(self: &Arc<Self>, caller: Caller, parent: NodeId, name: &OsStr, reply: Reply) {
        if self.lookup_threads.must_look_up_again(caller.pid, (parent, name)) {
            return reply.error(Errno::ESTALE);
        }
        let name = name.to_owned();
        self.serve(Op::Rmdir, &caller, self.weight_of(parent), move |serving| {
            serving.empty(serving.server.rmdir(serving.user(), parent, &name), reply);
        });
    }

    pub(super) fn rename(
        self: &Arc<Self>,
        caller: Caller,
        (parent, name): (NodeId, &OsStr),
        (new_parent, new_name): (NodeId, &OsStr),
        flags: u32,
        reply: Reply,
    ) {
        let looked_up = self.lookup_threads.of_rename(caller.pid, (parent, name), (new_parent, new_name));
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        self.serve(Op::Rename, &caller, self.on_both(parent, new_parent), move |serving| {
            let (from, to) = ((parent, &*name), (new_parent, &*new_name));
            let again = |names| serving.core.lookup_threads.look_up_again(caller.pid, names);
            // Before: who takes all names after the event of the rename finds it.
            [from, to].into_iter().for_each(|(parent, name)| serving.server.carry_name(parent, name));
            let renamed = serving.server.rename(&caller, from, to, flags, (looked_up, &again));
            serving.empty(renamed, reply);
        });
    }
}

impl ConfiguredServer<'_> {
    pub(super) fn make(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        new: NewEntry<'_>,
    ) -> Result<LookupEntry> {
        if let NewEntry::Symlink(target) = new {
            self.check_target(caller, parent, name, target)?;
        }
        let admitted = self.admit_new(operation(new), caller, parent, name)?;
        self.change(parent, &admitted, |stored| {
            let made = self.tree.make(caller, parent, stored, new)?;
            Ok(LookupEntry { name: self.used_name(stored, name), ..made })
        })
    }

    pub(super) fn link(
        &self,
        caller: &Caller,
        node: NodeId,
        parent: NodeId,
        name: &OsStr,
    ) -> Result<LookupEntry> {
        let admitted = self.admit_new(Op::Link, caller, parent, name)?;
        self.change(parent, &admitted, |stored| {
            let made = self.tree.link(caller, node, parent, stored)?;
            Ok(LookupEntry { name: self.used_name(stored, name), ..made })
        })
    }

    pub(super) fn create(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Result<(LookupEntry, Fh)> {
        let admitted = self.admit_new(Op::Create, caller, parent, name)?;
        self.change(parent, &admitted, |stored| {
            let (made, fh) = self.tree.create(caller, parent, stored, mode, flags)?;
            Ok((LookupEntry { name: self.used_name(stored, name), ..made }, fh))
        })
    }

    pub(super) fn unlink(&self, uid: u32, parent: NodeId, name: &OsStr) -> Result<()> {
        let name = self.admit_existing(parent, name)?;
        self.change(parent, &name, |name| self.tree.unlink(uid, parent, name))
    }

    pub(super) fn rmdir(&self, uid: u32, parent: NodeId, name: &OsStr) -> Result<()> {
        let present = self.admit_existing(parent, name)?;
        let result = self.change(parent, &present, |name| self.tree.rmdir(uid, parent, name));
        if result == Err(Errno::ENOTEMPTY.into()) && self.config.serve.gate.existing() == Existing::Hide {
            // The log explains why a directory that looks empty cannot be removed.
            let shown = name.as_bytes().escape_ascii();
            log::info!("rmdir of `{shown}`: not empty; entries whose names are not UTF-8 are hidden");
        }
        result
    }

    /// Creates or removes an entry of `parent` by `change`, under the name by which it is stored.
    fn change<T>(
        &self,
        parent: NodeId,
        name: &Admitted<'_>,
        change: impl FnOnce(&Admitted<'_>) -> nix::Result<T>,
    ) -> Result<T> {
        Ok(self.tree.change_equivalent(self.config.equivalence.as_ref(), parent, name, change)?)
    }

    /// In an exchange both names exist; otherwise the new name is created. Names that led to
    /// aliases are passed to `again`, and the rename fails with ESTALE.
    pub(super) fn rename(
        &self,
        caller: &Caller,
        (parent, name): (NodeId, &OsStr),
        (new_parent, new_name): (NodeId, &OsStr),
        flags: u32,
        (looked_up, again): (RenameLookups, &dyn Fn([Option<NameHash>; 2])),
    ) -> Result<()> {
        let is_exchange = flags & libc::RENAME_EXCHANGE != 0;
        let leaves_whiteout = flags & libc::RENAME_WHITEOUT != 0;
        if leaves_whiteout {
            // The whiteout is a new entry under the old name.
            self.admit_new(Op::Rename, caller, parent, name)?;
        }
        let admitted = self.admit_existing(parent, name)?;
        let new_admitted = match is_exchange {
            false => self.admit_new(Op::Rename, caller, new_parent, new_name)?,
            true => self.admit_existing(new_parent, new_name)?,
        };
        Ok(self.tree.change_two_equivalent(
            self.config.equivalence.as_ref(),
            (parent, &admitted),
            (new_parent, &new_admitted),
            !is_exchange && !leaves_whiteout,
            |stored, new_stored| {
                let is_one = parent == new_parent && stored.key() == new_stored.key();
                // A rename to another spelling of its own needs the alias of that.
                let aliases = [looked_up.from_alias, looked_up.to_alias.filter(|_| !is_one)];
                again(aliases);
                // An entry brings the timeout of its old name to the new one.
                let is_unsafe = self.is_uncached(new_parent, new_stored, new_name)
                    || is_exchange && self.is_uncached(parent, stored, name);
                let is_delayed = is_unsafe
                    && (self.uncache(parent, stored) | (is_exchange && self.uncache(new_parent, new_stored)));
                if is_delayed || looked_up.may_be_cached && is_one || aliases != [None, None] {
                    return Err(Errno::ESTALE);
                }
                if leaves_whiteout {
                    self.check_stored(stored)?;
                }
                self.tree.rename(caller, parent, stored, new_parent, new_stored, flags)
            },
        )?)
    }
}
