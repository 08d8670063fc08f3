//! Shortens names to the limits of a policy, before the extension and between user-perceived characters.
//!
//! Sources: UAX #29, section 3.1 (Grapheme_Cluster_Break) for where a character ends. Flags and emoji joined by U+200D
//! may be cut apart; what is left is well-formed.

use icu_properties::props::GraphemeClusterBreak as Break;
use icu_properties::{CodePointMapData, CodePointMapDataBorrowed};

use crate::policy::length::measure;
use crate::policy::profile::{Limit, Unit};

const BREAK: CodePointMapDataBorrowed<'static, Break> = CodePointMapData::<Break>::new();

/// A longer tail is no extension but a part of a sentence.
const MAX_EXTENSION: usize = 32;

/// `name` in two: the stem, never empty unless `name` is, and the extension with its dot. `.tar` belongs to the
/// extension behind it; the name of a hidden file has none.
pub(super) fn split(name: &str) -> (&str, &str) {
    let Some(dot) = name.rfind('.') else { return (name, "") };
    let (stem, extension) = name.split_at(dot);
    let is_extension = extension.len() > 1 && extension.len() <= MAX_EXTENSION && !extension.contains(' ');
    if !is_extension || stem.bytes().all(|b| b == b'.') {
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

/// `name` with as much cut from the end of its stem, or if that is not enough from its end, as the limits ask for.
/// `None` if nothing would be left.
pub(super) fn shorten(name: &str, limits: &[Limit]) -> Option<String> {
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
    fit(stem, extension, limits).or_else(|| fit(name, "", limits))
}

/// The first `count` code points.
fn prefix(text: &str, count: usize) -> &str {
    text.char_indices().nth(count).map_or(text, |(at, _)| &text[..at])
}

/// As much of `stem` as the limits allow, followed by all of `tail`. `None` if nothing of the stem would be left.
pub(super) fn fit(stem: &str, tail: &str, limits: &[Limit]) -> Option<String> {
    let whole = format!("{stem}{tail}");
    if fits(&whole, limits) {
        return Some(whole);
    }
    let clusters = || ends(stem, is_boundary);
    let scalars = || ends(stem, |_, _| true);
    longest(stem, &clusters(), tail, limits).or_else(|| longest(stem, &scalars(), tail, limits))
}

fn fits(name: &str, limits: &[Limit]) -> bool {
    limits.iter().all(|limit| measure(name.as_bytes(), limit.unit) <= limit.max)
}

/// The longest of the prefixes of `stem` that end at `ends` with which the name fits. A longer prefix is never shorter
/// in any unit, but for a few code points that a normal form merges: the result is measured once more.
fn longest(stem: &str, ends: &[usize], tail: &str, limits: &[Limit]) -> Option<String> {
    let with = |end: usize| {
        let cut = &stem[..end];
        let trimmed = cut.trim_end_matches([' ', '.']);
        let head = if trimmed.is_empty() { cut } else { trimmed };
        format!("{head}{tail}")
    };
    let fitting = ends.partition_point(|&end| fits(&with(end), limits));
    let name = with(*ends.get(fitting.checked_sub(1)?)?);
    fits(&name, limits).then_some(name)
}

/// Where prefixes of `text` may end, ascending; its end, but not its beginning, is one of them.
fn ends(text: &str, is_boundary: impl Fn(char, char) -> bool) -> Vec<usize> {
    let pairs = text.char_indices().zip(text.chars().skip(1));
    let inner = pairs.filter(|&((_, c), next)| is_boundary(c, next)).map(|((at, c), _)| at + c.len_utf8());
    inner.chain((!text.is_empty()).then_some(text.len())).collect()
}

/// Whether a reader sees two characters where `next` follows `before`.
fn is_boundary(before: char, next: char) -> bool {
    let is_joined =
        matches!(BREAK.get(next), Break::Extend | Break::SpacingMark | Break::ZWJ | Break::V | Break::T);
    !is_joined && BREAK.get(before) != Break::ZWJ
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
            assert_eq!(shorten(name, &[limit]).as_deref(), Some(expected), "{name}");
        }
        // One base with more marks than fit: between marks is better than nothing.
        let stacked = format!("a{}", "\u{301}".repeat(50));
        assert_eq!(shorten(&stacked, &limit(10, Unit::CodePoints)).map(|s| s.chars().count()), Some(10));
        assert_eq!(shorten("日", &limit(2, Unit::Bytes)), None);
        assert_eq!(shorten("abc", &limit(0, Unit::Bytes)), None);
    }
}
