//! Which guards belong to a path. The directory at a path can be removed and made again, and one directory can have several paths.

use std::fs;
use std::path::{Path, PathBuf};

use super::guards::SlotGuard;
use super::target::GuardTarget;

/// What is on already where a guard is to be turned on.
#[derive(Debug)]
pub struct Claim<'g> {
    /// The guard of the same directory or file system, which gets the new policy.
    pub replaced: Option<&'g SlotGuard>,
    /// Guards of the same path whose directory is not there any more: they end.
    pub stale: Vec<&'g SlotGuard>,
    /// The path of the replaced guard, if it was turned on with another one.
    pub other_path: Option<PathBuf>,
}

impl<'g> Claim<'g> {
    /// Finds what is on already. `leads_there` reports whether the path of a guard leads to what it guards.
    pub fn new(
        guards: &'g [SlotGuard],
        target: &GuardTarget,
        leads_there: impl Fn(&SlotGuard) -> bool,
    ) -> Self {
        let replaced = guards.iter().find(|guard| !guard.has_ended && target.is_of(&guard.scope));
        let is_stale = |guard: &&SlotGuard| {
            replaced.is_none_or(|replaced| replaced.slot != guard.slot)
                && guard.path().is_some_and(|path| path == target.path)
                && (guard.has_ended || !leads_there(guard))
        };
        let stale = guards.iter().filter(is_stale).collect();
        let path = replaced.map(|guard| guard.path().unwrap_or_default());
        Self { replaced, stale, other_path: path.filter(|path| *path != target.path) }
    }
}

/// The guards that were turned on with a path. It need not exist any more, and can be a link to another directory now.
pub fn of_path<'g>(guards: &'g [SlotGuard], path: &Path) -> Vec<&'g SlotGuard> {
    let named = [fs::canonicalize(path).ok(), std::path::absolute(path).ok()];
    let is_of =
        |guard: &&SlotGuard| guard.path().is_some_and(|own| named.iter().flatten().any(|path| *path == own));
    guards.iter().filter(is_of).collect()
}

#[cfg(test)]
mod tests {
    use namegate_files::json::JsonBytes;

    use super::*;
    use crate::guards::{GuardCounts, free_slot};
    use crate::note::GuardNote;
    use crate::table::{GuardRoot, GuardScope};

    fn guard(slot: u32, path: &Path, device: u32, inode: Option<u64>) -> SlotGuard {
        let note = GuardNote {
            path: JsonBytes::new(path.as_os_str().as_encoded_bytes()),
            is_top: true,
            filesystem: String::new(),
            since: String::new(),
            profiles: Vec::new(),
            policy: String::new(),
        };
        let root = inode.map(|inode| GuardRoot { inode, generation: None });
        SlotGuard {
            slot,
            id: u64::from(slot) + 100,
            has_ended: false,
            scope: GuardScope { device, root, refusal: None },
            note: note.to_bytes(),
            counts: GuardCounts::default(),
            recorded: 0,
        }
    }

    fn slots(guards: &[&SlotGuard]) -> Vec<u32> {
        guards.iter().map(|guard| guard.slot).collect()
    }

    #[test]
    fn a_path_has_the_guard_of_its_directory_and_those_of_directories_that_were_there_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(dir.path()).unwrap();
        let target = GuardTarget::from_path(&path, true).unwrap();
        let device = target.device;
        let mut guards = vec![
            guard(0, &path, device, Some(1)),
            guard(1, Path::new("/other"), device, Some(1)),
            guard(2, &path, device, None),
            guard(3, &path, device + 1, None),
        ];
        // The first one is of a directory that is at its path no more, the last one of a file system that is not.
        let claim = Claim::new(&guards, &target, |guard| guard.slot == 2);
        assert_eq!((claim.replaced.map(|guard| guard.slot), slots(&claim.stale)), (Some(2), vec![0, 3]));
        assert_eq!(claim.other_path, None);
        // A guard of the directory alone stays beside one of the whole file system.
        let claim = Claim::new(&guards, &target, |guard| guard.slot != 3);
        assert_eq!(slots(&claim.stale), [3]);
        // After an unmount, the next file system can have the same device number.
        guards[2].has_ended = true;
        let claim = Claim::new(&guards, &target, |_| true);
        assert_eq!((claim.replaced.map(|guard| guard.slot), slots(&claim.stale)), (None, vec![2]));
    }

    #[test]
    fn one_file_system_named_by_two_paths_has_one_guard_and_the_other_path_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let target = GuardTarget::from_path(dir.path(), true).unwrap();
        let guards =
            [guard(5, Path::new("/first"), target.device, None), guard(6, Path::new("/first"), 1, None)];
        let claim = Claim::new(&guards, &target, |_| false);
        assert_eq!(claim.replaced.map(|guard| guard.slot), Some(5));
        assert!(claim.other_path == Some("/first".into()) && claim.stale.is_empty());
    }

    #[test]
    fn off_finds_all_guards_of_a_path_also_of_one_that_is_a_link_now_or_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let dir = fs::canonicalize(dir.path()).unwrap();
        let (real, link) = (dir.join("real"), dir.join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let guards = [
            guard(0, &link, 1, None),
            guard(1, &real, 2, None),
            guard(2, &real, 3, Some(7)),
            guard(3, Path::new("/gone"), 4, None),
        ];
        assert_eq!(slots(&of_path(&guards, &link)), [0, 1, 2]);
        assert_eq!(slots(&of_path(&guards, &real)), [1, 2]);
        assert_eq!(slots(&of_path(&guards, Path::new("/gone"))), [3]);
        assert!(of_path(&guards, Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn a_new_guard_gets_a_free_slot_or_that_of_one_that_has_ended() {
        let mut guards = vec![guard(0, Path::new("/a"), 1, None), guard(1, Path::new("/b"), 1, None)];
        assert_eq!(free_slot(&[1, 0, 1, 0], &guards), Some(1));
        assert_eq!(free_slot(&[1, 1], &guards), None);
        guards[1].has_ended = true;
        assert_eq!(free_slot(&[1, 1, 1], &guards), Some(1));
        assert_eq!(free_slot(&[1, 1, 0], &guards), Some(2));
    }
}
