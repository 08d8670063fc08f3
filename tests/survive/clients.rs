//! Clients that know the right result of each call.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use namegate_sys::rename::renameat2;
use namegate_sys::xattr;
use nix::errno::Errno;
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{Mode, SFlag, mknod};

/// What clients do together.
#[derive(Default)]
pub struct Work {
    pub ends: AtomicBool,
    /// Number of calls that were made and need the server.
    pub calls: AtomicU64,
}

/// Ends the work on drop, also when a test fails: some clients could go on for ever without a server.
pub struct EndOfWork<'w>(pub &'w Work);

impl Drop for EndOfWork<'_> {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }
}

impl Work {
    fn call<T>(&self, what: &str, result: io::Result<T>) -> T {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.content(what, result)
    }

    /// A call that the kernel may do by itself: it says nothing about the server, and does not count.
    fn content<T>(&self, what: &str, result: io::Result<T>) -> T {
        result.unwrap_or_else(|error| panic!("{what}: {error}"))
    }

    #[track_caller]
    fn fails<T>(&self, what: &str, result: io::Result<T>, errno: Errno) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let found = result.map(drop).map_err(|error| error.raw_os_error());
        assert_eq!(found, Err(Some(errno as i32)), "{what}");
    }

    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    /// Names: creates, renames, links and removes entries of `dir`, which nobody else uses.
    pub fn change_names(&self, dir: &Path) {
        let at = |name: &str| dir.join(name);
        let mut round = 0u64;
        while self.goes_on() {
            round += 1;
            let (made, file, other) = (at(&format!("d{round}")), at(&format!("f{round}")), at("other"));
            self.call("mkdir", fs::create_dir(&made));
            self.fails("a second mkdir", fs::create_dir(&made), Errno::EEXIST);
            let mut open = self.call(
                "create",
                OpenOptions::new().read(true).write(true).create_new(true).mode(0o400).open(&file),
            );
            self.call("write", open.write_all(b"content"));
            self.fails("a second create", File::create_new(&file), Errno::EEXIST);
            self.call("link", fs::hard_link(&file, &other));
            self.fails("a second link", fs::hard_link(&file, &other), Errno::EEXIST);
            assert_eq!(self.call("stat", open.metadata()).nlink(), 2);
            self.call("rename", fs::rename(&other, made.join("moved")));
            self.fails("a second rename", fs::rename(&other, made.join("moved")), Errno::ENOENT);
            self.call("symlink", symlink("f", at("link")));
            self.fails("a second symlink", symlink("f", at("link")), Errno::EEXIST);
            let fifo = || mknod(&at("fifo"), SFlag::S_IFIFO, Mode::S_IRUSR, 0).map_err(io::Error::from);
            self.call("mknod", fifo());
            self.fails("a second mknod", fifo(), Errno::EEXIST);
            let exchange = || {
                renameat2(AT_FDCWD, &at("link"), AT_FDCWD, &at("fifo"), libc::RENAME_EXCHANGE)
                    .map_err(io::Error::from)
            };
            self.call("exchange", exchange());
            assert!(self.call("lstat", fs::symlink_metadata(at("fifo"))).is_symlink());
            let names = self.call("readdir", fs::read_dir(dir));
            let names: Vec<_> = names.map(|entry| self.call("readdir", entry).file_name()).collect();
            assert_eq!(names.len(), 4, "d, f, link and fifo");
            for name in ["link", "fifo"] {
                self.call("unlink", fs::remove_file(at(name)));
                self.fails("a second unlink", fs::remove_file(at(name)), Errno::ENOENT);
            }
            self.fails("rmdir", fs::remove_dir(&made), Errno::ENOTEMPTY);
            self.call("unlink", fs::remove_file(made.join("moved")));
            self.call("rmdir", fs::remove_dir(&made));
            self.fails("a second rmdir", fs::remove_dir(&made), Errno::ENOENT);
            self.call("unlink", fs::remove_file(&file));
            // It is open and has no name.
            let mut content = String::new();
            self.call("seek", open.seek(SeekFrom::Start(0)));
            self.call("read", open.read_to_string(&mut content));
            assert_eq!((content.as_str(), self.call("stat", open.metadata()).nlink()), ("content", 0));
        }
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    }

    /// Equivalent names of the entries of `dir`, which nobody else uses.
    pub fn change_equivalent_names(&self, dir: &Path) {
        let mut round = 0u64;
        while self.goes_on() {
            round += 1;
            let at = |name: &str| dir.join(format!("{name}{round}"));
            let (decomposed, composed, file) = (at("e\u{301}"), at("\u{E9}"), at("f"));
            self.call("mkdir", fs::create_dir(&decomposed));
            self.fails("mkdir by another name", fs::create_dir(&composed), Errno::EEXIST);
            self.call("stat by another name", fs::metadata(&composed));
            self.call("create", File::create_new(&file));
            // The kernel is asked to look both names up again.
            self.call("rename", fs::rename(&file, at("r\u{E8}")));
            self.call("stat by another name", fs::metadata(at("re\u{300}")));
            self.call("rename by another name", fs::rename(at("re\u{300}"), &file));
            self.fails("stat", fs::metadata(at("r\u{E8}")), Errno::ENOENT);
            self.call("unlink", fs::remove_file(&file));
            self.call("rmdir by another name", fs::remove_dir(&composed));
            self.fails("rmdir", fs::remove_dir(&decomposed), Errno::ENOENT);
        }
        assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
    }

    /// Attributes and lengths of the files in `dir`, which nobody else uses.
    pub fn change_files(&self, dir: &Path) {
        let path = dir.join("file");
        let file = File::create_new(&path).unwrap();
        let mut round = 0u64;
        while self.goes_on() {
            round += 1;
            let value = round.to_string();
            let name = std::ffi::OsStr::new("user.round");
            let set =
                || xattr::set(&file, name, value.as_bytes(), libc::XATTR_CREATE).map_err(io::Error::from);
            self.call("setxattr", set());
            self.fails("a second setxattr", set(), Errno::EEXIST);
            let mut found = [0; 32];
            let len = self.call("getxattr", xattr::get(&file, name, &mut found).map_err(io::Error::from));
            assert_eq!(found[..len], *value.as_bytes());
            self.call("removexattr", xattr::remove(&file, name).map_err(io::Error::from));
            self.fails(
                "a second removexattr",
                xattr::remove(&file, name).map_err(io::Error::from),
                Errno::ENODATA,
            );
            self.call("truncate", file.set_len(round % 1000));
            assert_eq!(self.call("stat", fs::metadata(&path)).len(), round % 1000);
            let mode = 0o600 | (round as u32 % 8);
            self.call(
                "chmod",
                fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)),
            );
            assert_eq!(self.call("stat", file.metadata()).mode() & 0o777, mode);
        }
    }

    /// Content: appends to a file and reads it.
    pub fn append(&self, path: &Path) {
        let mut expected = Vec::new();
        let open = || self.call("open", OpenOptions::new().read(true).append(true).create(true).open(path));
        let mut file = open();
        while self.goes_on() {
            let line = format!("{}\n", expected.len());
            self.call("append", file.write_all(line.as_bytes()));
            expected.extend_from_slice(line.as_bytes());
            assert_eq!(self.call("stat", file.metadata()).len(), expected.len() as u64);
            let mut tail = vec![0; line.len()];
            self.call("read", file.read_exact_at(&mut tail, (expected.len() - line.len()) as u64));
            assert_eq!(tail, line.as_bytes());
            if expected.len() % 7 == 0 {
                file = open();
            }
        }
        assert_eq!(fs::read(path).unwrap(), expected);
    }

    /// Content: writes records of a file out of order by one descriptor, and reads them by another one.
    pub fn write_records(&self, path: &Path) {
        const RECORD: usize = 3000;
        const RECORDS: u64 = 50;
        let mut expected = vec![0; RECORD * RECORDS as usize];
        let writer = self.call("create", File::create_new(path));
        let reader = self.call("open", File::open(path));
        self.call("truncate", writer.set_len(expected.len() as u64));
        let mut round = 0u64;
        while self.goes_on() {
            round += 1;
            let at = (round * 31 % RECORDS) as usize * RECORD;
            let record: Vec<u8> = (0..RECORD as u64).map(|byte| (byte ^ round) as u8).collect();
            self.content("pwrite", writer.write_all_at(&record, at as u64));
            expected[at..at + RECORD].copy_from_slice(&record);
            let at = (round * 17 % RECORDS) as usize * RECORD;
            let mut found = vec![0; RECORD];
            self.content("pread", reader.read_exact_at(&mut found, at as u64));
            assert!(found == expected[at..at + RECORD], "record at {at} in round {round}");
        }
        assert!(fs::read(path).unwrap() == expected);
    }

    /// Content: changes a file through a shared memory map, and reads it by another descriptor.
    #[allow(unsafe_code, reason = "mmap(2) gives memory that only the caller can vouch for")]
    pub fn map(&self, path: &Path) {
        const LEN: usize = 1 << 16;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(LEN as u64).unwrap();
        let (null, fd) = (std::ptr::null_mut(), file.as_raw_fd());
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the map is checked, and stays until all is read; the file keeps its length, and nobody else changes it.
        let map: &mut [u8] = unsafe {
            let map = libc::mmap(null, LEN, access, libc::MAP_SHARED, fd, 0);
            assert!(map != libc::MAP_FAILED, "{}", io::Error::last_os_error());
            std::slice::from_raw_parts_mut(map.cast(), LEN)
        };
        let mut round = 0u64;
        while self.goes_on() {
            round += 1;
            let at = (round * 4099) as usize % (LEN - 8);
            map[at..at + 8].copy_from_slice(&round.to_ne_bytes());
            // SAFETY: the range is that of the map.
            let synced = unsafe { libc::msync(map.as_mut_ptr().cast(), LEN, libc::MS_SYNC) };
            self.content("msync", Errno::result(synced).map_err(io::Error::from));
            let mut found = [0; 8];
            let other = self.call("open", File::open(path));
            self.content("pread", other.read_exact_at(&mut found, at as u64));
            assert_eq!(u64::from_ne_bytes(found), round, "at {at}");
        }
        assert!(fs::read(path).unwrap() == *map);
        // SAFETY: the map is not used again.
        Errno::result(unsafe { libc::munmap(map.as_mut_ptr().cast(), LEN) }).unwrap();
    }

    /// Lists a directory of 300 files, with their attributes or without.
    pub fn list(&self, dir: &Path) {
        while self.goes_on() {
            for has_attributes in [false, true] {
                let names = self.call("readdir", fs::read_dir(dir)).map(|entry| {
                    let entry = self.call("readdir", entry);
                    if has_attributes {
                        self.call("stat", fs::symlink_metadata(entry.path()));
                    }
                });
                assert_eq!(names.count(), 300);
            }
        }
    }
}
