//! A symbolic link that gets another target: a new link is made under a temporary name, both trade their names in one
//! system call, and the old one is removed. So there is always a link under the name, and it has a new inode then.
//!
//! How far that has come is told by the targets under both names, whoever was killed when, on the way there or back.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, readlinkat};
use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, symlinkat, unlinkat};

use super::entry::Reason;
use super::group::Way;
use crate::sys::open::beneath;
use crate::sys::rename::renameat2;
use crate::sys::stat::Time;
use crate::sys::xattr;

/// A new target for a symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relink {
    /// The name of the link.
    pub name: Vec<u8>,
    /// The name that is used for a moment.
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
    /// Its owner and its group.
    pub owner: (u32, u32),
}

/// A time as nix wants it.
pub(super) const fn time_spec(time: Time) -> TimeSpec {
    TimeSpec::new(time.seconds, time.nanoseconds as i64)
}

/// The target of the link `name`; `None` where there is nothing.
fn target(dir: impl AsFd, name: &[u8]) -> Result<Option<Vec<u8>>, Reason> {
    match readlinkat(dir, OsStr::from_bytes(name)) {
        Ok(target) => Ok(Some(target.as_bytes().to_vec())),
        Err(Errno::ENOENT) => Ok(None),
        // Not a link.
        Err(Errno::EINVAL) => Err(Reason::Replaced),
        Err(error) => Err(error.into()),
    }
}

impl Relink {
    /// Whether the link has the target at the end of the way already, and nothing is left to be cleaned up.
    ///
    /// # Errors
    /// The names cannot be looked at, or something else stands there.
    pub fn is_at_end(&self, dir: impl AsFd + Copy, way: Way) -> Result<bool, Reason> {
        let wanted = if way == Way::Forward { &self.new } else { &self.old };
        Ok(target(dir, &self.name)?.as_ref() == Some(wanted) && target(dir, &self.via)?.is_none())
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
        let (name, via) = (OsStr::from_bytes(&self.name), OsStr::from_bytes(&self.via));
        let here = target(dir, &self.name)?.ok_or(Reason::Gone)?;
        let aside = target(dir, &self.via)?;
        match aside {
            None if here == *wanted => return Ok(()),
            Some(aside) if here == *wanted && aside == *other => {}
            aside if here == *other && aside.as_ref().is_none_or(|aside| aside == wanted) => {
                if aside.is_none() {
                    self.make(dir, wanted)?;
                    changed();
                }
                if let Err(error) = renameat2(dir, via, dir, name, libc::RENAME_EXCHANGE) {
                    // What was only made for this is of no use to anybody.
                    let _ = unlinkat(dir, via, UnlinkatFlags::NoRemoveDir);
                    return Err(error.into());
                }
                changed();
                if target(dir, &self.via)?.as_ref() != Some(other) {
                    return Err(Reason::Replaced);
                }
            }
            _ => return Err(Reason::Replaced),
        }
        unlinkat(dir, via, UnlinkatFlags::NoRemoveDir)?;
        changed();
        Ok(())
    }

