//! Prepares moves: files whose new names are paths below their directory.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::SystemTime;

use namegate_core::name::display::display;
use namegate_files::json::Hex;

use super::prepare::BatchPreparer;
use crate::entry::{EntryFailure, look_up};
use crate::group::RenameGroup;
use crate::journal::BatchEntry;
use crate::moving::{Move, count_missing, split};
use crate::plan::{InodeTime, Rename};
use crate::roots::OpenPlanDir;
use crate::stored_plan::DirectoryRenames;

impl BatchPreparer<'_> {
    /// Finds the directories that files of `found` move into and whose names change too: which directory is meant is not certain then.
    pub(super) fn find_moves(
        &mut self,
        dir: &Result<Arc<OpenPlanDir>, EntryFailure>,
        found: &DirectoryRenames<'_>,
    ) -> io::Result<()> {
        self.unsettled.clear();
        let Ok(dir) = dir else { return Ok(()) };
        let mut into = HashSet::new();
        let _ = found.each(&mut |rename| {
            into.extend(split(rename.new.as_bytes()).map(|(into, _)| into[0].to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        if into.is_empty() {
            return Ok(());
        }
        let _ = found.each(&mut |rename| {
            let is_pending = || look_up(&**dir, &rename.old).is_ok_and(|found| found.is_some());
            for name in [&*rename.old, rename.new.as_bytes()] {
                if into.contains(name) && rename.confidence <= self.run.options.at_least && is_pending() {
                    self.unsettled.insert(name.to_vec());
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(())
    }

    /// The entry of a batch for renames that were checked.
    pub(super) fn entry_for(
        &self,
        dir: &OpenPlanDir,
        renames: &[&Rename],
        group: RenameGroup,
    ) -> Result<BatchEntry, EntryFailure> {
        let (Some((into, name)), [member]) = (split(renames[0].new.as_bytes()), &group.members[..]) else {
            return Ok(BatchEntry::Rename(group));
        };
        if self.unsettled.contains(into[0]) {
            let why = format!(
                "the plan changes the name {} too; make another plan after this one",
                display(into[0])
            );
            return Err(EntryFailure::Conflict(why));
        }
        let owner = member.checked_owner.unwrap_or_default();
        let missing = count_missing(dir.as_fd(), renames[0].new.as_bytes(), owner)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since = InodeTime { seconds: now.as_secs().cast_signed(), nanoseconds: now.subsec_nanos() };
        let mut member = member.clone();
        member.new = Hex(name.to_vec());
        let into = into.into_iter().map(|name| Hex(name.to_vec())).collect();
        Ok(BatchEntry::Move(Move { directory: 0, into, missing, since, member }))
    }
}
