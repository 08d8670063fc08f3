//! The changes between two flushes of the journal.

use std::borrow::Cow;

use super::record::{BatchDirectory, JournalRecord, RenderedRecords};
use crate::group::{GroupMember, RenameGroup};
use crate::moving::Move;
use crate::plan::{FileKind, name_objection};
use crate::relink::Relink;

/// Renames and retargets that are written together before the first of them is executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalBatch {
    /// The number, from 1.
    pub number: u64,
    pub directories: Vec<BatchDirectory>,
    /// The changes, in order.
    pub entries: Vec<BatchEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchEntry {
    /// Renames that belong together.
    Rename(RenameGroup),
    /// A new target for a symbolic link.
    Retarget(Relink),
    /// A file that moves into other directories.
    Move(Move),
}

impl BatchEntry {
    pub const fn directory(&self) -> usize {
        match self {
            Self::Rename(group) => group.directory,
            Self::Retarget(relink) => relink.directory,
            Self::Move(moved) => moved.directory,
        }
    }

    /// Reports whether a path or the target of a link is another one afterwards.
    pub(crate) fn changes_paths(&self) -> bool {
        match self {
            Self::Rename(group) => group.members.iter().any(|member| member.kind == FileKind::Directory),
            Self::Retarget(_) => true,
            // Only files move.
            Self::Move(_) => false,
        }
    }

    /// The number of lines of the plan.
    pub fn lines(&self) -> usize {
        match self {
            Self::Rename(group) => group.members.len(),
            Self::Retarget(_) | Self::Move(_) => 1,
        }
    }
}

impl JournalBatch {
    pub(super) fn head(&self) -> JournalRecord<'static> {
        JournalRecord::Batch {
            number: self.number,
            directories: self.directories.len(),
            entries: self.entries.len(),
        }
    }

    /// The records after the first one, which do not depend on the number.
    pub(crate) fn render(directories: &[BatchDirectory], entries: &[BatchEntry]) -> RenderedRecords {
        let mut rendered = RenderedRecords::default();
        directories.iter().for_each(|dir| rendered.push(&JournalRecord::Directory(Cow::Borrowed(dir))));
        for entry in entries {
            rendered.push(&match entry {
                BatchEntry::Rename(group) => JournalRecord::Rename(Cow::Borrowed(group)),
                BatchEntry::Retarget(relink) => JournalRecord::Retarget(Cow::Borrowed(relink)),
                BatchEntry::Move(moved) => JournalRecord::Move(Cow::Borrowed(moved)),
            });
        }
        rendered
    }

    /// Adds a record that follows the head of the batch; `None` if the record is out of place or has an invalid name.
    pub(super) fn add(&mut self, record: JournalRecord<'_>) -> Option<()> {
        let entry = match record {
            JournalRecord::Directory(directory) if self.entries.is_empty() => {
                self.directories.push(directory.into_owned());
                return Some(());
            }
            JournalRecord::Rename(group) => {
                let names = group.members.iter().flat_map(|member| [&member.old, &member.new]);
                let is_valid = match group.members.len() {
                    0 => false,
                    1 => true,
                    _ => group.temp_name.is_some() && is_cycle(&group.members),
                };
                if !is_valid || names.chain(&group.temp_name).any(|name| !is_name(name)) {
                    return None;
                }
                BatchEntry::Rename(group.into_owned())
            }
            JournalRecord::Retarget(relink) => {
                let names = [&relink.name, &relink.temp_name, &relink.private_dir];
                let are_names = names.iter().all(|name| is_name(name));
                let targets = [&relink.old_target, &relink.new_target];
                if !are_names
                    || relink.name == relink.private_dir
                    || targets.iter().any(|target| target.contains(&0))
                {
                    return None;
                }
                BatchEntry::Retarget(relink.into_owned())
            }
            JournalRecord::Move(moved) => {
                let names = moved.into.iter().chain([&moved.member.old, &moved.member.new]);
                let is_valid = (1..=moved.into.len()).contains(&moved.missing) || moved.missing == 0;
                if moved.into.is_empty() || !is_valid || names.into_iter().any(|name| !is_name(name)) {
                    return None;
                }
                BatchEntry::Move(moved.into_owned())
            }
            _ => return None,
        };
        self.directories.get(entry.directory())?;
        self.entries.push(entry);
        Some(())
    }
}

fn is_name(name: &[u8]) -> bool {
    name_objection(name).is_none()
}

/// Reports whether each member gets the name of the next, and the last that of the first.
fn is_cycle(members: &[GroupMember]) -> bool {
    members.iter().zip(members.iter().cycle().skip(1)).all(|(member, next)| member.new == next.old)
}
