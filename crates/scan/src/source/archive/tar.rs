//! The members of a tar: POSIX ustar and pax, GNU, and the formats before them.
//!
//! Programs do not agree on every tar. A name counts if one of GNU tar, libarchive and Python unpacks it: where they read different names
//! of a member, all are checked. Where they disagree on the size of a member, so that each finds others behind it, or where a header is
//! damaged, the tar is reported as damaged, and from there on each block that is a header is a member: GNU tar goes on at the next
//! one. Sources: POSIX.1-2024, pax; tar(5) of libarchive; the GNU tar manual, "Basic Tar Format"; each of the programs.

pub mod header;
pub mod pax;

use std::collections::BTreeSet;
use std::io::{self, Read};

use self::header::{BLOCK, Block, Header, until_nul};
use super::Members;
use super::encoding::{MemberEncoding, TarNames};
use super::packed::ArchiveStream;

/// Maximum size of an extended header.
const MAX_EXTENDED: u64 = 1 << 20;

/// Reads every member.
///
/// # Errors
/// The tar is damaged or incomplete, or programs disagree about it. The members that were found were added.
pub(super) fn read(
    stream: &mut ArchiveStream,
    encoding: MemberEncoding,
    members: &mut Members<'_>,
) -> io::Result<()> {
    let stream = Blocks { stream, at: 0, doubtful: BTreeSet::new() };
    let (local, global, long_name) = Default::default();
    let names = TarNames::new(encoding);
    let mut reader = TarReader { stream, members, names, local, global, long_name, damage: None, void: None };
    let read = reader.read();
    let TarReader { members, names, damage, .. } = reader;
    members.encodings = names.guess(&mut members.unmarked);
    damage.map_or(read, Err)
}

/// What extended headers say about members.
#[derive(Clone, Debug, Default)]
struct Overrides {
    path: Option<Vec<u8>>,
    /// The name of a sparse file, for which GNU tar stores an artificial path.
    sparse_name: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Overrides {
    fn is_empty(&self) -> bool {
        self.path.is_none() && self.sparse_name.is_none() && self.size.is_none()
    }

    /// The name, and the path that some programs prefer.
    fn names(self) -> [Option<Vec<u8>>; 2] {
        let Self { path, sparse_name, .. } = self;
        match sparse_name {
            Some(name) => {
                let other = path.filter(|path| !is_artificial(path, &name));
                [Some(name), other]
            }
            None => [path, None],
        }
    }
}

/// Reports whether `path` is the one that GNU tar stores for the sparse file `name`: `DIRECTORY/GNUSparseFile.NUMBER/NAME`.
pub fn is_artificial(path: &[u8], name: &[u8]) -> bool {
    let split = |path: &[u8]| {
        let at = memchr::memrchr(b'/', path);
        at.map_or((b".".to_vec(), path.to_vec()), |at| (path[..at].to_vec(), path[at + 1..].to_vec()))
    };
    let ((dir, base), (above, last)) = (split(name), split(path));
    let (above, artificial) = split(&above);
    let digits = artificial.strip_prefix(b"GNUSparseFile.");
    above == dir && last == base && digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

struct Blocks<'s> {
    stream: &'s mut ArchiveStream,
    /// The offset of the next byte.
    at: u64,
    /// Offsets where a program that reads another size would look for the next header. None is before `at`.
    doubtful: BTreeSet<u64>,
}

impl Blocks<'_> {
    /// Reads the next block; `None` at the end of the file.
    fn next(&mut self) -> io::Result<Option<Block>> {
        let mut block = [0; BLOCK];
        match self.fill(&mut block)? {
            0 => Ok(None),
            BLOCK => Ok(Some(block)),
            _ => Err(io::Error::other("it is cut short in a header")),
        }
    }

    /// Reads as many bytes as there are.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.at += filled as u64;
        self.doubtful = self.doubtful.split_off(&self.at);
        Ok(filled)
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        self.stream.skip(count)?;
        self.at += count;
        Ok(())
    }
}

/// Reads a tar from header to header.
struct TarReader<'r, 's, 'm> {
    stream: Blocks<'s>,
    members: &'r mut Members<'m>,
    names: TarNames,
    /// What the headers before say about the next member.
    local: Overrides,
    /// GNU's long name of the next member.
    long_name: Option<Vec<u8>>,
    /// What global headers say about all members that follow.
    global: Overrides,
    /// The first damage: each header that is found behind it is a member.
    damage: Option<io::Error>,
    /// The offset behind a block of NULs where a program that reads another size looks for a header.
    void: Option<u64>,
}

