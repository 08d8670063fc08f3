use super::Malformation::*;
use super::*;

/// (bytes, kind, span end, value) of the first ill-formed sequence, which starts at 0 in all of them.
const FIRST: &[(&[u8], Malformation, usize, Option<u32>)] = &[
    (b"\x80", UnexpectedContinuation, 1, None),
    (b"\x80\xBF\x80x", UnexpectedContinuation, 3, None),
    (b"\xC3", Truncated, 1, None),
    (b"\xC0", Truncated, 1, None),
    (b"\xE2\x82x", Truncated, 2, None),
    (b"\xE0\x80\xC0", Truncated, 2, None),
    (b"\xED\xA0", Truncated, 2, None),
    (b"\xF4\x90", Truncated, 2, None),
    (b"\xFC\x84\x80\x80\x80x", Truncated, 5, None),
    (b"\xC1\x81", Overlong, 2, Some(0x41)),
    (b"\xE0\x9F\xBF", Overlong, 3, Some(0x7FF)),
    (b"\xF0\x8F\xBF\xBF", Overlong, 4, Some(0xFFFF)),
    (b"\xF8\x87\xBF\xBF\xBF", Overlong, 5, Some(0x1F_FFFF)),
    (b"\xFC\x83\xBF\xBF\xBF\xBF", Overlong, 6, Some(0x3FF_FFFF)),
    (b"\xC0\x80", NulSmuggling, 2, Some(0)),
    (b"\xFC\x80\x80\x80\x80\x80", NulSmuggling, 6, Some(0)),
    (b"\xC0\xAF", SeparatorSmuggling, 2, Some(0x2F)),
    (b"\xE0\x80\xAF", SeparatorSmuggling, 3, Some(0x2F)),
    (b"\xC0\xAE", SeparatorSmuggling, 2, Some(0x2E)),
    (b"\xED\xA0\x80", Surrogate, 3, Some(0xD800)),
    (b"\xED\xBF\xBF", Surrogate, 3, Some(0xDFFF)),
    (b"\xED\xB0\x80\xED\xA0\x80", Surrogate, 3, Some(0xDC00)),
    (b"\xED\xA0\x80x", Surrogate, 3, Some(0xD800)),
    (b"\xED\xA0\x80\xED\xB0\x80", SurrogatePair, 6, Some(0x1_0000)),
    (b"\xED\xAF\xBF\xED\xBF\xBF", SurrogatePair, 6, Some(0x10_FFFF)),
    (b"\xF4\x90\x80\x80", AboveMax, 4, Some(0x11_0000)),
    (b"\xF7\xBF\xBF\xBF", AboveMax, 4, Some(0x1F_FFFF)),
    (b"\xF8\x88\x80\x80\x80", FiveOrSixOctets, 5, Some(0x20_0000)),
    (b"\xFD\xBF\xBF\xBF\xBF\xBF", FiveOrSixOctets, 6, Some(0x7FFF_FFFF)),
    (b"\xFE", InvalidOctet, 1, None),
    (b"\xFF\x80", InvalidOctet, 1, None),
];

#[test]
fn each_kind_of_ill_formed_sequence_is_named_with_its_span_and_value() {
    for &(bytes, kind, end, value) in FIRST {
        let expected = IllFormed { kind, span: Span::new(0, end), value };
        assert_eq!(validate(bytes), Err(expected), "{bytes:02X?}");
        let shifted = [b"ab", bytes].concat();
        let expected = IllFormed { kind, span: Span::new(2, end + 2), value };
        assert_eq!(validate(&shifted), Err(expected), "behind two letters: {bytes:02X?}");
    }
}

/// Every string that `bytes` says: accepted iff std accepts, the first finding where std finds it, spans in order and
/// inside the name, and what lies between them well-formed.
fn check_law(bytes: &[u8]) {
    match (std::str::from_utf8(bytes), validate(bytes)) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(e), Err(i)) => assert_eq!(e.valid_up_to(), i.span.start, "{bytes:02X?}"),
        (std, ours) => panic!("{bytes:02X?}: std says {std:?}, namegate says {ours:?}"),
    }
    let mut at = 0;
    for i in ill_formed(bytes) {
        assert!(i.span.start >= at && i.span.end > i.span.start && i.span.end <= bytes.len(), "{bytes:02X?}");
        assert!(std::str::from_utf8(&bytes[at..i.span.start]).is_ok(), "{bytes:02X?}");
        assert!(std::str::from_utf8(i.span.slice(bytes)).is_err(), "{bytes:02X?}");
        at = i.span.end;
    }
    assert!(std::str::from_utf8(&bytes[at..]).is_ok(), "{bytes:02X?}");
}

#[test]
fn all_strings_of_up_to_three_bytes_are_accepted_exactly_when_std_accepts_them() {
    check_law(b"");
    for a in 0..=255 {
        check_law(&[a]);
        for b in 0..=255 {
            check_law(&[a, b]);
            for c in 0..=255 {
                check_law(&[a, b, c]);
            }
        }
    }
}

#[test]
fn kuhn_line_feed_is_accepted_as_0a_only_and_never_in_its_five_overlong_forms() {
    assert!(validate(b"\x0A").is_ok());
    for len in 2..=6 {
        let form = ucs4::encode_in(0x0A, len).unwrap();
        let found = validate(form.as_slice()).unwrap_err();
        assert_eq!((found.kind, found.span, found.value), (Overlong, Span::new(0, len), Some(0x0A)));
    }
}

#[test]
fn rfc_3629_examples_hold() {
    // Section 7.
    let valid: &[(&[u8], &[u32])] = &[
        (b"\x41\xE2\x89\xA2\xCE\x91\x2E", &[0x41, 0x2262, 0x391, 0x2E]),
        (b"\xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4", &[0xD55C, 0xAD6D, 0xC5B4]),
        (b"\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E", &[0x65E5, 0x672C, 0x8A9E]),
        (b"\xEF\xBB\xBF\xF0\xA3\x8E\xB4", &[0xFEFF, 0x2_33B4]),
    ];
    for (bytes, scalars) in valid {
        let name = validate(bytes).unwrap();
        assert_eq!(name.chars().map(u32::from).collect::<Vec<_>>(), *scalars);
    }
    // Sections 3 and 10.
    assert_eq!(validate(b"\xC0\x80").unwrap_err().kind, NulSmuggling);
    let pair = validate(b"\xED\xA1\x8C\xED\xBE\xB4").unwrap_err();
    assert_eq!((pair.kind, pair.value), (SurrogatePair, Some(0x2_33B4)));
    let dots = validate(b"\x2F\xC0\xAE\x2E\x2F").unwrap_err();
    assert_eq!((dots.kind, dots.span), (SeparatorSmuggling, Span::new(1, 3)));
}

#[test]
fn well_formed_parts_are_what_is_left_between_the_findings() {
    let cases: &[(&[u8], &[(usize, &str)])] = &[
        (b"", &[]),
        (b"abc", &[(0, "abc")]),
        (b"\xFF", &[]),
        (b"a\xFFb", &[(0, "a"), (2, "b")]),
        (b"\xFFb", &[(1, "b")]),
        (b"a\xFF", &[(0, "a")]),
        (b"\xFF\xFE", &[]),
        (b"a\xED\xA0\x80\xED\xB0\x80\xC3\xA9", &[(0, "a"), (7, "é")]),
    ];
    for (bytes, parts) in cases {
        assert_eq!(well_formed_parts(bytes).collect::<Vec<_>>(), *parts, "{bytes:02X?}");
    }
}
