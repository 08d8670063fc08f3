//! A symbolic link that gets another target: a new link is made in a private directory beside it, and the two trade places
//! in one system call. So there is always a link under the name, and it has a new inode then. What comes into the private
//! directory by that is looked at before it is removed: if it is not the link that was looked at before, because somebody has
//! put something else in its place, it goes back.
//!
//! The new link gets owner, attributes and times where nobody can put another file in its place, and from the very inode that it
//! replaces, by a descriptor.
//!
//! How far that has come is told by the targets under the name and in the private directory, whoever was killed when, on the
//! way there or back.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, readlinkat};
use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, symlinkat, unlinkat};

use super::entry::{Reason, free_name, look};
use super::group::Way;
use super::private::PrivateDir;
use crate::sys::open::beneath;
use crate::sys::rename::renameat2;
use crate::sys::stat::{self, Stat, Time};
use crate::sys::xattr;

/// Attributes that hold for one inode alone, and would lend its rights or its signature to another: capabilities(7), and
/// those of the kernel's integrity subsystem.
const NEVER_COPIED: [&[u8]; 3] = [b"security.capability", b"security.evm", b"security.ima"];

/// A new target for a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relink {
    /// The name of the link.
    pub name: Vec<u8>,
    /// The name of the private directory, and of the link in it.
    pub via: Vec<u8>,
    /// The target that it has.
    pub old: Vec<u8>,
    /// The target that it gets.
    pub new: Vec<u8>,
    /// The number of its inode, as long as it has the old target.
    pub ino: u64,
    /// When it was read last.
    pub atime: Time,
    /// When it was made.
    pub mtime: Time,
    /// Its owner and its group when it was looked at. One that has others when its turn comes was changed meanwhile.
    pub owner: (u32, u32),
}

/// A time as nix wants it.
pub(super) const fn time_spec(time: Time) -> TimeSpec {
    TimeSpec::new(time.seconds, time.nanoseconds as i64)
}

/// A symbolic link, held open: all that is asked of it is of one inode.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    /// What it is.
    pub stat: Stat,
    /// Where it leads.
    pub target: Vec<u8>,
}

impl Link {
    /// The link `name` in `dir`; `None` where there is nothing.
    ///
    /// # Errors
    /// [`Reason::Replaced`] for what is no link, or why it cannot be looked at.
    pub fn open(dir: impl AsFd, name: &[u8]) -> Result<Option<Self>, Reason> {
        let fd = match beneath(dir, OsStr::from_bytes(name), OFlag::O_PATH, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = stat::at(&fd, OsStr::new(""))?;
        if stat.kind != libc::S_IFLNK {
            return Err(Reason::Replaced);
        }
        let target = readlinkat(&fd, "")?.as_bytes().to_vec();
        Ok(Some(Self { fd, stat, target }))
    }

    /// Whether `stat` is of this link. It is held open, so that no other inode has its number.
    fn is(&self, stat: &Stat) -> bool {
        (self.stat.ino, self.stat.device) == (stat.ino, stat.device)
    }
}

impl Relink {
    /// Whether the link has the target at the end of the way already, and nothing is left to be cleaned up.
    ///
    /// # Errors
    /// The names cannot be looked at, or something else stands there.
    pub fn is_at_end(&self, dir: impl AsFd + Copy, way: Way) -> Result<bool, Reason> {
        let wanted = if way == Way::Forward { &self.new } else { &self.old };
        let is_there = Link::open(dir, &self.name)?.is_some_and(|link| link.target == *wanted);
        Ok(is_there && look(dir, &self.via)?.is_none())
    }

