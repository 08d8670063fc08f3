//! A mount whose root is an inode like any other.
//!
//! The kernel makes the root of a FUSE file system when it is mounted, before INIT says that there are ACLs. From then on it
//! never caches the root's ACL (`fuse_init_inode`, `ACL_DONT_CACHE`; kept for good since `__forget_cached_acl` leaves that mark
//! alone, 2026), and every path walk of anyone but the root's owner costs a GETXATTR request. So the file system is mounted
//! where nobody sees it, one name in its root is looked up after INIT, and the directory found under that name, which is the
//! source once more, is what gets attached to the mount point.
//!
//! "Where nobody sees it" is a mount namespace that one thread makes for itself: no directory has to be found for it, nothing
//! propagates from there, and it goes with the thread whatever happens.
//!
//! The lookup is answered here, because nobody serves requests yet. fuse.h describes the bytes.
//!
//! Sources: fs/fuse/inode.c, fs/fuse/acl.c and fs/posix_acl.c of the kernel; open_tree(2), move_mount(2), mount_namespaces(7).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fuser::INodeNo;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{FileStat, fstat};

use super::attach::by_mount;
use super::options::Options;
use crate::passthrough::NodeId;
use crate::sys::tree::{attach_tree, clone_tree};

/// The name under which the root of the file system has the source. The mount table shows it.
const NAME: &str = "source";
/// The number of the source where it is not the root of the file system. The numbers that [`crate::passthrough`] makes up
/// begin behind it.
const SOURCE: INodeNo = INodeNo(1 << 63);
/// The root of the file system (`FUSE_ROOT_ID`).
const ROOT: INodeNo = INodeNo(1);
/// How long the kernel may take to look one name up.
const PATIENCE: Duration = Duration::from_secs(10);

/// The node that the kernel calls so.
pub(super) fn node(ino: INodeNo) -> NodeId {
    if ino == SOURCE { NodeId::ROOT } else { NodeId(ino.0) }
}

/// What the kernel may call `node`: the source has two numbers, one of which it does not know.
pub(super) fn numbers(node: NodeId) -> impl Iterator<Item = INodeNo> {
    [INodeNo(node.0)].into_iter().chain((node == NodeId::ROOT).then_some(SOURCE))
}

/// A file system that is mounted, and not seen yet.
#[derive(Debug)]
pub(super) struct HiddenMount {
    place: PathBuf,
    /// The same connection as the one that requests will be read from.
    connection: File,
    root: FileStat,
    /// Looks the name up, and returns the tree that is to be attached.
    thread: JoinHandle<nix::Result<OwnedFd>>,
    /// Closed when the thread has ended.
    ended: UnixStream,
}

impl HiddenMount {
    /// Mounts where nobody sees it; `Ok(None)` where that is not possible, and nothing has been done. Besides, the descriptor
    /// through which requests come.
    ///
    /// # Errors
    /// As `by_mount`.
    pub(super) fn mount(
        place: &Path,
        source: &Path,
        root: &OwnedFd,
        options: &Options,
    ) -> io::Result<Option<(Self, OwnedFd)>> {
        let (ended, end) = UnixStream::pair()?;
        let (tell, told) = sync_channel(1);
        let (at, source, options) = (place.to_path_buf(), source.to_path_buf(), options.clone());
        let thread = thread::Builder::new().name("mounting".into()).spawn(move || {
            let _end = end;
            if let Err(errno) = hide(&at) {
                // Whoever asked has gone only if this process ends.
                let _ = tell.send(None);
                return Err(errno);
            }
            let mounted = by_mount(&at, &source, &options);
            let is_mounted = mounted.is_ok();
            let _ = tell.send(Some(mounted));
            if !is_mounted {
                return Err(Errno::ECANCELED);
            }
            let tree = clone_tree(&at.join(NAME), false);
            // The namespace goes with the thread, but not at once.
            umount2(&at, MntFlags::MNT_DETACH)?;
            tree
        })?;
        let Some(mounted) = receive(&told)? else {
            // It says why there is none.
            let why = thread.join().unwrap_or(Err(Errno::ECANCELED)).err();
            let why = why.map_or_else(String::new, |errno| format!(": {}", errno.desc()));
            log::info!(
                "requests of users who do not own the root cost more: no mount namespace for a moment{why}"
            );
            return Ok(None);
        };
        let requests = mounted?;
        let connection = requests.try_clone()?.into();
        let root = fstat(root)?;
        Ok(Some((Self { place: place.into(), connection, root, thread, ended }, requests)))
    }

