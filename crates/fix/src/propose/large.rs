//! Directories with more names than should be held at a time.
//!
//! They are read part by part. The first pass finds whether names may need a line, and a sample of those whose encoding must be guessed.
//! The second pass makes the lines without regard to other parts, writes them to a temporary file, and keeps the fingerprint of each suggested
//! name. These show which names must be held and compared with others: they get their lines anew.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use namegate_core::check::{HeldNames, RereadNames, SuspectNames};
use namegate_core::name::reading::{EncodingGuess, EncodingSample};
use namegate_core::policy::Fingerprints;
use namegate_findings::records::{DirectoryOrder, EntryRecord, RecordSorter};
use namegate_scan::progress::Observer;
use namegate_scan::source::encodings::EarlierNames;
use namegate_scan::source::{DirectoryBatch, Parts, SiblingNames};

use super::directory::{NameProposer, OtherNames};
use super::line_maker::{LineMaker, LineSink};
use super::meanings::EncodingEvidence;
use super::spill::{LineSpill, MOST_HELD, SpilledLines, StoredLines};
use crate::in_order::in_order;
use crate::plan_record::LineRecord;

/// A large directory after the first pass.
pub(super) struct LargeDirectory<'d> {
    proposer: NameProposer<'d>,
    parts: &'d mut dyn Parts,
    /// The directory without its names.
    pub(super) directory: DirectoryBatch,
    /// `None` if no name needs a line.
    suspects: Option<SuspectNames<'d>>,
    undecoded: EncodingSample,
}

/// The lines of a large directory after the second pass.
pub(super) struct LargeProposals<'d> {
    lines: SpilledLines,
    evidence: Arc<EncodingEvidence>,
    /// The fingerprints of the suggested names.
    suggested: Fingerprints<'d>,
    /// Whether more evidence could make a guessed encoding likely, or change it.
    pub(super) is_uncertain: bool,
    /// The number of names that get no new name because the targets only advise against them.
    pub(super) left_out: u64,
}

impl<'d> LargeDirectory<'d> {
    /// Makes the first pass; `None` if the directory can no longer be read at all.
    pub(super) fn survey(
        proposer: NameProposer<'d>,
        parts: &'d mut dyn Parts,
        observer: &dyn Observer,
    ) -> Option<Self> {
        let prefix = &proposer.settings.prefix;
        let mut check = proposer.policy.check_in_parts();
        let (mut undecoded, mut converts, mut directory) = (EncodingSample::default(), false, None);
        parts.each(&mut |part| {
            check.add(&part.directory(prefix));
            undecoded.add_all(&part.names);
            if let SiblingNames::Excluded(names) = &part.siblings {
                undecoded.add_all(names);
            }
            converts = converts || proposer.converts(part);
            observer.checked(&part.dir, part.count as u64, 0);
            let directory =
                directory.get_or_insert_with(|| DirectoryBatch::new(part.dir.clone(), part.root_len));
            directory.has_links |= part.has_links;
            directory.in_repository |= part.in_repository;
            directory.has_work_tree |= part.has_work_tree;
        });
        let suspects = if converts { Some(check.into_suspects()) } else { check.suspects() };
        Some(Self { proposer, parts, directory: directory?, suspects, undecoded })
    }

    /// What is known of the encodings of the names; `None` if no name needs a line.
    pub(super) fn evidence(&self, earlier: &EarlierNames) -> Option<Arc<EncodingEvidence>> {
        self.suspects.as_ref()?;
        let guess = |counts: &_| EncodingGuess::for_sample(&self.undecoded, counts);
        Some(Arc::new(EncodingEvidence::new(self.proposer.settings, earlier, guess)))
    }

