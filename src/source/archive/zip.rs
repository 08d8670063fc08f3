//! The members of a zip, from its central directory. Source: APPNOTE.TXT 6.3.10.

use std::cell::OnceCell;
use std::fs::File;
use std::io;

use flate2::Crc;
use rawzip::extra_fields::{ExtraFieldId, ExtraFields};
use rawzip::{FileReader, RECOMMENDED_BUFFER_SIZE, ZipArchive};

use super::Members;
use super::encoding::{MemberEncoding, NameEvidence, UnmarkedReader};

/// The flag bit for names in UTF-8 (4.4.4).
const UTF8: u16 = 1 << 11;

/// Reads every member.
///
/// # Errors
/// The file is not a zip, or its central directory is damaged; the members before the damage were added.
pub(super) fn read(file: File, encoding: MemberEncoding, members: &mut Members<'_>) -> io::Result<()> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::from_file(file, &mut buffer)
        .map_err(|error| io::Error::other(format!("it is neither a tar nor a zip: {error}")))?;
    let promised = archive.entries_hint();
    // Made with the first name that needs it: most archives have none.
    let guess = OnceCell::new();
    let mut reader = match encoding {
        MemberEncoding::Auto => None,
        MemberEncoding::Legacy(encoding) => Some(UnmarkedReader::Given(Some(encoding))),
        MemberEncoding::Utf8 => Some(UnmarkedReader::Given(None)),
    };
    each_name(&archive, &mut |name| match name {
        StoredName::Utf8(name) => members.take(name),
        StoredName::Unmarked(name) if name.is_ascii() => members.take(name),
        StoredName::Unmarked(name) => {
            let reader = reader.get_or_insert_with(|| {
                UnmarkedReader::for_guess(guess.get_or_init(|| evidence(&archive).guess().of_zip()))
            });
            let name = reader.read(name, &mut members.unmarked);
            members.take(&name)
        }
    })?;
    if members.number < promised {
        let found = members.number;
        return Err(io::Error::other(format!("its directory announces {promised} members, but has {found}")));
    }
    Ok(())
}

/// The names that are not marked as UTF-8, as far as the archive can be read: that it is damaged is found when names are taken.
fn evidence(archive: &ZipArchive<FileReader>) -> NameEvidence {
    let mut evidence = NameEvidence::default();
    let _ = each_name(archive, &mut |name| {
        if let StoredName::Unmarked(name) = name {
            evidence.add(name);
        }
        Ok(())
    });
    evidence
}

/// The name of a member.
enum StoredName<'n> {
    /// Marked as UTF-8.
    Utf8(&'n [u8]),
    /// In an encoding that the archive does not say.
    Unmarked(&'n [u8]),
}

/// Hands the name of each member to `take`.
///
/// # Errors
/// As of `take`, or the directory is damaged behind the names that were handed over.
fn each_name(
    archive: &ZipArchive<FileReader>,
    take: &mut dyn FnMut(StoredName<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let mut entries = archive.entries(&mut buffer);
    for at in 0.. {
        let entry = match entries.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => {
                return Err(io::Error::other(format!(
                    "after member {at}: the directory is damaged: {error}"
                )));
            }
        };
        let stored = entry.file_path();
        let stored = stored.as_bytes();
        take(match unicode_path(entry.extra_fields(), stored) {
            _ if entry.flags().bits() & UTF8 != 0 => StoredName::Utf8(stored),
            Some(name) => StoredName::Utf8(name),
            None => StoredName::Unmarked(stored),
        })?;
    }
    Ok(())
}

/// The name in Info-ZIP's field (4.6.9). The field contains a checksum of the stored name: if the name was changed since, the
/// field is ignored.
fn unicode_path<'f>(mut fields: ExtraFields<'f>, stored: &[u8]) -> Option<&'f [u8]> {
    let (_, field) = fields.find(|(id, _)| *id == ExtraFieldId::INFO_ZIP_UNICODE_PATH)?;
    let (head, name) = field.split_at_checked(5)?;
    let mut crc = Crc::new();
    crc.update(stored);
    (head[0] == 1 && head[1..] == crc.sum().to_le_bytes()).then_some(name)
}
