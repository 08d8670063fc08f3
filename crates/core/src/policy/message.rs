//! Explains a violation in one line.
//!
//! A violation is small and contains no text. The message is made on demand from the bytes of the name and the rules of the
//! policy.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::entry::AppliesTo;
use super::profile::{Limit, NamePart, ProfileSet, Test};
use super::rule::{RuleId, RuleKind, Severity};
use super::{Policy, Violation, describe, length};
use crate::name::display::{display, is_shown, octets};
use crate::name::misread;
use crate::name::scalar::{Class, UNICODE_VERSION, class, meant_by_smb};
use crate::name::substitutes::meanings_of_private;
use crate::name::ucs4::{Octet, notation};
use crate::name::{Span, age, utf8};

/// Explains why `name` breaks the rule of `violation`; for `path-too-long`, `name` is the path.
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
    let Violation { rule, span, severity, profiles, .. } = *violation;
    let bytes = span.slice(name);
    match rule {
        RuleId::EmptyName => "the name is empty".into(),
        RuleId::DotName => "`.` and `..` mean the directory itself and its parent".into(),
        RuleId::NulSmuggling if bytes == b"\0" => {
            "a NUL byte, which ends a name for the operating system".into()
        }
        RuleId::SeparatorSmuggling if bytes == b"/" => "`/`, which separates names".into(),
        _ if rule.is_always_on() => ill_formed(name, span),
        RuleId::NameTooLong | RuleId::PathTooLong => too_long(policy, name, violation),
        RuleId::Iso2022Escape => format!("{}: an escape sequence that {}", octets(bytes), announced(bytes)),
        // The most frequent message by far: without the machinery of `format!`.
        RuleId::ReservedCharacter => {
            let mut text = code_point(bytes);
            text.push_str(match severity {
                Severity::Error => " is not allowed in names (",
                Severity::Warn => " should be avoided (",
            });
            push_list(&mut text, profiles);
            text.push(')');
            if let Some(substitute) = utf8_char(bytes).and_then(left_by_smb) {
                text.push_str(", ");
                text.push_str(&substitute);
            }
            text
        }
        RuleId::ReservedName => reserved_name(policy, name, violation),
        RuleId::LeftBehind => {
            let unknown = if violation.is_certain { "" } else { "; its kind is not known" };
            let only = policy.skipped_at(name, span).map_or("", |word| describe::only(word.applies_to));
            format!(
                "`{}`: programs of the target skip it{only} ({}){unknown}",
                display(bytes),
                list(profiles)
            )
        }
        RuleId::NotInForm => not_in_form(policy, bytes),
        RuleId::MixedScript => format!("the word `{}` mixes scripts", display(bytes)),
        RuleId::Mojibake => match std::str::from_utf8(name).ok().and_then(misread::undo) {
            Some(misread) => misread.to_string(),
            None => rule.rule().summary.into(),
        },
        _ if rule.rule().kind == RuleKind::Scalar => match utf8_char(bytes) {
            Some(c) => format!("{}, {}", code_point(bytes), scalar(policy, rule, c, span.start == 0)),
            None => rule.rule().summary.into(),
        },
        _ => rule.rule().summary.into(),
    }
}

/// What an escape sequence announces (ISO/IEC 10646-1 Amd. 2, R.6; utf-8(7)).
fn announced(sequence: &[u8]) -> &'static str {
    match sequence {
        [.., b'@'] => "returns from UTF-8 to ISO 2022",
        [.., b'/', b'G'] => "announces UTF-8 of implementation level 1 (ISO/IEC 10646-1)",
        [.., b'/', b'H'] => "announces UTF-8 of implementation level 2 (ISO/IEC 10646-1)",
        [.., b'/', _] => "announces UTF-8 of implementation level 3 (ISO/IEC 10646-1)",
        _ => "announces UTF-8",
    }
}

fn reserved_name(policy: &Policy, name: &[u8], violation: &Violation) -> String {
    let &Violation { span, profiles, is_certain, .. } = violation;
    let word = policy.reserved_at(name, span);
    let applies_to = word.map(|word| word.applies_to).unwrap_or_default();
    let unknown = match applies_to {
        _ if is_certain => "",
        AppliesTo::LibraryRoot => "; --library-depth says where that is",
        _ => "; its kind is not known",
    };
    let how = match word.map(|word| word.part) {
        Some(NamePart::Prefix) => "is reserved at the beginning of a name",
        Some(NamePart::Suffix) => "is reserved at the end of a name",
        Some(NamePart::Anywhere) => "is reserved within a name",
        _ => "is a reserved name",
    };
    let (shown, only) = (display(span.slice(name)), describe::only(applies_to));
    format!("`{shown}` {how}{only} ({}){unknown}", list(profiles))
}

