//! The members of a zip, from its central directory. Source: APPNOTE.TXT 6.3.10.

use std::borrow::Cow;
use std::fs::File;
use std::io;

use flate2::Crc;
use rawzip::extra_fields::{ExtraFieldId, ExtraFields};
use rawzip::{RECOMMENDED_BUFFER_SIZE, ZipArchive};

use super::{MemberEncoding, Members};

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
    let mut entries = archive.entries(&mut buffer);
    loop {
        let entry = match entries.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            Err(error) => {
                let at = members.number;
                return Err(io::Error::other(format!(
                    "after member {at}: the directory is damaged: {error}"
                )));
            }
        };
        let stored = entry.file_path();
        let stored = stored.as_bytes();
        let name = if entry.flags().bits() & UTF8 != 0 {
            Cow::Borrowed(stored)
        } else {
            match unicode_path(entry.extra_fields(), stored) {
                Some(name) => Cow::Borrowed(name),
                None => encoding.decode(stored),
            }
        };
        members.take(&name)?;
    }
    if members.number < promised {
        let found = members.number;
        return Err(io::Error::other(format!("its directory announces {promised} members, but has {found}")));
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
