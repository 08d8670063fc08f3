//! Laws that hold for every name, tested with random names. A failing test prints the name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Cow;

use namegate_core::name::casefold::{Fold, fold, key};
use namegate_core::name::display::{display, width};
use namegate_core::name::escape::{
    SHORTEST_SHORTENED, escape, escape_within, is_escaped, is_shortened, unescape,
};
use namegate_core::name::normalize::{Form, first_difference, is_in_form, to_form};
use proptest::prelude::*;
use proptest::sample::select;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() }
}

/// Names of bytes in which escapes, halves of escapes and ill-formed sequences are frequent.
fn hostile_name() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\xE2\x90\xA6".to_vec()),
        1 => Just(b"\xE2\x80".to_vec()),
        1 => Just(b"\xE2\x90\xA6~0123456789ABCDEF".to_vec()),
        4 => select(b"0123456789ABCDEFabcdef".as_slice()).prop_map(|digit| vec![digit]),
        2 => (0x80..=0xFF_u8).prop_map(|byte| vec![byte]),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        1 => select(b"./\0\\~ \n\x1bxu{}".as_slice()).prop_map(|byte| vec![byte]),
        2 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
        1 => combining().prop_map(|c| c.to_string().into_bytes()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn combining() -> impl Strategy<Value = char> {
    prop_oneof![
        prop::char::range('\u{300}', '\u{36f}'),
        prop::char::range('\u{5b0}', '\u{5bd}'),
        select(&['\u{345}', '\u{3099}', '\u{9be}', '\u{1161}', '\u{11a8}', '\u{ff9e}'][..]),
    ]
}

/// Text in which characters that compose, decompose, reorder and fold are frequent.
fn text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        3 => combining(),
        2 => prop::char::range('A', 'z'),
        2 => prop::char::range('\u{c0}', '\u{24f}'),
        2 => prop::char::range('\u{370}', '\u{3ff}'),
        2 => prop::char::range('\u{1e00}', '\u{1fff}'),
        1 => prop::char::range('\u{1100}', '\u{11ff}'),
        1 => prop::char::range('\u{ac00}', '\u{d7a3}'),
        1 => prop::char::range('\u{f900}', '\u{ffff}'),
        1 => select(&['\u{130}', '\u{131}', '\u{df}', '\u{1e9e}', '\u{212b}', '\u{2126}', '\u{fdfa}'][..]),
        1 => any::<char>(),
    ];
    prop::collection::vec(scalar, 0..12).prop_map(String::from_iter)
}

/// Decodes the output of `display`, independently, to prove that nothing is lost.
fn read_display(shown: &str) -> Vec<u8> {
    let mut name = Vec::new();
    let mut rest = shown;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            name.extend(c.to_string().bytes());
            continue;
        }
        let kind = rest.chars().next().unwrap();
        rest = &rest[1..];
        match kind {
            '\\' => name.push(b'\\'),
            't' => name.push(b'\t'),
            'n' => name.push(b'\n'),
            'r' => name.push(b'\r'),
            'x' => {
                name.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                rest = &rest[2..];
            }
            'u' => {
                let (hex, behind) = rest.strip_prefix('{').unwrap().split_once('}').unwrap();
                let c = char::from_u32(u32::from_str_radix(hex, 16).unwrap()).unwrap();
                name.extend(c.to_string().bytes());
                rest = behind;
            }
            _ => panic!("unknown escape {kind:?} in {shown:?}"),
        }
    }
    name
}

fn is_admissible(name: &str) -> bool {
    !name.contains(['\0', '/']) && !matches!(name, "." | "..")
}

