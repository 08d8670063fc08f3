//! Mounts a tree so that its root is an ordinary inode.
//!
//! The kernel creates the root inode of a FUSE file system when it is mounted, before INIT enables ACLs. After that it never
//! caches the root's ACL (`fuse_init_inode`, `ACL_DONT_CACHE`; permanent since `__forget_cached_acl` keeps that mark, 2026),
//! and every path walk by anyone but the root's owner costs a GETXATTR request. So the file system is first mounted where no
//! other process sees it. After INIT, one name in its root is looked up. The directory with that name is the source again,
//! and is attached to the mount point.
//!
//! The first mount is in a mount namespace that one thread creates for itself. So it needs no directory of its own, does not
//! propagate, and always ends with the thread.
//!
//! The lookup is answered here, because no thread serves requests yet.
//!
//! Sources: fs/fuse/inode.c, fs/fuse/acl.c and fs/posix_acl.c of the kernel; open_tree(2), move_mount(2), mount_namespaces(7).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use namegate_sys::tree::{attach_tree, clone_tree};
use namegate_wire::abi::{self, AttrOut, EntryOut, ForgetOne};
use namegate_wire::{Device, Operation, Reply, Request, Service, serve_next};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{FileStat, fstat};

use super::encode::attr;
use super::mount_call::by_mount;
use super::node_number::SOURCE;
use super::options::Options;
use super::session::MountSession;
use super::wanted::MAX_TRANSFER;

/// The name of the source in the root of the file system. The mount table shows it.
const NAME: &str = "source";
/// How long the kernel may take to look up one name.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A file system that is mounted where no other process sees it.
#[derive(Debug)]
pub(super) struct HiddenMount {
    place: PathBuf,
    /// Another descriptor of the connection from which requests will be read.
    connection: OwnedFd,
    root: FileStat,
    /// Looks up the name, and returns the tree to attach.
    thread: JoinHandle<nix::Result<OwnedFd>>,
    /// Closed when the thread ends.
    ended: UnixStream,
}

impl HiddenMount {
    /// Mounts where no other process sees it. Also returns the descriptor from which requests are read. `Ok(None)` if this is
    /// not possible; nothing was changed then.
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
                // The receiver is gone only if this process ends.
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
            // The namespace ends with the thread, but not at once.
            umount2(&at, MntFlags::MNT_DETACH)?;
            tree
        })?;
        let Some(mounted) = receive(&told)? else {
            // The thread reports the reason.
            let why = thread.join().unwrap_or(Err(Errno::ECANCELED)).err();
            let why = why.map_or_else(String::new, |errno| format!(": {}", errno.desc()));
            log::info!(
                "requests of users who do not own the root cost more: no mount namespace for a moment{why}"
            );
            return Ok(None);
        };
        let requests = mounted?;
        let connection = requests.try_clone()?;
        let root = fstat(root)?;
        Ok(Some((Self { place: place.into(), connection, root, thread, ended }, requests)))
    }

    /// Answers the kernel's requests while the name is looked up, attaches the directory, and returns the mount and the
    /// connection, which `session` will serve.
    ///
    /// # Errors
    /// As move_mount(2) says; TimedOut if the lookup takes too long.
    pub(super) fn attach(self, session: &MountSession) -> io::Result<(PathBuf, OwnedFd)> {
        let service: Arc<dyn Service> = Arc::new(FirstLookup { root: self.root });
        session.serve_rings_while(&service, || self.answer_until_found(&*service))?;
        let tree = self.thread.join().unwrap_or(Err(Errno::ECANCELED))?;
        attach_tree(tree, &self.place)?;
        Ok((self.place, self.connection))
    }

    /// Answers what comes over the device until the name is looked up.
    fn answer_until_found(&self, service: &dyn Service) -> io::Result<()> {
        let device = Arc::new(Device::new(self.connection.try_clone()?));
        let mut buffer = Device::buffer(MAX_TRANSFER);
        let begin = Instant::now();
        loop {
            let mut polled = [
                PollFd::new(self.connection.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.ended.as_fd(), PollFlags::POLLIN),
            ];
            let left = LOOKUP_TIMEOUT.saturating_sub(begin.elapsed());
            match poll(&mut polled, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Err(Errno::EINTR) => continue,
                done => done?,
            };
            let (asks, has_ended) = (polled[0].any() == Some(true), polled[1].any() == Some(true));
            if has_ended {
                return Ok(());
            }
            if asks {
                serve_next(&device, &mut buffer, service)?;
            }
        }
    }
}

fn receive<T>(told: &Receiver<T>) -> io::Result<T> {
    told.recv().map_err(|_| io::Error::other("the thread that mounts has ended"))
}

/// Moves this thread to a mount namespace of its own, if a mount on `place` can be moved out of it again.
fn hide(place: &Path) -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
    // Checked before anything is mounted.
    clone_tree(place, false).map(drop)
}

/// Serves the lookup of the name. Both nodes are the source.
#[derive(Debug)]
struct FirstLookup {
    root: FileStat,
}

impl Service for FirstLookup {
    fn serve(&self, request: &Request<'_>, reply: Reply) {
        let is_root = request.head.nodeid == abi::ROOT;
        match request.operation {
            Operation::Lookup { name } if is_root && name == NAME => reply.message(&EntryOut {
                nodeid: SOURCE,
                // The name never expires, because no process can look it up any more; the attributes expire at once.
                entry_valid: 1 << 32,
                attr: attr(&self.root),
                ..EntryOut::default()
            }),
            Operation::Lookup { .. } => reply.error(Errno::ENOENT),
            Operation::Getattr => reply.message(&AttrOut { attr: attr(&self.root), ..AttrOut::default() }),
            // Not ENOSYS: after that the kernel would never send such a request again.
            Operation::Getxattr { .. } if is_root => reply.error(Errno::ENODATA),
            _ => reply.error(Errno::EIO),
        }
    }

    fn forget(&self, _: &mut dyn Iterator<Item = ForgetOne>) {}

    fn interrupt(&self, _: u64) {}
}
