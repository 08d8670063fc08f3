//! Directories with more names than should be held at a time.
//!
//! Each part is checked by itself and dropped; the fingerprint of each name is kept until the directory ends, to find names
//! that collide: four bytes. Only if there is something to report, the names are read again: to collect those with findings, and a few
//! times to suggest names that are not in use. If there are many, the fingerprint of each suggested name is kept too: only names whose
//! suggestions may be in use are held, all others are reported part by part. If findings are only counted, no more than a part is
//! held here either.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namegate_core::check::{HeldNames, RereadNames, SuspectNames};
use namegate_core::name::reading::{EncodingGuess, EncodingSample};
use namegate_core::policy::{
    EncodingHint, Fingerprints, NamesInUse, PartsSuggester, SuggestedName, UsedFingerprints,
};
use namegate_findings::directory::{CheckedNames, Handover, is_decoded_by_guess};
use namegate_findings::place_rules;

use super::batch_scan::BatchScan;
use crate::report::DirectoryFindings;
use crate::source::{DirectoryBatch, Parts, SiblingNames};

/// Bytes of names with findings that are held together if their findings are shown.
const MOST_HELD: usize = 1 << 18;

/// Takes the findings.
type FindingsSink<'e> = dyn FnMut(DirectoryFindings) + 'e;

/// Guesses the encodings of the names of a directory from a sample of those that are not UTF-8.
type Guess<'g> = dyn Fn(&Path, &EncodingSample) -> Option<EncodingGuess> + 'g;

/// A large directory that was checked.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LargeCheck {
    /// The number of names.
    pub(super) names: u64,
    /// The directory if its findings wait for more evidence, with the number of bytes of its path that are those of the root.
    pub(super) waits: Option<(PathBuf, usize)>,
}

/// The check of large directories.
pub(super) struct LargeScan<'c> {
    scan: &'c BatchScan<'c>,
    guess: &'c Guess<'c>,
    /// Bytes of names with findings that are held together if their findings are shown.
    most_held: usize,
}

impl<'c> LargeScan<'c> {
    pub(super) fn new(scan: &'c BatchScan<'c>, guess: &'c Guess<'c>) -> Self {
        Self { scan, guess, most_held: MOST_HELD }
    }

    /// Checks the names of a directory, and gives each part to `look` and the findings to `emit`.
    pub(super) fn check(
        &self,
        parts: &mut dyn Parts,
        look: &mut dyn FnMut(&DirectoryBatch),
        emit: &mut FindingsSink<'_>,
    ) -> LargeCheck {
        let scan = self.scan;
        let mut check = scan.directories.policy.check_in_parts();
        let (mut dir, mut root_len, mut names, mut has_objection) = (PathBuf::new(), 0, 0, false);
        parts.each(&mut |part| {
            names += part.count as u64;
            look(part);
            check.add(&part.directory(scan.prefix));
            if !has_objection {
                part.each_name(&mut |_, name| has_objection |= is_objected_to(part, name));
            }
            dir.clone_from(&part.dir);
            root_len = part.root_len;
        });
        let checked = LargeCheck { names, waits: None };
        if has_objection {
            check.add_violation();
        }
        let Some(mut suspects) = check.suspects() else { return checked };
        if !scan.directories.has_messages() {
            check_in_parts(parts, scan, &suspects, emit);
            return checked;
        }
        let found = self.collect_suspects(parts, &dir, &suspects);
        let used = suspects.take_used();
        let handover = match found {
            Some(found) if found.name_bytes() <= self.most_held => {
                let in_use: &mut NamesInUse<'_> = &mut |_, take| parts.each_name(take);
                let used = used.as_ref().into();
                scan.check(&found, CheckedNames::Suspects { in_use, used, hint: None }, emit)
            }
            Some(found) => {
                let hint = scan.directories.hint(found.encodings.as_deref()).unwrap_or(EncodingHint::Unknown);
                let suggester = scan.directories.policy.suggest_in_parts(hint);
                LargeDirectory { parts, scan, suspects: &suspects, suggester: &suggester }.check(used, emit)
            }
            None => Handover::Done,
        };
        LargeCheck { waits: (handover == Handover::Waits).then_some((dir, root_len)), ..checked }
    }

    /// Collects the suspects, with the encodings that are guessed from them; a few more than are held if there are too many. `None` if
    /// the directory can no longer be read at all.
    fn collect_suspects(
        &self,
        parts: &mut dyn Parts,
        dir: &Path,
        suspects: &SuspectNames<'_>,
    ) -> Option<DirectoryBatch> {
        let mut undecoded = EncodingSample::default();
        let mut found = collect_names(parts, &mut |found, part| {
            let names = suspects_of(part, self.scan, suspects);
            undecoded.add_all(&names.names);
            if let SiblingNames::Excluded(names) = &part.siblings {
                undecoded.add_all(names);
            }
            // More than that shows that there are too many; the rest is only sampled.
            if found.name_bytes() <= self.most_held {
                found.append(&names);
            }
        })?;
        // Those of an archive are known already.
        if found.encodings.is_none() && self.scan.directories.encoding.is_none() {
            found.encodings = (self.guess)(dir, &undecoded).map(Arc::new);
        }
        Some(found)
    }
}

