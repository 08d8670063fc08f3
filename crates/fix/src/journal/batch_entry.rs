//! One change of a batch.

use std::borrow::Cow;
use std::slice;

use namegate_files::json::Hex;
use serde::{Deserialize, Serialize};

use crate::group::{GroupMember, RenameGroup};
use crate::moving::Move;
use crate::plan::{FileKind, name_objection};
use crate::relink::Relink;

/// A change, as a record of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum BatchEntry {
    /// Renames that belong together.
    Rename(RenameGroup),
    /// A new target for a symbolic link.
    Retarget(Relink),
    /// A file that moves into other directories.
    Move(Move),
}

impl BatchEntry {
    /// The index of the directory in the batch.
    pub const fn directory(&self) -> usize {
        match self {
            Self::Rename(group) => group.directory,
            Self::Retarget(relink) => relink.directory,
            Self::Move(moved) => moved.directory,
        }
    }

    pub(crate) fn set_directory(&mut self, index: usize) {
        match self {
            Self::Rename(group) => group.directory = index,
            Self::Retarget(relink) => relink.directory = index,
            Self::Move(moved) => moved.directory = index,
        }
    }

    /// The entries that get another name.
    pub(crate) fn members(&self) -> &[GroupMember] {
        match self {
            Self::Rename(group) => &group.members,
            Self::Move(moved) => slice::from_ref(&moved.member),
            Self::Retarget(_) => &[],
        }
    }

    /// The old and the new names of these entries. That of a file that moves is a path.
    pub(crate) fn names(&self) -> Vec<(&[u8], Cow<'_, [u8]>)> {
        match self {
            Self::Move(moved) => vec![(&moved.member.old, moved.path().into())],
            _ => self.members().iter().map(|member| (&**member.old, (&**member.new).into())).collect(),
        }
    }

    /// Reports whether a path or the target of a link is another one afterwards.
    pub(crate) fn changes_paths(&self) -> bool {
        let is_directory = |member: &GroupMember| member.kind == FileKind::Directory;
        matches!(self, Self::Retarget(_)) || self.members().iter().any(is_directory)
    }

    /// The number of lines of the plan.
    pub fn lines(&self) -> usize {
        self.members().len().max(1)
    }

    /// Reports whether no name or target is one that no entry can have.
    pub(super) fn is_valid(&self) -> bool {
        let is_name = |name: &Hex| name_objection(name).is_none();
        let names = self.members().iter().flat_map(|member| [&member.old, &member.new]);
        names.into_iter().all(is_name)
            && match self {
                Self::Rename(group) => {
                    let is_group = match &group.members[..] {
                        [] => false,
                        [_] => true,
                        members => group.temp_name.is_some() && is_cycle(members),
                    };
                    is_group && group.temp_name.iter().all(is_name)
                }
                Self::Retarget(relink) => {
                    let targets = [&relink.old_target, &relink.new_target];
                    [&relink.name, &relink.temp_name, &relink.private_dir].into_iter().all(is_name)
                        && relink.name != relink.private_dir
                        && targets.iter().all(|target| !target.contains(&0))
                }
                Self::Move(moved) => {
                    let is_counted = moved.missing <= moved.into.len();
                    !moved.into.is_empty() && is_counted && moved.into.iter().all(is_name)
                }
            }
    }
}

/// Reports whether each member gets the name of the next, and the last that of the first.
fn is_cycle(members: &[GroupMember]) -> bool {
    members.iter().zip(members.iter().cycle().skip(1)).all(|(member, next)| member.new == next.old)
}
