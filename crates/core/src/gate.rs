//! A gate admits or refuses names, and decides under which name an entry is stored.
//!
//! Code that passes names to a backing directory requires an [`Admitted`], and only a gate makes one: an operation that forgets
//! the gate does not compile. The gate returns *why* a name is refused; its caller translates that into an errno, a log record
//! or a response.
//!
//! If the policy converts or matches, or the gate ignores case, one entry has many spellings. They all have the same *key*: the
//! spelling in the policy's form, with its case folded. A lookup tries in this order: [`Admitted::as_bytes`], so that an entry with
//! exactly this name stays reachable,
//! whatever its form; [`Admitted::key_bytes`], under which a converting gate stored the entry; and any entry of the directory
//! whose [`Gate::key_bytes`] is that key. The last step needs only the entries that are not stored under their key.
//!
//! A gate that encodes works on stored names: what a client gives is encoded before anything else, and what is shown is decoded. So policy,
//! normalization, keys and spellings never see a client's name.
//!
//! Names are bytes, as they are for the kernel. On Unix there are also methods for names as [`OsStr`](std::ffi::OsStr): [`Gate::admit`], [`Gate::key`], [`Gate::show`].

mod encoding;
mod equivalence;
#[cfg(unix)]
mod os;
mod refusal;

use std::borrow::Cow;
use std::sync::Arc;

pub use encoding::EncodingConflict;
use encoding::NameEncoder;
pub use equivalence::{IgnoreCase, NameEquality};

use crate::name::casefold;
use crate::name::escape::{
    escape_within, escape_within_with, is_escaped, is_shortened, reads_as_escape, unescape,
};
use crate::name::substitutes::KnownMap;
use crate::name::{Span, misread, utf8};
use crate::policy::rule::RuleId;
use crate::policy::{Policy, Verdict, Violation};
#[cfg(unix)]
pub use os::Shown;
pub use refusal::Refusal;

/// The longest name that Linux file systems store, in bytes (`NAME_MAX`, limits.h).
pub const NAME_MAX: usize = 255;

/// What a name is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// The name is new in a directory: create, mkdir, mknod, symlink, link, the new name of a rename.
    Create,
    /// The name is that of an existing entry: lookup, unlink, rmdir, the old name of a rename, both names of an exchange.
    Address,
}

/// What happens to a name that breaks the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The gate refuses it.
    Enforcing,
    /// The gate admits it and reports the violation ([`Admitted::noted`]).
    Permissive,
    /// The gate stores characters that the policy refuses as substitutes and shows them again: a client lists what it wrote. It refuses
    /// what is invalid even so, and shows existing names that it would store otherwise escaped ([`escape`](crate::name::escape)).
    Encoding,
}

/// How the gate shows existing names that are not UTF-8. A permissive gate shows them unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Existing {
    /// Shows escaped names ([`escape`](crate::name::escape)), by which entries are addressed. New names that look escaped are refused.
    #[default]
    Escape,
    /// Shows names unchanged.
    Show,
    /// Hides the entries.
    Hide,
}

/// Admits or refuses names under one policy in one mode. Cloning is cheap; a new policy needs a new gate.
#[derive(Clone, Debug)]
pub struct Gate {
    policy: Arc<Policy>,
    mode: Mode,
    existing: Existing,
    substitutes: KnownMap,
    /// Set if the gate encodes and has something to encode.
    encoder: Option<NameEncoder>,
    ignore_case: Option<IgnoreCase>,
}

/// A name that a gate has admitted. Only a gate makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted<'n> {
    name: Cow<'n, [u8]>,
    /// The key, if it differs from the name.
    key: Option<Vec<u8>>,
    noted: Option<Violation>,
}

impl Gate {
    /// A gate for `policy`, which shows existing names that are not UTF-8 escaped.
    pub fn new(policy: Arc<Policy>, mode: Mode) -> Self {
        let gate = Self {
            policy,
            mode,
            existing: Existing::default(),
            substitutes: KnownMap::TO_RCLONE,
            encoder: None,
            ignore_case: None,
        };
        gate.with_mode(mode)
    }

    /// Changes how the gate shows existing names that are not UTF-8.
    #[must_use]
    pub fn with_existing(self, existing: Existing) -> Self {
        Self { existing, ..self }
    }

    /// Changes which names are equal but for case.
    #[must_use]
    pub fn with_ignore_case(self, ignore_case: Option<IgnoreCase>) -> Self {
        Self { ignore_case, ..self }
    }

