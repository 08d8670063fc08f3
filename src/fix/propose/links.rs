//! Finds the symbolic links whose targets lead to or through renamed entries.
//!
//! A target is followed component by component, as the kernel does, while it stays inside the roots. A component changes if it is
//! the old name of the entry that it reaches. A target that has an old name and leads elsewhere, or nowhere, stays.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::readlinkat;

use super::PlanDraft;
use super::root_set::{OpenedDirectory, ReadRoot, TargetEntry};
use crate::fix::plan::{
    EntryKind, Rename, Retarget, TargetPart, components, is_within, path_in, replace_components,
};
use crate::progress::Observer;
use crate::source::Fault;

/// The limit of links in a path, as in the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;

pub(super) fn find_retargets(draft: &PlanDraft, observer: &dyn Observer) -> ControlFlow<(), Vec<Retarget>> {
    let renames = draft.directories.iter().flat_map(|planned| &planned.renames);
    let renamed: HashSet<&[u8]> = renames.map(|rename| &*rename.old).collect();
    let mut found = Vec::new();
    if renamed.is_empty() {
        return ControlFlow::Continue(found);
    }
    let search = LinkSearch { draft, renamed };
    for dir in &draft.linked {
        if observer.is_stopped() {
            return ControlFlow::Break(());
        }
        match search.in_directory(dir) {
            Ok(retargets) => found.extend(retargets),
            // It was removed meanwhile.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
            Err(error) => observer.problem(&Fault {
                path: PathBuf::from(OsStr::from_bytes(dir)),
                attempt: "find symbolic links in",
                error: io::Error::from(error),
            }),
        }
    }
    ControlFlow::Continue(found)
}

struct LinkSearch<'d> {
    draft: &'d PlanDraft,
    /// All old names: a target without any of them stays.
    renamed: HashSet<&'d [u8]>,
}

