//! Guesses the encoding of the names in one directory that are not UTF-8.
//!
//! The names are read together: one guess for the text of all names, and a check that each can be read in that encoding. A few
//! names are weak evidence; then the directory above counts too, and in the end most names of the tree. The plan has the choice and
//! its evidence.

use crate::name::reading::{Encoding, Evidence, has_stray_octets, oddity};
use crate::policy::Confidence;

/// A guess is likely if at least this many names agree.
const ENOUGH_NAMES: usize = 3;

/// With fewer bytes beyond ASCII the directory above counts more.
const WEAK_EVIDENCE_BYTES: usize = 24;

/// The number of names to try in each encoding.
const SAMPLE: usize = 256;

/// The number of names to try for other encodings.
const SMALL_SAMPLE: usize = 8;

/// The number of other encodings in a choice.
const MAX_OTHERS: usize = 3;

/// The encoding of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingChoice {
    /// The encoding.
    pub encoding: Encoding,
    /// How certain the encoding is.
    pub confidence: Confidence,
    /// The number of names that need it.
    pub names: usize,
    /// The evidence, in words.
    pub evidence: String,
    /// Other encodings that can read the names, the likeliest first.
    pub others: Vec<Encoding>,
}

/// The encoding of other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorChoice {
    /// The encoding.
    pub encoding: Encoding,
    /// How certain the encoding is.
    pub confidence: Confidence,
    /// The number of these names.
    pub names: usize,
    /// Which names these are.
    pub source: PriorSource,
}

/// The names behind a prior choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorSource {
    /// The names of a directory above.
    Above,
    /// Most of the tree.
    Tree,
}

impl PriorSource {
    /// The end of a sentence about other names.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Above => "as those of a directory above",
            Self::Tree => "as most such names of the tree",
        }
    }
}

/// How well an encoding reads names: how many it cannot read, and how odd the others look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct EncodingFit {
    unread: usize,
    odd: usize,
}

/// Chooses the encoding of those `names` that are not UTF-8; `None` if no name needs one.
pub fn choose_encoding(names: &[&[u8]], prior: Option<PriorChoice>) -> Option<EncodingChoice> {
    let names: Vec<&[u8]> =
        names.iter().copied().filter(|n| std::str::from_utf8(n).is_err() && has_stray_octets(n)).collect();
    let mut evidence = Evidence::default();
    names.iter().for_each(|name| evidence.add(name));
    let guessed = evidence.guess()?;
    let sample = sample_names(&names, SAMPLE);
    let (own, fit) = [guessed]
        .into_iter()
        .chain(evidence.guess_whole())
        .map(|guessed| refine(guessed, &sample))
        .map(|encoding| (encoding, EncodingFit::measure(encoding, &sample)))
        .min_by_key(|(_, fit)| *fit)?;
    let count = names.len();
    let chosen = |encoding, confidence, evidence| EncodingChoice {
        encoding,
        confidence,
        names: count,
        evidence,
        others: find_others(&names, encoding),
    };
    if let Some(prior) = prior {
        let bytes: usize = sample.iter().map(|name| name.iter().filter(|b| !b.is_ascii()).count()).sum();
        let of_prior = EncodingFit::measure(prior.encoding, &sample);
        // A guess is no evidence for other directories.
        let counts = prior.confidence != Confidence::Guess && (bytes < WEAK_EVIDENCE_BYTES || fit.unread > 0);
        if prior.encoding == own && fit.unread == 0 {
            let confidence = if count >= ENOUGH_NAMES { Confidence::Likely } else { prior.confidence };
            return Some(chosen(
                own,
                confidence,
                format!("reads {}, as in a directory above", describe_names(count)),
            ));
        }
        if counts && of_prior.unread == 0 && of_prior.odd <= fit.odd {
            let evidence = format!("reads {}, {}", describe_names(count), prior.source.as_str());
            return Some(chosen(prior.encoding, prior.confidence, evidence));
        }
    }
    if fit.unread == 0 {
        let confidence = if count >= ENOUGH_NAMES { Confidence::Likely } else { Confidence::Guess };
        return Some(chosen(own, confidence, format!("the likeliest, and reads {}", describe_names(count))));
    }
    let candidates = Encoding::COMMON.into_iter().chain(prior.map(|prior| prior.encoding));
    let fits = candidates.map(|encoding| (EncodingFit::measure(encoding, &sample), encoding));
    let best = fits.filter(|(fit, _)| fit.unread == 0).min_by_key(|(fit, _)| fit.odd);
    if let Some((_, encoding)) = best {
        let evidence = format!("reads {}; {own} seems likelier and does not", describe_names(count));
        return Some(chosen(encoding, Confidence::Guess, evidence));
    }
    let evidence = format!("the likeliest, and does not read {} of {}", fit.unread, sample.len());
    Some(chosen(own, Confidence::Guess, evidence))
}

