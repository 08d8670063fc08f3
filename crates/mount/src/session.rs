//! The connection with the kernel, over either transport.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use fuser::{Config, SessionACL};
use namegate_settings::Transport;
use namegate_wire::abi::init;
use namegate_wire::{InitRequest, Rings, Service, StopReading, ring};

use super::by_fuser::FuserService;
use super::options::Options;
use super::request_core::RequestCore;
use super::service::RequestService;
use super::wanted::{RING_TRANSFER, wanted};
use crate::workers::{ReaderThreads, regular_readers};

/// A connection after INIT, over which requests come.
#[derive(Debug)]
pub(super) enum MountSession {
    Dev(namegate_wire::Session, Arc<RequestCore>),
    Fuser(Box<fuser::Session<FuserService>>),
}

/// The rings for a mount with these options, if it uses any.
///
/// # Errors
/// They were asked for, and the kernel has none.
pub(super) fn start_rings(options: &Options) -> io::Result<Option<Rings>> {
    match options.transport {
        Transport::Uring if !ring::is_enabled() => Err(io::ErrorKind::Unsupported.into()),
        Transport::Uring => Rings::start(RING_TRANSFER).map(Some),
        Transport::Auto if !options.journal.is_recording() && ring::is_enabled() => {
            let started = Rings::start(RING_TRANSFER);
            Ok(started
                .inspect_err(|error| log::info!("requests come over /dev/fuse: no io_uring: {error}"))
                .ok())
        }
        Transport::Auto | Transport::Dev | Transport::Fuser => Ok(None),
    }
}

/// Reserve threads read requests only while other threads are stuck.
fn readers() -> usize {
    regular_readers() + ReaderThreads::RESERVE
}

impl MountSession {
    /// Answers INIT, which comes over `requests`.
    ///
    /// # Errors
    /// The kernel is too old, or ends the connection.
    pub(super) fn begin(
        core: &Arc<RequestCore>,
        requests: OwnedFd,
        options: &Options,
        rings: Option<Rings>,
    ) -> io::Result<Self> {
        let wanted = wanted(options);
        match options.transport {
            Transport::Auto | Transport::Dev | Transport::Uring => {
                let max_transfer = if rings.is_some() { RING_TRANSFER } else { wanted.max_transfer };
                // What `fuser` does not pass on.
                let flags = wanted.flags | init::CREATE_SUPP_GROUP | init::EXPORT_SUPPORT;
                let wanted = InitRequest { flags, max_transfer, ..wanted };
                let session = namegate_wire::Session::begin(requests, &wanted, options.journal, rings)?;
                core.set_negotiated(session.negotiated(), &wanted);
                if session.has_rings() {
                    core.use_rings();
                }
                Ok(Self::Dev(session, core.clone()))
            }
            Transport::Fuser => {
                let mut config = Config::default();
                config.acl = if options.is_for_all() { SessionACL::All } else { SessionACL::Owner };
                config.n_threads = Some(readers());
                config.clone_fd = true;
                let service = FuserService::new(RequestService::new(core.clone()), wanted);
                let session = fuser::Session::from_fd(service, requests, config.acl, config)?;
                Ok(Self::Fuser(Box::new(session)))
            }
        }
    }

    /// Takes over `session`, the connection of a predecessor.
    ///
    /// # Errors
    /// As dup(2) says.
    pub(super) fn resume(
        core: &Arc<RequestCore>,
        session: namegate_wire::Session,
    ) -> io::Result<(Self, OwnedFd)> {
        let negotiated = session.negotiated();
        // What is not in use was logged by the first server.
        core.set_negotiated(
            negotiated,
            &InitRequest { flags: negotiated.flags, max_transfer: 0, max_background: 0, page_size: 0 },
        );
        let connection = session.connection()?;
        Ok((Self::Dev(session, core.clone()), connection))
    }

