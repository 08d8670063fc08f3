//! The client side: sends requests to any number of instances at once, with one deadline.
//!
//! Root also sends requests to the servers of other users. Their replies are limited in length and time, and escaped for
//! display. Before a request is sent, the kernel reports who listens: if a server does not belong to the owner of the
//! socket's directory, it is an impostor, and its replies are not trusted.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use std::{env, fmt};

use namegate_core::name::display::{harmless, shown};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::geteuid;
use serde::de::DeserializeOwned;

use super::directory::{FoundSocket, FoundSockets, in_directory, of_users};
use super::place::directory;
use super::protocol::{ControlReply, ControlRequest, MAX_REPLY, VERSION};

/// Maximum number of connections that are open at once. Further sockets follow when the first ones have answered.
const MOST_OPEN: usize = 256;
/// The longest reply of another user's server. Replies of root's own servers may be as long as [`MAX_REPLY`].
const MAX_FOREIGN_REPLY: usize = 1 << 18;
/// The time between two attempts to connect to a server whose queue of connections is full.
const AGAIN: Duration = Duration::from_millis(20);

/// The reason why there is no reply.
#[derive(Debug)]
pub enum RequestError {
    /// No server listens on the socket.
    Gone,
    /// This user has no access to the socket.
    Forbidden,
    /// The server belongs to this user, not to the owner of the directory.
    Impostor(u32),
    /// It did not answer in time, or the reply is invalid.
    Unreachable(io::Error),
    /// The request failed, with the reason: one or more lines, escaped for display.
    Refused(String),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("it is not running"),
            Self::Forbidden => f.write_str("it belongs to another user"),
            Self::Impostor(uid) => {
                write!(f, "uid {uid} listens at its socket, and is not believed: the socket is not theirs")
            }
            Self::Unreachable(error) if error.kind() == io::ErrorKind::WouldBlock => {
                f.write_str("it does not answer in time")
            }
            Self::Unreachable(error) => write!(f, "it cannot be asked: {error}"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for RequestError {}

impl From<io::Error> for RequestError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Self::Gone,
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            io::ErrorKind::TimedOut => late(),
            _ => Self::Unreachable(error),
        }
    }
}

fn late() -> RequestError {
    RequestError::Unreachable(io::ErrorKind::WouldBlock.into())
}

/// The existing sockets: those of this user, and for root also those of other users below `/run/user`.
pub fn sockets() -> FoundSockets {
    let mut sockets = FoundSockets::default();
    if let Some(directory) = directory() {
        match in_directory(&directory) {
            Ok(own) => sockets.own = own,
            Err(error) => {
                sockets.ignored.push(format!("the sockets in {} are ignored: {error}", shown(&directory)));
            }
        }
    }
    if geteuid().is_root() && env::var_os("NAMEGATE_RUNTIME_DIR").is_none() {
        of_users("/run/user".as_ref(), &mut sockets);
    }
    sockets
}

impl FoundSocket {
    /// Whether a server of the right user listens on the socket. Sends no request and does not wait.
    pub fn is_there(&self) -> bool {
        match self.connect() {
            Ok((_, uid)) => uid == self.uid(),
            Err(errno) => !matches!(errno, Errno::ECONNREFUSED | Errno::ENOENT | Errno::ENOTSOCK),
        }
    }

    /// Sends the request to the instance.
    ///
    /// # Errors
    /// [`RequestError`].
    pub fn ask<T: DeserializeOwned>(&self, request: ControlRequest) -> Result<T, RequestError> {
        let mut answers = ask_all(&[self], request, request.patience(), |_, _| None);
        answers.pop().unwrap_or_else(|| Err(late()))
    }
}

