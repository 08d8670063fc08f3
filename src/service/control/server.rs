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
use super::directory::{SocketDirectory, SocketId};
use super::name::InstanceName;
use super::protocol::{InstanceCounters, InstanceStatus, ReloadOutcome};
use crate::gate::Mode;

/// What is asked and told. Everything is asked from threads of its own, several at once.
pub trait ControlHandler: Send + Sync {
    /// How it is.
    fn status(&self) -> InstanceStatus;

    /// Reads its files again.
    ///
    /// # Errors
    /// Why the old ones hold on: lines for people.
    fn reload(&self) -> Result<ReloadOutcome, String>;

    /// Judges in another mode from now on.
    ///
    /// # Errors
    /// Why not.
    fn set_mode(&self, mode: Mode) -> Result<ReloadOutcome, String>;

    /// What it counts, as text for Prometheus.
    fn metrics(&self) -> String;

    /// What it counts, and who was refused last.
    fn counters(&self) -> InstanceCounters;
}

/// A socket to which one can connect; nobody answers yet. It is removed when this is dropped.
#[derive(Debug)]
pub struct ReservedSocket {
    name: InstanceName,
    socket: BoundSocket,
}

/// A socket at which an instance answers. It is removed when this is dropped; requests that were read by then are answered,
/// and nobody else.
#[derive(Debug)]
pub struct ControlServer {
    socket: BoundSocket,
    is_ending: Arc<AtomicBool>,
}

/// A socket in its directory.
#[derive(Debug)]
struct BoundSocket {
    directory: SocketDirectory,
    listener: UnixListener,
    /// Which file it is, so that no other server's is removed.
    id: SocketId,
    /// `None` when it has been removed.
    name: Option<InstanceName>,
}

impl ReservedSocket {
    pub(super) fn new(
        name: InstanceName,
        directory: SocketDirectory,
        listener: UnixListener,
        id: SocketId,
    ) -> Self {
        Self { socket: BoundSocket { directory, listener, id, name: Some(name.clone()) }, name }
    }

    /// What the instance is called.
    pub fn name(&self) -> &InstanceName {
        &self.name
    }

    /// Answers from now on.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn serve(self, instance: Arc<dyn ControlHandler>) -> io::Result<ControlServer> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let attendant = Attendant::new(self.socket.listener.try_clone()?, instance, is_ending.clone())?;
        thread::Builder::new().name("control".into()).spawn(move || attendant.answer_all())?;
        Ok(ControlServer { socket: self.socket, is_ending })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // First: while somebody listens no other server takes the name, so that it is this one's socket that is removed.
        self.socket.remove();
        self.is_ending.store(true, Ordering::Release);
        // Wakes whoever waits for a connection.
        let _ = shutdown(self.socket.listener.as_raw_fd(), Shutdown::Both);
    }
}

impl BoundSocket {
    fn remove(&mut self) {
        if let Some(name) = self.name.take()
            && self.directory.id(&name) == Ok(self.id)
        {
            let _ = self.directory.remove(&name);
        }
    }
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        self.remove();
    }
}
