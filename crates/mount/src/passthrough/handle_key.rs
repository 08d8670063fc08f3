//! The key of a source: with it, file handles of a mount cannot be made up.
//!
//! A part of a file system cannot be told from the rest by inode numbers. So the server gives out a generation that nobody can compute
//! who does not have the key: a client that presents it has got it from a mount of this source. The key is an attribute of
//! the source, which only root can read: it stays with the file system, on any machine.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::Hasher;
#[expect(deprecated, reason = "SipHash 2-4 with a key; its successor has no fixed algorithm")]
use std::hash::SipHasher;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

use namegate_sys::handle::{self, KernelHandle};
use namegate_sys::xattr;
use nix::errno::Errno;

use super::Result;
use super::inode::mount_for_handles;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandleKey(pub [u64; 2]);

impl HandleKey {
    /// The attribute of the source. Only processes with CAP_SYS_ADMIN see attributes in `trusted.` (xattr(7)).
    pub(super) const ATTRIBUTE: &str = "trusted.namegate.export";

    /// The key of the source `root`, which is created if there is none.
    ///
    /// # Errors
    /// EOPNOTSUPP if files cannot be opened by their inode numbers there; otherwise as setxattr(2) says.
    pub fn of_source(root: impl AsFd) -> Result<Self> {
        let root = root.as_fd();
        let (_, _, handle) = mount_for_handles(root)?;
        handle.of_sibling(2, 0).ok_or(Errno::EOPNOTSUPP)?;
        match Self::read(root) {
            Err(Errno::ENODATA) => {}
            found => return found,
        }
        let mut key = [0; 16];
        let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut key));
        read.map_err(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw))?;
        match xattr::set(&root, OsStr::new(Self::ATTRIBUTE), &key, libc::XATTR_CREATE) {
            // Another server of this source was faster.
            Ok(()) | Err(Errno::EEXIST) => Self::read(root),
            Err(errno) => Err(errno),
        }
    }

    fn read(root: BorrowedFd<'_>) -> Result<Self> {
        let mut key = [0; 16];
        match xattr::get(&root, OsStr::new(Self::ATTRIBUTE), &mut key) {
            Ok(16) => {
                let (low, high) = key.split_at(8);
                let word = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
                Ok(Self([word(low), word(high)]))
            }
            // It is no key of this program.
            Ok(_) | Err(Errno::ERANGE) => Err(Errno::EBADMSG),
            Err(errno) => Err(errno),
        }
    }
}

/// A source with its key: the generation that is given out for a file depends on both.
#[derive(Clone, Debug)]
pub struct HandleSeal {
    root: KernelHandle,
    key: HandleKey,
}

impl HandleSeal {
    /// For the source `root`.
    ///
    /// # Errors
    /// As name_to_handle_at(2) says.
    pub fn new(root: impl AsFd, key: HandleKey) -> Result<Self> {
        Ok(Self { root: handle::from_fd(root)?.0, key })
    }

    /// The generation that a mount reports for the file with this handle.
    #[expect(deprecated, reason = "see above")]
    pub(super) fn generation(&self, handle: &KernelHandle) -> u32 {
        let HandleKey([low, high]) = self.key;
        let mut hasher = SipHasher::new_with_keys(low, high);
        write_handle(&mut hasher, &self.root);
        write_handle(&mut hasher, handle);
        hasher.finish() as u32
    }
}

fn write_handle(hasher: &mut impl Hasher, handle: &KernelHandle) {
    let (kind, bytes) = handle.parts();
    // The length first: no two pairs of handles give the same bytes.
    hasher.write(&[bytes.len() as u8]);
    hasher.write(&kind.to_le_bytes());
    hasher.write(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(deprecated, reason = "see above")]
    fn the_hash_is_siphash_2_4_and_depends_on_key_source_and_file() {
        // The key and the first messages of the vectors of the reference implementation (Aumasson and Bernstein).
        let key = [0x0706_0504_0302_0100, 0x0F0E_0D0C_0B0A_0908];
        for (len, expected) in
            [(0, 0x726F_DB47_DD0E_0E31), (1, 0x74F8_39C5_93DC_67FD), (8, 0x93F5_F579_9A93_2462)]
        {
            let mut hasher = SipHasher::new_with_keys(key[0], key[1]);
            hasher.write(&(0..len).collect::<Vec<u8>>());
            assert_eq!(hasher.finish(), expected);
        }
        let handle = |ino: u32| KernelHandle::from_parts(1, &[ino.to_le_bytes(), [0; 4]].concat()).unwrap();
        let seal = |key, root| HandleSeal { root: handle(root), key: HandleKey(key) };
        let of = |key, root, file| seal(key, root).generation(&handle(file));
        let all = [of(key, 2, 12), of([1, 2], 2, 12), of(key, 3, 12), of(key, 2, 13), of(key, 12, 2)];
        assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), 5);
        assert_eq!(of(key, 2, 12), all[0]);
    }
}
