//! The rules as regular languages, each a set of whole names.
//!
//! Names are allowed or refused by the languages that they are in, so no language has to be a complement. Which code points
//! a rule refuses is read from the tests that [`Policy::verdict`](crate::policy::Policy::verdict) uses; a second list of them
//! could differ.

use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Dot, Hir, Repetition,
};

use crate::name::age;
use crate::name::scalar::{Class as ScalarClass, class};
use crate::policy::ActiveRule;
use crate::policy::dotgit::{self, OBEYED};
use crate::policy::profile::{Limit, NamePart, Test, Unit};
use crate::policy::rule::RuleId;

/// Well-formed names of allowed code points.
const TEXT: usize = 0;
/// Names that a rule of shape refuses.
const SHAPE: usize = 1;
/// Names that Windows or macOS treat as git's own.
const DOT_GIT: usize = 2;
/// Git's own names.
const GIT: usize = 3;

/// Whether a name is allowed that is in exactly these languages.
pub(super) fn is_allowed(languages: impl Iterator<Item = usize>) -> bool {
    let mut is_in = [false; 4];
    languages.for_each(|language| is_in[language] = true);
    is_in[TEXT] && !is_in[SHAPE] && (!is_in[DOT_GIT] || is_in[GIT])
}

/// The languages, in the order of their numbers.
pub(super) fn of_rules(rules: &[&ActiveRule]) -> [Hir; 4] {
    let has = |id: RuleId| rules.iter().any(|rule| rule.test == Test::Plain(id));
    let dot_git = if has(RuleId::DotGitLookalike) { dot_git_lookalike() } else { Hir::fail() };
    let own_names = dotgit::own_names().map(|name| Hir::literal(name.as_bytes())).collect();
    [text(rules, has(RuleId::TagCharacter)), shape(rules), dot_git, Hir::alternation(own_names)]
}

fn text(rules: &[&ActiveRule], flags: bool) -> Hir {
    let ages: Vec<_> = rules
        .iter()
        .filter_map(|rule| match rule.test {
            Test::Unassigned(Some(version)) => age::assigned_by(version),
            _ => None,
        })
        .collect();
    let refuses = |rule: &ActiveRule, c: char, class: Option<ScalarClass>| match &rule.test {
        Test::Reserved(chars) => chars.contains(c),
        Test::Unassigned(None) => class == Some(ScalarClass::Unassigned),
        Test::Plain(id) => class.is_some_and(|class| RuleId::from(class) == *id),
        _ => false,
    };
    let is_allowed = |c: char, class: Option<ScalarClass>| {
        !matches!(c, '\0' | '/')
            && !rules.iter().any(|rule| refuses(rule, c, class))
            && ages.iter().all(|assigned| assigned.contains(c))
    };
    let reads_classes = rules.iter().any(|rule| matches!(rule.test, Test::Plain(_) | Test::Unassigned(None)));
    let class = |c: char| reads_classes.then(|| class(c)).flatten();
    let mut units = vec![class_of(('\0'..=char::MAX).filter(|&c| is_allowed(c, class(c))))];
    // Tag characters are allowed in a flag only: the flag itself, a subdivision in tag letters and digits, the end tag.
    let (black_flag, end) = ('\u{1F3F4}', '\u{E007F}');
    if flags && is_allowed(black_flag, class(black_flag)) && is_allowed(end, None) {
        let tags = ('\u{E0030}'..='\u{E0039}').chain('\u{E0061}'..='\u{E007A}');
        let subdivision = class_of(tags.filter(|&c| is_allowed(c, None)));
        let flag = [class_of([black_flag]), repeat(3, Some(7), subdivision), class_of([end])];
        units.push(Hir::concat(flag.into()));
    }
    at_least(1, Hir::alternation(units))
}

/// One of `chars`, which ascend.
fn class_of(chars: impl IntoIterator<Item = char>) -> Hir {
    let mut ranges: Vec<(char, char)> = Vec::new();
    for c in chars {
        match ranges.last_mut() {
            Some((_, last)) if u32::from(*last) + 1 == u32::from(c) => *last = c,
            _ => ranges.push((c, c)),
        }
    }
    let ranges = ranges.into_iter().map(|(first, last)| ClassUnicodeRange::new(first, last));
    Hir::class(Class::Unicode(ClassUnicode::new(ranges)))
}

fn shape(rules: &[&ActiveRule]) -> Hir {
    let mut refused = vec![literal("."), literal("..")];
    for rule in rules {
        match &rule.test {
            Test::Plain(id) => refused.extend(plain(*id)),
            Test::Named(names) | Test::Skipped(names) => {
                refused.extend(names.iter().filter_map(|word| named(names.part, word)))
            }
            Test::Length(Limit { max, unit: Unit::Dots }) => {
                let dot = Hir::concat(vec![anything(), literal(".")]);
                let most = u32::try_from(*max).unwrap_or(u32::MAX).saturating_add(1);
                refused.push(Hir::concat(vec![repeat(most, Some(most), dot), anything()]));
            }
            _ => {}
        }
    }
    Hir::alternation(refused)
}

