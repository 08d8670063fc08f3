//! Unicode's own conformance test of normalization, NormalizationTest.txt, in full.
//!
//! The file comes from the Debian package unicode-data. Its statements about a Unicode version are true for all later versions
//! (normalization stability policy), as long as only code points assigned in that version are considered.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use namegate_core::name::normalize::{Form, first_difference, is_in_form, to_form};

use namegate_testkit::normalization_test::{rows, test_file};

const DATA: &str = "/usr/share/unicode/UnicodeData.txt";

/// The code points that are assigned in the version of the data file, without surrogates.
fn assigned() -> Option<BTreeSet<char>> {
    let Ok(text) = std::fs::read_to_string(DATA) else {
        println!("SKIPPED: {DATA} is absent (Debian package unicode-data)");
        return None;
    };
    let mut points = BTreeSet::new();
    let mut first = 0;
    for line in text.lines() {
        let mut fields = line.split(';');
        let point = u32::from_str_radix(fields.next().unwrap(), 16).unwrap();
        let name = fields.next().unwrap();
        if name.ends_with(", First>") {
            first = point;
        } else {
            let start = if name.ends_with(", Last>") { first } else { point };
            points.extend((start..=point).filter_map(char::from_u32));
        }
    }
    Some(points)
}

fn hold(name: &str, form: Form, expected: &str, line: &str) {
    assert_eq!(to_form(name, form), expected, "{form} of {name:?}: {line}");
    assert_eq!(is_in_form(name, form), name == expected, "{form} of {name:?}: {line}");
    let difference = first_difference(name, form);
    assert_eq!(difference.is_none(), name == expected, "{form} of {name:?}: {line}");
    if let Some(span) = difference {
        let part = &name[span.start..span.end];
        let rest = to_form(&name[span.end..], form);
        let repaired = [&name[..span.start], &to_form(part, form), &rest].concat();
        assert_eq!(repaired, expected, "the {form} of {part:?} replaces it alone: {line}");
    }
}

#[test]
fn every_row_relates_its_columns_as_the_header_says() {
    let Some(text) = test_file() else { return };
    let mut count = 0;
    for (_, [source, nfc, nfd, nfkc, nfkd], line) in rows(&text) {
        for (name, canonical) in [(&source, true), (&nfc, true), (&nfd, true), (&nfkc, false), (&nfkd, false)]
        {
            hold(name, Form::Nfc, if canonical { &nfc } else { &nfkc }, line);
            hold(name, Form::Nfd, if canonical { &nfd } else { &nfkd }, line);
            hold(name, Form::Nfkc, &nfkc, line);
            hold(name, Form::Nfkd, &nfkd, line);
        }
        count += 1;
    }
    assert!(count > 18_000, "{count} rows were read");
    println!("{count} rows of 5 columns in 4 forms");
}

#[test]
fn every_assigned_scalar_value_that_part_1_does_not_list_is_in_all_forms() {
    let (Some(text), Some(mut points)) = (test_file(), assigned()) else { return };
    for (in_part_1, [source, ..], _) in rows(&text) {
        if in_part_1 {
            let mut scalars = source.chars();
            let listed = scalars.next().unwrap();
            assert_eq!(scalars.next(), None, "part 1 lists single scalar values");
            assert!(points.remove(&listed), "U+{:04X} is assigned", u32::from(listed));
        }
    }
    assert!(points.len() > 250_000, "{} scalar values are left", points.len());
    for c in points {
        let name = c.to_string();
        for form in Form::ALL {
            hold(&name, form, &name, "not listed");
        }
    }
}
