//! Encodings of names in a zip that are not marked as UTF-8, and of those in a tar that are not UTF-8.
//!
//! Nothing says which encoding that is: zip means code page 437 (APPNOTE.TXT 6.3.10, appendix D.1), pax means UTF-8, and programs write
//! what the machine used. So it is guessed from all such names of the archive, as that of names in a directory.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use namegate_core::name::reading::{
    Encoding, EncodingCounts, EncodingGuess, EncodingSample, GuessReader, has_stray_bytes,
};
use namegate_core::name::utf8::{Malformation, ill_formed};
use namegate_core::policy::Confidence;
use namegate_findings::split::MAX_PARTS;
use namegate_findings::unmarked::UnmarkedReading;

/// The encoding of names in an archive that are not marked as UTF-8. The bytes 00..7F are ASCII in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberEncoding {
    /// It is guessed.
    #[default]
    Auto,
    Legacy(Encoding),
    /// None: the bytes are the name.
    Utf8,
}

/// The error for an unknown encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownEncoding;

impl fmt::Display for UnknownEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected auto, utf-8, an OEM code page such as cp437 or cp850, or an encoding such as shift_jis",
        )
    }
}

impl std::error::Error for UnknownEncoding {}

impl FromStr for MemberEncoding {
    type Err = UnknownEncoding;

    fn from_str(label: &str) -> Result<Self, UnknownEncoding> {
        match &label.to_ascii_lowercase()[..] {
            "auto" => Ok(Self::Auto),
            "utf-8" | "utf8" => Ok(Self::Utf8),
            _ => label.parse().map(Self::Legacy).map_err(|_| UnknownEncoding),
        }
    }
}

const UTF8: &str = "UTF-8";

/// The distinct names of an archive that are neither ASCII nor marked as UTF-8; some of them if they are many.
#[derive(Debug, Default)]
pub(super) struct NameEvidence {
    sample: EncodingSample,
    /// Names that are UTF-8: so many that more would not change what is made of them.
    utf8: Vec<Box<str>>,
}

impl NameEvidence {
    /// Sequences of several bytes in names that are UTF-8 from which it is likely that they are meant so. Two bytes of GBK are one by
    /// chance more often than one time in ten; text in another encoding rarely is (RFC 3629, section 1).
    const TELLING_SEQUENCES: usize = 2;

    /// Adds the names of a path.
    pub(super) fn add(&mut self, path: &[u8]) {
        for name in path.split(|&b| b == b'/').take(MAX_PARTS).filter(|name| !name.is_ascii()) {
            match std::str::from_utf8(name) {
                Err(_) => self.sample.add_form(name),
                Ok(name)
                    if self.has_telling_sequences() || self.utf8.iter().any(|known| **known == *name) => {}
                Ok(name) => self.utf8.push(name.into()),
            }
        }
    }

    fn has_telling_sequences(&self) -> bool {
        let sequences = self.utf8.iter().flat_map(|name| name.chars()).filter(|c| !c.is_ascii());
        sequences.count() >= Self::TELLING_SEQUENCES
    }

    pub(super) fn guess(self) -> UnmarkedGuess {
        let utf8 = if self.has_telling_sequences() { Confidence::Likely } else { Confidence::Guess };
        let legacy = EncodingGuess::for_sample(&self.sample, &EncodingCounts::default());
        let votes = legacy.as_ref().map(|guess| self.votes(&mut guess.reader())).unwrap_or_default();
        UnmarkedGuess { utf8, legacy, common: common_encoding(&votes), votes, declared: None }
    }

