//! The pages of mapped files.

use std::fs;

use gix::odb::pack::data;
use nix::errno::Errno;

/// How many bytes of files this process has mapped, with shared memory, as far as they are in memory: proc_pid_statm(5). `None`
/// if /proc cannot be read.
pub fn resident_file_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(2)?.parse().ok()?;
    // SAFETY: sysconf(3) touches no memory of ours.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(pages * u64::try_from(page).ok()?)
}

/// Takes the pages of a mapped pack file out of this process. They stay in the page cache, and the next access maps them again.
///
/// # Errors
/// As madvise(2) says.
pub fn release_pages(pack: &data::File) -> Result<(), Errno> {
    let Some(bytes) = pack.entry_slice(0..pack.pack_end() as data::Offset) else { return Ok(()) };
    let address = bytes.as_ptr().cast_mut().cast();
    // SAFETY: these bytes are the beginning of a mapping of a file that gix takes to be never changed, and of which it lends out only
    // shared slices. After the call they are read from that file again, so that they are what they were before.
    Errno::result(unsafe { libc::madvise(address, bytes.len(), libc::MADV_DONTNEED) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many KiB of the mapping of a file are in memory.
    fn resident(path: &str) -> u64 {
        let text = fs::read_to_string("/proc/self/smaps").unwrap();
        let mapping = text.lines().skip_while(|line| !line.ends_with(path));
        let size = mapping.clone().find_map(|line| line.strip_prefix("Rss:")).expect("it is mapped");
        size.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    #[test]
    fn released_pages_are_read_from_the_file_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("test.pack");
        let body: Vec<u8> = (0..1_u32 << 20).flat_map(u32::to_le_bytes).collect();
        let bytes = [b"PACK\0\0\0\x02\0\0\0\0", &body[..], &[0; 20]].concat();
        fs::write(&path, &bytes).unwrap();
        let pack = data::File::at(&path, gix::hash::Kind::Sha1).unwrap();
        let mapped = || pack.entry_slice(0..bytes.len() as u64).unwrap();
        for _ in 0..2 {
            assert!(mapped() == bytes);
            assert!(resident(path.to_str().unwrap()) >= bytes.len() as u64 / 1024);
            assert!(resident_file_bytes().unwrap() >= bytes.len() as u64);
            release_pages(&pack).unwrap();
            assert!(
                resident(path.to_str().unwrap()) <= 64,
                "at most the last page, which has the trailer alone"
            );
        }
    }
}
