//! Files whose attributes change only with an event of fanotify.
//!
//! Directories and symbolic links always do. The content of a regular file can change without one: through a memory map, by asynchronous
//! system calls (io_submit(2)), through an overlay. Each of these has the file open for writing, also a memory map after the
//! descriptor was closed, and a lease tells. Opening and the last close are reported. And for some time after a change the times may stay as
//! they are while the content changes (`time_of_maps`), and blocks are allocated when data is written to disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use namegate_sys::fanotify::fsid;
use namegate_sys::handle;
use namegate_sys::lease::has_writers;
use nix::fcntl::OFlag;
use nix::sys::stat::{FileStat, SFlag};

use super::cached_version::is_older;
use super::filesystems::closes_silently;
use super::inode::NodeTable;
use super::node::{TrackedNode, WriterState};
use super::{NodeId, Passthrough};

impl NodeTable {
    /// The node of the file with this inode number on the device of the source, if the kernel knows it.
    fn numbered(&self, number: u64) -> Option<NodeId> {
        if number == self.root_place.ino {
            return Some(NodeId::ROOT);
        }
        let is_known = self.is_own(NodeId(number)) && self.known.lock().nodes.contains_key(&number);
        is_known.then_some(NodeId(number))
    }
}

impl Passthrough {
    /// Why not every change of the source is reported with the number of the file; `None` if it is.
    pub fn why_unreported(&self) -> Option<&'static str> {
        let root = self.nodes.root();
        let number = |handle: handle::KernelHandle| handle.number() == Some(self.nodes.root_place.ino);
        if !closes_silently(self.kind) {
            return Some(
                "the file system of the source does not report every change, or others change it too",
            );
        }
        if !self.nodes.has_handles() || !handle::of_events(root).is_ok_and(number) {
            return Some("the file system of the source has no file handles that are known here");
        }
        match fsid(root) {
            Ok(id) if id != [0; 8] => None,
            _ => Some("the file system of the source has no number"),
        }
    }

    /// The node of the file with this inode number on the device of the source, if the kernel knows it.
    pub fn numbered(&self, number: u64) -> Option<NodeId> {
        self.nodes.numbered(number)
    }

    /// Whether a node is on the device of the source.
    pub fn is_own(&self, node: NodeId) -> bool {
        self.nodes.is_own(node)
    }

    /// All nodes that the kernel knows.
    pub fn all_nodes(&self) -> Vec<NodeId> {
        self.nodes.known.lock().nodes.keys().map(|&id| NodeId(id)).collect()
    }

    /// Whether attributes of `node`, which are `stat`, change only with an event.
    pub fn attributes_may_last(&self, node: NodeId, stat: &FileStat) -> bool {
        if !self.nodes.is_own(node) {
            return false;
        }
        match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFDIR | SFlag::S_IFLNK => true,
            SFlag::S_IFREG => {
                let is_settled = |age| is_older((stat.st_ctime, stat.st_ctime_nsec), age);
                self.keeps_content_after.is_some_and(is_settled)
                    && self.nodes.node(node).is_ok_and(|node| self.is_quiet(&node))
            }
            _ => false,
        }
    }

    /// Whether nobody writes the file. At the first question `false`.
    fn is_quiet(&self, node: &Arc<TrackedNode>) -> bool {
        let state = &node.writers.0;
        match state.load(Ordering::SeqCst) {
            WriterState::QUIET => return true,
            WriterState::NEW => {
                state.store(WriterState::ASKED, Ordering::SeqCst);
                return false;
            }
            _ => {}
        }
        // Before the look: who opens the file after it takes the state back (`note_opened`).
        state.store(WriterState::QUIET, Ordering::SeqCst);
        let is_quiet = self.is_unwritten(node);
        if !is_quiet {
            state.store(WriterState::ASKED, Ordering::SeqCst);
        }
        is_quiet
    }

    /// Whether nobody has the file open for writing now.
    fn is_unwritten(&self, node: &Arc<TrackedNode>) -> bool {
        let file = self.nodes.open(node, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC);
        file.and_then(has_writers) == Ok(false)
    }

    /// Somebody has opened the file. Returns whether attributes in lasting caches may change now without an event.
    ///
    /// Most open it for reading: a client of the mount does, whose kernel opens the backing file in its name. A writer that has closed
    /// it since has made an event of its own.
    pub fn note_opened(&self, node: NodeId) -> bool {
        let Ok(node) = self.nodes.node(node) else { return false };
        let state = &node.writers.0;
        state.load(Ordering::SeqCst) == WriterState::QUIET
            && !self.is_unwritten(&node)
            && state.swap(WriterState::ASKED, Ordering::SeqCst) == WriterState::QUIET
    }
}
