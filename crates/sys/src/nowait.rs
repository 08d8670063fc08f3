//! Reads that never wait for a disk: preadv2(2) with RWF_NOWAIT, which nix lacks.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// Reads bytes at `offset` that are in the page cache into `buffer`, and returns how many; 0 at the end of the file.
///
/// # Errors
/// EAGAIN if no byte can be read without waiting; EOPNOTSUPP from file systems that do not support this; otherwise as
/// pread(2) says.
pub fn read_at(file: impl AsFd, buffer: &mut [u8], offset: i64) -> Result<usize, Errno> {
    let room = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: `room` describes `buffer`, which stays borrowed during the call, and the kernel writes no more than its length.
    let read =
        unsafe { libc::preadv2(file.as_fd().as_raw_fd(), &raw const room, 1, offset, libc::RWF_NOWAIT) };
    Errno::result(read).map(|read| read as usize)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_in_the_cache_are_read_without_waiting() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        let mut buffer = [0; 16];
        match read_at(&file, &mut buffer, 3) {
            Ok(read) => {
                assert_eq!(&buffer[..read], b"tent");
                assert_eq!(read_at(&file, &mut buffer, 7), Ok(0), "the end of the file");
            }
            Err(Errno::EOPNOTSUPP) => {
                println!("SKIPPED: the file system of the temporary directory does not support RWF_NOWAIT")
            }
            Err(errno) => panic!("{errno}"),
        }
    }
}
