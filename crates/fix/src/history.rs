//! What a journal as a whole says about directories and links, for later runs.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;

use namegate_findings::records::RecordSorter;
use nix::fcntl::readlinkat;

use super::entry::{kind, look_up};
use super::group::RenameGroup;
use super::journal::{BatchDirectory, BatchEntry, JournalContents};
use super::new_names::{NewNames, push_new_name};
use super::plan::FileKind;
use super::plan::id_set::IdSet;
use super::roots::{OpenPlanDir, PlanRoots};

/// The history of directories and links.
#[derive(Debug, Default)]
pub struct History {
    /// The new names of directories.
    names: NewNames,
    /// All targets of links, by directory and by the name at that time.
    relinked: HashMap<(Vec<u8>, Vec<u8>), Vec<Vec<u8>>>,
}

impl History {
    /// Reads the history from a journal.
    pub fn read(contents: &JournalContents, file: &File) -> io::Result<Self> {
        let (mut history, mut names, mut ids) = (Self::default(), RecordSorter::default(), IdSet::default());
        for (at, _) in contents.batches.iter().enumerate().filter(|(_, state)| state.changes_paths) {
            let batch = contents.read_batch(file, at)?;
            for entry in batch.entries {
                let path = &batch.directories[entry.directory()].path;
                match entry {
                    BatchEntry::Rename(group) => {
                        for member in group.members {
                            if member.kind == FileKind::Directory {
                                push_new_name(&mut names, path, &member.old, member.id, &member.new)?;
                                ids.insert(member.id);
                            }
                        }
                    }
                    BatchEntry::Move(_) => {}
                    BatchEntry::Retarget(relink) => {
                        let targets = history.relinked.entry((path.0.clone(), relink.name.0)).or_default();
                        targets.extend([relink.old_target.0, relink.new_target.0]);
                    }
                }
            }
        }
        history.names = NewNames::new(names, ids)?;
        Ok(history)
    }

    /// Opens the roots of the journal, with the new names of directories.
    ///
    /// # Errors
    /// A root is on a read-only file system.
    pub fn open_roots(&mut self, contents: &JournalContents) -> io::Result<PlanRoots> {
        let header = &contents.header;
        PlanRoots::open(&header.roots, std::mem::take(&mut self.names), header.cross_file_systems)
            .map_err(|error| io::Error::new(io::ErrorKind::ReadOnlyFilesystem, error))
    }

    /// The group with the current inodes of links. A link that got another target is another inode, and is identified by one of
    /// its targets.
    pub(crate) fn with_current_links<'g>(
        &self,
        dir: &OpenPlanDir,
        directory: &BatchDirectory,
        group: &'g RenameGroup,
    ) -> Cow<'g, RenameGroup> {
        let mut current = Cow::Borrowed(group);
        if self.relinked.is_empty() {
            return current;
        }
        for (at, member) in group.members.iter().enumerate() {
            let targets = (member.kind == FileKind::Symlink)
                .then(|| self.relinked.get(&(directory.path.0.clone(), member.new.0.clone())))
                .flatten();
            let Some(targets) = targets else { continue };
            for name in [Some(&member.new), Some(&member.old), group.temp_name.as_ref()].into_iter().flatten()
            {
                let Ok(Some(stat)) = look_up(dir, name) else { continue };
                let target = readlinkat(dir, OsStr::from_bytes(name));
                let is_known =
                    target.is_ok_and(|target| targets.iter().any(|known| known == target.as_bytes()));
                if kind(&stat) == FileKind::Symlink && is_known {
                    current.to_mut().members[at].set_identity(&stat);
                    break;
                }
            }
        }
        current
    }
}
