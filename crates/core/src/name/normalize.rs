//! The four Unicode normalization forms.
//!
//! Two names that look the same to a person may be different bytes: U+00E9 and U+0065 U+0301 are canonically equivalent
//! (RFC 3629 section 10). This module checks whether a name is in a form, finds the first place where it is not, and
//! converts it to the form. It never decides which form a name should have.
//!
//! Source: Unicode Standard Annex #15. The data is that of `icu_normalizer`. By the normalization stability policy, a text
//! of assigned code points that is in a form stays in it in every later version of Unicode, so an update can change the
//! result only for names with unassigned code points.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::CodePointSetData;

use super::Span;

static NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
pub(super) static NFD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfd();
static NFKC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfkc();
pub(super) static NFKD: DecomposingNormalizerBorrowed<'static> = DecomposingNormalizerBorrowed::new_nfkd();

/// A normalization form (UAX #15, section 1.2).
///
/// ```
/// use namegate_core::name::normalize::Form;
/// assert_eq!("nfkc".parse(), Ok(Form::Nfkc));
/// assert_eq!(Form::Nfd.to_string(), "nfd");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// Canonical decomposition, then canonical composition: what most systems write.
    Nfc,
    /// Canonical decomposition: what HFS+ stores, in its own variant.
    Nfd,
    /// Compatibility decomposition, then canonical composition: also merges ligatures, widths and styles.
    Nfkc,
    /// Compatibility decomposition.
    Nfkd,
}

impl Form {
    /// All four forms.
    pub const ALL: [Self; 4] = [Self::Nfc, Self::Nfd, Self::Nfkc, Self::Nfkd];

    /// The name of the form as it is written in options and configuration: `nfc`, `nfd`, `nfkc` or `nfkd`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nfc => "nfc",
            Self::Nfd => "nfd",
            Self::Nfkc => "nfkc",
            Self::Nfkd => "nfkd",
        }
    }

    /// Whether the form replaces compatibility characters (NFKC and NFKD do).
    pub const fn is_compatibility(self) -> bool {
        matches!(self, Self::Nfkc | Self::Nfkd)
    }

    /// A string whose bytes are all below this one is in the form, whatever their order.
    ///
    /// A byte below CC belongs to a code point below U+0300, a byte below C3 to one below U+00C0. Each of those is in
    /// the form by itself and neither combines with nor is reordered against anything, which the tests verify for every
    /// scalar value.
    const fn first_suspect_byte(self) -> u8 {
        match self {
            Self::Nfc => 0xCC,
            Self::Nfd => 0xC3,
            Self::Nfkc | Self::Nfkd => 0x80,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Form {
    type Err = UnknownForm;

    /// Reads `nfc`, `nfd`, `nfkc` or `nfkd`, in lower case only.
    ///
    /// # Errors
    /// [`UnknownForm`] for any other text.
    fn from_str(text: &str) -> Result<Self, UnknownForm> {
        Self::ALL.into_iter().find(|form| form.as_str() == text).ok_or(UnknownForm)
    }
}

/// The text is not the name of a normalization form.
///
/// ```
/// use namegate_core::name::normalize::{Form, UnknownForm};
/// assert_eq!("NFC".parse::<Form>(), Err(UnknownForm));
/// assert_eq!(UnknownForm.to_string(), "not a normalization form: expected nfc, nfd, nfkc or nfkd");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownForm;

impl fmt::Display for UnknownForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a normalization form: expected nfc, nfd, nfkc or nfkd")
    }
}

impl std::error::Error for UnknownForm {}

/// Whether `name` is in `form`. Allocates nothing.
///
/// ```
/// use namegate_core::name::normalize::{Form, is_in_form};
/// assert!(is_in_form("caf\u{e9}", Form::Nfc));
/// assert!(!is_in_form("cafe\u{301}", Form::Nfc));
/// assert!(is_in_form("cafe\u{301}", Form::Nfd));
/// assert!(is_in_form("", Form::Nfkc));
/// ```
pub fn is_in_form(name: &str, form: Form) -> bool {
    let limit = form.first_suspect_byte();
    // No early exit, so that the loop becomes a few vector instructions: names are short.
    let innocent = name.bytes().fold(true, |all, byte| all & (byte < limit));
    innocent || is_normalized(name, form)
}

fn is_normalized(name: &str, form: Form) -> bool {
    match form {
        Form::Nfc => NFC.is_normalized(name),
        Form::Nfd => NFD.is_normalized(name),
        Form::Nfkc => NFKC.is_normalized(name),
        Form::Nfkd => NFKD.is_normalized(name),
    }
}

