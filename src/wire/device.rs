//! /dev/fuse: requests are read from it, and served by a few threads.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use namegate_sys::fuse::clone_connection;
use namegate_sys::inherited::Inherited;
use namegate_sys::shared::keep_in_memory;
use nix::errno::Errno;
use nix::sys::uio::writev;
use nix::unistd::read;
use zerocopy::{FromBytes, IntoBytes};

use super::abi::init;
use super::abi::{ForgetOne, InHeader};
use super::answer::{self, Reply, ReplyPath};
use super::init::{InitOutcome, InitRequest, Negotiated, negotiate};
use super::request::{Malformed, Operation, Request};
use super::ring::Rings;
use super::stop::{Reader, StopReading};
use crate::state::journal::{self, InFlight, JournalEntry, Recovery};
use crate::state::{MOST_READERS, SurvivalState};

/// A descriptor of a connection with the kernel. What is read from it is answered on it.
#[derive(Debug)]
pub struct Device(OwnedFd);

impl Device {
    /// Uses `fd`, /dev/fuse with a mount.
    pub fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    pub(super) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// A buffer for messages, if reads and writes are at most `max_transfer` bytes long.
    pub fn buffer(max_transfer: u32) -> Vec<u8> {
        vec![0; Self::buffer_len(max_transfer)]
    }

    /// The length of such a buffer.
    pub fn buffer_len(max_transfer: u32) -> usize {
        /// Room for the headers of a request beside its data. The kernel asks for 8 KiB at least.
        const HEADERS: usize = 8192;
        max_transfer as usize + HEADERS
    }