    /// The encodings in which names are likely.
    fn votes(&self, reader: &mut GuessReader<'_>) -> Vec<Vote> {
        /// Names that are read to find them: more do not change them.
        const MOST_READ: usize = 512;
        let mut votes: Vec<Vote> = Vec::new();
        for name in self.sample.names().take(MOST_READ) {
            let Some(reading) = reader.read(name).filter(|reading| reading.is_likely) else { continue };
            let Some(encoding) = reading.explanation.encoding() else { continue };
            let bytes = name.iter().filter(|byte| !byte.is_ascii()).count();
            match votes.iter_mut().find(|vote| vote.encoding == encoding) {
                Some(vote) => (vote.names, vote.bytes) = (vote.names + 1, vote.bytes + bytes),
                None => votes.push(Vote { encoding, names: 1, bytes }),
            }
        }
        votes
    }
}

/// An encoding in which names of an archive are likely.
#[derive(Debug)]
struct Vote {
    encoding: Encoding,
    /// The number of names.
    names: usize,
    /// The number of their bytes beyond ASCII: a name of few is likely in many encodings.
    bytes: usize,
}

/// The encoding of nearly all names that show one, if these are enough: one program wrote all names of most archives.
fn common_encoding(votes: &[Vote]) -> Option<Encoding> {
    const ENOUGH_NAMES: usize = 3;
    let all: usize = votes.iter().map(|vote| vote.bytes).sum();
    let most = votes.iter().max_by_key(|vote| vote.bytes)?;
    (most.names >= ENOUGH_NAMES && most.bytes * 5 >= all * 4).then_some(most.encoding)
}

/// What the names of an archive are guessed to be.
#[derive(Debug)]
pub(super) struct UnmarkedGuess {
    /// How certain it is that names are UTF-8 that can be.
    utf8: Confidence,
    legacy: Option<EncodingGuess>,
    votes: Vec<Vote>,
    /// [`common_encoding`].
    common: Option<Encoding>,
    /// The encoding that the format declares, for names that nothing else explains.
    declared: Option<Encoding>,
}

impl UnmarkedGuess {
    /// For names of a zip, which declares code page 437.
    #[must_use]
    pub(super) fn of_zip(self) -> Self {
        Self { declared: "cp437".parse().ok(), ..self }
    }

    /// Reports whether a reading that is likely by itself is not contradicted by the other names.
    fn supports(&self, encoding: Encoding) -> bool {
        let has_company = |vote: &Vote| vote.encoding == encoding && vote.names > 1;
        self.common.is_none_or(|common| common == encoding) || self.votes.iter().any(has_company)
    }

    /// The text of a name that shows no encoding by itself, in that of the others.
    fn read_as_others(&self, name: &[u8]) -> Option<(String, &'static str)> {
        let common = self.common?;
        common.read(name).map(|text| (text, common.name()))
    }
}

