//! The gate: who may pass, and what it is called behind it.
//!
//! Everything that takes a name to a backing tree takes an [`Admitted`], and only [`Gate::admit`] makes one, so that an
//! operation which forgets the gate does not compile. Pure: the gate knows no errno, no file and no log; it says *why* a
//! name is refused, and its caller says so in its own protocol.
//!
//! Where the policy converts or matches, one entry has many spellings. The gate knows them apart by a *key*, which is the
//! same for all of them: the spelling in the policy's form. Whoever looks an entry up tries, in this order,
//! [`Admitted::as_os_str`] (so that what is there under exactly this name stays reachable, whatever its form),
//! [`Admitted::key`] (which is how a converting gate stored it), and an entry of the directory whose [`Gate::key`] is that
//! key. Only entries that are not stored under their own key need to be kept for the last step, and nobody but the gate
//! needs to know Unicode for it.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use crate::name::escape::{escape, escape_within, is_escaped, is_shortened, unescape};
use crate::name::normalize::{Form, to_form};
use crate::name::{Span, spelling, utf8};
use crate::policy::rule::RuleId;
use crate::policy::{OnMismatch, Policy, Verdict, Violation};

/// The longest name that Linux file systems store, in bytes (`NAME_MAX`, limits.h).
pub const NAME_MAX: usize = 255;

/// What a name is offered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// A new name comes into a directory: create, mkdir, mknod, symlink, link, the new name of a rename.
    Create,
    /// An existing name is only named: lookup, unlink, rmdir, the old name of a rename, both names of an exchange.
    Address,
}

/// What happens to a name that breaks the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is refused.
    Enforcing,
    /// It passes, and the violation is noted.
    Permissive,
}

/// How names that are not UTF-8 are seen when they are there already. A permissive gate shows them as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Existing {
    /// Escaped ([`escape`]), and addressed so. A name that reads like an escape cannot come in.
    #[default]
    Escape,
    /// As they are, and addressed so.
    Show,
    /// Not at all.
    Hide,
}

/// An entry as it is seen through the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown<'n> {
    /// What it is called in front of the gate.
    pub name: Cow<'n, OsStr>,
    /// What it is called behind it.
    pub admitted: Admitted<'n>,
}

/// Judges names by one policy in one mode. Cheap to clone; a new policy is a new gate.
#[derive(Clone, Debug)]
pub struct Gate {
    policy: Arc<Policy>,
    mode: Mode,
    existing: Existing,
}

/// A name that has passed the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted<'n> {
    name: Cow<'n, OsStr>,
    /// The key, where it is not the name.
    key: Option<OsString>,
    noted: Option<Violation>,
}

/// A name that has not passed the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name breaks the policy.
    Violates(Violation),
    /// The name, or the spelling stored for it, is longer than [`NAME_MAX`].
    TooLong {
        /// How many bytes would have to be stored.
        bytes: usize,
        /// What is too much of the offered name; all of it where another spelling would be stored.
        span: Span,
    },
    /// No entry can have this name, so there is none.
    CannotExist(Violation),
    /// A new name reads like the escape of another; it would be seen under a third.
    ReadsAsEscape {
        /// Its length.
        bytes: usize,
    },
    /// No entry is seen under this name: it is an escape that nothing has.
    NotShown {
        /// Its length.
        bytes: usize,
    },
}

impl Gate {
    /// A gate for `policy`. Existing names that are not UTF-8 are seen escaped.
    pub fn new(policy: Arc<Policy>, mode: Mode) -> Self {
        Self { policy, mode, existing: Existing::default() }
    }

    /// The same gate, through which existing names that are not UTF-8 are seen in another way.
    #[must_use]
    pub fn with_existing(self, existing: Existing) -> Self {
        Self { existing, ..self }
    }

    /// The same gate in another mode.
    #[must_use]
    pub fn with_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// How existing names that are not UTF-8 are seen through it.
    pub fn existing(&self) -> Existing {
        match self.mode {
            Mode::Enforcing => self.existing,
            // What it lets in has to be seen afterwards as it came.
            Mode::Permissive => Existing::Show,
        }
    }

