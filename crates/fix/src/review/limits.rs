//! The rules of a policy, as far as the script of the page can check a name by them while it is typed.

use namegate_core::policy::ActiveRule;
use namegate_core::policy::profile::{Chars, Limit, NamePart, ReservedNames, Test, Unit};
use namegate_core::policy::rule::Severity;
use serde::Serialize;

/// A rule for the page.
#[derive(Serialize)]
pub(super) struct NameLimit {
    /// The name of the rule.
    rule: &'static str,
    error: bool,
    #[serde(flatten)]
    test: NameTest,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum NameTest {
    /// None of these characters.
    NoneOf(String),
    /// Only these characters.
    AllOf(String),
    /// No character from the first to the last.
    NoneIn([u32; 2]),
    /// Which part of a name is none of which words.
    Words(&'static str, Vec<String>),
    /// At most so many, of what, in which words.
    Length(usize, &'static str, String),
    /// The name is in this normalization form.
    Form(String),
    /// Two names are the same if they are in this form, and in either case.
    Same { form: Option<String>, fold: bool },
    /// What the name of the rule says.
    Plain(()),
}

impl NameLimit {
    /// `None` for a rule that the page leaves to `fix apply`.
    pub(super) fn from_rule(active: &ActiveRule) -> Option<Self> {
        let form = |form: &dyn ToString| form.to_string().to_uppercase();
        let test = match &active.test {
            Test::Plain(_) => NameTest::Plain(()),
            Test::Reserved(Chars::OneOf(chars)) => NameTest::NoneOf(chars.to_string()),
            Test::Reserved(Chars::AllBut(chars)) => NameTest::AllOf((*chars).to_owned()),
            Test::Reserved(Chars::Range(first, last)) => NameTest::NoneIn([*first as u32, *last as u32]),
            Test::Named(names) | Test::Skipped(names) => words(names)?,
            Test::Length(limit) => length(*limit)?,
            Test::Form(wanted) => NameTest::Form(form(wanted)),
            Test::SameForm(wanted) => NameTest::Same { form: Some(form(wanted)), fold: false },
            Test::SameFold { form: wanted, .. } => {
                NameTest::Same { form: wanted.as_ref().map(|wanted| form(wanted)), fold: true }
            }
            _ => return None,
        };
        let error = active.severity == Severity::Error;
        Some(Self { rule: active.test.rule().name(), error, test })
    }
}

fn words(names: &ReservedNames) -> Option<NameTest> {
    let part = match names.part {
        NamePart::Whole => "whole",
        NamePart::Base => "base",
        NamePart::Prefix => "prefix",
        NamePart::Suffix => "suffix",
        NamePart::Anywhere => "anywhere",
        _ => return None,
    };
    Some(NameTest::Words(part, names.iter().map(str::to_owned).collect()))
}

fn length(limit: Limit) -> Option<NameTest> {
    let unit = match limit.unit {
        Unit::Bytes => "bytes",
        Unit::Utf16 => "utf16",
        Unit::CodePoints => "code_points",
        _ => return None,
    };
    Some(NameTest::Length(limit.max, unit, limit.unit.noun().into_owned()))
}
