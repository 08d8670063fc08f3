//! Directories with more names than should be held at a time.
//!
//! Each part is judged by itself and forgotten; of names that may become one, eight bytes each are kept until the directory
//! ends. Only if there is anything to tell of it, its names are read a second time and held together: a repair must not be
//! the name of anything else in the directory, and twins are told of each other.

use std::sync::atomic::Ordering::Relaxed;

use super::directory::{self, Findings};
use super::{Judged, Progress, Settings};
use crate::policy::Policy;
use crate::source::Parts;

/// Judges the names of a large directory.
pub(super) fn judge(
    parts: &mut dyn Parts,
    policy: &Policy,
    settings: &Settings,
    progress: &Progress,
) -> Judged {
    let mut check = policy.check_in_parts();
    let mut names = 0;
    parts.each(&mut |part| {
        names += part.count as u64;
        check.add(&part.directory(&settings.prefix));
        progress.add(&part.dir, &Judged { names: part.count as u64, ..Judged::default() });
    });
    let findings = match check.may_have_violations() {
        true => parts.whole().map(|batch| directory::judge(&batch, policy, settings)).unwrap_or_default(),
        false => Findings::default(),
    };
    progress.findings.fetch_add(findings.records.len() as u64, Relaxed);
    progress.directories.fetch_add(1, Relaxed);
    Judged { directories: 1, names, findings, is_version: false }
}
