//! Copies a tar with other names, header by header, in its format and its compression. Sources: POSIX.1-2024, pax; the GNU tar manual,
//! "Basic Tar Format".

mod entry;

use std::fs::File;
use std::io::{self, BufReader, Read, Write};

use namegate_scan::progress::Observer;
use namegate_scan::source::archive::tar::header::{BLOCK, Block, Header};
use namegate_scan::source::archive::tar::pax;
use namegate_scan::source::archive::{ArchiveStream, Compression, PackingWriter};

use self::entry::{ExtendedHeader, MAX_EXTENDED, NewTexts, TarEntry};
use super::names::{LEADS_UP, MemberNames, leads_up};
use super::unique::UniquePaths;
use super::{CHUNK, CopyTally, interruption, refusal};

/// Copies the tar in `file`, which may unpack to `limit` bytes, to `out`.
pub(super) fn copy(
    file: BufReader<File>,
    compression: Compression,
    limit: u64,
    names: &mut MemberNames,
    out: &mut dyn Write,
    observer: &dyn Observer,
) -> io::Result<CopyTally> {
    let stream = ArchiveStream::of_file(file, compression, limit)?;
    let (out, tally) = (PackingWriter::new(out, compression)?, CopyTally::default());
    let mut copy = TarCopy {
        stream,
        out,
        names,
        unique: UniquePaths::new(),
        tally,
        extended: Vec::new(),
        observer,
        buffer: vec![0; CHUNK],
    };
    copy.run()?;
    let TarCopy { out, unique, tally, .. } = copy;
    unique.finish()?;
    out.finish()?;
    Ok(tally)
}

struct TarCopy<'c, W: Write> {
    stream: ArchiveStream,
    out: PackingWriter<W>,
    names: &'c mut MemberNames,
    unique: UniquePaths,
    tally: CopyTally,
    /// The extended headers of the next member.
    extended: Vec<ExtendedHeader>,
    observer: &'c dyn Observer,
    buffer: Vec<u8>,
}

impl<W: Write> TarCopy<'_, W> {
    fn run(&mut self) -> io::Result<()> {
        let mut is_void = false;
        while let Some(block) = self.next()? {
            interruption(self.observer)?;
            if block.iter().all(|&byte| byte == 0) {
                self.out.write_all(&block)?;
                if is_void {
                    // What follows the end is no member.
                    return self.copy_content(u64::MAX);
                }
                is_void = true;
                continue;
            }
            is_void = false;
            let Some(header) = Header::new(&block) else { return Err(refusal("a header is damaged")) };
            let size = header.size().ok_or_else(|| refusal("a size is not a number"))?;
            match header.kind() {
                b'x' | b'X' | b'L' | b'K' => {
                    let data = self.read_data(size)?;
                    self.extended.push(ExtendedHeader { block, data });
                }
                b'g' => {
                    let data = self.read_data(size)?;
                    check_global(&data)?;
                    if !self.extended.is_empty() {
                        return Err(refusal("a global header is between the headers of a member"));
                    }
                    ExtendedHeader { block, data }.write(&mut self.out)?;
                }
                _ => self.copy_member(block, size)?,
            }
        }
        match self.extended.is_empty() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The next block; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Block>> {
        let mut block = [0; BLOCK];
        let mut bytes = Vec::with_capacity(BLOCK);
        (&mut self.stream).take(BLOCK as u64).read_to_end(&mut bytes)?;
        match bytes.len() {
            0 => return Ok(None),
            BLOCK => block.copy_from_slice(&bytes),
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(Some(block))
    }

    /// The content of an extended header.
    fn read_data(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > MAX_EXTENDED {
            return Err(refusal(format!("an extended header has more than {MAX_EXTENDED} bytes")));
        }
        let mut data = vec![0; (size as usize).next_multiple_of(BLOCK)];
        self.stream.read_exact(&mut data)?;
        data.truncate(size as usize);
        Ok(data)
    }

    /// Copies `count` bytes, or all if there are fewer and `count` is `u64::MAX`.
    fn copy_content(&mut self, count: u64) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            interruption(self.observer)?;
            let most = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let len = match self.stream.read(&mut self.buffer[..most]) {
                Ok(0) if count == u64::MAX => return Ok(()),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            self.out.write_all(&self.buffer[..len])?;
            left -= len as u64;
        }
        Ok(())
    }

    /// Copies the member with the header `block`, whose size is `size`.
    fn copy_member(&mut self, block: Block, size: u64) -> io::Result<()> {
        let mut entry = TarEntry::new(block, std::mem::take(&mut self.extended))?;
        let kind = entry.kind();
        if matches!(kind, b'D' | b'M' | b'N') && !self.names.is_empty() {
            return Err(refusal(match kind {
                b'M' => "it is one part of a tar of several volumes",
                _ => "it is an incremental backup of GNU tar, whose directories list names as contents",
            }));
        }
        let old = entry.name();
        let new = self.names.new_path(&old)?;
        let link = match kind {
            b'1' => self.names.new_path(&entry.link())?,
            b'2' => self.names.new_target(&old, &entry.link())?,
            _ => None,
        };
        self.tally.members += 1;
        if leads_up(&old) {
            *self.tally.kept.entry(LEADS_UP).or_default() += 1;
        }
        self.tally.renamed += u64::from(new.is_some());
        self.tally.retargeted += u64::from(link.is_some());
        self.unique.add(&old, new.as_deref().unwrap_or(&old))?;
        // As the scan reads it, which found no program that reads another size.
        let content = match (kind, entry.size()) {
            (b'1', None) | (b'2'..=b'6', _) => 0,
            (_, own) => own.unwrap_or(size),
        };
        let content = content.checked_next_multiple_of(BLOCK as u64);
        let content = content.ok_or_else(|| refusal("a size is impossible"))?;
        entry.set(NewTexts { name: new, link })?;
        entry.write(&mut self.out)?;
        let mut has_map = kind == b'S' && Header::new(&block).is_some_and(Header::has_more_map);
        while has_map {
            let map = self.next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
            has_map = map[504] != 0;
            self.out.write_all(&map)?;
        }
        self.copy_content(content)
    }
}

/// Checks that a global header says nothing of names and sizes.
fn check_global(data: &[u8]) -> io::Result<()> {
    for record in pax::records(data) {
        let (key, _) = record.map_err(|_| refusal("a global header is malformed"))?;
        if matches!(key, b"path" | b"linkpath" | b"size") || key.starts_with(b"GNU.sparse.") {
            return Err(refusal("a global header has a name or a size for all members that follow"));
        }
    }
    Ok(())
}
