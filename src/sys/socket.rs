//! Descriptors that are sent over a socket.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};

/// Waits for one message and returns the descriptor in it, with close-on-exec set; `None` if it has none, or the other
/// side has closed the socket. See unix(7), SCM_RIGHTS.
///
/// # Errors
/// As recvmsg(2) says.
pub fn receive_fd(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([i32; 1]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = loop {
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(nix::errno::Errno::EINTR) => {}
            message => break message?,
        }
    };
    let fds = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmRights(fds) => Some(fds),
        _ => None,
    });
    // SAFETY: the kernel has just created the descriptor for this process, and nothing else uses it. There is room for one.
    Ok(fds.and_then(|fds| fds.first().copied()).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{IoSlice, Read, Seek, Write};

    use nix::sys::socket::{ControlMessage, sendmsg};

    use super::*;

    #[test]
    fn the_received_descriptor_is_the_one_that_was_sent() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"this one").unwrap();
        file.rewind().unwrap();
        let fds = [file.as_raw_fd()];
        let sent = [ControlMessage::ScmRights(&fds)];
        sendmsg::<()>(there.as_raw_fd(), &[IoSlice::new(b"x")], &sent, MsgFlags::empty(), None).unwrap();
        let mut text = String::new();
        File::from(receive_fd(&here).unwrap().unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "this one");
        (&there).write_all(b"y").unwrap();
        assert!(receive_fd(&here).unwrap().is_none(), "a message without a descriptor");
        drop(there);
        assert!(receive_fd(&here).unwrap().is_none(), "nobody");
    }
}