    /// Brings the link to the target at the end of the way, from wherever it was left. `changed` is called after each change.
    ///
    /// # Errors
    /// Why that cannot be done; the link has one of both targets then.
    pub fn go(&self, dir: impl AsFd + Copy, way: Way, changed: &mut dyn FnMut()) -> Result<(), Reason> {
        let (wanted, other) = match way {
            Way::Forward => (&self.new, &self.old),
            Way::Backward => (&self.old, &self.new),
        };
        let link = Link::open(dir, &self.name)?.ok_or(Reason::Gone)?;
        // What a run has left that was killed.
        let room = PrivateDir::find(dir, &self.via)?;
        let aside = match &room {
            Some(room) => self.aside(room)?,
            None => None,
        };
        if link.target == *wanted {
            // Made, and not cleaned up yet.
            let is_replaced = |aside: &Link| match way {
                Way::Forward => aside.target == *other && aside.stat.ino == self.ino,
                Way::Backward => aside.target == *other,
            };
            if !aside.as_ref().is_none_or(is_replaced) {
                return Err(self.strange());
            }
            if let Some(room) = room {
                self.clean(dir, room, changed);
            }
            return Ok(());
        }
        if aside.as_ref().is_some_and(|aside| aside.target != *wanted) {
            return Err(self.strange());
        }
        if link.target != *other || (way == Way::Forward && !self.is_of(&link.stat)) {
            return Err(Reason::Replaced);
        }
        let room = match room {
            Some(room) => room,
            None => {
                let room = PrivateDir::make(dir, &self.via)?;
                changed();
                room
            }
        };
        // The first link of all comes back as it is. Any other may not have got yet what it is to have: one that was made when
        // the first was gone may have its inode number, but it gets the times last.
        let aside = aside.filter(|aside| way == Way::Backward && self.is_of(&aside.stat));
        let made = match aside {
            Some(aside) => Ok(aside),
            None => self.make(&room, &link, wanted, changed),
        };
        let done = made.and_then(|made| self.trade(dir, &room, &link, &made, changed));
        match done {
            // What is there is somebody else's.
            Err(Reason::Aside(_)) => {}
            _ => self.clean(dir, room, changed),
        }
        done
    }

    /// The link in the private directory, if there is one.
    fn aside(&self, room: &PrivateDir) -> Result<Option<Link>, Reason> {
        Link::open(room, &self.via).map_err(|_| self.strange())
    }

    /// Something that is not ours is in the private directory.
    fn strange(&self) -> Reason {
        Reason::Aside([&self.via[..], b"/", &self.via].concat())
    }

    /// Whether `stat` is of the link that is to be changed.
    fn is_of(&self, stat: &Stat) -> bool {
        (stat.ino, (stat.uid, stat.gid), stat.mtime) == (self.ino, self.owner, self.mtime)
    }

    /// Removes the private directory, and the link in it: the new one if it has not got its place, or the old one.
    fn clean(&self, dir: impl AsFd, room: PrivateDir, changed: &mut dyn FnMut()) {
        if unlinkat(&room, OsStr::from_bytes(&self.via), UnlinkatFlags::NoRemoveDir).is_ok() {
            changed();
        }
        room.remove(dir, &self.via);
        changed();
    }

    /// Makes a link to `target` in the private directory, as like to `link` as the caller's rights allow.
    fn make(
        &self,
        room: &PrivateDir,
        link: &Link,
        target: &[u8],
        changed: &mut dyn FnMut(),
    ) -> Result<Link, Reason> {
        let via = OsStr::from_bytes(&self.via);
        match unlinkat(room, via, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        symlinkat(OsStr::from_bytes(target), room, via)?;
        changed();
        let made = Link::open(room, &self.via)?.ok_or(Reason::Gone)?;
        // Without the right to give things away, and where links have no owners or times, the link is ours, as of today.
        let (uid, gid) = (link.stat.uid, link.stat.gid);
        if (uid, gid) != (made.stat.uid, made.stat.gid) {
            let flags = AtFlags::AT_EMPTY_PATH | AtFlags::AT_SYMLINK_NOFOLLOW;
            let _ = fchownat(&made.fd, "", Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), flags);
        }
        let _ = copy_attributes(&link.fd, &made.fd);
        // By its name, because kernels before 5.8 set no times by an `O_PATH` descriptor; the name is ours alone.
        let times = [self.atime, self.mtime].map(time_spec);
        let _ = utimensat(room, via, &times[0], &times[1], UtimensatFlags::NoFollowSymlink);
        Ok(made)
    }

