//! Applies a plan.
//!
//! Directory by directory, the deepest first, in batches: check the renames of the directory as a whole and that each entry is
//! still the one of the plan, write the intentions to the journal, flush them to the disk, execute them. While one batch is
//! executed, another thread checks the next one. The links follow when all names are changed. Of a large directory only a part
//! of the plan is in memory at a time.

mod commit;
mod link_update;
mod moves;
mod preflight;
mod prepare;
mod prepared;
mod run;
mod suspects;

use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use self::commit::BatchCommitter;
use self::link_update::LinkUpdate;
use self::prepare::BatchPreparer;
use self::prepared::{PreparedBatch, PreparedIds};
use self::run::ApplyRun;
pub use self::run::{ApplyOptions, ApplyTally};
use super::journal::{Journal, JournalContents};
use super::roots::PlanRoots;
use super::stored_plan::StoredPlan;
use crate::progress::ChangeObserver;

/// The default number of renames in a batch: each costs two flushes, and is held in memory twice.
pub const BATCH_SIZE: usize = 16_384;

/// Computes what applying the plan would do, without any change.
pub fn rehearse(
    plan: &StoredPlan,
    roots: PlanRoots,
    options: ApplyOptions<'_>,
    observer: &dyn ChangeObserver,
) -> io::Result<ApplyTally> {
    let run = ApplyRun::new(plan, roots, options);
    execute(&run, BatchCommitter::new(&run.roots, None, options, observer))
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
    observer: &dyn ChangeObserver,
) -> io::Result<ApplyTally> {
    let run = ApplyRun::new(plan, roots, options);
    let mut committer = BatchCommitter::new(&run.roots, Some(journal), options, observer);
    if let Some(earlier) = earlier {
        committer.resume(earlier)?;
    }
    execute(&run, committer)
}

/// Executes the whole plan.
fn execute(run: &ApplyRun<'_>, mut committer: BatchCommitter<'_>) -> io::Result<ApplyTally> {
    let preparer = BatchPreparer::new(run, &committer);
    // The times of a directory are those from before a batch, so the next batch in it waits for the one before.
    let ids = match committer.is_rehearsal() || run.options.keep_times {
        true => preparer.prepare_plan(&mut |batch| committer.commit(batch))?,
        false => prepare_meanwhile(preparer, &mut committer)?,
    };
    committer.rename_again()?;
    if !committer.is_interrupted() {
        LinkUpdate::new(run, &ids).retarget_links(&mut committer)?;
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
