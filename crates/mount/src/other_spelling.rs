//! Requests by any spelling of a name, where an entry may have several.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use libc::{S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};
use namegate_core::gate::{Admitted, Intent};

use super::alias::OtherSpelling;
use super::node_number::alias;
use super::request_context::RequestContext;
use super::server::{ConfiguredServer, Result};
use super::spelling::NameHash;
use crate::passthrough::{LookupEntry, NodeId, UsedName};

impl RequestContext<'_> {
    /// Looks an entry up for the thread `thread`.
    pub(super) fn look_up(&self, thread: u32, parent: NodeId, name: &OsStr) -> Result<LookupEntry> {
        let (server, threads) = (&self.server, &self.core.lookup_threads);
        let looked_up = server.lookup(parent, name);
        if server.config.equivalence.is_none() {
            return Ok(looked_up?.0);
        }
        if looked_up.is_err() {
            threads.note_other(thread);
        }
        let (entry, stored) = looked_up?;
        let is_directory = entry.stat.st_mode & S_IFMT == S_IFDIR;
        if entry.name == UsedName::Own && !is_directory && !server.uncached.is_used() {
            return Ok(entry);
        }
        let (key, hash) = (NameHash::new(parent, stored.key()), NameHash::new(parent, name));
        if entry.name == UsedName::Own {
            match is_directory || server.uncached.contains(key) {
                true => threads.note_own(thread, key, hash),
                false => threads.note_other(thread),
            }
            return Ok(entry);
        }
        let is_first = server.uncached.add(key);
        // The kernel drops an own name when its directory is not locked, and that of a directory not before its timeout.
        let is_recent = server.uncached.was_added_within(server.timeouts().entry);
        // The kernel has a directory by one name only, and a working directory must not lose it.
        let may_be_cached = is_first && !is_directory;
        if may_be_cached && let Some(shown) = server.config.serve.gate.show(stored.as_os_str()) {
            self.core.server.drop_name(parent, shown.name.into_owned(), entry.node);
        }
        let is_strict = !matches!(entry.stat.st_mode & S_IFMT, S_IFREG | S_IFLNK);
        let lookup = OtherSpelling { node: entry.node, key, name: hash, is_strict, is_first, is_recent };
        let is_same = |it: &OsStr| server.admit_existing(parent, it).is_ok_and(|it| it.key() == stored.key());
        let is_new_name = |paths: &[PathBuf; 2]| {
            let [from, to] = paths.each_ref().map(|path| path.file_name().unwrap_or_default());
            to == name && from != name && is_same(from) && !self.is_above(parent, name, &paths[1])
        };
        let is_alias = threads.leads_to_alias(thread, &lookup, is_new_name);
        let number = alias(entry.node, is_strict).filter(|_| is_alias);
        let name = number.map_or(UsedName::Other, UsedName::Alias);
        let is_current = entry.is_current && number.is_none();
        Ok(LookupEntry { name, is_current, ..entry })
    }

    /// Whether `name` in the directory `parent` is one of the directories above the last name of `path`, which is the same name: the place of
    /// `parent` fits that only. A path may be relative, and then begins anywhere.
    fn is_above(&self, parent: NodeId, name: &OsStr, path: &Path) -> bool {
        let above: Vec<_> = path.parent().into_iter().flat_map(Path::iter).filter(|it| *it != ".").collect();
        let gate = &self.server.config.serve.gate;
        let (true, Ok(place)) = (above.contains(&name), self.server.tree.path(parent)) else { return false };
        let mountpoint = self.core.source.get().and_then(|source| source.mountpoint().file_name());
        let is_same = |(asked, stored): (&&OsStr, &OsStr)| {
            gate.admit(Intent::Address, asked).is_ok_and(|admitted| admitted.key() == gate.key(stored))
        };
        let fits = |above: &[&OsStr]| {
            let outside = above.len().saturating_sub(place.iter().count());
            above.iter().rev().zip(place.iter().rev()).all(is_same)
                && (outside == 0 || Some(above[outside - 1]) == mountpoint)
        };
        !fits(&above) && (0..above.len()).any(|at| above[at] == name && fits(&above[..at]))
    }
}

impl ConfiguredServer<'_> {
    /// Looks an entry up, and returns its stored name too.
    pub(super) fn lookup<'n>(&self, parent: NodeId, name: &'n OsStr) -> Result<(LookupEntry, Admitted<'n>)> {
        let admitted = self.admit_existing(parent, name)?;
        let Some(equivalence) = &self.config.equivalence else {
            return Ok((self.tree.lookup(parent, &admitted)?, admitted));
        };
        let (entry, stored) = self.tree.lookup_equivalent(equivalence, parent, &admitted)?;
        let used = if stored.is_none() { self.used_name(&admitted, name) } else { UsedName::Other };
        Ok((LookupEntry { name: used, ..entry }, stored.unwrap_or(admitted)))
    }

    /// What the name `used` is to the entry `stored`.
    pub(super) fn used_name(&self, stored: &Admitted<'_>, used: &OsStr) -> UsedName {
        let gate = &self.config.serve.gate;
        let is_own = || gate.show(stored.as_os_str()).is_some_and(|shown| shown.name == used);
        if self.config.equivalence.is_none() || is_own() { UsedName::Own } else { UsedName::Other }
    }

    /// Whether the kernel must not cache the entry `stored` under `name`: it is not shown so, is one of the
    /// [`UncachedNames`](super::spelling), or has other spellings and could not be dropped.
    pub(super) fn is_uncached(&self, parent: NodeId, stored: &Admitted<'_>, name: &OsStr) -> bool {
        self.config.equivalence.is_some()
            && (self.used_name(stored, name) != UsedName::Own
                || self.uncached.contains(NameHash::new(parent, stored.key()))
                || self.config.is_ambiguous(name) && !self.can_drop_names())
    }

    /// Makes the entry one of the [`UncachedNames`](super::spelling); returns whether it was none.
    pub(super) fn uncache(&self, parent: NodeId, stored: &Admitted<'_>) -> bool {
        self.uncached.add(NameHash::new(parent, stored.key()))
    }
}
