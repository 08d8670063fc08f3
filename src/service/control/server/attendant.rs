//! One thread serves all connections of a control socket, and waits for none of them.
//!
//! It reads requests and writes replies as far as possible without waiting. Each request is executed in a separate thread, so
//! that a reload that takes a minute delays no status request. The number of connections is limited. If one more arrives, a
//! connection of the client with the most connections is closed: the oldest one without a complete request, or else one that
//! does not read its reply. Requests of the client with the fewest connections are executed first. So a client that sends its
//! request when it connects is answered, however many connections of another client are idle, half open, slow or busy.
//!
//! A client is a process, identified by the process id that the kernel recorded when it connected (unix(7), `SO_PEERCRED`).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use namegate_core::gate::Mode;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use crate::service::control::ANSWER_TIMEOUT;
use crate::service::control::protocol::{
    ControlReply, ControlRequest, InstanceCounters, InstanceStatus, MAX_REQUEST, ReloadOutcome,
};

/// Maximum number of open connections.
const MAX_CONNECTIONS: usize = 64;
/// Maximum number of reading requests that run at once: more would only share the processors.
const MOST_READING: usize = 4;
/// Maximum number of changes that run or wait for each other; further ones are refused.
const MOST_CHANGING: usize = 4;
/// Maximum number of connections accepted in a row: then open connections are served, so that complete requests come first.
const AT_ONCE: usize = 32;
/// The pause in accepting connections when there is no descriptor for one.
const PAUSE: Duration = Duration::from_millis(50);
/// The error for a request beyond these limits.
const BUSY: &str = "too many requests are being carried out; try again";
/// The shortest time between two log messages about users without access.
const INTERVAL: Duration = Duration::from_secs(10);

/// Serves the connections of one socket.
pub(super) struct Attendant {
    listener: UnixListener,
    instance: Arc<dyn ControlHandler>,
    is_ending: Arc<AtomicBool>,
    connections: Vec<ControlConnection>,
    next: u64,
    /// Replies of finished requests, by the number of the connection.
    replies: (Sender<(u64, ControlReply)>, Receiver<(u64, ControlReply)>),
    /// Wakes this thread when there is a reply.
    wakes: (Arc<UnixStream>, UnixStream),
    /// A descriptor in reserve for a connection when no other is left.
    spare: Option<File>,
    strangers: Strangers,
    paused_until: Option<Instant>,
}

/// The handler of requests. It is called from several threads at once.
pub trait ControlHandler: Send + Sync {
    fn status(&self) -> InstanceStatus;

    /// Reads the configuration files again.
    ///
    /// # Errors
    /// Why the reload failed, so that the previous configuration stays active: lines for people.
    fn reload(&self) -> Result<ReloadOutcome, String>;

    /// Checks names in another mode from now on.
    ///
    /// # Errors
    /// Why the mode was not changed.
    fn set_mode(&self, mode: Mode) -> Result<ReloadOutcome, String>;

    /// The metrics as text for Prometheus.
    fn metrics(&self) -> String;

    /// The counters and the last refusals.
    fn counters(&self) -> InstanceCounters;
}

/// Users without access who tried to connect.
#[derive(Debug, Default)]
struct Strangers {
    refused: u64,
    said: Option<Instant>,
}

struct ControlConnection {
    number: u64,
    stream: UnixStream,
    client: ClientProcess,
    deadline: Instant,
    stage: ConnectionStage,
}

/// A process, by its user id and its process id.
type ClientProcess = (u32, i32);

enum ConnectionStage {
    /// It has sent this part of a request.
    Asking(Vec<u8>),
    /// Its request waits to be executed.
    Ready(ControlRequest),
    /// Its request is being executed.
    Waiting(ControlRequest),
    /// It is receiving this reply, of which this many bytes have been sent.
    Answered(Vec<u8>, usize),
}

/// The result of advancing a connection.
enum ConnectionStep {
    Waits,
    Asks(ControlRequest),
    Refused(String),
    Ends,
}

impl Attendant {
    pub(super) fn new(
        listener: UnixListener,
        instance: Arc<dyn ControlHandler>,
        is_ending: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let (wakes, woken) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok(Self {
            listener,
            instance,
            is_ending,
            connections: Vec::new(),
            next: 0,
            replies: channel(),
            wakes: (Arc::new(wakes), woken),
            spare: spare(),
            strangers: Strangers::default(),
            paused_until: None,
        })
    }

