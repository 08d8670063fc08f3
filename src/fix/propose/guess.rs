//! In which encoding the names of one directory were written that are not UTF-8.
//!
//! They are looked at together: one guess for the text of all of them, and the question whether each can be read in it. A
//! few names say little; then the directory above, which has been looked at before, has a voice, and in the end most names
//! of the tree. What was decided, and on what grounds, stands in the plan.

use crate::name::reading::{Encoding, Evidence, has_stray_octets, oddity};
use crate::policy::Confidence;

/// So many names that agree make a guess likely.
const ENOUGH_NAMES: usize = 3;

/// Fewer octets beyond ASCII than this are thin ground: what the directory above says weighs more.
const THIN: usize = 24;

/// So many names are tried in each encoding.
const SAMPLE: usize = 256;

/// ... and so many to find what else could have been meant.
const SMALL_SAMPLE: usize = 8;

/// How many other encodings are told.
const MAX_OTHERS: usize = 3;

/// What was decided for a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The encoding.
    pub encoding: Encoding,
    /// How sure that is.
    pub confidence: Confidence,
    /// How many names it was decided for.
    pub names: usize,
    /// What speaks for it, in words.
    pub evidence: String,
    /// Other encodings in which the names can be read, the likeliest first.
    pub others: Vec<Encoding>,
}

/// What was decided for other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prior {
    /// The encoding.
    pub encoding: Encoding,
    /// How sure that is.
    pub confidence: Confidence,
    /// For how many names.
    pub names: usize,
    /// For which.
    pub of: Whose,
}

/// Whose names something was decided for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of a directory above.
    Above,
    /// Most of the tree.
    Tree,
}

impl Whose {
    /// In a sentence about other names.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Above => "as those of a directory above",
            Self::Tree => "as most such names of the tree",
        }
    }
}

/// How well names can be read in an encoding: how many cannot, and how odd the others look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Fit {
    unread: usize,
    odd: usize,
}

/// The encoding of `names`, as far as they are not UTF-8; `None` if none of them needs one.
pub fn choose(names: &[&[u8]], prior: Option<Prior>) -> Option<Choice> {
    let names: Vec<&[u8]> =
        names.iter().copied().filter(|n| std::str::from_utf8(n).is_err() && has_stray_octets(n)).collect();
    let mut evidence = Evidence::default();
    names.iter().for_each(|name| evidence.add(name));
    let guessed = evidence.guess()?;
    let sample = spread(&names, SAMPLE);
    let (own, fit) = [guessed]
        .into_iter()
        .chain(evidence.guess_whole())
        .map(|guessed| refined(guessed, &sample))
        .map(|encoding| (encoding, Fit::of(encoding, &sample)))
        .min_by_key(|(_, fit)| *fit)?;
    let count = names.len();
    let chosen = |encoding, confidence, evidence| Choice {
        encoding,
        confidence,
        names: count,
        evidence,
        others: others(&names, encoding),
    };
    if let Some(prior) = prior {
        let octets: usize = sample.iter().map(|name| name.iter().filter(|b| !b.is_ascii()).count()).sum();
        let of_prior = Fit::of(prior.encoding, &sample);
        // A guess speaks for itself alone.
        let is_heard = prior.confidence != Confidence::Guess && (octets < THIN || fit.unread > 0);
        if prior.encoding == own && fit.unread == 0 {
            let confidence = if count >= ENOUGH_NAMES { Confidence::Likely } else { prior.confidence };
            return Some(chosen(
                own,
                confidence,
                format!("reads {}, as in a directory above", all_of(count)),
            ));
        }
        if is_heard && of_prior.unread == 0 && of_prior.odd <= fit.odd {
            let evidence = format!("reads {}, {}", all_of(count), prior.of.as_str());
            return Some(chosen(prior.encoding, prior.confidence, evidence));
        }
    }
    if fit.unread == 0 {
        let confidence = if count >= ENOUGH_NAMES { Confidence::Likely } else { Confidence::Guess };
        return Some(chosen(own, confidence, format!("the likeliest, and reads {}", all_of(count))));
    }
    let candidates = Encoding::COMMON.into_iter().chain(prior.map(|prior| prior.encoding));
    let fits = candidates.map(|encoding| (Fit::of(encoding, &sample), encoding));
    let best = fits.filter(|(fit, _)| fit.unread == 0).min_by_key(|(fit, _)| fit.odd);
    if let Some((_, encoding)) = best {
        let evidence = format!("reads {}; {own} seems likelier and does not", all_of(count));
        return Some(chosen(encoding, Confidence::Guess, evidence));
    }
    let evidence = format!("the likeliest, and does not read {} of {}", fit.unread, sample.len());
    Some(chosen(own, Confidence::Guess, evidence))
}

