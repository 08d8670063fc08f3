//! Directories with more names than should be held at a time.
//!
//! Each part is checked by itself and forgotten; eight bytes of each name are kept until the directory ends, to find names
//! that become one. Only if there is anything to report, the names are read a second time and held together: a suggested name
//! must not be in use in the directory, and the messages of twins name each other.

use std::path::PathBuf;

use super::directory::{self, DirectoryFindings};
use super::{DirectoryResult, ScanSettings};
use crate::policy::Policy;
use crate::progress::Observer;
use crate::source::Parts;

/// Checks the names of a large directory.
pub(super) fn check(
    parts: &mut dyn Parts,
    policy: &Policy,
    settings: &ScanSettings,
    observer: &dyn Observer,
) -> DirectoryResult {
    let mut check = policy.check_in_parts();
    let (mut dir, mut names) = (PathBuf::new(), 0);
    parts.each(&mut |part| {
        names += part.count as u64;
        check.add(&part.directory(&settings.prefix));
        observer.checked(&part.dir, part.count as u64, 0);
        dir.clone_from(&part.dir);
    });
    let findings = match check.may_have_violations() {
        true => parts.whole().map(|batch| directory::check(&batch, policy, settings)).unwrap_or_default(),
        false => DirectoryFindings::default(),
    };
    observer.checked(&dir, 0, findings.records.len() as u64);
    DirectoryResult { directories: 1, names, findings, is_version: false }
}