    /// Answers requests until the socket is closed, and then those that were read before.
    pub(super) fn answer_all(mut self) {
        loop {
            let is_ending = self.is_ending.load(Ordering::Acquire);
            if is_ending {
                self.connections.retain(|connection| !matches!(connection.stage, ConnectionStage::Asking(_)));
                if self.connections.is_empty() {
                    return;
                }
            }
            let now = Instant::now();
            self.connections.retain(|connection| now < connection.deadline);
            self.paused_until = self.paused_until.filter(|until| now < *until);
            let (accepts, ready) = self.wait(now, is_ending);
            while let Ok((number, reply)) = self.replies.1.try_recv() {
                self.reply(number, &reply);
            }
            for number in ready {
                self.advance(number);
            }
            self.begin_all();
            if accepts && !is_ending {
                self.accept();
            }
        }
    }

    /// Waits until there is something to do. Returns whether connections can be accepted, and which connections can be
    /// advanced.
    fn wait(&mut self, now: Instant, is_ending: bool) -> (bool, Vec<u64>) {
        let polled: Vec<&ControlConnection> = self
            .connections
            .iter()
            .filter(|connection| {
                !matches!(connection.stage, ConnectionStage::Waiting(_) | ConnectionStage::Ready(_))
            })
            .collect();
        let mut fds = vec![PollFd::new(self.wakes.1.as_fd(), PollFlags::POLLIN)];
        fds.extend(polled.iter().map(|connection| {
            let events = match connection.stage {
                ConnectionStage::Answered(..) => PollFlags::POLLOUT,
                _ => PollFlags::POLLIN,
            };
            PollFd::new(connection.stream.as_fd(), events)
        }));
        let listens = !is_ending && self.paused_until.is_none();
        if listens {
            fds.push(PollFd::new(self.listener.as_fd(), PollFlags::POLLIN));
        }
        let next = polled.iter().map(|connection| connection.deadline).chain(self.paused_until).min();
        let left =
            next.map(|next| next.saturating_duration_since(now).saturating_add(Duration::from_millis(1)));
        let timeout =
            left.map_or(PollTimeout::NONE, |left| PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX));
        if let Err(errno) = poll(&mut fds, timeout)
            && errno != Errno::EINTR
        {
            // For example, out of memory.
            log::warn!("cannot wait at the control socket: {}", errno.desc());
            thread::sleep(PAUSE);
        }
        let happened = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
        let ready = polled.iter().zip(&fds[1..]).filter(|(_, fd)| happened(fd));
        let ready = ready.map(|(connection, _)| connection.number).collect();
        let accepts = listens && fds.last().is_some_and(happened);
        let mut bytes = [0; 64];
        while (&self.wakes.1).read(&mut bytes).is_ok_and(|len| len > 0) {}
        (accepts, ready)
    }

    fn accept(&mut self) {
        for _ in 0..AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock) => return,
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                // A client that uses up all descriptors must not keep an administrator from requesting the status.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    if self.spare.take().is_none() {
                        self.make_room();
                        self.paused_until = Some(Instant::now() + PAUSE);
                        return;
                    }
                }
                Err(error) => {
                    if !self.is_ending.load(Ordering::Acquire) {
                        log::warn!("cannot accept a connection to the control socket: {error}");
                        self.paused_until = Some(Instant::now() + PAUSE);
                    }
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: UnixStream) {
        let Ok(peer) = getsockopt(&stream, PeerCredentials) else { return };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let client = (peer.uid(), peer.pid());
        if client.0 != 0 && client.0 != geteuid().as_raw() {
            self.strangers.refuse(&stream, client.0);
            return;
        }
        if self.connections.len() >= MAX_CONNECTIONS && !self.make_room() {
            refuse(&stream, BUSY);
            return;
        }
        self.next += 1;
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let stage = ConnectionStage::Asking(Vec::new());
        self.connections.push(ControlConnection { number: self.next, stream, client, deadline, stage });
    }

    /// The number of connections of each client.
    fn counts(&self) -> HashMap<ClientProcess, usize> {
        let mut counts = HashMap::new();
        for connection in &self.connections {
            *counts.entry(connection.client).or_default() += 1;
        }
        counts
    }

    /// Closes a connection of the client with the most connections: the oldest one without a complete request, or one that
    /// does not read its reply, or one whose request waits. Returns whether a connection was closed.
    fn make_room(&mut self) -> bool {
        let rank = |connection: &ControlConnection| match connection.stage {
            ConnectionStage::Asking(_) => Some(3),
            ConnectionStage::Answered(..) => Some(2),
            ConnectionStage::Ready(_) => Some(1),
            ConnectionStage::Waiting(_) => None,
        };
        let counts = self.counts();
        let all = self.connections.iter().enumerate();
        let victims =
            all.filter_map(|(at, connection)| Some((at, counts.get(&connection.client)?, rank(connection)?)));
        // `max_by_key` returns the last of equals, so the order is reversed: the oldest connections come first in the list.
        let victims: Vec<_> = victims.collect();
        let victim = victims.iter().rev().max_by_key(|(_, count, rank)| (*count, *rank)).copied();
        victim.map(|(at, ..)| drop(self.connections.remove(at))).is_some()
    }

    /// Starts waiting requests up to the limits, those of the clients with the fewest connections first.
    fn begin_all(&mut self) {
        loop {
            let (changing, is_full) = (self.running(true), self.running(false) >= MOST_READING);
            let is_free = |request: ControlRequest| request.is_change() || !is_full;
            let counts = self.counts();
            let ready =
                self.connections.iter().enumerate().filter_map(|(at, connection)| match connection.stage {
                    ConnectionStage::Ready(request) if is_free(request) => {
                        Some((at, request, counts.get(&connection.client).copied()?))
                    }
                    _ => None,
                });
            let Some((at, request, _)) = ready.min_by_key(|(at, _, count)| (*count, *at)) else { return };
            match request.is_change() && changing >= MOST_CHANGING {
                true => {
                    let number = self.connections[at].number;
                    self.reply(number, &ControlReply::failed(BUSY));
                }
                false => self.begin(at, request),
            }
        }
    }

    fn running(&self, changes: bool) -> usize {
        let is_it = |connection: &&ControlConnection| matches!(connection.stage, ConnectionStage::Waiting(request) if request.is_change() == changes);
        self.connections.iter().filter(is_it).count()
    }

    fn advance(&mut self, number: u64) {
        let Some(at) = self.connections.iter().position(|connection| connection.number == number) else {
            return;
        };
        match self.connections[at].advance() {
            ConnectionStep::Waits => {}
            ConnectionStep::Asks(request) => {
                let (uid, pid) = self.connections[at].client;
                log::debug!("uid {uid}, pid {pid}: {request:?}");
                self.connections[at].stage = ConnectionStage::Ready(request);
            }
            ConnectionStep::Refused(why) => self.reply(number, &ControlReply::failed(why)),
            ConnectionStep::Ends => drop(self.connections.remove(at)),
        }
        if self.spare.is_none() {
            self.spare = spare();
        }
    }

    /// Starts a request.
    fn begin(&mut self, at: usize, request: ControlRequest) {
        let connection = &mut self.connections[at];
        connection.stage = ConnectionStage::Waiting(request);
        // The client may wait as long as it likes: the request is executed in any case.
        connection.deadline = Instant::now() + Duration::from_secs(3600);
        let number = connection.number;
        let instance = self.instance.clone();
        let (replies, wakes) = (self.replies.0.clone(), self.wakes.0.clone());
        let work = move || {
            let reply = carry_out(request, &*instance);
            // This fails if the serving thread has ended.
            let _ = replies.send((number, reply));
            let _ = (&*wakes).write(&[1]);
        };
        let started = thread::Builder::new().name("control request".into()).spawn(work);
        if let Err(error) = started {
            log::warn!("cannot carry out a request at the control socket: {error}");
            // Reading requests are short, so they can run in this thread.
            let reply = match request.is_change() {
                false => carry_out(request, &*self.instance),
                true => ControlReply::failed(format!("there can be no thread for it: {error}")),
            };
            self.reply(number, &reply);
        }
    }

    fn reply(&mut self, number: u64, reply: &ControlReply) {
        let Some(connection) = self.connections.iter_mut().find(|connection| connection.number == number)
        else {
            return;
        };
        let mut line = serde_json::to_vec(reply).unwrap_or_default();
        line.push(b'\n');
        connection.stage = ConnectionStage::Answered(line, 0);
        connection.deadline = Instant::now() + ANSWER_TIMEOUT;
        self.advance(number);
    }
}

