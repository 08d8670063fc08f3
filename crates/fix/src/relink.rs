//! Changes the target of a symbolic link: makes a new link in a private directory beside the old one, and exchanges the two in
//! one system call. So a link always exists under the name; it gets a new inode. The link that arrives in the private directory
//! is checked before it is removed: if another process has replaced the old link, the other entry goes back.
//!
//! The new link gets its owner, attributes and times where no other process can replace it, from the inode that it replaces,
//! through descriptors.
//!
//! The targets under the name and in the private directory show how far a run came that was killed, in either direction.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use namegate_files::json::{Base64, Hex};
use namegate_sys::open::beneath;
use namegate_sys::rename::renameat2;
use namegate_sys::stat::{self, Stat};
use namegate_sys::xattr;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, readlinkat};
use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, symlinkat, unlinkat};
use serde::{Deserialize, Serialize};

use super::entry::{EntryFailure, free_name, look_up};
use super::group::Direction;
use super::plan::InodeTime;
use super::private::{CurrentPrivateDir, PrivateDir};

/// Attributes that are valid for one inode only, and would lend its rights or its signature to another: capabilities(7), and the
/// attributes of the integrity subsystem.
const NEVER_COPIED: [&[u8]; 3] = [b"security.capability", b"security.evm", b"security.ima"];

/// A new target for a symbolic link, as a record of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relink {
    /// The index of the directory in the batch.
    pub directory: usize,
    /// The name of the link at that time.
    #[serde(rename = "name_hex")]
    pub name: Hex,
    /// The name of the new link in the private directory.
    #[serde(rename = "via_hex")]
    pub temp_name: Hex,
    /// The name of the private directory.
    #[serde(rename = "private_hex")]
    pub private_dir: Hex,
    #[serde(rename = "old_target_base64")]
    pub old_target: Base64,
    #[serde(rename = "new_target_base64")]
    pub new_target: Base64,
    /// The inode number while the link has the old target.
    pub inode: u64,
    pub atime: InodeTime,
    pub mtime: InodeTime,
    /// The owner. A link with another owner was changed after this record was made.
    pub uid: u32,
    /// The group, likewise.
    pub gid: u32,
}

/// A time for utimensat(2).
pub(super) const fn time_spec(time: InodeTime) -> TimeSpec {
    TimeSpec::new(time.seconds, time.nanoseconds as i64)
}

/// A symbolic link, held open: its metadata and its target are of one inode.
#[derive(Debug)]
pub struct OpenLink {
    fd: OwnedFd,
    pub stat: Stat,
    pub target: Vec<u8>,
}

impl OpenLink {
    /// Opens the link `name` in `dir`; `None` if the name does not exist.
    ///
    /// # Errors
    /// [`EntryFailure::Replaced`] if the entry is not a link.
    pub fn open(dir: impl AsFd, name: &[u8]) -> Result<Option<Self>, EntryFailure> {
        let fd = match beneath(dir, OsStr::from_bytes(name), OFlag::O_PATH, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = stat::at(&fd, OsStr::new(""))?;
        if stat.kind != libc::S_IFLNK {
            return Err(EntryFailure::Replaced);
        }
        let target = readlinkat(&fd, "")?.as_bytes().to_vec();
        Ok(Some(Self { fd, stat, target }))
    }

    /// Reports whether `stat` is of this link. The link is open, so no other inode has its number.
    fn is(&self, stat: &Stat) -> bool {
        (self.stat.ino, self.stat.device) == (stat.ino, stat.device)
    }
}

impl Relink {
    /// Reports whether the link has its final target, and nothing is left to clean up.
    ///
    /// # Errors
    /// The names cannot be looked up, or another entry has one.
    pub fn is_finished(&self, dir: impl AsFd + Copy, direction: Direction) -> Result<bool, EntryFailure> {
        let wanted = if direction == Direction::Apply { &self.new_target } else { &self.old_target };
        let is_there = OpenLink::open(dir, &self.name)?.is_some_and(|link| link.target == **wanted);
        Ok(is_there
            && match PrivateDir::find(dir, &self.private_dir)? {
                Some(private) => look_up(&private, &self.temp_name)?.is_none(),
                None => true,
            })
    }