/// Explains what is wrong with `c`; the message shows its code point first.
fn scalar(policy: &Policy, rule: RuleId, c: char, is_first: bool) -> Cow<'static, str> {
    match rule {
        RuleId::C0Control => match c {
            '\t' => "a control character (tab)",
            '\n' => "a control character (line feed)",
            '\r' => "a control character (carriage return)",
            '\u{1B}' => "a control character (escape)",
            _ => "a control character",
        },
        RuleId::Delete => "a control character (delete)",
        RuleId::C1Control => "a control character",
        RuleId::LineSeparator if c == '\u{2028}' => "a line separator",
        RuleId::LineSeparator => "a paragraph separator",
        RuleId::Noncharacter => "a noncharacter, which no text should contain",
        RuleId::ByteOrderMark if is_first => "a byte order mark, which no name needs: names are always UTF-8",
        RuleId::ByteOrderMark => {
            "a zero width no-break space, which is invisible; U+2060 replaces it in text"
        }
        RuleId::BidiControl => {
            "a bidirectional control, which can change the order in which the name is shown"
        }
        RuleId::DefaultIgnorable => "an invisible code point",
        RuleId::TagCharacter => "a tag character, which is invisible",
        RuleId::PrivateUse => match left_by_smb(c) {
            Some(substitute) => return substitute.into(),
            None => "a private-use code point, which other machines may show differently",
        },
        RuleId::SmbPrivateUse => {
            return left_by_smb(c).map_or("written by an SMB client".into(), Cow::from);
        }
        RuleId::ReplacementCharacter => "the replacement character: an earlier conversion lost the original",
        RuleId::Unassigned => return unassigned(policy, c).into(),
        RuleId::NonAsciiSpace => "a space other than U+0020",
        _ => rule.rule().summary,
    }
    .into()
}

/// What `c` stands for if SMB clients write it instead of a character that Windows reserves, and how to decode it.
fn left_by_smb(c: char) -> Option<String> {
    if let Some(meant) = meant_by_smb(c).filter(|meant| meant.is_control()) {
        return Some(format!("written by an SMB client instead of U+{:04X}", u32::from(meant)));
    }
    let meanings = meanings_of_private(c).map(|(map, meant)| format!("`{meant}` (`fix plan --map {map}`)"));
    let meanings: Vec<String> = meanings.collect();
    (!meanings.is_empty()).then(|| format!("written by an SMB client instead of {}", meanings.join(" or ")))
}

/// The newest version of Unicode among those that the policy checks and that do not assign `c`.
fn unassigned(policy: &Policy, c: char) -> String {
    let versions = policy.rules.iter().filter_map(|rule| match rule.test {
        Test::Unassigned(None) => {
            let (major, minor, _) = UNICODE_VERSION;
            (class(c) == Some(Class::Unassigned)).then_some((major, minor))
        }
        Test::Unassigned(Some(version)) => {
            age::assigned_by(version).is_some_and(|assigned| !assigned.contains(c)).then_some(version)
        }
        _ => None,
    });
    let newest = versions.max().map_or(String::new(), |(major, minor)| format!(" {major}.{minor}"));
    format!("not assigned in Unicode{newest}")
}

fn list(profiles: ProfileSet) -> String {
    let mut listed = String::new();
    push_list(&mut listed, profiles);
    listed
}

fn push_list(text: &mut String, profiles: ProfileSet) {
    for (at, name) in profiles.names().enumerate() {
        text.push_str(if at == 0 { "" } else { ", " });
        text.push_str(name);
    }
}