    /// Lets the link `made`, which is in the private directory, trade places with `link`.
    fn trade(
        &self,
        dir: impl AsFd + Copy,
        room: &PrivateDir,
        link: &Link,
        made: &Link,
        changed: &mut dyn FnMut(),
    ) -> Result<(), Reason> {
        let (name, via) = (OsStr::from_bytes(&self.name), OsStr::from_bytes(&self.via));
        let trade = || renameat2(room, via, dir, name, libc::RENAME_EXCHANGE);
        let holds =
            |link: &Link| look(room, &self.via).is_ok_and(|stat| stat.is_some_and(|stat| link.is(&stat)));
        trade()?;
        changed();
        if holds(link) {
            return Ok(());
        }
        // Somebody has put something else there a moment ago. It goes back.
        if trade().is_ok() {
            changed();
            if holds(made) {
                return Err(Reason::Replaced);
            }
        }
        // The new link was moved away or replaced there, too: what is here belongs under its name, or at least beside it.
        let free = free_name(dir).unwrap_or_else(|_| self.name.clone());
        for to in [&self.name, &free] {
            if renameat2(room, via, dir, OsStr::from_bytes(to), libc::RENAME_NOREPLACE).is_ok() {
                changed();
                return Err(if to == &self.name { Reason::Replaced } else { Reason::Aside(free.clone()) });
            }
        }
        Err(self.strange())
    }
}

/// Gives the link `to` the extended attributes of `from`.
fn copy_attributes(from: &OwnedFd, to: &OwnedFd) -> Result<(), Errno> {
    let mut names = vec![0; xattr::list(from, &mut [])?];
    let len = xattr::list(from, &mut names)?;
    let names = names[..len].split(|&byte| byte == 0);
    for name in names.filter(|name| !name.is_empty() && !NEVER_COPIED.contains(name)).map(OsStr::from_bytes) {
        let mut value = vec![0; xattr::get(from, name, &mut [])?];
        let len = xattr::get(from, name, &mut value)?;
        // Labels that the system gives by itself cannot be set by everybody.
        let _ = xattr::set(to, name, &value[..len], 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    /// What is wanted of a link in `dir`, as it is now.
    fn relink(dir: &fs::File) -> Relink {
        let [name, via, old, new] = ["link", "via", "old", "new"].map(|word| word.as_bytes().to_vec());
        let (ino, owner, mtime) = match Link::open(dir, b"link") {
            Ok(Some(Link { stat, .. })) => (stat.ino, (stat.uid, stat.gid), stat.mtime),
            _ => Default::default(),
        };
        Relink { name, via, old, new, ino, atime: Time { seconds: 5, nanoseconds: 6 }, mtime, owner }
    }

    #[test]
    fn a_link_is_brought_to_either_target_from_wherever_it_was_left() {
        // What stands under the name, and what in the private directory if there is one, at each point of the way there and of
        // the way back.
        let states: [(&str, Option<Option<&str>>); 6] = [
            ("old", None),
            ("old", Some(None)),
            ("old", Some(Some("new"))),
            ("new", Some(Some("old"))),
            ("new", Some(None)),
            ("new", None),
        ];
        for (here, aside) in states {
            for way in [Way::Forward, Way::Backward] {
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
                assert_eq!(
                    relink.is_at_end(&fd, way),
                    Ok(way == Way::Forward && here == "new" && aside.is_none()
                        || way == Way::Backward && here == "old" && aside.is_none())
                );
                let what = format!("{here} {aside:?} {way:?}");
                relink.go(&fd, way, &mut || {}).unwrap();
                let expected = if way == Way::Forward { "new" } else { "old" };
                assert_eq!(
                    fs::read_link(dir.path().join("link")).unwrap().to_str(),
                    Some(expected),
                    "{what}"
                );
                assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{what}: nothing else is left");
                assert_eq!(relink.is_at_end(&fd, way), Ok(true), "{what}");
                relink.go(&fd, way, &mut || panic!("nothing more to do")).unwrap();
                let meta = fs::symlink_metadata(dir.path().join("link")).unwrap();
                let mtime = Time { seconds: meta.mtime(), nanoseconds: meta.mtime_nsec() as u32 };
                // One that the test has made has its own.
                let is_stranger = here == expected && here == "new";
                assert!(is_stranger || mtime == relink.mtime, "{what}");
                let is_original = here == "new" && aside == Some(Some("old")) && way == Way::Backward;
                assert!(!is_original || meta.ino() == relink.ino, "the first link comes back");
            }
        }
    }

    #[test]
    fn a_link_that_an_earlier_run_had_only_begun_is_not_taken_for_the_first_one() {
        let dir = tempfile::tempdir().unwrap();
        let fd = fs::File::open(dir.path()).unwrap();
        symlink("old", dir.path().join("link")).unwrap();
        let relink = relink(&fd);
        // File systems give the number of an inode that is gone to the next one that is made.
        PrivateDir::make(&fd, b"via").unwrap();
        fs::rename(dir.path().join("link"), dir.path().join("via/via")).unwrap();
        let now = TimeSpec::UTIME_NOW;
        utimensat(&fd, "via/via", &now, &now, UtimensatFlags::NoFollowSymlink).unwrap();
        symlink("new", dir.path().join("link")).unwrap();
        relink.go(&fd, Way::Backward, &mut || {}).unwrap();
        let meta = fs::symlink_metadata(dir.path().join("link")).unwrap();
        assert_eq!(Time { seconds: meta.mtime(), nanoseconds: meta.mtime_nsec() as u32 }, relink.mtime);
        assert_eq!(fs::read_link(dir.path().join("link")).unwrap().to_str(), Some("old"));
    }

    #[test]
    fn what_is_no_link_or_leads_elsewhere_or_is_another_stays() {
        let dir = tempfile::tempdir().unwrap();
        let fd = fs::File::open(dir.path()).unwrap();
        let link = dir.path().join("link");
        let forward = |relink: &Relink| relink.go(&fd, Way::Forward, &mut || {});
        assert_eq!(forward(&relink(&fd)), Err(Reason::Gone));
        symlink("elsewhere", &link).unwrap();
        assert_eq!(forward(&relink(&fd)), Err(Reason::Replaced));
        fs::remove_file(&link).unwrap();
        fs::write(&link, "file").unwrap();
        assert_eq!(forward(&relink(&fd)), Err(Reason::Replaced));
        fs::remove_file(&link).unwrap();
        symlink("old", &link).unwrap();
        let meant = relink(&fd);
        for other in [
            Relink { ino: meant.ino + 1, ..meant.clone() },
            Relink { owner: (meant.owner.0 + 1, meant.owner.1), ..meant.clone() },
            Relink { mtime: Time::default(), ..meant.clone() },
        ] {
            assert_eq!(forward(&other), Err(Reason::Replaced));
        }
        fs::write(dir.path().join("via"), "a stranger").unwrap();
        assert_eq!(forward(&meant), Err(Reason::Exposed));
        assert_eq!(fs::read_to_string(dir.path().join("via")).unwrap(), "a stranger");
        assert_eq!(fs::read_link(&link).unwrap().to_str(), Some("old"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_somebody_has_put_in_the_place_of_the_link_goes_back() {
        // Once when the new link is about to get its place, and once more when it is about to be taken back.
        for times in [1, 2] {
            let dir = tempfile::tempdir().unwrap();
            let fd = fs::File::open(dir.path()).unwrap();
            let path = |name: &str| dir.path().join(name);
            symlink("old", path("link")).unwrap();
            let relink = relink(&fd);
            let mut calls = 0;
            let result = relink.go(&fd, Way::Forward, &mut || {
                calls += 1;
                match calls {
                    // The directory is there, the link in it, and then both have changed places.
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
                (1, result) => assert_eq!(result, Err(Reason::Replaced)),
                (_, Err(Reason::Aside(name))) => {
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
}
