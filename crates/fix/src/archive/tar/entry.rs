//! The headers of one member of a tar, and how a name gets into them: where it was, or in an extended header of the same format.

use std::io::{self, Write};

use namegate_scan::source::archive::tar::header::{BLOCK, Block, Header, until_nul};
use namegate_scan::source::archive::tar::{is_artificial, pax};

use crate::archive::refusal;

/// Maximum size of an extended header, as for a scan.
pub(super) const MAX_EXTENDED: u64 = 1 << 20;

/// The fields of a header for the name and the target of a link, and the prefix of the name in ustar.
const NAME: std::ops::Range<usize> = 0..100;
const LINK: std::ops::Range<usize> = 157..257;
const PREFIX: std::ops::Range<usize> = 345..500;

/// An extended header of pax, or a long name of GNU tar.
#[derive(Debug)]
pub(super) struct ExtendedHeader {
    pub(super) block: Block,
    pub(super) data: Vec<u8>,
}

/// The headers of a member.
#[derive(Debug)]
pub(super) struct TarEntry {
    block: Block,
    extended: Vec<ExtendedHeader>,
    /// The records of its extended header of pax.
    records: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What changes in the headers.
#[derive(Debug)]
pub(super) struct NewTexts {
    pub(super) name: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
}

/// A text of a header, and what it is called in the formats.
#[derive(Clone, Copy)]
struct TextField {
    range: (usize, usize),
    keyword: &'static [u8],
    /// The type of GNU's header for a long one.
    long: u8,
}

const NAME_FIELD: TextField = TextField { range: (NAME.start, NAME.end), keyword: b"path", long: b'L' };
const LINK_FIELD: TextField = TextField { range: (LINK.start, LINK.end), keyword: b"linkpath", long: b'K' };
const SPARSE_NAME: &[u8] = b"GNU.sparse.name";

impl ExtendedHeader {
    fn kind(&self) -> u8 {
        self.block[156]
    }

    fn is_pax(&self) -> bool {
        matches!(self.kind(), b'x' | b'X')
    }

    /// A header of this type for a member with the header `of`.
    fn new(kind: u8, of: &Block) -> Self {
        let mut block = [0; BLOCK];
        let name: &[u8] = if kind == b'x' { b"PaxHeaders/name" } else { b"././@LongLink" };
        block[..name.len()].copy_from_slice(name);
        for (at, text) in
            [(100, &b"0000644"[..]), (108, b"0000000"), (116, b"0000000"), (136, b"00000000000")]
        {
            block[at..at + text.len()].copy_from_slice(text);
        }
        block[156] = kind;
        block[257..265].copy_from_slice(&of[257..265]);
        Self { block, data: Vec::new() }
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.block)?;
        out.write_all(&self.data)?;
        let padding = self.data.len().next_multiple_of(BLOCK) - self.data.len();
        out.write_all(&[0; BLOCK][..padding])
    }

    fn set_data(&mut self, data: Vec<u8>) {
        self.block[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
        set_checksum(&mut self.block);
        self.data = data;
    }
}

impl TarEntry {
    /// # Errors
    /// An extended header is malformed, or there are several of pax.
    pub(super) fn new(block: Block, extended: Vec<ExtendedHeader>) -> io::Result<Self> {
        let mut records = Vec::new();
        if extended.iter().filter(|header| header.is_pax()).count() > 1 {
            return Err(refusal("a member has two extended headers"));
        }
        for header in extended.iter().filter(|header| header.is_pax()) {
            for record in pax::records(&header.data) {
                let (key, value) = record.map_err(|_| refusal("an extended header is malformed"))?;
                records.push((key.to_vec(), value.to_vec()));
            }
        }
        Ok(Self { block, extended, records })
    }

    pub(super) fn kind(&self) -> u8 {
        self.block[156]
    }

