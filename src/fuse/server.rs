//! What is done for a request: the gate for every name, then the backing tree.
//!
//! Only the operations that name something, or that show names, stand here; the others have nothing to decide, and the
//! adapter calls the backing tree for them.

use std::ffi::OsStr;
use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use nix::errno::Errno;

use super::Failure;
use super::spelling::Leaving;
use crate::gate::{Admitted, Existing, Gate, Intent};
use crate::passthrough::{Caller, DirEntry, Entry, Fh, NodeId, Passthrough, Room};

/// What an operation gives, or why not.
pub(super) type Result<T> = std::result::Result<T, Failure>;

/// A backing tree behind a gate.
#[derive(Debug)]
pub struct Server {
    pub(super) tree: Passthrough,
    gate: Gate,
    for_violations: Errno,
    leaving: Leaving,
}

impl Server {
    /// `tree` behind `gate`; a name that breaks the policy is refused with `for_violations`.
    pub fn new(tree: Passthrough, gate: Gate, for_violations: Errno) -> Self {
        let tree = if gate.knows_spellings() { tree.spelt_by(Arc::new(gate.clone())) } else { tree };
        Self { tree, gate, for_violations, leaving: Leaving::default() }
    }

    /// Whether the kernel may take for granted for a while that `name` in `parent` is what it was told.
    pub(super) fn may_be_kept(&self, parent: NodeId, name: &OsStr) -> bool {
        !self.gate.has_other_spellings(name) && !self.leaving.contains(parent, name)
    }

    pub(super) fn errno(&self, failure: Failure) -> Errno {
        failure.errno(self.for_violations)
    }