    /// Waits for the next message; `None` when the mount is gone.
    ///
    /// # Errors
    /// As read(2) of /dev/fuse says; EINVAL if `buffer` is too small for the longest write.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        self.receive_unless(None, buffer)
    }

    /// As [`Device::receive`]; `None` also when the threads that read requests are to stop.
    fn receive_unless<'b>(
        &self,
        reader: Option<&Reader>,
        buffer: &'b mut [u8],
    ) -> io::Result<Option<&'b [u8]>> {
        loop {
            if reader.is_some_and(Reader::is_to_stop) {
                return Ok(None);
            }
            let received = match reader {
                None => read(&self.0, buffer),
                Some(reader) => reader.waiting(|| read(&self.0, buffer)),
            };
            match received {
                // Only a test that plays the kernel closes its end.
                Ok(0) | Err(Errno::ENODEV) => return Ok(None),
                Ok(len) => return Ok(Some(&buffer[..len])),
                // ENOENT: the client was interrupted while the request was being read.
                Err(Errno::ENOENT | Errno::EINTR | Errno::EAGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits for the next message, and has `service` serve it.
    ///
    /// # Errors
    /// As [`Device::receive`]; ENODEV when the mount is gone.
    pub fn serve_next(self: &Arc<Self>, buffer: &mut [u8], service: &dyn Service) -> io::Result<()> {
        let message = self.receive(buffer)?.ok_or(Errno::ENODEV)?;
        serve(&ReplyPath::Device(self.clone()), service, message);
        Ok(())
    }

    /// Sends the kernel a message: a reply to `unique`, or with 0 a notification of the kind `error`.
    pub(super) fn send(&self, error: i32, unique: u64, parts: &[&[u8]]) -> nix::Result<()> {
        let len = parts.iter().map(|part| part.len()).sum();
        let head = answer::header(len, error, unique).ok_or(Errno::EMSGSIZE)?;
        let all = std::iter::once(head.as_bytes()).chain(parts.iter().copied());
        let slices: Vec<_> = all.map(io::IoSlice::new).collect();
        // The kernel takes a message as a whole or not at all.
        writev(&self.0, &slices).map(drop)
    }
}

/// Serves requests.
pub trait Service: Send + Sync + 'static {
    /// Serves one request, here or elsewhere. What it leaves unanswered fails with EIO.
    fn serve(&self, request: &Request<'_>, reply: Reply);

    /// Subtracts lookups of nodes. Nobody waits for it.
    fn forget(&self, nodes: &mut dyn Iterator<Item = ForgetOne>);

    /// The client of the request `unique` got a signal. The request may not have come yet, or may be answered already.
    fn interrupt(&self, unique: u64);
}

/// A connection with the kernel after INIT.
#[derive(Debug)]
pub struct Session {
    /// Descriptors of the connection. The missing ones are made when it runs.
    devices: Vec<Arc<Device>>,
    negotiated: Negotiated,
    max_transfer: u32,
    survival: Option<Survival>,
    rings: Option<Rings>,
}

/// What makes a connection survive the process: requests are read into memory that a successor has too.
#[derive(Debug)]
struct Survival {
    state: &'static SurvivalState,
    stop: Arc<StopReading>,
    /// The requests that a predecessor has left.
    in_flight: Vec<InFlight>,
}

impl Survival {
    fn new(state: &'static SurvivalState, in_flight: Vec<InFlight>) -> Self {
        Self { state, stop: Arc::default(), in_flight }
    }
}

impl Session {
    /// Reads INIT and answers it. Requests come over `rings` if the kernel agrees.
    ///
    /// # Errors
    /// The kernel is too old, or the mount is gone.
    pub fn begin(
        fd: OwnedFd,
        wanted: &InitRequest,
        state: Option<&'static SurvivalState>,
        rings: Option<Rings>,
    ) -> io::Result<Self> {
        let rings_flag = if rings.is_some() { init::OVER_IO_URING } else { 0 };
        let wanted = &InitRequest { flags: wanted.flags | rings_flag, ..*wanted };
        let device = Arc::new(Device::new(fd));
        let max_transfer = wanted.max_transfer;
        let mut buffer = Device::buffer(max_transfer);
        loop {
            let message = device.receive(&mut buffer)?.ok_or(io::ErrorKind::NotConnected)?;
            let request = Request::parse(message).map_err(|malformed| no_request(malformed.opcode))?;
            let reply = Reply::new(ReplyPath::Device(device.clone()), request.head.unique);
            let Operation::Init { arg, flags2 } = request.operation else {
                return Err(no_request(Some(request.head.opcode)));
            };
            match negotiate(&arg, flags2, wanted) {
                InitOutcome::Negotiated(answer, negotiated) => {
                    log::debug!(
                        "the kernel speaks 7.{} and offers {:#x} {flags2:#x}; in use {:#x}",
                        arg.minor,
                        arg.flags,
                        negotiated.flags
                    );
                    reply.message(&answer);
                    let survival = state.map(|state| Survival::new(state, Vec::new()));
                    let rings = rings.filter(|_| negotiated.has(init::OVER_IO_URING));
                    // After a failure the kernel sends all requests over the device again.
                    let rings = rings.filter(|rings| match rings.register(&device) {
                        Ok(()) => true,
                        Err(errno) => {
                            log::warn!("requests come over /dev/fuse: the kernel refuses io_uring: {errno}");
                            false
                        }
                    });
                    return Ok(Self { devices: vec![device], negotiated, max_transfer, survival, rings });
                }
                InitOutcome::AskAgain(answer) => reply.message(&answer),
                InitOutcome::TooOld => {
                    reply.error(Errno::EPROTO);
                    let why = format!("the kernel speaks FUSE {}.{}, not 7.31", arg.major, arg.minor);
                    return Err(io::Error::new(io::ErrorKind::Unsupported, why));
                }
            }
        }
    }

    /// Takes over the connection of a predecessor, with the requests that it has left.
    ///
    /// # Errors
    /// A descriptor of the connection is missing.
    pub fn resume(
        state: &'static SurvivalState,
        inherited: &Inherited,
        in_flight: Vec<InFlight>,
    ) -> io::Result<Self> {
        let device = |number| inherited.take(number).map(|fd| Arc::new(Device::new(fd)));
        let devices: Option<Vec<_>> = state.devices().into_iter().map(device).collect();
        let devices = devices.filter(|devices| !devices.is_empty());
        let devices = devices.ok_or_else(|| io::Error::other("a descriptor of the connection is missing"))?;
        let (minor, flags) = state.granted();
        let survival = Some(Survival::new(state, in_flight));
        Ok(Self { devices, negotiated: Negotiated { minor, flags }, max_transfer: 0, survival, rings: None })
    }

    /// Another descriptor of the connection, for notifications.
    ///
    /// # Errors
    /// As dup(2) says.
    pub fn connection(&self) -> io::Result<OwnedFd> {
        self.devices[0].0.try_clone()
    }

    /// Whether requests come over rings.
    pub fn has_rings(&self) -> bool {
        self.rings.is_some()
    }

    /// Has `service` serve what comes over rings until `work` is done.
    pub fn serve_rings_while<T>(&self, service: &Arc<dyn Service>, work: impl FnOnce() -> T) -> T {
        if let Some(rings) = &self.rings {
            rings.serve(service);
        }
        let done = work();
        self.rings.iter().for_each(Rings::stop);
        done
    }

    /// Handle that stops the reader threads before a successor takes over; `None` without survival.
    pub fn stop(&self) -> Option<Arc<StopReading>> {
        self.survival.as_ref().map(|survival| survival.stop.clone())
    }

    /// What the kernel and this server have agreed on.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Has `service` serve requests until the mount is gone, or reading is [stopped](Session::stop). They come over the rings, if there are any; otherwise `readers` threads
    /// read them. Each of these has a descriptor of its own, so that the kernel does not make them wait for each other.
    ///
    /// # Errors
    /// A thread cannot be started, or the kernel's device fails.
    pub fn run(self, readers: usize, service: Arc<impl Service>) -> io::Result<()> {
        let Self { mut devices, negotiated, max_transfer, mut survival, rings } = self;
        if let Some(rings) = rings {
            rings.serve(&(service.clone() as Arc<dyn Service>));
            // What has no reply is still read from the device.
            let mut buffer = Device::buffer(max_transfer);
            let read = read_requests(&devices[0], &*service, &mut buffer, None);
            rings.end();
            return read;
        }
        let readers = if survival.is_some() { readers.min(MOST_READERS) } else { readers };
        // A successor reads from the descriptors that its predecessor has made, whatever the number of processors is now: requests are
        // answered on the descriptor from which they were read.
        let is_new = survival.as_ref().is_none_or(|survival| !survival.state.is_serving());
        while is_new && devices.len() < readers {
            devices.push(Arc::new(Device::new(clone_connection(&devices[0].0)?)));
        }
        if let Some(Survival { state, .. }) = survival.as_ref().filter(|_| is_new) {
            let numbers: Vec<_> = devices.iter().map(|device| device.number()).collect();
            state.serve((negotiated.minor, negotiated.flags), &numbers);
        }
        let mut threads = Vec::new();
        let (all, stop) = (devices.clone(), survival.as_ref().map(|survival| survival.stop.clone()));
        for (number, device) in devices.into_iter().enumerate() {
            let service = service.clone();
            let thread = thread::Builder::new().name(format!("reader-{number}"));
            threads.push(match &mut survival {
                None => {
                    let mut buffer = Device::buffer(max_transfer);
                    thread.spawn(move || read_requests(&device, &*service, &mut buffer, None))?
                }
                Some(Survival { state, stop, in_flight }) => {
                    let (state, stop) = (*state, stop.clone());
                    let buffer =
                        state.buffer(number).ok_or_else(|| io::Error::other("a buffer is in use"))?;
                    let its = |other: &InFlight| other.reader % all.len() == number;
                    let left: Vec<_> = in_flight.extract_if(.., |other| its(other)).collect();
                    let all = all.clone();
                    thread.spawn(move || {
                        // A read into memory that is not present fails if the process is killed meanwhile, and its request with it.
                        if let Err(errno) = keep_in_memory(buffer) {
                            log::debug!("buffers of requests may be moved to swap: {errno}");
                        }
                        journal::catch_up(|| {
                            left.into_iter().for_each(|request| finish(request, &all, &*service))
                        });
                        read_requests(&device, &*service, buffer, Some((state, number, &Reader::new(stop))))
                    })?
                }
            });
        }
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread that reads requests has died")))
        });
        // All of them are waited for.
        let ended = ended.fold(Ok(()), Result::and);
        if stop.is_some_and(|stop| stop.is_asked()) {
            // The successor reads from the same descriptors.
            std::mem::forget(all);
        }
        ended
    }
}

