//! Explains a name byte by byte, for a person who wants to know why it is refused.
//!
//! [`Explanation::new`] collects everything that the program knows about one byte string: the structure of its octets by
//! ISO/IEC 10646-1 Annex R, the verdict of RFC 3629 on each sequence, names and properties of its code points, normalization
//! forms, likely readings in legacy encodings, and the profiles that object. [`text`] writes it. This module opens no
//! file and decides nothing; the policy does.

mod code_point;
mod objection;
mod summary;
pub mod text;

use namegate_core::name::display::display;
use namegate_core::name::normalize::{Form, first_difference, to_form};
use namegate_core::name::scalar::UNICODE_VERSION;
use namegate_core::name::ucs4::{self, Octet};
use namegate_core::name::utf8::{self, IllFormed, Malformation};
use namegate_core::name::{Span, reading};
use namegate_core::policy::profile::{PORTABLE, Profile, SECURITY, STRICT};
use namegate_core::policy::rule::RuleId;
use namegate_files::json::Hex;
use serde::Serialize;

pub use code_point::{CodePoint, Properties};
pub use objection::ExplainedViolation;

/// The default profiles: for names that are wrong in general, names that deceive, and names that are not
/// portable. Rules of a single storage format, such as ISO 9660, apply only on request.
pub static DEFAULT_PROFILES: &[&Profile] = &[&STRICT, &SECURITY, &PORTABLE];

/// Maximum number of bytes that are explained. No file system of Linux stores a longer name (NAME_MAX is 255,
/// and at most 1023 for ZFS), but the command line can have one.
pub const MAX_EXPLAINED: usize = 4096;

/// The explanation of one name.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The name, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// All bytes of the name in hexadecimal.
    pub name_hex: Hex,
    /// The name, escaped for display.
    pub display: String,
    /// Length in bytes.
    pub bytes: usize,
    /// Whether RFC 3629 accepts it.
    pub is_utf8: bool,
    /// A summary of the errors, in a sentence.
    pub summary: String,
    /// How many octets have a row, if not all: those of the sequences that begin within [`MAX_EXPLAINED`] bytes. Violations
    /// stop there, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained_bytes: Option<usize>,
    /// Number of ill-formed sequences in the whole name.
    pub ill_formed_sequences: usize,
    /// One row per octet.
    pub octets: Vec<OctetRow>,
    /// One row per code point or ill-formed sequence.
    pub sequences: Vec<SequenceRow>,
    /// The four normalization forms; empty if the name is not UTF-8 or longer than [`MAX_EXPLAINED`].
    pub forms: Vec<FormRow>,
    /// The name in legacy encodings, the likeliest first; empty if it is UTF-8.
    pub readings: Vec<ReadingRow>,
    /// The profiles that the name was checked against.
    pub profiles: Vec<&'static str>,
    /// The rules that the name breaks, and the profiles that object.
    pub objections: Vec<ExplainedViolation>,
    pub unicode_version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OctetRow {
    /// Its offset, from 0.
    pub offset: usize,
    /// Two hexadecimal digits.
    pub hex: String,
    /// The bits from the top that mark its role, such as `110`.
    pub marker_bits: String,
    /// The other bits, which carry the value, such as `00011`; empty for `FE` and `FF`.
    pub value_bits: String,
    /// Its role in its sequence.
    #[serde(flatten)]
    pub role: Role,
    /// The UCS-4 value of the sequence that begins here, by Annex R, as eight hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ucs4: Option<String>,
    /// Index in `sequences` of its sequence.
    pub sequence: usize,
}

/// The role of an octet in the structure of Annex R.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "role", rename_all = "kebab-case")]
pub enum Role {
    /// A sequence of its own.
    Single,
    /// The first of `of` octets.
    Lead {
        /// Length of the sequence that it announces, in octets.
        of: usize,
    },
    /// A continuation octet where one is expected.
    Continuation {
        /// Which one, from 1.
        index: usize,
        /// How many the lead octet announces.
        of: usize,
    },
    /// A stray continuation octet.
    UnexpectedContinuation,
    /// `FE` or `FF`.
    Invalid,
}

