//! Who listens at the socket.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{Shutdown, getsockopt, shutdown, sockopt::PeerCredentials};
use nix::unistd::geteuid;

use super::PATIENCE;
use super::name::Name;
use super::protocol::{Counters, MAX_REQUEST, Reloaded, Reply, Request, Status};
use crate::gate::Mode;

/// Connections that are served at once.
const MOST: usize = 8;

/// What is asked and told. Everything is asked from threads of its own, several at once.
pub trait Instance: Send + Sync {
    /// How it is.
    fn status(&self) -> Status;

    /// Reads its files again.
    ///
    /// # Errors
    /// Why the old ones hold on: lines for people.
    fn reload(&self) -> Result<Reloaded, String>;

    /// Judges in another mode from now on.
    ///
    /// # Errors
    /// Why not.
    fn set_mode(&self, mode: Mode) -> Result<Reloaded, String>;

    /// What it counts, as text for Prometheus.
    fn metrics(&self) -> String;

    /// What it counts, and who was refused last.
    fn counters(&self) -> Counters;
}

/// A socket to which one can connect; nobody answers yet. It is removed when this is dropped.
#[derive(Debug)]
pub struct Reserved {
    name: Name,
    socket: Socket,
}

/// A socket at which an instance answers. It is removed when this is dropped, and nobody answers from then on.
#[derive(Debug)]
pub struct Serving {
    socket: Socket,
    is_ending: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode number of the file, so that no other server's is removed.
    place: (u64, u64),
}

impl Reserved {
    pub(super) fn new(name: Name, path: PathBuf, listener: UnixListener) -> io::Result<Self> {
        let place = place(&path)?;
        Ok(Self { name, socket: Socket { listener, path, place } })
    }

    /// What the instance is called.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Answers from now on.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn serve(self, instance: Arc<dyn Instance>) -> io::Result<Serving> {
        let listener = self.socket.listener.try_clone()?;
        let is_ending = Arc::new(AtomicBool::new(false));
        let ends = is_ending.clone();
        thread::Builder::new()
            .name("control".into())
            .spawn(move || answer_all(&listener, &instance, &ends))?;
        Ok(Serving { socket: self.socket, is_ending })
    }
}

impl Serving {
    /// Where the socket is.
    pub fn path(&self) -> &Path {
        &self.socket.path
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        // Wakes whoever waits for a connection.
        let _ = shutdown(self.socket.listener.as_raw_fd(), Shutdown::Both);
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if place(&self.path).is_ok_and(|place| place == self.place) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn place(path: &Path) -> io::Result<(u64, u64)> {
    let stat = fs::symlink_metadata(path)?;
    Ok((stat.dev(), stat.ino()))
}

fn answer_all(listener: &UnixListener, instance: &Arc<dyn Instance>, is_ending: &AtomicBool) {
    let busy = Arc::new(AtomicUsize::new(0));
    while !is_ending.load(Ordering::Acquire) {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if is_ending.load(Ordering::Acquire) => return,
            // No descriptor left, for one. Whoever waits gets in later.
            Err(error) => {
                log::warn!("cannot take a connection to the control socket: {error}");
                thread::sleep(Duration::from_millis(500));
                continue;
            }
        };
        while busy.load(Ordering::Acquire) >= MOST {
            // Each of them ends in time.
            thread::sleep(Duration::from_millis(10));
        }
        busy.fetch_add(1, Ordering::AcqRel);
        let place = Place(busy.clone());
        let instance = instance.clone();
        let answered = thread::Builder::new().name("control client".into()).spawn(move || {
            let _place = place;
            if let Err(error) = answer(&stream, &*instance) {
                log::debug!("a client of the control socket: {error}");
            }
        });
        if let Err(error) = answered {
            log::warn!("cannot answer at the control socket: {error}");
        }
    }
}

/// One of the places for connections.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn answer(stream: &UnixStream, instance: &dyn Instance) -> io::Result<()> {
    let peer = getsockopt(stream, PeerCredentials)?;
    // Read in any case: what is left unread when the connection ends takes the answer with it (unix(7)).
    let line = read_line(stream)?;
    if peer.uid() != 0 && peer.uid() != geteuid().as_raw() {
        log::warn!("the control socket is not for uid {}", peer.uid());
        return write_line(stream, &Reply::failed("this is for root and for the user of the instance alone"));
    }
    let reply = match line {
        Err(why) => Reply::failed(why),
        Ok(line) => match Request::parse(&line) {
            Err(why) => Reply::failed(why),
            Ok(request) => {
                log::debug!("uid {}, pid {}: {request:?}", peer.uid(), peer.pid());
                carry_out(request, instance)
            }
        },
    };
    write_line(stream, &reply)
}

fn carry_out(request: Request, instance: &dyn Instance) -> Reply {
    let done = |result: Result<Reloaded, String>| match result {
        Ok(reloaded) => Reply::done(reloaded),
        Err(why) => Reply::failed(why),
    };
    match request {
        Request::Status => Reply::done(instance.status()),
        Request::Reload => done(instance.reload()),
        Request::Mode(mode) => done(instance.set_mode(mode)),
        Request::Metrics => Reply::done(instance.metrics()),
        Request::Counters => Reply::done(instance.counters()),
    }
}

/// One line without its end, or what is wrong with it.
fn read_line(mut stream: &UnixStream) -> io::Result<Result<Vec<u8>, String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut line = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let len = match stream.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            len => len?,
        };
        let part = &buffer[..len];
        if let Some(end) = memchr::memchr(b'\n', part) {
            line.extend(&part[..end]);
            return Ok(Ok(line));
        }
        line.extend(part);
        if len == 0 || line.len() > MAX_REQUEST {
            return Ok(Err(format!("a request is one line of at most {MAX_REQUEST} bytes")));
        }
    }
}

fn write_line(mut stream: &UnixStream, reply: &Reply) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(rest) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => rest = &rest[written?..],
        }
    }
    Ok(())
}

/// How much time is left.
///
/// # Errors
/// None.
pub(super) fn left(deadline: Instant) -> io::Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}