fn no_request(opcode: Option<u32>) -> io::Error {
    let what = opcode.map_or_else(|| "no request".into(), |opcode| format!("request {opcode}"));
    io::Error::new(io::ErrorKind::InvalidData, format!("the kernel sent {what} instead of INIT"))
}

/// Finishes a request that a predecessor has left.
fn finish(request: InFlight, devices: &[Arc<Device>], service: &impl Service) {
    let InFlight { entry, reader, message } = request;
    let Some(device) = devices.get(reader) else { return };
    let (recovery, unique) = (entry.recovery(), entry.unique());
    log::debug!("request {unique} of the previous server: {recovery:?}");
    let _current = journal::set_current(entry);
    match recovery {
        Recovery::Serve(nodes) => {
            let one = |nodeid| ForgetOne { nodeid, nlookup: 1 };
            service.forget(&mut nodes.into_iter().map(one));
            let path = ReplyPath::Device(device.clone());
            if catch_unwind(AssertUnwindSafe(|| serve(&path, service, &message))).is_err() {
                log::error!("a request failed because of a bug in namegate");
            }
        }
        // The kernel may have got it already.
        Recovery::Reply(error, bytes) => drop(device.send(error, unique, &[&bytes])),
        Recovery::Fail => {
            log::error!("request {unique} fails: servers have ended several times while they served it");
            Reply::new(ReplyPath::Device(device.clone()), unique).error(Errno::EIO);
        }
    }
}

