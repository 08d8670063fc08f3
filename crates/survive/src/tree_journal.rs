//! [`SurvivalState`] as the journal of a tree: nodes, open files, and changes that a predecessor may have made. Whether it has, is told by
//! what was there before the change and what is there now.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use namegate_mount::passthrough::{EntryAt, NodeChange, NodeData, OpenData, TreeJournal, XattrOf};
use namegate_sys::{stat, xattr};
use nix::fcntl::AtFlags;
use nix::sys::stat::{fstat, fstatat};

use super::journal;
use super::layout::OPEN_FD;
use super::records::{LONGEST_HANDLE, fd_word, node_change, node_data, open_data, write_node, write_open};
use super::slots::Slot;
use super::state::{SurvivalState, head};

/// The inode number of an entry; 0 if there is none.
fn ino_of(entry: EntryAt<'_>) -> u64 {
    fstatat(entry.dir, entry.name, AtFlags::AT_SYMLINK_NOFOLLOW).map_or(0, |stat| stat.st_ino)
}

fn size_of(file: BorrowedFd<'_>) -> u64 {
    fstat(file).map_or(0, |stat| stat.st_size.unsigned_abs())
}

fn exists(xattr: XattrOf<'_>) -> bool {
    xattr::get(&xattr.file, xattr.name, &mut []).is_ok()
}

impl TreeJournal for SurvivalState {
    fn server(&self) -> u64 {
        self.get(head::SERVERS).saturating_sub(1)
    }

    fn longest_handle(&self) -> Option<usize> {
        Some(LONGEST_HANDLE)
    }

    fn set_root(&self, root: RawFd) {
        self.set(head::ROOT, root as u64);
    }

    fn add_node(&'static self, data: &NodeData) -> Option<u32> {
        let slot = self.nodes.claim()?;
        write_node(&slot, data)?;
        Some(slot.keep())
    }

    fn change_node(&self, slot: u32, change: NodeChange) {
        let (word, value) = node_change(change);
        self.nodes.set(slot, word, value);
    }

    fn remove_node(&'static self, slot: u32) {
        drop(self.nodes.slot(slot));
    }

    fn add_open(&'static self, data: &OpenData) -> Option<u32> {
        let slot = self.opens.claim()?;
        write_open(&slot, &OpenData { unique: journal::unique(), ..*data });
        Some(slot.keep())
    }

    fn set_open_fd(&self, slot: u32, fd: Option<RawFd>) {
        self.opens.set(slot, OPEN_FD, fd_word(fd));
    }

    fn remove_open(&'static self, slot: u32) {
        drop(self.opens.slot(slot));
    }

    fn note_lookup(&self, node: u64) {
        journal::note_lookup(node);
    }

    fn note_forget(&self, node: u64) {
        journal::note_forget(node);
    }

    fn take_over_nodes(&'static self) -> Vec<(u32, NodeData)> {
        with_data(self.nodes.take_over(), node_data)
    }

    fn take_over_opens(&'static self) -> Vec<(u32, OpenData)> {
        let unfinished = self.unfinished.get();
        let is_unfinished = |open: &OpenData| unfinished.is_some_and(|all| all.contains(&open.unique));
        let mut opens = with_data(self.opens.take_over(), open_data);
        for (slot, _) in opens.extract_if(.., |(_, open)| is_unfinished(open)) {
            self.remove_open(slot);
        }
        opens
    }

    fn take_descriptor(&self, number: RawFd) -> Option<OwnedFd> {
        self.inherited()?.take(number)
    }

    fn begin_or_recover_create(&self, entry: EntryAt<'_>, uid: u32) -> bool {
        let Some(earlier) = journal::start(|| [0; 2]) else { return false };
        stat::at(entry.dir, entry.name).is_ok_and(|stat| {
            // Where the time of birth is not known, that of the last change is no earlier.
            let born = stat.btime.unwrap_or(stat.ctime);
            // Some file systems count in hundredths of a second, or in units of two seconds.
            let unit = match born.nanoseconds {
                0 => 2_000_000_000,
                nanoseconds if nanoseconds % 10_000_000 == 0 => 10_000_000,
                _ => 0,
            };
            let time = |seconds: i64, nanoseconds: i64| {
                i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
            };
            let (born, begun) =
                (time(born.seconds, born.nanoseconds.into()), time(earlier.begun.0, earlier.begun.1));
            stat.uid == uid && born + unit >= begun
        })
    }

    fn begin_or_recover_link(&self, entry: EntryAt<'_>, file: BorrowedFd<'_>) -> bool {
        let earlier = journal::start(|| [ino_of(entry), 0]);
        earlier.is_some_and(|earlier| {
            earlier.observed[0] == 0 && fstat(file).is_ok_and(|stat| stat.st_ino == ino_of(entry))
        })
    }

    fn begin_or_recover_remove(&self, entry: EntryAt<'_>) -> bool {
        let earlier = journal::start(|| [ino_of(entry), 0]);
        earlier.is_some_and(|earlier| earlier.observed[0] != 0 && ino_of(entry) != earlier.observed[0])
    }

    fn begin_or_recover_rename(&self, from: EntryAt<'_>, to: EntryAt<'_>, exchanges: bool) -> bool {
        let look = || [ino_of(from), ino_of(to)];
        let Some(earlier) = journal::start(look).filter(|earlier| earlier.observed[0] != 0) else {
            return false;
        };
        let ([source, target], [before, replaced]) = (look(), earlier.observed);
        match exchanges {
            true => target == before && source == replaced,
            false => target == before && source != before,
        }
    }

    fn begin_or_recover_set_xattr(&self, xattr: XattrOf<'_>, value: &[u8]) -> bool {
        let earlier = journal::start(|| [exists(xattr).into(), 0]);
        let mut found = vec![0; value.len() + 1];
        earlier.is_some_and(|earlier| {
            earlier.observed[0] == 0
                && xattr::get(&xattr.file, xattr.name, &mut found).is_ok_and(|len| found[..len] == *value)
        })
    }

    fn begin_or_recover_remove_xattr(&self, xattr: XattrOf<'_>) -> bool {
        let earlier = journal::start(|| [exists(xattr).into(), 0]);
        earlier.is_some_and(|earlier| earlier.observed[0] != 0 && !exists(xattr))
    }

    fn begin_or_recover_append(&self, file: BorrowedFd<'_>, len: usize) -> Option<usize> {
        let earlier = journal::start(|| [size_of(file), 0])?;
        let grown = usize::try_from(size_of(file).checked_sub(earlier.observed[0])?).ok()?;
        (1..=len).contains(&grown).then_some(grown)
    }
}

fn with_data<D>(slots: Vec<Slot>, data: fn(&Slot) -> D) -> Vec<(u32, D)> {
    let kept = slots.into_iter().map(|slot| {
        let data = data(&slot);
        (slot.keep(), data)
    });
    kept.collect()
}
