//! Plans names for the members of an archive, as if they were unpacked below the path of the archive.

use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use namegate_core::policy::Policy;
use namegate_scan::progress::Observer;
use namegate_scan::source::scope::Exclude;
use namegate_scan::source::{Source, SourceEvent};
use parking_lot::Mutex;

use super::directory::NameProposer;
use super::root_set::RootSet;
use super::{PlanDraft, PlanReader, PlanSettings, TreeFindings, advice_of};
use crate::archive::MemberSource;

/// Reads the names of the members of an archive, and drafts a plan. Faults of the archive go to `observer`.
pub fn propose_for_members(
    members: &MemberSource,
    policy: &Policy,
    settings: &PlanSettings,
    jobs: usize,
    observer: &dyn Observer,
) -> io::Result<PlanDraft> {
    let root_set = RootSet::of_archive(members.path());
    let source = members.for_names();
    let advice = advice_of(policy);
    let proposer = NameProposer { policy, settings, advice: advice.as_ref(), jobs };
    let reader = PlanReader { proposer, observer, root_set: &root_set, found: Mutex::default() };
    source.read(&|event| reader.handle(event, None));
    let (uncertain, encodings) = {
        let mut found = reader.found();
        (std::mem::take(&mut found.uncertain), std::mem::take(&mut found.encodings))
    };
    // The names of the whole archive are evidence for what its directories leave uncertain.
    let uncertain: BTreeSet<Vec<u8>> = uncertain.into_iter().map(|directory| directory.dir).collect();
    if !uncertain.is_empty() {
        source.read(&|mut event| match directory_of(&mut event) {
            Some(dir) if uncertain.contains(dir.as_os_str().as_bytes()) => {
                let earlier = encodings.elsewhere(dir.as_os_str().as_bytes()).unwrap_or_default();
                reader.handle(event, Some(&earlier))
            }
            _ => ControlFlow::Continue(()),
        });
    }
    let TreeFindings { lines, linked, left_out, failure, .. } = reader.found.into_inner();
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut draft = PlanDraft::new(root_set, Exclude::default(), lines.finish()?, linked.finish()?);
    draft.left_out = left_out;
    Ok(draft)
}

/// The directory of an event that is about one.
pub(crate) fn directory_of(event: &mut SourceEvent<'_>) -> Option<PathBuf> {
    match event {
        SourceEvent::Directory(batch) => Some(batch.dir.clone()),
        SourceEvent::Large(parts) => {
            let mut dir = None;
            parts.each(&mut |part| _ = dir.get_or_insert_with(|| part.dir.clone()));
            dir
        }
        _ => None,
    }
}
