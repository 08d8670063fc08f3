//! Objects by numbers, for a history, which reads most of them.
//!
//! The packs of the repository are opened here once more: their sorted indices give each object a number of four bytes in place of
//! an id of twenty or more, and an object is found without asking one pack after the other. The pages of packs would otherwise fill the
//! memory of the process; here they are released. Any other object, and one that cannot be read this way, is read by the repository.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use gix::ObjectId;
use gix::objs::Kind;
use gix::odb::pack::Bundle;
use gix::odb::pack::cache::lru::MemoryCappedHashmap;
use gix::odb::pack::data::decode::entry::ResolvedBase;
use gix::zlib::Inflate;
use namegate_sys::mapped;
use parking_lot::Mutex;

use super::repository::{MAX_BASES, MAX_BYTES, Repository};

/// With more than this of mapped files in memory, the pages of packs are released.
const MAX_MAPPED: u64 = 96 << 20;

/// How many objects a thread reads before it looks how much is mapped. An access maps 64 KiB, so that this is 128 MiB at worst;
/// objects that are read one after the other are mostly next to each other.
const READS: u32 = 2048;

/// The number of an object in an [`ObjectTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ObjectNumber(pub(super) u32);

/// The objects of a repository, numbered.
#[derive(Default)]
pub(super) struct ObjectTable {
    packs: Vec<NumberedPack>,
    /// The number of the first object that is in none of `packs`.
    packed: u32,
    others: Mutex<OtherObjects>,
    /// The objects in whose place others are read (git-replace(1)).
    replaced: HashSet<ObjectNumber>,
}

struct NumberedPack {
    bundle: Bundle,
    /// The number of its first object.
    first: u32,
}

/// Objects that are in no pack, or not there at all.
#[derive(Default)]
struct OtherObjects {
    ids: Vec<ObjectId>,
    numbers: HashMap<ObjectId, u32>,
}

impl ObjectTable {
    pub(super) fn new(repository: &Repository) -> Self {
        let (mut packs, mut packed) = (Vec::new(), 0_u32);
        for path in repository.object_dirs().iter().flat_map(|dir| pack_indices(dir)) {
            // What is wrong with a pack is reported with the objects that are missing.
            let Ok(mut bundle) = Bundle::at(path, repository.hash()) else { continue };
            bundle.pack = bundle.pack.with_alloc_limit_bytes(Some(MAX_BYTES));
            let first = packed;
            // Half of the numbers are left for other objects.
            match packed.checked_add(bundle.index.num_objects()).filter(|&next| next <= u32::MAX / 2) {
                Some(next) => packed = next,
                None => break,
            }
            packs.push(NumberedPack { bundle, first });
        }
        let mut table = Self { packs, packed, others: Mutex::default(), replaced: HashSet::new() };
        table.replaced = repository.replaced().map(|id| table.number(&id)).collect();
        table
    }

    /// The number of an object, whether it exists or not.
    pub(super) fn number(&self, id: &ObjectId) -> ObjectNumber {
        let in_pack = |pack: &NumberedPack| pack.bundle.index.lookup(id).map(|at| pack.first + at);
        ObjectNumber(self.packs.iter().find_map(in_pack).unwrap_or_else(|| {
            let OtherObjects { ids, numbers } = &mut *self.others.lock();
            *numbers.entry(*id).or_insert_with(|| {
                ids.push(*id);
                self.packed + (ids.len() - 1) as u32
            })
        }))
    }

    pub(super) fn id(&self, object: ObjectNumber) -> ObjectId {
        match self.pack_of(object) {
            Some((pack, at)) => pack.bundle.index.oid_at_index(at).to_owned(),
            None => self.others.lock().ids[(object.0 - self.packed) as usize],
        }
    }

    /// The pack that has an object, and its index there.
    fn pack_of(&self, object: ObjectNumber) -> Option<(&NumberedPack, u32)> {
        let at = self.packs.partition_point(|pack| pack.first <= object.0);
        let pack = self.packs.get(at.checked_sub(1)?).filter(|_| object.0 < self.packed)?;
        Some((pack, object.0 - pack.first))
    }

    fn release_pages(&self) {
        for pack in &self.packs {
            // It costs memory if this fails, and nothing else.
            let _ = mapped::release_pages(&pack.bundle.pack);
        }
    }
}

/// The indices of the packs in a directory of objects, in order.
fn pack_indices(objects: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(objects.join("pack")).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut indices: Vec<_> = paths.filter(|path| path.extension().is_some_and(|ext| ext == "idx")).collect();
    indices.sort_unstable();
    indices
}

/// Reads objects, for one thread.
pub(super) struct ObjectReader<'t> {
    table: &'t ObjectTable,
    repository: Repository,
    inflate: Inflate,
    bases: MemoryCappedHashmap,
    reads: u32,
}

impl<'t> ObjectReader<'t> {
    pub(super) fn new(table: &'t ObjectTable, repository: Repository) -> Self {
        let bases = MemoryCappedHashmap::new(MAX_BASES);
        Self { table, repository, inflate: Inflate::default(), bases, reads: 0 }
    }

    pub(super) fn table(&self) -> &'t ObjectTable {
        self.table
    }

    pub(super) fn hash(&self) -> gix::hash::Kind {
        self.repository.hash()
    }

    /// Reads an object.
    pub(super) fn find(&mut self, object: ObjectNumber, buffer: &mut Vec<u8>) -> io::Result<Kind> {
        match self.find_in_pack(object, buffer) {
            Some(kind) => Ok(kind),
            // It is in no pack, replaced, based on an object in another pack, or damaged: then this gives the error.
            None => self.repository.find(&self.table.id(object), buffer),
        }
    }

    fn find_in_pack(&mut self, object: ObjectNumber, buffer: &mut Vec<u8>) -> Option<Kind> {
        let (pack, at) = self.table.pack_of(object)?;
        if self.table.replaced.contains(&object) {
            return None;
        }
        self.reads = (self.reads + 1) % READS;
        if self.reads == 0 && mapped::resident_file_bytes().is_none_or(|bytes| bytes > MAX_MAPPED) {
            self.table.release_pages();
        }
        let Bundle { pack, index } = &pack.bundle;
        let entry = pack.entry(index.pack_offset_at_index(at)).ok()?;
        let resolve = |id: &gix::oid, _: &mut Vec<u8>| {
            let at = index.lookup(id);
            at.map(|at| pack.entry(index.pack_offset_at_index(at)).map(ResolvedBase::InPack)).transpose()
        };
        let decoded = pack.decode_entry(entry, buffer, &mut self.inflate, &resolve, &mut self.bases);
        Some(decoded.ok()?.kind)
    }
}
