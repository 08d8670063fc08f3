//! What is done between two times that the journal is brought to the disk.

use super::record::{self, Base64, Hex, Moment, Record, Word};
use crate::fix::entry::Identity;
use crate::fix::group::{Group, Member};
use crate::fix::relink::Relink;
use crate::sys::stat::Time;

/// Renames and retargets that are written down together before the first of them is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// From 1.
    pub number: u64,
    /// Where they are done.
    pub places: Vec<Place>,
    /// What is done, in order, each with the index of its place.
    pub entries: Vec<(usize, Entry)>,
}

/// A directory of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its path as the plan has it.
    pub path: Vec<u8>,
    /// The number of its inode.
    pub ino: u64,
    /// When it was read last, before the batch.
    pub atime: Time,
    /// When it was changed last, before the batch.
    pub mtime: Time,
}

/// One thing that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Renames.
    Rename(Group),
    /// A link that gets another target.
    Retarget(Relink),
}

impl Entry {
    /// How many lines of the plan it is.
    pub fn lines(&self) -> usize {
        match self {
            Self::Rename(group) => group.members.len(),
            Self::Retarget(_) => 1,
        }
    }
}

impl Batch {
    /// The records.
    pub(super) fn records(&self) -> impl Iterator<Item = Record> {
        let head = Record::Batch {
            number: self.number,
            directories: self.places.len(),
            entries: self.entries.len(),
        };
        let places = self.places.iter().map(|place| {
            Record::Directory(record::Directory {
                path: Base64(place.path.clone()),
                inode: place.ino,
                atime: Moment(place.atime),
                mtime: Moment(place.mtime),
            })
        });
        let entries = self.entries.iter().map(|(directory, entry)| match entry {
            Entry::Rename(group) => Record::Rename(record::Rename {
                directory: *directory,
                via: group.via.clone().map(Hex),
                members: group.members.iter().map(member_record).collect(),
            }),
            Entry::Retarget(relink) => Record::Retarget(record::Retarget {
                directory: *directory,
                name: Hex(relink.name.clone()),
                via: Hex(relink.via.clone()),
                old_target: Base64(relink.old.clone()),
                new_target: Base64(relink.new.clone()),
                inode: relink.ino,
                atime: Moment(relink.atime),
                mtime: Moment(relink.mtime),
                uid: relink.owner.0,
                gid: relink.owner.1,
            }),
        });
        std::iter::once(head).chain(places).chain(entries)
    }

    /// Takes in a record that follows the head of the batch; `None` if it does not belong there, or names what cannot be a name.
    pub(super) fn take(&mut self, record: Record) -> Option<()> {
        let entry = match record {
            Record::Directory(directory) if self.entries.is_empty() => {
                self.places.push(Place {
                    path: directory.path.0,
                    ino: directory.inode,
                    atime: directory.atime.0,
                    mtime: directory.mtime.0,
                });
                return Some(());
            }
            Record::Rename(rename) => {
                let members = rename.members.into_iter().map(member).collect::<Vec<_>>();
                let group = Group { members, via: rename.via.map(|via| via.0) };
                let names = group.members.iter().flat_map(|member| [&member.old, &member.new]);
                let is_sound = match group.members.len() {
                    0 => false,
                    1 => true,
                    _ => group.via.is_some() && is_cycle(&group.members),
                };
                if !is_sound || names.chain(&group.via).any(|name| !is_name(name)) {
                    return None;
                }
                (rename.directory, Entry::Rename(group))
            }
            Record::Retarget(retarget) => {
                let relink = Relink {
                    name: retarget.name.0,
                    via: retarget.via.0,
                    old: retarget.old_target.0,
                    new: retarget.new_target.0,
                    ino: retarget.inode,
                    atime: retarget.atime.0,
                    mtime: retarget.mtime.0,
                    owner: (retarget.uid, retarget.gid),
                };
                let is_sound = is_name(&relink.name) && is_name(&relink.via) && relink.name != relink.via;
                if !is_sound || relink.old.contains(&0) || relink.new.contains(&0) {
                    return None;
                }
                (retarget.directory, Entry::Retarget(relink))
            }
            _ => return None,
        };
        self.places.get(entry.0)?;
        self.entries.push(entry);
        Some(())
    }
}

/// Whether it can be the name of an entry.
fn is_name(name: &[u8]) -> bool {
    crate::fix::plan::name_objection(name).is_none()
}

/// Whether each gets the name of the next, and the last that of the first.
fn is_cycle(members: &[Member]) -> bool {
    members.iter().zip(members.iter().cycle().skip(1)).all(|(member, next)| member.new == next.old)
}

fn member_record(member: &Member) -> record::Member {
    record::Member {
        id: member.id,
        old: Hex(member.old.clone()),
        new: Hex(member.new.clone()),
        inode: member.what.ino,
        kind: Word(member.what.kind),
        ctime: Moment(member.ctime),
        born: member.what.born.map(Moment),
        marked: member.marked,
    }
}

fn member(member: record::Member) -> Member {
    let born = member.born.map(|born| born.0);
    Member {
        id: member.id,
        old: member.old.0,
        new: member.new.0,
        what: Identity { ino: member.inode, kind: member.kind.0, born },
        ctime: member.ctime.0,
        marked: member.marked,
    }
}
