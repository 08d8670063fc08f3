//! The gate: who may pass, and what it is called behind it.
//!
//! Everything that takes a name to a backing tree takes an [`Admitted`], and only [`Gate::admit`] makes one, so that an
//! operation which forgets the gate does not compile. Pure: the gate knows no errno, no file and no log; it says *why* a
//! name is refused, and its caller says so in its own protocol.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::name::{Span, utf8};
use crate::policy::rule::RuleId;
use crate::policy::{Policy, Verdict, Violation};

/// The longest name that Linux file systems store, in bytes (`NAME_MAX`, limits.h).
pub const NAME_MAX: usize = 255;

/// What a name is offered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Intent {
    /// A new name comes into a directory: create, mkdir, mknod, symlink, link, the new name of a rename.
    Create,
    /// An existing name is only named: lookup, unlink, rmdir, the old name of a rename.
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

/// Judges names by one policy in one mode. Cheap to clone; a new policy is a new gate.
#[derive(Clone, Debug)]
pub struct Gate {
    policy: Arc<Policy>,
    mode: Mode,
}

/// A name that has passed the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted<'n> {
    stored: Cow<'n, OsStr>,
    noted: Option<Violation>,
}

/// A name that has not passed the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name breaks the policy.
    Violates(Violation),
    /// The name, or the spelling stored for it, is longer than [`NAME_MAX`].
    TooLong {
        /// Bytes that would have to be stored.
        bytes: usize,
    },
    /// No entry can have this name, so there is none.
    CannotExist(Violation),
}

impl Gate {
    /// A gate for `policy`.
    pub fn new(policy: Arc<Policy>, mode: Mode) -> Self {
        Self { policy, mode }
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
    /// A name that comes in ([`Intent::Create`]) must satisfy the policy; it may pass in another spelling if the policy
    /// converts. A name that is only addressed must be able to exist: well-formed, without NUL and `/`. What breaks any
    /// other rule stays reachable. In [`Mode::Permissive`] a violation is noted and the name passes as it is, as far as
    /// any file system could store it.
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
        match admitted.stored.len() {
            bytes if bytes > NAME_MAX => Err(Refusal::TooLong { bytes }),
            _ => Ok(admitted),
        }
    }

    fn admit_new<'n>(&self, name: &'n OsStr) -> Result<Admitted<'n>, Refusal> {
        let as_given = |noted| Admitted { stored: Cow::Borrowed(name), noted };
        match self.policy.verdict(name.as_bytes()) {
            Verdict::Accept(_) => Ok(as_given(None)),
            Verdict::Rewrite(stored) => Ok(Admitted { stored: Cow::Owned(stored.into()), noted: None }),
            Verdict::Reject(violation) if self.mode == Mode::Permissive && can_be_stored(name) => {
                Ok(as_given(Some(violation)))
            }
            Verdict::Reject(violation) => Err(Refusal::Violates(violation)),
        }
    }

    fn admit_existing<'n>(&self, name: &'n OsStr) -> Result<Admitted<'n>, Refusal> {
        let as_given = |noted| Admitted { stored: Cow::Borrowed(name), noted };
        match self.first_encoding_error(name) {
            None => Ok(as_given(None)),
            Some(violation) if self.mode == Mode::Permissive && can_be_stored(name) => {
                Ok(as_given(Some(violation)))
            }
            Some(violation) => Err(Refusal::CannotExist(violation)),
        }
    }

    /// The first reason why no entry can have this name: an encoding rule, the only rules that hold for names that are
    /// there already.
    fn first_encoding_error(&self, name: &OsStr) -> Option<Violation> {
        let bytes = name.as_bytes();
        if utf8::validate(bytes).is_ok() && can_be_stored(name) {
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

impl Admitted<'_> {
    /// The name as it stands, or will stand, in the backing directory.
    pub fn as_os_str(&self) -> &OsStr {
        &self.stored
    }

    /// The violation with which a permissive gate let the name pass.
    pub fn noted(&self) -> Option<Violation> {
        self.noted
    }
}

impl Refusal {
    /// The rule that the name breaks.
    pub fn rule(&self) -> RuleId {
        match self {
            Self::Violates(violation) | Self::CannotExist(violation) => violation.rule,
            Self::TooLong { .. } => RuleId::NameTooLong,
        }
    }

    /// The bytes of the offered name at which it breaks the rule; what is too long is all behind [`NAME_MAX`].
    pub fn span(&self) -> Span {
        match self {
            Self::Violates(violation) | Self::CannotExist(violation) => violation.span,
            Self::TooLong { bytes } => Span::new(NAME_MAX, *bytes),
        }
    }
}

#[cfg(test)]
mod tests;
