//! Names that are UTF-8, but were read in a wrong encoding: `café` as `cafÃ©`, `Übersicht` as `├£bersicht`, `雨中` as `╙ъ╓╨`.
//!
//! Unpacking an archive with the wrong code page leaves such names, and copying names between systems that disagree. Two questions are
//! asked. Was the name UTF-8, read in one of a dozen encodings? That is exact: RFC 3629, section 1, says that other text is rarely valid
//! UTF-8. Or was it text in another encoding? That can only be guessed. In both cases the text must be likelier in some language than
//! the name as it is, by the model of [`crate::name::reading`].
//!
//! Sources: RFC 3629 for the sequences; the WHATWG Encoding Standard and the OEM code pages for the encodings.

mod shared;
mod tables;

use std::cell::LazyCell;
use std::fmt;
use std::str::FromStr;

pub use self::shared::SharedMisreading;
use self::tables::{Outer, candidates};
use super::Span;
use super::display::display;
use super::reading::{self, Encoding, NotLegacy};
use super::scalar::{self, Class};

/// How a name became what it is: its bytes were in one encoding and were read in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reread {
    /// The encoding in which the bytes were read.
    pub read_as: Encoding,
    /// The encoding in which they were; `None` is UTF-8.
    pub written_in: Option<Encoding>,
}

impl Reread {
    /// Reads `name` again: its characters are encoded as they were read, and the bytes are decoded as they were written. `None` if the
    /// name is ASCII or was not read so.
    ///
    /// ```
    /// use namegate_core::name::misread::Reread;
    /// let pair = Reread { read_as: "cp866".parse().unwrap(), written_in: "gbk".parse().ok() };
    /// assert_eq!(pair.text("╙ъ╓╨").as_deref(), Some("雨中"));
    /// assert_eq!(pair.text("plain"), None);
    /// ```
    pub fn text(self, name: &str) -> Option<String> {
        if name.is_ascii() {
            return None;
        }
        let bytes = tables::bytes_of(name, self.read_as)?;
        match self.written_in {
            None => String::from_utf8(bytes).ok(),
            Some(encoding) => encoding.read(&bytes),
        }
    }
}

impl fmt::Display for Reread {
    /// `UTF-8 read as cp437`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.written_in {
            None => write!(f, "UTF-8 read as {}", self.read_as),
            Some(encoding) => write!(f, "{encoding} read as {}", self.read_as),
        }
    }
}

/// Why a pair of encodings is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoReread {
    /// There are no two labels.
    Form,
    /// A label is unknown.
    Label(NotLegacy),
    /// Both labels are of this encoding.
    Same(Encoding),
}

impl fmt::Display for NoReread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str("not two encodings with a `:` between them, as in cp866:gbk"),
            Self::Label(error) => write!(f, "{error}"),
            Self::Same(encoding) => write!(f, "text in {encoding} that is read as {encoding} is not damaged"),
        }
    }
}

impl std::error::Error for NoReread {}

impl FromStr for Reread {
    type Err = NoReread;

    /// Reads `READ:WRITTEN`: the label of the encoding in which the bytes were read, and that of the one in which they were, which can
    /// be UTF-8.
    ///
    /// ```
    /// use namegate_core::name::misread::Reread;
    /// assert_eq!("cp866:gbk".parse::<Reread>().unwrap().to_string(), "GBK read as IBM866");
    /// assert_eq!("437:utf-8".parse::<Reread>().unwrap().to_string(), "UTF-8 read as cp437");
    /// assert!("cp866".parse::<Reread>().is_err());
    /// assert!("utf-8:gbk".parse::<Reread>().is_err());
    /// ```
    ///
    /// # Errors
    /// It is no pair, a label is unknown, or both are of one encoding.
    fn from_str(pair: &str) -> Result<Self, NoReread> {
        let (read, written) = pair.split_once(':').ok_or(NoReread::Form)?;
        let label = |label: &str| label.parse::<Encoding>().map_err(NoReread::Label);
        let is_utf8 = ["utf-8", "utf8"].iter().any(|name| written.trim().eq_ignore_ascii_case(name));
        let read_as = label(read)?;
        let written_in = if is_utf8 { None } else { Some(label(written)?) };
        if written_in == Some(read_as) {
            return Err(NoReread::Same(read_as));
        }
        Ok(Self { read_as, written_in })
    }
}

/// What a name was before it was read in a wrong encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misread {
    /// The text.
    pub text: String,
    /// How it became the name, the last step first.
    pub steps: Vec<Reread>,
    /// Whether the text is right in all but few cases.
    pub is_sure: bool,
}

impl fmt::Display for Misread {
    /// For people: ``probably `café`: UTF-8 read as windows-1252``.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.is_sure { "probably" } else { "perhaps" };
        write!(f, "{how} `{}`: {}", display(self.text.as_bytes()), describe(&self.steps))
    }
}

