//! What is done for a request: the gate for every name, then the backing tree.
//!
//! Only the operations that name something, or that show names, stand here; the others have nothing to decide, and the
//! adapter calls the backing tree for them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::SystemTime;

use nix::errno::Errno;

use super::Failure;
use super::spelling::Leaving;
use crate::daemon::audit::{Asker, Audit, Outcome, Record};
use crate::daemon::metrics::{Metrics, Op};
use crate::gate::{Admitted, Existing, Gate, Intent};
use crate::name::Span;
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
    audit: Option<Audit>,
    metrics: Option<Arc<Metrics>>,
    checks_targets: bool,
}

/// A name that is to come into being.
struct Attempt<'a> {
    operation: Op,
    caller: &'a Caller,
    parent: NodeId,
    name: &'a OsStr,
    /// Where a symbolic link with that name leads, if it is this that is judged.
    target: Option<&'a OsStr>,
}

impl Server {
    /// `tree` behind `gate`; a name that breaks the policy is refused with `for_violations`.
    pub fn new(tree: Passthrough, gate: Gate, for_violations: Errno) -> Self {
        let tree = if gate.knows_spellings() { tree.spelt_by(Arc::new(gate.clone())) } else { tree };
        let leaving = Leaving::default();
        Self { tree, gate, for_violations, leaving, audit: None, metrics: None, checks_targets: false }
    }

    /// Whether the kernel may take for granted for a while that `name` in `parent` is what it was told.
    pub(super) fn may_be_kept(&self, parent: NodeId, name: &OsStr) -> bool {
        !self.gate.has_other_spellings(name) && !self.leaving.contains(parent, name)
    }

    /// The same, with a record for every name that is refused, or let through against the policy.
    #[must_use]
    pub fn with_audit(self, audit: Audit) -> Self {
        Self { audit: Some(audit), ..self }
    }

    /// Goes on in a new file where the old one was moved away: see [`Audit::reopen`].
    pub fn reopen_audit(&self) {
        self.audit.iter().for_each(Audit::reopen);
    }

    /// The same; what is refused or let through is counted there too.
    #[must_use]
    pub fn with_metrics(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// The same; the components of the targets of new symbolic links have to pass the gate too if `checks_targets`.
    #[must_use]
    pub fn with_target_checks(self, checks_targets: bool) -> Self {
        Self { checks_targets, ..self }
    }

    pub(super) fn errno(&self, failure: Failure) -> Errno {
        failure.errno(self.for_violations)
    }

    /// A name that is to come into being by `operation` in `parent`.
    fn new_name<'n>(
        &self,
        operation: Op,
        caller: &Caller,
        parent: NodeId,
        name: &'n OsStr,
    ) -> Result<Admitted<'n>> {
        self.admit(&Attempt { operation, caller, parent, name, target: None }, name, 0)
    }

    /// Lets `part` come in, which begins at byte `at` of what is attempted.
    fn admit<'n>(&self, attempt: &Attempt<'_>, part: &'n OsStr, at: usize) -> Result<Admitted<'n>> {
        let admitted = self.gate.admit(Intent::Create, part);
        let (outcome, rule, span) = match (&admitted, admitted.as_ref().ok().and_then(Admitted::noted)) {
            (Err(refusal), _) => (Outcome::Refused, refusal.rule(), refusal.span()),
            (Ok(_), Some(violation)) => (Outcome::LetThrough, Some(violation.rule), violation.span),
            (Ok(_), None) => return Ok(admitted?),
        };
        let Attempt { operation, caller, parent, name, target } = *attempt;
        if let Some(metrics) = &self.metrics {
            match &admitted {
                Err(_) => metrics.refused(operation, rule),
                Ok(_) => metrics.let_through(operation, rule),
            }
        }
        if let Some(audit) = &self.audit {
            audit.record(Some(caller.uid), || Record {
                time: SystemTime::now(),
                outcome,
                operation: operation.name(),
                name: name.into(),
                target: target.map(OsStr::to_os_string),
                parent: self.tree.path(parent).ok(),
                rule,
                span: Span::new(at + span.start, at + span.end),
                asker: Asker::new(caller.uid, caller.gid, caller.pid),
            });
        }
        Ok(admitted?)
    }

    /// A target is content, and passes as it is; its components are judged like new names where that was asked for.
    fn check_target(&self, caller: &Caller, parent: NodeId, name: &OsStr, target: &OsStr) -> Result<()> {
        if !self.checks_targets {
            return Ok(());
        }
        let attempt = Attempt { operation: Op::Symlink, caller, parent, name, target: Some(target) };
        let mut at = 0;
        for part in target.as_bytes().split(|&byte| byte == b'/') {
            if !matches!(part, b"" | b"." | b"..") {
                let admitted = self.admit(&attempt, OsStr::from_bytes(part), at)?;
                if admitted.noted().is_some() {
                    // One record is enough for one link.
                    break;
                }
            }
            at += part.len() + 1;
        }
        Ok(())
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
        let mut found = None;
        self.tree.list(parent, |entry| match self.gate.show(entry.name) {
            Some(shown) if shown.name == name => {
                found = Some(shown.admitted.into_owned());
                Room::None
            }
            _ => Room::Left,
        })?;
        found.ok_or(Failure::Backing(Errno::ENOENT))
    }

    pub(super) fn do_lookup(&self, parent: NodeId, name: &OsStr) -> Result<Entry> {
        Ok(self.tree.lookup_spelt(parent, &self.present_name(parent, name)?)?)
    }

    pub(super) fn do_mkdir(&self, caller: &Caller, parent: NodeId, name: &OsStr, mode: u32) -> Result<Entry> {
        let name = self.new_name(Op::Mkdir, caller, parent, name)?;
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
        let name = self.new_name(Op::Mknod, caller, parent, name)?;
        Ok(self.tree.change_spelt(parent, &name, |name| self.tree.mknod(caller, parent, name, mode, rdev))?)
    }

    pub(super) fn do_symlink(
        &self,
        caller: &Caller,
        parent: NodeId,
        name: &OsStr,
        target: &OsStr,
    ) -> Result<Entry> {
        self.check_target(caller, parent, name, target)?;
        let name = self.new_name(Op::Symlink, caller, parent, name)?;
        Ok(self.tree.change_spelt(parent, &name, |name| self.tree.symlink(caller, parent, name, target))?)
    }

    pub(super) fn do_link(
        &self,
        caller: &Caller,
        node: NodeId,
        parent: NodeId,
        name: &OsStr,
    ) -> Result<Entry> {
        let name = self.new_name(Op::Link, caller, parent, name)?;
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
        let name = self.new_name(Op::Create, caller, parent, name)?;
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
            0 => self.new_name(Op::Rename, caller, new_parent, new_name)?,
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
