//! Extended attributes: passed on, never checked.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use namegate_sys::capability::CapabilitySet;
use namegate_sys::identity::status;
use namegate_sys::xattr;
use nix::errno::Errno;
use nix::unistd::{Uid, geteuid};

use super::journal::XattrOf;
use super::{Caller, HandleKey, NodeId, Passthrough, Result};

/// The access ACL. Setting it can clear the set-group-id bit, depending on the caller's groups (acl(5), chmod(2)).
const ACCESS_ACL: &str = "system.posix_acl_access";

/// The ACL that new entries of a directory inherit.
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// The label of SELinux, for which ls(1) asks for every file.
const LABEL: &str = "security.selinux";

/// Prefix of attributes that only CAP_SYS_ADMIN can list (xattr(7)). The kernel checks all other calls itself.
const TRUSTED: &[u8] = b"trusted.";

/// CAP_SYS_ADMIN.
const SYS_ADMIN: CapabilitySet = CapabilitySet::from_numbers(&[21]);

/// Buffer size for the attribute names of most files.
const USUAL_LIST: usize = 1 << 10;

/// `XATTR_LIST_MAX` of linux/limits.h.
const LONGEST_LIST: usize = 1 << 16;

/// Whether `caller` may list [`TRUSTED`] attributes. Requests contain only ids, so /proc is read for the capabilities of root; those
/// of other users may apply only in a user namespace.
fn sees_trusted(caller: &Caller) -> bool {
    caller.uid == 0 && status(caller.pid).effective.is_some_and(|set| set.contains(SYS_ADMIN))
}

/// Whether labels of SELinux mean anything here. Where they do not, a file without one has EOPNOTSUPP instead of ENODATA: ls(1) then asks for
/// those of no other file of the mount, which saves a request for each.
#[derive(Debug)]
pub(super) struct LabelUse(AtomicBool);

impl LabelUse {
    /// They do where the kernel has SELinux, and where a label was seen.
    pub(super) fn new(source: &impl AsFd) -> Self {
        let has_selinux = Path::new("/sys/fs/selinux").exists();
        Self(AtomicBool::new(has_selinux || xattr::get(source, OsStr::new(LABEL), &mut []).is_ok()))
    }

    fn note_seen(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Passthrough {
    /// Reads an attribute into `value` and returns its length; with an empty `value` only returns its length.
    ///
    /// # Errors
    /// As getxattr(2) says; but ENODATA for an ACL where the file system has no ACLs. The kernel reads ACLs in path walks, and only
    /// ENODATA means that there is none: with EOPNOTSUPP every walk fails (`fuse_get_acl`). And EOPNOTSUPP for a label that is not there, where
    /// labels mean nothing (`LabelUse`).
    pub fn getxattr(&self, node: NodeId, name: &OsStr, value: &mut [u8]) -> Result<usize> {
        let read = xattr::get(&*self.fd(node)?, name, value);
        match read {
            Err(Errno::EOPNOTSUPP) if name == ACCESS_ACL || name == DEFAULT_ACL => Err(Errno::ENODATA),
            Err(Errno::ENODATA) if name == LABEL && !self.labels.0.load(Ordering::Relaxed) => {
                Err(Errno::EOPNOTSUPP)
            }
            Ok(_) | Err(Errno::ERANGE) if name == LABEL => {
                self.labels.note_seen();
                read
            }
            _ => read,
        }
    }

    /// Reads the names of the attributes that `caller` may list, without that of the key, each followed by a NUL; with an empty `names` only returns the
    /// length.
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
        if all.split(|&byte| byte == 0).any(is_trusted) {
            // A program that copies what is listed would copy the key to another source.
            let is_key = |name: &[u8]| name.strip_suffix(b"\0") == Some(HandleKey::ATTRIBUTE.as_bytes());
            let sees_trusted = sees_trusted(caller);
            let names = all.split_inclusive(|&byte| byte == 0);
            let seen = names.filter(|name| !is_trusted(name) || sees_trusted && !is_key(name));
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
        let xattr = XattrOf { file: fd.as_fd(), name };
        if flags & libc::XATTR_CREATE != 0 && self.nodes.journal.begin_or_recover_set_xattr(xattr, value) {
            return Ok(());
        }
        if name == LABEL {
            self.labels.note_seen();
        }
        let set = || xattr::set(&*fd, name, value, flags);
        if name == ACCESS_ACL && Uid::from_raw(caller.uid) != geteuid() {
            return self.as_caller(caller, true, set);
        }
        // It may allocate a block.
        self.charged_to(caller, set)
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// As removexattr(2) says.
    pub fn removexattr(&self, node: NodeId, name: &OsStr) -> Result<()> {
        let fd = self.fd(node)?;
        match self.nodes.journal.begin_or_recover_remove_xattr(XattrOf { file: fd.as_fd(), name }) {
            true => Ok(()),
            false => xattr::remove(&*fd, name),
        }
    }
}
