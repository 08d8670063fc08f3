//! Describes the parameter of a rule in plain words, for lists of rules.

use super::entry::AppliesTo;
use super::profile::{Chars, Limit, NamePart, ReservedNames, Test};
use crate::name::casefold::Fold;
use crate::name::display::display;
use crate::name::normalize::Form;

impl Test {
    /// Describes the parameter of the test in one line; `None` for a test without one.
    ///
    /// ```
    /// use namegate_core::policy::profile::{Chars, Limit, Test, Unit};
    /// let parameter = |test: Test| test.parameter().unwrap_or_default();
    /// assert_eq!(parameter(Test::Reserved(Chars::one_of("<>: "))), "< > : U+0020");
    /// assert_eq!(parameter(Test::Length(Limit { max: 255, unit: Unit::Utf16 })), "at most 255 UTF-16 units");
    /// ```
    pub fn parameter(&self) -> Option<String> {
        Some(match self {
            Self::Plain(_) => return None,
            Self::Reserved(chars) => characters(chars),
            Self::Named(names) | Self::Skipped(names) => words(names),
            Self::Length(limit) | Self::PathLength(limit) => length(*limit),
            Self::PathLengthOf(applies_to, limit) => format!("{}{}", length(*limit), only(*applies_to)),
            Self::Form(form) => upper(*form),
            Self::Unassigned(None) => "in the built-in version of Unicode".into(),
            Self::Unassigned(Some((major, minor))) => format!("in Unicode {major}.{minor}"),
            Self::SameForm(form) => format!("equal in {}", upper(*form)),
            Self::SameFold { fold, form } => {
                let folded = match fold {
                    Fold::Ascii => "equal when A to Z are lowercased",
                    Fold::Simple => "equal under simple case folding",
                    Fold::Full => "equal under full case folding",
                    Fold::Upcase => "equal when uppercased letter by letter",
                    Fold::Ntfs => "equal under the up-case table of NTFS",
                    Fold::Exfat => "equal under the up-case table of exFAT",
                };
                match form {
                    Some(form) => format!("{folded} and in {}", upper(*form)),
                    None => folded.into(),
                }
            }
        })
    }
}

fn upper(form: Form) -> String {
    form.as_str().to_uppercase()
}

fn length(Limit { max, unit }: Limit) -> String {
    format!("at most {max} {}", unit.noun())
}

fn words(names: &ReservedNames) -> String {
    let list: Vec<String> = names.iter().map(|word| display(word.as_bytes()).to_string()).collect();
    let list = list.join(", ");
    let words = match names.part {
        NamePart::Whole => list,
        NamePart::Base => format!("before the first dot or colon: {list}"),
        NamePart::Prefix => format!("at the beginning: {list}"),
        NamePart::Suffix => format!("at the end: {list}"),
        NamePart::Anywhere => format!("anywhere: {list}"),
        NamePart::Repeated => format!("nothing but {list}, repeated"),
    };
    words + only(names.applies_to)
}

/// The entries that a rule applies to, after its parameter.
pub(super) fn only(applies_to: AppliesTo) -> &'static str {
    match applies_to {
        AppliesTo::Everything => "",
        AppliesTo::Directories => " for a directory",
        AppliesTo::Files => " for a file",
        AppliesTo::LibraryRoot => " at the root of a document library",
    }
}

fn characters(chars: &Chars) -> String {
    match chars {
        Chars::OneOf(chars) => runs(chars),
        Chars::AllBut(chars) => format!("all but {}", runs(chars)),
        Chars::Range(first, last) => format!("{}..{}", code_point(*first), code_point(*last)),
    }
}

/// Characters one by one; four or more that follow each other in Unicode as a range.
fn runs(chars: &str) -> String {
    const SHORT: usize = 4;
    let chars: Vec<char> = chars.chars().collect();
    let runs = chars.chunk_by(|&a, &b| u32::from(a) + 1 == u32::from(b));
    let shown = runs.flat_map(|run| match run {
        [first, .., last] if run.len() >= SHORT => {
            vec![format!("{}..{}", character(*first), character(*last))]
        }
        _ => run.iter().map(|&c| character(c)).collect(),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// A character as itself, or as its code point where that could be overlooked or misread.
fn character(c: char) -> String {
    let itself = c.to_string();
    let is_plain = c == '\\' || display(itself.as_bytes()).to_string() == itself;
    if is_plain { itself } else { code_point(c) }
}

fn code_point(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::profile::{ALL, Unit};
    use crate::policy::rule::RuleId;

    #[test]
    fn parameters_are_described_in_plain_words() {
        let fold = |fold, form| Test::SameFold { fold, form };
        let cases: &[(Test, Option<&str>)] = &[
            (Test::Plain(RuleId::Delete), None),
            (Test::Reserved(Chars::one_of("<>:\"\\|?*")), Some("< > : \" \\ | ? *")),
            (Test::Reserved(Chars::one_of("\u{1}\u{202e} \u{301}")), Some("U+0001 U+202E U+0020 U+0301")),
            (Test::Reserved(Chars::AllBut("ABCDEabc_")), Some("all but A..E a b c _")),
            (Test::Reserved(Chars::Range('\u{10000}', char::MAX)), Some("U+10000..U+10FFFF")),
            (Test::Named(ReservedNames::new(NamePart::Whole, "a/b\u{200b}")), Some("a, b\\u{200B}")),
            (
                Test::Named(ReservedNames::new(NamePart::Base, "con/nul")),
                Some("before the first dot or colon: con, nul"),
            ),
            (Test::Named(ReservedNames::new(NamePart::Prefix, "~$")), Some("at the beginning: ~$")),
            (Test::PathLength(Limit { max: 8, unit: Unit::Components }), Some("at most 8 components")),
            (Test::Form(Form::Nfkd), Some("NFKD")),
            (Test::Unassigned(Some((9, 0))), Some("in Unicode 9.0")),
            (Test::SameForm(Form::Nfc), Some("equal in NFC")),
            (fold(Fold::Full, Some(Form::Nfd)), Some("equal under full case folding and in NFD")),
            (fold(Fold::Ascii, None), Some("equal when A to Z are lowercased")),
        ];
        for (test, expected) in cases {
            assert_eq!(test.parameter().as_deref(), *expected, "{test:?}");
        }
    }

    #[test]
    fn the_parameters_of_all_profiles_are_one_line_of_shown_characters() {
        for parameter in ALL.iter().flat_map(|p| p.rules).filter_map(|rule| rule.test.parameter()) {
            assert!(!parameter.is_empty());
            let shown = |c: char| {
                c == ' ' || c == '\\' || display(c.to_string().as_bytes()).to_string() == c.to_string()
            };
            assert!(parameter.chars().all(shown), "{parameter:?}");
        }
    }
}
