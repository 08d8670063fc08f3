//! Case folding, and the key by which names are compared without regard to case or spelling.
//!
//! The target determines the fold: two names collide on it if their keys are equal. A key is only for
//! comparing; it is never stored or shown.
//!
//! Source: The Unicode Standard, section 3.13 (Default Case Algorithms, D144 to D146), CaseFolding.txt and
//! UnicodeData.txt. The data is that of `icu_casemap`. The Turkic mappings (status T) are never used, because no file
//! system uses them.

use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

use icu_casemap::{CaseMapper, CaseMapperBorrowed};

use super::age::{self, AssignedSet};
use super::normalize::{Form, to_form};
use super::spelling::{self, SpellingSet};

static CASE: CaseMapperBorrowed<'static> = CaseMapper::new();

/// What the table of exFAT knows.
static UNICODE_5_0: LazyLock<AssignedSet> =
    LazyLock::new(|| age::assigned_by((5, 0)).expect("it is among the known versions"));

/// How a target compares names without regard to case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fold {
    /// Only `A` to `Z` are folded, to lower case.
    Ascii,
    /// Simple case folding: one scalar value becomes one (status C and S of CaseFolding.txt). `ß` and `ss` stay
    /// different, `ẞ` and `ß` become equal.
    Simple,
    /// Full case folding (status C and F of CaseFolding.txt), as APFS and the casefold feature of ext4 and f2fs do. `ß`
    /// and `SS` become equal.
    Full,
    /// The simple upper case mapping of UnicodeData.txt, for single UTF-16 units: code points above U+FFFF are not changed.
    Upcase,
    /// The `$UpCase` table of NTFS: [`Fold::Upcase`] of letters that are the lower case of their upper case. So `ı` is not `I`,
    /// `ſ` not `S`, `µ` not `Μ`, and `ς` not `Σ`. Each volume has the table of the time when it was formatted, with fewer letters
    /// than Unicode has today: this fold may report two names as equal that an old volume distinguishes, but misses none that the
    /// table merges.
    Ntfs,
    /// The recommended up-case table of exFAT (exFAT file system specification, section 7.2.5.1): [`Fold::Ntfs`] of letters that Unicode
    /// 5.0 had, and `ς` is `Σ`. Every formatter writes this table.
    Exfat,
}

impl Fold {
    /// All folds.
    pub const ALL: [Self; 6] = [Self::Ascii, Self::Simple, Self::Full, Self::Upcase, Self::Ntfs, Self::Exfat];

    /// The name of the fold as it is written in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ascii => "ascii",
            Self::Simple => "simple",
            Self::Full => "full",
            Self::Upcase => "upcase",
            Self::Ntfs => "ntfs",
            Self::Exfat => "exfat",
        }
    }

    /// Whether `name` has a code point that is folded, or is in the fold of another.
    fn has_variants(self, name: &str) -> bool {
        static SETS: [OnceLock<SpellingSet>; Fold::ALL.len()] = [const { OnceLock::new() }; Fold::ALL.len()];
        let look_at = |c: char, add: &mut dyn FnMut(char)| {
            let text = c.to_string();
            let folded = fold(&text, self);
            if folded != text {
                add(c);
                folded.chars().for_each(add);
            }
        };
        let set = SETS[self as usize].get_or_init(|| SpellingSet::new(look_at));
        name.chars().any(|c| set.contains(c))
    }

    fn scalar(self, c: char) -> char {
        match self {
            Self::Ascii => c.to_ascii_lowercase(),
            // Full folding can give several scalar values for one; `fold` leaves these to the string mapping.
            Self::Simple | Self::Full => CASE.simple_fold(c),
            Self::Upcase | Self::Ntfs | Self::Exfat if c > '\u{FFFF}' => c,
            Self::Upcase => CASE.simple_uppercase(c),
            Self::Exfat if c == 'ς' => 'Σ',
            Self::Exfat => {
                let upper = Self::Ntfs.scalar(c);
                let is_old = || upper == c || UNICODE_5_0.contains(c) && UNICODE_5_0.contains(upper);
                if is_old() { upper } else { c }
            }
            Self::Ntfs => {
                let upper = CASE.simple_uppercase(c);
                if CASE.simple_lowercase(upper) == c { upper } else { c }
            }
        }
    }
}

/// Folds the case of `name`; borrowed, without allocating, if nothing changes. Does not normalize.
///
/// ```
/// use namegate_core::name::casefold::{Fold, fold};
/// assert_eq!(fold("STRA\u{df}E", Fold::Full), "strasse");
/// assert_eq!(fold("STRA\u{df}E", Fold::Simple), "stra\u{df}e");
/// assert_eq!(fold("stra\u{df}e", Fold::Upcase), "STRA\u{df}E");
/// assert_eq!(fold("\u{c9}T\u{c9}", Fold::Ascii), "\u{c9}t\u{c9}");
/// // U+10428 has an upper case letter, but is two UTF-16 units.
/// assert_eq!(fold("\u{10428}", Fold::Upcase), "\u{10428}");
/// assert_eq!(fold("ıſi", Fold::Upcase), "ISI");
/// assert_eq!(fold("ıſi", Fold::Ntfs), "ıſI");
/// ```
pub fn fold(name: &str, fold: Fold) -> Cow<'_, str> {
    if name.is_ascii() {
        return fold_ascii(name, fold);
    }
    if fold == Fold::Full {
        return CASE.fold_string(name);
    }
    match name.char_indices().find(|&(_, c)| fold.scalar(c) != c) {
        None => Cow::Borrowed(name),
        Some((at, _)) => {
            let mut folded = String::with_capacity(name.len());
            folded.push_str(&name[..at]);
            folded.extend(name[at..].chars().map(|c| fold.scalar(c)));
            Cow::Owned(folded)
        }
    }
}

