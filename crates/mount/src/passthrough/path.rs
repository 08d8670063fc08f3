//! Paths of directories, for logs only: no file is opened by such a path.

use std::ffi::OsString;
use std::path::PathBuf;

use namegate_sys::open::path_of;
use nix::fcntl::readlink;
use nix::sys::stat::{SFlag, stat};

use super::{NodeId, Passthrough, Result};

impl Passthrough {
    /// The current path of a directory relative to the source; empty for the source itself, absolute for a directory that was moved
    /// out of the source.
    ///
    /// # Errors
    /// ESTALE or ENOENT for a removed directory; ENAMETOOLONG for a path longer than the kernel can return.
    pub fn path(&self, node: NodeId) -> Result<PathBuf> {
        let dir = self.fd(node)?;
        let [top, path] = [path_of(self.nodes.root()), path_of(&*dir)].map(|fd| readlink(fd.as_str()));
        let path = PathBuf::from(path?);
        Ok(path.strip_prefix(top?).map(PathBuf::from).unwrap_or(path))
    }

    /// The parent and the name of a file that is held by a descriptor, if the kernel has looked up the parent. Both may be outdated,
    /// which is sufficient to ask the kernel to forget the entry.
    pub fn place(&self, node: NodeId) -> Option<(NodeId, OsString)> {
        let node = self.nodes.node(node).ok().filter(|node| node.kind != SFlag::S_IFDIR)?;
        let fd = node.opened.lock().kept().cloned()?;
        let path = PathBuf::from(readlink(path_of(&*fd).as_str()).ok()?);
        let dir = self.nodes.number(&stat(path.parent()?).ok()?)?;
        Some((dir, path.file_name()?.to_owned()))
    }
}
