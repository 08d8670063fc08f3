//! Statements of the documents that namegate is based on, one test per statement: RFC 3629, ISO/IEC 10646-1:1993 Amd. 2
//! (Annex R), M. Kuhn's UTF-8 and Unicode FAQ, utf-8(7). Examples of encoded values are in the tests of `name::ucs4` and
//! `name::utf8`.

use namegate_core::name::ucs4::{self, Octet};
use namegate_core::name::utf8::{Malformation, ill_formed, validate};
use namegate_core::policy::{Policy, Verdict, profile};

fn policy(name: &str) -> Policy {
    Policy::from_profiles(&[profile::by_name(name).expect("a profile")])
}

/// The rule, start and end of each violation.
fn found(policy: &Policy, name: &[u8]) -> Vec<(&'static str, usize, usize)> {
    policy.check(name).violations.iter().map(|v| (v.rule.name(), v.span.start, v.span.end)).collect()
}

#[test]
fn annex_r_table_1_gives_each_first_octet_its_length_free_bits_and_largest_value() {
    for (octets, first, free, largest) in [
        (1, 0x00..=0x7F_u8, 7, 0x7F),
        (2, 0xC0..=0xDF, 5, 0x7FF),
        (3, 0xE0..=0xEF, 4, 0xFFFF),
        (4, 0xF0..=0xF7, 3, 0x1F_FFFF),
        (5, 0xF8..=0xFB, 2, 0x3FF_FFFF),
        (6, 0xFC..=0xFD, 1, 0x7FFF_FFFF),
    ] {
        for octet in first {
            assert_eq!(Octet::classify(octet).sequence_len(), Some(octets), "{octet:02X}");
            assert_eq!(Octet::classify(octet).free_bits().count_ones(), free, "{octet:02X}");
        }
        assert_eq!(ucs4::encode(largest).map(|s| s.as_slice().len()), Some(octets));
        assert_ne!(ucs4::encode(largest + 1).map(|s| s.as_slice().len()), Some(octets));
    }
    for octet in 0x80..=0xBF {
        assert_eq!((Octet::classify(octet), Octet::classify(octet).free_bits()), (Octet::Continuation, 0x3F));
    }
    for octet in [0xFE, 0xFF] {
        assert_eq!(Octet::classify(octet), Octet::Invalid);
    }
}

#[test]
fn the_byte_order_of_encoded_strings_is_the_order_of_their_ucs_4_values() {
    let values = [
        0,
        1,
        0x2E,
        0x7F,
        0x80,
        0x7FF,
        0x800,
        0xD7FF,
        0xD800,
        0xFFFF,
        0x1_0000,
        0x10_FFFF,
        0x11_0000,
        0x1F_FFFF,
        0x20_0000,
        0x3FF_FFFF,
        0x400_0000,
        0x7FFF_FFFF,
    ];
    let encode = |text: &[u32]| -> Vec<u8> {
        let sequences = text.iter().map(|&value| ucs4::encode(value).expect("31 bits"));
        sequences.flat_map(|sequence| sequence.as_slice().to_vec()).collect()
    };
    let strings: Vec<Vec<u32>> = std::iter::once(vec![])
        .chain(values.iter().map(|&a| vec![a]))
        .chain(values.iter().flat_map(|&a| values.map(|b| vec![a, b])))
        .collect();
    for a in &strings {
        for b in &strings {
            assert_eq!(encode(a).cmp(&encode(b)), a.cmp(b), "{a:X?} {b:X?}");
        }
    }
}

#[test]
fn annex_r_7_has_three_classes_of_malformed_sequences() {
    let first = |bytes: &[u8]| ill_formed(bytes).next().map(|i| i.kind);
    for lead in 0xC0..=0xFD_u8 {
        let len = Octet::classify(lead).sequence_len().expect("a lead octet");
        for too_few in 0..len - 1 {
            let name = [&[lead][..], &vec![0x80; too_few], b"x"].concat();
            assert_eq!(first(&name), Some(Malformation::Truncated), "{name:02X?}");
        }
    }
    for octet in 0x80..=0xBF {
        for name in [
            &[octet][..],
            &[b'a', octet],
            "é".as_bytes().iter().chain(&[octet]).copied().collect::<Vec<_>>().as_slice(),
        ] {
            assert_eq!(first(name), Some(Malformation::UnexpectedContinuation), "{name:02X?}");
        }
    }
    for octet in [0xFE, 0xFF] {
        assert_eq!(first(&[octet]), Some(Malformation::InvalidOctet));
    }
}

