//! Extended attributes: handed on, never judged.

use std::ffi::OsStr;

use nix::unistd::{Uid, geteuid};

use super::{Caller, NodeId, Passthrough, Result};
use crate::sys::xattr;

/// Setting it can take the set-group-id bit away, depending on the caller's groups (acl(5), chmod(2)).
const ACCESS_ACL: &str = "system.posix_acl_access";

impl Passthrough {
    /// Reads an attribute into `value` and returns its length; with an empty `value` its length alone.
    ///
    /// # Errors
    /// As getxattr(2) says.
    pub fn getxattr(&self, node: NodeId, name: &OsStr, value: &mut [u8]) -> Result<usize> {
        xattr::get(&*self.fd(node)?, name, value)
    }

    /// Reads the names of all attributes, each with a NUL behind it, likewise.
    ///
    /// # Errors
    /// As listxattr(2) says.
    pub fn listxattr(&self, node: NodeId, names: &mut [u8]) -> Result<usize> {
        xattr::list(&*self.fd(node)?, names)
    }

    /// Sets an attribute.
    ///
    /// # Errors
    /// As setxattr(2) says.
    pub fn setxattr(
        &self,
        caller: &Caller,
        node: NodeId,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Result<()> {
        let fd = self.fd(node)?;
        let set = || xattr::set(&*fd, name, value, flags);
        if name == ACCESS_ACL && Uid::from_raw(caller.uid) != geteuid() {
            return self.as_caller(caller, true, set);
        }
        set()
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// As removexattr(2) says.
    pub fn removexattr(&self, node: NodeId, name: &OsStr) -> Result<()> {
        xattr::remove(&*self.fd(node)?, name)
    }
}