/// One code point, or one ill-formed sequence.
#[derive(Clone, Debug, Serialize)]
pub struct SequenceRow {
    /// First byte.
    pub start: usize,
    /// After the last byte.
    pub end: usize,
    /// Number of octets that the sequence has or, if truncated, should have; `None` if no sequence can begin here.
    pub expected_octets: Option<usize>,
    /// The UCS-4 value by Annex R, as eight hexadecimal digits; for a surrogate pair, the scalar value that it encodes.
    pub ucs4: Option<String>,
    /// Whether RFC 3629 accepts it.
    pub well_formed: bool,
    /// The encoding rule that it breaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malformation: Option<&'static str>,
    /// The class of malformed sequences in Annex R.7, 1 to 3. `None` also for sequences that only RFC 3629 forbids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annex_r7_class: Option<u8>,
    /// The code point that is encoded, or that an ill-formed sequence was meant to encode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code_point: Option<CodePoint>,
}

#[derive(Clone, Debug, Serialize)]
pub struct FormRow {
    /// `NFC`, `NFD`, `NFKC` or `NFKD`.
    pub form: String,
    /// Whether the name is in it.
    pub is_in_form: bool,
    /// How it differs, if it does.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

/// The difference between a name and one of its normalization forms.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    /// The name in the form.
    pub text: String,
    /// All its code points, such as `U+0063`.
    pub code_points: Vec<String>,
    /// Each place that is not in the form, in order.
    pub changes: Vec<Change>,
}

/// One place of a name that is different in a normalization form.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// The first byte of the place, in the name as given.
    pub start: usize,
    /// After its last byte.
    pub end: usize,
    /// The code points there, such as `U+0063`.
    pub was: Vec<String>,
    /// The code points in the form.
    pub becomes: Vec<String>,
}

/// The name read in another encoding.
#[derive(Clone, Debug, Serialize)]
pub struct ReadingRow {
    /// The name of the encoding in the WHATWG Encoding Standard.
    pub encoding: String,
    pub text: String,
}

impl Explanation {
    /// Explains `name`, which can be any bytes.
    ///
    /// ```
    /// use namegate::explain::{Explanation, Role};
    /// let it = Explanation::new(b"caf\xE9", namegate::explain::DEFAULT_PROFILES);
    /// assert!(!it.is_utf8);
    /// assert_eq!(it.octets[3].marker_bits, "1110");
    /// assert_eq!(it.octets[3].role, Role::Lead { of: 3 });
    /// assert_eq!(it.sequences[3].malformation, Some("truncated"));
    /// assert_eq!(it.sequences[3].annex_r7_class, Some(1));
    /// ```
    pub fn new(name: &[u8], profiles: &[&'static Profile]) -> Self {
        let text = std::str::from_utf8(name).ok();
        let mut rows = Rows::default();
        rows.read(name);
        Self {
            name: text.map(str::to_owned),
            name_hex: Hex(name.to_vec()),
            display: display(name).to_string(),
            bytes: name.len(),
            is_utf8: text.is_some(),
            summary: summary::summary(name),
            explained_bytes: (rows.octets.len() < name.len()).then_some(rows.octets.len()),
            ill_formed_sequences: utf8::ill_formed(name).count(),
            octets: rows.octets,
            sequences: rows.sequences,
            forms: text.filter(|t| t.len() <= MAX_EXPLAINED).map(forms).unwrap_or_default(),
            readings: if text.is_some() { Vec::new() } else { readings(name) },
            profiles: profiles.iter().map(|profile| profile.name).collect(),
            objections: objection::objections(name, profiles),
            unicode_version: unicode_version(),
        }
    }
}

/// The version of the Unicode data, such as `17.0.0`.
pub fn unicode_version() -> String {
    let (major, minor, update) = UNICODE_VERSION;
    format!("{major}.{minor}.{update}")
}

#[derive(Default)]
struct Rows {
    octets: Vec<OctetRow>,
    sequences: Vec<SequenceRow>,
}

impl Rows {
    fn read(&mut self, name: &[u8]) {
        let mut bad = utf8::ill_formed(name).peekable();
        let mut at = 0;
        while at < name.len().min(MAX_EXPLAINED) {
            at = match bad.next_if(|found| found.span.start == at) {
                Some(found) => self.push_ill_formed(name, found),
                None => self.push_well_formed(name, at),
            };
        }
    }

    fn push_well_formed(&mut self, name: &[u8], at: usize) -> usize {
        let (value, len) = ucs4::decode(&name[at..]).expect("UTF-8 has the structure of Annex R");
        self.push_octets(name, Span::new(at, at + len));
        self.sequences.push(SequenceRow {
            start: at,
            end: at + len,
            expected_octets: Some(len),
            ucs4: Some(ucs4(value)),
            well_formed: true,
            malformation: None,
            annex_r7_class: None,
            code_point: CodePoint::from_value(value),
        });
        at + len
    }

