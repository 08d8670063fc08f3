//! Aliases of nodes: second inodes of the kernel for one file.
//!
//! Rename(2) does nothing if both names lead to one inode, so a rename that changes only the case of a name would never come. So the
//! lookup of another spelling that belongs to such a rename leads to an alias, which has the attributes and the inode number of
//! the node. Its number is that of the node with more bits set, so there is nothing to remember, and a successor knows it.
//!
//! These lookups may be that: one of another spelling right after the same entry was looked up by another name by the same thread; and if the
//! kernel may have cached the entry's own name, so that it need not look that up, the first one of another spelling. A request does not
//! say for which system call it is; /proc does, if the server may read it there ([`waiting_call`]). If it may not, these lookups
//! count as those of a rename, but for directories, FIFOs and devices only the former: a directory in two places or a FIFO with
//! two pipes would not do. Then the rename of a directory has no effect if the kernel has cached its own name and nobody has looked the
//! new name up before.
//!
//! /proc says the paths of a rename, too: only the new name leads to an alias, and only if the old one means the same entry. A directory
//! above may have the same name: the place of the directory that is searched says which of the two is looked up. Where it does not (after a
//! symbolic link, say), the thread walks through an alias at first. While the kernel may not have dropped an own name yet, every lookup of
//! another spelling may be that of a rename, if the paths have the same directories.
//!
//! Anything but a rename shall have the node: locks of the kernel, memory maps and inotify(7) would see two files. So a request that opens
//! or changes an alias, or removes or renames its name, fails with ESTALE, and any request to that of a directory, FIFO or device: even to walk
//! through it or to open it the kernel asks for its attributes, which have no time to be valid. The kernel then looks up all names of the
//! path again (`retry_estale`, linux/namei.h), and this time the spelling leads to the node. If the same thread asks again instead, it has
//! the alias by a descriptor (`O_PATH`), and is served.
//!
//! Threads of the kernel, which do not look up again, never get an alias: a rename by nfsd(7) that changes only the case has no effect.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use namegate_sys::process::{WaitingCall, kernel_thread, waiting_call};
use namegate_wire::Operation;
use parking_lot::Mutex;

use super::node_number::{is_strict, node};
use super::spelling::NameHash;
use crate::passthrough::NodeId;

/// The threads that look up other spellings.
#[derive(Debug, Default)]
pub(super) struct LookupThreads {
    threads: Mutex<HashMap<u32, ThreadLookups>>,
    /// Whether there are any.
    is_used: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
struct ThreadLookups {
    /// Its last lookups, the last one first.
    recent: [Option<LastLookup>; 2],
    /// Whether the first one of them was its last request.
    is_last: bool,
    /// Whether the kernel may have cached the own name of the entry of which it has looked up another spelling last.
    was_first: bool,
    /// The name that was looked up last, if it led to an alias, and the paths of the rename, as hashes: they may be long, and the threads many.
    renamed: Option<(NameHash, [NameHash; 2])>,
    /// The names that must lead to their nodes when they are looked up again.
    again: [Option<NameHash>; 2],
    /// A name that was taken for the last one in a rename of these paths, and is a directory above: the kernel walks the path once more.
    above: Option<(NameHash, [NameHash; 2])>,
    /// The node on whose alias a request has failed last. If the next one is for it, too, the thread does not look up again.
    failed: Option<NodeId>,
}

/// A lookup of an entry that has several spellings.
#[derive(Clone, Copy, Debug)]
struct LastLookup {
    /// The key of the entry.
    key: NameHash,
    /// The name by which it was looked up.
    name: NameHash,
    /// The node, if the name led to its alias.
    alias: Option<NodeId>,
}

/// What is known of the names of a rename.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RenameLookups {
    /// Whether the kernel may have cached the old name, if both are names of one entry.
    pub(super) may_be_cached: bool,
    /// The names, if they led to aliases.
    pub(super) from_alias: Option<NameHash>,
    pub(super) to_alias: Option<NameHash>,
}

