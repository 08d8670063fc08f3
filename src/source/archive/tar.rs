//! The members of a tar: POSIX ustar and pax, GNU, and the formats before them.
//!
//! Headers are parsed by the crate `tar`. Its iterator would read extended headers of any size into memory, so this module goes
//! from header to header itself. Sources: POSIX.1-2024, pax; tar(5) of libarchive; the GNU tar manual, "Basic Tar
//! Format".

use std::io::{self, Read};

use ::tar::{Header, PaxExtensions};

use super::Members;
use super::packed::ArchiveStream;

/// Size of the blocks in which headers and contents are stored.
const BLOCK: usize = 512;

/// Maximum size of an extended header.
const MAX_EXTENDED: u64 = 1 << 20;

/// Information about a member from the headers before it.
#[derive(Default)]
struct Ahead {
    /// GNU's long name.
    long_name: Option<Vec<u8>>,
    pax_path: Option<Vec<u8>>,
    /// The name of a sparse file, for which GNU tar stores an artificial path.
    sparse_name: Option<Vec<u8>>,
    size: Option<u64>,
}

/// Reads every member.
///
/// # Errors
/// The tar is damaged or incomplete; the members before the damage were added.
pub(super) fn read(stream: &mut ArchiveStream, members: &mut Members<'_>) -> io::Result<()> {
    let mut ahead = Ahead::default();
    let mut is_void = false;
    while let Some(block) = block(stream)? {
        if block.iter().all(|&b| b == 0) {
            // Two blocks of NULs are the end.
            if is_void {
                return Ok(());
            }
            is_void = true;
            continue;
        }
        is_void = false;
        if !is_header(&block) {
            return Err(damaged(members, "its header is damaged"));
        }
        let header = Header::from_byte_slice(&block);
        let size = header.entry_size().map_err(|_| damaged(members, "its size is not a number"))?;
        match header.entry_type().as_byte() {
            b'L' => ahead.long_name = Some(until_nul(extended(stream, size, members)?)),
            b'x' | b'X' => pax(&extended(stream, size, members)?, &mut ahead),
            // The long target of a link, settings for all members, the label of a volume.
            b'K' | b'g' | b'V' => skip(stream, size, members)?,
            kind => {
                let Ahead { long_name, pax_path, sparse_name, size: pax_size } = std::mem::take(&mut ahead);
                let name = sparse_name.or(pax_path).or(long_name);
                let mut name = name.unwrap_or_else(|| header.path_bytes().into_owned());
                // Not every program writes it; `D` is a directory of a GNU incremental backup.
                if matches!(kind, b'5' | b'D') && name.last() != Some(&b'/') {
                    name.push(b'/');
                }
                members.take(&name)?;
                if kind == b'S' {
                    skip_map(stream, header)?;
                }
                // Links, devices and directories have no content, whatever their size says; directories of GNU incremental
                // backups have another type.
                let size = match kind {
                    b'1' if pax_size.is_none() => 0,
                    b'2'..=b'6' => 0,
                    _ => pax_size.unwrap_or(size),
                };
                skip(stream, size, members)?;
            }
        }
    }
    // Some programs omit the end marker. Complete blocks show that no byte is missing.
    Ok(())
}

/// Reports whether the bytes begin with a header, by its checksum.
pub(super) fn is_header(bytes: &[u8]) -> bool {
    let Some(block) = bytes.get(..BLOCK) else { return false };
    let sum: u32 = block
        .iter()
        .zip(0..)
        .map(|(&b, at)| u32::from(if (148..156).contains(&at) { b' ' } else { b }))
        .sum();
    // Some old programs treated bytes as signed numbers.
    let signed = block.iter().zip(0..).filter(|&(_, at)| !(148..156).contains(&at));
    let signed: i64 = signed.map(|(&b, _)| i64::from(b.cast_signed())).sum::<i64>() + 8 * i64::from(b' ');
    let is_right = |given: u32| given == sum || i64::from(given) == signed;
    block[0] != 0 && Header::from_byte_slice(block).cksum().is_ok_and(is_right)
}

/// Reads the next block; `None` at the end of the file.
fn block(stream: &mut ArchiveStream) -> io::Result<Option<[u8; BLOCK]>> {
    let (mut block, mut filled) = ([0; BLOCK], 0);
    while filled < BLOCK {
        match stream.read(&mut block[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::Error::other("it is cut short in a header")),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(block))
}

/// Reads the content of an extended header, in whole blocks.
fn extended(stream: &mut ArchiveStream, size: u64, members: &Members<'_>) -> io::Result<Vec<u8>> {
    if size > MAX_EXTENDED {
        return Err(damaged(members, &format!("its extended header has more than {MAX_EXTENDED} bytes")));
    }
    let mut bytes = Vec::new();
    stream.take(size).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < size {
        return Err(damaged(members, "it is cut short"));
    }
    stream.skip(size.next_multiple_of(BLOCK as u64) - size).map_err(|error| cut_short(error, members))?;
    Ok(bytes)
}

/// Skips the content of a header.
fn skip(stream: &mut ArchiveStream, size: u64, members: &Members<'_>) -> io::Result<()> {
    let whole = size.checked_next_multiple_of(BLOCK as u64);
    let whole = whole.ok_or_else(|| damaged(members, "its size is impossible"))?;
    stream.skip(whole).map_err(|error| cut_short(error, members))
}

fn cut_short(error: io::Error, members: &Members<'_>) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged(members, "it is cut short"),
        _ => error,
    }
}

/// Skips the rest of the map of a sparse file in GNU's old format.
fn skip_map(stream: &mut ArchiveStream, header: &Header) -> io::Result<()> {
    let mut goes_on = header.as_gnu().is_some_and(::tar::GnuHeader::is_extended);
    while goes_on {
        let Some(map) = block(stream)? else {
            return Err(io::Error::other("it is cut short in a sparse map"));
        };
        goes_on = map[504] == 1;
    }
    Ok(())
}

fn pax(bytes: &[u8], ahead: &mut Ahead) {
    // After a malformed record the rest cannot be parsed.
    for record in PaxExtensions::new(bytes).map_while(Result::ok) {
        let value = record.value_bytes();
        match record.key_bytes() {
            b"path" => ahead.pax_path = Some(value.to_vec()),
            b"GNU.sparse.name" => ahead.sparse_name = Some(value.to_vec()),
            b"size" => ahead.size = std::str::from_utf8(value).ok().and_then(|size| size.parse().ok()),
            _ => {}
        }
    }
}

fn until_nul(mut name: Vec<u8>) -> Vec<u8> {
    name.truncate(memchr::memchr(0, &name).unwrap_or(name.len()));
    name
}

fn damaged(members: &Members<'_>, why: &str) -> io::Error {
    io::Error::other(format!("after member {}: {why}", members.number))
}
