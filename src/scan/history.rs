//! Directories that had different names over time.
//!
//! All names that a directory ever had are checked once. Only where some of them could collide, the versions are read again to
//! find out which were there together.

use namegate_findings::directory::CheckedNames;

use super::BatchScan;
use crate::name::arena::Arena;
use crate::policy::{FingerprintIndex, NamesInUse};
use crate::report::DirectoryFindings;
use crate::source::VersionedDirectory;

/// Checks the names of a directory in all its versions and gives the findings to `emit`. The same finding may come several times.
pub(super) fn check(
    directory: &mut dyn VersionedDirectory,
    scan: &BatchScan<'_>,
    emit: &mut dyn FnMut(DirectoryFindings),
) {
    scan.check(directory.names(), CheckedNames::Ever, emit);
    let Some(mut fingerprints) = scan.directories.policy.fingerprints() else { return };
    fingerprints.add_all(&directory.names().names);
    let shared = fingerprints.shared();
    if shared.is_empty() {
        return;
    }
    let mut alike = Arena::new();
    for (_, name) in directory.names().names.iter().filter(|(_, name)| shared.has(name)) {
        alike.push(name).expect("it comes from an arena");
    }
    let mut found = Vec::new();
    directory.each_set_of(&alike, &mut |together| found.push(together));
    let ever = &directory.names().names;
    for together in &found {
        let in_use: &mut NamesInUse<'_> = &mut |_, take| ever.iter().for_each(|(_, name)| take(name));
        let used = FingerprintIndex::Unknown;
        scan.check(together, CheckedNames::Suspects { in_use, used, hint: None }, emit);
    }
}