    /// Has `service` serve what comes over rings until `work` is done.
    pub(super) fn serve_rings_while<T>(&self, service: &Arc<dyn Service>, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Dev(session, _) => session.serve_rings_while(service, work),
            Self::Fuser(_) => work(),
        }
    }

    /// Handle that stops the reader threads before a successor takes over; `None` for a connection that has none.
    pub(super) fn stop_handle(&self) -> Option<Arc<StopReading>> {
        match self {
            Self::Dev(session, _) => session.stop_handle(),
            Self::Fuser(_) => None,
        }
    }

    /// Serves requests until the mount is gone, or reading is stopped.
    ///
    /// # Errors
    /// The kernel's device fails.
    pub(super) fn run(self) -> io::Result<()> {
        match self {
            Self::Dev(session, core) => session.run(readers(), Arc::new(RequestService::new(core))),
            Self::Fuser(session) => session.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::OwnedFd;
    use std::thread;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use nix::unistd::{read, write};
    use zerocopy::{FromBytes, IntoBytes};

    use super::*;
    use crate::ServeConfig;
    use crate::passthrough::{Passthrough, PassthroughSettings};
    use crate::server::Server;
    use namegate_core::gate::{Gate, Mode};
    use namegate_core::policy::{Policy, profile};
    use namegate_settings::MountSettings;
    use namegate_telemetry::audit::AuditSettings;
    use namegate_wire::NoJournal;
    use namegate_wire::abi::{
        self, AttrOut, CreateIn, EntryOut, InHeader, InitIn, InitOut, OpenIn, OpenOut, ReadIn, fopen, opcode,
    };
    use namegate_wire::request::message;

    /// The kernel's end of a connection.
    struct FakeKernel(OwnedFd);

    impl FakeKernel {
        /// Sends a request for `nodeid`, and returns the error and the body of the reply.
        fn ask(&self, opcode: u32, nodeid: u64, parts: &[&[u8]]) -> (i32, Vec<u8>) {
            let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
            let head = InHeader { opcode, unique: 2, nodeid, uid, gid, ..InHeader::default() };
            write(&self.0, &message(head, parts)).unwrap();
            self.answer()
        }

        fn answer(&self) -> (i32, Vec<u8>) {
            let mut buffer = [0; 4096];
            let len = read(&self.0, &mut buffer).unwrap();
            (i32::from_ne_bytes(buffer[4..8].try_into().unwrap()), buffer[16..len].to_vec())
        }
    }

    #[test]
    fn a_kernel_of_7_31_is_served_with_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "content").unwrap();
        let source = fs::File::open(dir.path()).unwrap();
        let tree = Passthrough::new(
            source.into(),
            PassthroughSettings { cached_fds: 4, ..PassthroughSettings::default() },
        )
        .unwrap();
        let gate = Gate::new(Arc::new(Policy::from_profiles(&[&profile::UTF8])), Mode::Enforcing);
        let server = Arc::new(Server::new(tree, ServeConfig::new(gate, MountSettings::default())));
        let core = Arc::new(RequestCore::new(server, AuditSettings::default().metrics, &NoJournal).unwrap());
        let (here, there) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let kernel = FakeKernel(there);
        let offered = (init::ASYNC_READ | init::BIG_WRITES) as u32;
        let offer = InitIn { major: 7, minor: 31, max_readahead: 4096, flags: offered };
        let head = InHeader { opcode: opcode::INIT, unique: 2, ..InHeader::default() };
        write(&kernel.0, &message(head, &[offer.as_bytes()])).unwrap();
        let options = Options { transport: Transport::Dev, ..Options::default() };
        let session = MountSession::begin(&core, here, &options, None).unwrap();
        let agreed = InitOut::read_from_bytes(&kernel.answer().1).unwrap();
        assert_eq!((agreed.minor, agreed.flags, agreed.flags2, agreed.max_pages), (31, offered, 0, 0));
        assert!(!core.backing.is_offered());

        let MountSession::Dev(session, core) = session else { panic!("another transport") };
        // One reader: only the kernel can make a second connection.
        let serving = thread::spawn(move || session.run(1, Arc::new(RequestService::new(core))));
        let (error, found) = kernel.ask(opcode::LOOKUP, abi::ROOT, &[b"file\0"]);
        let found = EntryOut::read_from_bytes(&found).unwrap();
        assert_eq!((error, found.attr.size), (0, 7));
        let open = OpenIn { flags: 0, open_flags: 0 };
        let (_, opened) = kernel.ask(opcode::OPEN, found.nodeid, &[open.as_bytes()]);
        let opened = OpenOut::read_from_bytes(&opened).unwrap();
        assert_eq!((opened.open_flags & fopen::PASSTHROUGH, opened.backing_id), (0, 0));
        // This kernel would keep pages that are read during such a write.
        let writing = OpenIn { flags: libc::O_WRONLY as u32, open_flags: 0 };
        let (_, writer) = kernel.ask(opcode::OPEN, found.nodeid, &[writing.as_bytes()]);
        assert_eq!(OpenOut::read_from_bytes(&writer).unwrap().open_flags & fopen::DIRECT_IO, 0);
        let range = ReadIn { fh: opened.fh, offset: 3, size: 100, ..ReadIn::default() };
        assert_eq!(kernel.ask(opcode::READ, found.nodeid, &[range.as_bytes()]), (0, b"tent".to_vec()));
        let (error, attributes) = kernel.ask(opcode::GETATTR, abi::ROOT, &[&[0; 16]]);
        assert_eq!((error, attributes.len()), (0, size_of::<AttrOut>()));
        let create = CreateIn { flags: libc::O_RDWR as u32, mode: 0o600, umask: 0, open_flags: 0 };
        let bad = kernel.ask(opcode::CREATE, abi::ROOT, &[create.as_bytes(), b"caf\xE9\0"]);
        assert_eq!(bad, (-libc::EILSEQ, Vec::new()));
        drop(kernel);
        serving.join().unwrap().unwrap();
    }
}