fn ill_formed(name: &[u8], span: Span) -> String {
    let found = utf8::diagnose(name, span.start);
    let shown = octets(span.slice(name));
    let rule = RuleId::from(found.kind);
    match (rule, found.value) {
        (RuleId::UnexpectedContinuation, _) if span.len() > 1 => {
            format!("{shown}: continuation bytes where a sequence should begin")
        }
        (RuleId::UnexpectedContinuation, _) => {
            format!("{shown}: a continuation byte where a sequence should begin")
        }
        (RuleId::Truncated, _) => {
            let needed = Octet::classify(name[span.start]).sequence_len().unwrap_or(1);
            format!("{shown}: only {} of {needed} bytes", span.len())
        }
        (RuleId::Overlong | RuleId::NulSmuggling | RuleId::SeparatorSmuggling, Some(value)) => {
            let mut text = format!("{shown}: an overlong form of {}", notation(value));
            if let Some(c) = char::from_u32(value).filter(char::is_ascii_graphic) {
                let _ = write!(text, " `{c}`");
            }
            text
        }
        (RuleId::Surrogate, Some(value)) => {
            format!("{shown}: the surrogate U+{value:04X}, which is not a character")
        }
        (RuleId::SurrogatePair, Some(value)) => {
            format!("{shown}: two surrogates that mean U+{value:04X} (CESU-8)")
        }
        (RuleId::AboveMax, Some(value)) => format!("{shown}: {} is above U+10FFFF", notation(value)),
        (RuleId::FiveOrSixOctets, Some(value)) => {
            format!("{shown}: {} bytes for {}, a form that RFC 3629 abolished", span.len(), notation(value))
        }
        (RuleId::InvalidOctet, _) => format!("{shown}: a byte that UTF-8 never uses"),
        _ => format!("{shown}: {}", rule.rule().summary),
    }
}

fn too_long(policy: &Policy, name: &[u8], violation: &Violation) -> String {
    let limit_of = |test: &Test| match (violation.rule, test) {
        (RuleId::NameTooLong, Test::Length(limit)) | (RuleId::PathTooLong, Test::PathLength(limit)) => {
            Some((*limit, AppliesTo::Everything))
        }
        (RuleId::PathTooLong, Test::PathLengthOf(applies_to, limit)) => Some((*limit, *applies_to)),
        _ => None,
    };
    let broken = policy.rules.iter().filter_map(|rule| {
        let (limit, applies_to) = limit_of(&rule.test)?;
        (length::excess(name, limit)? == violation.span).then_some((limit, applies_to, rule.profiles))
    });
    let texts: Vec<String> = broken
        .map(|(limit @ Limit { max, unit }, applies_to, profiles)| {
            let (length, only) = (length::measure(name, limit.unit), describe::only(applies_to));
            format!("{length} {}, at most {max}{only} ({})", unit.noun(), list(profiles))
        })
        .collect();
    let text = texts.join("; ");
    match (policy.reserve, violation.rule) {
        (reserve @ 1.., RuleId::NameTooLong) => format!("{text}, beside the reserved {reserve}"),
        _ if violation.is_certain => text,
        _ => format!("{text}; its kind is not known"),
    }
}

fn not_in_form(policy: &Policy, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let forms = policy.rules.iter().filter_map(|rule| match rule.test {
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

fn utf8_char(bytes: &[u8]) -> Option<char> {
    std::str::from_utf8(bytes).ok()?.chars().next()
}

/// ``U+0041 `A` ``, or the code point alone where the character could deceive.
fn code_point(bytes: &[u8]) -> String {
    let Some(c) = utf8_char(bytes) else { return octets(bytes) };
    let is_plain = match c {
        // By itself it is both the beginning and the end of what is shown.
        ' ' | '\\' => false,
        '!'..='~' => true,
        _ => is_shown(c, false),
    };
    let mut text = String::with_capacity(MESSAGE_BYTES);
    push_code_point(&mut text, c);
    if is_plain {
        text.push_str(" `");
        text.push(c);
        text.push('`');
    }
    text
}

/// What most messages that begin with a code point need.
const MESSAGE_BYTES: usize = 64;

/// Appends `U+0041`.
fn push_code_point(text: &mut String, c: char) {
    let point = u32::from(c);
    let digits = (u32::BITS - point.leading_zeros()).div_ceil(4).max(4);
    text.push_str("U+");
    for digit in (0..digits).rev() {
        text.push(char::from(b"0123456789ABCDEF"[(point >> (4 * digit) & 0xF) as usize]));
    }
}

fn code_points(text: &str) -> String {
    /// A message is one line: the start of a long region is enough.
    const SHOWN: usize = 8;
    let mut points: Vec<String> =
        text.chars().take(SHOWN).map(|c| format!("U+{:04X}", u32::from(c))).collect();
    if text.chars().nth(SHOWN).is_some() {
        points.push("...".into());
    }
    points.join(" ")
}

#[cfg(test)]
mod tests;
