//! What a journal as a whole says of directories and links, for those who come later.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

use nix::fcntl::readlinkat;

use super::entry::{Identity, kind, look};
use super::group::Group;
use super::journal::{Entry, Place, Reading};
use super::plan::{Kind, Root, path_in};
use super::relink::Relink;
use super::roots::{Dir, Names, Roots};

/// What became of directories and links.
#[derive(Debug, Default)]
pub struct History {
    /// What directories were renamed to.
    pub names: Names,
    /// The targets that links had and got, by directory and name at that time.
    relinked: HashMap<(Vec<u8>, Vec<u8>), Vec<Vec<u8>>>,
    /// The old names of links, by directory and new name.
    former: HashMap<(Vec<u8>, Vec<u8>), Vec<u8>>,
}

impl History {
    /// That of a journal.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(reading: &Reading, file: &File) -> io::Result<Self> {
        let mut history = Self::default();
        for at in 0..reading.batches.len() {
            let batch = reading.batch(file, at)?;
            for (place, entry) in batch.entries {
                let path = &batch.places[place].path;
                match entry {
                    Entry::Rename(group) => {
                        let is_directory =
                            |member: &super::group::Member| member.what.kind == Kind::Directory;
                        for member in group.members.into_iter().filter(is_directory) {
                            history.names.insert(path_in(path, &member.old), member.new);
                        }
                    }
                    Entry::Retarget(relink) => {
                        let targets = history.relinked.entry((path.clone(), relink.name)).or_default();
                        targets.extend([relink.old, relink.new]);
                    }
                }
            }
        }
        Ok(history)
    }

    /// The roots of the journal, with the directories as they are called after what it says.
    ///
    /// # Errors
    /// One is on a file system that is mounted read-only.
    pub fn roots(&self, reading: &Reading) -> io::Result<Roots> {
        let root = |root: &super::journal::Root| Root { path: root.path.0.clone(), inode: root.inode };
        let roots: Vec<Root> = reading.header.roots.iter().map(root).collect();
        Roots::open(&roots, self.names.clone(), Names::new(), reading.header.cross_file_systems)
            .map_err(|error| io::Error::new(io::ErrorKind::ReadOnlyFilesystem, error))
    }

    /// Whether a link has the name that it had before it was renamed, with the target that it had then: of both changes
    /// nothing is left.
    pub fn is_untouched(&self, dir: &Dir, place: &Place, relink: &Relink) -> bool {
        let former = self.former.get(&(place.path.clone(), relink.name.clone()));
        let target = former.and_then(|name| readlinkat(dir, OsStr::from_bytes(name)).ok());
        target.is_some_and(|target| target.as_bytes() == relink.old)
    }

    /// The group with the inodes that links have got since, because they were given other targets: such a link is known by
    /// having one of those targets.
    pub fn up_to_date<'g>(&self, dir: &Dir, place: &Place, group: &'g Group) -> Cow<'g, Group> {
        let mut made = Cow::Borrowed(group);
        if self.relinked.is_empty() {
            return made;
        }
        for at in 0..group.members.len() {
            let member = &group.members[at];
            let Some(targets) = (member.what.kind == Kind::Symlink)
                .then(|| self.relinked.get(&(place.path.clone(), member.new.clone())))
                .flatten()
            else {
                continue;
            };
            for name in [Some(&member.new), Some(&member.old), group.via.as_ref()].into_iter().flatten() {
                let Ok(Some(stat)) = look(dir, name) else { continue };
                let target = readlinkat(dir, OsStr::from_bytes(name));
                let is_one =
                    target.is_ok_and(|target| targets.iter().any(|known| known == target.as_bytes()));
                if kind(&stat) == Kind::Symlink && is_one {
                    made.to_mut().members[at].what = Identity::of(&stat);
                    break;
                }
            }
        }
        made
    }
}
