//! The names that the kernel may keep until they change, by directory: when events are lost, all of them are dropped.
//!
//! They include names of nothing, and names that were removed since, which no listing of a directory would show. Each costs its
//! length and a byte.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::journal::KeptNames;
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
    /// Where they are noted for a successor.
    noted: Option<&'static dyn KeptNames>,
    has_no_room: bool,
}

/// Names that are about to be dropped. When this is dropped, they were.
#[derive(Debug, Default)]
pub(in super::super) struct TakenNames {
    pub(in super::super) names: Vec<(NodeId, Vec<OsString>)>,
    noted: Option<&'static dyn KeptNames>,
}

impl Drop for TakenNames {
    fn drop(&mut self) {
        if let Some(noted) = self.noted {
            noted.forget_parted();
        }
    }
}

impl From<Vec<(NodeId, Vec<OsString>)>> for TakenNames {
    fn from(names: Vec<(NodeId, Vec<OsString>)>) -> Self {
        Self { names, noted: None }
    }
}

impl GivenNames {
    pub(super) fn new(noted: Option<&'static dyn KeptNames>) -> Self {
        Self { noted, ..Self::default() }
    }

    /// Whether they are noted for a successor.
    pub(super) fn goes_on(&self) -> bool {
        self.noted.is_some()
    }

    /// Adds a name; `false` if there is no room.
    pub(super) fn add(&mut self, parent: NodeId, name: &OsStr) -> bool {
        self.bytes + name.len() < MOST && self.keep(parent, name, false)
    }

    /// Adds a name that the kernel keeps in any case.
    pub(super) fn add_moved(&mut self, parent: NodeId, name: &OsStr) -> bool {
        self.keep(parent, name, true)
    }

    fn keep(&mut self, parent: NodeId, name: &OsStr, is_moved: bool) -> bool {
        let Ok(len) = u8::try_from(name.len()) else { return false };
        if self.noted.is_some_and(|noted| !noted.note(parent.0, name, is_moved)) {
            self.has_no_room = true;
            if !is_moved {
                return false;
            }
        }
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
    pub(super) fn take(&mut self) -> TakenNames {
        self.bytes = 0;
        let all = std::mem::take(&mut self.directories);
        let names = all.into_iter();
        let names = names.map(|(parent, names)| (parent, names.iter().map(OsStr::to_owned).collect()));
        TakenNames { names: names.collect(), noted: self.part() }
    }

    /// The names that a predecessor has noted.
    pub(super) fn take_left(&mut self) -> TakenNames {
        let left = self.noted.map(KeptNames::all).unwrap_or_default();
        let noted = self.noted.filter(|_| !left.is_empty());
        let mut directories: HashMap<NodeId, Vec<OsString>> = HashMap::new();
        for (parent, name) in left {
            directories.entry(NodeId(parent)).or_default().push(name);
        }
        // What could not be parted is dropped again with the names that are given out from now on.
        self.part();
        TakenNames { names: directories.into_iter().collect(), noted }
    }

    /// Parts what was noted from what will be, and returns where, if that is possible: names are taken one time after another.
    fn part(&mut self) -> Option<&'static dyn KeptNames> {
        let noted = self.noted.filter(|noted| noted.part())?;
        self.has_no_room = false;
        Some(noted)
    }

    /// Whether there is hardly any room.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MOST / 10 * 9 || self.has_no_room && self.noted.is_none_or(|noted| noted.can_part())
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
        assert_eq!((taken.names.len(), given.bytes), (2, 0));
        for (_, names) in &taken.names {
            let names: HashSet<OsString> = names.iter().cloned().collect();
            assert_eq!(names.len(), 300);
            assert!((0..300).all(|i| names.contains(&name(i))));
        }
    }

    /// A place for names of which one takes all the room.
    #[derive(Debug)]
    struct SmallPlace;

    impl KeptNames for SmallPlace {
        fn note(&self, _: u64, name: &OsStr, is_kept: bool) -> bool {
            is_kept || name.len() < 10
        }
        fn can_part(&self) -> bool {
            true
        }
        fn part(&self) -> bool {
            true
        }
        fn forget_parted(&self) {}
        fn all(&self) -> Vec<(u64, OsString)> {
            Vec::new()
        }
    }

    #[test]
    fn a_name_that_no_kernel_keeps_takes_no_room_of_a_successor() {
        let mut given = GivenNames::new(Some(&SmallPlace));
        assert!(!given.add(NodeId(1), OsStr::new(&"x".repeat(256))) && !given.is_full());
        assert!(given.add(NodeId(1), OsStr::new("short")) && !given.is_full());
        assert!(!given.add(NodeId(1), OsStr::new("no room for it")) && given.is_full());
        assert_eq!(given.take().names, [(NodeId(1), vec![OsString::from("short")])]);
        assert!(!given.is_full() && given.take_left().noted.is_none());
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