/// A lookup of another spelling than the own name of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct OtherSpelling {
    pub(super) node: NodeId,
    /// The key of the entry.
    pub(super) key: NameHash,
    pub(super) name: NameHash,
    /// Whether it is neither a regular file nor a symbolic link.
    pub(super) is_strict: bool,
    /// Whether the kernel may have cached the own name of the entry: this is the first lookup of another spelling.
    pub(super) is_first: bool,
    /// Whether it may not have dropped the own name yet.
    pub(super) is_recent: bool,
}

/// Whether a lookup is that of a rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MayBe {
    No,
    /// Only if the kernel says so.
    Perhaps,
    /// Unless the kernel says that it is not.
    Likely,
}

impl MayBe {
    fn likely(is: bool) -> Self {
        if is { Self::Likely } else { Self::No }
    }
}

impl LookupThreads {
    /// More than the number of threads between two requests of one system call.
    const MAX_THREADS: usize = 4096;

    /// Whether a request of `thread` to the alias `number` must fail with ESTALE.
    pub(super) fn must_fail(&self, number: u64, thread: u32, operation: &Operation<'_>) -> bool {
        let is_for_node = matches!(
            operation,
            Operation::Open(_)
                | Operation::Setattr(_)
                | Operation::Setxattr { .. }
                | Operation::Removexattr { .. }
        );
        if !is_for_node && !is_strict(number) {
            return false;
        }
        let mut threads = self.threads.lock();
        let lookups = self.entry(&mut threads, thread);
        let is_second = lookups.failed.replace(node(number)) == Some(node(number));
        let name = lookups.recent.iter().flatten().find(|lookup| lookup.alias == Some(node(number)));
        lookups.again = [name.map(|lookup| lookup.name).filter(|_| !is_second), None];
        if is_strict(number) {
            lookups.above = lookups.renamed.take();
        }
        !is_second
    }

    /// Records that the thread has made a request other than a lookup.
    pub(super) fn note_other(&self, thread: u32) {
        if self.is_used.load(Ordering::Acquire)
            && let Some(lookups) = self.threads.lock().get_mut(&thread)
        {
            lookups.is_last = false;
        }
    }

    /// Records that the thread has looked up an entry by its own name: a directory, or one whose name the kernel does not cache.
    pub(super) fn note_own(&self, thread: u32, key: NameHash, name: NameHash) {
        self.entry(&mut self.threads.lock(), thread).push(LastLookup { key, name, alias: None });
    }

    /// Records a lookup of another spelling, and returns whether it leads to the alias. `is_new_name`: whether it is that of the new name in
    /// a rename that has these paths, whose old name means the same entry.
    pub(super) fn leads_to_alias(
        &self,
        thread: u32,
        lookup: &OtherSpelling,
        is_new_name: impl Fn(&[PathBuf; 2]) -> bool,
    ) -> bool {
        let of_rename = self.may_be_of_rename(thread, lookup);
        if of_rename == MayBe::No {
            return false;
        }
        let call = (thread != 0).then(|| waiting_call(thread)).flatten();
        // It may have to open the directory: not with the lock.
        let renamed = match &call {
            Some(WaitingCall::Rename(Some(paths))) => {
                let is_expected = of_rename == MayBe::Likely || lookup.is_first;
                let hash = |path: &PathBuf| NameHash::new(NodeId(0), path.as_os_str());
                ((is_expected || paths[0].parent() == paths[1].parent()) && is_new_name(paths))
                    .then(|| (lookup.name, paths.each_ref().map(hash)))
            }
            _ => None,
        };
        let (mut threads, name) = (self.threads.lock(), lookup.name);
        let lookups = self.entry(&mut threads, thread);
        let leads = match &call {
            Some(WaitingCall::Other) => false,
            Some(WaitingCall::Rename(None)) => true,
            Some(WaitingCall::Rename(Some(_))) => renamed.is_some() && lookups.above != renamed,
            // Threads that the server cannot see may be those of the kernel.
            None => of_rename == MayBe::Likely && thread != 0 && kernel_thread(thread).is_none(),
        };
        lookups.renamed = renamed.filter(|_| leads);
        if !leads {
            lookups.leads_to_node(name);
        }
        leads
    }