    /// The value of the last record with this keyword that has one.
    fn record(&self, keyword: &[u8]) -> Option<&[u8]> {
        let mut records = self.records.iter().rev();
        records.find(|(key, _)| key == keyword).map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    fn long(&self, kind: u8) -> Option<Vec<u8>> {
        let header = self.extended.iter().rev().find(|header| header.kind() == kind)?;
        Some(until_nul(&header.data).to_vec())
    }

    /// The name, as the scan reads it.
    pub(super) fn name(&self) -> Vec<u8> {
        let own = self.record(SPARSE_NAME).or_else(|| self.record(b"path")).map(<[u8]>::to_vec);
        let header = || Header::new(&self.block).map(Header::name).unwrap_or_default();
        own.or_else(|| self.long(b'L')).unwrap_or_else(header)
    }

    /// The target, if it is a link.
    pub(super) fn link(&self) -> Vec<u8> {
        let own = self.record(b"linkpath").map(<[u8]>::to_vec);
        own.or_else(|| self.long(b'K')).unwrap_or_else(|| until_nul(&self.block[LINK]).to_vec())
    }

    /// The size in its extended header.
    pub(super) fn size(&self) -> Option<u64> {
        std::str::from_utf8(self.record(b"size")?).ok()?.parse().ok()
    }

    /// Changes the name and the target.
    ///
    /// # Errors
    /// They are too long.
    pub(super) fn set(&mut self, NewTexts { name, link }: NewTexts) -> io::Result<()> {
        let Some(new) = name else { return link.map_or(Ok(()), |link| self.set_text(LINK_FIELD, &link)) };
        let sparse_name = self.record(SPARSE_NAME).map(<[u8]>::to_vec);
        match sparse_name {
            None => self.set_text(NAME_FIELD, &new)?,
            Some(old) => {
                self.set_record(SPARSE_NAME, &new)?;
                let header = || Header::new(&self.block).map(Header::name).unwrap_or_default();
                let path = self.record(b"path").map_or_else(header, <[u8]>::to_vec);
                let artificial = artificial_path(&old, &path, &new);
                self.set_text(NAME_FIELD, &artificial)?;
            }
        }
        link.map_or(Ok(()), |link| self.set_text(LINK_FIELD, &link))
    }

    /// Writes a text where the old one was, or else where the format has room for it.
    fn set_text(&mut self, field: TextField, new: &[u8]) -> io::Result<()> {
        let is_ustar = self.block[257..263] == *b"ustar\0";
        let has_record = self.record(field.keyword).is_some();
        let has_long = self.extended.iter().any(|header| header.kind() == field.long);
        let is_whole = self.set_field(field, new, is_ustar);
        set_checksum(&mut self.block);
        if has_record || !is_whole && !has_long && is_ustar {
            self.set_record(field.keyword, new)?;
        }
        if has_long || !is_whole && !has_record && !is_ustar {
            if !has_long {
                self.extended.insert(0, ExtendedHeader::new(field.long, &self.block));
            }
            for header in self.extended.iter_mut().filter(|header| header.kind() == field.long) {
                header.set_data([new, b"\0"].concat());
            }
        }
        Ok(())
    }

    /// Writes a text into the header, or its beginning; reports whether that is all of it.
    fn set_field(&mut self, field: TextField, new: &[u8], is_ustar: bool) -> bool {
        let (start, end) = field.range;
        let room = end - start;
        let is_name = field.long == b'L';
        // star has times behind a shorter prefix.
        let prefix_len = if self.block[508..] == *b"tar\0" { 131 } else { PREFIX.len() };
        let prefix = PREFIX.start..PREFIX.start + prefix_len;
        let (above, text) = match new.len() > room && is_name && is_ustar {
            true => split(new, room, prefix_len),
            false => (&b""[..], new),
        };
        let cut = match std::str::from_utf8(text) {
            Ok(whole) => (0..=room.min(text.len())).rev().find(|&at| whole.is_char_boundary(at)).unwrap_or(0),
            Err(_) => text.len().min(room),
        };
        self.block[start..end].fill(0);
        self.block[start..start + cut].copy_from_slice(&text[..cut]);
        if is_name && is_ustar {
            self.block[prefix.clone()].fill(0);
            self.block[prefix][..above.len()].copy_from_slice(above);
        }
        cut == text.len()
    }

    /// Sets a record of the extended header of pax, which is made if there is none.
    fn set_record(&mut self, keyword: &[u8], value: &[u8]) -> io::Result<()> {
        let mut is_set = false;
        for (_, old) in self.records.iter_mut().filter(|(key, _)| key == keyword) {
            value.clone_into(old);
            is_set = true;
        }
        if !is_set {
            self.records.push((keyword.to_vec(), value.to_vec()));
        }
        let data: Vec<u8> = self.records.iter().flat_map(|(key, value)| format_record(key, value)).collect();
        if !self.extended.iter().any(ExtendedHeader::is_pax) {
            self.extended.push(ExtendedHeader::new(b'x', &self.block));
        }
        if data.len() as u64 > MAX_EXTENDED {
            return Err(refusal("a new path is too long"));
        }
        if let Some(header) = self.extended.iter_mut().find(|header| header.is_pax()) {
            header.set_data(data);
        }
        Ok(())
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.extended.iter().try_for_each(|header| header.write(out))?;
        out.write_all(&self.block)
    }
}

/// The path for `new` that stands for the sparse file `old` in `path`, which is itself if it is not artificial.
fn artificial_path(old: &[u8], path: &[u8], new: &[u8]) -> Vec<u8> {
    if !is_artificial(path, old) {
        return new.to_vec();
    }
    let number = path.split(|&byte| byte == b'/').rev().nth(1).unwrap_or_default();
    let (above, base) = match memchr::memrchr(b'/', new) {
        Some(at) => (&new[..at], &new[at + 1..]),
        None => (&b"."[..], new),
    };
    [above, number, base].join(&b'/')
}

/// Splits a name for ustar; without a prefix if it does not fit.
fn split(name: &[u8], room: usize, prefix_room: usize) -> (&[u8], &[u8]) {
    let mut slashes = memchr::memrchr_iter(b'/', name);
    let fits = |&at: &usize| at > 0 && at <= prefix_room && (1..=room).contains(&(name.len() - at - 1));
    slashes.find(fits).map_or((&b""[..], name), |at| (&name[..at], &name[at + 1..]))
}

/// A record of pax, whose length counts itself.
fn format_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while rest + len.to_string().len() != len {
        len = rest + len.to_string().len();
    }
    [len.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

fn set_checksum(block: &mut Block) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}