/// Decides between encodings that the guess does not distinguish.
fn refine(guessed: Encoding, names: &[&[u8]]) -> Encoding {
    if guessed.is_latin() && is_latin_9(names) {
        let latin_9 = EncodingFit::measure(Encoding::ISO_8859_15, names);
        if guessed == Encoding::WINDOWS_1252 || latin_9 < EncodingFit::measure(guessed, names) {
            return Encoding::ISO_8859_15;
        }
    }
    let koi8_r = Encoding::COMMON.into_iter().find(|encoding| encoding.name() == "KOI8-R");
    // KOI8-U has eight Ukrainian letters in the place of line-drawing characters.
    let is_the_same =
        |other: Encoding| names.iter().all(|name| other.read_name(name) == guessed.read_name(name));
    koi8_r.filter(|&koi8_r| guessed.name() == "KOI8-U" && is_the_same(koi8_r)).unwrap_or(guessed)
}

fn describe_names(count: usize) -> String {
    match count {
        1 => "the one name here that is not UTF-8".to_owned(),
        2 => "both names here that are not UTF-8".to_owned(),
        _ => format!("all {count} names here that are not UTF-8"),
    }
}

/// At most about `count` of `names`, evenly distributed.
fn sample_names<'n>(names: &[&'n [u8]], count: usize) -> Vec<&'n [u8]> {
    let step = names.len().div_ceil(count).max(1);
    names.iter().copied().step_by(step).collect()
}

impl EncodingFit {
    fn measure(encoding: Encoding, names: &[&[u8]]) -> Self {
        /// A word of two scripts counts as much as this many symbols.
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

/// Other encodings that can read `names`, the likeliest first.
fn find_others(names: &[&[u8]], chosen: Encoding) -> Vec<Encoding> {
    let sample = sample_names(names, SMALL_SAMPLE);
    let mut fits: Vec<(EncodingFit, Encoding)> = Encoding::COMMON
        .into_iter()
        .filter(|&encoding| encoding != chosen)
        .map(|encoding| (EncodingFit::measure(encoding, &sample), encoding))
        .filter(|(fit, _)| fit.unread == 0)
        .collect();
    fits.sort_by_key(|(fit, _)| fit.odd);
    fits.into_iter().map(|(_, encoding)| encoding).take(MAX_OTHERS).collect()
}

/// Reports whether names in windows-1252 are more likely ISO-8859-15: that has the euro sign in the place of `¤`, and seven letters,
/// which occur inside words, where windows-1252 has fractions, bars and accents without a letter.
fn is_latin_9(names: &[&[u8]]) -> bool {
    let (mut speaks_for, mut speaks_against) = (0_usize, 0_usize);
    for name in names {
        for (at, &byte) in name.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| name[at]);
            let after = name.get(at + 1).copied();
            let is_letter = |b: u8| b.is_ascii_alphabetic() || b >= 0xC0;
            let in_word = [before, after].into_iter().flatten().any(is_letter)
                && ![before, after].into_iter().flatten().any(|b| b.is_ascii_digit());
            match byte {
                // Only windows-1252 has these: quotes, dashes, another euro sign.
                0x80..=0x9F => return false,
                0xA4 => speaks_for += 1,
                // An upper-case letter does not follow a lower-case letter; an acute accent used as an apostrophe does.
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

    /// Encodes `names` with an encoder that the program does not use.
    fn written(label: &str, names: &[&str]) -> Vec<Vec<u8>> {
        let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
        let encode = |name: &&str| {
            let (bytes, _, failed) = encoding.encode(name);
            assert!(!failed, "{name} in {label}");
            bytes.into_owned()
        };
        names.iter().map(encode).collect()
    }

    fn chosen(names: &[Vec<u8>], prior: Option<PriorChoice>) -> Option<EncodingChoice> {
        choose_encoding(&names.iter().map(Vec::as_slice).collect::<Vec<_>>(), prior)
    }

    const RUSSIAN: [&str; 5] =
        ["отчёт за год.txt", "Новая папка", "фотографии", "письмо маме.doc", "музыка.mp3"];

    #[test]
    fn the_names_of_a_directory_show_their_encoding() {
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
        assert_eq!(choose_encoding(&[b"plain", "café".as_bytes(), b"x\xED\xA0\x80"], None), None);
    }

    #[test]
    fn a_single_name_is_read_as_those_of_the_directory_above() {
        let one = written("koi8-r", &["год"]);
        let alone = chosen(&one, None).unwrap();
        assert_eq!(alone.confidence, Confidence::Guess);
        let prior = PriorChoice {
            encoding: encoding("koi8-r"),
            confidence: Confidence::Likely,
            names: 9,
            source: PriorSource::Above,
        };
        let choice = chosen(&one, Some(prior)).unwrap();
        assert_eq!((choice.encoding, choice.confidence), (prior.encoding, Confidence::Likely));
        assert!(choice.evidence.contains("directory above"), "{choice:?}");
        // Enough names of its own count more.
        let many = written("shift_jis", &["新しいフォルダ", "写真.jpg", "会議の資料.doc"]);
        assert_eq!(chosen(&many, Some(prior)).unwrap().encoding.name(), "Shift_JIS");
        // An encoding that cannot read the name does not count.
        let japanese = PriorChoice { encoding: encoding("euc-jp"), ..prior };
        let choice = chosen(&[b"caf\xE9.txt".to_vec()], Some(japanese)).unwrap();
        assert_eq!(choice.encoding, Encoding::WINDOWS_1252);
    }

    #[test]
    fn the_letters_of_latin_9_differ_from_the_symbols_of_latin_1() {
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