    /// Records a lookup of another spelling, and returns whether a rename may have made it.
    fn may_be_of_rename(&self, thread: u32, lookup: &OtherSpelling) -> MayBe {
        let OtherSpelling { node, key, name, is_strict, is_first, is_recent } = *lookup;
        let mut threads = self.threads.lock();
        let lookups = self.entry(&mut threads, thread);
        let last = lookups.recent[0].filter(|last| lookups.is_last && last.key == key);
        let is_repeated = last.is_some_and(|last| last.name == name);
        let again = lookups.again.iter_mut().find(|again| **again == Some(name)).and_then(Option::take);
        lookups.failed = lookups.failed.filter(|failed| *failed != node);
        lookups.renamed = None;
        let of_rename = match last {
            _ if again.is_some() => MayBe::No,
            // The kernel asks twice if it had cached something else.
            Some(last) if is_repeated => MayBe::likely(last.alias.is_some()),
            // The new name of a rename, which must not be the inode of the old one.
            Some(last) => MayBe::likely(last.alias.is_none()),
            None if is_first && is_strict || is_recent && !is_first => MayBe::Perhaps,
            None => MayBe::likely(is_first),
        };
        lookups.was_first = is_first || is_repeated && lookups.was_first;
        lookups.push(LastLookup { key, name, alias: (of_rename != MayBe::No).then_some(node) });
        of_rename
    }

    /// The names of a rename that the thread has looked up. Only the first rename hears that a name may be cached.
    pub(super) fn of_rename(
        &self,
        thread: u32,
        from: (NodeId, &OsStr),
        to: (NodeId, &OsStr),
    ) -> RenameLookups {
        if !self.is_used.load(Ordering::Acquire) {
            return RenameLookups::default();
        }
        let mut threads = self.threads.lock();
        let Some(lookups) = threads.get_mut(&thread) else { return RenameLookups::default() };
        lookups.above = None;
        RenameLookups {
            may_be_cached: std::mem::take(&mut lookups.was_first),
            from_alias: lookups.alias(NameHash::new(from.0, from.1)),
            to_alias: lookups.alias(NameHash::new(to.0, to.1)),
        }
    }

    /// Whether the thread must look the name in the directory up again, because it led to an alias. It then leads to the node.
    pub(super) fn must_look_up_again(&self, thread: u32, name: (NodeId, &OsStr)) -> bool {
        let alias = self.of_rename(thread, name, name).from_alias;
        self.look_up_again(thread, [alias, None]);
        alias.is_some()
    }

    /// These names lead to their nodes when they are looked up again.
    pub(super) fn look_up_again(&self, thread: u32, names: [Option<NameHash>; 2]) {
        if names != [None, None] {
            self.entry(&mut self.threads.lock(), thread).again = names;
        }
    }

    fn entry<'t>(&self, threads: &'t mut HashMap<u32, ThreadLookups>, thread: u32) -> &'t mut ThreadLookups {
        if threads.len() >= Self::MAX_THREADS && !threads.contains_key(&thread) {
            threads.clear();
        }
        self.is_used.store(true, Ordering::Release);
        threads.entry(thread).or_default()
    }
}

impl ThreadLookups {
    fn push(&mut self, lookup: LastLookup) {
        // A lookup that the kernel makes twice counts once.
        let before = self.recent[0].filter(|last| last.name != lookup.name).or(self.recent[1]);
        (self.recent, self.is_last) = ([Some(lookup), before], true);
    }