fn read_requests(
    device: &Arc<Device>,
    service: &impl Service,
    buffer: &mut [u8],
    survival: Option<(&'static SurvivalState, usize, &Reader)>,
) -> io::Result<()> {
    let path = ReplyPath::Device(device.clone());
    let own = survival.map(|(_, _, reader)| reader);
    while let Some(message) = device.receive_unless(own, buffer)? {
        let _current = survival.map(|(state, reader, _)| {
            let (unique, opcode) =
                InHeader::read_from_prefix(message).map_or((0, 0), |(head, _)| (head.unique, head.opcode));
            journal::set_current(JournalEntry::begin(state, reader, unique, opcode))
        });
        // A panic must not cost a thread. The client of the request gets an error.
        if catch_unwind(AssertUnwindSafe(|| serve(&path, service, message))).is_err() {
            log::error!("a request failed because of a bug in namegate");
        }
    }
    Ok(())
}

/// Has `service` serve the request in `message`, which came on `path`.
pub(super) fn serve(path: &ReplyPath, service: &(impl Service + ?Sized), message: &[u8]) {
    let request = match Request::parse(message) {
        Ok(request) => request,
        Err(Malformed { unique, opcode }) => {
            log::error!("the kernel sent a malformed request ({opcode:?})");
            if let Some(unique) = unique {
                Reply::new(path.clone(), unique).error(Errno::EIO);
            }
            return;
        }
    };
    match request.operation {
        Operation::Forget { lookups } => {
            let one = ForgetOne { nodeid: request.head.nodeid, nlookup: lookups };
            service.forget(&mut journal::count_forgets(std::iter::once(one)));
        }
        Operation::BatchForget(nodes) => service.forget(&mut journal::count_forgets(nodes)),
        // It has no reply. EAGAIN would make the kernel send it again for ever if the other request is answered meanwhile.
        Operation::Interrupt { unique } => service.interrupt(unique),
        _ => service.serve(&request, Reply::new(path.clone(), request.head.unique)),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use nix::unistd::write;
    use parking_lot::Mutex;

    use super::*;
    use crate::wire::abi::{BatchForgetIn, InHeader, InitIn, InitOut, opcode};
    use crate::wire::request::message;

    /// Answers LOOKUP with the name, and remembers what is forgotten.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<(u64, u64)>>);

    impl Service for Recorder {
        fn serve(&self, request: &Request<'_>, reply: Reply) {
            match request.operation {
                Operation::Lookup { name } => reply.bytes(name.as_encoded_bytes()),
                Operation::Getattr => std::panic::resume_unwind(Box::new("a bug")),
                _ => reply.error(Errno::ENOSYS),
            }
        }

        fn forget(&self, nodes: &mut dyn Iterator<Item = ForgetOne>) {
            self.0.lock().extend(nodes.map(|one| (one.nodeid, one.nlookup)));
        }

        fn interrupt(&self, unique: u64) {
            self.0.lock().push((unique, 0));
        }
    }

    #[test]
    fn a_session_agrees_serves_and_ends_with_the_mount() {
        let (here, kernel) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let ask = |opcode: u32, unique: u64, parts: &[&[u8]]| {
            let head = InHeader { opcode, unique, nodeid: 5, ..InHeader::default() };
            write(&kernel, &message(head, parts)).unwrap();
        };
        let answer = || {
            let mut buffer = [0; 256];
            let len = read(&kernel, &mut buffer).unwrap();
            let error = i32::from_ne_bytes(buffer[4..8].try_into().unwrap());
            (error, u64::from_ne_bytes(buffer[8..16].try_into().unwrap()), buffer[16..len].to_vec())
        };
        let newer = InitIn { major: 8, minor: 0, max_readahead: 0, flags: 0 };
        ask(opcode::INIT, 1, &[newer.as_bytes()]);
        ask(opcode::INIT, 2, &[InitIn { major: 7, minor: 31, ..newer }.as_bytes()]);
        let wanted = InitRequest { flags: u64::MAX, max_transfer: 8192, max_background: 16, page_size: 4096 };
        let session = Session::begin(here, &wanted, None, None).unwrap();
        assert_eq!(session.negotiated(), Negotiated { minor: 31, flags: 0 });
        for unique in [1, 2] {
            let (error, of, body) = answer();
            assert_eq!((error, of, body.len()), (0, unique, size_of::<InitOut>()));
        }
        let recorder = Arc::new(Recorder::default());
        let served = recorder.clone();
        let running = thread::spawn(move || session.run(1, served));
        ask(opcode::LOOKUP, 4, &[b"name\0"]);
        assert_eq!(answer(), (0, 4, b"name".to_vec()));
        ask(opcode::LOOKUP, 6, &[b"malformed"]);
        assert_eq!(answer(), (-libc::EIO, 6, Vec::new()));
        ask(4000, 8, &[]);
        assert_eq!(answer(), (-libc::ENOSYS, 8, Vec::new()));
        ask(opcode::GETATTR, 10, &[&[0; 16]]);
        assert_eq!(answer(), (-libc::EIO, 10, Vec::new()), "a panic costs a request, and no thread");
        ask(opcode::FORGET, 0, &[&2u64.to_ne_bytes()]);
        let two = [(7, 1), (8, 3)].map(|(nodeid, nlookup)| ForgetOne { nodeid, nlookup });
        let count = BatchForgetIn { count: 2, dummy: 0 };
        ask(opcode::BATCH_FORGET, 0, &[count.as_bytes(), two.as_bytes()]);
        ask(opcode::INTERRUPT, 13, &[&12u64.to_ne_bytes()]);
        drop(kernel);
        running.join().unwrap().unwrap();
        assert_eq!(*recorder.0.lock(), [(5, 2), (7, 1), (8, 3), (12, 0)]);
    }

    #[test]
    fn a_kernel_that_is_too_old_is_named() {
        let (here, kernel) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
        let head = InHeader { opcode: opcode::INIT, unique: 2, ..InHeader::default() };
        let old = InitIn { major: 7, minor: 30, ..InitIn::default() };
        write(&kernel, &message(head, &[old.as_bytes()])).unwrap();
        let wanted = InitRequest { flags: 0, max_transfer: 8192, max_background: 16, page_size: 4096 };
        let error = Session::begin(here, &wanted, None, None).unwrap_err();
        assert!(error.to_string().contains("7.30"), "{error}");
    }
}
