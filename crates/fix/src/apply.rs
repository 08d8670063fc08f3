//! Applies a plan.
//!
//! Directory by directory, the deepest first, in batches: check the renames of the directory as a whole and that each entry is
//! still the one of the plan, write the intentions to the journal, flush them to the disk, execute them. While one batch is
//! executed, another thread checks the next one. The links follow when all names are changed. Of a large directory only a part
//! of the plan is in memory at a time.

mod commit;
mod links;
mod moves;
mod preflight;
mod prepare;
mod suspects;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use namegate_core::policy::{Confidence, Policy};
use namegate_scan::progress::Observer;

use self::commit::BatchCommitter;
use self::links::LinkUpdate;
use self::prepare::{BatchPreparer, PreparedBatch, PreparedIds};
use super::journal::{Journal, JournalContents};
use super::plan::Retarget;
use super::roots::PlanRoots;
use super::stored_plan::StoredPlan;

/// The default number of renames in a batch: each costs two flushes, and is held in memory twice.
pub const BATCH_SIZE: usize = 16_384;

/// How a plan is applied.
#[derive(Clone, Copy, Debug)]
pub struct ApplyOptions<'p> {
    /// The policy for new names; without it only their bytes are compared.
    pub policy: Option<&'p Policy>,
    /// Leave out renames that are less certain.
    pub at_least: Confidence,
    /// Keep the times of directories.
    pub keep_times: bool,
    /// Keep the original names in an attribute.
    pub keep_original: bool,
    /// The number of renames in a batch.
    pub batch_size: usize,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyTally {
    /// Entries that this run renamed, or would rename.
    pub renamed: u64,
    /// Links that this run retargeted, or would retarget.
    pub retargeted: u64,
    /// Lines of the plan that were done before.
    pub already: u64,
    /// Lines of the plan that remain.
    pub remaining: u64,
    /// Lines of the plan that are less certain than requested.
    pub left_out: u64,
    /// The run was stopped before the end of the plan.
    pub is_interrupted: bool,
    /// How many original names could not be kept, by reason.
    pub not_kept: BTreeMap<&'static str, u64>,
}

/// Computes what applying the plan would do, without any change.
///
/// # Errors
/// A temporary file cannot be read.
pub fn rehearse(
    plan: &StoredPlan,
    roots: PlanRoots,
    options: ApplyOptions<'_>,
    observer: &dyn Observer,
) -> io::Result<ApplyTally> {
    let run = ApplyRun::new(plan, roots, options);
    run.execute(BatchCommitter::new(&run.roots, None, options, observer))
}

/// Applies the plan with a journal. `earlier` is what the journal says already, of a run that was killed or interrupted.
///
/// # Errors
/// The journal cannot be written, for example on a full disk. Changes that are not in the journal were not made.
pub fn apply(
    plan: &StoredPlan,
    roots: PlanRoots,
    journal: &mut Journal,
    earlier: Option<&JournalContents>,
    options: ApplyOptions<'_>,
    observer: &dyn Observer,
) -> io::Result<ApplyTally> {
    let run = ApplyRun::new(plan, roots, options);
    let mut committer = BatchCommitter::new(&run.roots, Some(journal), options, observer);
    if let Some(earlier) = earlier {
        committer.resume(earlier)?;
    }
    run.execute(committer)
}

/// The links of a plan by directory and name.
type LinksByName<'p> = HashMap<(&'p [u8], &'p [u8]), &'p Retarget>;

/// Passes a batch on to be executed. Breaks if the run is to end.
type BatchSink<'s> = dyn FnMut(PreparedBatch) -> io::Result<ControlFlow<()>> + 's;

struct ApplyRun<'r> {
    plan: &'r StoredPlan,
    roots: Arc<PlanRoots>,
    links: LinksByName<'r>,
    options: ApplyOptions<'r>,
}

impl<'r> ApplyRun<'r> {
    fn new(plan: &'r StoredPlan, roots: PlanRoots, options: ApplyOptions<'r>) -> Self {
        let links = plan.retargets.iter().map(|link| ((&*link.directory.path, &*link.name), link)).collect();
        Self { plan, roots: Arc::new(roots), links, options }
    }

    fn execute(&self, mut committer: BatchCommitter<'_>) -> io::Result<ApplyTally> {
        let preparer = BatchPreparer::new(self, &committer);
        // The times of a directory are those from before a batch, so the next batch in it waits for the one before.
        let ids = match committer.is_rehearsal() || self.options.keep_times {
            true => preparer.prepare_plan(&mut |batch| committer.commit(batch))?,
            false => Self::prepare_meanwhile(preparer, &mut committer)?,
        };
        committer.rename_again()?;
        if !committer.is_interrupted() {
            LinkUpdate::new(self, &ids).retarget_links(&mut committer)?;
        }
        committer.finish()
    }

    /// Prepares each batch while the one before is committed.
    fn prepare_meanwhile(
        preparer: BatchPreparer<'_>,
        committer: &mut BatchCommitter<'_>,
    ) -> io::Result<PreparedIds> {
        // No batch waits in between: the directories of each are open.
        let (sender, receiver): (SyncSender<PreparedBatch>, Receiver<PreparedBatch>) = sync_channel(0);
        thread::scope(|scope| {
            let prepared = scope.spawn(move || {
                preparer.prepare_plan(&mut |batch| {
                    // The other thread stops receiving when the run ends.
                    Ok(sender.send(batch).map_or(ControlFlow::Break(()), ControlFlow::Continue))
                })
            });
            let mut committed = Ok(());
            for batch in &receiver {
                match committer.commit(batch) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => break,
                    Err(error) => {
                        committed = Err(error);
                        break;
                    }
                }
            }
            drop(receiver);
            let ids = prepared.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            committed.and(ids)
        })
    }
}
