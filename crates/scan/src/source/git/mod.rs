//! Names in git repositories: the tree of a revision, the index, or every tree of every ref, read by `gix`.
//!
//! Objects are read and nothing is checked out, so that names that cannot be checked out are found. Only the repository's own
//! configuration is read, no program is started, and nothing is written. Missing and damaged objects (shallow and
//! partial clones, broken packs) are faults, and the rest is read.

mod history;
mod objects;
mod repository;
mod tree;

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use namegate_core::name::arena::Arena;
use namegate_findings::group::Groups;
use namegate_findings::location::{Container, Locations};
use namegate_findings::split::{self, Shape, TOO_DEEP};

use super::group::{GroupedSource, LIMIT};
use super::{DirectoryBatch, Fault, SiblingNames, Source, SourceEvent, VersionedDirectory, Visit};
use repository::Repository;

/// Names in a repository.
#[derive(Clone, Debug)]
pub struct Git {
    /// The repository, or a directory that contains it as `.git`.
    pub repository: PathBuf,
    /// The trees to read.
    pub what: GitSelection,
    /// A revision whose names are not checked; names that are checked can still collide with them.
    pub base: Option<String>,
}

/// The trees to read in a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitSelection {
    /// The tree of a revision (gitrevisions(7)).
    Revision(String),
    Index,
    /// The trees of all commits that a ref leads to. Each version of a directory is read once.
    All,
}

impl Source for Git {
    fn read(&self, visit: Visit<'_>) {
        if let Err(error) = self.read_all(visit) {
            let _ = visit(SourceEvent::Fault(self.fault(error)));
        }
    }
}

impl Git {
    fn read_all(&self, visit: Visit<'_>) -> io::Result<()> {
        let repository = Repository::open(&self.repository)?;
        let revision = match &self.what {
            GitSelection::Revision(revision) => revision,
            GitSelection::Index => "index",
            GitSelection::All => "all",
        };
        let container = Arc::new(Container::Git {
            repository: self.repository.as_os_str().as_bytes().to_vec(),
            revision: revision.as_bytes().to_vec(),
        });
        let base = match &self.base {
            Some(base) => Some(repository.tree_of(repository.resolve(base)?)?),
            None => None,
        };
        let fault = |error| SourceEvent::Fault(self.fault(error));
        // A stop by the visitor is no error.
        let _ = match &self.what {
            GitSelection::Revision(revision) => {
                let top = repository.tree_of(repository.resolve(revision)?)?;
                tree::read(&repository, top, base, &mut |item| match item {
                    Ok(mut batch) => {
                        batch.container = Some(Arc::clone(&container));
                        visit(SourceEvent::Directory(batch))
                    }
                    Err(error) => visit(fault(error)),
                })
            }
            GitSelection::Index => return self.read_index(&repository, &container, base, visit),
            GitSelection::All => {
                let tell = |error| visit(fault(error));
                let directory =
                    |directory: &mut dyn VersionedDirectory| visit(SourceEvent::History(directory));
                history::read(&repository, &container, &tell, &directory)
            }
        };
        Ok(())
    }

    fn read_index(
        &self,
        repository: &Repository,
        container: &Arc<Container>,
        base: Option<gix::ObjectId>,
        visit: Visit<'_>,
    ) -> io::Result<()> {
        let index = repository.index()?;
        let mut groups = Groups::new(Shape::Key, LIMIT);
        for entry in index.entries() {
            let path: &[u8] = entry.path(&index);
            if !split::takes(path) {
                let text = format!("the index has a path of {TOO_DEEP}");
                if visit(SourceEvent::Fault(self.fault(io::Error::other(text)))).is_break() {
                    return Ok(());
                }
                continue;
            }
            match entry.mode.is_submodule() {
                true => groups.add(&[path, b"/"].concat(), 0)?,
                false => groups.add(path, 0)?,
            }
            // A sparse index has a directory in place of everything below it.
            if entry.mode.is_sparse() {
                let fault = &mut |error| visit(SourceEvent::Fault(self.fault(error)));
                add_below(repository, path, entry.id, &mut groups, fault)?;
            }
        }
        let take = &mut |event: SourceEvent<'_>| {
            let Some(base) = base else { return visit(event) };
            let batch = match event {
                SourceEvent::Directory(batch) => batch,
                // Its names are compared with those of the base, which are in memory too.
                SourceEvent::Large(parts) => match parts.whole() {
                    Some(batch) => batch,
                    None => return ControlFlow::Continue(()),
                },
                event => return visit(event),
            };
            match beside_base(repository, base, batch) {
                Ok(Some(batch)) => visit(SourceEvent::Directory(batch)),
                Ok(None) => ControlFlow::Continue(()),
                Err(error) => visit(SourceEvent::Fault(self.fault(error))),
            }
        };
        let container = Some(Arc::clone(container));
        GroupedSource { container, locations: |_| Locations::None, encodings: None, top: Vec::new() }
            .hand_over_in_order(groups, take)
    }

    fn fault(&self, error: io::Error) -> Fault {
        Fault { path: self.repository.clone(), attempt: "read all of the repository", error }
    }
}

/// Adds the paths of everything below the directory at `path`, which has the tree `id`. Errors of objects go to `fault`.
fn add_below(
    repository: &Repository,
    path: &[u8],
    id: gix::ObjectId,
    groups: &mut Groups,
    fault: &mut dyn FnMut(io::Error) -> ControlFlow<()>,
) -> io::Result<()> {
    let mut added = Ok(());
    let _ = tree::read(repository, id, None, &mut |item| match item {
        Ok(batch) => {
            let dir = batch.dir.as_os_str().as_bytes();
            let mut below = batch.names.iter().map(|(_, name)| {
                let parts = [path, dir, name];
                let parts = parts.iter().map(|part| part.strip_suffix(b"/").unwrap_or(part));
                parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b'/')
            });
            added = below.try_for_each(|path| groups.add(&path, 0));
            if added.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        Err(error) => fault(error),
    });
    added
}

/// The names of `batch` that are not in the same directory below `base`; `None` if all are.
fn beside_base(
    repository: &Repository,
    base: gix::ObjectId,
    batch: DirectoryBatch,
) -> io::Result<Option<DirectoryBatch>> {
    let Some(old) = tree::names_at(repository, base, batch.dir.as_os_str().as_bytes())? else {
        return Ok(Some(batch));
    };
    Ok(without(batch, &old))
}

/// `batch` without the names in `old`, which become its siblings; `None` if nothing is left.
fn without(batch: DirectoryBatch, old: &HashSet<Vec<u8>>) -> Option<DirectoryBatch> {
    let (mut new, mut others) = (DirectoryBatch::new(batch.dir, batch.root_len), Arena::new());
    new.container = batch.container;
    new.names = batch.names.empty_like();
    for (at, name) in batch.names.iter() {
        if old.contains(name) {
            others.push(name).expect("it comes from an arena");
        } else {
            new.push_entry(name, Some(batch.names.kind_at(at)));
        }
    }
    new.siblings = SiblingNames::Compared(others);
    (new.count > 0).then_some(new)
}

/// An empty batch for the directory at `path`.
fn batch_at(path: &[u8]) -> DirectoryBatch {
    DirectoryBatch::new(PathBuf::from(OsStr::from_bytes(path)), 0)
}
