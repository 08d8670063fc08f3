//! Read-only access to a repository: its objects, revisions, refs and index.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::objs::{CommitRefIter, Find, Kind, TagRefIter};
use gix::odb::pack::cache::lru::MemoryCappedHashmap;
use namegate_core::name::display::display;

pub(super) struct Repository {
    repo: gix::Repository,
    /// Where objects are looked up before the repository's own directory.
    first: Vec<gix::odb::Handle>,
}

/// The most bytes of objects that are kept because others are stored as differences from them, for each thread.
pub(super) const MAX_BASES: usize = 24 << 20;

/// Larger objects are not read into memory: a tree of ten million entries has half this size.
pub(super) const MAX_BYTES: usize = 1 << 30;

impl Repository {
    /// Opens the repository at `path`, or at `.git` in it.
    ///
    /// During a push, the new objects are in a separate directory (git-receive-pack(1)), which git names in the environment.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let limit = format!("gitoxide.objects.allocLimit={MAX_BYTES}");
        let options = gix::open::Options::isolated().config_overrides([limit]);
        let mut repo = gix::open_opts(path, options).map_err(failure)?;
        repo.objects.set_pack_cache(|| Box::new(MemoryCappedHashmap::new(MAX_BASES)));
        let mut dirs: Vec<PathBuf> =
            env::var_os("GIT_OBJECT_DIRECTORY").map(PathBuf::from).into_iter().collect();
        if let Some(more) = env::var_os("GIT_ALTERNATE_OBJECT_DIRECTORIES") {
            dirs.extend(env::split_paths(&more));
        }
        let at = |dir: &PathBuf| gix::odb::at(dir, repo.object_hash());
        let first = dirs.iter().filter(|dir| dir.is_dir()).map(at).collect::<io::Result<_>>()?;
        Ok(Self { repo, first })
    }

    /// Reads an object.
    pub(super) fn find(&self, id: &ObjectId, buffer: &mut Vec<u8>) -> io::Result<Kind> {
        for objects in &self.first {
            if let Some(found) = objects.try_find(id, buffer).map_err(|error| unread(id, error))? {
                return Ok(found.kind);
            }
        }
        match self.repo.objects.try_find(id, buffer).map_err(|error| unread(id, error))? {
            Some(found) => Ok(found.kind),
            None => Err(io::Error::other(format!("the object {id} is missing"))),
        }
    }

    /// The same repository for another thread, which shares the files of packs.
    pub(super) fn for_thread(&self) -> Self {
        Self { repo: self.repo.clone(), first: self.first.clone() }
    }

    pub(super) fn object_dirs(&self) -> Vec<PathBuf> {
        let stores =
            self.first.iter().map(|objects| objects.store_ref()).chain([self.repo.objects.store_ref()]);
        stores
            .flat_map(|store| {
                // Errors are those of the objects that are not found then.
                let alternates = store.alternate_db_paths().unwrap_or_default();
                [store.path().to_owned()].into_iter().chain(alternates)
            })
            .collect()
    }

    /// The objects in whose place others are read (git-replace(1)).
    pub(super) fn replaced(&self) -> impl Iterator<Item = ObjectId> {
        self.repo.objects.store_ref().replacements().map(|(id, _)| id)
    }

    pub(super) fn hash(&self) -> gix::hash::Kind {
        self.repo.object_hash()
    }

    /// Resolves a revision (gitrevisions(7)).
    pub(super) fn resolve(&self, revision: &str) -> io::Result<ObjectId> {
        // A push names new objects by id, and gix does not know yet that they exist.
        if revision.len() == self.hash().len_in_hex()
            && let Ok(id) = ObjectId::from_hex(revision.as_bytes())
        {
            return Ok(id);
        }
        let found = self.repo.rev_parse_single(revision).map(gix::Id::detach);
        found.map_err(|error| {
            let revision = display(revision.as_bytes());
            io::Error::other(format!("`{revision}` is not a revision: {}", failure(error)))
        })
    }

    /// Finds the tree of a commit, a tag or a tree.
    pub(super) fn tree_of(&self, mut id: ObjectId) -> io::Result<ObjectId> {
        let mut buffer = Vec::new();
        loop {
            id = match self.find(&id, &mut buffer)? {
                Kind::Tree => return Ok(id),
                Kind::Blob => {
                    return Err(io::Error::other(format!("the object {id} is a file and contains no names")));
                }
                Kind::Commit => CommitRefIter::from_bytes(&buffer, self.hash())
                    .tree_id()
                    .map_err(|error| unread(&id, error))?,
                Kind::Tag => TagRefIter::from_bytes(&buffer, self.hash())
                    .target_id()
                    .map_err(|error| unread(&id, error))?,
            };
        }
    }

    /// The objects of all refs and of HEAD; an error for each that cannot be resolved.
    pub(super) fn refs(&self) -> io::Result<Vec<io::Result<ObjectId>>> {
        let mut found = Vec::new();
        for reference in self.repo.references().map_err(failure)?.all().map_err(failure)? {
            found.push(match reference.map_err(failure) {
                Ok(mut reference) => {
                    let name = display(reference.name().as_bstr()).to_string();
                    let error = |error| {
                        io::Error::other(format!("the ref {name} cannot be resolved: {}", failure(error)))
                    };
                    match reference.try_id() {
                        Some(id) => Ok(id.detach()),
                        None => reference.peel_to_id().map(gix::Id::detach).map_err(error),
                    }
                }
                Err(error) => Err(error),
            });
        }
        // In a new repository HEAD may point to a branch without commits: ignore it.
        if let Ok(head) = self.repo.head_id() {
            found.push(Ok(head.detach()));
        }
        Ok(found)
    }

    /// The commits whose parents a shallow clone does not have.
    pub(super) fn shallow(&self) -> io::Result<Vec<ObjectId>> {
        let commits = self.repo.shallow_commits().map_err(failure)?;
        Ok(commits.map(|commits| commits.iter().copied().collect()).unwrap_or_default())
    }

    /// The index. During a commit git names it in the environment.
    pub(super) fn index(&self) -> io::Result<gix::index::File> {
        let named = env::var_os("GIT_INDEX_FILE").filter(|file| file != OsStr::new("")).map(PathBuf::from);
        let file = named.unwrap_or_else(|| self.repo.index_path());
        let options = gix::index::decode::Options { thread_limit: Some(1), ..Default::default() };
        gix::index::File::at_or_default(file, self.hash(), false, options).map_err(failure)
    }
}

/// An error of gix. Its text may quote the repository, so it is escaped.
fn failure(error: impl fmt::Display) -> io::Error {
    io::Error::other(display(error.to_string().as_bytes()).to_string())
}

/// The error for an object that cannot be read.
pub(super) fn unread(id: &ObjectId, error: impl fmt::Display) -> io::Error {
    io::Error::other(format!("the object {id} is damaged: {}", failure(error)))
}
