//! Recognizes invisible code points that their text needs.
//!
//! Persian and Indic words, emoji and ideographic variants are misspelt without joiners and variation selectors. A rule against
//! invisible code points must allow these; anywhere else they only make two names look alike.
//!
//! Sources: RFC 5892 appendix A.1 and A.2 and UAX #31 section 2.3 (joiners); The Unicode Standard chapter 12 (ya-phalaa
//! and repha), chapter 13 (Mongolian) and section 23.4 (variation selectors); UAX #29 rule GB11 and UTS #51 (emoji
//! sequences). Property values by `icu_properties`.

use icu_properties::props::{
    CanonicalCombiningClass, EastAsianWidth, Emoji, ExtendedPictographic, GeneralCategory,
    GeneralCategoryGroup, GraphemeClusterBreak, Ideographic, IndicSyllabicCategory, JoiningType, Math,
    Script, UnifiedIdeograph,
};
use icu_properties::{CodePointMapData, CodePointSetData};

/// How many code points on each side are considered.
///
/// Names from a list can be megabytes long; real contexts are a few code points long. A code point that would need a longer
/// context is not recognized as needed.
pub const REACH: usize = 32;

/// Whether the code point at byte `at` of `name` is invisible by itself but needed for its neighbours.
///
/// | code point | is needed |
/// |---|---|
/// | U+200C ZWNJ | between letters that would join; after a virama that follows a letter, before a letter |
/// | U+200D ZWJ | after a virama that follows a letter, unless a dependent vowel comes; between a consonant and a virama with a letter behind it (ya-phalaa, repha); after a letter that joins forward, where nothing joins on to it; between two pictographs |
/// | U+FE0E, U+FE0F | after an emoji; after `0`..`9`, `#`, `*` only before U+20E3 |
/// | U+FE00..U+FE06 | after bases of the kinds that have standardized variants: ideographs, mathematical symbols, wide punctuation (up to U+FE02); Myanmar, Phags-pa, Manichaean, Egyptian letters |
/// | U+180B..U+180D, U+180F | after a Mongolian letter |
/// | U+180E | between Mongolian letters |
/// | U+E0100..U+E01EF | after an ideograph |
/// | tag characters | all of them in U+1F3F4, 3 to 7 tag letters or digits, U+E007F |
///
/// Everything else is never needed, including soft hyphen, U+034F, zero-width space, word joiner and the fillers, and a
/// ZWNJ or ZWJ that changes nothing, as after Latin letters. The bases for variation selectors are
/// somewhat more than the list of registered sequences. Also false if `at` is not the start of a code point of `name`.
///
/// Considers at most [`REACH`] code points on each side, so checking a whole name takes linear time.
///
/// ```
/// use namegate_core::name::context::is_needed;
/// let persian = "می\u{200C}خواهم.txt";
/// assert!(is_needed(persian, persian.find('\u{200C}').unwrap()));
/// let heart = "❤\u{FE0F}";
/// assert!(is_needed(heart, 3));
/// assert!(!is_needed("a\u{200D}b", 1));
/// assert!(!is_needed("a\u{FE0F}", 1));
/// ```
pub fn is_needed(name: &str, at: usize) -> bool {
    let Some((before, from)) = name.split_at_checked(at) else { return false };
    let mut rest = from.chars();
    match rest.next() {
        Some('\u{200C}') => is_needed_non_joiner(before, rest.as_str()),
        Some('\u{200D}') => is_needed_joiner(before, rest.as_str()),
        Some(selector @ '\u{FE00}'..='\u{FE0F}') => is_variation(before, selector, rest.as_str()),
        Some('\u{180B}'..='\u{180D}' | '\u{180F}') => last(before).is_some_and(is_mongolian_letter),
        Some('\u{180E}') => is_needed_vowel_separator(before, rest.as_str()),
        Some('\u{E0100}'..='\u{E01EF}') => last(before).is_some_and(is_ideograph),
        Some('\u{E0020}'..='\u{E007F}') => is_in_flag(name, at),
        _ => false,
    }
}

