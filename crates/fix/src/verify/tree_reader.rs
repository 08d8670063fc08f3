//! Reads a tree into records.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use namegate_findings::records::{DirectoryOrder, EntryRecord, RecordSorter, SortedRecords};
use namegate_scan::progress::Observer;
use namegate_scan::source::scope::Scope;
use namegate_scan::source::tree::Tree;
use namegate_scan::source::{DirectoryBatch, Fault, Source, SourceEvent};
use namegate_sys::{open, stat};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open as open_path, readlinkat};
use nix::sys::stat::Mode;
use parking_lot::Mutex;

use super::copy_difference::VerifyRequest;
use super::entry_record::{Side, TreeEntry, loose_key, split_path};

/// Bytes of records in memory.
const LIMIT: usize = 64 << 20;

/// Paths that could not be read, of which each is remembered.
const MAX_UNREAD: usize = 100_000;

/// The longest part of a path that is opened at once.
const PART: usize = 3000;

/// The open roots of both trees.
pub(super) struct Roots([OwnedFd; 2]);

impl Roots {
    /// Opens the directory at `path` below a root, through no link; the descriptor is one of `O_PATH`.
    pub fn open(&self, side: Side, path: &[u8]) -> Result<OwnedFd, Errno> {
        let mut rest = path;
        let mut dir = open::directory(&self.0[side as usize], OsStr::new("."), true)?;
        while !rest.is_empty() {
            let end = match rest.get(..PART) {
                Some(part) => memchr::memrchr(b'/', part).unwrap_or(rest.len()),
                None => rest.len(),
            };
            dir = open::directory(&dir, OsStr::from_bytes(&rest[..end]), true)?;
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        Ok(dir)
    }
}

/// What could not be read: the loose keys of the paths, and how much it was.
#[derive(Debug, Default)]
pub(super) struct Unread {
    paths: HashSet<(Side, Vec<u8>)>,
    pub problems: u64,
}

impl Unread {
    /// Reports whether the entry at `path` may be there, because it or a directory above it could not be read.
    pub fn may_have(&self, side: Side, path: &[u8]) -> bool {
        if self.paths.is_empty() {
            return false;
        }
        let key = loose_key(path);
        let ends = memchr::memchr_iter(b'/', &key).chain([key.len(), 0]);
        ends.into_iter().any(|end| self.paths.contains(&(side, key[..end].to_vec())))
    }
}

/// Reads both trees.
pub(super) struct TreeRecords<'r> {
    request: &'r VerifyRequest,
    observer: &'r dyn Observer,
    roots: Roots,
    sorter: Mutex<RecordSorter>,
    unread: Mutex<Unread>,
    failure: Mutex<Option<io::Error>>,
}

impl<'r> TreeRecords<'r> {
    pub fn new(request: &'r VerifyRequest, observer: &'r dyn Observer) -> io::Result<Self> {
        let open = |path: &Path| {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
            open_path(path, flags, Mode::empty()).map_err(|error| {
                let path = namegate_core::name::display::shown(path);
                io::Error::new(io::Error::from(error).kind(), format!("cannot read {path}: {error}"))
            })
        };
        Ok(Self {
            roots: Roots([open(&request.source)?, open(&request.target)?]),
            request,
            observer,
            sorter: Mutex::new(RecordSorter::new(DirectoryOrder::Bytes, LIMIT)),
            unread: Mutex::default(),
            failure: Mutex::default(),
        })
    }

    pub fn finish(self) -> io::Result<(Roots, Unread, SortedRecords)> {
        match self.failure.into_inner() {
            Some(failure) => Err(failure),
            None => Ok((self.roots, self.unread.into_inner(), self.sorter.into_inner().finish()?)),
        }
    }

