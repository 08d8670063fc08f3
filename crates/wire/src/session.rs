//! A connection with the kernel: INIT, then requests that a few threads read and serve.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use namegate_sys::shared::keep_in_memory;
use nix::errno::Errno;

use super::abi::{ForgetOne, init};
use super::device::Device;
use super::init::{InitOutcome, InitRequest, Negotiated, negotiate};
use super::journal::{InFlight, Recovery, RequestJournal};
use super::reply::Reply;
use super::request::{Operation, Request};
use super::ring::Rings;
use super::service::{Service, serve};
use super::stop::{Reader, StopReading};

/// A connection with the kernel after INIT.
#[derive(Debug)]
pub struct Session {
    /// Descriptors of the connection. The missing ones are made when it runs.
    devices: Vec<Arc<Device>>,
    negotiated: Negotiated,
    max_transfer: u32,
    journal: &'static dyn RequestJournal,
    /// The requests that a previous server has left; `None` for a new connection.
    in_flight: Option<Vec<InFlight>>,
    stop: Arc<StopReading>,
    rings: Option<Rings>,
}

impl Session {
    /// Reads INIT and answers it. Requests come over `rings` if the kernel agrees.
    ///
    /// # Errors
    /// The kernel is too old, or the mount is gone.
    pub fn begin(
        fd: OwnedFd,
        wanted: &InitRequest,
        journal: &'static dyn RequestJournal,
        rings: Option<Rings>,
    ) -> io::Result<Self> {
        let rings_flag = if rings.is_some() { init::OVER_IO_URING } else { 0 };
        let wanted = &InitRequest { flags: wanted.flags | rings_flag, ..*wanted };
        let device = Arc::new(Device::recorded(fd, journal));
        let negotiated = answer_init(&device, wanted)?;
        let rings = rings.filter(|_| negotiated.has(init::OVER_IO_URING));
        // After a failure the kernel sends all requests over the device again.
        let rings = rings.filter(|rings| match rings.register(&device) {
            Ok(()) => true,
            Err(errno) => {
                log::warn!("requests come over /dev/fuse: the kernel refuses io_uring: {errno}");
                false
            }
        });
        Ok(Self {
            devices: vec![device],
            negotiated,
            max_transfer: wanted.max_transfer,
            journal,
            in_flight: None,
            stop: Arc::default(),
            rings,
        })
    }

    /// Takes over the connection of a previous server: its descriptors in the order of its readers, what it agreed on with the kernel, and
    /// the requests that it has left.
    ///
    /// # Errors
    /// There is no descriptor.
    pub fn resume(
        devices: Vec<OwnedFd>,
        negotiated: Negotiated,
        in_flight: Vec<InFlight>,
        journal: &'static dyn RequestJournal,
    ) -> io::Result<Self> {
        if devices.is_empty() {
            return Err(io::Error::other("a descriptor of the connection is missing"));
        }
        Ok(Self {
            devices: devices.into_iter().map(|fd| Arc::new(Device::recorded(fd, journal))).collect(),
            negotiated,
            max_transfer: 0,
            journal,
            in_flight: Some(in_flight),
            stop: Arc::default(),
            rings: None,
        })
    }

