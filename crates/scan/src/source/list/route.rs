//! Distributes the pairs of lists among files, so that each file has whole directories and can be checked by itself.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use namegate_core::check::EntryKind;
use namegate_core::name::escape::stable_hash;
use namegate_findings::split::{KnownDirectories, PairSink, PathSplitter};

use super::{List, ListedName, word_of};
use crate::source::{Fault, RejectedItems};

/// Bytes of all output buffers together.
const BUFFERS: usize = 32 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutedCounts {
    /// Items of the lists.
    pub items: u64,
    /// Pairs that were written. The name of a directory can be written several times.
    pub pairs: u64,
    /// Things that could not be read.
    pub unreadable: u64,
}

/// Files among which pairs are distributed by a hash of the directory. The hash is the same in every run and on every machine, so
/// that several runs with the same number of files can distribute the parts of one list.
pub struct PairFiles {
    files: Vec<(PathBuf, BufWriter<File>)>,
    known: KnownDirectories,
    counts: RoutedCounts,
}

impl PairFiles {
    /// Creates `count` files in `dir`.
    ///
    /// # Errors
    /// A file exists or cannot be created; the message names it.
    pub fn create(dir: &Path, count: NonZeroU16) -> io::Result<Self> {
        let capacity = (BUFFERS / usize::from(count.get())).clamp(1 << 12, 1 << 18);
        let create = |at: u16| {
            let path = dir.join(format!("{at:05}.pairs"));
            let file = File::create_new(&path).map_err(|error| named(&path, &error))?;
            Ok((path, BufWriter::with_capacity(capacity, file)))
        };
        let files = (0..count.get()).map(create).collect::<io::Result<_>>()?;
        Ok(Self { files, known: KnownDirectories::default(), counts: RoutedCounts::default() })
    }

    /// Distributes the names of a list. What cannot be read is handed to `report`.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn add(&mut self, list: &List, report: &mut dyn FnMut(&Fault)) -> io::Result<()> {
        let (mut rejected, mut with_nul) = (RejectedItems::default(), RejectedItems::default());
        let (mut splitter, mut failure, mut items) = (PathSplitter::new(list.shape()), None, 0);
        let read = list.each(&mut rejected, &mut |item, number| {
            items = number;
            let written = match item {
                ListedName::Path(path) if !path.contains(&0) => splitter.split(path, self),
                ListedName::Pair(dir, name, kind) if !dir.contains(&0) && !name.contains(&0) => {
                    self.put(dir, name, kind)
                }
                _ => {
                    let reason =
                        "it contains a NUL byte, which separates pairs; check it with `namegate scan --list`";
                    with_nul.add(number, reason.to_owned());
                    return Ok(());
                }
            };
            // The error of the list would say that the list cannot be read.
            written.map_err(|error| {
                failure = Some(error);
                io::ErrorKind::Other.into()
            })
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        self.counts.items += items;
        let fault = |error| list.fault("distribute every item of", error);
        let faults = rejected.into_faults("item", fault).chain(with_nul.into_faults("item", fault));
        let unread = read.err().map(|error| (list.fault("read the list", error), 1));
        for (fault, count) in faults.chain(unread) {
            self.counts.unreadable += count;
            report(&fault);
        }
        Ok(())
    }

    /// Completes the files.
    ///
    /// # Errors
    /// A file cannot be written; the message names it.
    pub fn finish(self) -> io::Result<RoutedCounts> {
        for (path, out) in self.files {
            let file = out.into_inner().map_err(|error| named(&path, error.error()))?;
            file.sync_data().map_err(|error| named(&path, &error))?;
        }
        Ok(self.counts)
    }
}

impl PairSink for PairFiles {
    type Error = io::Error;

    fn knows(&self, dir: &[u8]) -> bool {
        self.known.contains(dir)
    }

    fn put(&mut self, dir: &[u8], name: &[u8], kind: EntryKind) -> io::Result<()> {
        self.known.insert(dir);
        self.counts.pairs += 1;
        let at = stable_hash(dir) % self.files.len() as u64;
        let (path, out) = &mut self.files[at as usize];
        let mut write = || -> io::Result<()> {
            for part in [dir, name, word_of(kind)] {
                out.write_all(part)?;
                out.write_all(&[0])?;
            }
            Ok(())
        };
        write().map_err(|error| named(path, &error))
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot write {}: {error}", namegate_core::name::display::shown(path)),
    )
}
