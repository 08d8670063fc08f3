//! Hands over directories that were grouped from paths in any order.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use namegate_core::name::reading::EncodingGuess;
use namegate_findings::group::{GroupedDirectory, GroupedNames, GroupedPart, Groups, LargeGroup, PartSource};
use namegate_findings::location::{Container, Locations};
use namegate_findings::records::components;
use parking_lot::Mutex;

use super::work_stack::run_in_threads;
use super::{DirectoryBatch, Parts, SourceEvent, Visit};

/// Bytes of paths that are kept in memory: by the source until all are read, then by each thread.
pub(super) const LIMIT: usize = 16 << 20;

/// Bytes of names of a directory that are handed over together, if its paths did not stay in memory.
const MOST_TOGETHER: usize = 1 << 18;

/// With fewer names than this, directories are handed over in their order: threads would gain nothing.
const WORTH_THREADS: u64 = 1 << 14;

/// What all directories of a list, an archive or an index have in common.
pub(super) struct GroupedSource {
    /// Their container; `None` for the file system.
    pub(super) container: Option<Arc<Container>>,
    /// Makes the locations of names from the numbers of their paths.
    pub(super) locations: fn(Vec<u64>) -> Locations,
    /// The encodings of names that are not UTF-8, if more than one directory shows them.
    pub(super) encodings: Option<Arc<EncodingGuess>>,
    /// The path of what directories are below, if they are renamed there; empty otherwise.
    pub(super) top: Vec<u8>,
}

impl GroupedSource {
    /// Hands over the directories, each once; sorted by their bytes as long as they fit into memory.
    ///
    /// # Errors
    /// The temporary files cannot be read or written; the directories that were handed over before are complete.
    pub(super) fn hand_over_in_order(
        &self,
        groups: Groups,
        visit: &mut dyn FnMut(SourceEvent<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for part in groups.into_parts()? {
            if self.each_directory(part, visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Hands over the directories, each once, in `jobs` threads if they are many.
    ///
    /// # Errors
    /// As of [`GroupedSource::hand_over_in_order`].
    pub(super) fn hand_over(&self, groups: Groups, jobs: NonZeroUsize, visit: Visit<'_>) -> io::Result<()> {
        if groups.names() < WORTH_THREADS || jobs.get() == 1 {
            return self.hand_over_in_order(groups, &mut |event| visit(event));
        }
        let threads = HandOver { of: self, jobs, visit, is_stopped: AtomicBool::new(false) };
        let mut parts = groups.into_parts()?;
        if let [part] = &parts[..]
            && part.size() <= LIMIT as u64
        {
            return parts.into_iter().try_for_each(|part| part.load().map(|part| threads.share(&part)));
        }
        // The one that takes longest must not be the last one.
        parts.sort_by_key(|part| Reverse(part.size()));
        threads.distribute(parts)
    }

    /// Hands over the directories of a part; returns the last answer.
    fn each_directory(
        &self,
        part: PartSource,
        visit: &mut dyn FnMut(SourceEvent<'_>) -> ControlFlow<()>,
    ) -> io::Result<ControlFlow<()>> {
        let mut failure = None;
        let answer = part.each(LIMIT, MOST_TOGETHER, &mut |names| match names {
            GroupedNames::Whole(directory) => visit(SourceEvent::Directory(self.batch(directory))),
            GroupedNames::Large(directory) => {
                let mut parts = SortedParts { of: self, directory, failure: &mut failure };
                let answer = visit(SourceEvent::Large(&mut parts));
                if failure.is_some() { ControlFlow::Break(()) } else { answer }
            }
        })?;
        failure.map_or(Ok(answer), Err)
    }

    fn batch(&self, directory: GroupedDirectory) -> DirectoryBatch {
        let mut root_len = directory.root_len();
        let GroupedDirectory { mut dir, names, holding_nul, numbers, clashes } = directory;
        if !self.top.is_empty() {
            root_len = self.top.len();
            let below = components(&dir).flat_map(|name| [&b"/"[..], name]);
            dir = [&self.top[..]].into_iter().chain(below).collect::<Vec<_>>().concat();
        }
        let mut batch = DirectoryBatch::new(PathBuf::from(OsStr::from_bytes(&dir)), root_len);
        batch.container = self.container.clone();
        batch.encodings = self.encodings.clone();
        (batch.count, batch.names, batch.holding_nul) = (numbers.len(), names, holding_nul);
        batch.locations = (self.locations)(numbers);
        // Where paths have no numbers, as in a git index, two of them can be alternatives.
        if batch.locations != Locations::None {
            batch.clashes = clashes;
        }
        batch
    }
}

/// A large directory.
struct SortedParts<'p, 'l, 'g> {
    of: &'p GroupedSource,
    directory: &'l mut LargeGroup<'g>,
    /// Why it could not be read; it is not read again then.
    failure: &'p mut Option<io::Error>,
}

impl fmt::Debug for SortedParts<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SortedParts").field(&self.directory).finish()
    }
}

impl Parts for SortedParts<'_, '_, '_> {
    fn each(&mut self, take: &mut dyn FnMut(&DirectoryBatch)) {
        if self.failure.is_none() {
            let read = self.directory.each_part(&mut |part| take(&self.of.batch(part)));
            *self.failure = read.err();
        }
    }
}

/// Several threads that hand over directories.
struct HandOver<'h> {
    of: &'h GroupedSource,
    jobs: NonZeroUsize,
    visit: Visit<'h>,
    is_stopped: AtomicBool,
}

impl HandOver<'_> {
    /// Hands over the directories of one part by all threads.
    fn share(&self, part: &GroupedPart) {
        let next = AtomicUsize::new(0);
        let take = || Some(next.fetch_add(1, Relaxed)).filter(|&at| at < part.len());
        run_in_threads(self.jobs.get(), || {
            while let Some(at) = take() {
                if self.visit(SourceEvent::Directory(self.of.batch(part.directory(at)))).is_break() {
                    return;
                }
            }
        });
    }

    /// Hands over each part by one thread, which loads it while others check theirs.
    fn distribute(&self, parts: Vec<PartSource>) -> io::Result<()> {
        let (parts, failure) = (Mutex::new(parts.into_iter()), Mutex::new(None));
        let next = || parts.lock().next();
        run_in_threads(self.jobs.get(), || {
            while let Some(part) = next() {
                match self.of.each_directory(part, &mut |event| self.visit(event)) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => return,
                    Err(error) => {
                        failure.lock().get_or_insert(error);
                        self.is_stopped.store(true, Relaxed);
                        return;
                    }
                }
            }
        });
        failure.into_inner().map_or(Ok(()), Err)
    }

    /// Hands over an event, unless another thread stopped.
    fn visit(&self, event: SourceEvent<'_>) -> ControlFlow<()> {
        if self.is_stopped.load(Relaxed) {
            return ControlFlow::Break(());
        }
        let answer = (self.visit)(event);
        self.is_stopped.fetch_or(answer.is_break(), Relaxed);
        answer
    }
}