fn last(before: &str) -> Option<char> {
    before.chars().next_back()
}

/// The code points before it, nearest first.
fn backward(before: &str) -> impl Iterator<Item = char> {
    before.chars().rev().take(REACH)
}

/// The code points after it, nearest first.
fn forward(after: &str) -> impl Iterator<Item = char> {
    after.chars().take(REACH)
}

fn is_needed_non_joiner(before: &str, after: &str) -> bool {
    let splits_cursive = joining_type_across_transparent(backward(before)).is_some_and(joins_forward)
        && joining_type_across_transparent(forward(after)).is_some_and(joins_backward);
    splits_cursive || (ends_in_virama(before) && across_marks(forward(after)).is_some_and(is_letter))
}

fn is_needed_joiner(before: &str, after: &str) -> bool {
    if ends_in_virama(before) {
        return across_marks(forward(after))
            .is_none_or(|c| syllabic(c) != IndicSyllabicCategory::VowelDependent);
    }
    joins_pictographs(before, after) || precedes_virama(before, after) || shows_joining_form(before, after)
}

/// UAX #31: a letter, marks, a virama, further non-spacing marks.
fn ends_in_virama(before: &str) -> bool {
    let mut nearest = backward(before).skip_while(|&c| is_reordered_mark(c) && !is_virama(c));
    nearest.next().is_some_and(is_virama) && nearest.find(|&c| !is_mark(c)).is_some_and(is_letter)
}

fn across_marks(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.find(|&c| !is_reordered_mark(c) || is_virama(c))
}

/// Bengali ra, ZWJ, virama, ya is the ya-phalaa form; Kannada ra, ZWJ, virama keeps the repha away.
fn precedes_virama(before: &str, after: &str) -> bool {
    let mut behind = after.chars();
    last(before).is_some_and(|c| syllabic(c) == IndicSyllabicCategory::Consonant)
        && behind.next().is_some_and(is_virama)
        && behind.next().is_some_and(is_letter)
}

/// An Arabic heh for "Hijri year" is written with a ZWJ to keep its initial form. Before a letter that joins anyway
/// the ZWJ changes nothing.
fn shows_joining_form(before: &str, after: &str) -> bool {
    let joins_on = |joining: JoiningType| joins_backward(joining) || joining == JoiningType::JoinCausing;
    joining_type_across_transparent(backward(before)).is_some_and(joins_forward)
        && !joining_type_across_transparent(forward(after)).is_some_and(joins_on)
}

/// UAX #29, rule GB11.
fn joins_pictographs(before: &str, after: &str) -> bool {
    after.chars().next().is_some_and(is_pictograph)
        && backward(before).find(|&c| !extends_grapheme(c)).is_some_and(is_pictograph)
}

fn is_variation(before: &str, selector: char, after: &str) -> bool {
    let Some(base) = last(before) else { return false };
    match selector {
        '\u{FE0E}' | '\u{FE0F}' if base.is_ascii() => {
            CodePointSetData::new::<Emoji>().contains(base) && after.starts_with('\u{20E3}')
        }
        '\u{FE0E}' | '\u{FE0F}' => CodePointSetData::new::<Emoji>().contains(base),
        '\u{FE00}'..='\u{FE02}' => has_standardized_variants(base) || is_varying_letter(base),
        '\u{FE03}'..='\u{FE06}' => is_varying_letter(base),
        _ => false,
    }
}

fn has_standardized_variants(base: char) -> bool {
    let wide = || {
        let width = CodePointMapData::<EastAsianWidth>::new().get(base);
        matches!(width, EastAsianWidth::Wide | EastAsianWidth::Fullwidth)
    };
    !base.is_ascii()
        && (is_ideograph(base)
            || CodePointSetData::new::<Math>().contains(base)
            || (matches!(category(base), GeneralCategory::OtherPunctuation | GeneralCategory::DecimalNumber)
                && wide()))
}

