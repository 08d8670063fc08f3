//! Makes the lines of one directory: looks up the entries that get new names.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use namegate_core::policy::EntryKind;
use namegate_scan::progress::Observer;
use namegate_scan::source::Fault;
use nix::errno::Errno;

use super::root_set::{OpenedDirectory, RootSet};
use crate::plan::{FileKind, InodeTime, PlanDirectory, SeenEntry, path_in};
use crate::plan_record::LineRecord;

/// The longest path of a directory, in bytes: a longer path does not fit into a line of a plan.
const MAX_PATH_BYTES: usize = 128 << 10;

/// Takes lines of one directory.
pub(super) type LineSink<'s> = dyn FnMut(&[LineRecord]) -> io::Result<()> + 's;

/// Makes the lines of one directory.
pub(super) struct LineMaker<'r> {
    /// `None` for members of an archive.
    opened: Option<OpenedDirectory>,
    directory: Arc<PlanDirectory>,
    observer: &'r dyn Observer,
}

impl<'r> LineMaker<'r> {
    /// Opens the directory `dir`; `None` if that fails, which is reported unless the directory is gone.
    pub(super) fn open(root_set: &RootSet, dir: &[u8], observer: &'r dyn Observer) -> Option<Self> {
        if dir.len() > MAX_PATH_BYTES {
            let error = io::Error::other("the path is too long for a plan");
            report(dir, "plan renames in", error, observer);
            return None;
        }
        if root_set.is_archive {
            let directory = Arc::new(PlanDirectory { path: dir.to_vec(), inode: 0, handle: None });
            return Some(Self { opened: None, directory, observer });
        }
        match root_set.open_directory(dir) {
            Ok(opened) => {
                let directory = Arc::new(opened.describe(dir));
                Some(Self { opened: Some(opened), directory, observer })
            }
            Err(error) => {
                report_unopened(dir, error, observer);
                None
            }
        }
    }

    /// The directory of the lines.
    pub(super) fn directory(&self) -> Arc<PlanDirectory> {
        Arc::clone(&self.directory)
    }

    /// Whether the plan is no longer wanted.
    pub(super) fn is_stopped(&self) -> bool {
        self.observer.is_stopped()
    }

    /// Looks up the entry `name`, which is to get the name `new`, or says why it keeps its name; `None` if it is gone or cannot be
    /// looked up.
    pub(super) fn look_up(
        &self,
        name: &[u8],
        kind: EntryKind,
        new: &str,
    ) -> Option<Result<SeenEntry, String>> {
        let Some(opened) = &self.opened else {
            let kind = if kind == EntryKind::Directory { FileKind::Directory } else { FileKind::File };
            return Some(Ok(SeenEntry { inode: 0, ctime: InodeTime::default(), kind, birth: None }));
        };
        match opened.look_up(name) {
            Ok(Some(entry)) => {
                let obstacle = new.contains('/').then(|| opened.obstacle(name, &entry, new)).flatten();
                Some(obstacle.map_or(Ok(entry), Err))
            }
            Ok(None) => Some(Err("a file system is mounted on it; unmount it first".to_owned())),
            Err(Errno::ENOENT) => None,
            Err(error) => {
                let path = path_in(&self.directory.path, name);
                report(&path, "read the metadata of", error.into(), self.observer);
                None
            }
        }
    }
}

/// Reports that the directory `dir` cannot be opened, unless it was removed or replaced.
pub(super) fn report_unopened(dir: &[u8], error: Errno, observer: &dyn Observer) {
    if !matches!(error, Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) {
        report(dir, "open the directory", error.into(), observer);
    }
}

pub(super) fn report(path: &[u8], attempt: &'static str, error: io::Error, observer: &dyn Observer) {
    observer.problem(&Fault { path: PathBuf::from(OsStr::from_bytes(path)), attempt, error });
}