impl LinkSearch<'_> {
    fn in_directory(&self, dir: &[u8]) -> Result<Vec<Retarget>, Errno> {
        let opened = self.draft.root_set.open_directory(dir)?;
        let (mut found, mut described) = (Vec::new(), None);
        for name in links_in(&opened)? {
            if self.is_excluded(dir, &name) {
                continue;
            }
            let old_target = match readlinkat(&opened.fd, OsStr::from_bytes(&name)) {
                Ok(target) => target.into_vec(),
                // It was removed, or is not a link: not every file system lists types.
                Err(Errno::ENOENT | Errno::EINVAL) => continue,
                Err(error) => return Err(error),
            };
            if !components(&old_target).any(|piece| self.renamed.contains(piece)) {
                continue;
            }
            let after = self.parts(dir, &old_target);
            if after.is_empty() {
                continue;
            }
            let entry = match opened.look_up(&name) {
                Ok(Some(entry)) if entry.kind == EntryKind::Symlink => entry,
                Ok(_) | Err(Errno::ENOENT) => continue,
                Err(error) => return Err(error),
            };
            let directory = described.get_or_insert_with(|| Arc::new(opened.describe(dir)));
            let new: Vec<(usize, &[u8])> =
                after.iter().map(|(component, rename)| (*component, rename.new.as_bytes())).collect();
            let new_target = replace_components(&old_target, &new);
            let after = after.iter().map(|&(component, rename)| TargetPart { rename: rename.id, component });
            found.push(Retarget {
                directory: directory.clone(),
                name,
                entry,
                old_target,
                new_target,
                after: after.collect(),
            });
        }
        Ok(found)
    }

    fn is_excluded(&self, dir: &[u8], name: &[u8]) -> bool {
        let Some(root) = self.draft.root_set.root_of(dir).filter(|_| !self.draft.exclude.is_empty()) else {
            return false;
        };
        let path = path_in(dir, name);
        let below = components(&path).skip(components(&root.path).count());
        let below = below.fold(Vec::new(), |way, name| match way.is_empty() {
            true => name.to_vec(),
            false => path_in(&way, name),
        });
        self.draft.exclude.matches(Path::new(OsStr::from_bytes(&below)), false)
    }

    /// The renamed components of `target`, the target of a link in the directory `dir`.
    fn parts(&self, dir: &[u8], target: &[u8]) -> Vec<(usize, &Rename)> {
        let mut parts = Vec::new();
        let places = self.draft.root_set.all();
        let Some(place) = places.iter().find(|place| is_within(dir, &place.root.path)) else { return parts };
        let below = components(dir).skip(components(&place.root.path).count());
        let real = below.fold(place.real.clone(), |path, name| path_in(&path, name));
        self.follow(real, target, &mut MAX_LINKS.clone(), &mut Some(&mut parts));
        parts
    }

    /// Follows `target` from the real path `at`; `None` if it leads nowhere or out of the roots. Adds the renamed components of
    /// the target itself to `parts`.
    fn follow<'s>(
        &'s self,
        mut at: Vec<u8>,
        target: &[u8],
        links: &mut usize,
        parts: &mut Option<&mut Vec<(usize, &'s Rename)>>,
    ) -> Option<Vec<u8>> {
        if target.starts_with(b"/") {
            at = b"/".to_vec();
        }
        let count = components(target).count();
        for (component, name) in components(target).enumerate() {
            match name {
                b"." => continue,
                b".." => {
                    at = parent(&at);
                    continue;
                }
                _ => {}
            }
            let next = path_in(&at, name);
            if let (Some(rename), Some(parts)) = (self.rename_at(&at, name), parts.as_deref_mut()) {
                parts.push((component, rename));
            }
            match self.look_up(&next)? {
                TargetEntry::Directory => at = next,
                TargetEntry::Other => return (component + 1 == count).then_some(next),
                TargetEntry::Symlink(_) if component + 1 == count => return Some(next),
                TargetEntry::Symlink(onwards) => {
                    *links = links.checked_sub(1)?;
                    at = self.follow(at, &onwards, links, &mut None)?;
                    // It may lead to another link.
                    while let TargetEntry::Symlink(onwards) = self.look_up(&at)? {
                        *links = links.checked_sub(1)?;
                        at = self.follow(parent(&at), &onwards, links, &mut None)?;
                    }
                }
            }
        }
        Some(at)
    }

    /// The entry at a real path; `None` if it does not exist, or lies outside of the roots and leads to none.
    fn look_up(&self, path: &[u8]) -> Option<TargetEntry> {
        let places = self.draft.root_set.all();
        if let Some(root) = self.root_of(path) {
            return root.look_up(path);
        }
        // A root that is a link, or a directory above a root.
        if let Some(link) = places.iter().find(|place| place.root.path == path && place.real != path) {
            return Some(TargetEntry::Symlink(link.real.clone()));
        }
        if let Some(single) = places.iter().find(|place| place.real == path) {
            return Some(if single.is_directory() { TargetEntry::Directory } else { TargetEntry::Other });
        }
        places.iter().any(|place| is_within(&place.real, path)).then_some(TargetEntry::Directory)
    }

    /// The root directory above a real path.
    fn root_of(&self, path: &[u8]) -> Option<&ReadRoot> {
        let places = self.draft.root_set.all().iter().filter(|place| place.is_directory());
        places.filter(|place| is_within(path, &place.real)).max_by_key(|place| place.real.len())
    }

    /// The rename of `name` in the directory at a real path.
    fn rename_at(&self, dir: &[u8], name: &[u8]) -> Option<&Rename> {
        let of_tree =
            self.root_of(dir).and_then(|place| self.draft.find_rename(&place.as_planned(dir), name));
        of_tree.or_else(|| self.draft.find_rename(dir, name))
    }
}

/// The parent of a real path.
fn parent(path: &[u8]) -> Vec<u8> {
    match memchr::memrchr(b'/', path) {
        None | Some(0) => b"/".to_vec(),
        Some(at) => path[..at].to_vec(),
    }
}

/// The sorted names of entries in a directory that are symbolic links or of unknown type.
fn links_in(dir: &OpenedDirectory) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    dir.for_each_entry(&mut |entry| {
        if matches!(entry.kind, libc::DT_LNK | libc::DT_UNKNOWN) {
            names.push(entry.name.as_bytes().to_vec());
        }
    })?;
    names.sort_unstable();
    Ok(names)
}