fn is_varying_letter(base: char) -> bool {
    let scripts = [Script::Myanmar, Script::PhagsPa, Script::Manichaean, Script::EgyptianHieroglyphs];
    scripts.contains(&script(base)) && (is_letter(base) || category(base) == GeneralCategory::SpacingMark)
}

fn is_needed_vowel_separator(before: &str, after: &str) -> bool {
    // A free variation selector may stand between the letter and the separator.
    let letter = backward(before).find(|c| !matches!(c, '\u{180B}'..='\u{180D}' | '\u{180F}'));
    letter.is_some_and(is_mongolian_letter) && after.chars().next().is_some_and(is_mongolian_letter)
}

/// UTS #51, ED-14a: a black flag, a region with a subdivision in tag letters and digits, the end tag. Only flags are
/// recognized, and the length of a subdivision is limited, so no longer text can be hidden in one.
fn is_in_flag(name: &str, at: usize) -> bool {
    let tags_before = backward(&name[..at]).take_while(|c| matches!(c, '\u{E0020}'..='\u{E007F}')).count();
    let start = at - tags_before * '\u{E007F}'.len_utf8();
    if !name[..start].ends_with('\u{1F3F4}') {
        return false;
    }
    let is_letter_or_digit = |c: &char| matches!(c, '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}');
    let subdivision = forward(&name[start..]).take_while(is_letter_or_digit).count();
    let end = forward(&name[start..]).nth(subdivision);
    (3..=7).contains(&subdivision) && end == Some('\u{E007F}') && tags_before <= subdivision
}

fn joining_type_across_transparent(chars: impl Iterator<Item = char>) -> Option<JoiningType> {
    chars
        .map(|c| CodePointMapData::<JoiningType>::new().get(c))
        .find(|&joining| joining != JoiningType::Transparent)
}

fn joins_forward(joining: JoiningType) -> bool {
    matches!(joining, JoiningType::DualJoining | JoiningType::LeftJoining)
}

fn joins_backward(joining: JoiningType) -> bool {
    matches!(joining, JoiningType::DualJoining | JoiningType::RightJoining)
}

fn category(c: char) -> GeneralCategory {
    CodePointMapData::<GeneralCategory>::new().get(c)
}

fn combining_class(c: char) -> CanonicalCombiningClass {
    CodePointMapData::<CanonicalCombiningClass>::new().get(c)
}

fn syllabic(c: char) -> IndicSyllabicCategory {
    CodePointMapData::<IndicSyllabicCategory>::new().get(c)
}

fn script(c: char) -> Script {
    CodePointMapData::<Script>::new().get(c)
}

fn is_letter(c: char) -> bool {
    GeneralCategoryGroup::Letter.contains(category(c))
}

fn is_mark(c: char) -> bool {
    GeneralCategoryGroup::Mark.contains(category(c))
}

fn is_virama(c: char) -> bool {
    combining_class(c) == CanonicalCombiningClass::Virama
}

/// A non-spacing mark that canonical ordering may move (UAX #31 calls the set M₁).
fn is_reordered_mark(c: char) -> bool {
    category(c) == GeneralCategory::NonspacingMark
        && combining_class(c) != CanonicalCombiningClass::NotReordered
}

fn is_mongolian_letter(c: char) -> bool {
    script(c) == Script::Mongolian && is_letter(c)
}

fn is_ideograph(c: char) -> bool {
    CodePointSetData::new::<UnifiedIdeograph>().contains(c)
        || CodePointSetData::new::<Ideographic>().contains(c)
}

fn is_pictograph(c: char) -> bool {
    CodePointSetData::new::<ExtendedPictographic>().contains(c)
}

fn extends_grapheme(c: char) -> bool {
    CodePointMapData::<GraphemeClusterBreak>::new().get(c) == GraphemeClusterBreak::Extend
}

#[cfg(test)]
mod tests;