/// How a name became what it is, for people: `UTF-8 read as cp437, before that UTF-8 read as windows-1252`. The last step is the first.
pub fn describe(steps: &[Reread]) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", before that ")
}

/// How often a name can have been read wrongly.
const MOST_STEPS: usize = 4;

/// Finds the first run of code points beyond ASCII of a name that was read in a wrong encoding; `None` for another name.
///
/// ```
/// use namegate_core::name::{Span, misread::find};
/// assert_eq!(find("cafÃ©.txt"), Some(Span::new(3, 7)));
/// assert_eq!(find("NÃO"), None);
/// assert_eq!(find("CAFÉ™"), None);
/// ```
pub fn find(name: &str) -> Option<Span> {
    let _ = last_step(name)?;
    let start = name.bytes().position(|byte| !byte.is_ascii())?;
    let len = name[start..].bytes().take_while(|byte| !byte.is_ascii()).count();
    Some(Span::new(start, start + len))
}

/// Finds the first word of `name` whose letters a program lost: `?` alone, twice or more, or all there is before the first dot. A program
/// in an encoding without these letters writes so (Java in the locale C), and different names become one. A `?` after a word is none.
///
/// ```
/// use namegate_core::name::{Span, misread::find_lost};
/// assert_eq!(find_lost(b"??.txt"), Some(Span::new(0, 2)));
/// assert_eq!(find_lost(b"report ???? 2.txt"), Some(Span::new(7, 11)));
/// assert_eq!(find_lost(b"?.txt"), Some(Span::new(0, 1)));
/// assert_eq!(find_lost(b"what??.txt"), None);
/// assert_eq!(find_lost(b"Qui ?.txt"), None);
/// ```
pub fn find_lost(name: &[u8]) -> Option<Span> {
    let is_edge = |byte: Option<&u8>| byte.is_none_or(|byte| b" ._-()[]".contains(byte));
    let mut at = 0;
    while let Some(found) = name[at..].iter().position(|&byte| byte == b'?') {
        let start = at + found;
        let end = start + name[start..].iter().take_while(|&&byte| byte == b'?').count();
        let before = start.checked_sub(1).and_then(|before| name.get(before));
        let is_stem = before.is_none() && matches!(name.get(end), None | Some(b'.'));
        if is_edge(before) && is_edge(name.get(end)) && (end - start > 1 || is_stem) {
            return Some(Span::new(start, end));
        }
        at = end;
    }
    None
}

/// Finds what a name was before it was read in a wrong encoding, once or several times; `None` for another name.
///
/// ```
/// use namegate_core::name::misread::undo;
/// let misread = undo("├£bersicht.pdf").unwrap();
/// assert_eq!((&*misread.text, misread.is_sure), ("Übersicht.pdf", true));
/// assert_eq!(misread.steps[0].to_string(), "UTF-8 read as cp437");
/// assert_eq!(undo("café"), None);
/// ```
pub fn undo(name: &str) -> Option<Misread> {
    last_step(name).map(undo_after)
}

/// What a name was whose last step is `step`.
fn undo_after(Step { text, reread, is_sure, .. }: Step) -> Misread {
    let mut misread = Misread { text, steps: vec![reread], is_sure };
    while misread.steps.len() < MOST_STEPS
        && let Some(Step { text, reread, is_sure, .. }) = last_step(&misread.text)
    {
        misread.steps.push(reread);
        // What is under a guess is a guess.
        misread.is_sure &= is_sure;
        misread.text = text;
    }
    misread
}

/// What a text must cost less than the name, as a logarithm: by how many bits of evidence it has that it was UTF-8.
const GAIN_OF_LITTLE: f32 = 1.0;
const GAIN_OF_SOME: f32 = 4.0;
const GAIN_OF_MUCH: f32 = -6.0;
/// The same, to be sure.
const SURE_OF_LITTLE: f32 = 10.0;
const SURE_OF_SOME: f32 = 9.0;
const SURE_OF_MUCH: f32 = -6.0;
/// So many bits are some evidence, and much.
const SOME: usize = 2;
const MUCH: usize = 8;
/// What a text in another encoding must cost less.
const GAIN_OF_LEGACY: f32 = 10.0;

/// A step that made a name what it is.
struct Step {
    /// The text before it.
    text: String,
    reread: Reread,
    is_sure: bool,
    /// What the text costs.
    cost: f32,
}

