//! Reasons why a request fails, and their errno.

use namegate_core::gate::Refusal;
use namegate_sys::process::kernel_thread;
use nix::errno::Errno;

/// The reason why a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// The gate rejected the name.
    Refused(Refusal),
    /// The gate rejected the name, which the NFS server of the kernel asks for.
    RefusedToNfs(Refusal),
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
    /// The gate rejected a name for the process `pid`.
    pub(super) fn refused(refusal: Refusal, pid: u32) -> Self {
        match kernel_thread(pid).as_deref() {
            Some("nfsd") => Self::RefusedToNfs(refusal),
            _ => Self::Refused(refusal),
        }
    }

    /// The errno for the client. A name that breaks the policy gets `for_violations`. `None` means EILSEQ for bytes that are
    /// not UTF-8, and EINVAL for a well-formed name that breaks another rule, as in vfat, and in ntfs3 with its option
    /// `windows_names`.
    ///
    /// ```
    /// use nix::errno::Errno;
    /// use namegate_mount::RequestFailure;
    /// use namegate_core::gate::Refusal;
    ///
    /// let span = namegate_core::name::Span::new(255, 256);
    /// let too_long = RequestFailure::Refused(Refusal::TooLong { bytes: 256, span });
    /// assert_eq!(too_long.errno(Some(Errno::EPERM)), Errno::ENAMETOOLONG);
    /// let escape = RequestFailure::Refused(Refusal::ReadsAsEscape { bytes: 9 });
    /// assert_eq!((escape.errno(None), escape.errno(Some(Errno::EPERM))), (Errno::EINVAL, Errno::EPERM));
    /// ```
    ///
    /// The NFS server of the kernel gets EINVAL for EILSEQ, which it does not know (`nfs_errtbl` of fs/nfsd): its clients would get EIO,
    /// and its log a warning.
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
            Self::RefusedToNfs(refusal) => match Self::Refused(*refusal).errno(for_violations) {
                Errno::EILSEQ => Errno::EINVAL,
                errno => errno,
            },
            Self::Backing(errno) => *errno,
        }
    }
}

#[cfg(test)]
mod tests {
    use namegate_core::gate::{Gate, Intent, Mode};
    use namegate_core::policy::{Policy, profile};

    use super::*;

    #[test]
    fn the_nfs_server_of_the_kernel_gets_no_errno_that_it_does_not_know() {
        let policy = Policy::from_profiles(&[&profile::UTF8]);
        let gate = Gate::new(std::sync::Arc::new(policy), Mode::Enforcing);
        let bad = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"caf\xE9");
        let refusal = gate.admit(Intent::Create, bad).unwrap_err();
        assert_eq!(RequestFailure::Refused(refusal).errno(None), Errno::EILSEQ);
        for (errno, expected) in [
            (None, Errno::EINVAL),
            (Some(Errno::EILSEQ), Errno::EINVAL),
            (Some(Errno::EACCES), Errno::EACCES),
        ] {
            assert_eq!(RequestFailure::RefusedToNfs(refusal).errno(errno), expected);
        }
        // This test is not that server.
        assert_eq!(RequestFailure::refused(refusal, std::process::id()), RequestFailure::Refused(refusal));
    }
}
