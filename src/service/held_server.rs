//! A server that a holder has started.

use std::collections::HashSet;
use std::io;
use std::os::fd::RawFd;

use namegate_survive::SurvivalState;
use namegate_sys::inherited::Inherited;
use nix::unistd::Pid;

/// What a server knows of its holder, and of the server before it.
#[derive(Clone, Debug)]
pub(super) struct HeldServer {
    pub(super) state: &'static SurvivalState,
    pub(super) holder: Pid,
    /// How the previous server has ended; `None` for the first server.
    pub(super) previous: Option<String>,
    /// The settings that differ from those of the mount, and stay as they are until the next one.
    pub(super) needs_mount: Vec<String>,
}

impl HeldServer {
    /// Takes over the descriptors of the previous server. Those in `own` were open before the first one.
    pub(super) fn take_over(self, own: &HashSet<RawFd>) -> io::Result<Self> {
        if self.previous.is_some() {
            let needed = self.state.needed_descriptors().collect();
            self.state.inherit(Inherited::sort_out(own, &needed)?);
        }
        Ok(self)
    }
}