/// What a guess does not tell apart.
fn refined(guessed: Encoding, names: &[&[u8]]) -> Encoding {
    if guessed.is_latin() && is_latin_9(names) {
        let latin_9 = Fit::of(Encoding::ISO_8859_15, names);
        if guessed == Encoding::WINDOWS_1252 || latin_9 < Fit::of(guessed, names) {
            return Encoding::ISO_8859_15;
        }
    }
    let koi8_r = Encoding::COMMON.into_iter().find(|encoding| encoding.name() == "KOI8-R");
    // KOI8-U has eight letters of Ukrainian more, in the place of lines.
    let is_the_same =
        |other: Encoding| names.iter().all(|name| other.read_name(name) == guessed.read_name(name));
    koi8_r.filter(|&koi8_r| guessed.name() == "KOI8-U" && is_the_same(koi8_r)).unwrap_or(guessed)
}

fn all_of(count: usize) -> String {
    match count {
        1 => "the one name here that is not UTF-8".to_owned(),
        2 => "both names here that are not UTF-8".to_owned(),
        _ => format!("all {count} names here that are not UTF-8"),
    }
}

/// At most `count` of `names`, from all over.
fn spread<'n>(names: &[&'n [u8]], count: usize) -> Vec<&'n [u8]> {
    let step = names.len().div_ceil(count).max(1);
    names.iter().copied().step_by(step).collect()
}

impl Fit {
    fn of(encoding: Encoding, names: &[&[u8]]) -> Self {
        /// A word of two scripts weighs as much as so many symbols.
        const MIXED: usize = 4;
        let mut fit = Self::default();
        for name in names {
            match encoding.read_name(name) {
                None => fit.unread += 1,
                Some(text) => {
                    let (is_mixed, symbols) = oddity(&text);
                    fit.odd += symbols + if is_mixed { MIXED } else { 0 };
                }
            }
        }
        fit
    }
}

/// Other encodings that read `names`, the likeliest first.
fn others(names: &[&[u8]], chosen: Encoding) -> Vec<Encoding> {
    let sample = spread(names, SMALL_SAMPLE);
    let mut fits: Vec<(Fit, Encoding)> = Encoding::COMMON
        .into_iter()
        .filter(|&encoding| encoding != chosen)
        .map(|encoding| (Fit::of(encoding, &sample), encoding))
        .filter(|(fit, _)| fit.unread == 0)
        .collect();
    fits.sort_by_key(|(fit, _)| fit.odd);
    fits.into_iter().map(|(_, encoding)| encoding).take(MAX_OTHERS).collect()
}

