//! A directory in all versions that a history has of it.
//!
//! The versions are compared one after the other, in parts by several threads. A name is in runs of consecutive versions, and
//! its first and last commits are those of these versions; the same goes for the versions of its subdirectories.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use gix::ObjectId;
use namegate_core::name::arena::Arena;
use namegate_findings::location::{self, Container, Location};

use super::changes::{TreeChanges, TreeVersion};
use super::commits::Commits;
use crate::source::git::batch_at;
use crate::source::git::objects::{ObjectNumber, ObjectReader, ObjectTable};
use crate::source::git::tree::{TreePath, expect_tree, sorted_entries};
use crate::source::{DirectoryBatch, VersionedDirectory};

/// Commits by their numbers: the first and the last that have something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitSpan {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl CommitSpan {
    /// In no commit.
    pub(super) const NEVER: Self = Self { first: u32::MAX, last: 0 };

    pub(super) fn union(self, other: Self) -> Self {
        Self { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// A version of a directory and the commits that have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectoryVersion {
    pub(super) tree: ObjectNumber,
    pub(super) commits: CommitSpan,
}

#[derive(Debug)]
pub(super) struct VersionsOfDirectory {
    pub(super) path: TreePath,
    pub(super) depth: usize,
    /// All versions are directories in other places too.
    pub(super) is_repeated: bool,
    pub(super) versions: Vec<DirectoryVersion>,
}

pub(super) type HistoryNames = HashMap<Box<[u8]>, NameInVersions>;

/// A name in all versions of its directory.
#[derive(Debug)]
pub(super) struct NameInVersions {
    pub(super) commits: CommitSpan,
    /// The objects that it had as a directory.
    pub(super) trees: Vec<DirectoryVersion>,
    /// The index of the version with which the current run began; `None` if the last version does not have the name.
    since: Option<usize>,
    /// The object that it is now, if that is a directory, and since which version.
    tree: Option<(ObjectNumber, usize)>,
}

/// The name is in a directory twice.
struct Duplicate;

impl NameInVersions {
    fn end(&mut self, at: usize, spans: &SpanTree) {
        if let Some(since) = self.since.take() {
            self.commits = self.commits.union(spans.union(since..at));
        }
        self.end_tree(at, spans);
    }

    fn end_tree(&mut self, at: usize, spans: &SpanTree) {
        if let Some((tree, since)) = self.tree.take() {
            self.trees.push(DirectoryVersion { tree, commits: spans.union(since..at) });
        }
    }
}

/// Adds the names of another part of the versions.
pub(super) fn add_names(all: &mut HistoryNames, part: HistoryNames) {
    if all.is_empty() {
        *all = part;
        return;
    }
    for (name, of_part) in part {
        match all.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(of_part);
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                known.commits = known.commits.union(of_part.commits);
                known.trees.extend(of_part.trees);
            }
        }
    }
}

/// The versions of a subdirectory, each once, those that are similar next to each other: the latest first, as git packs them.
pub(super) fn distinct(mut versions: Vec<DirectoryVersion>) -> Vec<DirectoryVersion> {
    versions.sort_unstable_by_key(|version| version.tree);
    versions.dedup_by(|next, kept| {
        let is_same = next.tree == kept.tree;
        if is_same {
            kept.commits = kept.commits.union(next.commits);
        }
        is_same
    });
    versions.shrink_to_fit();
    versions.sort_unstable_by_key(|version| Reverse((version.commits.last, version.tree)));
    versions
}

/// The spans of consecutive versions, so that the union of a range costs a few steps.
struct SpanTree(Vec<CommitSpan>);

impl SpanTree {
    fn new(versions: &[DirectoryVersion]) -> Self {
        let len = versions.len();
        let mut spans = vec![CommitSpan::NEVER; len];
        spans.extend(versions.iter().map(|version| version.commits));
        for at in (1..len).rev() {
            spans[at] = spans[2 * at].union(spans[2 * at + 1]);
        }
        Self(spans)
    }

    /// Leaves a version out: it could not be read.
    fn leave_out(&mut self, at: usize) {
        let mut at = at + self.0.len() / 2;
        self.0[at] = CommitSpan::NEVER;
        while at > 1 {
            at /= 2;
            self.0[at] = self.0[2 * at].union(self.0[2 * at + 1]);
        }
    }

