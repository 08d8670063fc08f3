//! Directories with more names than should be held at a time.
//!
//! Each part is checked by itself and dropped; the fingerprint of each name is kept until the directory ends, to find names
//! that collide: four bytes. Only if there is something to report, the names are read again: to collect those with findings, and a few
//! times to suggest names that are not in use. If there are many, the fingerprint of each suggested name is kept too: only names whose
//! suggestions may be in use are held, all others are reported part by part. If findings are only counted, no more than a part is
//! held here either.

use std::path::PathBuf;

use namegate_findings::directory::CheckedNames;

use super::BatchScan;
use crate::check::{DirectoryNames, HeldNames, RereadNames, SuspectNames};
use crate::name::arena::Arena;
use crate::name::reading::EncodingSample;
use crate::policy::{Fingerprints, NamesInUse, PartsSuggester, UsedFingerprints};
use crate::progress::Observer;
use crate::report::DirectoryFindings;
use crate::source::{DirectoryBatch, Parts};

/// Bytes of names with findings that are held together if their findings are shown.
const MOST_HELD: usize = 1 << 18;

/// Bytes of names that are checked together: what is found out about a name takes many times its length.
const CHECKED_TOGETHER: usize = 1 << 14;

/// Takes the findings.
type FindingsSink<'e> = dyn FnMut(DirectoryFindings) + 'e;

/// Checks the names of a large directory, gives the findings to `emit`, and returns the number of names.
pub(super) fn check(
    parts: &mut dyn Parts,
    scan: &BatchScan<'_>,
    observer: &dyn Observer,
    emit: &mut FindingsSink<'_>,
) -> u64 {
    check_holding(MOST_HELD, parts, scan, observer, emit)
}

/// [`check`], with at most `most_held` bytes of names with findings together.
fn check_holding(
    most_held: usize,
    parts: &mut dyn Parts,
    scan: &BatchScan<'_>,
    observer: &dyn Observer,
    emit: &mut FindingsSink<'_>,
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
    let Some(mut suspects) = check.suspects() else { return names };
    let emit = &mut |findings: DirectoryFindings| {
        observer.checked(&dir, 0, findings.records.len() as u64);
        emit(findings);
    };
    if !scan.directories.has_messages() {
        check_in_parts(parts, scan, &suspects, emit);
        return names;
    }
    let mut undecoded = EncodingSample::default();
    let found = collect_names(parts, |found, part| {
        let mut names = Arena::new();
        suspects.add_to(&mut names, &part.directory(prefix));
        undecoded.add_all(&names);
        // More than that shows that there are too many; the rest is only sampled.
        if found.len() <= most_held {
            found.append(&names);
        }
    });
    let used = suspects.take_used();
    match found {
        Some(found) if found.names.len() <= most_held => {
            let in_use: &mut NamesInUse<'_> = &mut |_, take| parts.each_name(take);
            let used = used.as_ref().into();
            scan.check(&found, CheckedNames::Suspects { in_use, used, hint: None }, emit);
        }
        Some(_) => {
            let suggester = scan.directories.policy.suggest_in_parts(scan.directories.encoding, &undecoded);
            LargeDirectory { parts, scan, suspects: &suspects, suggester: &suggester }.check(used, emit);
        }
        None => {}
    }
    names
}

/// Collects names of a directory as one batch; `None` if the directory can no longer be read at all.
fn collect_names(
    parts: &mut dyn Parts,
    mut collect: impl FnMut(&mut Arena, &DirectoryBatch),
) -> Option<DirectoryBatch> {
    let mut found: Option<DirectoryBatch> = None;
    parts.each(&mut |part| {
        let found = found.get_or_insert_with(|| DirectoryBatch::new(part.dir.clone(), part.root_len));
        collect(&mut found.names, part);
    });
    found
}

