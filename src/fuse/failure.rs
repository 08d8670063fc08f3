//! Why a request was not served, and which errno says so.

use nix::errno::Errno;

use crate::gate::Refusal;

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The gate did not let the name pass.
    Refused(Refusal),
    /// The backing tree said no.
    Backing(Errno),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Backing(errno)
    }
}

impl Failure {
    /// The errno that the client gets. A name that breaks the policy gets `for_violations`; `None` stands for EILSEQ where
    /// the bytes are not UTF-8, and EINVAL where a well-formed name breaks another rule, as vfat, ntfs3 and its option
    /// `windows_names` have it.
    ///
    /// ```
    /// use nix::errno::Errno;
    /// use namegate::fuse::Failure;
    /// use namegate::gate::Refusal;
    ///
    /// let too_long = Failure::Refused(Refusal::TooLong { bytes: 256, span: namegate::name::Span::new(255, 256) });
    /// assert_eq!(too_long.errno(Some(Errno::EPERM)), Errno::ENAMETOOLONG);
    /// let escape = Failure::Refused(Refusal::ReadsAsEscape { bytes: 9 });
    /// assert_eq!((escape.errno(None), escape.errno(Some(Errno::EPERM))), (Errno::EINVAL, Errno::EPERM));
    /// ```
    pub fn errno(&self, for_violations: Option<Errno>) -> Errno {
        match self {
            Self::Refused(Refusal::TooLong { .. }) => Errno::ENAMETOOLONG,
            // Nothing in the tree, as it is seen through the gate, has this name.
            Self::Refused(Refusal::CannotExist(_) | Refusal::NotShown { .. }) => Errno::ENOENT,
            // The name breaks the policy, or reads like an escape.
            Self::Refused(refusal) => for_violations.unwrap_or(match refusal {
                Refusal::Violates(violation) if violation.rule.is_always_on() => Errno::EILSEQ,
                _ => Errno::EINVAL,
            }),
            Self::Backing(errno) => *errno,
        }
    }
}