#[test]
fn annex_r_6_and_utf_8_7_name_five_escape_sequences() {
    let strict = policy("strict");
    let escapes = |name: &[u8]| -> Vec<(usize, usize)> {
        let all = found(&strict, name).into_iter();
        all.filter(|f| f.0 == "iso-2022-escape").map(|f| (f.1, f.2)).collect()
    };
    for (sequence, len) in
        [(&b"\x1B%G"[..], 3), (b"\x1B%@", 3), (b"\x1B%/G", 4), (b"\x1B%/H", 4), (b"\x1B%/I", 4)]
    {
        assert_eq!(escapes(sequence), [(0, len)], "{sequence:02X?}");
        assert_eq!(escapes(&[b"ab", sequence, b"c"].concat()), [(2, 2 + len)], "{sequence:02X?}");
        assert_eq!(escapes(&[sequence, sequence].concat()), [(0, len), (len, 2 * len)]);
        assert_eq!(escapes(&sequence[..len - 1]), [], "cut short");
        assert_eq!(escapes(&sequence[1..]), [], "without ESC");
    }
    for other in
        [&b"\x1B%F"[..], b"\x1B%A", b"\x1B%/F", b"\x1B%/J", b"\x1B%/@", b"\x1B$B", b"\x1B(B", b"\x1B"]
    {
        assert_eq!(escapes(other), [], "{other:02X?}");
    }
}

#[test]
fn rfc_3629_section_4_never_has_the_octets_c0_c1_and_f5_to_ff() {
    for octet in [0xC0, 0xC1].into_iter().chain(0xF5..=0xFF_u8) {
        for tails in 0..6 {
            for tail in [0x80, 0x90, 0xA0, 0xBF] {
                let name = [&[b'a', octet][..], &vec![tail; tails]].concat();
                let error = validate(&name).expect_err("no such octet is in UTF-8");
                assert_eq!(error.span.start, 1, "{name:02X?}");
            }
        }
    }
}

#[test]
fn rfc_3629_section_6_a_byte_order_mark_is_found_wherever_it_stands_and_never_stripped() {
    let security = policy("security");
    for (name, at) in [("\u{FEFF}a", 0), ("a\u{FEFF}b", 1), ("ab\u{FEFF}", 2)] {
        assert_eq!(found(&security, name.as_bytes()), [("byte-order-mark", at, at + 3)], "{name:?}");
        for profile in ["utf8", "strict", "security"] {
            assert_eq!(policy(profile).verdict(name.as_bytes()), Verdict::Accept(name), "{profile}");
        }
    }
    assert_eq!(found(&security, "\u{FEFF}\u{233B4}".as_bytes()), [("byte-order-mark", 0, 3)]);
}

#[test]
fn rfc_3629_sections_3_and_10_attacks_are_refused_and_named_in_every_policy() {
    for profile in profile::ALL {
        let policy = Policy::from_profiles(&[profile]);
        for (name, rule, start, end) in [
            (&b"\xC0\x80"[..], "nul-smuggling", 0, 2),
            (b"x\xE0\x80\x80", "nul-smuggling", 1, 4),
            (b"\xED\xA1\x8C\xED\xBE\xB4", "surrogate-pair", 0, 6),
            (b"\x2F\xC0\xAE\x2E\x2F", "separator-smuggling", 1, 3),
            (b"\xC0\xAE\xC0\xAE\xC0\xAF", "separator-smuggling", 4, 6),
            (b"a\xE0\x80\xAFb", "separator-smuggling", 1, 4),
        ] {
            assert!(matches!(policy.verdict(name), Verdict::Reject(_)), "{name:02X?} under {profile}");
            assert!(found(&policy, name).contains(&(rule, start, end)), "{name:02X?} under {profile}");
        }
    }
}