    /// Makes a link to `target` under the temporary name, as like to the old one as the caller's rights allow.
    fn make(&self, dir: impl AsFd + Copy, target: &[u8]) -> Result<(), Reason> {
        let via = OsStr::from_bytes(&self.via);
        symlinkat(OsStr::from_bytes(target), dir, via)?;
        let (uid, gid) = self.owner;
        let flags = AtFlags::AT_SYMLINK_NOFOLLOW;
        // Without the right to give things away, and where links have no owners or times, the link is ours, as of today.
        let _ = fchownat(dir, via, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), flags);
        let _ = self.copy_attributes(dir);
        let times = [self.atime, self.mtime].map(time_spec);
        let _ = utimensat(dir, via, &times[0], &times[1], UtimensatFlags::NoFollowSymlink);
        Ok(())
    }

    /// Gives the link under the temporary name the extended attributes of the other.
    fn copy_attributes(&self, dir: impl AsFd + Copy) -> Result<(), Errno> {
        let open = |name: &[u8]| beneath(dir, OsStr::from_bytes(name), OFlag::O_PATH, Mode::empty());
        let (from, to) = (open(&self.name)?, open(&self.via)?);
        let mut names = vec![0; xattr::list(&from, &mut [])?];
        let len = xattr::list(&from, &mut names)?;
        for name in
            names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()).map(OsStr::from_bytes)
        {
            let mut value = vec![0; xattr::get(&from, name, &mut [])?];
            let len = xattr::get(&from, name, &mut value)?;
            // Labels that the system gives by itself cannot be set by everybody.
            let _ = xattr::set(&to, name, &value[..len], 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn a_link_is_brought_to_either_target_from_wherever_it_was_left() {
        // What stands under the name and the temporary name, at each point of the way there and of the way back.
        let states: [(&str, Option<&str>); 4] =
            [("old", None), ("old", Some("new")), ("new", Some("old")), ("new", None)];
        for (here, aside) in states {
            for way in [Way::Forward, Way::Backward] {
                let dir = tempfile::tempdir().unwrap();
                symlink(here, dir.path().join("link")).unwrap();
                if let Some(aside) = aside {
                    symlink(aside, dir.path().join("via")).unwrap();
                }
                let fd = fs::File::open(dir.path()).unwrap();
                let relink = Relink {
                    ino: 0,
                    name: b"link".to_vec(),
                    via: b"via".to_vec(),
                    old: b"old".to_vec(),
                    new: b"new".to_vec(),
                    atime: Time { seconds: 5, nanoseconds: 6 },
                    mtime: Time { seconds: 7, nanoseconds: 8 },
                    owner: (0, 0),
                };
                relink.go(&fd, way, &mut || {}).unwrap();
                let expected = if way == Way::Forward { "new" } else { "old" };
                assert_eq!(fs::read_link(dir.path().join("link")).unwrap().to_str(), Some(expected));
                assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
                assert_eq!(relink.is_at_end(&fd, way), Ok(true));
                relink.go(&fd, way, &mut || panic!("nothing more to do")).unwrap();
                if aside.is_none() && here != expected {
                    let meta = fs::symlink_metadata(dir.path().join("link")).unwrap();
                    assert_eq!((meta.mtime(), meta.mtime_nsec()), (7, 8));
                }
            }
        }
    }

    #[test]
    fn what_is_no_link_or_leads_elsewhere_stays() {
        let dir = tempfile::tempdir().unwrap();
        let fd = fs::File::open(dir.path()).unwrap();
        let (atime, mtime) = (Time::default(), Time::default());
        let [name, via, old, new] = ["link", "via", "old", "new"].map(|word| word.as_bytes().to_vec());
        let relink = Relink { ino: 0, name, via, old, new, atime, mtime, owner: (0, 0) };
        assert_eq!(relink.go(&fd, Way::Forward, &mut || {}), Err(Reason::Gone));
        symlink("elsewhere", dir.path().join("link")).unwrap();
        assert_eq!(relink.go(&fd, Way::Forward, &mut || {}), Err(Reason::Replaced));
        fs::remove_file(dir.path().join("link")).unwrap();
        fs::write(dir.path().join("link"), "file").unwrap();
        assert_eq!(relink.go(&fd, Way::Forward, &mut || {}), Err(Reason::Replaced));
        fs::remove_file(dir.path().join("link")).unwrap();
        symlink("old", dir.path().join("link")).unwrap();
        fs::write(dir.path().join("via"), "a stranger").unwrap();
        assert_eq!(relink.go(&fd, Way::Forward, &mut || {}), Err(Reason::Replaced));
        assert_eq!(fs::read_to_string(dir.path().join("via")).unwrap(), "a stranger");
        assert_eq!(fs::read_link(dir.path().join("link")).unwrap().to_str(), Some("old"));
    }
}