/// Collects names of a directory as one batch; `None` if the directory can no longer be read at all.
fn collect_names(
    parts: &mut dyn Parts,
    collect: &mut dyn FnMut(&mut DirectoryBatch, &DirectoryBatch),
) -> Option<DirectoryBatch> {
    let mut found: Option<DirectoryBatch> = None;
    parts.each(&mut |part| collect(found.get_or_insert_with(|| part.without_names()), part));
    found
}

/// The suspects of a part, with their locations.
fn suspects_of(part: &DirectoryBatch, scan: &BatchScan<'_>, suspects: &SuspectNames<'_>) -> DirectoryBatch {
    let mut found = part.without_names();
    suspects.each_of(&part.directory(scan.prefix), &|name| is_objected_to(part, name), &mut |at, name| {
        found.push_from(part, at, name);
    });
    found
}

/// Whether where a part is makes `name` break a rule; the check of names does not know it.
fn is_objected_to(part: &DirectoryBatch, name: &[u8]) -> bool {
    place_rules::are_broken_by(part.container.as_ref(), part.dir.as_os_str().as_bytes(), &part.clashes, name)
}

/// Checks the suspects part by part: without suggested names, a name concerns only those with which it may collide.
fn check_in_parts(
    parts: &mut dyn Parts,
    scan: &BatchScan<'_>,
    suspects: &SuspectNames<'_>,
    emit: &mut FindingsSink<'_>,
) {
    if suspects.has_alike() {
        let alike = collect_names(parts, &mut |alike, part| {
            alike.append(&part.filtered(&mut |_, name| suspects.is_alike(name)));
        });
        if let Some(alike) = alike {
            scan.check(&alike, CheckedNames::All, emit);
        }
    }
    parts.each(&mut |part| {
        let found = suspects_of(part, scan, suspects);
        let others = found.filtered(&mut |_, name| !suspects.is_alike(name));
        scan.check(&others, CheckedNames::All, emit);
    });
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
    fn check(mut self, used: Option<UsedFingerprints>, emit: &mut FindingsSink<'_>) -> Handover {
        let Self { scan, suspects, suggester, .. } = self;
        let policy = scan.directories.policy;
        let (mut suggested, mut has_guesses) = (Fingerprints::new(policy), false);
        self.parts.each(&mut |part| {
            each_suspect(&suspects_of(part, scan, suspects), scan, suggester, &mut |_, _, _, new| {
                has_guesses |= !part.in_repository && new.is_some_and(is_decoded_by_guess);
                new.into_iter().for_each(|new| suggested.add_text(&new.name));
            });
        });
        let needs_evidence =
            matches!(suggester.hint(), EncodingHint::Guessed(guess) if guess.needs_evidence());
        if scan.directories.waits && has_guesses && needs_evidence {
            return Handover::Waits;
        }
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
            let found = suspects_of(part, scan, suspects);
            let others = match held.is_empty() {
                true => found,
                false => selected(&found, scan, suggester, &mut |name, new| !held.has(name, new)),
            };
            others.each_piece(&mut |piece| {
                scan.check(&piece, CheckedNames::Part(suggester), emit);
            });
        });
        Handover::Done
    }
}

impl RereadNames for LargeDirectory<'_, '_> {
    type Batch = DirectoryBatch;

    fn collect(&mut self, is_held: &mut dyn FnMut(&[u8], Option<&str>) -> bool) -> Option<DirectoryBatch> {
        let Self { parts, scan, suspects, suggester } = self;
        collect_names(*parts, &mut |names, part| {
            names.append(&selected(&suspects_of(part, scan, suspects), scan, suggester, is_held));
        })
    }

    fn each_name(&mut self, take: &mut dyn FnMut(&[u8])) {
        self.parts.each_name(take);
    }
}

/// The names of `found` for which `is_selected` returns `true`. Its arguments are a name and the name that is suggested for it without
/// regard to others.
fn selected(
    found: &DirectoryBatch,
    scan: &BatchScan<'_>,
    suggester: &PartsSuggester<'_>,
    is_selected: &mut dyn FnMut(&[u8], Option<&str>) -> bool,
) -> DirectoryBatch {
    let mut names = found.without_names();
    each_suspect(found, scan, suggester, &mut |piece, at, name, new| {
        if is_selected(name, new.map(|new| &*new.name)) {
            names.push_from(piece, at, name);
        }
    });
    names
}

/// Calls `take` with each name of `found`: the piece that holds it, its index there, itself, and the name that is suggested for it without
/// regard to others.
fn each_suspect(
    found: &DirectoryBatch,
    scan: &BatchScan<'_>,
    suggester: &PartsSuggester<'_>,
    take: &mut dyn FnMut(&DirectoryBatch, usize, &[u8], Option<&SuggestedName>),
) {
    let policy = scan.directories.policy;
    found.each_piece(&mut |piece| {
        let check = policy.check_directory(&piece.directory(scan.prefix));
        let suggested = check.map(|check| check.suggested_names_alone(policy, suggester)).unwrap_or_default();
        piece.each_name(&mut |at, name| take(&piece, at, name, suggested.get(&at)));
    });
}

#[cfg(test)]
mod tests;
