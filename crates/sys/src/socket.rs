//! Descriptors that are sent over a socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

/// The kernel passes no more descriptors in one message: `SCM_MAX_FD` of net/scm.h.
pub const MOST_DESCRIPTORS: usize = 253;

/// Sends a message with copies of the descriptors that have these numbers: to `address`, or to the other end.
///
/// # Errors
/// As sendmsg(2) says.
pub fn send_fds(
    socket: impl AsFd,
    address: Option<&UnixAddr>,
    bytes: &[u8],
    numbers: &[RawFd],
) -> nix::Result<()> {
    let fds = [ControlMessage::ScmRights(numbers)];
    let control = if numbers.is_empty() { &[][..] } else { &fds };
    sendmsg(socket.as_fd().as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, address)
        .map(drop)
}

/// Waits for one message: the length of what is written to `bytes`, and its descriptors, with close-on-exec set. The length is 0 after the
/// other side has closed the socket. See unix(7), SCM_RIGHTS.
///
/// # Errors
/// As recvmsg(2) says.
pub fn receive_fds(socket: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut parts = [IoSliceMut::new(bytes)];
    let mut space = nix::cmsg_space!([RawFd; MOST_DESCRIPTORS]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = loop {
        match recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(nix::errno::Errno::EINTR) => {}
            message => break message?,
        }
    };
    let fds = message.cmsgs()?.filter_map(|control| match control {
        ControlMessageOwned::ScmRights(fds) => Some(fds),
        _ => None,
    });
    // SAFETY: the kernel has just created the descriptors for this process, and nothing else uses them. There is room for all of them.
    Ok((message.bytes, fds.flatten().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect()))
}

/// Waits for one message and returns the first descriptor in it; `None` if it has none, or the other side has closed the socket.
///
/// # Errors
/// As recvmsg(2) says.
pub fn receive_fd(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    Ok(receive_fds(socket, &mut [0])?.1.into_iter().next())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};

    use super::*;

    #[test]
    fn the_received_descriptor_is_the_one_that_was_sent() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"this one").unwrap();
        file.rewind().unwrap();
        send_fds(&there, None, b"x", &[file.as_raw_fd()]).unwrap();
        let mut text = String::new();
        File::from(receive_fd(&here).unwrap().unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "this one");
        (&there).write_all(b"y").unwrap();
        assert!(receive_fd(&here).unwrap().is_none(), "a message without a descriptor");
        drop(there);
        assert!(receive_fd(&here).unwrap().is_none(), "nobody");
    }
}