/// `name` in `form`: borrowed, without allocating, when it is in the form already.
///
/// The result may be longer than the name, in bytes up to 3 times for NFC and NFD and 11 times for NFKC and NFKD.
///
/// ```
/// use namegate_core::name::normalize::{Form, to_form};
/// use std::borrow::Cow;
/// assert_eq!(to_form("\u{212b}", Form::Nfc), "\u{c5}");
/// assert_eq!(to_form("\u{fb01}le", Form::Nfkc), "file");
/// assert!(matches!(to_form("file", Form::Nfd), Cow::Borrowed("file")));
/// ```
pub fn to_form(name: &str, form: Form) -> Cow<'_, str> {
    if is_in_form(name, form) {
        return Cow::Borrowed(name);
    }
    match form {
        Form::Nfc => NFC.normalize(name),
        Form::Nfd => NFD.normalize(name),
        Form::Nfkc => NFKC.normalize(name),
        Form::Nfkd => NFKD.normalize(name),
    }
}

/// The sum of `count` over the code points that `name` has in `form`: how long it would be there, without making the
/// string.
///
/// ```
/// use namegate_core::name::normalize::{Form, sum_in_form};
/// assert_eq!(sum_in_form("caf\u{e9}", Form::Nfd, char::len_utf8), 6);
/// assert_eq!(sum_in_form("cafe\u{301}", Form::Nfc, |_| 1), 4);
/// ```
pub fn sum_in_form(name: &str, form: Form, count: fn(char) -> usize) -> usize {
    let chars = name.chars();
    match form {
        Form::Nfc => NFC.normalize_iter(chars).map(count).sum(),
        Form::Nfd => NFD.normalize_iter(chars).map(count).sum(),
        Form::Nfkc => NFKC.normalize_iter(chars).map(count).sum(),
        Form::Nfkd => NFKD.normalize_iter(chars).map(count).sum(),
    }
}

/// The first part of `name` that is not in `form`, or `None` when all of it is.
///
/// The part begins and ends at a normalization boundary: it can be replaced by its own normal form without touching
/// anything around it. It usually is one base character with its combining marks.
///
/// ```
/// use namegate_core::name::{Span, normalize::{Form, first_difference}};
/// assert_eq!(first_difference("cafe\u{301}.txt", Form::Nfc), Some(Span::new(3, 6)));
/// assert_eq!(first_difference("caf\u{e9}.txt", Form::Nfc), None);
/// assert_eq!(first_difference("caf\u{e9}.txt", Form::Nfd), Some(Span::new(3, 5)));
/// ```
pub fn first_difference(name: &str, form: Form) -> Option<Span> {
    if is_in_form(name, form) {
        return None;
    }
    let mut start = 0;
    let boundaries = name.char_indices().skip(1).filter(|&(_, c)| begins_segment(c, form)).map(|(at, _)| at);
    for end in boundaries.chain([name.len()]) {
        if !is_in_form(&name[start..end], form) {
            return Some(Span::new(start, end));
        }
        start = end;
    }
    // A name whose segments are all in the form is in the form, so this is not reached; the whole name would still
    // be a correct answer.
    Some(Span::new(0, name.len()))
}

/// Whether `c` never changes in `form` and never makes a change of what is before it; `false` for some others too. Text of such code points
/// is in the form: it can be parted before each of them.
pub(crate) fn is_inert(c: char, form: Form) -> bool {
    is_in_form(c.encode_utf8(&mut [0; 4]), form) && begins_segment(c, form)
}

/// Whether the text before `c` never affects its normalization: the decomposition of `c` begins with a character that is
/// never reordered and never composes with one before it.
fn begins_segment(c: char, form: Form) -> bool {
    #[expect(deprecated, reason = "it is no property of the UCD, but the only source of exactly this answer")]
    let starters = CodePointSetData::new::<icu_properties::props::SegmentStarter>();
    let decomposer = if form.is_compatibility() { &NFKD } else { &NFD };
    decomposer.normalize_iter(std::iter::once(c)).next().is_some_and(|first| starters.contains(first))
}

#[cfg(test)]
mod tests {
    use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;

    use super::*;

    const CAFE: &str = "cafe\u{301}.txt";

    #[test]
    fn every_scalar_value_below_the_suspect_byte_is_inert() {
        let class = CanonicalCombiningClassMapBorrowed::new();
        for form in Form::ALL {
            let mut innocent = 0;
            for c in '\0'..=char::MAX {
                let mut buffer = [0; 4];
                let text = &*c.encode_utf8(&mut buffer);
                if text.bytes().any(|byte| byte >= form.first_suspect_byte()) {
                    continue;
                }
                innocent += 1;
                assert!(is_normalized(text, form), "{c:?} is in {form} by itself");
                assert!(begins_segment(c, form), "{c:?} does not combine with what is before it in {form}");
                assert_eq!(class.get_u8(c), 0, "{c:?} is not reordered");
            }
            let expected = match form {
                Form::Nfc => 0x300,
                Form::Nfd => 0xC0,
                Form::Nfkc | Form::Nfkd => 0x80,
            };
            assert_eq!(innocent, expected, "the scalar values that {form} passes by bytes alone");
        }
    }

