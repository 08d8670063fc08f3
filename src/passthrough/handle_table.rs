//! The table of file handles: it leads from node ids back to files where an inode number does not suffice to open a file.
//!
//! tmpfs and overlayfs open a file by its whole kernel handle only. With `--export` the handle of each file that a client has looked
//! up is recorded under its node id before the reply, in a file of this machine. The record stays when the kernel forgets the file.
//!
//! Each record fills a slot of 64 bytes, and has a check sum that depends on the key of the source: a damaged record, or one of another
//! source, is ignored. A node id keeps its slot. If all slots are in use, a new record replaces that of a file that was removed, or any other
//! if there is none among the next few. Nothing is synced: what was written survives every end of the process, and what the end
//! of the machine loses is recorded again when the file is looked up.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use parking_lot::Mutex;

use super::{HandleSeal, NodeId};
use crate::sys::handle::KernelHandle;
use crate::sys::open::beneath;
use crate::sys::rename::renameat2;

/// Length of a record, and of the head of the file.
const RECORD: usize = 64;
/// Longest handle that a record has room for: that of an overlay over Btrfs.
pub(super) const LONGEST: usize = 44;
/// Maximum number of records: 64 MiB.
const CAPACITY: usize = 1 << 20;
/// Number of records that are examined for one that can be replaced. A client waits for it.
const PROBES: usize = 8;
/// A slot without a record.
const FREE: [u8; RECORD] = [0; RECORD];
/// The head begins with it; the number of the source follows.
const MAGIC: &[u8; 16] = b"namegate handles";

/// The table of the handles of a source.
#[derive(Debug)]
pub struct HandleTable {
    file: File,
    seal: HandleSeal,
    capacity: usize,
    index: Mutex<HandleIndex>,
    /// Whether the last record could not be written.
    is_failing: AtomicBool,
}

/// Where the records are.
#[derive(Debug, Default)]
struct HandleIndex {
    /// By node id: the slot, and the generation that the kernel knows.
    slots: HashMap<u64, (u32, u32)>,
    /// The node ids by slot; 0 for a slot without a record.
    ids: Vec<u64>,
    /// The slot that is examined next when all are in use.
    hand: usize,
}

impl HandleIndex {
    fn put(&mut self, slot: usize, id: u64, generation: u32) {
        self.clear(slot);
        match self.ids.get_mut(slot) {
            Some(place) => *place = id,
            None => self.ids.push(id),
        }
        self.slots.insert(id, (slot as u32, generation));
    }

    fn clear(&mut self, slot: usize) {
        if let Some(id) = self.ids.get_mut(slot) {
            self.slots.remove(id);
            *id = 0;
        }
    }
}

/// The file of a table as it was found.
struct FoundTable {
    records: Vec<[u8; RECORD]>,
    /// Whether it is the table of another source.
    is_of_another: bool,
    /// Number of records that are damaged.
    damaged: usize,
}

