//! Where a zip leaves open what its members are: programs that read it from its beginning use local headers, all others the central
//! directory, of which there can be two. Source: APPNOTE.TXT 6.3.10.

use std::io;

use memchr::memmem;
use rawzip::extra_fields::{ExtraFieldId, ExtraFields};
use rawzip::{FileReader, ReaderAt, ZipArchive, ZipFileHeaderRecord};

use super::{StoredName, UTF8, unicode_path};

/// Size of a local header without its name (4.3.7).
const LOCAL: usize = 30;
/// The flag bit for sizes that follow the content (4.4.4).
const SIZES_FOLLOW: u16 = 1 << 3;
/// Size of the end of the central directory (4.3.16), and of the locator before it (4.3.15).
const END: usize = 22;
const LOCATOR: u64 = 20;
/// Bytes that are read at a time.
const CHUNK: usize = 1 << 16;

/// The parts of the file that members use.
#[derive(Default)]
pub(super) struct ZipLayout {
    parts: Vec<(u64, u64)>,
    /// The first thing about which programs disagree.
    doubt: Option<String>,
}

struct LocalHeader {
    flags: u16,
    packed_size: u64,
    name: Vec<u8>,
    extra: Vec<u8>,
}

impl LocalHeader {
    /// Reads the header at `at`; `None` if there is none.
    fn read(file: &FileReader, at: u64) -> Option<Self> {
        let mut fixed = [0; LOCAL];
        file.read_exact_at(&mut fixed, at).ok().filter(|()| fixed.starts_with(b"PK\x03\x04"))?;
        let mut name = vec![0; usize::from(u16_at(&fixed, 26)?)];
        let mut extra = vec![0; usize::from(u16_at(&fixed, 28)?)];
        let behind = at + LOCAL as u64;
        file.read_exact_at(&mut name, behind).ok()?;
        file.read_exact_at(&mut extra, behind + name.len() as u64).ok()?;
        let is_large = |at| u32_at(&fixed, at) == Some(u32::MAX);
        let packed_size = match is_large(18) {
            // Both sizes are in the field (4.5.3).
            true => {
                let (_, sizes) = ExtraFields::new(&extra).find(|(id, _)| *id == ExtraFieldId::ZIP64)?;
                u64_at(sizes, if is_large(22) { 8 } else { 0 })?
            }
            false => u32_at(&fixed, 18)?.into(),
        };
        Some(Self { flags: u16_at(&fixed, 6)?, packed_size, name, extra })
    }

    fn len(&self) -> u64 {
        (LOCAL + self.name.len() + self.extra.len()) as u64
    }

    fn stored_name(&self) -> StoredName<'_> {
        match self.flags & UTF8 {
            0 => StoredName::Unmarked(&self.name),
            _ => StoredName::Utf8(&self.name),
        }
    }
}

impl ZipLayout {
    /// Records what programs disagree about.
    fn doubt(&mut self, what: impl Into<String>) {
        self.doubt.get_or_insert_with(|| what.into());
    }

