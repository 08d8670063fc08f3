//! Finds the symbolic links whose targets lead to or through renamed entries.
//!
//! A target is followed component by component, as the kernel does, while it stays inside the roots. A component changes if it is
//! the old name of the entry that it reaches. A target that has an old name and leads elsewhere, or nowhere, stays.

use std::cell::RefCell;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::BuildHasher;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use namegate_scan::progress::Observer;
use nix::errno::Errno;
use nix::fcntl::readlinkat;

use super::draft::PlanDraft;
use super::line_maker::report;
use super::root_set::{OpenedDirectory, ReadRoot, TargetEntry, below};
use crate::plan::{FileKind, Retarget, TargetPart, components, is_within, path_in, replace_components};

/// The limit of links in a path, as in the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;

impl PlanDraft {
    /// Finds the symbolic links whose targets change, deepest first. Breaks if the observer stops the search.
    pub fn find_retargets(&self, observer: &dyn Observer) -> io::Result<ControlFlow<(), Vec<Retarget>>> {
        let (mut found, mut renamed) = (Vec::new(), NameFilter::default());
        let mut linked = self.linked.cursor()?;
        if linked.next()?.is_none() {
            return Ok(ControlFlow::Continue(found));
        }
        self.each_old_name(&mut |name| renamed.add(name))?;
        if renamed.is_empty() {
            return Ok(ControlFlow::Continue(found));
        }
        let search = LinkSearch { draft: self, renamed, failure: RefCell::default() };
        // The first directory is the current record already.
        while let Some(record) = linked.record() {
            if observer.is_stopped() {
                return Ok(ControlFlow::Break(()));
            }
            let dir = record.dir;
            match search.in_directory(dir) {
                Ok(retargets) => found.extend(retargets),
                // It was removed meanwhile.
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {}
                Err(error) => report(dir, "find symbolic links in", error.into(), observer),
            }
            if let Some(failure) = search.failure.take() {
                return Err(failure);
            }
            linked.advance()?;
        }
        Ok(ControlFlow::Continue(found))
    }
}

/// Most of the names that are not in a set: a bit for each hash.
#[derive(Default)]
struct NameFilter {
    bits: Vec<u64>,
    hash: RandomState,
}

impl NameFilter {
    /// The number of bits, 8 MiB: among five million names one of fourteen others is not recognized.
    const BITS: u64 = 1 << 26;

    fn bit_of(&self, name: &[u8]) -> (usize, u64) {
        let bit = self.hash.hash_one(name) % Self::BITS;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    fn add(&mut self, name: &[u8]) {
        if self.bits.is_empty() {
            self.bits = vec![0; (Self::BITS / 64) as usize];
        }
        let (word, bit) = self.bit_of(name);
        self.bits[word] |= bit;
    }

    /// Reports whether the name may have been added.
    fn may_contain(&self, name: &[u8]) -> bool {
        let (word, bit) = self.bit_of(name);
        self.bits.get(word).is_some_and(|word| word & bit != 0)
    }
}

/// A renamed component of a target.
struct RenamedPart {
    component: usize,
    id: u64,
    new: Vec<u8>,
}

struct LinkSearch<'d> {
    draft: &'d PlanDraft,
    /// All old names: a target without any of them stays.
    renamed: NameFilter,
    /// Why a temporary file cannot be read.
    failure: RefCell<Option<io::Error>>,
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
            if !components(&old_target).any(|piece| self.renamed.may_contain(piece)) {
                continue;
            }
            let after = self.parts(dir, &old_target);
            if after.is_empty() {
                continue;
            }
            let entry = match opened.look_up(&name) {
                Ok(Some(entry)) if entry.kind == FileKind::Symlink => entry,
                Ok(_) | Err(Errno::ENOENT) => continue,
                Err(error) => return Err(error),
            };
            let directory = described.get_or_insert_with(|| Arc::new(opened.describe(dir)));
            let new: Vec<(usize, &[u8])> = after.iter().map(|part| (part.component, &*part.new)).collect();
            let new_target = replace_components(&old_target, &new);
            let after = after.iter().map(|part| TargetPart { rename: part.id, component: part.component });
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
        let below = below(&path_in(dir, name), &root.path);
        self.draft.exclude.matches(Path::new(OsStr::from_bytes(&below)), false)
    }

    /// The renamed components of `target`, the target of a link in the directory `dir`.
    fn parts(&self, dir: &[u8], target: &[u8]) -> Vec<RenamedPart> {
        let mut parts = Vec::new();
        let Some(root) = self.draft.root_set.root_of(dir) else { return parts };
        self.follow(root.as_real(dir), target, &mut MAX_LINKS.clone(), &mut Some(&mut parts));
        parts
    }

    /// Follows `target` from the real path `at`; `None` if it leads nowhere or out of the roots. Adds the renamed components of
    /// the target itself to `parts`.
    fn follow(
        &self,
        mut at: Vec<u8>,
        target: &[u8],
        links: &mut usize,
        parts: &mut Option<&mut Vec<RenamedPart>>,
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
            if let Some(parts) = parts.as_deref_mut()
                && let Some((id, new)) = self.rename_at(&at, name)
            {
                parts.push(RenamedPart { component, id, new });
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
        let roots = self.draft.root_set.all();
        if let Some(root) = self.root_of(path) {
            return root.look_up(path);
        }
        // A root that is a link, or a directory above a root.
        if let Some(link) = roots.iter().find(|root| root.path == path && root.real != path) {
            return Some(TargetEntry::Symlink(link.real.clone()));
        }
        if let Some(single) = roots.iter().find(|root| root.real == path) {
            return Some(if single.is_directory() { TargetEntry::Directory } else { TargetEntry::Other });
        }
        roots.iter().any(|root| is_within(&root.real, path)).then_some(TargetEntry::Directory)
    }

    /// The root directory above a real path.
    fn root_of(&self, path: &[u8]) -> Option<&ReadRoot> {
        let roots = self.draft.root_set.all().iter().filter(|root| root.is_directory());
        roots.filter(|root| is_within(path, &root.real)).max_by_key(|root| root.real.len())
    }

    /// The rename of `name` in the directory at a real path.
    fn rename_at(&self, dir: &[u8], name: &[u8]) -> Option<(u64, Vec<u8>)> {
        if !self.renamed.may_contain(name) {
            return None;
        }
        let find = |dir: &[u8]| match self.draft.find_rename(dir, name) {
            Ok(found) => found,
            Err(error) => {
                self.failure.borrow_mut().get_or_insert(error);
                None
            }
        };
        self.root_of(dir).and_then(|root| find(&root.as_planned(dir))).or_else(|| find(dir))
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