    /// Changes the mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        let gate = Self { mode, ..self };
        Self { encoder: gate.find_encoder().ok().flatten(), ..gate }
    }

    /// Changes the table of the substitutes that a gate in [`Mode::Encoding`] stores.
    #[must_use]
    pub fn with_substitutes(self, substitutes: KnownMap) -> Self {
        let mode = self.mode;
        Self { substitutes, ..self }.with_mode(mode)
    }

    /// How the gate shows existing names that are not UTF-8.
    pub fn existing(&self) -> Existing {
        match self.mode {
            Mode::Enforcing | Mode::Encoding => self.existing,
            // Names that it admitted must be shown as they were given.
            Mode::Permissive => Existing::Show,
        }
    }

    /// The policy of the gate.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The mode of the gate.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Admits `name`, or returns why it is refused.
    ///
    /// A new name ([`Intent::Create`]) must satisfy the policy; if the policy converts, it is admitted in the form. The name
    /// of an existing entry ([`Intent::Address`]) must only be a name that an entry can have; names that are not UTF-8 are
    /// admitted as [`Existing`] says. A name that is longer than [`NAME_MAX`] is admitted only to address an entry, and only
    /// if it has other spellings: as its key, if that is short enough. In [`Mode::Permissive`] a violation is reported, and the
    /// name is admitted unchanged if a file system can store it. In [`Mode::Encoding`] a name is encoded first, and its violation is
    /// reported if the encoded name has none.
    ///
    /// # Errors
    /// [`Refusal`] says which violation, or how long the name is.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use namegate_core::gate::{Gate, Intent, Mode, Refusal};
    /// use namegate_core::policy::{Policy, profile};
    ///
    /// let gate = Gate::new(Arc::new(Policy::from_profiles(&[profile::by_name("utf8")?])), Mode::Enforcing);
    /// assert_eq!(gate.admit_bytes(Intent::Create, b"cafe")?.as_bytes(), b"cafe");
    /// let latin1 = b"caf\xE9";
    /// assert!(matches!(gate.admit_bytes(Intent::Create, latin1), Err(Refusal::Violates(v)) if v.span.start == 3));
    /// assert!(matches!(gate.admit_bytes(Intent::Address, latin1), Err(Refusal::CannotExist(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn admit_bytes<'n>(&self, intent: Intent, name: &'n [u8]) -> Result<Admitted<'n>, Refusal> {
        let admitted = match intent {
            Intent::Create => self.admit_new(name)?,
            Intent::Address => self.admit_existing(name)?,
        };
        match admitted.name.len() {
            bytes if bytes <= NAME_MAX => Ok(admitted),
            _ if intent == Intent::Address && self.has_other_spellings_bytes(&admitted.name) => Ok(admitted),
            // A client may ask for it, and finds out when it creates the name.
            _ if intent == Intent::Address && name.len() <= NAME_MAX => {
                Err(Refusal::NotShown { bytes: name.len() })
            }
            bytes => Err(Refusal::TooLong { bytes, span: excess(name) }),
        }
    }

    /// The key of `name`, which all its spellings share: the spelling in the policy's form, with its case folded. The name itself if
    /// the policy neither converts nor matches and case matters, if the name is not UTF-8, or if no entry could have that spelling
    /// (NFKC converts U+FF0F
    /// to `/`). A key may be longer than [`NAME_MAX`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use namegate_core::gate::{Gate, Intent, Mode};
    /// use namegate_core::name::normalize::Form;
    /// use namegate_core::policy::{Normalization, OnMismatch, Policy};
    ///
    /// let normalization = Normalization { form: Form::Nfc, on_mismatch: OnMismatch::Match };
    /// let policy = Policy::builder().normalization(normalization).build()?;
    /// let gate = Gate::new(Arc::new(policy), Mode::Enforcing);
    /// let (given, composed) = ("e\u{301}".as_bytes(), "é".as_bytes());
    /// assert_eq!(gate.key_bytes(given), composed);
    /// let asked = gate.admit_bytes(Intent::Address, given)?;
    /// assert_eq!((asked.as_bytes(), asked.key_bytes()), (given, composed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key_bytes<'n>(&self, name: &'n [u8]) -> Cow<'n, [u8]> {
        self.other_key(name).map_or(Cow::Borrowed(name), Cow::Owned)
    }

    /// Whether an entry can have several spellings, because the policy converts or matches, or the gate ignores case.
    pub fn knows_spellings(&self) -> bool {
        self.equivalence() != NameEquality::default()
    }

    /// Whether another name may have the [key](Self::key_bytes) of `name`; `false` is certain. Reads no directory.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use namegate_core::gate::{Gate, Mode};
    /// use namegate_core::name::normalize::Form;
    /// use namegate_core::policy::{Normalization, OnMismatch, Policy};
    ///
    /// let normalization = Normalization { form: Form::Nfc, on_mismatch: OnMismatch::Match };
    /// let policy = Policy::builder().normalization(normalization).build()?;
    /// let gate = Gate::new(Arc::new(policy), Mode::Enforcing);
    /// assert!(gate.has_other_spellings_bytes("é".as_bytes()));
    /// assert!(!gate.has_other_spellings_bytes(b"e"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_other_spellings_bytes(&self, name: &[u8]) -> bool {
        let NameEquality { form, fold } = self.equivalence();
        std::str::from_utf8(name).is_ok_and(|name| casefold::has_other_spellings(name, form, fold))
    }

    /// The key of `name`, if it differs from the name. Allocates nothing otherwise.
    fn other_key(&self, name: &[u8]) -> Option<Vec<u8>> {
        let NameEquality { form, fold } = self.equivalence();
        if form.is_none() && fold.is_none() {
            return None;
        }
        match casefold::key(std::str::from_utf8(name).ok()?, form, fold) {
            Cow::Owned(key) => Some(key.into_bytes()).filter(|key| can_be_stored(key)),
            Cow::Borrowed(_) => None,
        }
    }

    /// Whether a valid name could be the escaped form of an existing one.
    fn reads_as_escape(&self, name: &str) -> bool {
        match self.encoder {
            // A name that is not canonical may have ASCII escaped.
            Some(_) => is_escaped(name) || is_shortened(name),
            None => self.existing() == Existing::Escape && reads_as_escape(name),
        }
    }

    fn admit_new<'n>(&self, name: &'n [u8]) -> Result<Admitted<'n>, Refusal> {
        let encoded = self.encoded_bytes(name);
        let is_escape = Err(Refusal::ReadsAsEscape { bytes: name.len() });
        match self.policy.verdict(&encoded) {
            Verdict::Accept(stored) if self.reads_as_escape(stored) => is_escape,
            Verdict::Rewrite(stored) if self.reads_as_escape(&stored) => is_escape,
            Verdict::Accept(_) => {
                let noted = self.violation_of(name, &encoded);
                Ok(self.as_stored(encoded, noted))
            }
            Verdict::Rewrite(stored) => {
                let noted = self.violation_of(name, &encoded);
                Ok(self.as_stored(Cow::Owned(stored.into_bytes()), noted))
            }
            Verdict::Reject(violation) if self.mode == Mode::Permissive && can_be_stored(name) => {
                Ok(self.as_stored(encoded, Some(violation)))
            }
            Verdict::Reject(violation) => Err(Refusal::Violates(self.in_given(name, violation))),
        }
    }

    fn admit_existing<'n>(&self, name: &'n [u8]) -> Result<Admitted<'n>, Refusal> {
        let admitted = match self.first_encoding_error(name) {
            None => self.admit_shown(name)?,
            Some(violation) if self.existing() == Existing::Show && can_be_stored(name) => {
                self.as_stored(Cow::Borrowed(name), Some(violation))
            }
            Some(violation) => return Err(Refusal::CannotExist(violation)),
        };
        Ok(match admitted {
            // No entry can have the name as given, but an entry can have the key.
            Admitted { name, key: Some(key), noted } if name.len() > NAME_MAX && key.len() <= NAME_MAX => {
                Admitted { name: Cow::Owned(key), key: None, noted }
            }
            _ => admitted,
        })
    }

    fn as_stored<'n>(&self, name: Cow<'n, [u8]>, noted: Option<Violation>) -> Admitted<'n> {
        let key = self.other_key(&name);
        Admitted { name, key, noted }
    }

    /// Admits a well-formed name, which may be the escaped form of an existing one.
    fn admit_shown<'n>(&self, name: &'n [u8]) -> Result<Admitted<'n>, Refusal> {
        let not_shown = Err(Refusal::NotShown { bytes: name.len() });
        let Ok(text) = std::str::from_utf8(name) else { return not_shown };
        if !self.reads_as_escape(text) {
            return Ok(self.as_stored(self.encoded_bytes(name), None));
        }
        let stored = unescape(text);
        // Only the form that is shown: `␦41␦E9` must not be a second name of `A␦E9`.
        match self.show_bytes(&stored) {
            Some((shown, admitted)) if *shown == *name && !is_shortened(text) => Ok(admitted.into_owned()),
            _ => not_shown,
        }
    }

    /// Whether `name` may be the shortened form of a name whose escaped form is too long. The caller must search for it
    /// among the [shown](Self::show_bytes) names.
    pub fn is_shortened_bytes(&self, name: &[u8]) -> bool {
        let knows_escapes = self.encoder.is_some() || self.existing() == Existing::Escape;
        knows_escapes && std::str::from_utf8(name).is_ok_and(is_shortened)
    }

    /// Shows the entry that is stored as `stored`: the name for clients, and the admitted name. `None` if the entry is
    /// hidden.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use namegate_core::gate::{Gate, Intent, Mode};
    /// use namegate_core::policy::{Policy, profile};
    ///
    /// let gate = Gate::new(Arc::new(Policy::from_profiles(&[&profile::UTF8])), Mode::Enforcing);
    /// let (name, admitted) = gate.show_bytes(b"caf\xE9").unwrap();
    /// assert_eq!(*name, *"caf\u{2426}E9".as_bytes());
    /// assert_eq!(admitted.as_bytes(), b"caf\xE9");
    /// assert_eq!(gate.admit_bytes(Intent::Address, &name).unwrap(), admitted);
    /// assert!(gate.admit_bytes(Intent::Create, &name).is_err());
    /// ```
    pub fn show_bytes<'n>(&self, stored: &'n [u8]) -> Option<(Cow<'n, [u8]>, Admitted<'n>)> {
        if !can_be_stored(stored) {
            return None;
        }
        let name = match (utf8::validate(stored), &self.encoder) {
            (Ok(text), Some(encoder)) => {
                match encoder.decode(text).filter(|name| !self.reads_as_escape(name)) {
                    Some(name) => bytes(name),
                    None => {
                        let also = |at| encoder.is_escaped_at(text, at);
                        bytes(escape_within_with(stored, NAME_MAX, also))
                    }
                }
            }
            (Ok(text), None) if !self.reads_as_escape(text) => Cow::Borrowed(stored),
            (Err(_), _) if self.existing() == Existing::Hide => return None,
            (Err(_), _) if self.existing() == Existing::Show => Cow::Borrowed(stored),
            _ => bytes(escape_within(stored, NAME_MAX)),
        };
        Some((name, self.as_stored(Cow::Borrowed(stored), None)))
    }

    /// The first violation of an encoding rule. Only these rules apply to existing names.
    fn first_encoding_error(&self, name: &[u8]) -> Option<Violation> {
        // Valid names need no diagnosis.
        if std::str::from_utf8(name).is_ok() && can_be_stored(name) {
            return None;
        }
        self.policy.check(name).violations.into_iter().find(|v| v.rule.is_always_on())
    }
}

