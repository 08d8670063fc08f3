//! Copies a zip with other names: in the local headers, in the order of the file, and in the central directory. All other bytes are
//! copied as they are; only offsets and lengths follow. Source: APPNOTE.TXT 6.3.10.

mod headers;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use namegate_findings::records::{DirectoryOrder, EntryRecord, RecordSorter, SortedRecords};
use namegate_scan::progress::Observer;
use namegate_scan::source::archive::MemberEncoding;
use namegate_scan::source::archive::zip::{ZipMember, ZipMembers};

use self::headers::{EndRecords, MemberChange, ZipHeader};
use super::names::{LEADS_UP, MemberNames, leads_up};
use super::unique::UniquePaths;
use super::{CHUNK, CopyTally, interruption, refusal};
use crate::plan_record::damaged;

/// Bytes of records that are kept in memory.
const LIMIT: usize = 8 << 20;

/// Copies the zip in `file` to `out`.
pub(super) fn copy(
    file: &File,
    names: &mut MemberNames,
    encoding: MemberEncoding,
    out: &mut dyn Write,
    observer: &dyn Observer,
) -> io::Result<CopyTally> {
    let zip = ZipMembers::open(file.try_clone()?)?;
    let directory = zip.directory();
    let mut reading = ZipReading::new();
    zip.each(encoding, &mut |member| {
        interruption(observer)?;
        reading.add(&member, names)
    })?;
    let ZipReading { tally, by_header, unique, records_len, signature } = reading;
    unique.finish()?;
    let end = EndRecords::read(file, directory.start + records_len, directory.end)?;
    if tally.renamed + tally.marked > 0 {
        let signature = signature.or_else(|| headers::signature_before(file, directory.start));
        if let Some(what) = signature.or_else(|| end.signature()) {
            return Err(refusal(format!("{what}, and other names would break the signature")));
        }
    }
    let mut copy = ZipCopy { file, out, read: 0, written: 0 };
    let by_record = copy.write_members(by_header.finish()?, directory.start, observer)?;
    let moved_directory = copy.written;
    copy.write_directory(&by_record)?;
    let moved_end = copy.written;
    let tail = end.moved(directory.start, moved_directory, moved_end)?;
    copy.write(&tail)?;
    copy.out.flush()?;
    Ok(tally)
}

/// What the members of the central directory say, in its order.
struct ZipReading {
    tally: CopyTally,
    /// The changes by the offsets of local headers.
    by_header: RecordSorter,
    unique: UniquePaths,
    records_len: u64,
    /// What of the archive is signed.
    signature: Option<String>,
}

impl ZipReading {
    fn new() -> Self {
        let by_header = RecordSorter::new(DirectoryOrder::Bytes, LIMIT);
        let (tally, unique) = (CopyTally::default(), UniquePaths::new());
        Self { tally, by_header, unique, records_len: 0, signature: None }
    }

    fn add(&mut self, member: &ZipMember<'_>, names: &mut MemberNames) -> io::Result<()> {
        /// The flag bit for headers without names, in an encrypted directory (4.4.4).
        const MASKED: u16 = 1 << 13;
        let tally = &mut self.tally;
        tally.members += 1;
        if member.flags & MASKED != 0 {
            return Err(refusal(format!("its central directory is encrypted (member {})", tally.members)));
        }
        if self.signature.is_none() && headers::is_signature(member.name) {
            let name = namegate_core::name::display::display(member.name);
            self.signature = Some(format!("it is signed ({name})"));
        }
        tally.zip_links += u64::from(member.is_link);
        let new = names.new_path(member.name)?;
        let path = new.as_deref().unwrap_or(member.name);
        let text = std::str::from_utf8(path).ok();
        let kept = match () {
            () if leads_up(path) => Some(LEADS_UP),
            () if text.is_none() => Some("it has parts that are not UTF-8 and get no new name"),
            () if member.is_ambiguous => {
                Some("it is UTF-8 without the mark, and more likely in another encoding")
            }
            () => None,
        };
        let mut change = MemberChange { record: member.record, ..MemberChange::default() };
        match kept {
            None if path != member.stored || !member.is_marked_utf8 && !path.is_ascii() => {
                tally.renamed += u64::from(new.is_some());
                tally.marked += u64::from(new.is_none());
                change.name = text.map(str::to_owned);
                change.comment.clone_from(&member.decoded_comment);
            }
            // Names that are not UTF-8 stay what they are: that they were left out is said where the plan is counted.
            Some(why) if new.is_some() || text.is_some() || why == LEADS_UP => {
                *tally.kept.entry(why).or_default() += 1
            }
            None | Some(_) => {}
        }
        let written = change.name.as_deref().map_or(member.name, str::as_bytes);
        self.unique.add(member.name, written)?;
        self.records_len += member.record.1 as u64;
        let key = member.local_header.to_be_bytes();
        self.by_header.push(EntryRecord { dir: b"", name: &key, payload: &serde_json::to_vec(&change)? })
    }
}

struct ZipCopy<'c> {
    file: &'c File,
    out: &'c mut dyn Write,
    /// How much of the file was copied.
    read: u64,
    written: u64,
}

impl ZipCopy<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Copies the file up to the offset `end`.
    fn copy_to(&mut self, end: u64, observer: &dyn Observer) -> io::Result<()> {
        let mut buffer =
            vec![0; usize::try_from(end.saturating_sub(self.read)).map_or(CHUNK, |len| len.min(CHUNK))];
        while self.read < end {
            interruption(observer)?;
            let len = buffer.len().min(usize::try_from(end - self.read).unwrap_or(CHUNK));
            self.file.read_exact_at(&mut buffer[..len], self.read)?;
            self.write(&buffer[..len])?;
            self.read += len as u64;
        }
        Ok(())
    }

    /// Writes everything before the central directory, which begins at `directory`, and returns the changes by the offsets of records.
    fn write_members(
        &mut self,
        by_header: SortedRecords,
        directory: u64,
        observer: &dyn Observer,
    ) -> io::Result<SortedRecords> {
        let mut by_record = RecordSorter::new(DirectoryOrder::Bytes, LIMIT);
        let mut cursor = by_header.cursor()?;
        while let Some(record) = cursor.next()? {
            let at = u64::from_be_bytes(record.name.try_into().map_err(|_| damaged())?);
            let mut change: MemberChange = serde_json::from_slice(record.payload)?;
            if at < self.read || at >= directory {
                return Err(refusal("its members overlap"));
            }
            self.copy_to(at, observer)?;
            change.moved = self.written.wrapping_sub(at);
            if let Some(name) = &change.name {
                let header = ZipHeader::read_local(self.file, at)?;
                self.read += header.len();
                self.write(&header.with_name(name.as_bytes(), None)?)?;
            }
            let key = change.record.0.to_be_bytes();
            by_record.push(EntryRecord { dir: b"", name: &key, payload: &serde_json::to_vec(&change)? })?;
        }
        self.copy_to(directory, observer)?;
        by_record.finish()
    }

    /// Writes the central directory.
    fn write_directory(&mut self, by_record: &SortedRecords) -> io::Result<()> {
        let mut cursor = by_record.cursor()?;
        while let Some(record) = cursor.next()? {
            let change: MemberChange = serde_json::from_slice(record.payload)?;
            let mut header = ZipHeader::read_record(self.file, change.record)?;
            header.move_member(change.moved)?;
            let bytes = match &change.name {
                Some(name) => {
                    header.with_name(name.as_bytes(), change.comment.as_deref().map(str::as_bytes))?
                }
                None => header.into_bytes(),
            };
            self.write(&bytes)?;
        }
        Ok(())
    }
}
