use super::*;

/// One line of DerivedAge.txt: first and last code point, and the version that assigned them.
type Line = (u32, u32, (u8, u8));

fn derived_age() -> Option<Vec<Line>> {
    let path = "/usr/share/unicode/DerivedAge.txt";
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("SKIPPED: {path} does not exist (Debian package unicode-data)");
        return None;
    };
    let lines =
        text.lines().map(|line| line.split('#').next().unwrap().trim()).filter(|line| !line.is_empty());
    Some(
        lines
            .map(|line| {
                let (range, version) = line.split_once(';').unwrap();
                let (first, last) = range.trim().split_once("..").unwrap_or((range.trim(), range.trim()));
                let (major, minor) = version.trim().split_once('.').unwrap();
                let hex = |digits| u32::from_str_radix(digits, 16).unwrap();
                (hex(first), hex(last), (major.parse().unwrap(), minor.parse().unwrap()))
            })
            .collect(),
    )
}

#[test]
fn the_known_versions_are_exactly_those_of_the_tables() {
    assert!(KNOWN.is_sorted());
    for major in 1..=40 {
        for minor in 0..=9 {
            let in_tables = regex_syntax::parse(&format!(r"\p{{Age={major}.{minor}}}")).is_ok();
            assert_eq!(
                in_tables,
                KNOWN.contains(&(major, minor)),
                "{major}.{minor}: regex-syntax has other versions now: update KNOWN"
            );
            assert_eq!(assigned_by((major, minor)).is_some(), in_tables);
        }
    }
}

#[test]
fn every_version_up_to_15_0_agrees_with_derived_age_on_every_code_point() {
    let Some(lines) = derived_age() else { return };
    assert!(lines.len() > 1500);
    for &version in KNOWN.iter().filter(|&&version| version <= (15, 0)) {
        let mut expected = vec![false; 0x11_0000];
        for &(first, last, since) in &lines {
            if since <= version {
                expected[first as usize..=last as usize].fill(true);
            }
        }
        let assigned = assigned_by(version).unwrap();
        let mut tables = vec![false; 0x11_0000];
        for &(first, last) in &assigned.ranges {
            tables[first as usize..=last as usize].fill(true);
        }
        tables[0xD800..=0xDFFF].copy_from_slice(&expected[0xD800..=0xDFFF]);
        let first_difference = tables.iter().zip(&expected).position(|(one, other)| one != other);
        assert_eq!(first_difference, None, "in {version:?}");

        let edges =
            lines.iter().flat_map(|&(first, last, _)| [first.saturating_sub(1), first, last, last + 1]);
        for c in edges.filter_map(char::from_u32).filter(|&c| !is_set_aside(c)) {
            assert_eq!(assigned.contains(c), expected[c as usize], "U+{:04X} in {version:?}", u32::from(c));
        }
    }
}

#[test]
fn code_points_appear_with_their_version() {
    for (c, before, since) in [
        ('€', (2, 0), (2, 1)),
        ('\u{0221}', (3, 2), (4, 0)),
        ('🥑', (8, 0), (9, 0)),
        ('㋿', (12, 0), (12, 1)),
        ('🫨', (14, 0), (15, 0)),
        ('\u{1C89}', (15, 1), (16, 0)),
    ] {
        assert!(!assigned_by(before).unwrap().contains(c), "{c} before");
        assert!(assigned_by(since).unwrap().contains(c), "{c} since");
    }
}

#[test]
fn private_use_and_noncharacters_count_as_assigned_in_every_version() {
    for &version in &KNOWN {
        let assigned = assigned_by(version).unwrap();
        for c in ['\u{E000}', '\u{F8FF}', '\u{10FFFD}', '\u{FDD0}', '\u{FFFF}', '\u{10FFFF}', '\0', 'a'] {
            assert!(assigned.contains(c), "U+{:04X} in {version:?}", u32::from(c));
        }
        assert!(!assigned.contains('\u{50000}'));
    }
}
