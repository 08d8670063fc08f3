//! The members of a zip, from its central directory. Source: APPNOTE.TXT 6.3.10.
//!
//! Local headers with other names, and members that the directory does not have, are damage, and are checked too.

mod ambiguity;
mod members;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fs::File;
use std::io;

use flate2::Crc;
use rawzip::extra_fields::{ExtraFieldId, ExtraFields};
use rawzip::{ErrorKind, FileReader, RECOMMENDED_BUFFER_SIZE, ZipArchive, ZipFileHeaderRecord};

use self::ambiguity::ZipLayout;
pub use self::members::{ZipMember, ZipMembers};
use super::Members;
use super::encoding::{MemberEncoding, NameEvidence, ReadingCounts, UnmarkedGuess, UnmarkedReader};

/// The flag bit for names in UTF-8 (4.4.4).
const UTF8: u16 = 1 << 11;

/// Reads every member.
///
/// # Errors
/// The file is not a zip, its central directory is damaged, or programs disagree about its members; those that were found were added.
pub(super) fn read(file: File, encoding: MemberEncoding, members: &mut Members<'_>) -> io::Result<()> {
    let len = file.metadata()?.len();
    let archive = ZipArchive::from_file(file, &mut vec![0; RECOMMENDED_BUFFER_SIZE])
        .map_err(|error| io::Error::other(format!("it is neither a tar nor a zip: {error}")))?;
    let guess = OnceCell::new();
    let mut decoder = NameDecoder::new(&archive, encoding, &guess);
    let mut layout = ZipLayout::default();
    each_entry(&archive, &mut |entry| {
        let (own, other) = stored_names(entry);
        let name = decoder.decode(own, &mut members.unmarked);
        members.take(&name)?;
        let number = members.number;
        let mut take_other =
            |name: StoredName<'_>| members.take_alternative(&decoder.decode(name, &mut ReadingCounts::new()));
        other.map_or(Ok(()), &mut take_other)?;
        layout.add(archive.get_ref(), number, entry, &mut take_other)
    })?;
    let found = members.number;
    layout.finish(&archive, len, &mut |name| {
        members.take_alternative(&decoder.decode(name, &mut ReadingCounts::new()))
    })?;
    // Some programs write the number modulo 65,536.
    let promised = archive.entries_hint();
    if found != promised && (found < promised || found & 0xFFFF != promised) {
        return Err(io::Error::other(format!("its directory announces {promised} members, but has {found}")));
    }
    Ok(())
}

/// Adds the names of the members of a tar that a program for zips reads, if it reads any.
///
/// # Errors
/// It has the end of a zip that cannot be read.
pub(super) fn read_beside(file: File, encoding: MemberEncoding, members: &mut Members<'_>) -> io::Result<()> {
    /// No program looks for the end of a zip farther from that of a file: its comment has at most 65,535 bytes.
    const MOST_BEHIND: u64 = 1 << 17;
    let locator = ZipArchive::with_max_search_space(MOST_BEHIND);
    let unreadable = |error: io::Error| {
        io::Error::other(format!(
            "it ends like a zip, which programs for zips look for, and that cannot be read: {error}"
        ))
    };
    let archive = match locator.locate_in_file(file, &mut vec![0; RECOMMENDED_BUFFER_SIZE]) {
        Ok(archive) => archive,
        Err((_, error)) if matches!(error.kind(), ErrorKind::MissingEndOfCentralDirectory) => return Ok(()),
        Err((_, error)) => return Err(unreadable(io::Error::other(error))),
    };
    if members.is_for_renames {
        return Err(io::Error::other("it is a tar and a zip at once"));
    }
    let guess = OnceCell::new();
    let mut decoder = NameDecoder::new(&archive, encoding, &guess);
    each_entry(&archive, &mut |entry| {
        let (own, other) = stored_names(entry);
        for name in std::iter::once(own).chain(other) {
            members.take_alternative(&decoder.decode(name, &mut ReadingCounts::new()))?;
        }
        Ok(())
    })
    .map_err(unreadable)
}

struct NameDecoder<'a> {
    archive: &'a ZipArchive<FileReader>,
    /// Made with the first name that needs it: most archives have none.
    guess: &'a OnceCell<UnmarkedGuess>,
    reader: Option<UnmarkedReader<'a>>,
}

impl<'a> NameDecoder<'a> {
    fn new(
        archive: &'a ZipArchive<FileReader>,
        encoding: MemberEncoding,
        guess: &'a OnceCell<UnmarkedGuess>,
    ) -> Self {
        let reader = match encoding {
            MemberEncoding::Auto => None,
            MemberEncoding::Legacy(encoding) => Some(UnmarkedReader::Given(Some(encoding))),
            MemberEncoding::Utf8 => Some(UnmarkedReader::Given(None)),
        };
        Self { archive, guess, reader }
    }

