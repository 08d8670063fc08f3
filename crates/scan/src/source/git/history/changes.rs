//! What changes from one version of a directory to the next, found by comparing their tree objects.
//!
//! Most entries of two versions are equal, and equal bytes are compared many at a time. Only entries that differ are read.

use std::cmp::Ordering;

use crate::source::git::tree::{RawEntry, first_entry};

/// A version of a directory: a tree object whose entries are sorted as git sorts them.
#[derive(Debug, Default)]
pub(super) struct TreeVersion {
    bytes: Vec<u8>,
    /// Where each entry starts.
    starts: Vec<u32>,
}

/// The changes from one version to the next.
#[derive(Debug, Default)]
pub(super) struct TreeChanges<'t> {
    /// The names that are no longer there.
    pub(super) removed: Vec<&'t [u8]>,
    /// The entries whose names are new.
    pub(super) added: Vec<RawEntry<'t>>,
    /// The entries that have other objects.
    pub(super) replaced: Vec<RawEntry<'t>>,
    /// Where each entry of the next version starts.
    starts: Vec<u32>,
}

/// The entries of a tree are malformed or not in order.
#[derive(Debug)]
pub(super) struct NotSorted;

impl TreeVersion {
    /// Compares this version with the next, which has the object `new`.
    pub(super) fn changes<'t>(&'t self, new: &'t [u8], id_len: usize) -> Result<TreeChanges<'t>, NotSorted> {
        let mut changes =
            TreeChanges { starts: Vec::with_capacity(self.starts.len() + 4), ..TreeChanges::default() };
        // The next entry of either, and the last one of `new`.
        let (mut next, mut at) = (0, 0);
        let mut last: Option<RawEntry<'t>> = None;
        let entry_at = |start: usize, bytes: &'t [u8]| match bytes.get(start..) {
            None | Some([]) => Ok(None),
            Some(rest) => first_entry(rest, id_len).map(Some).ok_or(NotSorted),
        };
        loop {
            let old_at = self.start(next);
            let equal_end = old_at + common_prefix(&self.bytes[old_at..], &new[at..]);
            // The entries that end within the equal bytes.
            let after = self.starts.partition_point(|&start| start as usize <= equal_end);
            let after = match self.start(after) <= equal_end {
                true => after,
                false => (after - 1).max(next),
            };
            if after > next {
                // Among themselves they are in order, as before.
                in_order(last, entry_at(at, new)?.map(|(entry, _)| entry))?;
                let shift = |start: &u32| (*start as usize + at - old_at) as u32;
                changes.starts.extend(self.starts[next..after].iter().map(shift));
                last = entry_at(self.start(after - 1), &self.bytes)?.map(|(entry, _)| entry);
                at += self.start(after) - old_at;
                next = after;
            }
            let old = entry_at(self.start(next), &self.bytes)?.map(|(entry, _)| entry);
            let new_entry = entry_at(at, new)?;
            let order = match (old, new_entry) {
                (None, None) => return Ok(changes),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some((new, _))) => old.compare(&new),
            };
            if let Some(old) = old.filter(|_| order != Ordering::Greater) {
                next += 1;
                if order == Ordering::Less {
                    changes.removed.push(old.name);
                }
            }
            if let Some((entry, len)) = new_entry.filter(|_| order != Ordering::Less) {
                in_order(last, Some(entry))?;
                last = Some(entry);
                changes.starts.push(u32::try_from(at).map_err(|_| NotSorted)?);
                at += len;
                match order {
                    Ordering::Equal => changes.replaced.push(entry),
                    _ => changes.added.push(entry),
                }
            }
        }
    }

    /// Becomes the next version, with the object `bytes`; returns the bytes of this one for reuse.
    pub(super) fn advance(&mut self, starts: Vec<u32>, bytes: Vec<u8>) -> Vec<u8> {
        self.starts = starts;
        std::mem::replace(&mut self.bytes, bytes)
    }

    /// Where the entry at `index` starts; behind the last one, the end.
    fn start(&self, index: usize) -> usize {
        self.starts.get(index).map_or(self.bytes.len(), |&start| start as usize)
    }
}

