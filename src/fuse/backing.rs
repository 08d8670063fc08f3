//! File contents that the kernel reads and writes by itself, without this process (fuse-passthrough.rst of the kernel).

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fuser::{BackingId, InitFlags, KernelConfig};

use crate::passthrough::{NodeId, OpenFile};

/// The backing files that the kernel reads and writes by itself.
#[derive(Debug, Default)]
pub(super) struct Backing {
    /// Whether the kernel does that at all.
    is_offered: bool,
    /// By node, from its first open to its forgetting; `None` for one whose file cannot be had that way. An inode is open
    /// either way, never both: the kernel refuses to mix.
    ids: Mutex<HashMap<NodeId, Option<Arc<BackingId>>>>,
    was_said: AtomicBool,
}

impl Backing {
    /// Asks the kernel to take file contents over; one line in the log says so if it does not.
    pub(super) fn negotiate(&mut self, config: &mut KernelConfig) {
        // The backing file system itself must not be stacked on another one then: the kernel counts to two.
        self.is_offered = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(1).is_ok();
        if !self.is_offered {
            log::warn!("file contents go through this process: this kernel does not take them over");
        }
    }

    /// The backing file of what is opened, if the kernel can have it; `register` makes it known.
    pub(super) fn id(
        &self,
        open: &OpenFile,
        register: impl FnOnce(&OpenFile) -> io::Result<BackingId>,
    ) -> Option<Arc<BackingId>> {
        if !self.is_offered {
            return None;
        }
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        ids.entry(open.node())
            .or_insert_with(|| match register(open) {
                Ok(id) => Some(Arc::new(id)),
                Err(error) => {
                    if !self.was_said.swap(true, Ordering::Relaxed) {
                        log::warn!(
                            "file contents go through this process: the kernel cannot take them over: {error}"
                        );
                    }
                    None
                }
            })
            .clone()
    }

    /// Forgets the file of `node` if `is_forgotten` says that the node is. Under one lock, so that no file that is opened
    /// meanwhile loses what it has just been given.
    pub(super) fn forget(&self, node: NodeId, is_forgotten: impl FnOnce() -> bool) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        let _id = if is_forgotten() { ids.remove(&node) } else { None };
    }
}