/// Sends the request to all these instances at once, and returns the replies in the order of the sockets, at most after
/// `patience`. `on_answer` is called with each reply when it arrives, and may shorten the time for the others.
pub fn ask_all<T: DeserializeOwned>(
    sockets: &[&FoundSocket],
    request: ControlRequest,
    patience: Duration,
    mut on_answer: impl FnMut(usize, &Result<T, RequestError>) -> Option<Duration>,
) -> Vec<Result<T, RequestError>> {
    let mut deadline = Instant::now() + patience;
    let mut answers: Vec<Option<Result<T, RequestError>>> = sockets.iter().map(|_| None).collect();
    let (mut waiting, mut open): (VecDeque<usize>, Vec<Exchange>) =
        ((0..sockets.len()).collect(), Vec::new());
    let mut settle = |index: usize, answer: Result<T, RequestError>, deadline: &mut Instant| {
        if let Some(sooner) = on_answer(index, &answer) {
            *deadline = (*deadline).min(Instant::now() + sooner);
        }
        answers[index] = Some(answer);
    };
    while Instant::now() < deadline && !(waiting.is_empty() && open.is_empty()) {
        for _ in 0..waiting.len().min(MOST_OPEN.saturating_sub(open.len())) {
            let Some(index) = waiting.pop_front() else { break };
            match Exchange::begin(index, sockets[index], request) {
                Ok(Some(exchange)) => open.push(exchange),
                Ok(None) => waiting.push_back(index),
                Err(failure) => settle(index, Err(failure), &mut deadline),
            }
        }
        if waiting.is_empty() && open.is_empty() {
            break;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let left = if waiting.is_empty() || open.len() >= MOST_OPEN { left } else { left.min(AGAIN) };
        if !wait(&mut open, left) {
            break;
        }
        let (done, others): (Vec<_>, Vec<_>) = open.into_iter().partition(|exchange| exchange.end.is_some());
        open = others;
        for Exchange { index, end, line, .. } in done {
            let answer = match end {
                Some(Ok(())) => answer(&line),
                Some(Err(failure)) => Err(failure),
                None => Err(late()),
            };
            settle(index, answer, &mut deadline);
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(late()))).collect()
}

/// A request in progress, and its reply.
struct Exchange {
    index: usize,
    stream: UnixStream,
    unsent: Vec<u8>,
    line: Vec<u8>,
    longest: usize,
    /// The result, once it has ended.
    end: Option<Result<(), RequestError>>,
}

impl Exchange {
    /// `None` if the server's queue of connections is full.
    fn begin(
        index: usize,
        socket: &FoundSocket,
        request: ControlRequest,
    ) -> Result<Option<Self>, RequestError> {
        let (stream, uid) = match socket.connect() {
            Err(Errno::EAGAIN) => return Ok(None),
            Err(Errno::ENOTSOCK) => return Err(RequestError::Gone),
            connected => connected.map_err(io::Error::from)?,
        };
        if uid != socket.uid() {
            return Err(RequestError::Impostor(uid));
        }
        let longest = if uid == geteuid().as_raw() || uid == 0 { MAX_REPLY } else { MAX_FOREIGN_REPLY };
        let (unsent, line) = (request.to_line(), Vec::new());
        Ok(Some(Self { index, stream, unsent, line, longest, end: None }))
    }

    fn interest(&self) -> PollFlags {
        if self.unsent.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLOUT | PollFlags::POLLIN }
    }

    /// Continues as far as possible without waiting.
    fn advance(&mut self) {
        self.end = match self.try_advance() {
            Ok(()) => Some(Ok(())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(error.into())),
        };
    }

    fn try_advance(&mut self) -> io::Result<()> {
        let mut buffer = [0; 1 << 14];
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The server has refused the connection before it read the request, and its reply says why.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)) => {
                    self.unsent.clear();
                }
                written => drop(self.unsent.drain(..written?)),
            }
        }
        while !self.line.ends_with(b"\n") {
            let len = match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                len => len?,
            };
            self.line.extend(&buffer[..len]);
            if len == 0 || self.line.len() > self.longest {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// Waits for at most that time, and advances all requests that are ready. Returns whether waiting is possible.
fn wait(open: &mut [Exchange], left: Duration) -> bool {
    // Rounded up: otherwise the last millisecond would be spent in a busy loop.
    let timeout = PollTimeout::try_from(left.saturating_add(Duration::from_micros(999)));
    let mut fds: Vec<PollFd<'_>> =
        open.iter().map(|exchange| PollFd::new(exchange.stream.as_fd(), exchange.interest())).collect();
    match poll(&mut fds, timeout.unwrap_or(PollTimeout::MAX)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(_) => return false,
    }
    let ready: Vec<bool> =
        fds.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty())).collect();
    for (exchange, _) in open.iter_mut().zip(ready).filter(|(_, is_ready)| *is_ready) {
        exchange.advance();
    }
    true
}

/// Parses a reply.
fn answer<T: DeserializeOwned>(line: &[u8]) -> Result<T, RequestError> {
    let unreadable = |error: serde_json::Error| RequestError::Unreachable(error.into());
    let reply: ControlReply = serde_json::from_slice(line).map_err(unreadable)?;
    if reply.version != VERSION {
        let why = format!("it speaks version {} of the protocol, this program {VERSION}", reply.version);
        return Err(RequestError::Refused(why));
    }
    match (reply.ok, reply.error) {
        (true, _) => serde_json::from_value(reply.result).map_err(unreadable),
        (false, why) => {
            let why = why.unwrap_or_else(|| "it does not say why".into());
            // Line breaks are kept; everything else that could act on a terminal is escaped.
            let lines = why.lines().map(harmless);
            Err(RequestError::Refused(lines.collect::<Vec<_>>().join("\n")))
        }
    }
}