impl TreeChanges<'_> {
    /// Where each entry of the next version starts.
    pub(super) fn into_starts(self) -> Vec<u32> {
        self.starts
    }
}

fn in_order(last: Option<RawEntry<'_>>, next: Option<RawEntry<'_>>) -> Result<(), NotSorted> {
    match (last, next) {
        (Some(last), Some(next)) if last.compare(&next) != Ordering::Less => Err(NotSorted),
        _ => Ok(()),
    }
}

/// How many bytes at the start of both are equal.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const CHUNK: usize = 64;
    let (a_chunks, b_chunks) = (a.as_chunks::<CHUNK>().0, b.as_chunks::<CHUNK>().0);
    let equal = CHUNK * a_chunks.iter().zip(b_chunks).take_while(|(a, b)| a == b).count();
    equal + a[equal..].iter().zip(&b[equal..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The object of a tree, sorted, with ids of two bytes.
    fn object(entries: &BTreeMap<Vec<u8>, (bool, [u8; 2])>) -> Vec<u8> {
        let key = |name: &[u8], is_tree: bool| [name, if is_tree { b"/" } else { b"" }].concat();
        let mut sorted: Vec<_> =
            entries.iter().map(|(name, (tree, id))| (key(name, *tree), name, tree, id)).collect();
        sorted.sort();
        let entry = |(_, name, tree, id): (Vec<u8>, &Vec<u8>, &bool, &[u8; 2])| {
            [if *tree { &b"40000 "[..] } else { b"100644 " }, name, b"\0", id].concat()
        };
        sorted.into_iter().flat_map(entry).collect()
    }

    fn entries() -> impl Strategy<Value = BTreeMap<Vec<u8>, (bool, [u8; 2])>> {
        let name = prop::sample::select(vec![
            &b"a"[..],
            b"a.b",
            b"a-",
            b"a0",
            b"b",
            b"ab",
            b"\xFF",
            b"long name of a file",
        ]);
        let id = prop::sample::select(vec![[0, 0], [0, 1], [b' ', 0], [b'4', b'0']]);
        prop::collection::btree_map(name.prop_map(<[u8]>::to_vec), (any::<bool>(), id), 0..8)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_changes_lead_from_each_version_to_the_next(versions in prop::collection::vec(entries(), 1..8)) {
            let mut version = TreeVersion::default();
            let mut replayed: BTreeMap<Vec<u8>, (bool, Vec<u8>)> = BTreeMap::new();
            for entries in &versions {
                let bytes = object(entries);
                let changes = version.changes(&bytes, 2).unwrap();
                for name in &changes.removed {
                    prop_assert!(replayed.remove(*name).is_some());
                }
                for (entry, is_new) in changes.added.iter().map(|e| (e, true)).chain(changes.replaced.iter().map(|e| (e, false))) {
                    let before = replayed.insert(entry.name.to_vec(), (entry.is_tree, entry.id.to_vec()));
                    prop_assert_eq!(before.is_none(), is_new);
                }
                let expected = entries.iter().map(|(name, (tree, id))| (name.clone(), (*tree, id.to_vec())));
                prop_assert_eq!(&replayed, &expected.collect());
                let starts = changes.into_starts();
                prop_assert_eq!(starts.len(), entries.len());
                version.advance(starts, bytes);
            }
        }

        #[test]
        fn any_bytes_are_compared_or_refused(
            versions in prop::collection::vec(
                prop_oneof![entries().prop_map(|e| object(&e)), prop::collection::vec(any::<u8>(), 0..40)], 1..6),
            cut in 0_usize..60,
        ) {
            let mut version = TreeVersion::default();
            for mut bytes in versions {
                bytes.truncate(cut);
                if let Ok(changes) = version.changes(&bytes, 2) {
                    let starts = changes.into_starts();
                    version.advance(starts, bytes);
                }
            }
        }
    }
}