fn is_line_or_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn unescape_undoes_escape(name in hostile_name()) {
        let escaped = escape(&name);
        prop_assert_eq!(unescape(&escaped), name.as_slice());
        prop_assert!(is_admissible(&escaped));
        prop_assert!(!is_shortened(&escaped));
    }

    #[test]
    fn escape_is_the_identity_exactly_on_names_that_need_none(name in hostile_name()) {
        let needs_none = std::str::from_utf8(&name)
            .is_ok_and(|text| is_admissible(text) && !is_escaped(text) && !is_shortened(text));
        prop_assert_eq!(escape(&name).as_bytes() == name, needs_none);
        prop_assert_eq!(matches!(escape(&name), Cow::Borrowed(_)), needs_none);
    }

    #[test]
    fn unescape_changes_a_name_exactly_when_it_is_escaped(name in hostile_name()) {
        let text = String::from_utf8_lossy(&name);
        prop_assert_eq!(unescape(&text) != text.as_bytes(), is_escaped(&text));
    }

    #[test]
    fn a_name_escaped_within_a_length_keeps_it(name in hostile_name(), max_bytes in 0..120_usize) {
        let limit = max_bytes.max(SHORTEST_SHORTENED);
        let whole = escape(&name);
        let within = escape_within(&name, max_bytes);
        prop_assert!(within.len() <= limit);
        prop_assert_eq!(is_shortened(&within), whole.len() > limit);
        prop_assert!(is_admissible(&within));
        if is_shortened(&within) {
            let prefix = &within[..within.len() - SHORTEST_SHORTENED];
            prop_assert!(name.starts_with(&unescape(prefix)));
        } else {
            prop_assert_eq!(within, whole);
        }
    }

    #[test]
    fn display_loses_nothing_and_shows_no_control(name in hostile_name()) {
        let shown = display(&name).to_string();
        prop_assert!(!shown.contains(char::is_control), "{:?}", shown);
        prop_assert!(!shown.contains(is_line_or_bidi_control), "{:?}", shown);
        prop_assert!(!shown.starts_with(' ') && !shown.ends_with(' '));
        prop_assert_eq!(read_display(&shown), name);
    }

    #[test]
    fn different_names_are_displayed_differently(left in hostile_name(), right in hostile_name()) {
        let same = display(&left).to_string() == display(&right).to_string();
        prop_assert_eq!(same, left == right);
    }

    #[test]
    fn width_of_ascii_is_its_length(name in "[!-\\[\\]-~]([ -\\[\\]-~]{0,20}[!-\\[\\]-~])?") {
        prop_assert_eq!(display(name.as_bytes()).to_string(), name.as_str());
        prop_assert_eq!(width(name.as_bytes()), name.len());
    }

    #[test]
    fn a_form_is_reached_once_and_recognized(name in text(), form in select(Form::ALL.as_slice())) {
        let formed = to_form(&name, form);
        prop_assert!(is_in_form(&formed, form));
        prop_assert_eq!(to_form(&formed, form), formed.as_ref());
        prop_assert_eq!(is_in_form(&name, form), formed == name);
        prop_assert_eq!(matches!(formed, Cow::Borrowed(_)), formed == name);
    }

    #[test]
    fn the_first_difference_can_be_replaced_alone(name in text(), form in select(Form::ALL.as_slice())) {
        match first_difference(&name, form) {
            None => prop_assert!(is_in_form(&name, form)),
            Some(span) => {
                prop_assert!(is_in_form(&name[..span.start], form));
                let part = &name[span.start..span.end];
                prop_assert!(!is_in_form(part, form));
                let replaced =
                    [&name[..span.start], &to_form(part, form), &to_form(&name[span.end..], form)].concat();
                prop_assert_eq!(replaced, to_form(&name, form));
            }
        }
    }

    #[test]
    fn canonical_spellings_of_one_name_have_one_key(name in text(), case in select(Fold::ALL.as_slice())) {
        for form in Form::ALL {
            let expected = key(&name, Some(form), Some(case));
            for spelling in [Form::Nfc, Form::Nfd] {
                let spelled = to_form(&name, spelling);
                prop_assert_eq!(&key(&spelled, Some(form), Some(case)), &expected);
            }
            prop_assert_eq!(&key(&expected, Some(form), Some(case)), &expected);
            // Fold after ordering: U+0345 folds to a letter, which marks cannot move across.
            let ordered = to_form(&name, if form.is_compatibility() { Form::Nfkd } else { Form::Nfd });
            let folded = fold(&ordered, case);
            prop_assert_eq!(&key(&folded, Some(form), Some(case)), &expected);
        }
        for spelling in Form::ALL {
            let spelled = to_form(&name, spelling);
            prop_assert_eq!(
                key(&spelled, Some(Form::Nfkc), Some(case)),
                key(&name, Some(Form::Nfkd), Some(case))
            );
        }
    }

    #[test]
    fn folding_is_idempotent_and_borrows_what_it_leaves(name in text(), case in select(Fold::ALL.as_slice())) {
        let folded = fold(&name, case);
        prop_assert_eq!(&fold(&folded, case), &folded);
        prop_assert_eq!(matches!(folded, Cow::Borrowed(_)), folded == name);
    }
}