/// The last step that made `name` what it is.
fn last_step(name: &str) -> Option<Step> {
    let beyond = &name[name.bytes().position(|byte| !byte.is_ascii())?..];
    let (candidates, looks_legacy) = (candidates(beyond), may_look_legacy(beyond) && looks_legacy(name));
    if candidates.is_empty() && !looks_legacy {
        return None;
    }
    let own = LazyCell::new(|| reading::cost(name));
    let best = |steps: &mut dyn Iterator<Item = Step>| steps.min_by(|a, b| a.cost.total_cmp(&b.cost));
    let utf8 = best(&mut candidates.into_iter().filter_map(|outer| utf8_step(name, || *own, outer)));
    utf8.or_else(|| {
        let outers = Outer::WESTERN.into_iter().filter(|_| looks_legacy);
        // Only other names could tell which encoding it was.
        let read =
            |bytes: &[u8]| reading::likeliest_encoding(bytes).map(|(encoding, text)| (encoding, text, false));
        best(&mut outers.filter_map(|outer| legacy_step(name, *own, outer, read)))
    })
}

/// The step from UTF-8, read as `outer`, to `name`, which costs `own`.
fn utf8_step(name: &str, own: impl Fn() -> f32, outer: Outer) -> Option<Step> {
    let text = String::from_utf8(outer.bytes(name)?).ok()?;
    if !text.chars().all(is_plausible) || !is_convincing(name, &text, outer) {
        return None;
    }
    let cost = reading::cost(&text);
    let (gain, sure) = match reading::utf8_evidence(&text) {
        MUCH.. => (GAIN_OF_MUCH, SURE_OF_MUCH),
        SOME.. if has_odd_letters(&text) => (GAIN_OF_SOME, f32::INFINITY),
        SOME.. => (GAIN_OF_SOME, SURE_OF_SOME),
        _ => (GAIN_OF_LITTLE, SURE_OF_LITTLE),
    };
    let reread = Reread { read_as: outer.encoding()?, written_in: None };
    let own = own();
    (own - cost >= gain).then_some(Step { text, reread, is_sure: own - cost >= sure, cost })
}

/// The step from text in another encoding, read as `outer`, to `name`, which costs `own`. `read` gives the encoding and the text of the
/// bytes, and whether both are sure.
fn legacy_step(
    name: &str,
    own: f32,
    outer: Outer,
    read: impl FnOnce(&[u8]) -> Option<(Encoding, String, bool)>,
) -> Option<Step> {
    let bytes = outer.bytes(name).filter(|bytes| std::str::from_utf8(bytes).is_err())?;
    let read_as = outer.encoding()?;
    let (encoding, text, is_sure) = read(&bytes)?;
    let cost = reading::cost(&text);
    let reread = Reread { read_as, written_in: Some(encoding) };
    let is_found = encoding != read_as && own - cost >= GAIN_OF_LEGACY;
    is_found.then_some(Step { text, reread, is_sure, cost })
}

/// Whether `text` has letters that no language has, or of scripts that are not written together: characters in other encodings are such
/// letters by chance, as 学习 in GBK is `ѧϰ`.
fn has_odd_letters(text: &str) -> bool {
    let script = |c: char| match scalar::script_name(c) {
        "Hiragana" | "Katakana" => "Han",
        script => script,
    };
    let mut scripts = text.chars().filter(|&c| !is_western(c)).map(script);
    let is_mixed = scripts.next().is_some_and(|first| scripts.any(|other| other != first));
    is_mixed || text.chars().any(reading::is_unused_letter)
}

/// Whether a name may contain `c`.
fn is_plausible(c: char) -> bool {
    !matches!(
        scalar::class(c),
        Some(Class::C1Control | Class::Unassigned | Class::Noncharacter | Class::PrivateUse)
    )
}

/// Whether the characters of `name` that give `text` are hard to explain otherwise. In the encodings of Western systems they often are
/// not: after a capital `Ã`, a quotation mark gives `Ô` by chance.
fn is_convincing(name: &str, text: &str, outer: Outer) -> bool {
    let (mut read, mut written) = (name.chars().peekable(), text.chars().peekable());
    let (mut before, mut is_convincing) = (None, false);
    while let Some(first) = written.next() {
        if first.is_ascii() {
            before = read.next();
            continue;
        }
        let is_beyond = |c: &char| !c.is_ascii();
        let more = std::iter::from_fn(|| written.next_if(is_beyond)).count();
        let run: Vec<char> = std::iter::from_fn(|| read.next_if(is_beyond)).collect();
        let run = Run { before, read: &run, first, count: 1 + more, after: read.peek().copied() };
        is_convincing |= if outer.is_western() { run.is_no_western_chance() } else { run.is_no_chance() };
        before = run.read.last().copied();
    }
    is_convincing
}

/// Characters beyond ASCII beside each other.
struct Run<'r> {
    before: Option<char>,
    /// As they are in the name.
    read: &'r [char],
    /// The first one of the text.
    first: char,
    /// How many there are in the text.
    count: usize,
    after: Option<char>,
}

