//! The symbolic links that lead to or through something that is renamed.
//!
//! A target is followed from component to component, the way the kernel would, and only where it stays in the roots; it is
//! changed where one of its own components is the old name of an entry that it reaches. A target that spells an
//! old name and leads elsewhere, or nowhere, stays as it is.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::readlinkat;

use super::places::{Opened, Place, Seen, is_within};
use super::{Draft, Onlooker};
use crate::fix::plan::{Kind, Part, Rename, Retarget, components, path_in, replaced};
use crate::source::Fault;

/// So many links on the way are followed, as the kernel does (path_resolution(7)).
const MAX_LINKS: usize = 40;

pub(super) fn retargets(
    draft: &Draft,
    onlooker: &dyn Onlooker,
    take: &mut dyn FnMut(Retarget) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let renames = draft.directories.iter().flat_map(|planned| &planned.renames);
    let renamed: HashSet<&[u8]> = renames.map(|rename| &*rename.old).collect();
    if renamed.is_empty() {
        return ControlFlow::Continue(());
    }
    let search = Search { draft, renamed };
    for dir in &draft.linked {
        if onlooker.is_stopped() {
            return ControlFlow::Break(());
        }
        match search.in_directory(dir) {
            Ok(found) => found.into_iter().try_for_each(&mut *take)?,
            // It was removed meanwhile.
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
            Err(error) => onlooker.fault(&Fault {
                path: PathBuf::from(OsStr::from_bytes(dir)),
                attempt: "look for symbolic links in",
                error: io::Error::from(error),
            }),
        }
    }
    ControlFlow::Continue(())
}

struct Search<'d> {
    draft: &'d Draft,
    /// All old names: a target without any of them needs no closer look.
    renamed: HashSet<&'d [u8]>,
}

impl Search<'_> {
    fn in_directory(&self, dir: &[u8]) -> Result<Vec<Retarget>, Errno> {
        let opened = self.draft.places.open(dir)?;
        let (mut found, mut described) = (Vec::new(), None);
        for name in links_in(&opened)? {
            if self.is_excluded(dir, &name) {
                continue;
            }
            let old_target = match readlinkat(&opened.fd, OsStr::from_bytes(&name)) {
                Ok(target) => target.into_vec(),
                // It was removed, or is no link: not every file system tells types.
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
            let identity = match opened.identity(&name) {
                Ok(Some(identity)) if identity.kind == Kind::Symlink => identity,
                Ok(_) | Err(Errno::ENOENT) => continue,
                Err(error) => return Err(error),
            };
            let directory = described.get_or_insert_with(|| Arc::new(opened.directory(dir)));
            let new: Vec<(usize, &[u8])> =
                after.iter().map(|(component, rename)| (*component, rename.new.as_bytes())).collect();
            let new_target = replaced(&old_target, &new);
            let after = after.iter().map(|&(component, rename)| Part { rename: rename.id, component });
            found.push(Retarget {
                directory: directory.clone(),
                name,
                identity,
                old_target,
                new_target,
                after: after.collect(),
            });
        }
        Ok(found)
    }

    fn is_excluded(&self, dir: &[u8], name: &[u8]) -> bool {
        let Some(root) = self.draft.places.root_of(dir).filter(|_| !self.draft.exclude.is_empty()) else {
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

    /// The components of `target`, that of a link in the directory `dir`, which are renamed.
    fn parts(&self, dir: &[u8], target: &[u8]) -> Vec<(usize, &Rename)> {
        let mut parts = Vec::new();
        let places = self.draft.places.all();
        let Some(place) = places.iter().find(|place| is_within(dir, &place.root.path)) else { return parts };
        let below = components(dir).skip(components(&place.root.path).count());
        let real = below.fold(place.real.clone(), |path, name| path_in(&path, name));
        self.follow(real, target, &mut MAX_LINKS.clone(), &mut Some(&mut parts));
        parts
    }

    /// Where `target` leads from `at`, a real path; `None` if nowhere, or out of the roots. Of the target's own components
    /// those that are renamed are put into `parts`.
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
                    at = above(&at);
                    continue;
                }
                _ => {}
            }
            let next = path_in(&at, name);
            if let (Some(rename), Some(parts)) = (self.rename_at(&at, name), parts.as_deref_mut()) {
                parts.push((component, rename));
            }
            match self.look(&next)? {
                Seen::Directory => at = next,
                Seen::Other => return (component + 1 == count).then_some(next),
                Seen::Symlink(_) if component + 1 == count => return Some(next),
                Seen::Symlink(onwards) => {
                    *links = links.checked_sub(1)?;
                    at = self.follow(at, &onwards, links, &mut None)?;
                    // What it leads to may be a link again.
                    while let Seen::Symlink(onwards) = self.look(&at)? {
                        *links = links.checked_sub(1)?;
                        at = self.follow(above(&at), &onwards, links, &mut None)?;
                    }
                }
            }
        }
        Some(at)
    }

    /// What stands at a real path; `None` if that is nothing, or lies outside of the roots and does not lead to one.
    fn look(&self, path: &[u8]) -> Option<Seen> {
        let places = self.draft.places.all();
        if let Some(place) = self.place_of(path) {
            return place.look(path);
        }
        // A root that is a link, or what leads to a root.
        if let Some(link) = places.iter().find(|place| place.root.path == path && place.real != path) {
            return Some(Seen::Symlink(link.real.clone()));
        }
        if let Some(single) = places.iter().find(|place| place.real == path) {
            return Some(if single.is_directory() { Seen::Directory } else { Seen::Other });
        }
        places.iter().any(|place| is_within(&place.real, path)).then_some(Seen::Directory)
    }

    /// The directory root that a real path lies in.
    fn place_of(&self, path: &[u8]) -> Option<&Place> {
        let places = self.draft.places.all().iter().filter(|place| place.is_directory());
        places.filter(|place| is_within(path, &place.real)).max_by_key(|place| place.real.len())
    }

    /// The rename of `name` in the directory at a real path.
    fn rename_at(&self, dir: &[u8], name: &[u8]) -> Option<&Rename> {
        let of_tree = self.place_of(dir).and_then(|place| self.draft.rename_of(&place.as_planned(dir), name));
        of_tree.or_else(|| self.draft.rename_of(dir, name))
    }
}

/// The directory that holds a real path.
fn above(path: &[u8]) -> Vec<u8> {
    match memchr::memrchr(b'/', path) {
        None | Some(0) => b"/".to_vec(),
        Some(at) => path[..at].to_vec(),
    }
}

/// The names of the symbolic links in a directory, and of what may be one, in order.
fn links_in(dir: &Opened) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    dir.each(&mut |entry| {
        if matches!(entry.kind, libc::DT_LNK | libc::DT_UNKNOWN) {
            names.push(entry.name.as_bytes().to_vec());
        }
    })?;
    names.sort_unstable();
    Ok(names)
}