fn bytes(name: Cow<'_, str>) -> Cow<'_, [u8]> {
    match name {
        Cow::Borrowed(name) => Cow::Borrowed(name.as_bytes()),
        Cow::Owned(name) => Cow::Owned(name.into_bytes()),
    }
}

/// Whether a file system can store the name (POSIX.1-2024, 3.141 Filename).
fn can_be_stored(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && memchr::memchr2(0, b'/', name).is_none()
}

/// The part of `name` that cannot be stored: the bytes beyond [`NAME_MAX`], or all of it if only another spelling is too long.
fn excess(name: &[u8]) -> Span {
    Span::new(if name.len() > NAME_MAX { NAME_MAX } else { 0 }, name.len())
}

impl Admitted<'_> {
    /// The name under which the entry is stored, or is looked up first.
    pub fn as_bytes(&self) -> &[u8] {
        &self.name
    }

    /// The key, which all spellings of the name share: see [`Gate::key_bytes`].
    pub fn key_bytes(&self) -> &[u8] {
        self.key.as_deref().unwrap_or(&self.name)
    }

    /// The violation in spite of which a permissive gate admitted the name, or because of which a gate stores another one that it shows as
    /// given.
    pub fn noted(&self) -> Option<Violation> {
        self.noted
    }

    /// The rule by which a program damaged the name, and where, whatever the policy: a server in a wrong locale damages all names. ASCII
    /// without `?` costs one pass over its bytes.
    pub fn damage(&self) -> Option<(RuleId, Span)> {
        let lost = misread::find_lost(&self.name).map(|span| (RuleId::LostCharacters, span));
        lost.or_else(|| Some((RuleId::Mojibake, misread::find(str::from_utf8(&self.name).ok()?)?)))
    }

    /// Copies the name, so that it outlives the given one.
    pub fn into_owned(self) -> Admitted<'static> {
        Admitted { name: Cow::Owned(self.name.into_owned()), key: self.key, noted: self.noted }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