    /// The policy by which it judges.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What it does with names that break the policy.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Lets `name` pass, or says why not.
    ///
    /// A name that comes in ([`Intent::Create`]) must satisfy the policy; it passes in another spelling if the policy
    /// converts. A name that is only addressed must be able to exist, and to be seen so: well-formed unless existing names
    /// are shown as they are, and the escape of an ill-formed one where they are seen escaped. What breaks any other rule
    /// stays reachable, under exactly the name it has; a name too long to be stored passes all the same if it has other
    /// spellings, as its key if that is short enough, because what is meant may have come in so. In [`Mode::Permissive`] a
    /// violation is noted and the name passes as it is, as far as any file system could store it.
    ///
    /// # Errors
    /// [`Refusal`] says which violation, or how long the name is.
    ///
    /// ```
    /// use std::{ffi::OsStr, os::unix::ffi::OsStrExt, sync::Arc};
    /// use namegate::gate::{Gate, Intent, Mode, Refusal};
    /// use namegate::policy::{Policy, profile};
    ///
    /// let gate = Gate::new(Arc::new(Policy::of(&[profile::by_name("utf8")?])), Mode::Enforcing);
    /// assert_eq!(gate.admit(Intent::Create, OsStr::new("café")).unwrap().as_os_str(), "café");
    /// let latin1 = OsStr::from_bytes(b"caf\xE9");
    /// assert!(matches!(gate.admit(Intent::Create, latin1), Err(Refusal::Violates(v)) if v.span.start == 3));
    /// assert!(matches!(gate.admit(Intent::Address, latin1), Err(Refusal::CannotExist(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn admit<'n>(&self, intent: Intent, name: &'n OsStr) -> Result<Admitted<'n>, Refusal> {
        let admitted = match intent {
            Intent::Create => self.admit_new(name)?,
            Intent::Address => self.admit_existing(name)?,
        };
        match admitted.name.len() {
            bytes if bytes <= NAME_MAX => Ok(admitted),
            _ if intent == Intent::Address && self.has_other_spellings(name) => Ok(admitted),
            bytes => Err(Refusal::TooLong { bytes, span: excess(name) }),
        }
    }

    /// What all spellings of `name` have in common, for comparing the entries of a directory: the spelling in the
    /// policy's form. The name itself where the policy neither converts nor matches, where the name is not UTF-8, and
    /// where no entry could have that spelling (NFKC makes a `/` of U+FF0F). It may be longer than [`NAME_MAX`].
    ///
    /// ```
    /// use std::{ffi::OsStr, sync::Arc};
    /// use namegate::gate::{Gate, Intent, Mode};
    /// use namegate::name::normalize::Form;
    /// use namegate::policy::{Normalization, OnMismatch, Policy};
    ///
    /// let normalization = Normalization { form: Form::Nfc, on_mismatch: OnMismatch::Match };
    /// let policy = Policy::builder().normalization(normalization).build()?;
    /// let gate = Gate::new(Arc::new(policy), Mode::Enforcing);
    /// assert_eq!(gate.key(OsStr::new("e\u{301}")), OsStr::new("é"));
    /// let asked = gate.admit(Intent::Address, OsStr::new("e\u{301}")).unwrap();
    /// assert_eq!((asked.as_os_str(), asked.key()), (OsStr::new("e\u{301}"), OsStr::new("é")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key<'n>(&self, name: &'n OsStr) -> Cow<'n, OsStr> {
        self.other_key(name).map_or(Cow::Borrowed(name), Cow::Owned)
    }

    /// Whether one entry has several spellings: the policy converts or matches.
    pub fn knows_spellings(&self) -> bool {
        self.equivalence().is_some()
    }

    /// Whether another name may have the [key](Self::key) of `name`; `false` is certain. Looks at the name alone.
    ///
    /// ```
    /// use std::{ffi::OsStr, sync::Arc};
    /// use namegate::gate::{Gate, Mode};
    /// use namegate::name::normalize::Form;
    /// use namegate::policy::{Normalization, OnMismatch, Policy};
    ///
    /// let normalization = Normalization { form: Form::Nfc, on_mismatch: OnMismatch::Match };
    /// let policy = Policy::builder().normalization(normalization).build()?;
    /// let gate = Gate::new(Arc::new(policy), Mode::Enforcing);
    /// assert!(gate.has_other_spellings(OsStr::new("é")));
    /// assert!(!gate.has_other_spellings(OsStr::new("e")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn has_other_spellings(&self, name: &OsStr) -> bool {
        let spelt = |form| name.to_str().is_some_and(|name| spelling::has_others(name, form));
        self.equivalence().is_some_and(spelt)
    }

    /// The form that equal names share, if names that differ can be equal.
    fn equivalence(&self) -> Option<Form> {
        let normalization = self.policy.normalization()?;
        (normalization.on_mismatch != OnMismatch::Refuse).then_some(normalization.form)
    }

    /// The key of `name`, if it is another spelling. Allocates nothing if it is not.
    fn other_key(&self, name: &OsStr) -> Option<OsString> {
        let form = self.equivalence()?;
        match to_form(name.to_str()?, form) {
            Cow::Owned(key) => Some(OsString::from(key)).filter(|key| can_be_stored(key)),
            Cow::Borrowed(_) => None,
        }
    }

    fn admit_new<'n>(&self, name: &'n OsStr) -> Result<Admitted<'n>, Refusal> {
        let escapes = |stored: &str| {
            self.existing() == Existing::Escape && (is_escaped(stored) || is_shortened(stored))
        };
        match self.policy.verdict(name.as_bytes()) {
            Verdict::Accept(stored) if escapes(stored) => Err(Refusal::ReadsAsEscape { bytes: name.len() }),
            Verdict::Rewrite(stored) if escapes(&stored) => Err(Refusal::ReadsAsEscape { bytes: name.len() }),
            Verdict::Accept(_) => Ok(self.as_given(name, None)),
            // What is stored in the form is its own key.
            Verdict::Rewrite(stored) => {
                Ok(Admitted { name: Cow::Owned(stored.into()), key: None, noted: None })
            }
            Verdict::Reject(violation) if self.mode == Mode::Permissive && can_be_stored(name) => {
                Ok(self.as_given(name, Some(violation)))
            }
            Verdict::Reject(violation) => Err(Refusal::Violates(violation)),
        }
    }

    fn admit_existing<'n>(&self, name: &'n OsStr) -> Result<Admitted<'n>, Refusal> {
        let admitted = match self.first_encoding_error(name) {
            None if self.existing() == Existing::Escape => self.admit_escaped(name)?,
            None => self.as_given(name, None),
            Some(violation) if self.existing() == Existing::Show && can_be_stored(name) => {
                self.as_given(name, Some(violation))
            }
            Some(violation) => return Err(Refusal::CannotExist(violation)),
        };
        Ok(match admitted {
            // No entry can have the name as given; the entry that is meant can have the key.
            Admitted { key: Some(key), noted, .. } if name.len() > NAME_MAX && key.len() <= NAME_MAX => {
                Admitted { name: Cow::Owned(key), key: None, noted }
            }
            _ => admitted,
        })
    }

    fn as_given<'n>(&self, name: &'n OsStr, noted: Option<Violation>) -> Admitted<'n> {
        Admitted { name: Cow::Borrowed(name), key: self.other_key(name), noted }
    }

    /// A well-formed name as what it may be the escape of.
    fn admit_escaped<'n>(&self, name: &'n OsStr) -> Result<Admitted<'n>, Refusal> {
        let not_shown = Err(Refusal::NotShown { bytes: name.len() });
        let Some(text) = name.to_str() else { return not_shown };
        let stored = unescape(text);
        // Only what escaping writes: `‛41` must not be a second name of `A`.
        if is_shortened(text) || escape(&stored) != text || !can_be_stored(OsStr::from_bytes(&stored)) {
            return not_shown;
        }
        match stored {
            Cow::Borrowed(_) => Ok(self.as_given(name, None)),
            // What is only named is seen as it is named: a longer escape would have been shortened.
            Cow::Owned(_) if name.len() > NAME_MAX => not_shown,
            Cow::Owned(bytes) => {
                Ok(Admitted { name: Cow::Owned(OsString::from_vec(bytes)), key: None, noted: None })
            }
        }
    }

    /// Whether `name` may stand for an entry whose escape was too long: it has to be looked for among those that are
    /// [seen](Self::show).
    pub fn is_shortened(&self, name: &OsStr) -> bool {
        self.existing() == Existing::Escape && name.to_str().is_some_and(is_shortened)
    }

    /// How the entry that stands as `stored` in its directory is seen; `None` if it is not.
    ///
    /// ```
    /// use std::{ffi::OsStr, os::unix::ffi::OsStrExt, sync::Arc};
    /// use namegate::gate::{Gate, Intent, Mode};
    /// use namegate::policy::{Policy, profile};
    ///
    /// let gate = Gate::new(Arc::new(Policy::of(&[&profile::UTF8])), Mode::Enforcing);
    /// let stored = OsStr::from_bytes(b"caf\xE9");
    /// let shown = gate.show(stored).unwrap();
    /// assert_eq!(shown.name, OsStr::new("caf\u{201b}E9"));
    /// assert_eq!(gate.admit(Intent::Address, &shown.name).unwrap().as_os_str(), stored);
    /// assert!(gate.admit(Intent::Create, &shown.name).is_err());
    /// ```
    pub fn show<'n>(&self, stored: &'n OsStr) -> Option<Shown<'n>> {
        if !can_be_stored(stored) {
            return None;
        }
        let name = match self.existing() {
            Existing::Show => Cow::Borrowed(stored),
            Existing::Hide => Cow::Borrowed(OsStr::new(utf8::validate(stored.as_bytes()).ok()?)),
            Existing::Escape => match escape_within(stored.as_bytes(), NAME_MAX) {
                Cow::Borrowed(text) => Cow::Borrowed(OsStr::new(text)),
                Cow::Owned(text) => Cow::Owned(text.into()),
            },
        };
        Some(Shown { name, admitted: self.as_given(stored, None) })
    }

    /// The first reason why no entry can have this name: an encoding rule, the only rules that hold for names that are
    /// there already.
    fn first_encoding_error(&self, name: &OsStr) -> Option<Violation> {
        let bytes = name.as_bytes();
        // The diagnosis is not asked for: deciding is enough for the names that pass.
        if std::str::from_utf8(bytes).is_ok() && can_be_stored(name) {
            return None;
        }
        self.policy.check(bytes).violations.into_iter().find(|v| v.rule.is_always_on())
    }
}

