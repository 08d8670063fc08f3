//! Records of extended headers. Source: POSIX.1-2024, pax, "pax Extended Header": `LENGTH KEYWORD=VALUE\n`, where LENGTH counts the whole
//! record, so that a value can contain line feeds.

/// A record is malformed, and what follows it is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedRecord;

/// The records of an extended header: keyword and value.
pub fn records(bytes: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), MalformedRecord>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let first = first_record(rest);
        rest = first.map_or(&[][..], |(_, after)| after);
        Some(first.map(|(record, _)| record).ok_or(MalformedRecord))
    })
}

/// A record, and what follows it.
type FirstRecord<'b> = ((&'b [u8], &'b [u8]), &'b [u8]);

fn first_record(bytes: &[u8]) -> Option<FirstRecord<'_>> {
    /// Digits of the length of a record that can be read.
    const MOST_DIGITS: usize = 19;
    let digits = bytes.iter().take(MOST_DIGITS).position(|byte| !byte.is_ascii_digit())?;
    let len: usize = std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()?;
    let (record, after) = bytes.split_at_checked(len)?;
    let body = record.get(digits..)?.strip_prefix(b" ")?.strip_suffix(b"\n")?;
    let equals = memchr::memchr(b'=', body).filter(|&at| at > 0)?;
    Some(((&body[..equals], &body[equals + 1..]), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_where_their_length_says() {
        let all = |bytes: &'static [u8]| records(bytes).collect::<Vec<_>>();
        let record = |key: &'static str, value: &'static [u8]| Ok((key.as_bytes(), value));
        assert_eq!(
            all(b"22 comment=two\nlines\n\n12 path=a=b\n"),
            [record("comment", b"two\nlines\n"), record("path", b"a=b")]
        );
        assert_eq!(all(b"8 path=\n"), [record("path", b"")]);
        let malformed: [&[u8]; 11] = [
            b"x path=a\n",
            b" 10 path=a\n",
            b"10path=ab\n",
            b"99 path=a\n",
            b"10 path=ab",
            b"8 patha\n",
            b"5 =a\n",
            b"0 \n",
            b"\0x",
            b"12 path=a=b\n\0\0",
            b"99999999999999999999 path=a\n",
        ];
        for bytes in malformed {
            assert_eq!(all(bytes).last(), Some(&Err(MalformedRecord)), "{}", bytes.escape_ascii());
        }
    }
}
