//! The names that the kernel may keep until they change, by directory: when events are lost, all of them are dropped.
//!
//! They include names of nothing, and names that were removed since, which no listing of a directory would show. Each costs its
//! length and a byte.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::passthrough::NodeId;

/// All names together, in bytes: some two million.
const MOST: usize = 32 << 20;

/// The names in one directory: length and bytes of each, one after another. A name that was dropped and given out again is in it twice.
#[derive(Debug, Default)]
struct DirectoryNames {
    packed: Vec<u8>,
    /// The length at which names that occur twice are looked for.
    check_at: usize,
}

impl DirectoryNames {
    fn iter(&self) -> impl Iterator<Item = &OsStr> {
        let mut rest = &self.packed[..];
        std::iter::from_fn(move || {
            let (len, behind) = rest.split_first()?;
            let (name, behind) = behind.split_at_checked(usize::from(*len))?;
            rest = behind;
            Some(OsStr::from_bytes(name))
        })
    }

    fn push(&mut self, len: u8, name: &OsStr) {
        if self.packed.len() >= self.check_at.max(1 << 10) {
            let distinct: HashSet<OsString> = self.iter().map(OsStr::to_owned).collect();
            self.packed.clear();
            // Kernels look up no longer names.
            distinct.iter().for_each(|name| self.append(name.len() as u8, name));
            self.check_at = 2 * self.packed.len();
        }
        self.append(len, name);
    }

    fn append(&mut self, len: u8, name: &OsStr) {
        self.packed.push(len);
        self.packed.extend(name.as_bytes());
    }
}

#[derive(Debug, Default)]
pub(super) struct GivenNames {
    directories: HashMap<NodeId, DirectoryNames>,
    bytes: usize,
}

impl GivenNames {
    /// Adds a name; `false` if there is no room.
    pub(super) fn add(&mut self, parent: NodeId, name: &OsStr) -> bool {
        if self.bytes + name.len() >= MOST {
            return false;
        }
        self.add_moved(parent, name)
    }

    /// Adds a name that the kernel keeps in any case.
    pub(super) fn add_moved(&mut self, parent: NodeId, name: &OsStr) -> bool {
        let Ok(len) = u8::try_from(name.len()) else { return false };
        let names = self.directories.entry(parent).or_default();
        let before = names.packed.len();
        names.push(len, name);
        self.bytes = self.bytes + names.packed.len() - before;
        true
    }

    pub(super) fn forget(&mut self, parent: NodeId) {
        if let Some(names) = self.directories.remove(&parent) {
            self.bytes -= names.packed.len();
        }
    }

    /// Takes all names out.
    pub(super) fn take(&mut self) -> Vec<(NodeId, Vec<OsString>)> {
        self.bytes = 0;
        let all = std::mem::take(&mut self.directories);
        all.into_iter().map(|(parent, names)| (parent, names.iter().map(OsStr::to_owned).collect())).collect()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MOST / 10 * 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_until_it_is_taken_and_names_that_come_again_take_no_more_room() {
        let mut given = GivenNames::default();
        let name = |i: usize| OsString::from(format!("name {i}"));
        for i in (0..1000).chain(0..100_000usize) {
            assert!(given.add(NodeId(i as u64 % 3), &name(i / 3 % 300)));
        }
        assert!(!given.add(NodeId(1), OsStr::new(&"x".repeat(256))));
        assert!(given.bytes < 20_000, "{}", given.bytes);
        assert_eq!(given.bytes, given.directories.values().map(|names| names.packed.len()).sum::<usize>());
        given.forget(NodeId(2));
        let taken = given.take();
        assert_eq!((taken.len(), given.bytes), (2, 0));
        for (_, names) in taken {
            let names: HashSet<OsString> = names.into_iter().collect();
            assert_eq!(names.len(), 300);
            assert!((0..300).all(|i| names.contains(&name(i))));
        }
    }

    #[test]
    fn what_has_no_room_is_refused() {
        let mut given = GivenNames::default();
        let long = "x".repeat(200);
        let added = (0..MOST / 200)
            .take_while(|i| given.add(NodeId(1), OsStr::new(&format!("{i:08}{long}"))))
            .count();
        assert!(added < MOST / 200 && given.is_full() && given.bytes <= MOST);
        assert!(given.add_moved(NodeId(1), OsStr::new("moved")));
    }
}