    /// Another descriptor of the connection, for notifications.
    ///
    /// # Errors
    /// As dup(2) says.
    pub fn connection(&self) -> io::Result<OwnedFd> {
        self.devices[0].descriptor().try_clone()
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

    /// Handle that stops the reader threads before a successor takes over; `None` if nothing is recorded for one.
    pub fn stop_handle(&self) -> Option<Arc<StopReading>> {
        self.journal.is_recording().then(|| self.stop.clone())
    }

    /// What the kernel and this server have agreed on.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Has `service` serve requests until the mount is gone, or reading is [stopped](Session::stop_handle). They come over the rings, if
    /// there are any; otherwise `readers` threads read them. Each of these has a descriptor of its own, so that the kernel does not make
    /// them wait for each other.
    ///
    /// # Errors
    /// A thread cannot be started, or the kernel's device fails.
    pub fn run(mut self, readers: usize, service: Arc<impl Service>) -> io::Result<()> {
        if let Some(rings) = self.rings.take() {
            rings.serve(&(service.clone() as Arc<dyn Service>));
            // What has no reply is still read from the device.
            let mut buffer = Device::buffer(self.max_transfer);
            let reader = Reader::new(self.stop.clone());
            let read = read_requests(&self.devices[0], 0, &*service, &mut buffer, &reader);
            rings.end();
            return read;
        }
        // A successor reads from the descriptors that its predecessor has made, whatever the number of processors is now: requests are
        // answered on the descriptor from which they were read.
        if self.in_flight.is_none() {
            while self.devices.len() < readers.min(self.journal.max_readers()) {
                self.devices.push(Arc::new(self.devices[0].clone_connection()?));
            }
            let numbers: Vec<_> = self.devices.iter().map(|device| device.number()).collect();
            self.journal.connected(self.negotiated, &numbers);
        }
        let threads = (0..self.devices.len()).map(|reader| self.start_reader(reader, service.clone()));
        let threads = threads.collect::<io::Result<Vec<_>>>()?;
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread that reads requests has died")))
        });
        // All of them are waited for.
        let ended = ended.fold(Ok(()), Result::and);
        if self.stop.is_asked() {
            // The successor reads from the same descriptors.
            std::mem::forget(self.devices);
        }
        ended
    }

    /// Starts the thread that finishes what a previous server has left to this reader, and reads requests then.
    fn start_reader(
        &mut self,
        number: usize,
        service: Arc<impl Service>,
    ) -> io::Result<JoinHandle<io::Result<()>>> {
        let (devices, journal, stop) = (self.devices.clone(), self.journal, self.stop.clone());
        let mut shared = journal.buffer(number);
        if shared.is_none() && journal.is_recording() {
            return Err(io::Error::other("a buffer is in use"));
        }
        let is_own = |other: &mut InFlight| other.reader % devices.len() == number;
        let left: Vec<_> = self.in_flight.iter_mut().flat_map(|all| all.extract_if(.., is_own)).collect();
        let mut own = if shared.is_none() { Device::buffer(self.max_transfer) } else { Vec::new() };
        thread::Builder::new().name(format!("reader-{number}")).spawn(move || {
            if let Some(shared) = &mut shared
                // A read into memory that is not present fails if the process is killed meanwhile, and its request with it.
                && let Err(errno) = keep_in_memory(shared)
            {
                log::debug!("buffers of requests may be moved to swap: {errno}");
            }
            let mut left = left.into_iter();
            if left.len() > 0 {
                journal.recover(&mut || {
                    left.by_ref().for_each(|request| finish(request, &devices, journal, &*service));
                });
            }
            let buffer = shared.unwrap_or(&mut own);
            read_requests(&devices[number], number, &*service, buffer, &Reader::new(stop))
        })
    }
}

/// Reads INIT from `device` and answers it.
fn answer_init(device: &Arc<Device>, wanted: &InitRequest) -> io::Result<Negotiated> {
    let mut buffer = Device::buffer(wanted.max_transfer);
    loop {
        let message = device.receive(&mut buffer)?.ok_or(io::ErrorKind::NotConnected)?;
        let request = Request::parse(message).map_err(|malformed| no_request(malformed.opcode))?;
        let reply = Reply::to_device(device.clone(), request.head.unique);
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
                return Ok(negotiated);
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

fn no_request(opcode: Option<u32>) -> io::Error {
    let what = opcode.map_or_else(|| "no request".into(), |opcode| format!("request {opcode}"));
    io::Error::new(io::ErrorKind::InvalidData, format!("the kernel sent {what} instead of INIT"))
}

/// Finishes a request that a previous server has left.
fn finish(request: InFlight, devices: &[Arc<Device>], journal: &dyn RequestJournal, service: &impl Service) {
    let InFlight { unique, reader, message, attempt } = request;
    let Some(device) = devices.get(reader) else { return };
    let recovery = attempt.resume();
    log::debug!("request {unique} of the previous server: {recovery:?}");
    match recovery {
        Recovery::Serve(nodes) => {
            let one = |nodeid| ForgetOne { nodeid, nlookup: 1 };
            service.forget(&mut nodes.into_iter().map(one));
            serve(service, journal, &message, |unique| Reply::to_device(device.clone(), unique));
        }
        // The kernel may have got it already.
        Recovery::Reply(error, bytes) => drop(device.send(error, unique, &[&bytes])),
        Recovery::Fail => {
            log::error!("request {unique} fails: servers have ended several times while they served it");
            Reply::to_device(device.clone(), unique).error(Errno::EIO);
        }
    }
    journal.finished();
}

fn read_requests(
    device: &Arc<Device>,
    number: usize,
    service: &impl Service,
    buffer: &mut [u8],
    reader: &Reader,
) -> io::Result<()> {
    let journal = device.journal();
    while let Some(message) = device.receive_unless(Some(reader), buffer)? {
        journal.received(number, message);
        serve(service, journal, message, |unique| Reply::to_device(device.clone(), unique));
        journal.finished();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use nix::unistd::{read, write};
    use parking_lot::Mutex;
    use zerocopy::IntoBytes;

    use super::*;
    use crate::NoJournal;
    use crate::abi::{BatchForgetIn, InHeader, InitIn, InitOut, opcode};
    use crate::request::message;

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
        let session = Session::begin(here, &wanted, &NoJournal, None).unwrap();
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
        let error = Session::begin(here, &wanted, &NoJournal, None).unwrap_err();
        assert!(error.to_string().contains("7.30"), "{error}");
    }
}
