//! Headers and records of a zip, as bytes of which some change. Source: APPNOTE.TXT 6.3.10.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

use crate::archive::refusal;

/// The flag bit for a name and a comment in UTF-8 (4.4.4).
const UTF8: u16 = 1 << 11;

/// In place of a size or an offset that is in the field of zip64 (4.5.3).
const IN_ZIP64: u32 = u32::MAX;

/// The change of one member, as it is sorted.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct MemberChange {
    /// The offset of its record in the central directory, and its length.
    pub(super) record: (u64, usize),
    /// By how much its local header moves, modulo 2^64.
    pub(super) moved: u64,
    /// Its name, if its headers change.
    pub(super) name: Option<String>,
    /// Its comment, if that changes.
    pub(super) comment: Option<String>,
}

/// A local header (4.3.7) or a record of the central directory (4.3.12).
#[derive(Debug)]
pub(super) struct ZipHeader {
    bytes: Vec<u8>,
    /// The offsets of the flags and of the lengths of name, extra fields and, in the central directory, comment.
    flags: usize,
    lengths: usize,
    /// The length without these.
    fixed: usize,
}

impl ZipHeader {
    pub(super) fn read_local(file: &File, at: u64) -> io::Result<Self> {
        const FIXED: usize = 30;
        let mut bytes = vec![0; FIXED];
        file.read_exact_at(&mut bytes, at)?;
        let variable = [26, 28].map(|at| usize::from(u16_at(&bytes, at))).iter().sum::<usize>();
        bytes.resize(FIXED + variable, 0);
        file.read_exact_at(&mut bytes, at)?;
        match bytes.starts_with(b"PK\x03\x04") {
            true => Ok(Self { bytes, flags: 6, lengths: 26, fixed: FIXED }),
            false => Err(refusal("a member has no local header")),
        }
    }