fn fold_ascii(name: &str, fold: Fold) -> Cow<'_, str> {
    let to_upper = matches!(fold, Fold::Upcase | Fold::Ntfs | Fold::Exfat);
    let changes = if to_upper { u8::is_ascii_lowercase } else { u8::is_ascii_uppercase };
    if !name.as_bytes().iter().any(changes) {
        return Cow::Borrowed(name);
    }
    Cow::Owned(if to_upper { name.to_ascii_uppercase() } else { name.to_ascii_lowercase() })
}

/// The comparison key of `name`: two names are the same for a target that normalizes by `form` and folds by `case`
/// if and only if their keys are equal.
///
/// - With NFC or NFD and a fold, the key is that of canonical caseless matching (D145: NFD, fold, NFD).
/// - With NFKC or NFKD and a fold, it is that of compatibility caseless matching (NFKD, fold, NFKD, fold, NFKD). D146
///   itself begins with NFD, and so gives two keys to compatibility-equivalent names in which U+FF9E, which decomposes to
///   a combining mark, follows U+0345, which folds to a letter. A target that stores the form has only one name there.
/// - NFC and NFD give the same key, as do NFKC and NFKD: names that are equal under one are equal under the other.
/// - With only a form it is the name in that form, with only a fold the folded name, with neither the name itself.
///
/// ```
/// use namegate_core::name::{casefold::{Fold, key}, normalize::Form};
/// let full = |name| key(name, Some(Form::Nfc), Some(Fold::Full)).into_owned();
/// assert_eq!(full("\u{212b}"), full("a\u{30a}"));
/// assert_eq!(full("MASSE"), full("ma\u{df}e"));
/// // Without the first NFD the order of the marks would decide: U+0345 folds to a letter.
/// assert_eq!(full("\u{3b1}\u{345}\u{301}"), full("\u{391}\u{301}\u{345}"));
/// assert_ne!(key("\u{212b}", None, Some(Fold::Full)), key("a\u{30a}", None, Some(Fold::Full)));
/// ```
pub fn key(name: &str, form: Option<Form>, case: Option<Fold>) -> Cow<'_, str> {
    let Some(case) = case else {
        return form.map_or(Cow::Borrowed(name), |form| to_form(name, form));
    };
    let Some(form) = form else { return fold(name, case) };
    // ASCII is in every form and folds to ASCII.
    if name.is_ascii() {
        return fold_ascii(name, case);
    }
    let decomposed = if form.is_compatibility() { Form::Nfkd } else { Form::Nfd };
    let fold_once = |text| then(then(text, |text| fold(text, case)), |text| to_form(text, decomposed));
    let folded = fold_once(to_form(name, decomposed));
    if form.is_compatibility() { fold_once(folded) } else { folded }
}

/// Whether another string may have the same [`key`] as `name`; `false` is certain.
///
/// Proof, with that of [`spelling::has_others`]: a name in which no step of the key changes anything is its own key. If another name
/// has this key, then some step of its key writes a part of it: the decomposition a code point of that proof, or the fold one that
/// is the fold of another.
///
/// ```
/// use namegate_core::name::{casefold::{Fold, has_other_spellings}, normalize::Form};
/// assert!(has_other_spellings("a1", None, Some(Fold::Ntfs)) && has_other_spellings("A1", None, Some(Fold::Ntfs)));
/// assert!(!has_other_spellings("1", None, Some(Fold::Full)) && !has_other_spellings("日本", None, Some(Fold::Full)));
/// assert!(has_other_spellings("é", Some(Form::Nfc), None) && !has_other_spellings("é", None, Some(Fold::Ascii)));
/// ```
pub fn has_other_spellings(name: &str, form: Option<Form>, case: Option<Fold>) -> bool {
    form.is_some_and(|form| spelling::has_others(name, form))
        || case.is_some_and(|case| case.has_variants(name))
}

/// Applies one more step to a text, which stays borrowed as long as no step changes it.
fn then<'n>(text: Cow<'n, str>, step: impl for<'t> Fn(&'t str) -> Cow<'t, str>) -> Cow<'n, str> {
    match text {
        Cow::Borrowed(text) => step(text),
        Cow::Owned(text) => match step(&text) {
            Cow::Owned(changed) => Cow::Owned(changed),
            Cow::Borrowed(_) => Cow::Owned(text),
        },
    }
}

#[cfg(test)]
mod tests;
