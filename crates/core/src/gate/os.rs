//! The gate for names as [`OsStr`], which on Unix are any bytes.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::{Admitted, Gate, Intent, Refusal};

/// An entry as the gate shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown<'n> {
    /// The name for clients.
    pub name: Cow<'n, OsStr>,
    /// The admitted name, under which the entry is stored.
    pub admitted: Admitted<'n>,
}

impl Gate {
    /// [`Gate::admit_bytes`] for an [`OsStr`]. Only on Unix.
    ///
    /// # Errors
    /// [`Refusal`] says which violation, or how long the name is.
    pub fn admit<'n>(&self, intent: Intent, name: &'n OsStr) -> Result<Admitted<'n>, Refusal> {
        self.admit_bytes(intent, name.as_bytes())
    }

    /// [`Gate::key_bytes`] for an [`OsStr`]. Only on Unix.
    pub fn key<'n>(&self, name: &'n OsStr) -> Cow<'n, OsStr> {
        os(self.key_bytes(name.as_bytes()))
    }

    /// [`Gate::has_other_spellings_bytes`] for an [`OsStr`]. Only on Unix.
    pub fn has_other_spellings(&self, name: &OsStr) -> bool {
        self.has_other_spellings_bytes(name.as_bytes())
    }

    /// [`Gate::is_shortened_bytes`] for an [`OsStr`]. Only on Unix.
    pub fn is_shortened(&self, name: &OsStr) -> bool {
        self.is_shortened_bytes(name.as_bytes())
    }

    /// [`Gate::show_bytes`] for an [`OsStr`]. Only on Unix.
    pub fn show<'n>(&self, stored: &'n OsStr) -> Option<Shown<'n>> {
        let (name, admitted) = self.show_bytes(stored.as_bytes())?;
        Some(Shown { name: os(name), admitted })
    }
}

impl Admitted<'_> {
    /// [`Admitted::as_bytes`] as an [`OsStr`]. Only on Unix.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(self.as_bytes())
    }

    /// [`Admitted::key_bytes`] as an [`OsStr`]. Only on Unix.
    pub fn key(&self) -> &OsStr {
        OsStr::from_bytes(self.key_bytes())
    }
}

fn os(name: Cow<'_, [u8]>) -> Cow<'_, OsStr> {
    match name {
        Cow::Borrowed(name) => Cow::Borrowed(OsStr::from_bytes(name)),
        Cow::Owned(name) => Cow::Owned(OsString::from_vec(name)),
    }
}
