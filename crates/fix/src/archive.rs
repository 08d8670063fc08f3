//! Copies of zips and tars in which only names are other ones.
//!
//! An archive is read several times: for its names, which [`propose_for_members`](crate::propose::members::propose_for_members)
//! plans like those of a tree, and for the copy. What programs read differently, or what depends on names, is refused.

pub mod check;
mod names;
mod tar;
mod unique;
mod zip;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use namegate_scan::progress::Observer;
use namegate_scan::source::archive::zip::ZipMembers;
use namegate_scan::source::archive::{Archive, ArchivePurpose, Compression, MemberEncoding};

pub use self::names::MemberNames;
use crate::plan::PlanArchive;

/// Bytes that are copied at a time.
const CHUNK: usize = 1 << 20;

/// An archive whose members are renamed.
#[derive(Debug)]
pub struct MemberSource {
    path: PathBuf,
    file: File,
    /// `None` for a zip.
    compression: Option<Compression>,
    /// Bytes to which it may unpack, whatever its size.
    limit: u64,
    /// Device, inode number, length and times when it was opened.
    seen: [i64; 6],
}

/// What was done with the members of an archive.
#[derive(Debug, Default)]
pub struct CopyTally {
    pub members: u64,
    /// Members with another path.
    pub renamed: u64,
    /// Members of a zip whose names are now marked as UTF-8, and are the same otherwise.
    pub marked: u64,
    /// Links of a tar with another target.
    pub retargeted: u64,
    /// How many members keep their names although a part was to be renamed or is not marked, by the reason.
    pub kept: BTreeMap<&'static str, u64>,
    /// Symbolic links in a zip, which store their targets as contents.
    pub zip_links: u64,
}

impl MemberSource {
    /// Opens the archive at `path`, which may unpack to `limit` bytes whatever its size.
    ///
    /// # Errors
    /// It cannot be opened, or is not a regular file, and so cannot be read twice.
    pub fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file, and an archive is read more than once"));
        }
        let mut start = Vec::new();
        (&file).take(1024).read_to_end(&mut start)?;
        let compression = Compression::of(&start);
        Ok(Self { path: fs::canonicalize(path)?, seen: stamp(&file)?, file, compression, limit })
    }

    /// Its path without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// The source of the names of its members, below its path.
    pub fn for_names(&self) -> Archive {
        Archive {
            file: self.path.clone(),
            encoding: MemberEncoding::Utf8,
            limit: self.limit,
            // In their order, so that the same archive gives the same plan.
            jobs: NonZeroUsize::MIN,
            purpose: ArchivePurpose::Rename { top: self.path.clone().into_os_string().into_vec() },
        }
    }

    /// What identifies the archive in a plan.
    ///
    /// # Errors
    /// It cannot be read, or is not an archive.
    pub fn identity(&self) -> io::Result<PlanArchive> {
        let size = self.file.metadata()?.len();
        let mut at = match self.compression {
            Some(_) => 0,
            None => ZipMembers::open(self.file.try_clone()?)?.directory().start,
        };
        let (mut crc, mut buffer) = (crc32fast::Hasher::new(), vec![0; CHUNK]);
        loop {
            match self.file.read_at(&mut buffer, at)? {
                0 => break,
                len => {
                    crc.update(&buffer[..len]);
                    at += len as u64;
                }
            }
        }
        Ok(PlanArchive { size, crc32: format!("{:08x}", crc.finalize()) })
    }

    /// Writes a copy with the new names to `out`. Comments of zips are in `encoding` if nothing says theirs.
    ///
    /// # Errors
    /// What depends on names, or two members with one name; the archive changed or cannot be read, or `out` cannot be written.
    pub fn copy(
        &self,
        names: &mut MemberNames,
        encoding: MemberEncoding,
        out: &mut dyn Write,
        observer: &dyn Observer,
    ) -> io::Result<CopyTally> {
        let tally = match self.compression {
            None => zip::copy(&self.file, names, encoding, out, observer)?,
            Some(compression) => {
                let file = BufReader::with_capacity(1 << 16, File::open(&self.path)?);
                tar::copy(file, compression, self.limit, names, out, observer)?
            }
        };
        if stamp(&self.file)? != self.seen || stamp(&File::open(&self.path)?)? != self.seen {
            return Err(io::Error::other("it was changed or replaced while it was read"));
        }
        Ok(tally)
    }
}

/// What changes when a file is written or replaced.
fn stamp(file: &File) -> io::Result<[i64; 6]> {
    let meta = file.metadata()?;
    let [device, inode, size] = [meta.dev(), meta.ino(), meta.size()].map(u64::cast_signed);
    Ok([device, inode, size, meta.mtime(), meta.mtime_nsec(), meta.ctime()])
}

/// The error for what cannot be copied with other names.
fn refusal(why: impl Into<String>) -> io::Error {
    io::Error::other(why.into())
}

/// The error for work that a signal stopped.
fn interruption(observer: &dyn Observer) -> io::Result<()> {
    if observer.is_stopped() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}
