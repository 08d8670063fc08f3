//! What is wrong with a name, said in one line for people.
//!
//! The text is made from the name's bytes and the policy's lines when somebody wants to read it; a violation itself is
//! small and holds no text.

use std::fmt::Write as _;

use super::profile::{Limit, Test};
use super::rule::RuleId;
use super::{Policy, Violation, length};
use crate::name::display::display;
use crate::name::legacy::Octet;
use crate::name::{Span, utf8};

/// Why `name` breaks the rule of `violation`; `name` is the path for `path-too-long`.
pub(super) fn message(policy: &Policy, name: &[u8], violation: &Violation) -> String {
    match policy.in_stored_spelling(name, violation) {
        Some((stored, violation)) => {
            let why = reason(policy, stored.as_bytes(), &violation);
            format!("stored as `{}`: {why}", display(stored.as_bytes()))
        }
        None => reason(policy, name, violation),
    }
}

fn reason(policy: &Policy, name: &[u8], violation: &Violation) -> String {
    let Violation { rule, span, .. } = *violation;
    let bytes = span.of(name);
    match rule {
        RuleId::EmptyName => "the name is empty".into(),
        RuleId::DotName => "`.` and `..` are no names but the directory itself and its parent".into(),
        RuleId::NulSmuggling if bytes == b"\0" => "a raw NUL, which ends a name for the system".into(),
        RuleId::SeparatorSmuggling if bytes == b"/" => "a raw `/`, which separates names".into(),
        _ if rule.is_always_on() => ill_formed(name, span),
        RuleId::NameTooLong | RuleId::PathTooLong => too_long(policy, name, violation),
        RuleId::Iso2022Escape => format!("the escape sequence {}", hex(bytes)),
        RuleId::ReservedCharacter => format!("{} is not taken here", code_point(bytes)),
        RuleId::ReservedName => format!("`{}` is a name that is kept for other things", display(bytes)),
        RuleId::NotInForm => not_in_form(policy, bytes),
        RuleId::MixedScript => format!("the word `{}` mixes scripts", display(bytes)),
        RuleId::Mojibake => match crate::name::mojibake::undo(&String::from_utf8_lossy(bytes)) {
            Some(meant) => {
                format!("`{}` is probably `{}`, encoded twice", display(bytes), display(meant.as_bytes()))
            }
            None => rule.rule().summary.into(),
        },
        RuleId::C0Control
        | RuleId::Delete
        | RuleId::C1Control
        | RuleId::LineSeparator
        | RuleId::Noncharacter
        | RuleId::ByteOrderMark
        | RuleId::BidiControl
        | RuleId::DefaultIgnorable
        | RuleId::TagCharacter
        | RuleId::PrivateUse
        | RuleId::SmbPrivateUse
        | RuleId::ReplacementCharacter
        | RuleId::Unassigned
        | RuleId::NonAsciiSpace => format!("{}: {}", code_point(bytes), rule.rule().summary),
        _ => rule.rule().summary.into(),
    }
}

fn ill_formed(name: &[u8], span: Span) -> String {
    let found = utf8::diagnose(name, span.start);
    let octets = hex(span.of(name));
    let rule = RuleId::from(found.kind);
    match (rule, found.value) {
        (RuleId::UnexpectedContinuation, _) => {
            format!("{octets}: a continuation octet where a sequence should begin")
        }
        (RuleId::Truncated, _) => {
            let needed = Octet::of(name[span.start]).sequence_len().unwrap_or(1);
            format!("{octets}: {} of {needed} octets", span.len())
        }
        (RuleId::Overlong | RuleId::NulSmuggling | RuleId::SeparatorSmuggling, Some(value)) => {
            let mut text = format!("{octets}: an overlong form of U+{value:04X}");
            if let Some(c) = char::from_u32(value).filter(char::is_ascii_graphic) {
                let _ = write!(text, " `{c}`");
            }
            text
        }
        (RuleId::Surrogate, Some(value)) => {
            format!("{octets}: the surrogate U+{value:04X}, which is no character")
        }
        (RuleId::SurrogatePair, Some(value)) => {
            format!("{octets}: two surrogates that mean U+{value:04X} (CESU-8)")
        }
        (RuleId::AboveMax, Some(value)) => format!("{octets}: U+{value:X} is above U+10FFFF"),
        (RuleId::FiveOrSixOctets, Some(value)) => {
            format!("{octets}: {} octets for {value:08X}, legal in ISO/IEC 10646-1:1993 only", span.len())
        }
        _ => format!("{octets}: {}", rule.rule().summary),
    }
}

fn too_long(policy: &Policy, name: &[u8], violation: &Violation) -> String {
    let limit_of = |test: &Test| match (violation.rule, test) {
        (RuleId::NameTooLong, Test::Length(limit)) | (RuleId::PathTooLong, Test::PathLength(limit)) => {
            Some(*limit)
        }
        _ => None,
    };
    let broken = policy.lines.iter().filter_map(|line| {
        let limit = limit_of(&line.test)?;
        (length::excess(name, limit)? == violation.span).then_some((limit, line.profiles))
    });
    let texts: Vec<String> = broken
        .map(|(limit @ Limit { max, unit }, profiles)| {
            let who: Vec<&str> = profiles.names().collect();
            format!(
                "{} {}, at most {max} ({})",
                length::measure(name, limit.unit),
                unit.noun(),
                who.join(", ")
            )
        })
        .collect();
    texts.join("; ")
}

fn not_in_form(policy: &Policy, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let forms = policy.lines.iter().filter_map(|line| match line.test {
        Test::Form(form) if !crate::name::normalize::is_in_form(&text, form) => Some(form),
        _ => None,
    });
    let mut parts = Vec::new();
    for form in forms {
        let meant = crate::name::normalize::to_form(&text, form);
        parts.push(format!("{} in {}", code_points(&meant), form.to_string().to_uppercase()));
    }
    format!("{} would be {}", code_points(&text), parts.join(", "))
}

/// `U+0041 'A'`, or the code point alone where showing it could deceive.
fn code_point(bytes: &[u8]) -> String {
    let Some(c) = std::str::from_utf8(bytes).ok().and_then(|s| s.chars().next()) else { return hex(bytes) };
    let shown = display(bytes).to_string();
    let plain = shown.chars().eq([c]);
    if plain { format!("U+{:04X} `{c}`", u32::from(c)) } else { format!("U+{:04X}", u32::from(c)) }
}

fn code_points(text: &str) -> String {
    /// A message is one line: the start of a long region tells enough.
    const SHOWN: usize = 8;
    let mut points: Vec<String> =
        text.chars().take(SHOWN).map(|c| format!("U+{:04X}", u32::from(c))).collect();
    if text.chars().nth(SHOWN).is_some() {
        points.push("...".into());
    }
    points.join(" ")
}

fn hex(bytes: &[u8]) -> String {
    /// As above: a run of stray octets can be as long as the name.
    const SHOWN: usize = 8;
    let mut octets: Vec<String> = bytes.iter().take(SHOWN).map(|b| format!("{b:02X}")).collect();
    if bytes.len() > SHOWN {
        octets.push("...".into());
    }
    octets.join(" ")
}