fn plain(rule: RuleId) -> Option<Hir> {
    Some(match rule {
        RuleId::LeadingSpace => begins(literal(" ")),
        RuleId::LeadingDash => begins(literal("-")),
        RuleId::LeadingTilde => begins(literal("~")),
        RuleId::TrailingSpace => ends(literal(" ")),
        RuleId::TrailingDot => ends(literal(".")),
        RuleId::Iso2022Escape => {
            let switch = Hir::concat(vec![literal("\x1B%"), one_of(b"G@")]);
            let numbered = Hir::concat(vec![literal("\x1B%/"), one_of(b"GHI")]);
            begins(ends(Hir::alternation(vec![switch, numbered])))
        }
        _ => return None,
    })
}

/// The names that reserve `word`. `None` if there are none: a base has no dot, no colon and no space at its end.
fn named(part: NamePart, word: &str) -> Option<Hir> {
    let text = any_case(word);
    Some(match part {
        NamePart::Whole => text,
        NamePart::Base if word.contains(['.', ':']) || word.ends_with(' ') => return None,
        NamePart::Base => {
            let rest = Hir::concat(vec![one_of(b".:"), anything()]);
            Hir::concat(vec![text, any_number(literal(" ")), repeat(0, Some(1), rest)])
        }
        NamePart::Prefix => begins(text),
        NamePart::Suffix => ends(text),
        NamePart::Anywhere => begins(ends(text)),
        NamePart::Repeated => at_least(1, text),
    })
}

/// What [`dotgit::is_lookalike`] finds, git's own names included.
fn dot_git_lookalike() -> Hir {
    let mut ntfs: Vec<Hir> = dotgit::own_names().chain(["git~1"]).map(any_case).collect();
    for obeyed in &OBEYED {
        ntfs.push(Hir::concat(vec![any_case(obeyed.short), literal("~"), one_of(b"1234")]));
        for letters in 0..=6 {
            ntfs.push(Hir::concat(vec![
                any_case(&obeyed.hashed[..letters]),
                literal("~"),
                one_of(b"123456789"),
                repeat(6 - letters as u32, Some(6 - letters as u32), one_of(b"0123456789")),
            ]));
        }
    }
    let in_part = any_number(Hir::class(Class::Bytes(all_bytes_but(b'\\'))));
    let stream = Hir::concat(vec![literal(":"), in_part]);
    let ntfs =
        Hir::concat(vec![Hir::alternation(ntfs), any_number(one_of(b" .")), repeat(0, Some(1), stream)]);
    let ignored = any_number(class_of(dotgit::IGNORED.into_iter().flat_map(|(first, last)| first..=last)));
    let spread = |name: &str| {
        let letters = name.chars().flat_map(|c| [ignored.clone(), any_case(c.encode_utf8(&mut [0; 4]))]);
        Hir::concat(letters.chain([ignored.clone()]).collect())
    };
    let hfs = Hir::alternation(dotgit::own_names().map(spread).collect());
    let before = repeat(0, Some(1), ends(literal("\\")));
    let after = repeat(0, Some(1), begins(literal("\\")));
    Hir::concat(vec![before, Hir::alternation(vec![ntfs, hfs]), after])
}

fn all_bytes_but(byte: u8) -> ClassBytes {
    let mut all = ClassBytes::new([ClassBytesRange::new(byte, byte)]);
    all.negate();
    all
}

fn literal(text: &str) -> Hir {
    Hir::literal(text.as_bytes())
}

/// ASCII letters in either case.
fn any_case(word: &str) -> Hir {
    let byte = |b: u8| one_of(&[b.to_ascii_lowercase(), b.to_ascii_uppercase()]);
    Hir::concat(word.bytes().map(byte).collect())
}

fn one_of(bytes: &[u8]) -> Hir {
    Hir::class(Class::Bytes(ClassBytes::new(bytes.iter().map(|&b| ClassBytesRange::new(b, b)))))
}

fn begins(with: Hir) -> Hir {
    Hir::concat(vec![with, anything()])
}

fn ends(with: Hir) -> Hir {
    Hir::concat(vec![anything(), with])
}

fn anything() -> Hir {
    any_number(Hir::dot(Dot::AnyByte))
}

fn any_number(of: Hir) -> Hir {
    at_least(0, of)
}

fn at_least(min: u32, of: Hir) -> Hir {
    repeat(min, None, of)
}

fn repeat(min: u32, max: Option<u32>, of: Hir) -> Hir {
    Hir::repetition(Repetition { min, max, greedy: true, sub: Box::new(of) })
}
