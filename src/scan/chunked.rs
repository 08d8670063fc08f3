//! Directories with more names than should be held at a time.
//!
//! Each part is checked by itself and dropped; eight bytes of each name are kept until the directory ends, to find names
//! that collide. Only if there is something to report, the names are read again: to collect those with findings, and a few
//! times to suggest names that are not in use. If findings are only counted, no more than a part is held here either.

use std::path::PathBuf;

use namegate_findings::directory::CheckedNames;

use super::BatchScan;
use crate::check::SuspectNames;
use crate::name::arena::Arena;
use crate::policy::NamesInUse;
use crate::progress::Observer;
use crate::report::DirectoryFindings;
use crate::source::{DirectoryBatch, Parts};

/// Checks the names of a large directory, gives the findings to `emit`, and returns the number of names.
pub(super) fn check(
    parts: &mut dyn Parts,
    scan: &BatchScan<'_>,
    observer: &dyn Observer,
    emit: &mut dyn FnMut(DirectoryFindings),
) -> u64 {
    let prefix = scan.prefix;
    let mut check = scan.directories.policy.check_in_parts();
    let (mut dir, mut names) = (PathBuf::new(), 0);
    parts.each(&mut |part| {
        names += part.count as u64;
        check.add(&part.directory(prefix));
        observer.checked(&part.dir, part.count as u64, 0);
        dir.clone_from(&part.dir);
    });
    let Some(suspects) = check.suspects() else { return names };
    let emit = &mut |findings: DirectoryFindings| {
        observer.checked(&dir, 0, findings.records.len() as u64);
        emit(findings);
    };
    if !scan.directories.has_messages() {
        check_in_parts(parts, scan, &suspects, emit);
        return names;
    }
    let mut found: Option<DirectoryBatch> = None;
    parts.each(&mut |part| {
        let found = found.get_or_insert_with(|| DirectoryBatch::new(part.dir.clone(), part.root_len));
        suspects.add_to(&mut found.names, &part.directory(prefix));
    });
    let used = suspects.into_used();
    if let Some(found) = found {
        let in_use: &mut NamesInUse<'_> = &mut |_, take| parts.each_name(take);
        scan.check(&found, CheckedNames::Suspects { in_use, used: used.as_ref().into() }, emit);
    }
    names
}

/// Checks the suspects part by part: without suggested names, a name concerns only those with which it may collide.
fn check_in_parts(
    parts: &mut dyn Parts,
    scan: &BatchScan<'_>,
    suspects: &SuspectNames<'_>,
    emit: &mut dyn FnMut(DirectoryFindings),
) {
    if suspects.has_alike() {
        let mut alike: Option<DirectoryBatch> = None;
        parts.each(&mut |part| {
            let alike = alike.get_or_insert_with(|| DirectoryBatch::new(part.dir.clone(), part.root_len));
            let names = part.names.iter().map(|(_, name)| name);
            names.filter(|name| suspects.is_alike(name)).for_each(|name| alike.push(name));
        });
        if let Some(alike) = alike {
            scan.check(&alike, CheckedNames::All, emit);
        }
    }
    parts.each(&mut |part| {
        let mut others = DirectoryBatch::new(part.dir.clone(), part.root_len);
        let mut found = Arena::new();
        suspects.add_to(&mut found, &part.directory(scan.prefix));
        let names = found.iter().map(|(_, name)| name);
        names.filter(|name| !suspects.is_alike(name)).for_each(|name| others.push(name));
        scan.check(&others, CheckedNames::All, emit);
    });
}
