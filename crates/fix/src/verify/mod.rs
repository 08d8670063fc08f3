//! Compares what arrived at a target with its source: names, kinds, sizes, link texts and, on request, contents.
//!
//! Both trees are read into records, sorted by their paths without regard to case and normalization, and merged. So memory does not grow
//! with the trees. Nothing is changed, and no link is followed.

mod copy_difference;
mod entry_record;
mod merge;
mod planned_names;
mod tree_reader;

use std::io;

use namegate_core::policy::Policy;
use namegate_scan::progress::Observer;

pub use self::copy_difference::{CopyDifference, DifferenceSink, VerifyCounts, VerifyRequest};
use self::entry_record::Side;
use self::merge::Merge;
pub use self::planned_names::PlannedNames;
use self::tree_reader::TreeRecords;

/// Compares the trees. `policy` says which names are one for the target.
///
/// # Errors
/// A root cannot be read, a temporary file cannot be written, or `take` fails.
pub fn verify(
    request: &VerifyRequest,
    policy: &Policy,
    observer: &dyn Observer,
    take: &mut DifferenceSink<'_>,
) -> io::Result<VerifyCounts> {
    let records = TreeRecords::new(request, observer)?;
    records.read(Side::Source)?;
    records.read(Side::Target)?;
    let (roots, unread, sorted) = records.finish()?;
    let mut merge = Merge::new(request, policy, observer, &roots, &unread, take);
    if !observer.is_stopped() {
        merge.run(&sorted)?;
    }
    Ok(merge.counts)
}
