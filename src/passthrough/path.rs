//! Where a directory stands, for people to read. Nothing is ever opened by such a path.

use std::ffi::OsString;
use std::path::PathBuf;

use nix::fcntl::readlink;
use nix::sys::stat::{SFlag, stat};

use super::{NodeId, Passthrough, Result};
use crate::sys::open::path_of;

impl Passthrough {
    /// The path of a directory below the source, as it is at the moment; empty for the source itself, and from the top for
    /// one that has been moved out of it.
    ///
    /// # Errors
    /// ESTALE or ENOENT for one that is gone; ENAMETOOLONG for a path longer than the kernel can tell.
    pub fn path(&self, node: NodeId) -> Result<PathBuf> {
        let dir = self.fd(node)?;
        let [top, path] = [path_of(self.nodes.root()), path_of(&*dir)].map(|fd| readlink(fd.as_str()));
        let path = PathBuf::from(path?);
        Ok(path.strip_prefix(top?).map(PathBuf::from).unwrap_or(path))
    }

    /// The directory in which a file was found, and its name there, if it is held by a descriptor and the kernel knows the
    /// directory. Both may be out of date, which is good enough for whoever wants less to be kept of them.
    pub fn place(&self, node: NodeId) -> Option<(NodeId, OsString)> {
        let node = self.nodes.node(node).ok().filter(|node| node.kind != SFlag::S_IFDIR)?;
        let fd = node.opened.lock().kept().cloned()?;
        let path = PathBuf::from(readlink(path_of(&*fd).as_str()).ok()?);
        let dir = self.nodes.number(&stat(path.parent()?).ok()?)?;
        Some((dir, path.file_name()?.to_owned()))
    }
}
