//! A minimal HTTP/1.1 server for Prometheus: one page, one request per connection.
//!
//! One thread, a few connections, requests of limited size, and a deadline for each connection: a slow or silent
//! client uses a connection for a short time, and loses it when a new client needs it.
//!
//! Sources: RFC 9110 and RFC 9112. The maintained server crates (hyper, axum) need an asynchronous runtime for this one
//! page; tiny_http has had no release since 2022, and no time limit for a connection.

use std::io::{self, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{CONTENT_TYPE, MetricsSource};

/// Maximum number of connections; a further one replaces the oldest.
const CONNECTIONS: usize = 16;
const CONNECTION_DEADLINE: Duration = Duration::from_secs(5);
/// Maximum size of a request, in bytes.
const REQUEST: usize = 8 << 10;
/// Maximum number of header fields in a request.
const FIELDS: usize = 64;

/// The server; dropping it ends the thread.
#[derive(Debug)]
pub(super) struct HttpServer {
    _ends: PipeWriter,
}

struct HttpConnection {
    stream: TcpStream,
    state: HttpStage,
    deadline: Instant,
}

enum HttpStage {
    /// The part of the request that has arrived.
    Asked(Vec<u8>),
    /// The reply, and how many bytes of it are sent.
    Answered(Vec<u8>, usize),
    /// The reply is sent. Wait for the client to close: closing first could discard a reply that it has not read yet.
    Done,
}

/// Whether a connection continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HttpProgress {
    On,
    Ended,
}

/// Serves `metrics` to all clients.
pub(super) fn start(listener: TcpListener, metrics: Arc<dyn MetricsSource>) -> io::Result<HttpServer> {
    listener.set_nonblocking(true)?;
    log::info!("metrics at http://{}/metrics", listener.local_addr()?);
    let (ends, writer) = io::pipe()?;
    thread::Builder::new().name("metrics-http".into()).spawn(move || serve(&listener, &ends, &*metrics))?;
    Ok(HttpServer { _ends: writer })
}

fn serve(listener: &TcpListener, ends: &PipeReader, metrics: &dyn MetricsSource) {
    let mut connections: Vec<HttpConnection> = Vec::new();
    // Without a free descriptor no connection can be accepted; retrying at once would only waste time.
    let mut pause: Option<Instant> = None;
    loop {
        let now = Instant::now();
        connections.retain(|connection| connection.deadline > now);
        pause = pause.filter(|&until| until > now);
        let door = if pause.is_some() { PollFlags::empty() } else { PollFlags::POLLIN };
        let mut fds = vec![PollFd::new(ends.as_fd(), PollFlags::POLLIN), PollFd::new(listener.as_fd(), door)];
        fds.extend(connections.iter().map(|connection| {
            let waits_for = match connection.state {
                HttpStage::Answered(..) => PollFlags::POLLOUT,
                HttpStage::Asked(_) | HttpStage::Done => PollFlags::POLLIN,
            };
            PollFd::new(connection.stream.as_fd(), waits_for)
        }));
        let next = connections.iter().map(|connection| connection.deadline).chain(pause).min();
        match poll(&mut fds, time_until(next, now)) {
            Err(Errno::EINTR) => continue,
            Err(errno) => return log::error!("the metrics are not served any more: {errno}"),
            Ok(_) => {}
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        if ready[0] {
            return;
        }
        let mut is_ready = ready[2..].iter();
        connections.retain_mut(|connection| {
            is_ready.next() != Some(&true) || connection.go_on(metrics) == HttpProgress::On
        });
        if ready[1] {
            match accept(listener) {
                Ok(Some(connection)) => {
                    if connections.len() >= CONNECTIONS {
                        // The oldest connection is the first.
                        connections.remove(0);
                    }
                    connections.push(connection);
                }
                Ok(None) => {}
                Err(_) => pause = Some(Instant::now() + Duration::from_millis(100)),
            }
        }
    }
}

/// A little more than until `next`, so that it has come then.
fn time_until(next: Option<Instant>, now: Instant) -> PollTimeout {
    let Some(next) = next else { return PollTimeout::NONE };
    let milliseconds = next.saturating_duration_since(now).as_millis() + 1;
    u16::try_from(milliseconds).unwrap_or(u16::MAX).into()
}

/// Accepts a pending connection; `None` if the client has already left.
fn accept(listener: &TcpListener) -> io::Result<Option<HttpConnection>> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true)?;
            let deadline = Instant::now() + CONNECTION_DEADLINE;
            Ok(Some(HttpConnection { stream, state: HttpStage::Asked(Vec::new()), deadline }))
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl HttpConnection {
    fn go_on(&mut self, metrics: &dyn MetricsSource) -> HttpProgress {
        match self.try_to_go_on(metrics) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                HttpProgress::On
            }
            Err(_) => HttpProgress::Ended,
            Ok(going) => going,
        }
    }

    fn try_to_go_on(&mut self, metrics: &dyn MetricsSource) -> io::Result<HttpProgress> {
        let mut part = [0; 1024];
        match &mut self.state {
            HttpStage::Asked(request) => {
                match self.stream.read(&mut part)? {
                    0 => return Ok(HttpProgress::Ended),
                    length => request.extend(&part[..length]),
                }
                if let Some(reply) = answer(request, metrics) {
                    self.state = HttpStage::Answered(reply, 0);
                }
            }
            HttpStage::Answered(reply, sent) => {
                *sent += self.stream.write(&reply[*sent..])?;
                if *sent == reply.len() {
                    self.stream.shutdown(Shutdown::Write)?;
                    self.state = HttpStage::Done;
                }
            }
            HttpStage::Done if self.stream.read(&mut part)? == 0 => return Ok(HttpProgress::Ended),
            HttpStage::Done => {}
        }
        Ok(HttpProgress::On)
    }
}

/// The reply to a request; `None` if the request is incomplete.
fn answer(request: &[u8], metrics: &dyn MetricsSource) -> Option<Vec<u8>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let (status, kind, content) = match parsed.parse(request) {
        Ok(httparse::Status::Partial) if request.len() <= REQUEST => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            ("431 Request Header Fields Too Large", TEXT, "the request is too long\n".into())
        }
        Err(_) => ("400 Bad Request", TEXT, "this is not HTTP\n".into()),
        Ok(httparse::Status::Complete(_)) => {
            let path = parsed.path.unwrap_or_default().split('?').next().unwrap_or_default();
            match (parsed.method.unwrap_or_default(), path) {
                ("GET" | "HEAD", "/metrics") => ("200 OK", CONTENT_TYPE, metrics.render()),
                ("GET" | "HEAD", "/") => ("200 OK", TEXT, "namegate: the metrics are at /metrics\n".into()),
                ("GET" | "HEAD", _) => ("404 Not Found", TEXT, "the metrics are at /metrics\n".into()),
                _ => ("405 Method Not Allowed", TEXT, "only GET and HEAD are allowed\n".into()),
            }
        }
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let length = content.len();
    let mut reply = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{allow}Connection: close\r\n\r\n"
    )
    .into_bytes();
    if parsed.method != Some("HEAD") {
        reply.extend(content.as_bytes());
    }
    Some(reply)
}

#[cfg(test)]
mod tests;
