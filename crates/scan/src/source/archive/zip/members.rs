//! The members of a zip with where their headers are, for a copy with other names.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::ops::Range;

use rawzip::extra_fields::ExtraFieldId;
use rawzip::{FileReader, RECOMMENDED_BUFFER_SIZE, ZipArchive};

use super::{NameDecoder, StoredName, UTF8, each_entry, stored_names, unicode_text};
use crate::source::archive::encoding::{MemberEncoding, ReadingCounts};

/// A zip that was read without a fault.
#[derive(Debug)]
pub struct ZipMembers(ZipArchive<FileReader>);

/// A member.
#[derive(Debug)]
pub struct ZipMember<'e> {
    /// The name that programs read.
    pub name: &'e [u8],
    /// The name in the headers, which an extra field can replace.
    pub stored: &'e [u8],
    pub is_marked_utf8: bool,
    /// A part of the name can be UTF-8, but other names of the archive say that it is not.
    pub is_ambiguous: bool,
    pub flags: u16,
    /// The offset of the local header.
    pub local_header: u64,
    /// The offset of the record in the central directory, and its length.
    pub record: (u64, usize),
    pub is_link: bool,
    /// The comment as UTF-8, if it is stored in another encoding.
    pub decoded_comment: Option<String>,
}

impl ZipMembers {
    /// Opens the zip in `file`.
    ///
    /// # Errors
    /// It is not a zip, or cannot be read.
    pub fn open(file: File) -> io::Result<Self> {
        ZipArchive::from_file(file, &mut vec![0; RECOMMENDED_BUFFER_SIZE]).map(Self).map_err(io::Error::other)
    }

    /// Where the central directory begins, and where the end record is behind it.
    pub fn directory(&self) -> Range<u64> {
        self.0.directory_offset()..self.0.eocd_offset()
    }

    /// Hands over each member, in the order of the central directory. Comments are in `encoding` if they are not marked as UTF-8.
    ///
    /// # Errors
    /// As of `take`, or the directory is damaged.
    pub fn each(
        &self,
        encoding: MemberEncoding,
        take: &mut dyn FnMut(ZipMember<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        /// The size of a record without what is variable (4.3.12).
        const RECORD: usize = 46;
        let guess = OnceCell::new();
        let mut decoder = NameDecoder::new(&self.0, encoding, &guess);
        each_entry(&self.0, &mut |entry| {
            let name = stored_names(entry).0.bytes();
            let (stored, flags) = (entry.file_path().as_bytes(), entry.flags().bits());
            let comment = entry.comment().as_bytes();
            let is_marked_utf8 = flags & UTF8 != 0;
            let by_field =
                unicode_text(entry.extra_fields(), ExtraFieldId::INFO_ZIP_UNICODE_COMMENT, comment);
            let text = match by_field {
                Some(text) => Cow::Borrowed(text),
                None if is_marked_utf8 => Cow::Borrowed(comment),
                None => decoder.decode(StoredName::Unmarked(comment), &mut ReadingCounts::new()),
            };
            let decoded_comment =
                String::from_utf8(text.into_owned()).ok().filter(|decoded| decoded.as_bytes() != comment);
            let is_guessed = encoding == MemberEncoding::Auto && !is_marked_utf8 && name == stored;
            let is_ambiguous = is_guessed
                && name.split(|&byte| byte == b'/').any(|part| {
                    let part = StoredName::Unmarked(part);
                    std::str::from_utf8(part.bytes()).is_ok()
                        && *decoder.decode(part, &mut ReadingCounts::new()) != *part.bytes()
                });
            let len = RECORD + stored.len() + entry.extra_fields().remaining_bytes().len() + comment.len();
            take(ZipMember {
                name,
                stored,
                is_marked_utf8,
                is_ambiguous,
                flags,
                local_header: entry.local_header_offset(),
                record: (entry.central_directory_offset(), len),
                is_link: entry.external_attributes() >> 28 == 0o12,
                decoded_comment,
            })
        })
    }
}