impl FoundTable {
    /// Reads `file`. Records that do not count are zeroed.
    fn read(file: &File, seal: &HandleSeal) -> io::Result<Self> {
        const MOST: u64 = ((CAPACITY + 1) * RECORD) as u64;
        let mut bytes = vec![0; file.metadata()?.len().min(MOST) as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let (all, rest) = bytes.as_chunks::<RECORD>();
        let mut damaged = usize::from(!rest.is_empty());
        let Some((first, records)) = all.split_first() else {
            return Ok(Self { records: Vec::new(), is_of_another: false, damaged });
        };
        let has_head = first.starts_with(MAGIC);
        if has_head && *first != head(seal) {
            return Ok(Self { records: Vec::new(), is_of_another: true, damaged: 0 });
        }
        damaged += usize::from(!has_head);
        let mut records = records.to_vec();
        for record in records.iter_mut().filter(|record| **record != FREE) {
            if decode(record, seal).is_none() {
                damaged += 1;
                *record = FREE;
            }
        }
        Ok(Self { records, is_of_another: false, damaged })
    }

    fn report(&self) {
        if self.damaged > 0 {
            log::warn!(
                "the table of file handles is damaged; the handles of {} of its records become invalid when the kernel forgets the files",
                self.damaged
            );
        }
    }
}

fn head(seal: &HandleSeal) -> [u8; RECORD] {
    let mut head = FREE;
    head[..16].copy_from_slice(MAGIC);
    head[16..24].copy_from_slice(&seal.source_number().to_le_bytes());
    head
}

/// The record of a handle; `None` if there is no room for it.
fn encode(id: u64, handle: &KernelHandle, seal: &HandleSeal) -> Option<[u8; RECORD]> {
    let (kind, bytes) = handle.parts();
    let mut record = FREE;
    record[8..16].copy_from_slice(&id.to_le_bytes());
    record[16..18].copy_from_slice(&u16::try_from(kind).ok()?.to_le_bytes());
    record[18] = bytes.len() as u8;
    record[20..].get_mut(..bytes.len())?.copy_from_slice(bytes);
    let check = seal.check_sum(&record[8..]);
    record[..8].copy_from_slice(&check.to_le_bytes());
    Some(record)
}

/// The node id and the handle of a record, unless it is damaged.
fn decode(record: &[u8; RECORD], seal: &HandleSeal) -> Option<(u64, KernelHandle)> {
    let (check, rest) = record.split_at(8);
    let (id, rest) = rest.split_at(8);
    let is_whole = check == seal.check_sum(&record[8..]).to_le_bytes();
    let handle = rest[4..].get(..usize::from(rest[2]))?;
    let handle = KernelHandle::from_parts(u16::from_le_bytes([rest[0], rest[1]]).into(), handle)?;
    is_whole.then_some((u64::from_le_bytes(id.try_into().ok()?), handle))
}

fn offset(slot: usize) -> u64 {
    ((slot + 1) * RECORD) as u64
}

/// Opens the table `name` in `dir`, which may not be anything but a file.
fn open(dir: impl AsFd, name: &str, flags: OFlag) -> Result<File, Errno> {
    let mode = if flags.contains(OFlag::O_CREAT) { Mode::S_IRUSR | Mode::S_IWUSR } else { Mode::empty() };
    let flags = flags | OFlag::O_RDWR | OFlag::O_NONBLOCK;
    beneath(dir, OsStr::new(name), flags, mode).map(File::from)
}

/// Puts a new table with these records in the place of `name`.
fn replace(dir: impl AsFd, name: &str, seal: &HandleSeal, records: &[[u8; RECORD]]) -> io::Result<File> {
    let temporary = format!("{name}.new");
    // One of a server that was killed.
    let remove = || unlinkat(&dir, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
    let _ = remove();
    let file = open(&dir, &temporary, OFlag::O_CREAT | OFlag::O_EXCL)?;
    let write = || {
        let mut writer = BufWriter::new(&file);
        writer.write_all(&head(seal))?;
        records.iter().try_for_each(|record| writer.write_all(record))?;
        writer.flush()?;
        drop(writer);
        // Otherwise the end of the machine could leave an empty file in place of the old one.
        file.sync_all()?;
        Ok(renameat2(&dir, temporary.as_str(), &dir, name, 0)?)
    };
    write().inspect_err(|_: &io::Error| {
        let _ = remove();
    })?;
    Ok(file)
}

/// Whether there is no room on the disk, or for this user.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl HandleTable {
    /// The table `name` in `dir`, for a mount that is being made: the records of an earlier mount are copied to a new file, which
    /// replaces the old one. So a server of an earlier mount there, which may still serve open files, changes nothing in it.
    ///
    /// # Errors
    /// The table cannot be read or created.
    pub fn renew(dir: impl AsFd, name: &str, seal: HandleSeal) -> io::Result<Self> {
        let old = match open(&dir, name, OFlag::empty()) {
            Err(Errno::ENOENT) => None,
            old => Some(old?),
        };
        let read = |old: File| FoundTable::read(&old, &seal).map(|found| (old, found));
        let Some((old, found)) = old.map(read).transpose()? else {
            let file = replace(&dir, name, &seal, &[])?;
            return Ok(Self::over(file, seal, &[], CAPACITY));
        };
        if found.is_of_another {
            log::info!("the table of file handles is that of another source; a new one begins");
        }
        found.report();
        let used: Vec<_> = found.records.iter().filter(|record| **record != FREE).copied().collect();
        match replace(&dir, name, &seal, &used) {
            Ok(new) => Ok(Self::over(new, seal, &used, CAPACITY)),
            // What is recorded can be used on a full disk too.
            Err(error) if is_full(&error) && !found.is_of_another => {
                Ok(Self::over(old, seal, &found.records, CAPACITY))
            }
            Err(error) => Err(error),
        }
    }

    /// The table `name` in `dir`, of a mount that goes on.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn reopen(dir: impl AsFd, name: &str, seal: HandleSeal) -> io::Result<Self> {
        let file = open(&dir, name, OFlag::empty())?;
        let found = FoundTable::read(&file, &seal)?;
        found.report();
        Ok(Self::over(file, seal, &found.records, CAPACITY))
    }