impl TarReader<'_, '_, '_> {
    fn read(&mut self) -> io::Result<()> {
        let mut is_void = false;
        // Some programs omit the end marker. Complete blocks show that no byte is missing.
        loop {
            let is_doubtful = self.stream.doubtful.contains(&self.stream.at);
            let Some(block) = self.stream.next()? else { return Ok(()) };
            if is_doubtful && (self.long_name.is_some() || !self.local.is_empty()) {
                self.damaged("programs read another size of it, and not what comes before the next header");
            }
            if block.iter().all(|&byte| byte == 0) {
                // Two blocks of NULs are the end.
                if is_void && self.damage.is_none() && !self.goes_on()? {
                    return Ok(());
                }
                is_void = true;
                continue;
            }
            is_void = false;
            match Header::new(&block) {
                Some(header) => self.header(header)?,
                None => self.damaged("its header is damaged"),
            }
        }
    }

    /// Records damage, unless there was some before.
    fn damaged(&mut self, why: &str) {
        let number = self.members.number;
        self.damage.get_or_insert_with(|| io::Error::other(format!("after member {number}: {why}")));
    }

    fn header(&mut self, header: Header<'_>) -> io::Result<()> {
        let size = header.size();
        if size.is_none() {
            self.damaged("its size is not a number");
        }
        let size = size.unwrap_or(0);
        match header.kind() {
            b'L' => {
                let (bytes, len) = self.extended(size)?;
                // GNU tar reads it to its NUL, which can be behind its size.
                let (name, other) = (until_nul(&bytes[..len]), until_nul(&bytes));
                if name != other {
                    self.members.take_alternative(other)?;
                }
                let before = self.long_name.replace(name.to_vec());
                self.replaced(before)
            }
            b'x' | b'X' => {
                if !self.local.is_empty() {
                    self.damaged("it has two extended headers, of which programs read the last one or both");
                }
                let (bytes, len) = self.extended(size)?;
                self.pax(&bytes[..len], |reader| &mut reader.local)
            }
            b'g' => {
                let (bytes, len) = self.extended(size)?;
                self.pax(&bytes[..len], |reader| &mut reader.global)
            }
            // The long target of a link.
            b'K' => self.skip(size),
            kind => self.member(header, kind, size),
        }
    }

    /// Adds a member.
    fn member(&mut self, header: Header<'_>, kind: u8, size: u64) -> io::Result<()> {
        let (local, long_name) = (std::mem::take(&mut self.local), self.long_name.take());
        let (own_size, global) = (local.size, self.global.clone());
        let global_size = global.size;
        let [own, other] = local.names();
        let has_own = own.is_some();
        let [of_all, other_of_all] = if has_own { [None, None] } else { global.names() };
        // Not every program reads global headers, or what comes before a header in a damaged tar.
        let is_stored_read = !has_own || long_name.is_some() || self.damage.is_some();
        let is_header_read = long_name.is_none() || self.damage.is_some();
        let in_header =
            [Some(header.name()), header.other_name()].map(|name| name.filter(|_| is_header_read));
        let stored = std::iter::once(long_name).chain(in_header).map(|name| name.filter(|_| is_stored_read));
        let names = [own, other, of_all, other_of_all].into_iter().chain(stored).flatten();
        // Some programs end a name at a NUL.
        let until_nul = |name: &[u8]| name.iter().position(|&byte| byte == 0).filter(|&end| end > 0);
        let with_cut = |name: Vec<u8>| {
            let cut = until_nul(&name).map(|end| name[..end].to_vec());
            std::iter::once(name).chain(cut)
        };
        let mut names = names.flat_map(with_cut);
        // Not every program writes the `/`; `D` is a directory of a GNU incremental backup.
        let is_directory = matches!(kind, b'5' | b'D');
        let marked = |mut name: Vec<u8>| {
            if is_directory && name.last() != Some(&b'/') {
                name.push(b'/');
            }
            name
        };
        let name = marked(names.next().unwrap_or_default());
        let decoded = self.names.read(&name, &mut self.members.unmarked);
        self.members.take(&decoded)?;
        for other in names.map(marked).filter(|other| *other != name) {
            self.members.take_alternative(&other)?;
        }
        if kind == b'S' {
            self.skip_map(header)?;
        }
        // Links, devices and directories have no content, whatever their size says; directories of GNU incremental
        // backups have another type.
        let content = match kind {
            b'1' if own_size.is_none() => 0,
            b'2'..=b'6' => 0,
            _ => own_size.or(global_size).unwrap_or(size),
        };
        // Some programs skip it all the same, read no global headers, or see directories in names that end with `/`.
        let others = match kind {
            b'1'..=b'6' => [Some(size), own_size.or(global_size), Some(0)],
            _ => [Some(size).filter(|_| own_size.is_none()), None, name.ends_with(b"/").then_some(0)],
        };
        let others = others.into_iter().flatten().filter_map(whole_blocks);
        for other in others.filter(|&other| Some(other) != whole_blocks(content)) {
            self.stream.doubtful.insert(self.stream.at.saturating_add(other));
        }
        self.skip(content)
    }

    /// Skips the content of a header. What is damaged is read block by block instead.
    fn skip(&mut self, size: u64) -> io::Result<()> {
        /// More disagreement than an archive by accident has.
        const MOST_DOUBTFUL: usize = 4096;
        let Some(end) = whole_blocks(size).and_then(|whole| self.stream.at.checked_add(whole)) else {
            self.damaged("its size is impossible");
            return Ok(());
        };
        if self.stream.doubtful.len() > MOST_DOUBTFUL {
            self.damaged("programs read other sizes of its members");
        }
        while self.damage.is_none() {
            let doubtful = self.stream.doubtful.first().copied().filter(|&at| at < end);
            let count = doubtful.unwrap_or(end).saturating_sub(self.stream.at);
            if let Err(error) = self.stream.skip(count) {
                let is_short = error.kind() == io::ErrorKind::UnexpectedEof;
                return if is_short {
                    self.damaged("it is cut short");
                    Ok(())
                } else {
                    Err(error)
                };
            }
            if doubtful.is_none() || self.reads_elsewhere()? {
                break;
            }
        }
        Ok(())
    }

    /// Reads the next block, where a program that reads another size looks for a header. Reports whether it goes on there; a header is a member.
    fn reads_elsewhere(&mut self) -> io::Result<bool> {
        let at = self.stream.at;
        let Some(block) = self.stream.next()? else { return Ok(false) };
        if block.iter().all(|&byte| byte == 0) {
            // Two of them are the end, behind one some programs go on.
            if self.void != Some(at) {
                self.void = Some(self.stream.at);
                self.stream.doubtful.insert(self.stream.at);
            }
            return Ok(false);
        }
        // Where there is no header, GNU tar looks for the next one.
        self.damaged("programs read another size of it, and other members behind it");
        if let Some(header) = Header::new(&block) {
            self.header(header)?;
        }
        Ok(true)
    }

    /// Behind the end marker: reports whether there is a header where a program that reads another size looks for one.
    fn goes_on(&mut self) -> io::Result<bool> {
        while let Some(doubtful) = self.stream.doubtful.first().copied() {
            match self.stream.skip(doubtful.saturating_sub(self.stream.at)) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                skipped => skipped?,
            }
            if self.reads_elsewhere()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the blocks with the content of an extended header, and returns how much of them it is.
    fn extended(&mut self, size: u64) -> io::Result<(Vec<u8>, usize)> {
        if size > MAX_EXTENDED {
            self.damaged(&format!("its extended header has more than {MAX_EXTENDED} bytes"));
            return Ok((Vec::new(), 0));
        }
        let size = usize::try_from(size).expect("it is small");
        let (start, mut bytes) = (self.stream.at, vec![0; size.next_multiple_of(BLOCK)]);
        if self.stream.doubtful.first().is_some_and(|&at| at < start + bytes.len() as u64) {
            self.damaged("programs read another size of it, and other members behind it");
        }
        let filled = self.stream.fill(&mut bytes)?;
        if filled < bytes.len() {
            self.damaged("it is cut short");
            bytes.truncate(filled);
        }
        let (blocks, _) = bytes.as_chunks::<BLOCK>();
        for header in blocks.iter().filter(|_| self.damage.is_some()).filter_map(Header::new) {
            self.members.take(&header.name())?;
        }
        let len = size.min(bytes.len());
        Ok((bytes, len))
    }

    /// Skips the rest of the map of a sparse file in GNU's old format.
    fn skip_map(&mut self, header: Header<'_>) -> io::Result<()> {
        let mut goes_on = header.has_more_map();
        if goes_on && !header.is_gnu() {
            self.damaged("it is a sparse file in an unknown format");
        }
        while goes_on && self.damage.is_none() {
            if self.stream.doubtful.contains(&self.stream.at) {
                self.damaged("programs read another size of it, and other members behind it");
            }
            let Some(map) = self.stream.next()? else {
                return Err(io::Error::other("it is cut short in a sparse map"));
            };
            goes_on = map[504] != 0;
        }
        Ok(())
    }

    /// Reads the records of an extended header.
    fn pax(&mut self, bytes: &[u8], of: fn(&mut Self) -> &mut Overrides) -> io::Result<()> {
        for record in pax::records(bytes) {
            match record {
                // An empty value takes back what was said before.
                Ok((b"path", value)) => {
                    let before = std::mem::replace(&mut of(self).path, filled(value));
                    self.replaced(before)?;
                }
                Ok((b"GNU.sparse.name", value)) => {
                    let before = std::mem::replace(&mut of(self).sparse_name, filled(value));
                    self.replaced(before)?;
                }
                Ok((b"size", value)) => {
                    let size = std::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'));
                    match size.and_then(|text| text.parse().ok()) {
                        Some(size) if of(self).size.is_none_or(|before| before == size) => {
                            of(self).size = Some(size);
                        }
                        Some(_) => self.damaged("an extended header has two sizes"),
                        None => self.damaged("the size in an extended header is not a number"),
                    }
                }
                Ok(_) => {}
                Err(pax::MalformedRecord) => self.damaged("an extended header is malformed"),
            }
        }
        Ok(())
    }

    /// Checks a name that was said of a member before another one: some programs keep the first.
    fn replaced(&mut self, before: Option<Vec<u8>>) -> io::Result<()> {
        before.map_or(Ok(()), |before| self.members.take_alternative(&before))
    }
}

fn filled(value: &[u8]) -> Option<Vec<u8>> {
    (!value.is_empty()).then(|| value.to_vec())
}

/// The size with the padding of the last block.
fn whole_blocks(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(BLOCK as u64)
}
