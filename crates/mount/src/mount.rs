//! Mounts a tree.
//!
//! The source is opened before anything is mounted, so that a mount over the source itself serves the directory that it
//! covers.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namegate_core::gate::Mode as GateMode;
use namegate_sys::capability::{CapabilitySet, CapabilitySets};
use namegate_sys::open_files;
use namegate_sys::release;
use namegate_sys::tree::{clone_tree, keep_access_times};
use namegate_telemetry::audit::{self, Audit};
use namegate_wire::Notifier;
use nix::errno::Errno;
use nix::mount::MsFlags;
use nix::sys::stat::{Mode, fstat, stat, umask};
use nix::unistd::geteuid;

use super::attach::{Attaching, Attachment};
use super::coherence::invalidator::drop_left;
use super::coherence::listener::ChangeListener;
use super::dropper::Dropper;
use super::error::Error;
use super::journal::{LeftMount, MountJournal, MountRecord};
use super::mounted::Mounted;
use super::mountpoint::{detach_dead, mount_at};
use super::options::{Caching, Options};
use super::request_core::RequestCore;
use super::serve_config::ServeConfig;
use super::server::Server;
use super::session::{MountSession, start_rings};
use super::source::{SourceWatch, open_source};
use crate::passthrough::{HandleKey, HandleSeal, NodeId, Passthrough, PassthroughSettings};

/// Mounts `source` on `mountpoint`, to be served by `config`.
///
/// This changes the process: the umask is 0, and the limit of open files is the highest allowed. It also creates threads:
/// block signals that one thread is to wait for before calling this.
///
/// # Errors
/// [`Error`] says what failed.
pub fn mount(
    source: &Path,
    mountpoint: &Path,
    config: ServeConfig,
    audit: audit::AuditSettings,
    options: &Options,
) -> Result<Mounted, Error> {
    let source_error = |error: io::Error| Error::Source(source.into(), error);
    let mountpoint_error = |error: io::Error| Error::Mountpoint(mountpoint.into(), error);
    if options.is_for_root() && !geteuid().is_root() {
        return Err(Error::ForRoot);
    }
    detach_dead(mountpoint).map_err(mountpoint_error)?;
    let Places { found, source: canonical_source, target } = find_places(source, mountpoint, options)?;
    let root: File = match options.flags.contains(MsFlags::MS_NOATIME) {
        true => {
            without_access_times(source).map_err(|errno| Error::AccessTimes(source.into(), errno.into()))?
        }
        false => found.try_clone().map_err(source_error)?.into(),
    };

    let rings = start_rings(options).map_err(Error::Rings)?;

    prepare_process();
    let no_export = |errno| Error::Export(source.into(), errno);
    let key = options.export.then(|| HandleKey::of_source(&root)).transpose().map_err(no_export)?;
    let export = key.map(|key| HandleSeal::new(&root, key)).transpose().map_err(no_export)?;
    let settings = PassthroughSettings { cached_fds: CACHED_FDS, export, journal: options.journal };
    let tree = Passthrough::new(root.try_clone().map_err(source_error)?.into(), settings)
        .map_err(|errno| source_error(errno.into()))?;
    if options.journal.is_recording() && tree.is_remote() {
        return Err(Error::Remote(source.into()));
    }
    if !tree.holds_by_handle() {
        log::warn!(
            "every file in use costs an open file descriptor: no kernel file handles on this file system, or no right to \
             use them (CAP_DAC_READ_SEARCH)"
        );
    }
    let core = new_core(tree, config, audit, options.journal)?;
    let not_mounted = |error: io::Error| match error.kind() {
        _ if geteuid().is_root() && !may_mount() => Error::Capability(mountpoint.into()),
        // All files that were named exist: the missing one is the program that mounts for other users.
        io::ErrorKind::NotFound => Error::Helper(mountpoint.into()),
        _ => Error::Mount(mountpoint.into(), error),
    };
    let watch = root.try_clone().map_err(source_error)?;
    let watch =
        SourceWatch::new(watch.into(), (&canonical_source, found), &target, core.server.tree.is_remote());
    let (attaching, requests) =
        Attaching::begin(&target, &canonical_source, &root.into(), options).map_err(not_mounted)?;
    // Both are set once.
    let _ = core.root_number.set(attaching.root_number());
    let _ = core.source.set(watch);
    let session = MountSession::begin(&core, requests, options, rings).map_err(not_mounted)?;
    let attachment = attaching.finish(&session).map_err(not_mounted)?;
    let record = MountRecord {
        source: &canonical_source,
        mountpoint: &target,
        device: attachment.device_number(),
        root_number: core.root_number.get().copied().unwrap_or(NodeId::ROOT.0),
        export_key: key.map(|HandleKey(words)| words),
    };
    options.journal.mounted(&record).map_err(not_mounted)?;
    log::info!("mounted");
    core.server.notify_by(Notifier::new(attachment.device().map_err(not_mounted)?));
    core.backing.register_with(attachment.device().map_err(not_mounted)?);
    listen(&core, &session, &attachment, &options.caching, &canonical_source);
    Ok(Mounted::new(session, attachment, core, &target))
}

