//! UCS-4 in one to six octets, as ISO/IEC 10646-1:1993 Amendment 2 (Annex R) defined UTF-8.
//!
//! The structure is wider than today's UTF-8: sequences reach six octets and values 7FFFFFFF, and nothing in it forbids
//! surrogates or overlong forms. It is only for *diagnosis*: it shows which value an ill-formed sequence was meant to
//! encode. It must never be used to accept a name; [`super::utf8`] does that.
//!
//! Source: ISO/IEC 10646-1:1993 Amd. 2, R.2 table 1 (structure), R.4 and R.5 (mapping), table 3 (examples), R.7
//! (malformed sequences).

/// The largest UCS-4 value: 31 bits.
pub const MAX: u32 = 0x7FFF_FFFF;

/// The role of one octet in the structure of Annex R, table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Octet {
    /// `00..7F`: a sequence of its own.
    Single,
    /// `80..BF`: six bits of a longer sequence.
    Continuation,
    /// `C0..FD`: the first of `2..=6` octets.
    Lead(u8),
    /// `FE`, `FF`: never used.
    Invalid,
}

impl Octet {
    /// Classifies one octet.
    pub const fn classify(octet: u8) -> Self {
        match octet {
            0x00..=0x7F => Self::Single,
            0x80..=0xBF => Self::Continuation,
            0xC0..=0xDF => Self::Lead(2),
            0xE0..=0xEF => Self::Lead(3),
            0xF0..=0xF7 => Self::Lead(4),
            0xF8..=0xFB => Self::Lead(5),
            0xFC..=0xFD => Self::Lead(6),
            0xFE..=0xFF => Self::Invalid,
        }
    }

    /// The number of octets in a sequence that begins with this octet, 1 to 6; `None` if no sequence can.
    pub const fn sequence_len(self) -> Option<usize> {
        match self {
            Self::Single => Some(1),
            Self::Lead(len) => Some(len as usize),
            Self::Continuation | Self::Invalid => None,
        }
    }

    /// The bits of the octet that carry the value (table 1, "free bits").
    pub const fn free_bits(self) -> u8 {
        match self {
            Self::Single => 0x7F,
            Self::Continuation => 0x3F,
            // A lead of n octets begins with n ones and a zero; the rest carries the value.
            Self::Lead(len) => 0x7F >> len,
            Self::Invalid => 0,
        }
    }
}

/// The smallest value that needs `len` octets; a smaller one in `len` octets is overlong.
///
/// # Panics
/// If `len` is not in `1..=6`.
pub const fn min_value(len: usize) -> u32 {
    match len {
        1 => 0,
        2 => 0x80,
        3 => 0x800,
        4 => 0x1_0000,
        5 => 0x20_0000,
        6 => 0x400_0000,
        _ => panic!("a sequence has 1 to 6 octets"),
    }
}

/// The value of the sequence at the start of `bytes`, and its length in octets; `None` if there is no complete sequence.
///
/// ```
/// use namegate_core::name::ucs4;
/// assert_eq!(ucs4::decode(b"\xC3\xA9"), Some((0xE9, 2)));
/// assert_eq!(ucs4::decode(b"\xED\xA0\x80"), Some((0xD800, 3)));            // a surrogate: has a value, is no UTF-8
/// assert_eq!(ucs4::decode(b"\xFD\xBF\xBF\xBF\xBF\xBF"), Some((0x7FFF_FFFF, 6)));
/// assert_eq!(ucs4::decode(b"\xC3x"), None);
/// ```
pub fn decode(bytes: &[u8]) -> Option<(u32, usize)> {
    let first = *bytes.first()?;
    let octet = Octet::classify(first);
    let len = octet.sequence_len()?;
    let mut value = u32::from(first & octet.free_bits());
    for &next in bytes.get(1..len)? {
        if Octet::classify(next) != Octet::Continuation {
            return None;
        }
        value = value << 6 | u32::from(next & 0x3F);
    }
    Some((value, len))
}

/// How a value is written: as a code point in four to six digits (RFC 3629, section 2), or as the value that it is where no code point
/// is that great.
///
/// ```
/// use namegate_core::name::ucs4::notation;
/// assert_eq!([0x2F, 0xD800, 0x10_FFFF].map(notation), ["U+002F", "U+D800", "U+10FFFF"]);
/// assert_eq!(notation(0x3FF_FFFF), "UCS-4 value 0x3FFFFFF");
/// ```
pub fn notation(value: u32) -> String {
    if value <= u32::from(char::MAX) { format!("U+{value:04X}") } else { format!("UCS-4 value 0x{value:X}") }
}

/// The shortest sequence for a UCS-4 value, 1 to 6 octets; `None` above [`MAX`].
///
/// ```
/// use namegate_core::name::ucs4;
/// assert_eq!(ucs4::encode(0x20_0000).unwrap().as_slice(), b"\xF8\x88\x80\x80\x80");
/// assert_eq!(ucs4::encode(0x8000_0000), None);
/// ```
pub fn encode(value: u32) -> Option<Sequence> {
    let len = (1..=6).rev().find(|&len| value >= min_value(len))?;
    encode_in(value, len)
}

