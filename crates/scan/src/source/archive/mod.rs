//! Names of the members of archives: tar, compressed or not, and zip.
//!
//! Nothing is unpacked: only the names of members are read. Names of a tar are checked as stored, because they are unpacked so. Names
//! of a zip are UTF-8 where they are marked so, and decoded otherwise. The encoding of names that are neither is guessed from all names of
//! the archive, and reported with how certain it is. The memory, disk space and time that an archive can use are limited. Exceeding a limit,
//! or damage, is a fault, and the members that were found are checked.

mod encoding;
mod packed;
mod packing_writer;
pub mod tar;
pub mod zip;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namegate_core::name::reading::EncodingGuess;
use namegate_findings::group::Groups;
pub use namegate_findings::location::ArchiveKind;
use namegate_findings::location::{Container, Locations};
use namegate_findings::split::{self, MAX_NAME, Shape, TOO_DEEP};
use namegate_findings::unmarked::UnmarkedNames;

use super::group::{GroupedSource, LIMIT};
use super::{Fault, RejectedItems, Source, SourceEvent, Visit};
pub use encoding::MemberEncoding;
use encoding::ReadingCounts;
pub use packed::{ArchiveStream, Compression};
pub use packing_writer::PackingWriter;

#[derive(Clone, Debug)]
pub struct Archive {
    /// Its file; `-` for standard input, from which only a tar can be read.
    pub file: PathBuf,
    /// The encoding of names in a zip that are not marked as UTF-8, and of those in a tar that are not UTF-8.
    pub encoding: MemberEncoding,
    /// Bytes to which it may unpack, whatever its size.
    pub limit: u64,
    /// Number of threads that check its directories.
    pub jobs: NonZeroUsize,
    pub purpose: ArchivePurpose,
}

/// What the names of members are read for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ArchivePurpose {
    /// To check every name that a program may read.
    #[default]
    Check,
    /// To rename members: each has one name, the bytes that are stored, and its directories are below this path. What programs read
    /// differently is a fault.
    Rename { top: Vec<u8> },
}

/// Maximum number of members. More are an attack on the disk: each name is kept until all are known.
const MAX_MEMBERS: u64 = 100_000_000;

/// Bytes of an archive that are read at a time.
const BUFFER: usize = 1 << 16;

/// Collects the members: their names, or why a name cannot be checked.
struct Members<'m> {
    groups: &'m mut Groups,
    number: u64,
    /// Members have one name, which can be changed.
    is_for_renames: bool,
    /// Other names of members.
    alternatives: u64,
    rejected: RejectedItems,
    /// Those whose names are not marked as UTF-8.
    unmarked: ReadingCounts,
    /// The encodings of names that are checked as stored.
    encodings: Option<EncodingGuess>,
}

impl Members<'_> {
    /// Adds the next member, by its full name.
    fn take(&mut self, name: &[u8]) -> io::Result<()> {
        self.number += 1;
        self.add(name)
    }

    /// Adds another name that a program reads for the last member, or for the next.
    fn take_alternative(&mut self, name: &[u8]) -> io::Result<()> {
        if self.is_for_renames {
            return Ok(());
        }
        self.alternatives += 1;
        self.add(name)
    }

    fn add(&mut self, name: &[u8]) -> io::Result<()> {
        if self.number + self.alternatives > MAX_MEMBERS {
            return Err(io::Error::other(format!("it has more than {MAX_MEMBERS} members")));
        }
        if name.len() > MAX_NAME {
            return self.reject(format!("its name has more than {MAX_NAME} bytes"));
        }
        if self.is_for_renames && name.contains(&0) {
            return self.reject("its name contains a NUL, where some programs end it".to_owned());
        }
        // No entry of a plan is above its root.
        if self.is_for_renames && name.split(|&byte| byte == b'/').any(|part| part == b"..") {
            return Ok(());
        }
        // `tar c .` puts `./` before all names; the directory itself has no name.
        if matches!(name, b"." | b"./") {
            return Ok(());
        }
        let name = name.strip_prefix(b"./").unwrap_or(name);
        if !split::takes(name) {
            return self.reject(format!("its name has {TOO_DEEP}"));
        }
        self.groups.add(name, self.number.max(1))
    }

    /// Records that the current member has no name that can be checked.
    fn reject(&mut self, reason: String) -> io::Result<()> {
        self.rejected.add(self.number, reason);
        Ok(())
    }
}

impl Source for Archive {
    fn read(&self, visit: Visit<'_>) {
        let gathered = self.gather(visit);
        let finished = gathered.and_then(|groups| match groups {
            ControlFlow::Continue(members) => {
                let GatheredMembers { container, groups, encodings } = members;
                let (container, locations) = (Some(Arc::new(container)), Locations::Members);
                let encodings = encodings.map(Arc::new);
                let top = self.top().unwrap_or_default().to_vec();
                let grouped = GroupedSource { container, locations, encodings, top };
                grouped.hand_over(groups, self.jobs, visit)
            }
            ControlFlow::Break(()) => Ok(()),
        });
        if let Err(error) = finished {
            let _ = visit(SourceEvent::Fault(self.fault(error)));
        }
    }
}

