//! Hands over directories that were grouped from paths in any order.

use std::ffi::OsStr;
use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;

use namegate_findings::group::{self, GroupedDirectory, GroupedPart, Groups, PartSource};
use parking_lot::Mutex;

use super::DirectoryBatch;
use super::location::{Container, Locations};

/// Bytes of paths that are kept in memory until all are read.
pub(super) const LIMIT: usize = 16 << 20;

/// With fewer names than this, directories are handed over in their order: threads would gain nothing.
const WORTH_THREADS: u64 = 1 << 14;

/// Receives directories.
type VisitBatch<'v> = &'v (dyn Fn(DirectoryBatch) -> ControlFlow<()> + Sync);

/// What all directories of a list, an archive or an index have in common.
pub(super) struct GroupedSource {
    /// Their container; `None` for the file system.
    pub(super) container: Option<Arc<Container>>,
    /// Makes the locations of names from the numbers of their paths.
    pub(super) locations: fn(Vec<u64>) -> Locations,
}

impl GroupedSource {
    /// Hands over the directories, each once; sorted by their bytes as long as they fit into memory.
    ///
    /// # Errors
    /// The temporary files cannot be read; the directories that were handed over are complete.
    pub(super) fn hand_over_in_order(
        &self,
        groups: Groups,
        visit: &mut dyn FnMut(DirectoryBatch) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for part in groups.into_parts()? {
            let part = part.load()?;
            for at in 0..part.len() {
                if visit(self.batch(part.directory(at))).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Hands over the directories, each once, in `jobs` threads if they are many.
    ///
    /// # Errors
    /// As of [`GroupedSource::hand_over_in_order`].
    pub(super) fn hand_over(
        &self,
        groups: Groups,
        jobs: NonZeroUsize,
        visit: VisitBatch<'_>,
    ) -> io::Result<()> {
        if groups.names() < WORTH_THREADS || jobs.get() == 1 {
            return self.hand_over_in_order(groups, &mut |batch| visit(batch));
        }
        let threads = HandOver { of: self, jobs, visit, is_stopped: AtomicBool::new(false) };
        let parts = groups.into_parts()?;
        let largest = parts.iter().map(PartSource::size).max().unwrap_or_default();
        let fits = usize::try_from(largest).is_ok_and(|largest| largest <= group::LIMIT / jobs);
        match parts.len() == 1 || !fits {
            true => parts.into_iter().try_for_each(|part| part.load().map(|part| threads.share(&part))),
            false => threads.distribute(parts),
        }
    }

    fn batch(&self, directory: GroupedDirectory) -> DirectoryBatch {
        let root_len = directory.root_len();
        let GroupedDirectory { dir, names, holding_nul, numbers } = directory;
        let mut batch = DirectoryBatch::new(PathBuf::from(OsStr::from_bytes(&dir)), root_len);
        batch.container = self.container.clone();
        (batch.count, batch.names, batch.holding_nul) = (numbers.len(), names, holding_nul);
        batch.locations = (self.locations)(numbers);
        batch
    }
}

/// Several threads that hand over directories.
struct HandOver<'h> {
    of: &'h GroupedSource,
    jobs: NonZeroUsize,
    visit: VisitBatch<'h>,
    is_stopped: AtomicBool,
}

impl HandOver<'_> {
    /// Hands over the directories of one part by all threads.
    fn share(&self, part: &GroupedPart) {
        let next = AtomicUsize::new(0);
        let take = || Some(next.fetch_add(1, Relaxed)).filter(|&at| at < part.len());
        self.run(&|| self.each(part, &mut std::iter::from_fn(take)));
    }

    /// Hands over each part by one thread, which loads it while others check theirs.
    fn distribute(&self, parts: Vec<PartSource>) -> io::Result<()> {
        let (parts, failure) = (Mutex::new(parts.into_iter()), Mutex::new(None));
        let next = || parts.lock().next().filter(|_| !self.is_stopped.load(Relaxed));
        self.run(&|| {
            while let Some(part) = next() {
                match part.load() {
                    Ok(part) => self.each(&part, &mut (0..part.len())),
                    Err(error) => {
                        failure.lock().get_or_insert(error);
                        self.is_stopped.store(true, Relaxed);
                    }
                }
            }
        });
        failure.into_inner().map_or(Ok(()), Err)
    }

    fn each(&self, part: &GroupedPart, which: &mut dyn Iterator<Item = usize>) {
        for at in which {
            if self.is_stopped.load(Relaxed) {
                return;
            }
            if (self.visit)(self.of.batch(part.directory(at))).is_break() {
                self.is_stopped.store(true, Relaxed);
            }
        }
    }

    /// Runs `work` in all threads, of which the caller is one.
    fn run(&self, work: &(dyn Fn() + Sync)) {
        thread::scope(|scope| {
            (1..self.jobs.get()).for_each(|_| drop(scope.spawn(work)));
            work();
        });
    }
}
