//! The server side of the control socket.

mod attendant;

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use namegate_core::gate::Mode;
use nix::sys::socket::{Shutdown, shutdown};

use self::attendant::Attendant;
use super::directory::{SocketDirectory, SocketId};
use super::name::InstanceName;
use super::protocol::{InstanceCounters, InstanceStatus, ReloadOutcome};

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

/// A socket to which clients can connect, without a server that answers yet. It is removed when this is dropped.
#[derive(Debug)]
pub struct ReservedSocket {
    name: InstanceName,
    socket: BoundSocket,
}

/// A socket on which an instance answers requests. It is removed when this is dropped. Requests that were read before are
/// still answered, others are not.
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
    /// Identifies the file, so that the socket of another server is never removed.
    id: SocketId,
    /// `None` after it was removed.
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

    pub fn name(&self) -> &InstanceName {
        &self.name
    }

    /// Answers requests from now on.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn serve(self, instance: Arc<dyn ControlHandler>) -> io::Result<ControlServer> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let attendant = Attendant::new(self.socket.listener.try_clone()?, instance, is_ending.clone())?;
        thread::Builder::new().name("control".into()).spawn(move || attendant.answer_all())?;
        Ok(ControlServer { socket: self.socket, is_ending })
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // First: while this server listens, no other server takes the name, so that the removed socket is its own.
        self.socket.remove();
        self.is_ending.store(true, Ordering::Release);
        // Wakes the thread that waits for a connection.
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
