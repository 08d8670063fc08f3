//! The server side of the control socket.

mod attendant;

use std::io;
use std::mem;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nix::sys::socket::{Shutdown, shutdown};

pub use self::attendant::ControlHandler;

use self::attendant::Attendant;
use super::directory::{SocketDirectory, SocketId};
use super::name::InstanceName;

/// A socket to which clients can connect, without a server that answers yet. It is removed when this is dropped.
#[derive(Debug)]
pub struct ReservedSocket {
    pub(super) name: InstanceName,
    pub(super) directory: SocketDirectory,
    pub(super) listener: UnixListener,
    /// Identifies the file, so that the socket of another server is never removed.
    pub(super) id: SocketId,
    pub(super) is_removed: bool,
}

/// A socket on which an instance answers requests. It is removed when this is dropped. Requests that were read before are
/// still answered, others are not.
#[derive(Debug)]
pub struct ControlServer {
    socket: ReservedSocket,
    is_ending: Arc<AtomicBool>,
}

impl ReservedSocket {
    pub fn name(&self) -> &InstanceName {
        &self.name
    }

    /// Answers requests from now on.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn serve(self, instance: Arc<dyn ControlHandler>) -> io::Result<ControlServer> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let attendant = Attendant::new(self.listener.try_clone()?, instance, is_ending.clone())?;
        thread::Builder::new().name("control".into()).spawn(move || attendant.answer_all())?;
        Ok(ControlServer { socket: self, is_ending })
    }
}

impl ReservedSocket {
    /// Removes the file, once, and unless it is of another server by now.
    fn remove(&mut self) {
        if !mem::replace(&mut self.is_removed, true) && self.directory.id(&self.name) == Ok(self.id) {
            let _ = self.directory.remove(&self.name);
        }
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

impl Drop for ReservedSocket {
    fn drop(&mut self) {
        self.remove();
    }
}