    /// Reads the local header of the member `number`, and hands its names to `take` if they are others.
    pub(super) fn add(
        &mut self,
        file: &FileReader,
        number: u64,
        entry: &ZipFileHeaderRecord<'_>,
        take: &mut dyn FnMut(StoredName<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let at = entry.local_header_offset();
        let Some(local) = LocalHeader::read(file, at) else {
            self.doubt(format!("member {number} has no local header"));
            return Ok(());
        };
        if local.name != entry.file_path().as_bytes()
            || (local.flags ^ entry.flags().bits()) & UTF8 != 0 && !local.name.is_ascii()
        {
            self.doubt(format!("member {number} has another name in its local header"));
            take(local.stored_name())?;
        }
        if let Some(name) = unicode_path(ExtraFields::new(&local.extra), &local.name) {
            take(StoredName::Utf8(name))?;
        }
        let size = entry.compressed_size_hint();
        let sizes_follow = local.flags & SIZES_FOLLOW != 0;
        if local.packed_size != size && !(sizes_follow && local.packed_size == 0) {
            self.doubt(format!("member {number} has another size in its local header"));
        }
        let end = at.saturating_add(local.len()).saturating_add(size);
        let descriptor = match sizes_follow {
            true => descriptor_len(file, end, size),
            false => Some(0),
        };
        if descriptor.is_none() {
            self.doubt(format!("member {number} has another size behind its content"));
        }
        self.parts.push((at, end.saturating_add(descriptor.unwrap_or(0))));
        Ok(())
    }

    /// Looks at what belongs to no member, and hands the names of local headers there to `take`.
    ///
    /// # Errors
    /// Programs disagree about the archive, or it cannot be read.
    pub(super) fn finish(
        mut self,
        archive: &ZipArchive<FileReader>,
        len: u64,
        take: &mut dyn FnMut(StoredName<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = archive.get_ref();
        let (directory, end) = (archive.directory_offset(), archive.eocd_offset());
        self.check_end(file, directory, end);
        self.parts.push((directory, end + END as u64));
        let mut parts = std::mem::take(&mut self.parts);
        parts.sort_unstable();
        let mut at = 0;
        for (start, behind) in parts.into_iter().chain([(len, len)]) {
            if start < at {
                self.doubt("members overlap");
            }
            self.search_gap(file, at..start, take)?;
            at = at.max(behind);
        }
        // Directories can be hidden in each other, and in names.
        self.search(file, directory..end, &mut |layout, found, _| {
            if found.starts_with(END_MARK) {
                layout.doubt(TWO_ENDS);
            }
            Ok(())
        })?;
        match self.doubt {
            Some(what) => Err(io::Error::other(format!("programs read other members of it: {what}"))),
            None => Ok(()),
        }
    }

    /// Checks that all programs find the same central directory.
    fn check_end(&mut self, file: &FileReader, directory: u64, at: u64) {
        let mut end = [0; END];
        if file.read_exact_at(&mut end, at).is_err() {
            return;
        }
        let [count, size, offset] = [u16_at(&end, 10).map(u32::from), u32_at(&end, 12), u32_at(&end, 16)]
            .map(|field| u64::from(field.unwrap_or_default()));
        let (mut directory_end, mut size) = (at, size);
        let mut locator = [0; LOCATOR as usize];
        let before = at.checked_sub(LOCATOR).filter(|&at| file.read_exact_at(&mut locator, at).is_ok());
        if before.is_some() && locator.starts_with(b"PK\x06\x07") {
            let mut large = [0; 56];
            let at = u64_at(&locator, 8).unwrap_or_default();
            let is_there = file.read_exact_at(&mut large, at).is_ok() && large.starts_with(b"PK\x06\x06");
            let [large_count, large_size, large_offset] =
                [32, 40, 48].map(|at| u64_at(&large, at).unwrap_or_default());
            let is_same = |small: u64, most: u64, large: u64| small == most || small == large;
            if !is_there
                || !is_same(count, u16::MAX.into(), large_count)
                || !is_same(size, u32::MAX.into(), large_size)
                || !is_same(offset, u32::MAX.into(), large_offset)
            {
                self.doubt("it has two central directories, one of them of zip64");
            }
            (directory_end, size) = (at, large_size);
        }
        if directory.checked_add(size) != Some(directory_end) {
            self.doubt("its central directory is not where its end says");
        }
    }

    /// Searches bytes between members.
    fn search_gap(
        &mut self,
        file: &FileReader,
        gap: std::ops::Range<u64>,
        take: &mut dyn FnMut(StoredName<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = gap.end;
        self.search(file, gap, &mut |layout, found, at| {
            if found.starts_with(END_MARK) {
                layout.doubt(TWO_ENDS);
            } else if is_plausible(found)
                && let Some(local) = LocalHeader::read(file, at).filter(|local| at + local.len() <= end)
            {
                layout.doubt("there are members that its directory does not have");
                take(local.stored_name())?;
            }
            Ok(())
        })
    }

    /// Hands what begins with `PK` to `found`, with its offset.
    fn search(
        &mut self,
        file: &FileReader,
        part: std::ops::Range<u64>,
        found: &mut dyn FnMut(&mut Self, &[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        let mut at = part.start;
        while at < part.end {
            let most = usize::try_from(part.end - at).map_or(CHUNK, |left| left.min(CHUNK));
            let read = file.read_at(&mut buffer[..most], at)?;
            let bytes = &buffer[..read];
            // The beginning of a header at the end is read again.
            let is_last = at + read as u64 >= part.end;
            let done = if is_last || read < 2 * LOCAL { read } else { read - LOCAL };
            for start in memmem::find_iter(bytes, b"PK").take_while(|&start| start < done) {
                found(self, &bytes[start..], at + start as u64)?;
            }
            if done == 0 {
                break;
            }
            at += done as u64;
        }
        Ok(())
    }
}

const END_MARK: &[u8] = b"PK\x05\x06";
const TWO_ENDS: &str = "it has two ends, each with a central directory";

/// Reports whether the bytes can be a local header, and not a program that looks for one.
fn is_plausible(bytes: &[u8]) -> bool {
    let field = |at| u16_at(bytes, at);
    let is_known = |method| matches!(method, 0..=20 | 93..=99);
    bytes.starts_with(b"PK\x03\x04")
        && field(4).is_some_and(|version| version & 0xFF < 100)
        && field(8).is_some_and(is_known)
        && field(26).is_some_and(|len| len > 0)
}

/// The length of the sizes that follow the content (4.3.9), with or without a signature and zip64; `None` if there are others.
fn descriptor_len(file: &FileReader, at: u64, size: u64) -> Option<u64> {
    let mut bytes = [0; 24];
    let read = file.read_at(&mut bytes, at).ok()?;
    let bytes = &bytes[..read];
    let marked = u64::from(bytes.starts_with(b"PK\x07\x08")) * 4;
    let sizes = bytes.get(marked as usize + 4..)?;
    if u32_at(sizes, 0).map(u64::from) == Some(size) {
        return Some(marked + 12);
    }
    (u64_at(sizes, 0) == Some(size)).then_some(marked + 20)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}