    /// A name that is to come into being by `operation`.
    fn new_name<'n>(&self, operation: &str, caller: &Caller, name: &'n OsStr) -> Result<Admitted<'n>> {
        let say = |what: &str, why: &dyn fmt::Display, span: Range<usize>| {
            // Names are an attacker's: nothing of them but printable ASCII reaches a log.
            let (Caller { uid, pid, .. }, shown) = (caller, name.as_bytes().escape_ascii());
            let Range { start, end } = span;
            log::info!(
                "{what}: {operation} of `{shown}` by uid {uid}, pid {pid}: {why} at bytes {start}..{end}"
            );
        };
        match self.gate.admit(Intent::Create, name) {
            Ok(admitted) => {
                if let Some(violation) = admitted.noted() {
                    say("let through", &violation.rule, violation.span.start..violation.span.end);
                }
                Ok(admitted)
            }
            Err(refusal) => {
                let span = refusal.span();
                match refusal.rule() {
                    Some(rule) => say("refused", &rule, span.start..span.end),
                    None => say("refused", &"the escape of another name", span.start..span.end),
                }
                Err(refusal.into())
            }
        }
    }

    /// A name that is only named.
    fn present_name<'n>(&self, parent: NodeId, name: &'n OsStr) -> Result<Admitted<'n>> {
        if self.gate.is_shortened(name) {
            return self.shortened_name(parent, name);
        }
        Ok(self.gate.admit(Intent::Address, name)?)
    }

    /// A name whose escape was too long to be shown: only the directory knows which one it is.
    fn shortened_name(&self, parent: NodeId, name: &OsStr) -> Result<Admitted<'static>> {
        let fh = self.tree.opendir(parent)?;
        let mut found = None;
        let read = self.tree.readdir(fh, 0, |entry| match self.gate.show(entry.name) {
            Some(shown) if shown.name == name => {
                found = Some(shown.admitted.into_owned());
                Room::None
            }
            _ => Room::Left,
        });
        self.tree.releasedir(fh);
        read?;
        found.ok_or(Failure::Backing(Errno::ENOENT))
    }

    pub(super) fn do_lookup(&self, parent: NodeId, name: &OsStr) -> Result<Entry> {
        Ok(self.tree.lookup_spelt(parent, &self.present_name(parent, name)?)?)
    }

    pub(super) fn do_mkdir(&self, caller: &Caller, parent: NodeId, name: &OsStr, mode: u32) -> Result<Entry> {
        let name = self.new_name("mkdir", caller, name)?;
        Ok(self.tree.change_spelt(parent, &name, |name| self.tree.mkdir(caller, parent, name, mode))?)
    }

    pub(super) fn do_mknod(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        mode: u32,
        rdev: u32,
    ) -> Result<Entry> {
        let name = self.new_name("mknod", caller, name)?;
        Ok(self.tree.change_spelt(parent, &name, |name| self.tree.mknod(caller, parent, name, mode, rdev))?)
    }

    /// The target is content, and is not judged.
    pub(super) fn do_symlink(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        target: &OsStr,
    ) -> Result<Entry> {
        let name = self.new_name("symlink", caller, name)?;
        Ok(self.tree.change_spelt(parent, &name, |name| self.tree.symlink(caller, parent, name, target))?)
    }

    pub(super) fn do_link(
        &self,
        caller: &Caller,
        node: NodeId,
        parent: NodeId,
        name: &OsStr,
    ) -> Result<Entry> {
        let name = self.new_name("link", caller, name)?;
        Ok(self.tree.change_spelt(parent, &name, |name| self.tree.link(node, parent, name))?)
    }

    pub(super) fn do_create(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        mode: u32,
        flags: i32,
    ) -> Result<(Entry, Fh)> {
        let name = self.new_name("create", caller, name)?;
        let create = |name: &Admitted<'_>| self.tree.create(caller, parent, name, mode, flags);
        Ok(self.tree.change_spelt(parent, &name, create)?)
    }

    pub(super) fn do_unlink(&self, parent: NodeId, name: &OsStr) -> Result<()> {
        let name = self.present_name(parent, name)?;
        Ok(self.tree.change_spelt(parent, &name, |name| self.tree.unlink(parent, name))?)
    }

    pub(super) fn do_rmdir(&self, parent: NodeId, name: &OsStr) -> Result<()> {
        let present = self.present_name(parent, name)?;
        let result = self.tree.change_spelt(parent, &present, |name| self.tree.rmdir(parent, name));
        if result == Err(Errno::ENOTEMPTY) && self.gate.existing() == Existing::Hide {
            // Somebody who sees an empty directory and cannot remove it should find out why.
            let shown = name.as_bytes().escape_ascii();
            log::info!("rmdir of `{shown}`: not empty; entries whose names are not UTF-8 are hidden");
        }
        Ok(result?)
    }

    /// Both names exist when two entries are exchanged; otherwise the new one comes into being.
    pub(super) fn do_rename(
        &self,
        caller: &Caller,
        (parent, name): (NodeId, &OsStr),
        (new_parent, new_name): (NodeId, &OsStr),
        flags: u32,
    ) -> Result<()> {
        if self.gate.knows_spellings() {
            self.let_go((parent, name), (new_parent, new_name), flags)?;
        }
        let name = self.present_name(parent, name)?;
        let new_name = match flags & libc::RENAME_EXCHANGE {
            0 => self.new_name("rename", caller, new_name)?,
            _ => self.present_name(new_parent, new_name)?,
        };
        Ok(self.tree.change_two_spelt((parent, &name), (new_parent, &new_name), |name, new_name| {
            self.tree.rename(parent, name, new_parent, new_name, flags)
        })?)
    }

    /// Before an entry moves from a name that the kernel may keep to one that it must not: see [`Leaving`].
    ///
    /// # Errors
    /// ESTALE, upon which the kernel asks for the names anew and then for the rename once more.
    fn let_go(&self, from: (NodeId, &OsStr), to: (NodeId, &OsStr), flags: u32) -> Result<()> {
        let is_known = |(_, name): (NodeId, &OsStr)| self.gate.has_other_spellings(name);
        let is_exchange = flags & libc::RENAME_EXCHANGE != 0;
        let leaving = match (is_known(from), is_known(to)) {
            (false, true) => from,
            (true, false) if is_exchange => to,
            _ => return Ok(()),
        };
        match self.leaving.let_go(leaving) {
            true => Ok(()),
            false => Err(Errno::ESTALE.into()),
        }
    }

    /// Hands on the entries that are seen through the gate, with the names under which they are seen; `.` and `..` without
    /// an admitted name.
    pub(super) fn do_readdir(
        &self,
        fh: Fh,
        offset: u64,
        mut take: impl FnMut(&DirEntry<'_>, Option<&Admitted<'_>>) -> Room,
    ) -> Result<()> {
        Ok(self.tree.readdir(fh, offset, |entry| match entry.name.as_bytes() {
            b"." | b".." => take(entry, None),
            _ => match self.gate.show(entry.name) {
                Some(shown) => take(&DirEntry { name: &shown.name, ..*entry }, Some(&shown.admitted)),
                None => Room::Left,
            },
        })?)
    }
}

#[cfg(test)]
mod tests;