    /// The last lookup has led to the node, if it still is that of `name`.
    fn leads_to_node(&mut self, name: NameHash) {
        if let [Some(last), _] = &mut self.recent
            && last.name == name
        {
            last.alias = None;
        }
    }

    /// The name, if it led to an alias.
    fn alias(&self, name: NameHash) -> Option<NameHash> {
        self.recent.iter().flatten().find(|lookup| lookup.name == name)?.alias.map(|_| name)
    }
}

#[cfg(test)]
mod tests {
    use namegate_wire::abi::OpenIn;

    use crate::node_number::alias;

    use super::*;

    fn hash(name: &str) -> NameHash {
        NameHash::new(NodeId::ROOT, OsStr::new(name))
    }

    fn spelling(name: &str, is_strict: bool, is_first: bool) -> OtherSpelling {
        OtherSpelling {
            node: NodeId(7),
            key: hash("KEY"),
            name: hash(name),
            is_strict,
            is_first,
            is_recent: false,
        }
    }

    #[test]
    fn a_lookup_that_may_belong_to_a_rename_leads_to_an_alias() {
        let threads = LookupThreads::default();
        let file = |thread, name, is_first| {
            threads.may_be_of_rename(thread, &spelling(name, false, is_first)) == MayBe::Likely
        };
        let own = |thread, key| threads.note_own(thread, hash(key), hash("own"));
        // The own name is cached, or was looked up by the same thread just before.
        assert!(file(1, "a", true) && file(1, "a", false), "the kernel may ask twice");
        threads.note_other(1);
        assert!(!file(1, "a", false) && !file(1, "a", false));
        own(1, "KEY");
        assert!(file(1, "a", false));
        own(1, "KEY");
        threads.note_other(1);
        assert!(!file(1, "a", false), "something came in between");
        own(2, "KEY");
        assert!(!file(3, "a", false) && file(2, "a", false));
        own(1, "OTHER");
        assert!(!file(1, "a", false), "another entry");
        assert!(file(1, "b", false), "from one other spelling to another");
        let recent = OtherSpelling { is_recent: true, ..spelling("c", false, false) };
        assert_eq!(
            threads.may_be_of_rename(8, &recent),
            MayBe::Perhaps,
            "the own name may not be dropped yet"
        );
        let directory = |name| threads.may_be_of_rename(4, &spelling(name, true, true));
        assert_eq!(directory("a"), MayBe::Perhaps);
        threads.threads.lock().get_mut(&4).unwrap().leads_to_node(hash("a"));
        assert_eq!(["b", "b", "a"].map(directory), [MayBe::Likely, MayBe::Likely, MayBe::No]);
    }

    #[test]
    fn a_request_to_an_alias_fails_once_and_then_the_name_leads_to_the_node() {
        let threads = LookupThreads::default();
        let (open, look) = (Operation::Open(OpenIn::default()), Operation::Getattr);
        let number = |is_strict| alias(NodeId(7), is_strict).unwrap();
        let must_fail = |thread, operation| threads.must_fail(number(false), thread, operation);
        let leads = |is_first| threads.may_be_of_rename(2, &spelling("a", false, is_first)) == MayBe::Likely;
        assert!(!must_fail(1, &look) && threads.must_fail(number(true), 9, &look));
        assert!(must_fail(1, &open) && !must_fail(1, &open) && !must_fail(1, &open), "it has a descriptor");
        assert!(leads(true) && must_fail(2, &open));
        assert!(!leads(true));
        assert!(!leads(false));
        threads.note_other(2);
        assert!(leads(true));
        threads.note_other(2);
        assert!(threads.must_look_up_again(2, (NodeId::ROOT, OsStr::new("a"))));
        assert!(!leads(false));
        assert!(!threads.must_look_up_again(2, (NodeId::ROOT, OsStr::new("a"))));
    }
}