/// Whether names that may be windows-1252 are rather ISO-8859-15: its euro sign is in nobody's way (`¤`), and its seven
/// letters stand within words where windows-1252 has fractions, bars and accents without a letter.
fn is_latin_9(names: &[&[u8]]) -> bool {
    let (mut speaks_for, mut speaks_against) = (0_usize, 0_usize);
    for name in names {
        for (at, &octet) in name.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| name[at]);
            let after = name.get(at + 1).copied();
            let is_letter = |b: u8| b.is_ascii_alphabetic() || b >= 0xC0;
            let in_word = [before, after].into_iter().flatten().any(is_letter)
                && ![before, after].into_iter().flatten().any(|b| b.is_ascii_digit());
            match octet {
                // Of windows-1252 alone: quotes, dashes, the euro sign in its place.
                0x80..=0x9F => return false,
                0xA4 => speaks_for += 1,
                // A capital does not follow a small letter; an acute accent that serves as an apostrophe does.
                0xA6 | 0xB4 | 0xBC | 0xBE
                    if in_word && !before.is_some_and(|b| b.is_ascii_lowercase() || b >= 0xDF) =>
                {
                    speaks_for += 1;
                }
                0xA8 | 0xB8 | 0xBD if in_word => speaks_for += 1,
                0xA6 | 0xA8 | 0xB4 | 0xB8 | 0xBC..=0xBE => speaks_against += 1,
                _ => {}
            }
        }
    }
    speaks_for > speaks_against
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(label: &str) -> Encoding {
        label.parse().unwrap()
    }

    /// `names` in an encoding, by the encoder that is not used to read them.
    fn written(label: &str, names: &[&str]) -> Vec<Vec<u8>> {
        let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
        let encode = |name: &&str| {
            let (bytes, _, failed) = encoding.encode(name);
            assert!(!failed, "{name} in {label}");
            bytes.into_owned()
        };
        names.iter().map(encode).collect()
    }

    fn chosen(names: &[Vec<u8>], prior: Option<Prior>) -> Option<Choice> {
        choose(&names.iter().map(Vec::as_slice).collect::<Vec<_>>(), prior)
    }

    const RUSSIAN: [&str; 5] =
        ["отчёт за год.txt", "Новая папка", "фотографии", "письмо маме.doc", "музыка.mp3"];

    #[test]
    fn a_directory_of_names_tells_its_encoding() {
        let cases: &[(&str, &[&str], &str)] = &[
            ("koi8-r", &RUSSIAN, "KOI8-R"),
            ("ibm866", &RUSSIAN, "IBM866"),
            ("windows-1251", &RUSSIAN, "windows-1251"),
            ("shift_jis", &["新しいフォルダ", "写真.jpg", "会議の資料.doc"], "Shift_JIS"),
            ("euc-kr", &["새 폴더", "회의 자료.hwp", "사진.jpg"], "EUC-KR"),
            ("windows-1252", &["résumé.txt", "façade.jpg", "naïve"], "windows-1252"),
            ("iso-8859-15", &["œuvre.txt", "cœur.jpg", "prix 20 €", "été"], "ISO-8859-15"),
            ("gbk", &["新建文件夹", "照片.jpg", "会议资料.doc"], "GBK"),
        ];
        for (label, names, expected) in cases {
            let choice = chosen(&written(label, names), None).unwrap();
            assert_eq!(choice.encoding.name(), *expected, "{choice:?}");
            assert_eq!(choice.confidence, Confidence::Likely);
            assert!(choice.evidence.contains(&format!("reads all {} names", names.len())), "{choice:?}");
            assert!(!choice.others.contains(&choice.encoding) && choice.others.len() <= MAX_OTHERS);
        }
        assert_eq!(choose(&[b"plain", "café".as_bytes(), b"x\xED\xA0\x80"], None), None);
    }

    #[test]
    fn a_single_name_is_read_as_those_of_the_directory_above() {
        let one = written("koi8-r", &["год"]);
        let alone = chosen(&one, None).unwrap();
        assert_eq!(alone.confidence, Confidence::Guess);
        let prior = Prior {
            encoding: encoding("koi8-r"),
            confidence: Confidence::Likely,
            names: 9,
            of: Whose::Above,
        };
        let choice = chosen(&one, Some(prior)).unwrap();
        assert_eq!((choice.encoding, choice.confidence), (prior.encoding, Confidence::Likely));
        assert!(choice.evidence.contains("directory above"), "{choice:?}");
        // Many names of their own are heard before it.
        let many = written("shift_jis", &["新しいフォルダ", "写真.jpg", "会議の資料.doc"]);
        assert_eq!(chosen(&many, Some(prior)).unwrap().encoding.name(), "Shift_JIS");
        // What cannot be read in it is not.
        let japanese = Prior { encoding: encoding("euc-jp"), ..prior };
        let choice = chosen(&[b"caf\xE9.txt".to_vec()], Some(japanese)).unwrap();
        assert_eq!(choice.encoding, Encoding::WINDOWS_1252);
    }

    #[test]
    fn the_letters_of_latin_9_are_told_from_the_symbols_of_latin_1() {
        let is = |names: &[&[u8]]| is_latin_9(names);
        assert!(is(&[b"c\xBDur"]) && is(&[b"100 \xA4"]) && is(&[b"\xBCuvre", b"\xB4eleznice"]));
        assert!(
            !is(&[b"1\xBD kg"]) && !is(&[b"Rock\xB4n\xB4Roll"]) && !is(&[b"2\xBC l"]) && !is(&[b"\xE9t\xE9"])
        );
        assert!(!is(&[b"c\xBDur", b"\x93quoted\x94"]));
    }

    #[test]
    fn names_of_two_encodings_are_not_read_with_confidence() {
        let mixed: Vec<Vec<u8>> = [written("koi8-r", &RUSSIAN), vec![b"\x81\x8D\xFF\xFF".to_vec()]].concat();
        let choice = chosen(&mixed, None).unwrap();
        assert!(
            choice.confidence == Confidence::Guess || choice.evidence.contains("reads all"),
            "{choice:?}"
        );
    }
}