/// Listens for direct changes in the source, where that is asked for and possible. Otherwise caches expire.
fn listen(
    core: &RequestCore,
    session: &MountSession,
    attachment: &Attachment,
    caching: &Caching,
    source: &Path,
) {
    let server = &core.server;
    // An own name is dropped when another spelling is used, whatever becomes of coherence.
    let has_spellings = server.active_config().equivalence.is_some();
    let connected = (has_spellings || caching.coherent.is_ok()).then(|| connect(server, attachment, caching));
    let begin = || {
        caching.coherent?;
        why_not(core, session).map_or(Ok(()), Err)?;
        let listener = ChangeListener::new(server.tree.root(), source)?;
        connected.unwrap_or(Ok(()))?;
        listener.start(server).map_err(|error| format!("no thread: {error}"))
    };
    match begin() {
        Ok(()) => log::info!("caches are kept until the source changes"),
        Err(why) => {
            log::info!("caches expire by their timeouts: {why}");
            server.coherence.set_status(Some(why));
            drop_left(server);
        }
    }
}

/// Has another process drop names from now on.
fn connect(server: &Server, attachment: &Attachment, caching: &Caching) -> Result<(), String> {
    let why = |why: &dyn fmt::Display| format!("no other process can drop names: {why}");
    let process = caching.dropper.clone().ok_or_else(|| why(&"none was started"))?;
    let number = attachment.device_number().and_then(|device| device.split_once(':')?.1.parse().ok());
    let number = number.ok_or_else(|| why(&"the connection has no number"))?;
    let device = attachment.device().map_err(|error| why(&error))?;
    let dropper = Dropper::connect(process, device.as_fd(), number, server.coherence.goes_on());
    server.drop_by(dropper.map_err(|error| why(&error))?);
    Ok(())
}

/// Why a mount cannot drop from its caches what changes.
fn why_not(core: &RequestCore, session: &MountSession) -> Option<&'static str> {
    /// Before, a name could be dropped only with what is mounted below it (FUSE_EXPIRE_ONLY).
    const EXPIRES_NAMES: (u32, u32, u32) = (6, 2, 0);
    if matches!(session, MountSession::Fuser(_)) {
        return Some("the transport is fuser");
    }
    if release::running() < Some(EXPIRES_NAMES) {
        return Some("this kernel is older than Linux 6.2");
    }
    core.server.tree.why_unreported()
}

/// Where a mount is made, and of what.
struct Places {
    found: OwnedFd,
    /// Its path without links.
    source: PathBuf,
    /// The mount point, a path without links.
    target: PathBuf,
}

fn find_places(source: &Path, mountpoint: &Path, options: &Options) -> Result<Places, Error> {
    let mountpoint_error = |error: io::Error| Error::Mountpoint(mountpoint.into(), error);
    let canonical_source = source.canonicalize().map_err(|error| Error::Source(source.into(), error))?;
    let found = open_source(&canonical_source, &options.require)?;
    let target = mountpoint.canonicalize().map_err(mountpoint_error)?;
    if !fs::metadata(&target).map_err(mountpoint_error)?.is_dir() {
        return Err(mountpoint_error(Errno::ENOTDIR.into()));
    }
    if let Some(mount) = mount_at(&target) {
        return Err(Error::Mounted { mountpoint: target, source: mount.source });
    }
    let root = fstat(&found).map_err(|errno| Error::Source(source.into(), errno.into()))?;
    let is_root = |dir: &Path| stat(dir).is_ok_and(|it| (it.st_dev, it.st_ino) == (root.st_dev, root.st_ino));
    if target.ancestors().skip(1).any(is_root) {
        return Err(Error::Inside { source: canonical_source, mountpoint: target });
    }
    // Without access to the device, mounting is impossible. It is checked here because later errors are less clear.
    OpenOptions::new().read(true).write(true).open("/dev/fuse").map_err(Error::Device)?;
    Ok(Places { found, source: canonical_source, target })
}

/// Checks what [`mount`] checks before it changes anything, for a mount that is not there yet.
///
/// # Errors
/// As [`mount`].
pub fn check(source: &Path, mountpoint: &Path, options: &Options) -> Result<(), Error> {
    if options.is_for_root() && !geteuid().is_root() {
        return Err(Error::ForRoot);
    }
    find_places(source, mountpoint, options)?;
    match geteuid().is_root() && !may_mount() {
        true => Err(Error::Capability(mountpoint.into())),
        false => Ok(()),
    }
}