/// Checks the suspects part by part: without suggested names, a name concerns only those with which it may collide.
fn check_in_parts(
    parts: &mut dyn Parts,
    scan: &BatchScan<'_>,
    suspects: &SuspectNames<'_>,
    emit: &mut FindingsSink<'_>,
) {
    if suspects.has_alike() {
        let alike = collect_names(parts, |alike, part| {
            let names = part.names.iter().map(|(_, name)| name);
            names.filter(|name| suspects.is_alike(name)).for_each(|name| push(alike, name));
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

fn push(names: &mut Arena, name: &[u8]) {
    names.push(name).expect("it comes from an arena");
}

/// A directory with more findings than are held together.
struct LargeDirectory<'d, 'p> {
    parts: &'d mut dyn Parts,
    scan: &'d BatchScan<'d>,
    suspects: &'d SuspectNames<'p>,
    suggester: &'d PartsSuggester<'p>,
}

impl LargeDirectory<'_, '_> {
    /// Gives the findings to `emit`. `used` are the fingerprints of all names, if they are known.
    fn check(mut self, used: Option<UsedFingerprints>, emit: &mut FindingsSink<'_>) {
        let Self { scan, suspects, suggester, .. } = self;
        let policy = scan.directories.policy;
        let mut suggested = Fingerprints::new(policy);
        self.parts.each(&mut |part| {
            each_suspect(part, scan, suspects, suggester, &mut |_, new| {
                new.into_iter().for_each(|new| suggested.add_text(new));
            });
        });
        let mut held = HeldNames::new(suspects, used, suggested, &mut self);
        let found = held.check(&mut self, &mut |names: &DirectoryBatch, in_use, used| {
            let mut found = Vec::new();
            let hint = Some(suggester.hint());
            let keep = &mut |findings| found.push(findings);
            scan.check(names, CheckedNames::Suspects { in_use, used, hint }, keep);
            found
        });
        found.into_iter().flatten().for_each(&mut *emit);
        self.parts.each(&mut |part| {
            let mut others = DirectoryBatch::new(part.dir.clone(), part.root_len);
            let mut flush = |others: &mut DirectoryBatch| {
                scan.check(others, CheckedNames::Part(suggester), emit);
                others.names.clear();
            };
            let mut add = |name: &[u8]| {
                others.push(name);
                if others.names.len() >= CHECKED_TOGETHER {
                    flush(&mut others);
                }
            };
            if held.is_empty() {
                let mut found = Arena::new();
                suspects.add_to(&mut found, &part.directory(scan.prefix));
                found.iter().for_each(|(_, name)| add(name));
            } else {
                each_suspect(part, scan, suspects, suggester, &mut |name, new| {
                    if !held.has(name, new) {
                        add(name);
                    }
                });
            }
            flush(&mut others);
        });
    }
}

impl RereadNames for LargeDirectory<'_, '_> {
    type Batch = DirectoryBatch;

    fn collect(&mut self, is_held: &mut dyn FnMut(&[u8], Option<&str>) -> bool) -> Option<DirectoryBatch> {
        let Self { parts, scan, suspects, suggester } = self;
        collect_names(*parts, |names, part| {
            each_suspect(part, scan, suspects, suggester, &mut |name, new| {
                if is_held(name, new) {
                    push(names, name);
                }
            });
        })
    }

    fn each_name(&mut self, take: &mut dyn FnMut(&[u8])) {
        self.parts.each_name(take);
    }
}

/// Calls `take` with each suspect of `part`, and the name that is suggested for it without regard to others.
fn each_suspect(
    part: &DirectoryBatch,
    scan: &BatchScan<'_>,
    suspects: &SuspectNames<'_>,
    suggester: &PartsSuggester<'_>,
    take: &mut dyn FnMut(&[u8], Option<&str>),
) {
    let policy = scan.directories.policy;
    let mut found = Arena::new();
    suspects.add_to(&mut found, &part.directory(scan.prefix));
    let mut take_all = |names: &mut Arena| {
        let directory = DirectoryNames { names, ..part.directory(scan.prefix) };
        let check = policy.check_directory(&directory);
        let suggested = check.map(|check| check.suggested_names_alone(policy, suggester)).unwrap_or_default();
        for (at, (_, name)) in names.iter().enumerate() {
            take(name, suggested.get(&at).map(|new| &*new.name));
        }
        names.clear();
    };
    let mut names = Arena::new();
    for (_, name) in found.iter() {
        push(&mut names, name);
        if names.len() >= CHECKED_TOGETHER {
            take_all(&mut names);
        }
    }
    take_all(&mut names);
}

#[cfg(test)]
mod tests;