    pub(super) fn read_record(file: &File, (at, len): (u64, usize)) -> io::Result<Self> {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, at)?;
        let header = Self { bytes, flags: 8, lengths: 28, fixed: 46 };
        let is_whole = || header.parts().iter().map(|part| part.len()).sum::<usize>() == len;
        match header.bytes.starts_with(b"PK\x01\x02") && is_whole() {
            true => Ok(header),
            false => Err(refusal("its central directory is damaged")),
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// What is fixed, the name, the extra fields and the comment.
    fn parts(&self) -> [&[u8]; 4] {
        let lens = [0, 2, 4].map(|at| usize::from(u16_at(&self.bytes, self.lengths + at)));
        let (fixed, mut rest) = self.bytes.split_at(self.fixed.min(self.bytes.len()));
        let mut part = |len: usize| {
            let (part, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            part
        };
        let (name, extra) = (part(lens[0]), part(lens[1]));
        // In a local header, what would be the length of a comment is the name.
        let comment = if self.fixed == 46 { part(lens[2]) } else { &[] };
        [fixed, name, extra, comment]
    }

    /// The header with another name, which is marked as UTF-8 if it is not ASCII, and another comment.
    pub(super) fn with_name(&self, name: &[u8], comment: Option<&[u8]>) -> io::Result<Vec<u8>> {
        let [fixed, _, extra, old_comment] = self.parts();
        let is_marked = !name.is_ascii() || u16_at(fixed, self.flags) & UTF8 != 0;
        let comment = if is_marked { comment } else { None };
        let mut extra = without_unicode_fields(extra, comment.is_some());
        // Info-ZIP's unzip looks at the mark only beside an extra field; headers with more than 64 KiB are refused by some programs.
        if extra.is_empty() && !name.is_ascii() && name.len() < 1 << 15 {
            extra = unicode_path(name);
        }
        let comment = comment.unwrap_or(old_comment);
        let mut bytes = [fixed, name, &extra, comment].concat();
        for (at, part) in
            [name, &extra, comment].into_iter().enumerate().take(if self.fixed == 46 { 3 } else { 2 })
        {
            let Ok(len) = u16::try_from(part.len()) else {
                return Err(refusal(format!(
                    "a new path or comment has {} bytes; a zip can store 65535",
                    part.len()
                )));
            };
            bytes[self.lengths + 2 * at..][..2].copy_from_slice(&len.to_le_bytes());
        }
        if is_marked {
            bytes[self.flags + 1] |= (UTF8 >> 8) as u8;
        }
        Ok(bytes)
    }

    /// Changes a record: its local header has moved by `by` bytes.
    pub(super) fn move_member(&mut self, by: u64) -> io::Result<()> {
        const OFFSET: usize = 42;
        let stored = u32_at(&self.bytes, OFFSET);
        if by == 0 {
            return Ok(());
        }
        if stored != IN_ZIP64 {
            let moved = narrow(u64::from(stored).wrapping_add(by))?;
            self.bytes[OFFSET..][..4].copy_from_slice(&moved.to_le_bytes());
            return Ok(());
        }
        let [fixed, name, extra, _] = self.parts();
        let before = [20, 24].into_iter().filter(|&at| u32_at(fixed, at) == IN_ZIP64).count();
        let field = extra_fields(extra).find(|(id, _)| *id == 1).map(|(_, range)| range);
        let at = field.map(|range| (range.start + 8 * before, range.end)).filter(|(at, end)| at + 8 <= *end);
        let Some((at, _)) = at else { return Err(refusal("a member has no offset")) };
        let at = fixed.len() + name.len() + at;
        let moved = u64_at(&self.bytes, at).unwrap_or_default().wrapping_add(by);
        self.bytes[at..][..8].copy_from_slice(&moved.to_le_bytes());
        Ok(())
    }
}

fn narrow(offset: u64) -> io::Result<u32> {
    u32::try_from(offset)
        .ok()
        .filter(|&offset| offset < IN_ZIP64)
        .ok_or_else(|| refusal("with its new names it would be larger than 4 GiB, and it has no zip64"))
}

/// The ids of extra fields, each with where its contents are (4.5.1). What is damaged ends them.
fn extra_fields(extra: &[u8]) -> impl Iterator<Item = (u16, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let head = extra.get(at..at + 4)?;
        let start = at + 4;
        at = start + usize::from(u16_at(head, 2));
        (at <= extra.len()).then(|| (u16_at(head, 0), start..at))
    })
}

/// `extra` without Info-ZIP's fields for another name, and for another comment (4.6.8, 4.6.9).
fn without_unicode_fields(extra: &[u8], has_comment: bool) -> Vec<u8> {
    let mut kept = extra.to_vec();
    let found: Vec<_> = extra_fields(extra)
        .filter(|(id, _)| *id == 0x7075 || has_comment && *id == 0x6375)
        .map(|(_, range)| range)
        .collect();
    for range in found.into_iter().rev() {
        kept.drain(range.start - 4..range.end);
    }
    kept
}

/// Info-ZIP's field for `name`, which is stored as it is (4.6.9).
fn unicode_path(name: &[u8]) -> Vec<u8> {
    let (id, checksum) = (0x7075_u16.to_le_bytes(), crc32fast::hash(name).to_le_bytes());
    // A name that is too long for it is too long for the header.
    let len = u16::try_from(name.len() + 5).unwrap_or_default().to_le_bytes();
    [&id[..], &len, &[1], &checksum, name].concat()
}

/// Reports whether a member is a signature of others by their names.
pub(super) fn is_signature(name: &[u8]) -> bool {
    let name = name.to_ascii_uppercase();
    let in_meta_inf = name.strip_prefix(b"META-INF/").is_some_and(|rest| {
        rest.ends_with(b".SF") || matches!(rest, b"DOCUMENTSIGNATURES.XML" | b"SIGNATURES.XML")
    });
    in_meta_inf || name.starts_with(b"_XMLSIGNATURES/") || name == b"APPXSIGNATURE.P7X"
}

