//! Shortens names to the limits of a policy, before the extension and between user-perceived characters (UAX #29).
//!
//! Long names of one directory often differ in their last words or numbers alone, so the middle is left out where enough of the name
//! stays.

use unicode_segmentation::UnicodeSegmentation;

use crate::policy::length::measure;
use crate::policy::profile::{Limit, Unit};

/// A longer tail is no extension but a part of a sentence.
const MAX_EXTENSION: usize = 32;

/// How many user-perceived characters are kept from the end of a stem, where its beginning keeps at least twice as many.
const ENDS: [usize; 3] = [24, 16, 8];

/// `name` in two: the stem, never empty unless `name` is, and the extension with its dot. `.tar` belongs to the
/// extension behind it. The name of a hidden file has none, and neither have an abbreviation (`T.N.T`), a number with a point
/// (`23.2`) and a year (`Photos.2019`).
pub(super) fn split(name: &str) -> (&str, &str) {
    let Some(dot) = name.rfind('.') else { return (name, "") };
    let (stem, extension) = name.split_at(dot);
    let is_extension = extension.len() > 1 && extension.len() <= MAX_EXTENSION && !extension.contains(' ');
    let is_number = extension[1..].bytes().all(|b| b.is_ascii_digit())
        && (extension.len() > 4 || stem.ends_with(|c: char| c.is_ascii_digit()));
    let is_initial = |part: &str| part.len() == 1 && part.bytes().all(|b| b.is_ascii_uppercase());
    let is_abbreviation = is_initial(&extension[1..]) && is_initial(stem.rsplit('.').next().unwrap_or(stem));
    if !is_extension || is_number || is_abbreviation || stem.bytes().all(|b| b == b'.') {
        return (name, "");
    }
    let inner = stem.len().checked_sub(4).and_then(|at| stem.split_at_checked(at));
    match inner {
        Some((inner, tar)) if tar.eq_ignore_ascii_case(".tar") && !inner.bytes().all(|b| b == b'.') => {
            name.split_at(inner.len())
        }
        _ => (stem, extension),
    }
}

/// `name` with as much left out of its stem, or if that is not enough from its end, as the limits ask for. `mark` takes the place of
/// what is left out of the middle. `None` if nothing would be left.
pub(super) fn shorten(name: &str, mark: char, limits: &[Limit]) -> Option<String> {
    let (stem, extension) = split(name);
    let longest =
        limits.iter().filter(|limit| limit.unit == Unit::ExtensionCodePoints).map(|limit| limit.max).min();
    let (stem, extension) = match longest {
        // Such targets know the last extension alone, and count its code points after the dot.
        Some(max) => {
            let last = extension.rfind('.').unwrap_or_default();
            let extension = if max > 0 { prefix(&extension[last..], max + 1) } else { "" };
            (&name[..stem.len() + last], extension)
        }
        None => (stem, extension),
    };
    fit(stem, extension, mark, limits).or_else(|| fit(name, "", mark, limits))
}

/// The first `count` code points.
fn prefix(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(at, _)| &text[..at])
}

/// As much of `stem` as the limits allow, followed by all of `tail`. `None` if nothing of the stem would be left.
pub(super) fn fit(stem: &str, tail: &str, mark: char, limits: &[Limit]) -> Option<String> {
    let whole = format!("{stem}{tail}");
    if fits(&whole, limits) {
        return Some(whole);
    }
    let clusters: Vec<usize> = stem.grapheme_indices(true).map(|(at, text)| at + text.len()).collect();
    let with_end = ENDS.iter().find_map(|&kept| {
        let from = clusters.len().checked_sub(kept + 1)?;
        let end = stem[clusters[from]..].trim_start_matches([' ', '.', mark]);
        let with_mark = format!("{mark}{end}{tail}");
        longest(stem, &clusters[..=from], &with_mark, limits).filter(|(count, _)| *count >= 2 * kept)
    });
    let scalars = || stem.char_indices().map(|(at, c)| at + c.len_utf8()).collect::<Vec<_>>();
    with_end
        .or_else(|| longest(stem, &clusters, tail, limits))
        .or_else(|| longest(stem, &scalars(), tail, limits))
        .map(|(_, name)| name)
}

pub(super) fn fits(name: &str, limits: &[Limit]) -> bool {
    limits.iter().all(|limit| measure(name.as_bytes(), limit.unit) <= limit.max)
}

