//! Extended attributes: handed on, never judged.

use std::ffi::OsStr;

use nix::errno::Errno;
use nix::unistd::{Uid, geteuid};

use super::{Caller, NodeId, Passthrough, Result};
use crate::sys::capability::Set;
use crate::sys::identity::status;
use crate::sys::xattr;

/// Setting it can take the set-group-id bit away, depending on the caller's groups (acl(5), chmod(2)).
const ACCESS_ACL: &str = "system.posix_acl_access";

/// What a directory hands down to what is made in it.
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// Names that only CAP_SYS_ADMIN sees (xattr(7)). The kernel checks that for every other call before it asks.
const TRUSTED: &[u8] = b"trusted.";

/// CAP_SYS_ADMIN.
const SYS_ADMIN: Set = Set::of(&[21]);

/// Room for the names of most files.
const USUAL_LIST: usize = 1 << 10;

/// `XATTR_LIST_MAX` of linux/limits.h.
const LONGEST_LIST: usize = 1 << 16;

/// Whether `caller` sees attributes of [`TRUSTED`]. Requests carry ids alone, so that /proc is asked for root's capabilities;
/// those of other users might be in effect in a namespace of their own only.
fn sees_trusted(caller: &Caller) -> bool {
    caller.uid == 0 && status(caller.pid).effective.is_some_and(|set| set.contains(SYS_ADMIN))
}

impl Passthrough {
    /// Reads an attribute into `value` and returns its length; with an empty `value` its length alone.
    ///
    /// # Errors
    /// As getxattr(2) says; but ENODATA for an ACL where the file system has none. In path walks the kernel asks for ACLs to
    /// check permissions, and takes ENODATA alone for "there is none": with EOPNOTSUPP every walk fails (`fuse_get_acl`).
    pub fn getxattr(&self, node: NodeId, name: &OsStr, value: &mut [u8]) -> Result<usize> {
        match xattr::get(&*self.fd(node)?, name, value) {
            Err(Errno::EOPNOTSUPP) if name == ACCESS_ACL || name == DEFAULT_ACL => Err(Errno::ENODATA),
            read => read,
        }
    }

    /// Reads the names of the attributes that `caller` may see, each with a NUL behind it, likewise.
    ///
    /// # Errors
    /// As listxattr(2) says.
    pub fn listxattr(&self, caller: &Caller, node: NodeId, names: &mut [u8]) -> Result<usize> {
        let fd = self.fd(node)?;
        let mut all = vec![0; USUAL_LIST];
        let len = match xattr::list(&*fd, &mut all) {
            Err(Errno::ERANGE) => {
                all.resize(LONGEST_LIST, 0);
                xattr::list(&*fd, &mut all)?
            }
            len => len?,
        };
        all.truncate(len);
        let is_trusted = |name: &[u8]| name.starts_with(TRUSTED);
        if all.split(|&byte| byte == 0).any(is_trusted) && !sees_trusted(caller) {
            let seen = all.split_inclusive(|&byte| byte == 0).filter(|name| !is_trusted(name));
            all = seen.flatten().copied().collect();
        }
        if !names.is_empty() {
            names.get_mut(..all.len()).ok_or(Errno::ERANGE)?.copy_from_slice(&all);
        }
        Ok(all.len())
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
        // It may take a block of its own.
        self.charged_to(caller, set)
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// As removexattr(2) says.
    pub fn removexattr(&self, node: NodeId, name: &OsStr) -> Result<()> {
        xattr::remove(&*self.fd(node)?, name)
    }
}