    /// Makes the second pass.
    pub(super) fn propose(
        &mut self,
        evidence: Arc<EncodingEvidence>,
        lines: &LineMaker<'_>,
    ) -> io::Result<LargeProposals<'d>> {
        let Self { proposer, parts, suspects, .. } = self;
        let is_alike = |name: &[u8]| suspects.as_ref().is_some_and(|suspects| suspects.is_alike(name));
        let (mut spill, mut suggested) = (LineSpill::default(), Fingerprints::new(proposer.policy));
        let make_pieces = |give: &mut dyn FnMut(DirectoryBatch) -> ControlFlow<()>| {
            let mut is_ended = false;
            parts.each(&mut |part| {
                part.each_piece(&mut |piece| {
                    is_ended = is_ended || lines.is_stopped() || give(piece).is_break();
                });
            });
            Ok(())
        };
        let propose = |piece: DirectoryBatch| {
            let proposals = proposer.propose_part(&piece, &evidence, OtherNames::Ignored);
            let mut stored = StoredLines::default();
            proposals.long_lines(lines).into_iter().for_each(|line| stored.push_alone(line));
            stored.add(&proposals, 0..proposals.len(), &is_alike, lines);
            (stored, proposals.is_uncertain, proposals.left_out)
        };
        let (mut is_uncertain, mut left_out) = (false, 0);
        in_order(proposer.jobs, make_pieces, propose, &mut |(stored, has_guesses, left_out_here)| {
            is_uncertain |= has_guesses;
            left_out += left_out_here;
            spill.add(stored, &mut |new| suggested.add_text(new))
        })?;
        let lines = spill.finish()?;
        Ok(LargeProposals { lines, evidence, suggested, is_uncertain, left_out })
    }

    /// Gives the lines of `proposals` to `take`, and returns the number of names with one.
    pub(super) fn write(
        self,
        proposals: LargeProposals<'d>,
        lines: &LineMaker<'_>,
        take: &mut LineSink<'_>,
    ) -> io::Result<u64> {
        let Self { proposer, parts, directory, suspects, .. } = self;
        let Some(mut suspects) = suspects.filter(|_| !lines.is_stopped()) else { return Ok(0) };
        let LargeProposals { lines: alone, evidence, suggested, .. } = proposals;
        let used = suspects.take_used();
        let mut names = SpilledNames { parts, lines: &alone, directory, failure: None };
        let mut held = HeldNames::new(&suspects, used, suggested, &mut names);
        let compared = held.check(&mut names, &mut |names: &DirectoryBatch, in_use, used| {
            let proposals = proposer.propose_part(names, &evidence, OtherNames::Given(in_use, used));
            let mut compared = RecordSorter::new(DirectoryOrder::Bytes, MOST_HELD);
            proposals.make_lines(lines, proposer.jobs, &mut |lines| {
                lines.iter().try_for_each(|line| compared.push(line.in_directory(b"")))
            })?;
            compared.finish()
        });
        if let Some(error) = names.failure {
            return Err(error);
        }
        let compared = compared.transpose()?;
        let mut count = 0;
        alone.each(&mut |line| {
            let is_compared = compared.is_some() && !line.is_long() && held.has(line.name, line.new);
            let Some(record) = line.to_record().filter(|_| !is_compared) else { return Ok(()) };
            count += u64::from(!line.is_long());
            take(&[record])
        })?;
        if let Some(compared) = compared {
            let mut cursor = compared.cursor()?;
            while let Some(EntryRecord { name, payload, .. }) = cursor.next()? {
                count += 1;
                take(&[LineRecord { key: name.to_vec(), payload: payload.to_vec() }])?;
            }
        }
        Ok(count)
    }
}

/// The names of a large directory with their suggested names, from the temporary file.
struct SpilledNames<'c> {
    parts: &'c mut dyn Parts,
    lines: &'c SpilledLines,
    /// The directory without its names.
    directory: DirectoryBatch,
    /// Why the temporary file cannot be read.
    failure: Option<io::Error>,
}

impl RereadNames for SpilledNames<'_> {
    type Batch = DirectoryBatch;

    fn collect(&mut self, is_held: &mut dyn FnMut(&[u8], Option<&str>) -> bool) -> Option<DirectoryBatch> {
        let mut held = DirectoryBatch::new(self.directory.dir.clone(), self.directory.root_len);
        held.in_repository = self.directory.in_repository;
        let read = self.lines.each(&mut |line| {
            if !line.is_long() && is_held(line.name, line.new) {
                held.push(line.name);
            }
            Ok(())
        });
        match read {
            Ok(()) => Some(held),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    fn each_name(&mut self, take: &mut dyn FnMut(&[u8])) {
        self.parts.each_name(take);
    }
}

#[cfg(test)]
mod tests;