/// The longest of the prefixes of `stem` that end at `ends` with which the name fits, as their number and the name. A longer prefix is never
/// shorter in any unit, but for a few code points that a normal form merges: the result is measured once more.
fn longest(stem: &str, ends: &[usize], tail: &str, limits: &[Limit]) -> Option<(usize, String)> {
    let with = |end: usize| {
        let cut = &stem[..end];
        let trimmed = cut.trim_end_matches([' ', '.']);
        let head = if trimmed.is_empty() { cut } else { trimmed };
        format!("{head}{tail}")
    };
    let fitting = ends.partition_point(|&end| fits(&with(end), limits));
    let name = with(*ends.get(fitting.checked_sub(1)?)?);
    fits(&name, limits).then_some((fitting, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_is_short_has_a_stem_and_includes_tar() {
        for (name, stem, extension) in [
            ("a.txt", "a", ".txt"),
            ("a.b.txt", "a.b", ".txt"),
            ("a.tar.gz", "a", ".tar.gz"),
            ("A.TAR.GZ", "A", ".TAR.GZ"),
            (".tar.gz", ".tar", ".gz"),
            ("日本", "日本", ""),
            ("日.gz", "日", ".gz"),
            (".gitignore", ".gitignore", ""),
            ("..a", "..a", ""),
            ("a", "a", ""),
            ("a.", "a.", ""),
            ("", "", ""),
            ("Mr. Smith went to town", "Mr. Smith went to town", ""),
            ("T.N.T", "T.N.T", ""),
            ("Entwurf 23.2", "Entwurf 23.2", ""),
            ("Photos.2019", "Photos.2019", ""),
            ("ls.1", "ls", ".1"),
            ("film.001", "film", ".001"),
            ("a.C", "a", ".C"),
        ] {
            assert_eq!(split(name), (stem, extension), "{name}");
        }
    }

    #[test]
    fn a_name_is_cut_before_its_extension_and_between_characters() {
        let limit = |max, unit| [Limit { max, unit }];
        let cases: &[(&str, Limit, &str)] = &[
            ("abcdef.txt", limit(8, Unit::Bytes)[0], "abcd.txt"),
            ("ab cdef.txt", limit(7, Unit::Bytes)[0], "ab.txt"),
            ("ééé.txt", limit(9, Unit::Bytes)[0], "éé.txt"),
            ("ae\u{301}e\u{301}.c", limit(5, Unit::CodePoints)[0], "ae\u{301}.c"),
            ("\u{1F600}\u{1F600}.c", limit(5, Unit::Utf16)[0], "\u{1F600}.c"),
            ("ab\u{1F469}\u{200D}\u{1F467}.c", limit(7, Unit::Utf16)[0], "ab.c"),
            ("x\u{1F1E9}\u{1F1EA}", limit(4, Unit::Utf16)[0], "x"),
            (
                "\u{1112}\u{1161}\u{11AB}\u{1100}\u{1173}",
                limit(4, Unit::CodePoints)[0],
                "\u{1112}\u{1161}\u{11AB}",
            ),
            ("long.jpeg", limit(3, Unit::ExtensionCodePoints)[0], "long.jpe"),
            ("a.tar.jpeg", limit(3, Unit::ExtensionCodePoints)[0], "a.tar.jpe"),
            ("longlonglong.c", limit(8, Unit::StemCodePoints)[0], "longlong.c"),
            (".gitignore", limit(5, Unit::Bytes)[0], ".giti"),
            ("é.x", limit(4, Unit::BytesIn(crate::name::normalize::Form::Nfd))[0], "é"),
        ];
        for &(name, limit, expected) in cases {
            assert_eq!(shorten(name, '_', &[limit]).as_deref(), Some(expected), "{name}");
        }
        let long = |end: &str| format!("{} {end}.docx", "Sehr lang ".repeat(20));
        let shorter = |end: &str| shorten(&long(end), '_', &limit(80, Unit::Bytes)).unwrap();
        assert_eq!(
            shorter("Teil 12"),
            "Sehr lang Sehr lang Sehr lang Sehr lang Sehr lang S_lang Sehr lang  Teil 12.docx"
        );
        assert_ne!(shorter("Teil 12"), shorter("Teil 13"));
        // One base with more marks than fit: between marks is better than nothing.
        let stacked = format!("a{}", "\u{301}".repeat(50));
        assert_eq!(shorten(&stacked, '_', &limit(10, Unit::CodePoints)).map(|s| s.chars().count()), Some(10));
        assert_eq!(shorten("日", '_', &limit(2, Unit::Bytes)), None);
        assert_eq!(shorten("abc", '_', &limit(0, Unit::Bytes)), None);
    }
}
