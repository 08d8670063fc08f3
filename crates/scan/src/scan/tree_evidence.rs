//! Decodes names that are not UTF-8 with the other names of the tree as evidence, as plans do.
//!
//! Findings that more evidence could change wait until the whole tree has been read; then their directories are read once more. Of
//! sources that are no trees, each directory is decoded by itself.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use namegate_core::name::reading::{EncodingCounts, EncodingGuess, EncodingSample};
use parking_lot::Mutex;

use crate::source::encodings::{EarlierNames, TreeEncodings};
use crate::source::work_stack::run_in_threads;
use crate::source::{DirectoryBatch, SourceEvent, TreeSource};

/// The evidence, and the directories that wait for more of it.
pub(super) struct TreeEvidence<'s> {
    /// `None` if nothing is guessed, or if directories are decoded by themselves.
    tree: Option<&'s dyn TreeSource>,
    encodings: Mutex<TreeEncodings>,
    waiting: Mutex<Vec<WaitingDirectory>>,
}

enum WaitingDirectory {
    /// It is read again: its path, and the number of bytes of it that are those of the root.
    Path(PathBuf, usize),
    /// The names of roots.
    Roots(Box<DirectoryBatch>),
}

impl<'s> TreeEvidence<'s> {
    pub(super) fn new(tree: Option<&'s dyn TreeSource>) -> Self {
        Self { tree, encodings: Mutex::default(), waiting: Mutex::default() }
    }

    /// Whether a directory can wait.
    pub(super) fn can_wait(&self) -> bool {
        self.tree.is_some()
    }

    /// Guesses the encodings of a directory, for which those above it are evidence.
    pub(super) fn guess(&self, batch: &DirectoryBatch) -> Option<EncodingGuess> {
        if !batch.needs_encodings() {
            return None;
        }
        self.guess_with(batch.dir.as_os_str().as_bytes(), &|earlier| batch.guess_encodings(earlier))
    }

    /// [`TreeEvidence::guess`] for a directory of which there is a sample.
    pub(super) fn guess_of(&self, dir: &[u8], sample: &EncodingSample) -> Option<EncodingGuess> {
        let guess = |earlier: &EncodingCounts| EncodingGuess::for_sample(sample, earlier);
        if self.tree.is_none() { guess(&EncodingCounts::default()) } else { self.guess_with(dir, &guess) }
    }

    fn guess_with(
        &self,
        dir: &[u8],
        guess: &dyn Fn(&EncodingCounts) -> Option<EncodingGuess>,
    ) -> Option<EncodingGuess> {
        self.tree?;
        let earlier = self.encodings.lock().above(dir);
        let guess = guess(&earlier.encodings)?;
        self.encodings.lock().add(dir, guess.counts());
        Some(guess)
    }

    pub(super) fn put_off_large(&self, dir: PathBuf, root_len: usize) {
        self.waiting.lock().push(WaitingDirectory::Path(dir, root_len));
    }

    /// Reads the tree for the evidence alone if its directories come in order: then they must not wait. Stops early when `is_stopped`.
    pub(super) fn survey(&self, is_stopped: &(dyn Fn() -> bool + Sync)) {
        let Some(tree) = self.tree.filter(|tree| tree.is_ordered()) else { return };
        tree.read(&|event| {
            if let SourceEvent::Directory(batch) = event {
                self.guess(&batch);
            }
            if is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
    }

    /// The evidence for a directory that must not wait, because the directories come in order; `None` if it can wait.
    pub(super) fn available_now(&self, batch: &DirectoryBatch) -> Option<EarlierNames> {
        self.tree.filter(|tree| tree.is_ordered())?;
        Some(self.earlier(batch.dir.as_os_str().as_bytes()))
    }

    pub(super) fn put_off(&self, batch: DirectoryBatch) {
        self.waiting.lock().push(match batch.is_whole() {
            true => WaitingDirectory::Path(batch.dir, batch.root_len),
            false => WaitingDirectory::Roots(Box::new(batch)),
        });
    }

    /// Reads the directories that wait once more, in several threads, and gives each to `check` with the evidence of all names that have been
    /// read until now. Ends early when `is_stopped`.
    pub(super) fn review(
        &self,
        is_stopped: &(dyn Fn() -> bool + Sync),
        check: &(dyn Fn(SourceEvent<'_>, &EarlierNames) + Sync),
    ) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let Some(tree) = self.tree.filter(|_| !waiting.is_empty()) else { return };
        let waiting: Vec<_> = waiting.into_iter().map(|directory| Mutex::new(Some(directory))).collect();
        let next = AtomicUsize::new(0);
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(waiting.len());
        run_in_threads(threads, || {
            while let Some(directory) = waiting.get(next.fetch_add(1, Relaxed)).filter(|_| !is_stopped()) {
                match directory.lock().take() {
                    Some(WaitingDirectory::Path(dir, root_len)) => {
                        let earlier = self.earlier(dir.as_os_str().as_bytes());
                        let read = tree.read_again(&dir, root_len, &|event| check(event, &earlier));
                        if read.is_err() {
                            check(SourceEvent::Vanished, &earlier);
                        }
                    }
                    Some(WaitingDirectory::Roots(batch)) => {
                        let earlier = self.earlier(batch.dir.as_os_str().as_bytes());
                        check(SourceEvent::Directory(*batch), &earlier);
                    }
                    None => {}
                }
            }
        });
    }

    fn earlier(&self, dir: &[u8]) -> EarlierNames {
        let encodings = self.encodings.lock();
        encodings.elsewhere(dir).unwrap_or_else(|| encodings.above(dir))
    }
}
