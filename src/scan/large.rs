//! Directories with more names than should be held at a time.
//!
//! Each part is judged by itself and forgotten; of names that may become one, eight bytes each are kept until the directory
//! ends. Only if there is anything to tell of it, its names are read a second time and held together: a repair must not be
//! the name of anything else in the directory, and twins are told of each other.

use std::sync::atomic::Ordering::Relaxed;

use super::directory::{self, Findings, has_long_paths};
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
    let mut fingerprints = policy.fingerprints();
    let (mut names, mut has_findings) = (0, false);
    parts.each(&mut |part| {
        names += part.count as u64;
        has_findings |=
            has_long_paths(part, policy, settings) || policy.check_arena(&part.names).next().is_some();
        if let Some(fingerprints) = &mut fingerprints {
            fingerprints.add_all(&part.names);
        }
        progress.add(&part.dir, &Judged { names: part.count as u64, ..Judged::default() });
    });
    has_findings |= fingerprints.is_some_and(|fingerprints| !fingerprints.shared().is_empty());
    let findings = match has_findings {
        true => parts.whole().map(|batch| directory::judge(&batch, policy, settings)).unwrap_or_default(),
        false => Findings::default(),
    };
    progress.findings.fetch_add(findings.records.len() as u64, Relaxed);
    progress.directories.fetch_add(1, Relaxed);
    Judged { directories: 1, names, findings, is_version: false }
}
