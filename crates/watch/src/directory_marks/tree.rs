//! The tree of watched directories: finds the path of an event, and follows moves.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::marks::{MarkKey, MarkSet};
use super::{DirectoryMarks, WatchedDirectory};
use crate::root::id;

/// What the mark of a directory reveals about it.
pub(super) enum MoveOutcome {
    /// It had no mark.
    New,
    /// It is the directory that had this name before.
    Known,
    /// It was in the tree as another node, which has this name now; `None` if it is not to be read.
    Moved(Option<u64>),
}

impl DirectoryMarks {
    pub(super) fn insert(&mut self, node: WatchedDirectory) -> u64 {
        self.next += 1;
        self.nodes.insert(self.next, node);
        self.next
    }

    /// The root of a directory, and the path from there.
    pub(super) fn path_from_root(&self, node: u64) -> Option<(usize, PathBuf)> {
        let mut names = Vec::new();
        let mut at = self.nodes.get(&node)?;
        while let Some(above) = at.above {
            names.push(at.name.as_os_str());
            at = self.nodes.get(&above)?;
        }
        names.reverse();
        Some((at.root, names.join(OsStr::new("/")).into()))
    }

    /// The node of the directory `name` in `above`, created if it is new.
    pub(super) fn child(&mut self, above: u64, name: &OsStr) -> u64 {
        let Some(node) = self.nodes.get(&above) else { return 0 };
        if let Some(&known) = node.below.get(name) {
            return known;
        }
        let (root, pass) = (node.root, self.rescan.number());
        let child = self.insert(WatchedDirectory::new(Some(above), root, name, pass));
        if let Some(node) = self.nodes.get_mut(&above) {
            node.below.insert(name.to_owned(), child);
        }
        child
    }

    /// Moves `node` to another name, replacing what is there. If that is impossible, the tree is out of date: the node is removed
    /// with everything below it, to be found again.
    pub(super) fn attach(&mut self, node: u64, above: u64, name: &OsStr) -> bool {
        // No directory can be moved below itself.
        let mut at = Some(above);
        while let Some(number) = at {
            if number == node {
                self.forget(node, true);
                return false;
            }
            at = self.nodes.get(&number).and_then(|node| node.above);
        }
        let Some(root) = self.nodes.get(&above).map(|above| above.root) else { return false };
        let Some(moved) = self.nodes.get_mut(&node) else { return false };
        let (old_above, old_name) = (moved.above, std::mem::replace(&mut moved.name, name.to_owned()));
        (moved.above, moved.root) = (Some(above), root);
        if let Some(old) = old_above.and_then(|old| self.nodes.get_mut(&old))
            && old.below.get(&old_name) == Some(&node)
        {
            old.below.remove(&old_name);
        }
        let replaced = self.nodes.get_mut(&above).and_then(|above| above.below.insert(name.to_owned(), node));
        if let Some(replaced) = replaced.filter(|replaced| *replaced != node) {
            self.forget(replaced, true);
        }
        true
    }

    /// Removes a directory, and all below it, from the tree.
    pub(super) fn forget(&mut self, node: u64, unmarks: bool) {
        self.held = None;
        let mut all = vec![node];
        while let Some(number) = all.pop() {
            let Some(node) = self.nodes.remove(&number) else { continue };
            if let Some(above) = node.above.and_then(|above| self.nodes.get_mut(&above))
                && above.below.get(&node.name) == Some(&number)
            {
                above.below.remove(&node.name);
            }
            if let Some(key) = node.key
                && self.by_key.get(&key) == Some(&number)
            {
                self.by_key.remove(&key);
                // The kernel removes a fanotify mark with its directory; until then its events are ignored.
                if let (MarkKey::Watch(watch), MarkSet::Inotify(inotify, watches)) = (&key, &mut self.marks)
                    && let Some(watch) = watches.remove(watch).filter(|_| unmarks)
                {
                    // Fails if the directory has just been removed.
                    let _ = inotify.rm_watch(watch);
                }
            }
            all.extend(node.below.into_values());
        }
    }

    /// Records the key of a directory's mark.
    pub(super) fn record_key(&mut self, number: u64, key: MarkKey, dir: &OwnedFd) -> MoveOutcome {
        let (above, name) = match self.nodes.get(&number) {
            Some(node) => {
                if node.key.as_ref() == Some(&key) {
                    return MoveOutcome::Known;
                }
                (node.above, node.name.clone())
            }
            None => return MoveOutcome::Moved(None),
        };
        if let Some(&other) = self.by_key.get(&key) {
            let is_top = self.nodes.get(&other).is_none_or(|other| other.above.is_none());
            return match above.filter(|_| !is_top) {
                Some(above) => {
                    self.moving.retain(|moving| moving.node != other);
                    MoveOutcome::Moved(self.attach(other, above, &name).then_some(other))
                }
                None => {
                    self.forget(number, false);
                    MoveOutcome::Moved(None)
                }
            };
        }
        let id = id(dir).ok();
        let Some(node) = self.nodes.get_mut(&number) else { return MoveOutcome::Moved(None) };
        let old = node.key.replace(key.clone());
        (node.id, node.is_unwatched) = (id, false);
        // The directory that had this name before was removed or moved away.
        let stale = if old.is_some() { std::mem::take(&mut node.below) } else { HashMap::new() };
        if let Some(old) = old.filter(|old| self.by_key.get(old) == Some(&number)) {
            self.by_key.remove(&old);
        }
        stale.into_values().for_each(|node| self.forget(node, true));
        self.by_key.insert(key, number);
        MoveOutcome::New
    }
}