impl Run<'_> {
    fn is_no_chance(&self) -> bool {
        let is_glued = self.before.is_some_and(|c| c.is_ascii_alphabetic());
        // Signs after a word have the same bytes in several encodings.
        let len = self.first.len_utf8();
        self.count > 1 || len > 3 || len == 3 && !is_glued || is_western(self.first)
    }

    fn is_no_western_chance(&self) -> bool {
        let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
        let is_glued = is_letter(self.before) || is_letter(self.after);
        let after_capital = self.before.is_some_and(|c| c.is_ascii_uppercase());
        let joins = matches!(self.read.last(), Some('–' | '—' | '\u{A0}' | '·' | '’'));
        match self.first.len_utf8() {
            _ if self.count > 1 => true,
            2 if after_capital && matches!(self.read.last(), Some('’')) => false,
            2 if after_capital && is_letter(self.after) && !joins => is_western(self.first),
            2 if after_capital => self.first <= '\u{FF}' && self.first.is_uppercase(),
            2 => is_western(self.first),
            3 => is_western(self.first) || !is_glued,
            _ => true,
        }
    }
}

/// Whether `c` is a letter or a sign that Western text has.
fn is_western(c: char) -> bool {
    matches!(scalar::script_name(c), "Latin" | "Common" | "Inherited")
}

/// Whether `c` is a line that is half single and half double: no person begins a word with one.
fn is_odd_line(c: char) -> bool {
    matches!(
        c,
        '╒' | '╓'
            | '╕'
            | '╖'
            | '╘'
            | '╙'
            | '╛'
            | '╜'
            | '╞'
            | '╟'
            | '╡'
            | '╢'
            | '╤'
            | '╥'
            | '╧'
            | '╨'
            | '╪'
            | '╫'
    )
}

/// `name` without the lines that a person drew on both sides of it, of one kind, with an extension or without.
fn undecorated(name: &str) -> &str {
    let is_line = |c: &char| matches!(c, '\u{2500}'..='\u{257F}');
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let Some(line) = stem.chars().next().filter(is_line).filter(|&line| stem.ends_with(line)) else {
        return name;
    };
    let inner = stem.trim_matches(line);
    if inner.chars().any(|c| is_line(&c)) { name } else { inner }
}

/// Whether a name, from its first character beyond ASCII on, can [look so](looks_legacy): it has more than one of them, because one says
/// nothing, and begins one with a byte that those have which are looked for. Most scripts have none.
fn may_look_legacy(beyond: &str) -> bool {
    let (mut characters, mut is_asked) = (0_u32, false);
    for byte in beyond.bytes() {
        characters += u32::from(byte >= 0xC2);
        is_asked |= matches!(byte, 0xC2 | 0xC3 | 0xC5 | 0xC6 | 0xE2);
    }
    characters > 1 && is_asked
}

/// Whether `name` looks as other text does that was read in an encoding of Western or Russian systems: letters with accents side by
/// side, controls, signs of mathematics among letters, or lines that draw nothing.
fn looks_legacy(name: &str) -> bool {
    const RUN: usize = 4;
    const SIGNS: usize = 2;
    // With fewer kinds of lines a person draws a box.
    const LINES: usize = 4;
    let is_letter = |c: char| !c.is_ascii() && c.is_alphabetic();
    let (mut run, mut signs, mut lines, mut previous) = (0, 0, Vec::new(), None);
    for c in undecorated(name).chars() {
        if c.is_ascii() {
            (run, previous) = (0, Some(c));
            continue;
        }
        let touches_letter = || previous.is_some_and(is_letter);
        if previous.is_some_and(is_odd_line) && is_letter(c) {
            return true;
        }
        match c {
            '\u{80}'..='\u{9F}' => return true,
            '\u{2500}'..='\u{257F}' if touches_letter() => return true,
            '\u{2500}'..='\u{257F}' if !lines.contains(&c) => lines.push(c),
            '‚' | 'ƒ' => signs += 1,
            '≈' | '≡' | '≤' | '≥' | '±' | '÷' | '⌠' | '⌡' | '∙' | '√' | 'ⁿ' | '∞' | '∩' | '№'
                if touches_letter() =>
            {
                signs += 1
            }
            _ => {}
        }
        run = match c {
            // A letter that is repeated says no more than one.
            _ if previous == Some(c) => run,
            '\u{A1}'..='\u{FF}' | '\u{152}'..='\u{192}' => run + 1,
            _ => 0,
        };
        if run >= RUN || signs >= SIGNS || lines.len() >= LINES {
            return true;
        }
        previous = Some(c);
    }
    false
}

#[cfg(feature = "encodings")]
#[cfg(test)]
mod tests;
