//! Reading that never waits for a disk: preadv2(2) with RWF_NOWAIT, which nix lacks.

use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;

/// Reads into `buffer` from `offset` on what is in the page cache, and returns how many bytes; 0 at the end of the file.
///
/// # Errors
/// EAGAIN when nothing of it can be had without waiting; EOPNOTSUPP from file systems that cannot tell; otherwise as
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
    fn what_was_just_written_is_read_without_waiting_where_the_file_system_can_tell() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        let mut buffer = [0; 16];
        match read_at(&file, &mut buffer, 3) {
            Ok(read) => {
                assert_eq!(&buffer[..read], b"tent");
                assert_eq!(read_at(&file, &mut buffer, 7), Ok(0), "the end of the file");
            }
            Err(Errno::EOPNOTSUPP) => {
                println!("SKIPPED: the file system of the temporary directory cannot tell")
            }
            Err(errno) => panic!("{errno}"),
        }
    }
}
