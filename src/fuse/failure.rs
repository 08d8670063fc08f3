//! Reasons why a request fails, and their errno.

use nix::errno::Errno;

use crate::gate::Refusal;

/// The reason why a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// The gate rejected the name.
    Refused(Refusal),
    /// An operation on the backing tree failed.
    Backing(Errno),
}

impl From<Refusal> for RequestFailure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Errno> for RequestFailure {
    fn from(errno: Errno) -> Self {
        Self::Backing(errno)
    }
}

impl RequestFailure {
    /// The errno for the client. A name that breaks the policy gets `for_violations`. `None` means EILSEQ for bytes that are
    /// not UTF-8, and EINVAL for a well-formed name that breaks another rule, as in vfat, and in ntfs3 with its option
    /// `windows_names`.
    ///
    /// ```
    /// use nix::errno::Errno;
    /// use namegate::fuse::RequestFailure;
    /// use namegate::gate::Refusal;
    ///
    /// let span = namegate::name::Span::new(255, 256);
    /// let too_long = RequestFailure::Refused(Refusal::TooLong { bytes: 256, span });
    /// assert_eq!(too_long.errno(Some(Errno::EPERM)), Errno::ENAMETOOLONG);
    /// let escape = RequestFailure::Refused(Refusal::ReadsAsEscape { bytes: 9 });
    /// assert_eq!((escape.errno(None), escape.errno(Some(Errno::EPERM))), (Errno::EINVAL, Errno::EPERM));
    /// ```
    pub fn errno(&self, for_violations: Option<Errno>) -> Errno {
        match self {
            Self::Refused(Refusal::TooLong { .. }) => Errno::ENAMETOOLONG,
            // The gate shows no entry with this name.
            Self::Refused(Refusal::CannotExist(_) | Refusal::NotShown { .. }) => Errno::ENOENT,
            // The name violates the policy, or looks like an escaped name.
            Self::Refused(refusal) => for_violations.unwrap_or(match refusal {
                Refusal::Violates(violation) if violation.rule.is_always_on() => Errno::EILSEQ,
                _ => Errno::EINVAL,
            }),
            Self::Backing(errno) => *errno,
        }
    }
}