/// The members of an archive.
struct GatheredMembers {
    container: Container,
    groups: Groups,
    /// The encodings of names that are checked as stored.
    encodings: Option<EncodingGuess>,
}

enum OpenArchive {
    File(BufReader<File>),
    /// A stream that cannot be read twice, with the bytes that were already read.
    Flow {
        start: Vec<u8>,
        rest: File,
    },
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

    /// Enough bytes of its beginning to recognize the format.
    fn start(&mut self) -> io::Result<&[u8]> {
        const TELLING: u64 = 1024;
        match self {
            Self::File(file) => file.fill_buf(),
            // A pipe may return them one by one.
            Self::Flow { start, rest } => {
                rest.take(TELLING).read_to_end(start)?;
                Ok(start)
            }
        }
    }

    /// The file, if it can be read again.
    fn again(&self) -> Option<File> {
        match self {
            Self::File(file) => file.get_ref().try_clone().ok(),
            Self::Flow { .. } => None,
        }
    }

    fn zip(self) -> io::Result<File> {
        match self {
            Self::File(file) => Ok(file.into_inner()),
            Self::Flow { start, .. } if start.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            Self::Flow { .. } => Err(io::Error::other(
                "it is not a tar, and only a tar can be read from a pipe, because the directory of a zip is at its end; save the archive to a file first",
            )),
        }
    }

    fn tar(self, compression: Compression, limit: u64) -> io::Result<ArchiveStream> {
        match self {
            Self::File(file) => ArchiveStream::of_file(file, compression, limit),
            Self::Flow { start, rest } => {
                let stream = BufReader::with_capacity(BUFFER, Cursor::new(start).chain(rest));
                Ok(ArchiveStream::flowing(stream, compression, 0, limit))
            }
        }
    }
}

impl Archive {
    /// Collects the members, as far as they can be read; breaks if `visit` does.
    fn gather(&self, visit: Visit<'_>) -> io::Result<ControlFlow<(), GatheredMembers>> {
        let mut opened = OpenArchive::new(&self.file)?;
        let compression = Compression::of(opened.start()?);
        let kind = match compression {
            None => ArchiveKind::Zip,
            Some(_) => ArchiveKind::Tar,
        };
        let container = Container::Archive { file: self.file.as_os_str().as_bytes().to_vec(), kind };
        // In a plan, `a//b` and `./a/b` are the entry `b` of the directory `a`, as for programs that unpack them.
        let (shape, encoding) = match self.top() {
            Some(_) => (Shape::File, MemberEncoding::Utf8),
            None => (Shape::Key, self.encoding),
        };
        let mut groups = Groups::new(shape, LIMIT);
        let mut members = Members {
            groups: &mut groups,
            number: 0,
            is_for_renames: self.top().is_some(),
            alternatives: 0,
            encodings: None,
            rejected: RejectedItems::default(),
            unmarked: ReadingCounts::new(),
        };
        let read = match compression {
            None => opened.zip().and_then(|file| zip::read(file, encoding, &mut members)),
            Some(compression) => {
                let again = opened.again();
                let stream = opened.tar(compression, self.limit);
                let read = stream.and_then(|mut stream| tar::read(&mut stream, encoding, &mut members));
                // A file can be both, and programs for zips look at its end.
                let beside = again.map(|file| zip::read_beside(file, encoding, &mut members));
                read.and(beside.unwrap_or(Ok(())))
            }
        };
        let Members { rejected, unmarked, encodings, .. } = members;
        let mut answer = rejected.report("member", |error| self.fault(error), visit);
        if !unmarked.is_empty() && answer.is_continue() {
            let file = self.file.as_os_str().as_bytes().to_vec();
            let (readings, are_stored) = (encoding::readings(unmarked), encodings.is_some());
            answer = visit(SourceEvent::Unmarked(UnmarkedNames { file, readings, are_stored }));
        }
        // The members before the damage are still checked.
        if let (Err(error), ControlFlow::Continue(())) = (read, answer) {
            answer = visit(SourceEvent::Fault(self.fault(error)));
        }
        Ok(match answer {
            ControlFlow::Continue(()) => {
                ControlFlow::Continue(GatheredMembers { container, groups, encodings })
            }
            ControlFlow::Break(()) => ControlFlow::Break(()),
        })
    }

    /// The path below which members are renamed.
    fn top(&self) -> Option<&[u8]> {
        match &self.purpose {
            ArchivePurpose::Check => None,
            ArchivePurpose::Rename { top } => Some(top),
        }
    }

    fn fault(&self, error: io::Error) -> Fault {
        Fault { path: self.file.clone(), attempt: "read all of the archive", error }
    }
}