    fn push_ill_formed(&mut self, name: &[u8], found: IllFormed) -> usize {
        let Span { start, end } = found.span;
        match found.kind {
            // A run of stray octets can be as long as the name.
            Malformation::UnexpectedContinuation => {
                (start..end.min(MAX_EXPLAINED)).for_each(|at| self.push_octets(name, Span::new(at, at + 1)));
            }
            Malformation::SurrogatePair => {
                self.push_octets(name, Span::new(start, start + 3));
                self.push_octets(name, Span::new(start + 3, end));
            }
            _ => self.push_octets(name, found.span),
        }
        self.sequences.push(SequenceRow {
            start,
            end,
            expected_octets: match found.kind {
                Malformation::SurrogatePair => Some(found.span.len()),
                _ => Octet::classify(name[start]).sequence_len(),
            },
            ucs4: found.value.map(ucs4),
            well_formed: false,
            malformation: Some(RuleId::from(found.kind).name()),
            annex_r7_class: annex_r7_class(found.kind),
            code_point: found.value.and_then(CodePoint::from_value),
        });
        end
    }

    /// Adds the octets of one sequence of Annex R, or of the beginning of one.
    fn push_octets(&mut self, name: &[u8], span: Span) {
        let bytes = span.slice(name);
        let lead = Octet::classify(bytes[0]);
        for (index, &byte) in bytes.iter().enumerate() {
            let octet = Octet::classify(byte);
            let role = match (octet, lead) {
                (Octet::Single, _) => Role::Single,
                (Octet::Lead(of), _) => Role::Lead { of: of.into() },
                (Octet::Continuation, Octet::Lead(of)) => {
                    Role::Continuation { index, of: usize::from(of) - 1 }
                }
                (Octet::Continuation, _) => Role::UnexpectedContinuation,
                (Octet::Invalid, _) => Role::Invalid,
            };
            let bits = format!("{byte:08b}");
            let (marker_bits, value_bits) = bits.split_at(octet.free_bits().leading_zeros() as usize);
            self.octets.push(OctetRow {
                offset: span.start + index,
                hex: format!("{byte:02X}"),
                marker_bits: marker_bits.into(),
                value_bits: value_bits.into(),
                role,
                ucs4: ucs4::decode(bytes).filter(|_| index == 0).map(|(value, _)| ucs4(value)),
                sequence: self.sequences.len(),
            });
        }
    }
}

fn ucs4(value: u32) -> String {
    format!("{value:08X}")
}

/// Overlong forms, surrogates and values above U+10FFFF are malformed in RFC 3629 but not in Annex R.
fn annex_r7_class(kind: Malformation) -> Option<u8> {
    match kind {
        Malformation::Truncated => Some(1),
        Malformation::UnexpectedContinuation => Some(2),
        Malformation::InvalidOctet => Some(3),
        _ => None,
    }
}

fn forms(text: &str) -> Vec<FormRow> {
    let row = |form: Form| {
        let changes: Vec<Change> = changes(text, form).collect();
        let difference = (!changes.is_empty()).then(|| {
            let whole = to_form(text, form);
            Difference { code_points: code_points(&whole), text: whole.into_owned(), changes }
        });
        FormRow { form: form.to_string().to_uppercase(), is_in_form: difference.is_none(), difference }
    };
    Form::ALL.into_iter().map(row).collect()
}

/// The places where `text` is not in `form`. Each place includes everything that its change depends on, so the text after it
/// can be examined separately.
fn changes(text: &str, form: Form) -> impl Iterator<Item = Change> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let found = first_difference(&text[at..], form)?;
        let (start, end) = (at + found.start, at + found.end);
        let was = &text[start..end];
        at = end;
        Some(Change { start, end, was: code_points(was), becomes: code_points(&to_form(was, form)) })
    })
}

fn code_points(text: &str) -> Vec<String> {
    text.chars().map(|c| format!("U+{:04X}", u32::from(c))).collect()
}

/// Guessing needs only the beginning, and every guess is as long as the text that it reads.
fn readings(name: &[u8]) -> Vec<ReadingRow> {
    let part = &name[..name.len().min(MAX_EXPLAINED)];
    // A reading that follows from the structure is not a guess, and guesses next to it would only confuse.
    if let Some(text) = reading::structural(part) {
        return vec![ReadingRow { encoding: "CESU-8".to_owned(), text }];
    }
    let readings = reading::likeliest(part).into_iter();
    readings.map(|(encoding, text)| ReadingRow { encoding: encoding.to_string(), text }).collect()
}