/// How many members were read in which encodings, and how certain each is.
pub(super) type ReadingCounts = BTreeMap<(&'static str, Confidence), u64>;

/// The readings of `counts`, the most frequent first.
pub(super) fn readings(counts: ReadingCounts) -> Vec<UnmarkedReading> {
    let reading = |((encoding, confidence), members): ((&'static str, _), _)| UnmarkedReading {
        encoding: encoding.into(),
        confidence,
        members,
    };
    let mut readings: Vec<_> = counts.into_iter().map(reading).collect();
    readings.sort_by_key(|reading| Reverse(reading.members));
    readings
}

/// Decodes names that are not marked as UTF-8.
pub(super) enum UnmarkedReader<'g> {
    /// In the encoding that the user chose.
    Given(Option<Encoding>),
    /// In those that were guessed.
    Guessed(&'g UnmarkedGuess, Option<GuessReader<'g>>),
}

impl<'g> UnmarkedReader<'g> {
    pub(super) fn for_guess(guess: &'g UnmarkedGuess) -> Self {
        Self::Guessed(guess, guess.legacy.as_ref().map(EncodingGuess::reader))
    }

    /// Decodes the names of a path, and counts it. Names that cannot be decoded stay what they are.
    pub(super) fn read<'n>(&mut self, path: &'n [u8], counts: &mut ReadingCounts) -> Cow<'n, [u8]> {
        if path.is_ascii() {
            return Cow::Borrowed(path);
        }
        let mut decoded = Vec::with_capacity(2 * path.len());
        let mut counted: Option<(Confidence, &'static str)> = None;
        for (at, name) in path.split(|&b| b == b'/').enumerate() {
            if at > 0 {
                decoded.push(b'/');
            }
            match if name.is_ascii() { None } else { self.decode(name) } {
                None => decoded.extend_from_slice(name),
                Some((text, encoding, confidence)) => {
                    decoded.extend_from_slice(text.as_bytes());
                    // A path is as certain as its least certain name.
                    if counted.is_none_or(|(least, _)| confidence >= least) {
                        counted = Some((confidence, encoding));
                    }
                }
            }
        }
        if let Some((confidence, encoding)) = counted {
            *counts.entry((encoding, confidence)).or_default() += 1;
        }
        Cow::Owned(decoded)
    }

    /// The text of a name, its encoding, and how certain that is.
    fn decode<'n>(&mut self, name: &'n [u8]) -> Option<(Cow<'n, str>, &'static str, Confidence)> {
        let utf8 = std::str::from_utf8(name).ok();
        match self {
            Self::Given(None) => utf8.map(|text| (text.into(), UTF8, Confidence::Certain)),
            Self::Given(Some(encoding)) => {
                encoding.read(name).map(|text| (text.into(), encoding.name(), Confidence::Certain))
            }
            Self::Guessed(guess, reader) => {
                if let Some(text) =
                    utf8.filter(|_| guess.utf8 == Confidence::Likely || guess.common.is_none())
                {
                    return Some((text.into(), UTF8, guess.utf8));
                }
                // What may be an attack is text only if it is more than that.
                if !has_stray_bytes(name) && hides_syntax(name) {
                    return None;
                }
                // Damaged UTF-8 stays as it is, and is reported.
                let reading = reader.as_mut().filter(|_| utf8.is_none()).and_then(|reader| reader.read(name));
                let reading = reading.and_then(|reading| {
                    Some((reading.text, reading.explanation.encoding()?, reading.is_likely))
                });
                if let Some((text, encoding, true)) = &reading
                    && guess.supports(*encoding)
                {
                    return Some((text.clone().into(), encoding.name(), Confidence::Likely));
                }
                if let Some((text, encoding)) = guess.read_as_others(name) {
                    let is_contradicted = reading.is_some_and(|(own, ..)| own != text);
                    let confidence = if is_contradicted { Confidence::Guess } else { Confidence::Likely };
                    return Some((text.into(), encoding, confidence));
                }
                if let Some(text) = utf8 {
                    return Some((text.into(), UTF8, guess.utf8));
                }
                // A name of overlong forms alone is no evidence of an encoding.
                if !has_stray_bytes(name) {
                    return None;
                }
                let declared = guess.declared.and_then(|of| Some((of.read(name)?, of.name())));
                let is_likely = reading.as_ref().is_some_and(|(.., is_likely)| *is_likely);
                let guessed = reading.map(|(text, encoding, _)| (text, encoding.name()));
                let (text, encoding) = match declared {
                    Some(declared) if !is_likely && is_western(&declared.0) => declared,
                    declared => guessed.or(declared)?,
                };
                // Likely by itself, but the others contradict it.
                Some((text.into(), encoding, Confidence::Guess))
            }
        }
    }
}

/// Reports whether `text` has letters beyond ASCII as Western words have them: beside a letter of ASCII.
fn is_western(text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    let is_plain = |at: usize| chars.get(at).is_some_and(char::is_ascii_alphabetic);
    let has_place = |(at, c): (usize, &char)| {
        c.is_ascii() || c.is_alphabetic() && (is_plain(at + 1) || at > 0 && is_plain(at - 1))
    };
    chars.iter().enumerate().all(has_place)
}

/// Reports whether a name has an overlong form of NUL, `/` or `.`.
fn hides_syntax(name: &[u8]) -> bool {
    use Malformation::{NulSmuggling, SeparatorSmuggling};
    ill_formed(name).any(|found| matches!(found.kind, NulSmuggling | SeparatorSmuggling))
}