#[test]
fn rfc_3629_section_10_two_spellings_of_one_text_are_two_names_that_collide() {
    let (composed, decomposed) = ("\u{E9}".as_bytes(), "\u{65}\u{301}".as_bytes());
    assert!(policy("utf8").collisions(&[composed, decomposed]).is_empty());
    let groups = policy("macos").collisions(&[composed, decomposed]);
    let rules: Vec<_> = groups.iter().map(|g| (g.violations[0].rule.name(), g.members.as_slice())).collect();
    assert_eq!(rules, [("collision-normalization", &[0, 1][..])]);
}

#[test]
fn kuhn_overlong_forms_are_exactly_what_begins_with_one_of_five_prefixes() {
    // Each prefix, with all values of its variable bits; the next larger prefix is not overlong.
    let is_overlong = |name: &[u8]| {
        let kind = validate(name).err().map(|i| (i.kind, i.span.len()));
        let overlong = [Malformation::Overlong, Malformation::NulSmuggling, Malformation::SeparatorSmuggling];
        kind.is_some_and(|(kind, len)| overlong.contains(&kind) && len == name.len())
    };
    for tail in [0x80, 0xBF] {
        for lead in 0xC0..=0xDF_u8 {
            assert_eq!(is_overlong(&[lead, tail]), lead & 0xFE == 0xC0, "{lead:02X}");
        }
        for (len, lead, free) in [(3, 0xE0_u8, 5), (4, 0xF0, 4), (5, 0xF8, 3), (6, 0xFC, 2)] {
            for second in 0x80..=0xBF_u8 {
                let name = [&[lead, second][..], &vec![tail; len - 2]].concat();
                assert_eq!(is_overlong(&name), second >> free == 0x80 >> free, "{name:02X?}");
                let next = [&[lead + 1, second][..], &vec![tail; len - 2]].concat();
                assert!(!is_overlong(&next), "{next:02X?}");
            }
        }
    }
}

#[test]
fn kuhn_surrogates_fffe_and_ffff_are_malformed_to_strict_and_the_last_two_well_formed_to_rfc_3629() {
    let (utf8, strict) = (policy("utf8"), policy("strict"));
    for value in 0xD800..=0xDFFF {
        let name = ucs4::encode(value).expect("a value of 31 bits");
        for policy in [&utf8, &strict] {
            assert_eq!(found(policy, name.as_slice()), [("surrogate", 0, 3)], "{value:X}");
        }
    }
    for name in ["\u{FFFE}", "\u{FFFF}"] {
        assert_eq!(utf8.verdict(name.as_bytes()), Verdict::Accept(name));
        assert_eq!(found(&strict, name.as_bytes()), [("noncharacter", 0, 3)]);
    }
}

#[test]
fn utf_8_7_no_other_encoding_of_what_programs_check_for_is_accepted() {
    let utf8 = policy("utf8");
    for c in [b'\0', b'/', b'.', b';', b'\n', b'-', b'~', b'\\'] {
        for len in 2..=6 {
            let form = ucs4::encode_in(c.into(), len).expect("it fits");
            let rule = match c {
                b'\0' => "nul-smuggling",
                b'/' | b'.' => "separator-smuggling",
                _ => "overlong",
            };
            assert_eq!(found(&utf8, form.as_slice()), [(rule, 0, len)], "{c:02X} in {len} octets");
        }
    }
}

#[test]
fn annex_r_6_the_implementation_level_that_an_escape_sequence_names_is_in_its_message() {
    let strict = policy("strict");
    for (last, level) in [(b'G', "level 1"), (b'H', "level 2"), (b'I', "level 3")] {
        let name = [&b"a\x1B%/"[..], &[last], b"b"].concat();
        let check = strict.check(&name);
        let found = check.violations.iter().find(|v| v.rule.name() == "iso-2022-escape");
        let message = check.message(&strict, found.expect("it is found across the separator"));
        assert!(message.contains(level), "{message}");
    }
}