    fn union(&self, range: Range<usize>) -> CommitSpan {
        let len = self.0.len() / 2;
        let (mut from, mut to, mut all) = (range.start + len, range.end + len, CommitSpan::NEVER);
        while from < to {
            if from % 2 == 1 {
                all = all.union(self.0[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                all = all.union(self.0[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        all
    }
}

/// Reads versions of a directory one after the other.
struct VersionReader<'r, 't> {
    reader: &'r mut ObjectReader<'t>,
    current: TreeVersion,
    buffer: Vec<u8>,
}

impl<'r, 't> VersionReader<'r, 't> {
    fn new(reader: &'r mut ObjectReader<'t>) -> Self {
        Self { reader, current: TreeVersion::default(), buffer: Vec::new() }
    }

    /// Reads the next version and gives its changes to `apply`. Returns false if it cannot be read; damage is reported.
    fn next<E>(
        &mut self,
        tree: ObjectNumber,
        apply: &mut dyn FnMut(&TreeChanges<'_>) -> Result<(), E>,
        damaged: &mut dyn FnMut(io::Error),
    ) -> bool {
        let Self { reader, current, buffer } = self;
        let id = reader.table().id(tree);
        if let Err(error) = reader.find(tree, buffer).and_then(|kind| expect_tree(&id, kind)) {
            damaged(error);
            return false;
        }
        advance(current, buffer, &id, apply, damaged);
        true
    }
}

/// Goes on to the version with the object `bytes`, which becomes the bytes of the version before, for reuse.
fn advance<E>(
    current: &mut TreeVersion,
    bytes: &mut Vec<u8>,
    tree: &ObjectId,
    apply: &mut dyn FnMut(&TreeChanges<'_>) -> Result<(), E>,
    damaged: &mut dyn FnMut(io::Error),
) {
    let id_len = tree.as_slice().len();
    let changes = current.changes(bytes, id_len).ok().filter(|changes| apply(changes).is_ok());
    let starts = match changes.map(TreeChanges::into_starts) {
        Some(starts) => starts,
        None => {
            let (sorted, damage) = sorted(tree, bytes);
            damage.into_iter().for_each(damaged);
            *bytes = sorted;
            let changes = current.changes(bytes, id_len).expect("the entries are sorted now");
            assert!(apply(&changes).is_ok(), "each name is there once now");
            changes.into_starts()
        }
    };
    *bytes = current.advance(starts, std::mem::take(bytes));
}

/// A tree object in order, without its malformed entries, and its damage, if any.
fn sorted(id: &ObjectId, bytes: &[u8]) -> (Vec<u8>, Option<io::Error>) {
    let (mut entries, damage) = sorted_entries(id, bytes);
    entries.sort_by(|a, b| a.compare(b));
    let mut sorted = Vec::with_capacity(bytes.len());
    for entry in entries {
        sorted.extend_from_slice(if entry.is_tree { b"40000 " } else { b"100644 " });
        sorted.extend_from_slice(entry.name);
        sorted.push(0);
        sorted.extend_from_slice(entry.id);
    }
    (sorted, damage)
}

/// Finds the names in a part of the versions of a directory.
pub(super) fn names_in(
    reader: &mut ObjectReader<'_>,
    versions: &[DirectoryVersion],
    damaged: &mut dyn FnMut(io::Error),
) -> HistoryNames {
    let mut spans = SpanTree::new(versions);
    let mut names = HistoryNames::new();
    let table = reader.table();
    let mut reader = VersionReader::new(reader);
    for (at, version) in versions.iter().enumerate() {
        let apply = &mut |changes: &TreeChanges<'_>| apply(&mut names, changes, at, &spans, table);
        if !reader.next(version.tree, apply, damaged) {
            spans.leave_out(at);
        }
    }
    names.values_mut().for_each(|name| name.end(versions.len(), &spans));
    names
}

/// TreeChanges the names to those of the version at index `at`. If a name is there twice, nothing changes.
fn apply(
    names: &mut HistoryNames,
    changes: &TreeChanges<'_>,
    at: usize,
    spans: &SpanTree,
    table: &ObjectTable,
) -> Result<(), Duplicate> {
    let is_there = |name: &[u8]| names.get(name).is_some_and(|known| known.since.is_some());
    let (mut removed, mut added) = (None, HashSet::new());
    for entry in &changes.added {
        let is_there = is_there(entry.name) && {
            let removed = removed.get_or_insert_with(|| changes.removed.iter().collect::<HashSet<_>>());
            !removed.contains(&entry.name)
        };
        if is_there || !added.insert(entry.name) {
            return Err(Duplicate);
        }
    }
    for name in &changes.removed {
        if let Some(known) = names.get_mut(*name) {
            known.end(at, spans);
        }
    }
    for entry in changes.added.iter().chain(&changes.replaced) {
        let known = match names.get_mut(entry.name) {
            Some(known) => known,
            None => names.entry(entry.name.into()).or_insert(NameInVersions {
                commits: CommitSpan::NEVER,
                trees: Vec::new(),
                since: None,
                tree: None,
            }),
        };
        known.since.get_or_insert(at);
        known.end_tree(at, spans);
        known.tree = entry.is_tree.then(|| (table.number(&entry.object()), at));
    }
    Ok(())
}

/// A directory whose names are all known, for the visitor.
pub(super) struct ReadDirectory<'r, 't> {
    pub(super) reader: &'r mut ObjectReader<'t>,
    pub(super) versions: &'r [DirectoryVersion],
    pub(super) names: DirectoryBatch,
}

impl fmt::Debug for ReadDirectory<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDirectory").field("names", &self.names).finish_non_exhaustive()
    }
}

impl<'r, 't> ReadDirectory<'r, 't> {
    /// Sorts `names` into a batch.
    pub(super) fn new(
        reader: &'r mut ObjectReader<'t>,
        dir: &[u8],
        versions: &'r [DirectoryVersion],
        names: &HistoryNames,
        commits: &Commits,
        container: &Arc<Container>,
    ) -> Self {
        let mut sorted: Vec<(&[u8], CommitSpan)> =
            names.iter().map(|(name, of)| (&**name, of.commits)).collect();
        sorted.sort_unstable_by_key(|(name, _)| *name);
        let mut names = batch_at(dir);
        names.container = Some(Arc::clone(container));
        let table = reader.table();
        for (name, span) in sorted {
            names.push_located(name, location_of(span, commits, table));
        }
        Self { reader, versions, names }
    }
}

fn location_of(span: CommitSpan, commits: &Commits, table: &ObjectTable) -> Location {
    let id = |at| table.id(commits.object(at));
    let [first, last] = [span.first, span.last]
        .map(|at| location::ObjectId::new(id(at).as_slice()).expect("no hash is longer"));
    Location::Commits { first, last }
}

impl VersionedDirectory for ReadDirectory<'_, '_> {
    fn names(&self) -> &DirectoryBatch {
        &self.names
    }

    fn each_set_of(&mut self, names: &Arena, take: &mut dyn FnMut(DirectoryBatch)) {
        let Self { reader, versions, names: all } = self;
        let wanted: BTreeMap<&[u8], usize> =
            names.iter().enumerate().map(|(at, (_, name))| (name, at)).collect();
        let names = all.names.iter().enumerate();
        let located: BTreeMap<&[u8], Location> =
            names.filter_map(|(at, (_, name))| Some((name, all.locations.get(at)?))).collect();
        let mut there = vec![false; wanted.len()];
        let mut seen = HashSet::new();
        let mut reader = VersionReader::new(reader);
        // Damage was reported with the first reading.
        for version in *versions {
            let mut has_changed = false;
            let mut apply = |changes: &TreeChanges<'_>| -> Result<(), Duplicate> {
                let mut next = there.clone();
                for name in &changes.removed {
                    wanted.get(name).into_iter().for_each(|&at| next[at] = false);
                }
                for entry in &changes.added {
                    if let Some(&at) = wanted.get(entry.name)
                        && std::mem::replace(&mut next[at], true)
                    {
                        return Err(Duplicate);
                    }
                }
                has_changed = next != there;
                there = next;
                Ok(())
            };
            let is_read = reader.next(version.tree, &mut apply, &mut |_| {});
            if !is_read || !has_changed || !seen.insert(there.clone()) {
                continue;
            }
            let mut batch = DirectoryBatch::new(all.dir.clone(), all.root_len);
            batch.container.clone_from(&all.container);
            for (name, &at) in &wanted {
                if there[at] {
                    batch.push_located(name, located[name]);
                }
            }
            if batch.count > 1 {
                take(batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Trees in any order, with names that are there twice, and cut off anywhere.
    fn tree() -> impl Strategy<Value = Vec<u8>> {
        let name = prop::sample::select(vec![&b""[..], b"a", b"a.b", b"a/", b"a/b", b"b", b"\xFF"]);
        let mode = prop::sample::select(vec![&b"40000 "[..], b"100644 ", b"040000 ", b"9 ", b" "]);
        let id = prop::sample::select(vec![[0; 20], [b'4'; 20]]);
        let entry = (mode, name, id).prop_map(|(mode, name, id)| [mode, name, b"\0", &id].concat());
        (prop::collection::vec(entry, 0..8), 0_usize..300).prop_map(|(entries, len)| {
            let mut bytes = entries.concat();
            bytes.truncate(len);
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn each_version_has_the_names_of_its_object_however_damaged_it_is(trees in prop::collection::vec(tree(), 1..8)) {
            let id = ObjectId::null(gix::hash::Kind::Sha1);
            let version = |at| DirectoryVersion { tree: ObjectNumber(at), commits: CommitSpan { first: at, last: at } };
            let versions: Vec<DirectoryVersion> = (0..).take(trees.len()).map(version).collect();
            let (spans, table) = (SpanTree::new(&versions), ObjectTable::default());
            let (mut names, mut current) = (HistoryNames::new(), TreeVersion::default());
            let mut expected: BTreeMap<Vec<u8>, CommitSpan> = BTreeMap::new();
            for (at, bytes) in trees.iter().enumerate() {
                let mut damages = 0;
                let apply = &mut |changes: &TreeChanges<'_>| apply(&mut names, changes, at, &spans, &table);
                advance(&mut current, &mut bytes.clone(), &id, apply, &mut |_| damages += 1);
                let (entries, damage) = sorted_entries(&id, bytes);
                prop_assert_eq!(damages, i32::from(damage.is_some()));
                for entry in entries {
                    let span = expected.entry(entry.name.to_vec()).or_insert(CommitSpan::NEVER);
                    *span = span.union(versions[at].commits);
                }
            }
            names.values_mut().for_each(|name| name.end(trees.len(), &spans));
            let found: BTreeMap<Vec<u8>, CommitSpan> = names.iter().map(|(name, of)| (name.to_vec(), of.commits)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