impl Strangers {
    /// Refuses a connection. Only some refusals are logged, however many there are.
    fn refuse(&mut self, stream: &UnixStream, uid: u32) {
        self.refused += 1;
        if self.said.is_none_or(|said| said.elapsed() >= INTERVAL) {
            let more = std::mem::take(&mut self.refused) - 1;
            self.said = Some(Instant::now());
            let more =
                if more == 0 { String::new() } else { format!(" ({more} more were refused since the last)") };
            log::warn!("refused uid {uid} at the control socket{more}");
        }
        refuse(stream, "only root and the user of the instance may use this socket");
    }
}

/// Sends only the reason, without waiting.
fn refuse(mut stream: &UnixStream, why: &str) {
    let mut line = serde_json::to_vec(&ControlReply::failed(why)).unwrap_or_default();
    line.push(b'\n');
    // If data is left unread when a connection is closed, the client may lose the reply (unix(7)).
    let _ = stream.read(&mut [0; MAX_REQUEST]);
    let _ = stream.write(&line);
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

impl ControlConnection {
    /// Continues as far as possible without waiting.
    fn advance(&mut self) -> ConnectionStep {
        let result = match &mut self.stage {
            ConnectionStage::Asking(line) => read_request(&self.stream, line),
            ConnectionStage::Ready(_) | ConnectionStage::Waiting(_) => return ConnectionStep::Waits,
            ConnectionStage::Answered(line, sent) => send(&self.stream, line, sent),
        };
        result.unwrap_or_else(|error| match error.kind() {
            ErrorKind::WouldBlock => ConnectionStep::Waits,
            _ => ConnectionStep::Ends,
        })
    }
}

/// Reads the available part of a request.
///
/// # Errors
/// WouldBlock if the request is not complete; otherwise as read(2) says.
fn read_request(mut stream: &UnixStream, line: &mut Vec<u8>) -> io::Result<ConnectionStep> {
    let mut buffer = [0; 1024];
    loop {
        let len = match stream.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            len => len?,
        };
        let part = &buffer[..len];
        if let Some(end) = memchr::memchr(b'\n', part) {
            line.extend(&part[..end]);
            return Ok(ControlRequest::parse(line).map_or_else(ConnectionStep::Refused, ConnectionStep::Asks));
        }
        line.extend(part);
        if len == 0 && line.is_empty() {
            return Ok(ConnectionStep::Ends);
        }
        if len == 0 || line.len() > MAX_REQUEST {
            return Ok(ConnectionStep::Refused(format!(
                "a request is one line of at most {MAX_REQUEST} bytes"
            )));
        }
        // Anything else cannot become a request.
        if line.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|&byte| byte != b'{') {
            return Ok(ConnectionStep::Refused("this is no request: it must be one JSON object".into()));
        }
    }
}

/// Sends as much of a reply as the client accepts.
///
/// # Errors
/// WouldBlock if the reply is not complete; otherwise as write(2) says.
fn send(mut stream: &UnixStream, line: &[u8], sent: &mut usize) -> io::Result<ConnectionStep> {
    while *sent < line.len() {
        match stream.write(&line[*sent..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            written => *sent += written?,
        }
    }
    // As above: reads data that the client has sent after the request.
    let _ = stream.read(&mut [0; MAX_REQUEST]);
    Ok(ConnectionStep::Ends)
}

fn carry_out(request: ControlRequest, instance: &dyn ControlHandler) -> ControlReply {
    let done = |result: Result<ReloadOutcome, String>| match result {
        Ok(reloaded) => ControlReply::done(reloaded),
        Err(why) => ControlReply::failed(why),
    };
    match request {
        ControlRequest::Status => ControlReply::done(instance.status()),
        ControlRequest::Reload => done(instance.reload()),
        ControlRequest::Mode(mode) => done(instance.set_mode(mode)),
        ControlRequest::Metrics => ControlReply::done(instance.metrics()),
        ControlRequest::Counters => ControlReply::done(instance.counters()),
    }
}