    /// Gives the link its final target, from any state that a killed run left. Calls `changed` after each change. The caller
    /// removes the private directory.
    ///
    /// # Errors
    /// Why that failed; the link has one of both targets then.
    pub fn execute(
        &self,
        dir: impl AsFd + Copy,
        direction: Direction,
        private: &mut CurrentPrivateDir,
        changed: &mut dyn FnMut(),
    ) -> Result<(), EntryFailure> {
        let (wanted, other) = match direction {
            Direction::Apply => (&self.new_target, &self.old_target),
            Direction::Undo => (&self.old_target, &self.new_target),
        };
        let link = OpenLink::open(dir, &self.name)?.ok_or(EntryFailure::Gone)?;
        // The link that a killed run left.
        let left = match private.find(dir, &self.private_dir, changed)? {
            Some(private) => OpenLink::open(private, &self.temp_name).map_err(|_| self.foreign_entry())?,
            None => None,
        };
        if link.target == **wanted {
            // The link is exchanged and the old one possibly not removed.
            let is_old = |left: &OpenLink| {
                left.target == **other && (direction == Direction::Undo || left.stat.ino == self.inode)
            };
            return match (left, private.find(dir, &self.private_dir, changed)?) {
                (Some(left), _) if !is_old(&left) => Err(self.foreign_entry()),
                (Some(_), Some(private)) => {
                    self.remove_link(private, changed);
                    Ok(())
                }
                _ => Ok(()),
            };
        }
        if left.as_ref().is_some_and(|left| left.target != **wanted) {
            return Err(self.foreign_entry());
        }
        if link.target != **other || (direction == Direction::Apply && !self.is_original(&link.stat)) {
            return Err(EntryFailure::Replaced);
        }
        let private = private.find_or_make(dir, &self.private_dir, changed)?;
        // An undo brings the original link back. Any other link may be incomplete: a link that was made after the original was
        // removed may have its inode number, but it gets its times last.
        let left = left.filter(|left| direction == Direction::Undo && self.is_original(&left.stat));
        let made = match left {
            Some(left) => Ok(left),
            None => self.make_link(private, &link, wanted, changed),
        };
        let done = made.and_then(|made| self.exchange(dir, private, &link, &made, changed));
        // A foreign entry stays in the private directory.
        if !matches!(done, Err(EntryFailure::Aside(_))) {
            self.remove_link(private, changed);
        }
        done
    }

    /// The failure for a foreign entry in the private directory.
    fn foreign_entry(&self) -> EntryFailure {
        EntryFailure::Aside([&self.private_dir[..], b"/", &self.temp_name].concat())
    }

    /// Reports whether `stat` is of the link that the record describes.
    fn is_original(&self, stat: &Stat) -> bool {
        let found = (stat.ino, stat.uid, stat.gid, InodeTime::from(stat.mtime));
        found == (self.inode, self.uid, self.gid, self.mtime)
    }

    /// Removes the link in the private directory: the new link if the exchange failed, or else the old one.
    fn remove_link(&self, private: &PrivateDir, changed: &mut dyn FnMut()) {
        if unlinkat(private, OsStr::from_bytes(&self.temp_name), UnlinkatFlags::NoRemoveDir).is_ok() {
            changed();
        }
    }

    /// Makes a link to `target` in the private directory, with the metadata of `link` as far as the rights of the caller allow.
    fn make_link(
        &self,
        private: &PrivateDir,
        link: &OpenLink,
        target: &[u8],
        changed: &mut dyn FnMut(),
    ) -> Result<OpenLink, EntryFailure> {
        let temp_name = OsStr::from_bytes(&self.temp_name);
        match symlinkat(OsStr::from_bytes(target), private, temp_name) {
            Err(Errno::EEXIST) => {
                unlinkat(private, temp_name, UnlinkatFlags::NoRemoveDir)?;
                symlinkat(OsStr::from_bytes(target), private, temp_name)?;
            }
            made => made?,
        }
        changed();
        let made = OpenLink::open(private, &self.temp_name)?.ok_or(EntryFailure::Gone)?;
        // Without the right to change owners, and on file systems without owners or times of links, the link is the caller's.
        let (uid, gid) = (link.stat.uid, link.stat.gid);
        if (uid, gid) != (made.stat.uid, made.stat.gid) {
            let flags = AtFlags::AT_EMPTY_PATH | AtFlags::AT_SYMLINK_NOFOLLOW;
            let _ = fchownat(&made.fd, "", Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), flags);
        }
        let _ = copy_attributes(&link.fd, &made.fd);
        // By name: kernels before 5.8 cannot set times through an `O_PATH` descriptor. Nobody else can change the name.
        let times = [self.atime, self.mtime].map(time_spec);
        let _ = utimensat(private, temp_name, &times[0], &times[1], UtimensatFlags::NoFollowSymlink);
        Ok(made)
    }

