//! Who listens at the socket.

mod attendant;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::socket::{Shutdown, shutdown};

use self::attendant::Attendant;
use super::directory::{FileId, SocketDirectory};
use super::name::Name;
use super::protocol::{Counters, Reloaded, Status};
use crate::gate::Mode;

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

/// A socket at which an instance answers. It is removed when this is dropped; requests that were read by then are answered,
/// and nobody else.
#[derive(Debug)]
pub struct Serving {
    socket: Socket,
    is_ending: Arc<AtomicBool>,
}

/// A socket in its directory.
#[derive(Debug)]
struct Socket {
    directory: SocketDirectory,
    listener: UnixListener,
    /// Which file it is, so that no other server's is removed.
    id: FileId,
    /// `None` when it has been removed.
    name: Option<Name>,
}

impl Reserved {
    pub(super) fn new(name: Name, directory: SocketDirectory, listener: UnixListener, id: FileId) -> Self {
        Self { socket: Socket { directory, listener, id, name: Some(name.clone()) }, name }
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
        let is_ending = Arc::new(AtomicBool::new(false));
        let attendant = Attendant::new(self.socket.listener.try_clone()?, instance, is_ending.clone())?;
        thread::Builder::new().name("control".into()).spawn(move || attendant.answer_all())?;
        Ok(Serving { socket: self.socket, is_ending })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // First: while somebody listens no other server takes the name, so that it is this one's socket that is removed.
        self.socket.remove();
        self.is_ending.store(true, Ordering::Release);
        // Wakes whoever waits for a connection.
        let _ = shutdown(self.socket.listener.as_raw_fd(), Shutdown::Both);
    }
}

impl Socket {
    fn remove(&mut self) {
        if let Some(name) = self.name.take()
            && self.directory.id(&name) == Ok(self.id)
        {
            let _ = self.directory.remove(&name);
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.remove();
    }
}