    pub fn read(&self, side: Side) -> io::Result<()> {
        let root = if side == Side::Source { &self.request.source } else { &self.request.target };
        let scope =
            Scope { max_depth: usize::MAX, one_file_system: false, exclude: self.request.exclude.clone() };
        let tree = Tree::new(vec![root.clone()], scope, self.request.jobs);
        tree.read(&|event| {
            match event {
                SourceEvent::Directory(batch) => self.add(side, root, &batch),
                SourceEvent::Large(parts) => parts.each(&mut |part| self.add(side, root, part)),
                SourceEvent::Fault(fault) => self.fail(side, root, &fault),
                SourceEvent::Vanished => {
                    self.unread.lock().problems += 1;
                    self.observer.problem(&"an entry disappeared while the trees were read");
                }
                _ => {}
            }
            let is_over = self.observer.is_stopped() || self.failure.lock().is_some();
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        Ok(())
    }

    fn fail(&self, side: Side, root: &Path, fault: &Fault) {
        self.observer.problem(fault);
        let path = below(root, &fault.path).unwrap_or_default();
        // Where the plan leads, the entries of the other side are.
        let path = self.expected(side, path).unwrap_or_else(|_| path.to_vec());
        let mut unread = self.unread.lock();
        unread.problems += 1;
        // Of so many nobody looks at each: then nothing is certain.
        let is_full = unread.paths.len() >= MAX_UNREAD;
        let key = if is_full { Vec::new() } else { loose_key(&path) };
        for side in [Side::Source, Side::Target] {
            unread.paths.insert((side, key.clone()));
        }
    }

    fn expected(&self, side: Side, path: &[u8]) -> io::Result<Vec<u8>> {
        match &self.request.planned {
            Some(planned) if side == Side::Source && !path.is_empty() => planned.expected(path),
            _ => Ok(path.to_vec()),
        }
    }

    /// Adds the entries of a directory.
    fn add(&self, side: Side, root: &Path, batch: &DirectoryBatch) {
        // The root itself has a name in the directory above, which is not compared.
        let Some(dir) = below(root, &batch.dir) else { return };
        let opened = self.roots.open(side, dir);
        let mut findings = 0;
        let mut entries = Vec::with_capacity(batch.count);
        batch.each_name(&mut |_, name| {
            let path = if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() };
            match opened
                .as_ref()
                .map_err(|error| *error)
                .and_then(|opened| self.entry(side, opened, path.clone()))
            {
                Ok(entry) => entries.push(entry),
                Err(error) => {
                    findings += 1;
                    let path = root.join(OsStr::from_bytes(&path));
                    self.fail(side, root, &Fault { path, attempt: "examine", error: error.into() });
                }
            }
        });
        let mut sorter = self.sorter.lock();
        for entry in entries {
            let (dir, name) = split_path(&entry.expected);
            let (dir, name, payload) = (loose_key(dir), loose_key(name), entry.to_payload());
            if let Err(error) = sorter.push(EntryRecord { dir: &dir, name: &name, payload: &payload }) {
                self.failure.lock().get_or_insert(error);
            }
        }
        drop(sorter);
        self.observer.checked(&batch.dir, batch.count as u64, findings);
    }

    fn entry(&self, side: Side, dir: impl AsFd, path: Vec<u8>) -> Result<TreeEntry, Errno> {
        let name = OsStr::from_bytes(split_path(&path).1);
        let stat = stat::at(&dir, name)?;
        let planned = self.request.planned.as_ref().filter(|_| side == Side::Source);
        let text = match stat.kind {
            libc::S_IFLNK => match planned.and_then(|planned| planned.link_text(&path)) {
                Some(text) => text.to_vec(),
                None => readlinkat(&dir, name)?.as_bytes().to_vec(),
            },
            _ => Vec::new(),
        };
        let expected = self.expected(side, &path).map_err(|_| Errno::EIO)?;
        Ok(TreeEntry::new(side, &stat, path, expected, text))
    }
}

/// The path of a directory below its root.
fn below<'p>(root: &Path, path: &'p Path) -> Option<&'p [u8]> {
    path.strip_prefix(root).ok().map(|rest| rest.as_os_str().as_bytes())
}