    /// Exchanges the link `made` in the private directory with `link`.
    fn exchange(
        &self,
        dir: impl AsFd + Copy,
        private: &PrivateDir,
        link: &OpenLink,
        made: &OpenLink,
        changed: &mut dyn FnMut(),
    ) -> Result<(), EntryFailure> {
        let (name, temp_name) = (OsStr::from_bytes(&self.name), OsStr::from_bytes(&self.temp_name));
        let exchange = || renameat2(private, temp_name, dir, name, libc::RENAME_EXCHANGE);
        let holds = |link: &OpenLink| {
            look_up(private, &self.temp_name).is_ok_and(|stat| stat.is_some_and(|stat| link.is(&stat)))
        };
        exchange()?;
        changed();
        if holds(link) {
            return Ok(());
        }
        // Another process replaced the old link right before. The other entry goes back.
        if exchange().is_ok() {
            changed();
            if holds(made) {
                return Err(EntryFailure::Replaced);
            }
        }
        // The new link was moved or replaced too: the entry here belongs under its name, or at least beside it.
        let free = free_name(dir).unwrap_or_else(|_| self.name.0.clone());
        for to in [&self.name.0, &free] {
            if renameat2(private, temp_name, dir, OsStr::from_bytes(to), libc::RENAME_NOREPLACE).is_ok() {
                changed();
                let is_name = *to == self.name.0;
                return Err(if is_name { EntryFailure::Replaced } else { EntryFailure::Aside(free.clone()) });
            }
        }
        Err(self.foreign_entry())
    }
}