/// The names of a tar that are not UTF-8.
pub(super) struct TarNames {
    /// Reads them in the encoding that the user chose.
    given: Option<UnmarkedReader<'static>>,
    evidence: NameEvidence,
    /// Their paths, for the report; some of them if they are many.
    paths: Vec<Box<[u8]>>,
    size: usize,
    /// The number of the others.
    more: u64,
}

impl TarNames {
    pub(super) fn new(encoding: MemberEncoding) -> Self {
        let given = match encoding {
            MemberEncoding::Legacy(encoding) => Some(UnmarkedReader::Given(Some(encoding))),
            MemberEncoding::Utf8 => Some(UnmarkedReader::Given(None)),
            MemberEncoding::Auto => None,
        };
        Self { given, evidence: NameEvidence::default(), paths: Vec::new(), size: 0, more: 0 }
    }

    /// Reads a path, and counts it, if the user chose an encoding. Otherwise it stays what it is, because programs unpack it so, and is
    /// evidence.
    pub(super) fn read<'n>(&mut self, path: &'n [u8], counts: &mut ReadingCounts) -> Cow<'n, [u8]> {
        /// Bytes of paths that are kept.
        const MOST_KEPT: usize = 4 << 20;
        if std::str::from_utf8(path).is_ok() {
            return Cow::Borrowed(path);
        }
        if let Some(reader) = &mut self.given {
            return reader.read(path, counts);
        }
        self.evidence.add(path);
        if self.size < MOST_KEPT {
            self.size += path.len() + size_of::<Box<[u8]>>();
            self.paths.push(path.into());
        } else {
            self.more += 1;
        }
        Cow::Borrowed(path)
    }

    /// Counts the paths that were not read by the encodings that they show together, and returns these.
    pub(super) fn guess(self, counts: &mut ReadingCounts) -> Option<EncodingGuess> {
        let guess = self.evidence.guess();
        let mut reader = UnmarkedReader::for_guess(&guess);
        self.paths.iter().for_each(|path| drop(reader.read(path, counts)));
        if let Some(most) = counts.values_mut().max() {
            *most += self.more;
        }
        guess.legacy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes `paths` in `encoding`, and counts them by encoding.
    fn read(encoding: &str, paths: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<(String, &'static str, u64)>) {
        let mut evidence = NameEvidence::default();
        paths.iter().for_each(|path| evidence.add(path));
        let guess = evidence.guess().of_zip();
        let mut reader = match encoding.parse().unwrap() {
            MemberEncoding::Auto => UnmarkedReader::for_guess(&guess),
            MemberEncoding::Legacy(encoding) => UnmarkedReader::Given(Some(encoding)),
            MemberEncoding::Utf8 => UnmarkedReader::Given(None),
        };
        let mut counts = ReadingCounts::new();
        let names = paths.iter().map(|path| reader.read(path, &mut counts).into_owned()).collect();
        let counts = readings(counts).into_iter();
        (names, counts.map(|of| (of.encoding.into_owned(), of.confidence.as_str(), of.members)).collect())
    }

    #[test]
    fn names_are_decoded_in_the_given_encoding() {
        let cases: [(&str, &[u8], &[u8]); 7] = [
            ("cp437", b"caf\x82", "café".as_bytes()),
            ("IBM850", b"\xD5", "ı".as_bytes()),
            ("shift_jis", b"\x93\xFA", "日".as_bytes()),
            ("utf-8", b"caf\xE9", b"caf\xE9"),
            ("cp437", b"plain\0", b"plain\0"),
            ("shift_jis", b"\xFF", b"\xFF"),
            ("shift_jis", b"\xFF/\x93\xFA/", b"\xFF/\xE6\x97\xA5/"),
        ];
        for (label, bytes, name) in cases {
            assert_eq!(read(label, &[bytes]).0, [name], "{label}");
        }
        assert_eq!("nothing".parse::<MemberEncoding>(), Err(UnknownEncoding));
    }

    #[test]
    fn names_are_utf8_if_they_can_be_and_a_single_letter_proves_little() {
        let of =
            |paths: &[&str]| read("auto", &paths.iter().map(|path| path.as_bytes()).collect::<Vec<_>>()).1;
        let read_as = |confidence, members| vec![("UTF-8".to_owned(), confidence, members)];
        assert_eq!(of(&["plain", "dir/"]), []);
        assert_eq!(of(&["caf\u{E9}"]), read_as("guess", 1));
        assert_eq!(of(&["caf\u{E9}/", "caf\u{E9}/a", "caf\u{E9}/b"]), read_as("guess", 3), "one name");
        assert_eq!(of(&["caf\u{E9}/", "caf\u{E9}/\u{E0}"]), read_as("likely", 2));
        assert_eq!(of(&["日本"]), read_as("likely", 1));
        let overlong = b"..\xC0\xAFetc";
        assert_eq!(read("auto", &[overlong]), (vec![overlong.to_vec()], vec![]), "it may be an attack");
    }

    #[test]
    fn a_name_that_shows_no_encoding_is_read_as_the_others_are() {
        // 照片, 雨中, 童心, 拥抱艳阳天, then 来, an overlong form of `4`, and 模, which is ģ in UTF-8.
        let gbk: [&[u8]; 4] = [
            b"\xD5\xD5\xC6\xAC",
            b"\xD3\xEA\xD6\xD0",
            b"\xCD\xAF\xD0\xC4",
            b"\xD3\xB5\xB1\xA7\xD1\xDE\xD1\xF4\xCC\xEC",
        ];
        let unclear: [&[u8]; 2] = [b"\xC0\xB4.txt", b"\xC4\xA3.txt"];
        let (names, counts) = read("auto", &[&gbk[..], &unclear].concat());
        assert_eq!(counts, [("GBK".to_owned(), "likely", 6)]);
        assert_eq!(names[4..], ["来.txt", "模.txt"].map(|name| name.as_bytes().to_vec()));
        // `привет` in windows-1251 is text in GBK, too.
        let (_, counts) = read("auto", &[&gbk[..], &[b"\xEF\xF0\xE8\xE2\xE5\xF2"]].concat());
        assert_eq!(counts, [("GBK".to_owned(), "likely", 4), ("GBK".to_owned(), "guess", 1)], "contradicted");
        let smuggled: &[u8] = b"\xC0\xAE\xC0\xAE";
        assert_eq!(read("auto", &[&gbk[..], &[smuggled]].concat()).0[4], smuggled, "it may be an attack");
        assert_eq!(read("auto", &unclear).0[1], "ģ.txt".as_bytes());
    }

    #[test]
    fn a_single_western_name_is_in_the_encoding_that_the_format_declares() {
        let of = |name: &[u8]| read("auto", &[name]);
        assert_eq!(
            of(b"with_\x91o\x86.txt"),
            (vec!["with_æoå.txt".into()], vec![("cp437".into(), "guess", 1)])
        );
        assert_eq!(of(b"\xA2\xA0\xA7.txt").0, ["ваз.txt".as_bytes()]);
        assert_eq!(of(b"\xD2\xD0.txt").1[0].1, "guess");
    }

    #[test]
    fn a_directory_is_evidence_once_and_its_files_are_read_as_it_is() {
        let dir = b"\xD5\xD5\xC6\xAC/";
        let mut paths = vec![dir.to_vec()];
        paths.extend((0..50).map(|n| [&dir[..], format!("{n}.jpg").as_bytes()].concat()));
        let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        let (names, counts) = read("auto", &paths);
        assert_eq!((counts[0].1, counts[0].2), ("guess", 51), "{counts:?}");
        assert!(names.iter().all(|name| name.starts_with(&names[0])), "{names:?}");
    }
}