    /// The table in `file`, which has these records.
    fn over(file: File, seal: HandleSeal, records: &[[u8; RECORD]], capacity: usize) -> Self {
        let mut index = HandleIndex { ids: vec![0; records.len()], ..HandleIndex::default() };
        for (slot, record) in records.iter().enumerate() {
            if let Some((id, handle)) = decode(record, &seal) {
                index.put(slot, id, seal.generation(&handle));
            }
        }
        Self { file, seal, capacity, index: Mutex::new(index), is_failing: AtomicBool::new(false) }
    }

    /// Records the handle of the file that the kernel knows by this node id and generation, unless it is recorded. `exists` says whether a
    /// file still exists.
    pub(super) fn note(
        &self,
        NodeId(id): NodeId,
        generation: u32,
        handle: &KernelHandle,
        exists: impl Fn(&KernelHandle) -> bool,
    ) {
        let mut index = self.index.lock();
        let known = index.slots.get(&id).copied();
        if known.is_some_and(|(_, its)| its == generation) {
            return;
        }
        let Some(record) = encode(id, handle, &self.seal) else { return };
        let slot = known.map_or_else(|| self.free_slot(&mut index, exists), |(slot, _)| slot as usize);
        match self.file.write_all_at(&record, offset(slot)) {
            Ok(()) => {
                index.put(slot, id, generation);
                if self.is_failing.swap(false, Ordering::Relaxed) {
                    log::info!("file handles are recorded again");
                }
            }
            Err(error) => {
                index.clear(slot);
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    log::error!(
                        "cannot record file handles; those of files that are looked up now become invalid when the kernel \
                         forgets the files: {error}"
                    );
                }
            }
        }
    }

    /// A slot for a new record.
    fn free_slot(&self, index: &mut HandleIndex, exists: impl Fn(&KernelHandle) -> bool) -> usize {
        if index.ids.len() < self.capacity {
            return index.ids.len();
        }
        let mut at = index.hand;
        for _ in 0..PROBES {
            at = index.hand;
            index.hand = (at + 1) % self.capacity;
            let is_used = index.ids[at] != 0 && self.read(at).is_some_and(|(_, handle)| exists(&handle));
            if !is_used {
                break;
            }
        }
        at
    }

    fn read(&self, slot: usize) -> Option<(u64, KernelHandle)> {
        let mut record = FREE;
        self.file.read_exact_at(&mut record, offset(slot)).ok()?;
        decode(&record, &self.seal)
    }

    /// The handle that is recorded for a node id.
    pub(super) fn find(&self, id: NodeId) -> Option<KernelHandle> {
        let index = self.index.lock();
        let &(slot, _) = index.slots.get(&id.0)?;
        self.read(slot as usize).filter(|(its, _)| *its == id.0).map(|(_, handle)| handle)
    }
}

#[cfg(test)]
mod tests;