/// A signature between the members and the central directory, which begins at `directory`.
pub(super) fn signature_before(file: &File, directory: u64) -> Option<String> {
    let mut magic = [0; 16];
    file.read_exact_at(&mut magic, directory.checked_sub(16)?).ok()?;
    (&magic == b"APK Sig Block 42").then(|| "it has an APK Signing Block".to_owned())
}

/// What follows the records of the central directory.
pub(super) struct EndRecords {
    bytes: Vec<u8>,
    /// Where it begins in the file, and where in it the end record is (4.3.16).
    start: u64,
    end: usize,
    /// Where in it the end record of zip64 is (4.3.14).
    zip64: Option<usize>,
}

impl EndRecords {
    /// Reads what follows the records, which end at `start`; the end record is at `end`.
    pub(super) fn read(file: &File, start: u64, end: u64) -> io::Result<Self> {
        /// Comments have at most 65,535 bytes, and what else is there is short.
        const MOST: u64 = 16 << 20;
        let len = file.metadata()?.len().saturating_sub(start);
        let end = end.checked_sub(start).filter(|end| end + 22 <= len && len <= MOST);
        let Some(end) = end else { return Err(refusal("what follows its central directory is too long")) };
        let (mut bytes, end) = (vec![0; len as usize], end as usize);
        file.read_exact_at(&mut bytes, start)?;
        let locator = end.checked_sub(20).filter(|&at| bytes[at..].starts_with(b"PK\x06\x07"));
        let zip64 = match locator {
            None => None,
            Some(locator) => {
                let at =
                    u64_at(&bytes, locator + 8).and_then(|at| usize::try_from(at.checked_sub(start)?).ok());
                let at = at.filter(|&at| at + 56 <= locator && bytes[at..].starts_with(b"PK\x06\x06"));
                Some(at.ok_or_else(|| refusal("it has no end record of zip64 where it says"))?)
            }
        };
        let disks =
            [4, 6].map(|at| u16_at(&bytes, end + at)).map(|disk| if disk == u16::MAX { 0 } else { disk });
        let large_disks = zip64.map_or([0; 2], |at| [16, 20].map(|field| u32_at(&bytes, at + field)));
        if disks != [0; 2] || large_disks != [0; 2] {
            return Err(refusal("it is one part of a split archive; join its parts first, as by `zip -s 0`"));
        }
        Ok(Self { bytes, start, end, zip64 })
    }

    /// What it has of a signature over the central directory (4.3.13).
    pub(super) fn signature(&self) -> Option<String> {
        self.bytes.starts_with(b"PK\x05\x05").then(|| "its central directory is signed".to_owned())
    }

    /// The bytes for a central directory that was at `directory` and is at `moved`, and whose records end at `moved_start`.
    pub(super) fn moved(mut self, directory: u64, moved: u64, moved_start: u64) -> io::Result<Vec<u8>> {
        let by = moved.wrapping_sub(directory);
        let grown = moved_start.wrapping_sub(self.start).wrapping_sub(by);
        for (at, by) in [(self.end + 12, grown), (self.end + 16, by)] {
            let stored = u32_at(&self.bytes, at);
            if stored != IN_ZIP64 && by != 0 {
                let new = narrow(u64::from(stored).wrapping_add(by))?;
                self.bytes[at..][..4].copy_from_slice(&new.to_le_bytes());
            }
        }
        if let Some(zip64) = self.zip64 {
            let locator = self.end - 20;
            for (at, by) in [(zip64 + 40, grown), (zip64 + 48, by), (locator + 8, grown.wrapping_add(by))] {
                let new = u64_at(&self.bytes, at).unwrap_or_default().wrapping_add(by);
                self.bytes[at..][..8].copy_from_slice(&new.to_le_bytes());
            }
        }
        Ok(self.bytes)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
