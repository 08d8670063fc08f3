//! The scripts of a name, and words that mix scripts which do not belong together.
//!
//! Words are checked separately: `отчёт report.txt` is fine, `pаypal` with a Cyrillic letter is not.
//! Source: UTS #39 section 5.1 (augmented script sets) and 5.2 (the level Highly Restrictive), tables by
//! `unicode-security`. The identifier profile of UTS #39 does not apply: a file name is not an identifier.

use icu_properties::props::{GeneralCategory, GeneralCategoryGroup, Script};
use icu_properties::{CodePointMapData, CodePointMapDataBorrowed};
use unicode_security::mixed_script::AugmentedScriptSet;

use super::{Span, scalar};

const CATEGORY: CodePointMapDataBorrowed<'static, GeneralCategory> =
    CodePointMapData::<GeneralCategory>::new();
const SCRIPT: CodePointMapDataBorrowed<'static, Script> = CodePointMapData::<Script>::new();

/// The first word of `name` whose scripts do not belong together.
///
/// A word is a longest run of letters, marks and numbers; invisible code points do not end it, because a
/// reader does not see them. A word is fine if it fits into one script or one of the writing systems Japanese,
/// Korean, or Han with Bopomofo, or if it fits into one of these writing systems without its Latin letters.
/// Code points of the scripts Common and Inherited (ASCII digits, accents) fit everywhere; digits of a script belong to
/// that script.
///
/// ```
/// use namegate_core::name::{Span, script::mixed};
/// assert_eq!(mixed("отчёт report-v2.txt"), None);
/// assert_eq!(mixed("東京Tower"), None);
/// assert_eq!(mixed("my pаypal.txt"), Some(Span::new(3, 10))); // Cyrillic а
/// ```
pub fn mixed(name: &str) -> Option<Span> {
    if name.is_ascii() {
        return None;
    }
    let mut word: Option<Word> = None;
    for (at, c) in name.char_indices() {
        if belongs_to_word(c) {
            word.get_or_insert_with(|| Word::starting(at)).push(c);
        } else if let Some(span) = word.take().and_then(|word| word.mixed_until(name, at)) {
            return Some(span);
        }
    }
    word.and_then(|word| word.mixed_until(name, name.len()))
}

/// The long names of the scripts of `name` in order of first appearance, without Common, Inherited and Unknown.
///
/// By property Script, so each code point has one script. Allocates nothing for a name of one script.
///
/// ```
/// use namegate_core::name::script::scripts;
/// assert!(scripts("отчёт report 2").eq(["Cyrillic", "Latin"]));
/// assert_eq!(scripts("2024-01").next(), None);
/// ```
pub fn scripts(name: &str) -> impl Iterator<Item = &'static str> {
    let (mut first, mut others) = (None, Vec::new());
    let mut last = Script::Common;
    name.chars().filter_map(move |c| {
        let script = match c {
            'a'..='z' | 'A'..='Z' => Script::Latin,
            '\0'..='\x7F' => return None,
            _ => SCRIPT.get(c),
        };
        // Neighbours nearly always have the same script.
        if script == last || matches!(script, Script::Common | Script::Inherited | Script::Unknown) {
            return None;
        }
        last = script;
        match first {
            None => first = Some(script),
            Some(first) if first == script || others.contains(&script) => return None,
            Some(_) => others.push(script),
        }
        Some(scalar::script_name(c))
    })
}

fn belongs_to_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    let category = CATEGORY.get(c);
    GeneralCategoryGroup::Letter.contains(category)
        || GeneralCategoryGroup::Mark.contains(category)
        || GeneralCategoryGroup::Number.contains(category)
        || scalar::class(c) == Some(scalar::Class::DefaultIgnorable)
}

/// A word that is being read.
///
/// Script_Extensions of a code point contain its Script unless that is Common or Inherited, so a word of one Script value
/// cannot be mixed. That is nearly every word, and costs one look-up for each code point instead of several searches.
struct Word {
    start: usize,
    /// The one value of property Script, ASCII digits aside, while there is one.
    only: Option<Script>,
    needs_extensions: bool,
}

impl Word {
    fn starting(start: usize) -> Self {
        Self { start, only: None, needs_extensions: false }
    }

    fn push(&mut self, c: char) {
        if c.is_ascii_digit() {
            return;
        }
        let script = SCRIPT.get(c);
        let is_shared = matches!(script, Script::Common | Script::Inherited);
        self.needs_extensions |= is_shared || *self.only.get_or_insert(script) != script;
    }

    fn mixed_until(&self, name: &str, end: usize) -> Option<Span> {
        (self.needs_extensions && mixes_scripts(&name[self.start..end])).then(|| Span::new(self.start, end))
    }
}

fn mixes_scripts(word: &str) -> bool {
    let latin = AugmentedScriptSet::for_char('a');
    let mut all = AugmentedScriptSet::default();
    let mut rest = AugmentedScriptSet::default();
    for set in
        word.chars().map(|c| if c.is_ascii_alphabetic() { latin } else { AugmentedScriptSet::for_char(c) })
    {
        all.intersect_with(set);
        let mut common_with_latin = set;
        common_with_latin.intersect_with(latin);
        if common_with_latin.base.is_empty() {
            rest.intersect_with(set);
        }
    }
    all.is_empty() && !(rest.hanb || rest.jpan || rest.kore)
}

#[cfg(test)]
mod tests;
