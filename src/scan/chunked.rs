//! Directories with more names than should be held at a time.
//!
//! Each part is checked by itself and dropped; eight bytes of each name are kept until the directory ends, to find names
//! that collide. Only if there is something to report, the names are read again: once to collect those with findings, and
//! a few times to suggest names that are not in use.

use std::path::PathBuf;

use super::directory::{CheckedNames, DirectoryScan};
use crate::progress::Observer;
use crate::report::DirectoryFindings;
use crate::source::{DirectoryBatch, Parts};

/// Checks the names of a large directory, gives the findings to `emit`, and returns the number of names.
pub(super) fn check(
    parts: &mut dyn Parts,
    scan: &DirectoryScan<'_>,
    observer: &dyn Observer,
    emit: &mut dyn FnMut(DirectoryFindings),
) -> u64 {
    let prefix = scan.settings.prefix.as_slice();
    let mut check = scan.policy.check_in_parts();
    let (mut dir, mut names) = (PathBuf::new(), 0);
    parts.each(&mut |part| {
        names += part.count as u64;
        check.add(&part.directory(prefix));
        observer.checked(&part.dir, part.count as u64, 0);
        dir.clone_from(&part.dir);
    });
    let Some(suspects) = check.suspects() else { return names };
    let mut found: Option<DirectoryBatch> = None;
    parts.each(&mut |part| {
        let found = found.get_or_insert_with(|| DirectoryBatch::new(part.dir.clone(), part.root_len));
        suspects.add_to(&mut found.names, &part.directory(prefix));
    });
    let used = suspects.into_used();
    if let Some(found) = found {
        scan.check(&found, CheckedNames::Suspects(parts, used.as_ref()), &mut |findings| {
            observer.checked(&dir, 0, findings.records.len() as u64);
            emit(findings);
        });
    }
    names
}
