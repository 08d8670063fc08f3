//! Directories with more names than should be held at a time.
//!
//! Each part is checked by itself and dropped; eight bytes of each name are kept until the directory ends, to find names
//! that collide. Only if there is something to report, the names are read again: to collect those with findings, and a few
//! times to suggest names that are not in use. If there are many, eight bytes are kept of each suggested name too: only names whose
//! suggestions may be in use are held, all others are reported part by part. If findings are only counted, no more than a part is
//! held here either.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use namegate_findings::directory::CheckedNames;

use super::BatchScan;
use crate::check::{DirectoryNames, SuspectNames};
use crate::name::arena::Arena;
use crate::name::escape::stable_hash;
use crate::policy::{FingerprintIndex, NamesInUse, PartsSuggester, SuggestedName, UsedFingerprints};
use crate::progress::Observer;
use crate::report::DirectoryFindings;
use crate::source::{DirectoryBatch, Parts};

/// Bytes of names with findings that are held together if their findings are shown.
const MOST_HELD: usize = 1 << 18;

/// The number of names from which the encodings are guessed.
const MOST_SAMPLED: usize = 4096;

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
    let mut undecoded = NameSample::default();
    let found = collect_names(parts, |found, part| {
        let mut names = Arena::new();
        suspects.add_to(&mut names, &part.directory(prefix));
        names.iter().for_each(|(_, name)| undecoded.add(name));
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
            let suggester =
                scan.directories.policy.suggest_in_parts(scan.directories.encoding, &undecoded.into_names());
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

/// Names that are not UTF-8: all of them, or some that do not depend on the order of the directory.
#[derive(Default)]
struct NameSample {
    by_hash: BTreeMap<u64, Box<[u8]>>,
}

impl NameSample {
    fn add(&mut self, name: &[u8]) {
        if std::str::from_utf8(name).is_err() {
            self.by_hash.insert(stable_hash(name), name.into());
            if self.by_hash.len() > MOST_SAMPLED {
                self.by_hash.pop_last();
            }
        }
    }

    fn into_names(self) -> Arena {
        let mut names = Arena::new();
        self.by_hash.values().for_each(|name| push(&mut names, name));
        names
    }
}

/// A directory with more findings than are held together.
struct LargeDirectory<'d, 'p> {
    parts: &'d mut dyn Parts,
    scan: &'d BatchScan<'d>,
    suspects: &'d SuspectNames<'p>,
    suggester: &'d PartsSuggester<'p>,
}

/// Which names are held and compared.
#[derive(Default)]
struct HeldNames {
    /// The fingerprints of the names that are suggested for them.
    suggested: HashSet<u64>,
    /// All suspects are held: too many of them compete for the same names.
    are_all: bool,
}

impl LargeDirectory<'_, '_> {
    /// Gives the findings to `emit`. `used` are the fingerprints of all names, if they are known.
    fn check(mut self, used: Option<UsedFingerprints>, emit: &mut FindingsSink<'_>) {
        let knows_all = used.is_some();
        let used = self.fingerprints(used);
        let mut held = HeldNames::default();
        if self.suspects.has_alike() || used.may_be_contested() {
            self.check_held(&mut held, &used, knows_all, emit);
        }
        let Self { parts, scan, suspects, suggester } = self;
        parts.each(&mut |part| {
            let mut others = DirectoryBatch::new(part.dir.clone(), part.root_len);
            each_suspect(part, scan, suspects, suggester, &mut |name, new| {
                if !held.has(suspects, suggester, &used, name, new) {
                    others.push(name);
                }
            });
            scan.check(&others, CheckedNames::Part(suggester), emit);
        });
    }

    /// The fingerprints of all suggested names, and of the names of the directory: of all that `used` has, otherwise of those that
    /// have one of the first.
    fn fingerprints(&mut self, used: Option<UsedFingerprints>) -> UsedFingerprints {
        let Self { parts, scan, suspects, suggester } = self;
        let policy = scan.directories.policy;
        let mut suggested = Vec::new();
        parts.each(&mut |part| {
            each_suspect(part, scan, suspects, suggester, &mut |_, new| {
                if let Some(new) = new {
                    policy.each_number(&new.name, |number| suggested.push(number));
                }
            });
        });
        suggested.sort_unstable();
        let find = || {
            let mut existing = Vec::new();
            parts.each_name(&mut |name| {
                let Ok(name) = std::str::from_utf8(name) else { return };
                policy.each_number(name, |number| {
                    existing.extend(suggested.binary_search(&number).is_ok().then_some(number));
                });
            });
            UsedFingerprints::new(existing)
        };
        used.unwrap_or_else(find).with_suggested(suggested)
    }

    /// Checks the names that may collide, and those whose suggested names may be in use. A number that is added to one of these can
    /// lead to a name that is suggested for another one, which is then held too. `knows_all`: `used` has the fingerprints of all names
    /// of the directory.
    fn check_held(
        &mut self,
        held: &mut HeldNames,
        used: &UsedFingerprints,
        knows_all: bool,
        emit: &mut FindingsSink<'_>,
    ) {
        let Self { parts, scan, suspects, suggester } = self;
        let policy = scan.directories.policy;
        loop {
            let mut of_held = HashSet::new();
            let names = collect_names(*parts, |names, part| {
                each_suspect(part, scan, suspects, suggester, &mut |name, new| {
                    if held.has(suspects, suggester, used, name, new) {
                        push(names, name);
                        new.inspect(|new| policy.each_number(&new.name, |number| _ = of_held.insert(number)));
                    }
                });
            });
            let Some(names) = names else { return };
            held.suggested.extend(of_held);
            let (mut found, mut is_complete) = (Vec::new(), true);
            let in_use: &mut NamesInUse<'_> = &mut |numbers, take| {
                if numbers.is_empty() && !held.are_all {
                    (held.are_all, is_complete) = (true, false);
                }
                for &number in numbers {
                    if used.count_suggested(number) > 0 && held.suggested.insert(number) {
                        is_complete = false;
                    }
                }
                let mut numbers = numbers.iter();
                if !knows_all || numbers.len() == 0 || numbers.any(|&number| used.count_existing(number) > 0)
                {
                    parts.each_name(take);
                }
            };
            let used = if knows_all { FingerprintIndex::Complete(used) } else { FingerprintIndex::Unknown };
            let hint = Some(suggester.hint());
            let keep = &mut |findings| found.push(findings);
            scan.check(&names, CheckedNames::Suspects { in_use, used, hint }, keep);
            if is_complete {
                return found.into_iter().for_each(emit);
            }
        }
    }
}

impl HeldNames {
    /// Reports whether `name`, for which `new` is suggested, is held.
    fn has(
        &self,
        suspects: &SuspectNames<'_>,
        suggester: &PartsSuggester<'_>,
        used: &UsedFingerprints,
        name: &[u8],
        new: Option<&SuggestedName>,
    ) -> bool {
        let mut is_wanted = self.are_all || suspects.is_alike(name);
        if let Some(new) = new.filter(|_| !is_wanted) {
            is_wanted = suggester.may_be_contested(used, name, &new.name);
            suggester.policy().each_number(&new.name, |number| is_wanted |= self.suggested.contains(&number));
        }
        is_wanted
    }
}

/// Calls `take` with each suspect of `part`, and the name that is suggested for it without regard to others.
fn each_suspect(
    part: &DirectoryBatch,
    scan: &BatchScan<'_>,
    suspects: &SuspectNames<'_>,
    suggester: &PartsSuggester<'_>,
    take: &mut dyn FnMut(&[u8], Option<&SuggestedName>),
) {
    let policy = scan.directories.policy;
    let mut found = Arena::new();
    suspects.add_to(&mut found, &part.directory(scan.prefix));
    let directory = DirectoryNames { names: &found, ..part.directory(scan.prefix) };
    let check = policy.check_directory(&directory);
    let suggested = check.map(|check| check.suggested_names_alone(policy, suggester)).unwrap_or_default();
    for (at, (_, name)) in found.iter().enumerate() {
        take(name, suggested.get(&at));
    }
}

#[cfg(test)]
mod tests;