/// Copies the extended attributes of the link `from` to the link `to`.
fn copy_attributes(from: &OwnedFd, to: &OwnedFd) -> Result<(), Errno> {
    let mut names = vec![0; xattr::list(from, &mut [])?];
    let len = xattr::list(from, &mut names)?;
    let names = names[..len].split(|&byte| byte == 0);
    for name in names.filter(|name| !name.is_empty() && !NEVER_COPIED.contains(name)).map(OsStr::from_bytes) {
        let mut value = vec![0; xattr::get(from, name, &mut [])?];
        let len = xattr::get(from, name, &mut value)?;
        // Not every user can set the labels that the system sets by itself.
        let _ = xattr::set(to, name, &value[..len], 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// The record for the link in `dir`, as it is now.
    fn relink(dir: &fs::File) -> Relink {
        let [name, temp_name, private_dir] = ["link", "via", "via"].map(|word| Hex(word.as_bytes().to_vec()));
        let [old_target, new_target] = ["old", "new"].map(|word| Base64(word.as_bytes().to_vec()));
        let (inode, uid, gid, mtime) = match OpenLink::open(dir, b"link") {
            Ok(Some(OpenLink { stat, .. })) => (stat.ino, stat.uid, stat.gid, stat.mtime.into()),
            _ => Default::default(),
        };
        let atime = InodeTime { seconds: 5, nanoseconds: 6 };
        let directory = 0;
        Relink {
            directory,
            name,
            temp_name,
            private_dir,
            old_target,
            new_target,
            inode,
            atime,
            mtime,
            uid,
            gid,
        }
    }

    /// Executes `relink`, and removes the private directory.
    fn execute(
        relink: &Relink,
        dir: &fs::File,
        direction: Direction,
        changed: &mut dyn FnMut(),
    ) -> Result<(), EntryFailure> {
        let mut private = CurrentPrivateDir::default();
        let result = relink.execute(dir, direction, &mut private, changed);
        private.remove(dir, changed);
        result
    }

    #[test]
    fn a_link_gets_either_target_from_any_state() {
        // The target under the name, and the target in the private directory if there is one, at each point in both directions.
        let states: [(&str, Option<Option<&str>>); 6] = [
            ("old", None),
            ("old", Some(None)),
            ("old", Some(Some("new"))),
            ("new", Some(Some("old"))),
            ("new", Some(None)),
            ("new", None),
        ];
        for (here, aside) in states {
            for direction in [Direction::Apply, Direction::Undo] {
                let dir = tempfile::tempdir().unwrap();
                let fd = fs::File::open(dir.path()).unwrap();
                symlink("old", dir.path().join("link")).unwrap();
                let relink = relink(&fd);
                if aside.is_some() {
                    PrivateDir::make(&fd, b"via").unwrap();
                }
                if let Some(Some(aside)) = aside {
                    if here == "new" {
                        fs::rename(dir.path().join("link"), dir.path().join("via/via")).unwrap();
                    } else {
                        symlink(aside, dir.path().join("via/via")).unwrap();
                    }
                }
                if here == "new" {
                    let _ = fs::remove_file(dir.path().join("link"));
                    symlink(here, dir.path().join("link")).unwrap();
                }
                let is_wanted = here == if direction == Direction::Apply { "new" } else { "old" };
                let is_clean = aside.flatten().is_none();
                assert_eq!(relink.is_finished(&fd, direction), Ok(is_wanted && is_clean));
                let what = format!("{here} {aside:?} {direction:?}");
                execute(&relink, &fd, direction, &mut || {}).unwrap();
                let expected = if direction == Direction::Apply { "new" } else { "old" };
                assert_eq!(
                    fs::read_link(dir.path().join("link")).unwrap().to_str(),
                    Some(expected),
                    "{what}"
                );
                assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{what}: nothing else is left");
                assert_eq!(relink.is_finished(&fd, direction), Ok(true), "{what}");
                execute(&relink, &fd, direction, &mut || panic!("nothing more to do")).unwrap();
                let meta = fs::symlink_metadata(dir.path().join("link")).unwrap();
                let mtime = InodeTime { seconds: meta.mtime(), nanoseconds: meta.mtime_nsec() as u32 };
                // A link that the test made has its own.
                let is_stranger = here == expected && here == "new";
                assert!(is_stranger || mtime == relink.mtime, "{what}");
                let is_original = here == "new" && aside == Some(Some("old")) && direction == Direction::Undo;
                assert!(!is_original || meta.ino() == relink.inode, "the original link comes back");
            }
        }
    }

    #[test]
    fn an_incomplete_link_of_an_earlier_run_is_not_the_original() {
        let dir = tempfile::tempdir().unwrap();
        let fd = fs::File::open(dir.path()).unwrap();
        symlink("old", dir.path().join("link")).unwrap();
        let relink = relink(&fd);
        // File systems reuse the number of a removed inode.
        PrivateDir::make(&fd, b"via").unwrap();
        fs::rename(dir.path().join("link"), dir.path().join("via/via")).unwrap();
        let now = TimeSpec::UTIME_NOW;
        utimensat(&fd, "via/via", &now, &now, UtimensatFlags::NoFollowSymlink).unwrap();
        symlink("new", dir.path().join("link")).unwrap();
        execute(&relink, &fd, Direction::Undo, &mut || {}).unwrap();
        let meta = fs::symlink_metadata(dir.path().join("link")).unwrap();
        assert_eq!(InodeTime { seconds: meta.mtime(), nanoseconds: meta.mtime_nsec() as u32 }, relink.mtime);
        assert_eq!(fs::read_link(dir.path().join("link")).unwrap().to_str(), Some("old"));
    }

    #[test]
    fn an_entry_that_is_not_the_link_of_the_record_stays() {
        let dir = tempfile::tempdir().unwrap();
        let fd = fs::File::open(dir.path()).unwrap();
        let link = dir.path().join("link");
        let apply = |relink: &Relink| execute(relink, &fd, Direction::Apply, &mut || {});
        assert_eq!(apply(&relink(&fd)), Err(EntryFailure::Gone));
        symlink("elsewhere", &link).unwrap();
        assert_eq!(apply(&relink(&fd)), Err(EntryFailure::Replaced));
        fs::remove_file(&link).unwrap();
        fs::write(&link, "file").unwrap();
        assert_eq!(apply(&relink(&fd)), Err(EntryFailure::Replaced));
        fs::remove_file(&link).unwrap();
        symlink("old", &link).unwrap();
        let meant = relink(&fd);
        for other in [
            Relink { inode: meant.inode + 1, ..meant.clone() },
            Relink { uid: meant.uid + 1, ..meant.clone() },
            Relink { mtime: InodeTime::default(), ..meant.clone() },
        ] {
            assert_eq!(apply(&other), Err(EntryFailure::Replaced));
        }
        fs::write(dir.path().join("via"), "a stranger").unwrap();
        assert_eq!(apply(&meant), Err(EntryFailure::Exposed));
        assert_eq!(fs::read_to_string(dir.path().join("via")).unwrap(), "a stranger");
        assert_eq!(fs::read_link(&link).unwrap().to_str(), Some("old"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_entry_that_replaced_the_link_goes_back() {
        // Once before the exchange, and once more before it is reverted.
        for times in [1, 2] {
            let dir = tempfile::tempdir().unwrap();
            let fd = fs::File::open(dir.path()).unwrap();
            let path = |name: &str| dir.path().join(name);
            symlink("old", path("link")).unwrap();
            let relink = relink(&fd);
            let mut calls = 0;
            let result = execute(&relink, &fd, Direction::Apply, &mut || {
                calls += 1;
                match calls {
                    // The directory is made, then the link in it, then both links are exchanged.
                    2 => {
                        fs::rename(path("link"), path("moved")).unwrap();
                        fs::write(path("link"), "a stranger").unwrap();
                    }
                    3 if times == 2 => {
                        fs::rename(path("link"), path("new")).unwrap();
                        fs::write(path("link"), "another").unwrap();
                    }
                    _ => {}
                }
            });
            assert_eq!(fs::read_to_string(path("link")).unwrap(), "a stranger");
            match (times, result) {
                (1, result) => assert_eq!(result, Err(EntryFailure::Replaced)),
                (_, Err(EntryFailure::Aside(name))) => {
                    assert_eq!(fs::read(path(std::str::from_utf8(&name).unwrap())).unwrap(), b"another");
                }
                (_, result) => panic!("{result:?}"),
            }
            let expected = if times == 1 { 2 } else { 4 };
            assert_eq!(fs::read_link(path("moved")).unwrap().to_str(), Some("old"));
            assert_eq!(
                fs::read_dir(dir.path())
                    .unwrap()
                    .filter(|e| e.as_ref().unwrap().file_name() != "via")
                    .count(),
                expected
            );
        }
    }

    #[test]
    fn links_of_one_directory_share_a_private_directory_that_is_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let fd = fs::File::open(dir.path()).unwrap();
        let names = ["a", "b", "c"];
        names.iter().for_each(|name| symlink("old", dir.path().join(name)).unwrap());
        let relinks = names.map(|name| {
            let stat = OpenLink::open(&fd, name.as_bytes()).unwrap().unwrap().stat;
            Relink {
                name: Hex(name.into()),
                temp_name: Hex(format!("new-{name}").into()),
                private_dir: Hex(b"private".to_vec()),
                inode: stat.ino,
                uid: stat.uid,
                gid: stat.gid,
                mtime: stat.mtime.into(),
                ..relink(&fd)
            }
        });
        for (direction, target) in [(Direction::Apply, "new"), (Direction::Undo, "old")] {
            let (mut private, mut changes) = (CurrentPrivateDir::default(), 0);
            for relink in &relinks {
                relink.execute(&fd, direction, &mut private, &mut || changes += 1).unwrap();
                assert!(dir.path().join("private").is_dir());
                assert_eq!(relink.is_finished(&fd, direction), Ok(true));
            }
            private.remove(&fd, &mut || changes += 1);
            assert_eq!(
                changes,
                2 + 3 * names.len(),
                "one directory; each link is made, exchanged and removed"
            );
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), names.len());
            for name in names {
                assert_eq!(fs::read_link(dir.path().join(name)).unwrap().to_str(), Some(target));
            }
        }
    }
}
