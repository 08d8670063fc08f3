//! How long the kernel may keep what a reply says.

use std::ffi::OsStr;
use std::time::Duration;

use namegate_core::gate::{Gate, Intent};
use nix::sys::stat::FileStat;

use super::LASTING;
use crate::passthrough::NodeId;
use crate::server::ConfiguredServer;

/// Whether the event of a change of the entry that `name` means is translated back to `name`: the entry is stored under it, or is shown by it.
fn is_translated_to(gate: &Gate, name: &OsStr) -> bool {
    let is_it = |admitted: &OsStr| admitted == name || gate.show(admitted).is_some_and(|it| it.name == name);
    gate.admit(Intent::Address, name).is_ok_and(|admitted| is_it(admitted.as_os_str()))
}

impl ConfiguredServer<'_> {
    /// Whether nothing was reported since this request was begun.
    fn lasts(&self) -> bool {
        self.coherence.holds_since(self.begun)
    }

    /// How long the kernel may cache that `name` in `parent` leads to `child`, or with `None` to nothing.
    ///
    /// Names on another file system expire, and those that lead there: what is mounted is not reported. So do names with several spellings
    /// ([`crate::spelling`]), and shortened ones. An absent name lasts or is not kept at all.
    pub(crate) fn name_timeout(&self, parent: NodeId, name: &OsStr, child: Option<NodeId>) -> Duration {
        let timeout = self.timeouts().entry;
        let is_ambiguous = self.config.is_ambiguous(name);
        if timeout.is_zero() || is_ambiguous && child.is_none() || !self.may_be_kept(parent, name) {
            return Duration::ZERO;
        }
        let is_own = |node| self.tree.is_own(node);
        let lasts = self.lasts()
            && !is_ambiguous
            && is_own(parent)
            && child.is_none_or(is_own)
            && is_translated_to(&self.config.serve.gate, name)
            && self.coherence.given.lock().add(parent, name)
            && self.lasts();
        match (lasts, child) {
            (true, _) => LASTING,
            (false, Some(_)) => timeout,
            (false, None) => Duration::ZERO,
        }
    }

    /// How long the kernel may cache attributes of `node`; `is_written` for a file that a client may change through a memory map.
    pub(crate) fn attr_timeout(&self, node: NodeId, stat: &FileStat, is_written: bool) -> Duration {
        let timeout = self.timeouts().for_attributes(stat, is_written);
        let lasts =
            !timeout.is_zero() && self.lasts() && self.tree.attributes_may_last(node, stat) && self.lasts();
        if lasts { LASTING } else { timeout }
    }

    /// The kernel is about to move a name that it keeps: a rename.
    pub(crate) fn carry_name(&self, parent: NodeId, name: &OsStr) {
        if self.begun.is_some() {
            self.coherence.given.lock().add_moved(parent, name);
        }
    }
}