/// Whether any file system can store the name at all (POSIX.1-2024, 3.141 Filename).
fn can_be_stored(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    !matches!(bytes, b"" | b"." | b"..") && memchr::memchr2(0, b'/', bytes).is_none()
}

/// What of `name` cannot be stored: what stands behind [`NAME_MAX`], or all of it if only another spelling is too long.
fn excess(name: &OsStr) -> Span {
    Span::new(if name.len() > NAME_MAX { NAME_MAX } else { 0 }, name.len())
}

impl Admitted<'_> {
    /// The name under which the entry will stand in the backing directory, or is looked for first.
    pub fn as_os_str(&self) -> &OsStr {
        &self.name
    }

    /// What all spellings of the name have in common: see [`Gate::key`].
    pub fn key(&self) -> &OsStr {
        self.key.as_deref().unwrap_or(&self.name)
    }

    /// The same, for longer than the name that was offered lives.
    pub fn into_owned(self) -> Admitted<'static> {
        Admitted { name: Cow::Owned(self.name.into_owned()), key: self.key, noted: self.noted }
    }

    /// The violation with which a permissive gate let the name pass.
    pub fn noted(&self) -> Option<Violation> {
        self.noted
    }
}

impl Refusal {
    /// The rule that the name breaks; none where escapes stand in its way.
    pub fn rule(&self) -> Option<RuleId> {
        match self {
            Self::Violates(violation) | Self::CannotExist(violation) => Some(violation.rule),
            Self::TooLong { .. } => Some(RuleId::NameTooLong),
            Self::ReadsAsEscape { .. } | Self::NotShown { .. } => None,
        }
    }

    /// The bytes of the offered name at which it breaks the rule.
    pub fn span(&self) -> Span {
        match self {
            Self::Violates(violation) | Self::CannotExist(violation) => violation.span,
            Self::TooLong { span, .. } => *span,
            Self::ReadsAsEscape { bytes } | Self::NotShown { bytes } => Span::new(0, *bytes),
        }
    }
}

#[cfg(test)]
mod tests;
