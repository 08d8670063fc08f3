//! Names of the members of archives: tar, compressed or not, and zip.
//!
//! Nothing is unpacked: of a member only its name is kept. Names of a tar are judged in the octets that are stored, names of
//! a zip as what the zip declares them to be. What an archive can make of memory, disk and time is bounded; where a bound
//! is met, or the archive is damaged, that is a fault, and the members before it are judged.

mod encoding;
mod packed;
mod tar;
mod zip;

pub use encoding::{MemberEncoding, UnknownEncoding};

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::group::{self, Groups, MAX_PARTS, Shape};
use super::list::MAX_NAME;
use super::{Fault, RejectedItems, Source, SourceEvent};
use crate::source::location::{ArchiveKind, Container, Location};
use packed::Packing;

/// An archive.
#[derive(Clone, Debug)]
pub struct Archive {
    /// Its file; `-` for standard input, through which a tar can come.
    pub file: PathBuf,
    /// The encoding of names in a zip that does not say that they are UTF-8.
    pub encoding: MemberEncoding,
}

/// More members than that are no archive but an attack on the disk: each is kept until all are known.
const MAX_MEMBERS: u64 = 100_000_000;

/// How many octets of an archive are read at a time.
const BUFFER: usize = 1 << 16;

/// What goes on with a member: its name is noted, or why it has none.
struct Members<'m> {
    groups: &'m mut Groups,
    number: u64,
    rejected: RejectedItems,
}

impl Members<'_> {
    /// Takes the next member, by its whole name.
    fn take(&mut self, name: &[u8]) -> io::Result<()> {
        self.number += 1;
        if self.number > MAX_MEMBERS {
            return Err(io::Error::other(format!("it has more than {MAX_MEMBERS} members")));
        }
        if name.len() > MAX_NAME {
            return self.reject(format!("its name has more than {MAX_NAME} bytes"));
        }
        // `tar c .` begins all names with `./` and means nothing by it; the directory itself has no name.
        if matches!(name, b"." | b"./") {
            return Ok(());
        }
        let name = name.strip_prefix(b"./").unwrap_or(name);
        if !group::takes(name) {
            return self.reject(format!("its name has more than {MAX_PARTS} components"));
        }
        self.groups.add(name, self.number)
    }

    /// Notes that the member just counted has no name that can be checked.
    fn reject(&mut self, reason: String) -> io::Result<()> {
        self.rejected.add(self.number, reason);
        Ok(())
    }
}

impl Source for Archive {
    fn read(&self, visit: &(dyn Fn(SourceEvent<'_>) -> ControlFlow<()> + Sync)) {
        let gathered = self.gather(visit);
        let finished = gathered.and_then(|groups| match groups {
            ControlFlow::Continue(groups) => groups.finish(&mut |batch| visit(SourceEvent::Directory(batch))),
            ControlFlow::Break(()) => Ok(()),
        });
        if let Err(error) = finished {
            let _ = visit(SourceEvent::Fault(self.fault(error)));
        }
    }
}

/// An archive that was opened.
enum OpenArchive {
    /// A regular file.
    File(BufReader<File>),
    /// What cannot be read twice, with what was read of it.
    Flow { start: Vec<u8>, rest: File },
}

impl OpenArchive {
    fn new(path: &Path) -> io::Result<Self> {
        let file = match path == Path::new("-") {
            true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
            false => File::open(path)?,
        };
        let kind = file.metadata()?.file_type();
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(match kind.is_file() {
            true => Self::File(BufReader::with_capacity(BUFFER, file)),
            false => Self::Flow { start: Vec::new(), rest: file },
        })
    }

    /// As many octets of its beginning as tell what it is.
    fn start(&mut self) -> io::Result<&[u8]> {
        const TELLING: u64 = 1024;
        match self {
            Self::File(file) => file.fill_buf(),
            // A pipe may give them one by one.
            Self::Flow { start, rest } => {
                rest.take(TELLING).read_to_end(start)?;
                Ok(start)
            }
        }
    }

    fn zip(self) -> io::Result<File> {
        match self {
            Self::File(file) => Ok(file.into_inner()),
            Self::Flow { start, .. } if start.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Self::Flow { .. } => Err(io::Error::other(
                "it is no tar, and only a tar can be read from a pipe: a zip has its directory at its end; save it first",
            )),
        }
    }

    fn tar(self, packing: Packing) -> io::Result<packed::ArchiveStream> {
        match self {
            Self::File(file) => packed::ArchiveStream::of_file(file, packing),
            Self::Flow { start, rest } => {
                let stream = BufReader::with_capacity(BUFFER, Cursor::new(start).chain(rest));
                Ok(packed::ArchiveStream::flowing(stream, packing))
            }
        }
    }
}

impl Archive {
    /// The members, as far as they can be read; breaks where `visit` does.
    fn gather(
        &self,
        visit: &(dyn Fn(SourceEvent<'_>) -> ControlFlow<()> + Sync),
    ) -> io::Result<ControlFlow<(), Groups>> {
        let mut opened = OpenArchive::new(&self.file)?;
        let packing = Packing::of(opened.start()?);
        let kind = match packing {
            None => ArchiveKind::Zip,
            Some(_) => ArchiveKind::Tar,
        };
        let container = Container::Archive { file: self.file.as_os_str().as_bytes().to_vec(), kind };
        let mut groups =
            Groups::new(Some(Arc::new(container)), Shape::Key, Some(Location::Member), group::LIMIT);
        let mut members = Members { groups: &mut groups, number: 0, rejected: RejectedItems::default() };
        let read = match packing {
            None => opened.zip().and_then(|file| zip::read(file, self.encoding, &mut members)),
            Some(packing) => opened.tar(packing).and_then(|mut stream| tar::read(&mut stream, &mut members)),
        };
        let rejected = members.rejected;
        let mut answer = rejected.report("member", |error| self.fault(error), visit);
        // What came before the damage is checked all the same.
        if let (Err(error), ControlFlow::Continue(())) = (read, answer) {
            answer = visit(SourceEvent::Fault(self.fault(error)));
        }
        Ok(match answer {
            ControlFlow::Continue(()) => ControlFlow::Continue(groups),
            ControlFlow::Break(()) => ControlFlow::Break(()),
        })
    }

    fn fault(&self, error: io::Error) -> Fault {
        Fault { path: self.file.clone(), attempt: "read all of the archive", error }
    }
}
