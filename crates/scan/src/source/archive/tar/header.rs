//! The header block of a member. Sources: POSIX.1-2024, pax, "ustar Interchange Format"; tar(5) of libarchive; the GNU tar manual,
//! "Basic Tar Format".

/// Size of the blocks in which headers and contents are stored.
pub const BLOCK: usize = 512;

pub type Block = [u8; BLOCK];

/// A header whose checksum is right.
#[derive(Clone, Copy, Debug)]
pub struct Header<'b>(&'b Block);

impl<'b> Header<'b> {
    /// The header in a block; `None` if its checksum is wrong.
    pub fn new(block: &'b Block) -> Option<Self> {
        let given = leading_octal(&block[148..156])?;
        let is_counted = |&(at, _): &(usize, &u8)| !(148..156).contains(&at);
        let others = || block.iter().enumerate().filter(is_counted).map(|(_, &byte)| byte);
        let blanks = 8 * i64::from(b' ');
        let sum = others().map(i64::from).sum::<i64>() + blanks;
        // Some old programs treated bytes as signed numbers.
        let signed = others().map(|byte| i64::from(byte.cast_signed())).sum::<i64>() + blanks;
        i64::try_from(given).is_ok_and(|given| given == sum || given == signed).then_some(Self(block))
    }

    /// The type of the member.
    pub fn kind(self) -> u8 {
        self.0[156]
    }

    /// The size of what follows; `None` if it is not a number.
    pub fn size(self) -> Option<u64> {
        number(&self.0[124..136])
    }

    /// The name, as the format of the header defines it.
    pub fn name(self) -> Vec<u8> {
        match self.magic() {
            b"ustar\0" => self.with_prefix().unwrap_or_else(|| self.plain_name()),
            _ => self.plain_name(),
        }
    }

    /// The name for a program that does not look at the format, if that is another one.
    pub fn other_name(self) -> Option<Vec<u8>> {
        if self.magic() == b"ustar\0" {
            return None;
        }
        // Here a header of GNU tar has two times.
        let is_time = self.is_gnu() && [345, 357].iter().all(|&at| number(&self.0[at..at + 12]).is_some());
        self.with_prefix().filter(|_| !is_time)
    }

    /// Reports whether it is a header of GNU tar, whose sparse files have maps.
    pub fn is_gnu(self) -> bool {
        self.magic() == b"ustar "
    }

    /// Reports whether more of the map of a sparse file follows.
    pub fn has_more_map(self) -> bool {
        self.0[482] != 0
    }

    fn magic(self) -> &'b [u8] {
        &self.0[257..263]
    }

    fn plain_name(self) -> Vec<u8> {
        until_nul(&self.0[..100]).to_vec()
    }

    fn with_prefix(self) -> Option<Vec<u8>> {
        let prefix = until_nul(&self.0[345..500]);
        (!prefix.is_empty()).then(|| [prefix, b"/", until_nul(&self.0[..100])].concat())
    }
}

/// The bytes before the first NUL.
pub fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

/// The number in octal digits after blanks, whatever follows it.
fn leading_octal(field: &[u8]) -> Option<u64> {
    let digits = field.trim_ascii_start().split(|byte| !matches!(byte, b'0'..=b'7')).next()?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

/// The number in a field: octal digits, or binary as GNU tar writes large ones; an empty field is 0. `None` if programs would disagree.
fn number(field: &[u8]) -> Option<u64> {
    match field {
        [0x80, rest @ ..] => {
            rest.iter().try_fold(0_u64, |value, &byte| Some(value.checked_mul(256)? + u64::from(byte)))
        }
        _ if field.iter().all(|byte| matches!(byte, 0 | b' ')) => Some(0),
        _ => {
            let text = field.trim_ascii_start();
            let end = text.iter().position(|byte| !matches!(byte, b'0'..=b'7')).unwrap_or(text.len());
            matches!(text.get(end), None | Some(0 | b' ')).then(|| leading_octal(field))?
        }
    }
}

/// Reports whether the bytes begin with a header.
pub(in super::super) fn is_header(bytes: &[u8]) -> bool {
    bytes.first_chunk().is_some_and(|block| Header::new(block).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_what_all_programs_read() {
        let cases: [(&[u8], Option<u64>); 12] = [
            (b"00000000017\0", Some(15)),
            (b"        17 \0", Some(15)),
            (b"17\0garbage..", Some(15)),
            (b"\0\0\0\0\0\0\0\0\0\0\0\0", Some(0)),
            (b"            ", Some(0)),
            (b"777777777777", Some(0o777_777_777_777)),
            (b"\x80\0\0\0\0\0\0\0\0\0\x01\x02", Some(258)),
            (b"\x80\0\0\x01\0\0\0\0\0\0\0\0", None),
            (b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", None),
            (b"0000000001x\0", None),
            (b"0o17\0\0\0\0\0\0\0\0", None),
            (b"-1\0\0\0\0\0\0\0\0\0\0", None),
        ];
        for (field, expected) in cases {
            assert_eq!(number(field), expected, "{}", field.escape_ascii());
        }
    }
}