/// Takes over the mount that a predecessor has served. Nothing here may ask the mount: nobody serves it yet.
///
/// # Errors
/// The predecessor has left too little.
pub fn resume(
    left: LeftMount,
    config: ServeConfig,
    audit: audit::AuditSettings,
    caching: &Caching,
) -> Result<Mounted, Error> {
    let LeftMount { journal, root, source, mountpoint, device, root_number, export_key, .. } = left;
    let errno_error = |errno: Errno| Error::Serving(errno.into());
    prepare_process();
    let key = export_key.map(HandleKey);
    let export = key.map(|key| HandleSeal::new(&root, key)).transpose().map_err(errno_error)?;
    let settings = PassthroughSettings { cached_fds: CACHED_FDS, export, journal };
    let tree = Passthrough::new(root, settings).map_err(errno_error)?;
    let recovered = tree.take_over();
    let core = new_core(tree, config, audit, journal)?;
    let _ = core.root_number.set(root_number);
    let watch = SourceWatch::resume(core.server.tree.root(), &mountpoint, core.server.tree.is_remote());
    let _ = core.source.set(watch.map_err(Error::Serving)?);
    let unfinished = left.in_flight.len();
    let session = namegate_wire::Session::resume(left.connections, left.negotiated, left.in_flight, journal);
    let (session, connection) =
        session.and_then(|session| MountSession::resume(&core, session)).map_err(Error::Serving)?;
    let attachment = Attachment::resume(&mountpoint, device, connection);
    core.server.notify_by(Notifier::new(attachment.device().map_err(Error::Serving)?));
    core.backing.register_with(attachment.device().map_err(Error::Serving)?);
    core.backing.take_over(&core.server.tree, &recovered);
    listen(&core, &session, &attachment, caching, &source);
    journal.taken_over();
    let (nodes, open) = (core.server.tree.nodes(), core.server.tree.open_files());
    log::info!(
        "the mount was taken over: {nodes} inodes, {open} open files, {unfinished} unfinished requests"
    );
    Ok(Mounted::new(session, attachment, core, &mountpoint))
}

/// Callers have umasks of their own, and their files need descriptors.
fn prepare_process() {
    umask(Mode::empty());
    open_files::raise_limit();
}

fn new_core(
    tree: Passthrough,
    config: ServeConfig,
    audit: audit::AuditSettings,
    journal: &'static dyn MountJournal,
) -> Result<Arc<RequestCore>, Error> {
    let metrics = audit.metrics.clone();
    metrics.set_permissive(config.gate.mode() == GateMode::Permissive);
    let audit = Audit::new(audit).map_err(Error::Serving)?;
    let server =
        Server::new(tree, config).with_journal(journal).with_metrics(metrics.clone()).with_audit(audit);
    RequestCore::new(Arc::new(server), metrics, journal).map(Arc::new).map_err(Error::Serving)
}

/// Maximum number of descriptors kept open for later requests; a quarter of the limit of open files if that is low.
const CACHED_FDS: usize = 4096;

/// The source on mounts of its own, where reads set no access times: neither reads by the server nor reads by the kernel,
/// which opens a backing file on the mount where it was registered.
fn without_access_times(source: &Path) -> nix::Result<File> {
    let tree = clone_tree(source, true)?;
    keep_access_times(&tree)?;
    Ok(tree.into())
}

/// Whether this thread has CAP_SYS_ADMIN.
fn may_mount() -> bool {
    const SYS_ADMIN: CapabilitySet = CapabilitySet::from_numbers(&[21]);
    CapabilitySets::of_thread().is_ok_and(|sets| sets.effective.contains(SYS_ADMIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use namegate_core::gate::Gate;
    use namegate_settings::MountSettings;

    #[test]
    fn what_cannot_be_mounted_is_said_before_anything_is_changed() {
        let config = || {
            let policy =
                namegate_core::policy::Policy::from_profiles(&[&namegate_core::policy::profile::UTF8]);
            ServeConfig::new(Gate::new(Arc::new(policy), GateMode::Enforcing), MountSettings::default())
        };
        let dir = tempfile::tempdir().unwrap();
        let (inside, file) = (dir.path().join("a/b"), dir.path().join("file"));
        fs::create_dir_all(&inside).unwrap();
        fs::write(&file, "").unwrap();
        let refused = |source: &Path, mountpoint: &Path| {
            mount(source, mountpoint, config(), audit::AuditSettings::default(), &Options::default())
                .unwrap_err()
        };
        assert!(matches!(refused(dir.path(), &inside), Error::Inside { .. }));
        assert!(matches!(refused(&file, &inside), Error::Source(..)));
        assert!(matches!(refused(&dir.path().join("none"), &inside), Error::Source(..)));
        assert!(matches!(refused(&inside, &file), Error::Mountpoint(..)));
        assert!(matches!(refused(&inside, &dir.path().join("none")), Error::Mountpoint(..)));
    }
}