/// The sequence of exactly `len` octets for a value: overlong if `len` is more than it needs, `None` if it does not fit.
///
/// ```
/// use namegate_core::name::ucs4;
/// assert_eq!(ucs4::encode_in(0x2F, 2).unwrap().as_slice(), b"\xC0\xAF");
/// assert_eq!(ucs4::encode_in(0x800, 2), None);
/// ```
pub fn encode_in(value: u32, len: usize) -> Option<Sequence> {
    let limit =
        if len == 6 { MAX } else { min_value(len.checked_add(1).filter(|n| (2..=6).contains(n))?) - 1 };
    if value > limit {
        return None;
    }
    let mut octets = [0; 6];
    let mut rest = value;
    for octet in octets[1..len].iter_mut().rev() {
        *octet = 0x80 | (rest & 0x3F) as u8;
        rest >>= 6;
    }
    // `len` ones from the top mark the length; a single octet has none.
    let marker = if len == 1 { 0 } else { !(0xFF_u8 >> len) };
    octets[0] = marker | rest as u8;
    Some(Sequence { octets, len })
}

/// One encoded value, 1 to 6 octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    octets: [u8; 6],
    len: usize,
}

impl Sequence {
    /// The octets.
    pub fn as_slice(&self) -> &[u8] {
        &self.octets[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ISO/IEC 10646-1:1993 Amd. 2, table 3.
    const TABLE_3: &[(u32, &[u8])] = &[
        (0x1, b"\x01"),
        (0x7F, b"\x7F"),
        (0x80, b"\xC2\x80"),
        (0x7FF, b"\xDF\xBF"),
        (0x800, b"\xE0\xA0\x80"),
        (0xFFFF, b"\xEF\xBF\xBF"),
        (0x1_0000, b"\xF0\x90\x80\x80"),
        (0x10_FFFF, b"\xF4\x8F\xBF\xBF"),
        (0x1F_FFFF, b"\xF7\xBF\xBF\xBF"),
        (0x20_0000, b"\xF8\x88\x80\x80\x80"),
        (0x3FF_FFFF, b"\xFB\xBF\xBF\xBF\xBF"),
        (0x400_0000, b"\xFC\x84\x80\x80\x80\x80"),
        (0x7FFF_FFFF, b"\xFD\xBF\xBF\xBF\xBF\xBF"),
    ];

    #[test]
    fn table_3_of_annex_r_holds_in_both_directions() {
        for &(value, octets) in TABLE_3 {
            assert_eq!(encode(value).map(|s| s.as_slice().to_vec()).as_deref(), Some(octets), "{value:X}");
            assert_eq!(decode(octets), Some((value, octets.len())), "{value:X}");
        }
    }

    #[test]
    fn every_scalar_value_is_encoded_as_char_encodes_it() {
        for c in '\0'..=char::MAX {
            let mut buffer = [0; 4];
            let expected = c.encode_utf8(&mut buffer).as_bytes();
            let ours = encode(c as u32).expect("a scalar value is below 7FFFFFFF");
            assert_eq!(ours.as_slice(), expected);
            assert_eq!(decode(expected), Some((c as u32, expected.len())));
        }
    }

    #[test]
    fn each_length_holds_its_smallest_and_largest_value_and_no_larger() {
        for len in 1..=6 {
            let largest = if len == 6 { MAX } else { min_value(len + 1) - 1 };
            for value in [0, min_value(len), largest] {
                let sequence = encode_in(value, len).unwrap();
                assert_eq!(decode(sequence.as_slice()), Some((value, len)));
            }
            assert_eq!(encode_in(largest + 1, len), None);
        }
        assert_eq!(encode_in(0, 0), None);
        assert_eq!(encode_in(0, 7), None);
        assert_eq!(encode_in(0, usize::MAX), None);
    }

    #[test]
    fn octet_order_is_value_order() {
        let mut values: Vec<u32> =
            TABLE_3.iter().flat_map(|&(v, _)| [v.saturating_sub(1), v, (v + 1).min(MAX)]).collect();
        values.sort_unstable();
        values.dedup();
        let encoded: Vec<Vec<u8>> = values.iter().map(|&v| encode(v).unwrap().as_slice().to_vec()).collect();
        assert!(encoded.is_sorted());
    }

    #[test]
    fn incomplete_and_impossible_sequences_have_no_value() {
        for bytes in
            [&b""[..], b"\x80", b"\xC3", b"\xE2\x82", b"\xE2\x82x", b"\xFC\x84\x80\x80\x80", b"\xFE", b"\xFF"]
        {
            assert_eq!(decode(bytes), None, "{bytes:X?}");
        }
    }
}