    fn decode<'n>(&mut self, name: StoredName<'n>, counts: &mut ReadingCounts) -> Cow<'n, [u8]> {
        let name = match name {
            StoredName::Unmarked(name) if !name.is_ascii() => name,
            StoredName::Utf8(name) | StoredName::Unmarked(name) => return Cow::Borrowed(name),
        };
        let reader = self.reader.get_or_insert_with(|| {
            UnmarkedReader::for_guess(self.guess.get_or_init(|| evidence(self.archive).guess().of_zip()))
        });
        reader.read(name, counts)
    }
}

/// The names that are not marked as UTF-8, as far as the archive can be read: that it is damaged is found when names are taken.
fn evidence(archive: &ZipArchive<FileReader>) -> NameEvidence {
    let mut evidence = NameEvidence::default();
    let _ = each_entry(archive, &mut |entry| {
        let (own, other) = stored_names(entry);
        for name in std::iter::once(own).chain(other) {
            if let StoredName::Unmarked(name) = name {
                evidence.add(name);
            }
        }
        Ok(())
    });
    evidence
}

#[derive(Clone, Copy)]
enum StoredName<'n> {
    /// Marked as UTF-8.
    Utf8(&'n [u8]),
    /// In an encoding that the archive does not say.
    Unmarked(&'n [u8]),
}

impl<'n> StoredName<'n> {
    fn bytes(self) -> &'n [u8] {
        let (Self::Utf8(name) | Self::Unmarked(name)) = self;
        name
    }
}

/// The name of a member, and another one that some programs read.
fn stored_names<'e>(entry: &'e ZipFileHeaderRecord<'_>) -> (StoredName<'e>, Option<StoredName<'e>>) {
    let stored = entry.file_path().as_bytes();
    let is_marked = entry.flags().bits() & UTF8 != 0;
    let (own, other) = match unicode_path(entry.extra_fields(), stored) {
        Some(name) if is_marked => (StoredName::Utf8(stored), Some(StoredName::Utf8(name))),
        Some(name) => (StoredName::Utf8(name), Some(StoredName::Unmarked(stored))),
        // libarchive then takes any name that the field has.
        None if is_marked && str::from_utf8(stored).is_err() => (
            StoredName::Utf8(stored),
            unicode_field(entry.extra_fields(), ExtraFieldId::INFO_ZIP_UNICODE_PATH)
                .map(|(_, name)| StoredName::Utf8(name)),
        ),
        None if is_marked => (StoredName::Utf8(stored), None),
        None => (StoredName::Unmarked(stored), None),
    };
    // Some programs end a name at a NUL.
    let cut = || Some(StoredName::Unmarked(&stored[..memchr::memchr(0, stored).filter(|&end| end > 0)?]));
    (own, other.or_else(cut))
}

/// Hands each member to `take`.
///
/// # Errors
/// As of `take`, or the directory is damaged behind the members that were handed over.
fn each_entry(
    archive: &ZipArchive<FileReader>,
    take: &mut dyn FnMut(&ZipFileHeaderRecord<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let mut entries = archive.entries(&mut buffer);
    for at in 0.. {
        match entries.next_entry() {
            Ok(Some(entry)) => take(&entry)?,
            Ok(None) => break,
            Err(error) => {
                return Err(io::Error::other(format!(
                    "after member {at}: the directory is damaged: {error}"
                )));
            }
        }
    }
    Ok(())
}

/// The name in Info-ZIP's field (4.6.9).
fn unicode_path<'f>(fields: ExtraFields<'f>, stored: &[u8]) -> Option<&'f [u8]> {
    unicode_text(fields, ExtraFieldId::INFO_ZIP_UNICODE_PATH, stored)
}

/// The text in Info-ZIP's field for a name or a comment. The field contains a checksum of what is stored: if that was changed since,
/// the field is ignored.
fn unicode_text<'f>(fields: ExtraFields<'f>, id: ExtraFieldId, stored: &[u8]) -> Option<&'f [u8]> {
    let (checksum, name) = unicode_field(fields, id)?;
    let mut crc = Crc::new();
    crc.update(stored);
    (*checksum == crc.sum().to_le_bytes()).then_some(name)
}

/// The checksum and the text in that field.
fn unicode_field<'f>(mut fields: ExtraFields<'f>, wanted: ExtraFieldId) -> Option<(&'f [u8; 4], &'f [u8])> {
    let (_, field) = fields.find(|(id, _)| *id == wanted)?;
    field.strip_prefix(&[1])?.split_first_chunk()
}