    /// Answers what the kernel asks when the name is looked up, and attaches what is found; returns where that is, and the connection. INIT has been answered, and nobody
    /// else reads requests.
    ///
    /// # Errors
    /// As move_mount(2) says; TimedOut if the kernel does not come to an end.
    pub(super) fn attach(mut self) -> io::Result<(PathBuf, OwnedFd)> {
        // As much as fuse.h wants to be read at once: a header and the longest write.
        let mut request = vec![0; super::adapter::MAX_TRANSFER as usize + 4096];
        let begin = Instant::now();
        loop {
            let mut polled = [
                PollFd::new(self.connection.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.ended.as_fd(), PollFlags::POLLIN),
            ];
            let left = PATIENCE.saturating_sub(begin.elapsed());
            match poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Err(Errno::EINTR) => continue,
                done => done?,
            };
            let (asks, has_ended) = (polled[0].any() == Some(true), polled[1].any() == Some(true));
            if has_ended {
                break;
            }
            if asks {
                let len = self.connection.read(&mut request)?;
                if let Some(answer) = answer(&request[..len], &self.root) {
                    self.connection.write_all(&answer)?;
                }
            }
        }
        let tree = self.thread.join().unwrap_or(Err(Errno::ECANCELED))?;
        attach_tree(tree, &self.place)?;
        Ok((self.place, self.connection.into()))
    }
}

fn receive<T>(told: &Receiver<T>) -> io::Result<T> {
    told.recv().map_err(|_| io::Error::other("the thread that mounts has ended"))
}

/// Takes this thread to where nobody sees what it mounts on `place`, if that leads back.
fn hide(place: &Path) -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    // Nothing is mounted before it is certain that it can be taken back.
    clone_tree(place, false).map(drop)
}

/// What the kernel asks for in the headers of its requests (fuse.h).
mod opcode {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const GETXATTR: u32 = 22;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const BATCH_FORGET: u32 = 42;
}

/// The answer to a request, if there is to be one: everything that is asked about is the source.
fn answer(request: &[u8], root: &FileStat) -> Option<Vec<u8>> {
    let u32_at = |at: usize| Some(u32::from_ne_bytes(*request.get(at..)?.first_chunk()?));
    let u64_at = |at: usize| Some(u64::from_ne_bytes(*request.get(at..)?.first_chunk()?));
    let (opcode, unique, nodeid) = (u32_at(4)?, u64_at(8)?, u64_at(16)?);
    let (error, body) = match opcode {
        opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => return None,
        opcode::LOOKUP if nodeid == ROOT.0 && request.get(40..)? == c"source".to_bytes_with_nul() => {
            (0, entry(root))
        }
        opcode::GETATTR => (0, [[0; 16].as_slice(), &attributes(root)].concat()),
        opcode::LOOKUP => (libc::ENOENT, Vec::new()),
        // Not ENOSYS, upon which the kernel would never ask again.
        opcode::GETXATTR if nodeid == ROOT.0 => (libc::ENODATA, Vec::new()),
        _ => (libc::EIO, Vec::new()),
    };
    let len = u32::try_from(16 + body.len()).ok()?;
    Some([&len.to_ne_bytes()[..], &(-error).to_ne_bytes(), &unique.to_ne_bytes(), &body].concat())
}

/// `struct fuse_entry_out`: the name for good, because nobody can ask for it any more, the attributes for no time.
fn entry(root: &FileStat) -> Vec<u8> {
    const FOR_GOOD: u64 = 1 << 32;
    let head = [SOURCE.0, 0, FOR_GOOD, 0, 0].map(u64::to_ne_bytes).concat();
    [head, attributes(root)].concat()
}

/// `struct fuse_attr`. The kernel asks again before it believes any of it but the type.
fn attributes(root: &FileStat) -> Vec<u8> {
    let long = [root.st_ino, 0, 0, 0, 0, 0].map(u64::to_ne_bytes).concat();
    let (links, blksize) = (2, 4096);
    let short = [0, 0, 0, root.st_mode, links, root.st_uid, root.st_gid, 0, blksize, 0].map(u32::to_ne_bytes);
    [long, short.concat()].concat()
}