    #[test]
    fn no_scalar_value_that_is_reordered_or_composes_with_one_before_it_is_inert() {
        let class = CanonicalCombiningClassMapBorrowed::new();
        let mut composing = 0;
        for c in '\0'..=char::MAX {
            if class.get_u8(c) != 0 {
                assert!(Form::ALL.into_iter().all(|form| !is_inert(c, form)), "{c:?}");
            }
            for behind in to_form(c.encode_utf8(&mut [0; 4]), Form::Nfd).chars().skip(1) {
                composing += 1;
                assert!(!is_inert(behind, Form::Nfc) && !is_inert(behind, Form::Nfkc), "{behind:?}");
            }
        }
        assert!(composing > 11_172, "{composing}");
        for c in ['é', '日', 'ж', '각'] {
            assert!(is_inert(c, Form::Nfc), "{c:?}");
        }
    }

    #[test]
    fn no_pair_of_innocent_scalar_values_leaves_the_form() {
        let innocent: Vec<char> = ('\0'..'\u{300}').collect();
        let mut text = String::new();
        for &first in &innocent {
            for &second in &innocent {
                text.clear();
                text.push(first);
                text.push(second);
                assert!(is_normalized(&text, Form::Nfc), "{text:?}");
            }
        }
    }

    #[test]
    fn differences_are_bounded_by_segments() {
        let span = |start, end| Some(Span::new(start, end));
        let cases: &[(&str, Form, Option<Span>)] = &[
            ("", Form::Nfc, None),
            (CAFE, Form::Nfc, span(3, 6)),
            (CAFE, Form::Nfd, None),
            ("\u{e9}t\u{e9}", Form::Nfd, span(0, 2)),
            ("x\u{301}\u{323}y", Form::Nfc, span(0, 5)),
            ("x\u{301}\u{323}y", Form::Nfd, span(0, 5)),
            ("\u{301}\u{323}", Form::Nfd, span(0, 4)),
            ("a\u{1100}\u{1161}\u{11a8}b", Form::Nfc, span(1, 10)),
            ("a\u{ac00}\u{11a8}b", Form::Nfc, span(1, 7)),
            ("a\u{212b}b", Form::Nfc, span(1, 4)),
            ("a\u{fb01}b", Form::Nfkc, span(1, 4)),
            ("a\u{fb01}b", Form::Nfc, None),
            // A half-width voiced mark composes with the letter before it, but only under compatibility forms.
            ("\u{ff76}\u{ff9e}", Form::Nfkc, span(0, 6)),
            ("\u{30ab}\u{ff9e}", Form::Nfkc, span(0, 6)),
            ("\u{30ab}\u{ff9e}", Form::Nfc, None),
            ("\u{9c7}\u{9be}", Form::Nfc, span(0, 6)),
        ];
        for &(name, form, expected) in cases {
            assert_eq!(first_difference(name, form), expected, "{name:?} in {form}");
        }
    }

    #[test]
    fn every_scalar_value_after_a_letter_has_a_span_that_can_be_replaced_alone() {
        for c in '\0'..=char::MAX {
            // What decomposes to itself and begins a segment can be in no span: leaving it out saves most of the time.
            if is_normalized(c.encode_utf8(&mut [0; 4]), Form::Nfkd) && begins_segment(c, Form::Nfkd) {
                continue;
            }
            let name = format!("e{c}\u{301}z");
            for form in Form::ALL {
                let whole = to_form(&name, form);
                match first_difference(&name, form) {
                    None => assert_eq!(whole, name),
                    Some(Span { start, end }) => {
                        let part = to_form(&name[start..end], form);
                        let replaced = [&name[..start], &part, &to_form(&name[end..], form)].concat();
                        assert_eq!(replaced, whole, "{c:?} in {form}");
                        assert_ne!(part, name[start..end], "{c:?} in {form}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_scalar_value_grows_beyond_the_stated_factor() {
        for (form, factor) in [(Form::Nfc, 3), (Form::Nfd, 3), (Form::Nfkc, 11), (Form::Nfkd, 11)] {
            let grown = |c: char| to_form(c.encode_utf8(&mut [0; 4]), form).len();
            let over = |c: char| grown(c).cmp(&(factor * c.len_utf8()));
            assert_eq!(
                ('\0'..=char::MAX).map(over).max(),
                Some(std::cmp::Ordering::Equal),
                "{form}: reached, not passed"
            );
        }
    }

    #[test]
    fn what_is_in_the_form_is_borrowed() {
        for form in Form::ALL {
            assert!(matches!(to_form("plain.txt", form), Cow::Borrowed(_)), "{form}");
            assert!(matches!(to_form("\u{65e5}\u{672c}", form), Cow::Borrowed(_)), "{form}");
        }
    }
}
