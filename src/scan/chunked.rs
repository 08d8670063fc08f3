//! Directories with more names than should be held at a time.
//!
//! Each part is checked by itself and dropped; eight bytes of each name are kept until the directory ends, to find names
//! that collide. Only if there is something to report, the names are read again: once to collect those with findings, and
//! a few times to suggest names that are not in use.

use std::path::PathBuf;

use super::DirectoryResult;
use super::directory::DirectoryScan;
use crate::progress::Observer;
use crate::source::{DirectoryBatch, Parts};

/// Checks the names of a large directory.
pub(super) fn check(
    parts: &mut dyn Parts,
    scan: &DirectoryScan<'_>,
    observer: &dyn Observer,
) -> DirectoryResult {
    let prefix = scan.settings.prefix.as_slice();
    let mut check = scan.policy.check_in_parts();
    let (mut dir, mut names) = (PathBuf::new(), 0);
    parts.each(&mut |part| {
        names += part.count as u64;
        check.add(&part.directory(prefix));
        observer.checked(&part.dir, part.count as u64, 0);
        dir.clone_from(&part.dir);
    });
    let findings = check.suspects().map(|suspects| {
        let mut batch = None;
        parts.each(&mut |part| {
            let batch = batch.get_or_insert_with(|| DirectoryBatch::new(part.dir.clone(), part.root_len));
            suspects.add_to(&mut batch.names, &part.directory(prefix));
        });
        // Collisions are known, and their fingerprints take memory.
        drop(suspects);
        batch.map(|batch| scan.check(&batch, Some(parts)))
    });
    let findings = findings.flatten().unwrap_or_default();
    observer.checked(&dir, 0, findings.records.len() as u64);
    DirectoryResult { directories: 1, names, findings, is_version: false }
}
