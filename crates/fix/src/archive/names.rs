//! The new paths of members.

use std::io;

use namegate_core::policy::Confidence;
use namegate_findings::records::RecordSorter;

use crate::new_names::{NameIndex, push_new_name};
use crate::stored_plan::StoredPlan;

/// Finds the new paths of members.
#[derive(Debug)]
pub struct MemberNames {
    /// The path of the directory of the last name that was looked up, and the length of the path of the archive in it.
    dir: Vec<u8>,
    top_len: usize,
    names: NameIndex,
    /// The parts of the last path, each with its new name: members of a directory follow each other.
    last: Vec<NewPart>,
}

/// What is said of members that [`leads_up`] finds.
pub(super) const LEADS_UP: &str = "its path has a part `..`";

/// Reports whether a path has a part `..`: no entry of a plan is above its root.
pub(super) fn leads_up(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|part| part == b"..")
}

#[derive(Debug)]
struct NewPart {
    old: Vec<u8>,
    new: Option<Vec<u8>>,
    /// The length of the path of its directory.
    dir_len: usize,
}

impl MemberNames {
    /// The renames of `plan` that are at least as certain as `least`.
    pub fn new(plan: &StoredPlan, least: Confidence) -> io::Result<Self> {
        let mut sorter = RecordSorter::default();
        plan.each_rename(least, &mut |dir, old, id, new| push_new_name(&mut sorter, dir, old, id, new))?;
        let dir = plan.header.roots.first().map(|root| root.path.clone()).unwrap_or_default();
        Ok(Self { top_len: dir.len(), dir, names: NameIndex::new(sorter)?, last: Vec::new() })
    }

    /// The path below which the plan renames.
    pub fn top(&self) -> &[u8] {
        &self.dir[..self.top_len]
    }

    /// Reports whether nothing is renamed.
    pub(super) const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The id and the new name of `old` in the directory `dir` of the plan.
    pub fn find(&self, dir: &[u8], old: &[u8]) -> io::Result<Option<(u64, Vec<u8>)>> {
        self.names.find(dir, old)
    }

    /// The new path of the member `path`; `None` if it stays. Separators, and parts that are no names, stay as they are.
    pub(super) fn new_path(&mut self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if leads_up(path) {
            return Ok(None);
        }
        let is_name = |part: &&[u8]| !matches!(*part, b"" | b".");
        let mut at = 0;
        for part in path.split(|&byte| byte == b'/').filter(is_name) {
            if self.last.get(at).is_none_or(|known| known.old != part) {
                if let Some(known) = self.last.get(at) {
                    self.dir.truncate(known.dir_len);
                }
                self.last.truncate(at);
                let new = self.names.find(&self.dir, part)?.map(|(_, new)| new);
                self.last.push(NewPart { old: part.to_vec(), new, dir_len: self.dir.len() });
                self.dir.push(b'/');
                self.dir.extend_from_slice(part);
            }
            at += 1;
        }
        if self.last[..at].iter().all(|part| part.new.is_none()) {
            return Ok(None);
        }
        let mut parts = self.last.iter();
        let pieces = path.split(|&byte| byte == b'/').map(|piece| match is_name(&piece) {
            true => parts.next().and_then(|part| part.new.as_deref()).unwrap_or(piece),
            false => piece,
        });
        Ok(Some(pieces.collect::<Vec<_>>().join(&b'/')))
    }

    /// The target of a symbolic link at the path `link` after all renames; `None` if it stays. It is followed by its text: a part that
    /// is a link itself is not looked into, so `..` behind a name is not followed.
    pub(super) fn new_target(&mut self, link: &[u8], target: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if target.starts_with(b"/") {
            return Ok(None);
        }
        let is_name = |part: &&[u8]| !matches!(*part, b"" | b".");
        let mut dir: Vec<&[u8]> = link.split(|&byte| byte == b'/').filter(is_name).collect();
        dir.pop();
        let (mut made, mut is_new, mut has_name) = (Vec::new(), false, false);
        for piece in target.split(|&byte| byte == b'/') {
            let mut piece_made = piece.to_vec();
            if piece == b".." {
                if has_name || dir.pop().is_none() {
                    return Ok(None);
                }
            } else if is_name(&piece) {
                has_name = true;
                dir.push(piece);
                let below = dir[..dir.len() - 1].iter().flat_map(|part| [&b"/"[..], part]);
                let parent = [self.top()].into_iter().chain(below).collect::<Vec<_>>().concat();
                if let Some((_, new)) = self.names.find(&parent, piece)? {
                    (piece_made, is_new) = (new, true);
                }
            }
            made.push(piece_made);
        }
        Ok(is_new.then(|| made.join(&b'/')))
    }
}
