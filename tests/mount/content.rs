//! File contents: on a mount where the kernel reads and writes the backing files by itself, and on one where everything
//! goes through the server.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, copy_file_range, fallocate};
use nix::sys::sendfile::sendfile;
use nix::unistd::{Whence, lseek};

use namegate_testkit::mounted::TestMount;
use namegate_testkit::program::copy_program;
use namegate_testkit::wait_until;

const GIB: u64 = 1 << 30;

fn open(path: impl AsRef<Path>) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// Where `file` has data, by SEEK_DATA and SEEK_HOLE.
fn data(file: &File) -> Vec<(i64, i64)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Ok(begin) = lseek(file, at, Whence::SeekData) {
        at = lseek(file, begin, Whence::SeekHole).unwrap();
        found.push((begin, at));
    }
    assert_eq!(lseek(file, at, Whence::SeekData), Err(Errno::ENXIO));
    found
}

#[test]
fn appending_writers_never_overwrite_each_other() {
    const EACH: usize = 300;
    for mounted in TestMount::both_ways() {
        let path = mounted.mnt().join("log");
        thread::scope(|scope| {
            for (letter, len) in [(b'a', 37), (b'b', 4101), (b'c', 1)] {
                let path = &path;
                scope.spawn(move || {
                    let mut log = OpenOptions::new().append(true).create(true).open(path).unwrap();
                    (0..EACH).for_each(|_| log.write_all(&vec![letter; len]).unwrap());
                });
            }
        });
        let log = fs::read(mounted.backing().join("log")).unwrap();
        for (letter, len) in [(b'a', 37), (b'b', 4101), (b'c', 1)] {
            assert_eq!(log.iter().filter(|&&byte| byte == letter).count(), EACH * len);
        }
    }
}

#[test]
fn direct_io_works_and_sees_cached_writes() {
    #[repr(align(4096))]
    struct Page([u8; 4096]);
    for mounted in TestMount::both_ways() {
        let path = mounted.mnt().join("direct");
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(libc::O_DIRECT)
            .open(&path)
            .unwrap();
        let (page, mut read) = (Page([b'd'; 4096]), Page([0; 4096]));
        for at in [0, 3, 1] {
            file.write_all_at(&page.0, at * 4096).unwrap();
        }
        // Cached reads see direct writes, and vice versa.
        assert_eq!(
            fs::read(&path).unwrap()[4096..],
            fs::read(mounted.backing().join("direct")).unwrap()[4096..]
        );
        open(&path).write_all_at(b"cached", 4096).unwrap();
        file.read_exact_at(&mut read.0, 4096).unwrap();
        assert_eq!(&read.0[..8], b"cacheddd");
        assert_eq!(file.read_at(&mut read.0, 4 * 4096).unwrap(), 0);
    }
}

#[test]
fn descriptors_that_go_around_the_cache_can_be_mapped() {
    const SCRIPT: &str = "import mmap, os, sys
path, mode = sys.argv[1], int(sys.argv[2], 8)
open(path, 'wb').write(b'o' * 16384)
os.chmod(path, mode)
page = mmap.mmap(-1, 4096)
def read(fd, at):
    os.preadv(fd, [page], at)
    return bytes(page[:8])
fd = os.open(path, os.O_RDWR | os.O_DIRECT)
mapped = mmap.mmap(fd, 16384)
mapped[4096:4102] = b'mapped'
print(read(fd, 4096), 'a read around the cache sees what is in the map')
page[:6] = b'direct'
os.pwritev(fd, [page], 8192)
print(mapped[8192:8200], 'the map shows what is written around the cache')
mapped[0:3] = b'end'
private = mmap.mmap(fd, 16384, flags=mmap.MAP_PRIVATE)
private[0:4] = b'mine'
reader = os.open(path, os.O_RDONLY | os.O_DIRECT)
shared = mmap.mmap(reader, 16384, prot=mmap.PROT_READ)
print(shared[0:8], shared[8192:8200], private[0:8], mapped[0:8])
for each in (mapped, private, shared): each.close()
os.close(fd)
print(open(path, 'rb').read(3), oct(os.stat(path).st_mode))
";
    /// Linux 6.6 has `FUSE_DIRECT_IO_ALLOW_MMAP`.
    const SINCE: (u32, u32, u32) = (6, 6, 0);
    if namegate_sys::release::running().is_none_or(|running| running < SINCE) {
        return println!("SKIPPED: this kernel maps no such descriptors of a FUSE mount");
    }
    for mounted in TestMount::both_ways() {
        for mode in ["644", "4755", "2644"] {
            let shown = mounted.same(|dir| {
                let python =
                    Command::new("python3").args(["-c", SCRIPT]).arg(dir.join("file")).arg(mode).output();
                let Ok(output) = python else { return "SKIPPED: no python3".to_owned() };
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                String::from_utf8(output.stdout).unwrap()
            });
            assert!(shown.starts_with("b'mapped") || shown.starts_with("SKIPPED"), "{shown}");
        }
    }
}

#[test]
fn what_is_written_around_the_cache_is_read_and_mapped_at_once_while_others_read() {
    const SCRIPT: &str = "import mmap, os, sys
path, rounds = sys.argv[1], int(sys.argv[2])
size = 8 * 4096
open(path, 'wb').write(bytes(size))
writer, reader = os.open(path, os.O_WRONLY), os.open(path, os.O_RDONLY)
mapped = mmap.mmap(reader, size, prot=mmap.PROT_READ)
here, there = os.pipe()
children = []
for at in range(2):
    if not os.fork():
        # Brings pages into the cache while they are written, until the writer is gone.
        os.close(there)
        os.set_blocking(here, False)
        while True:
            os.pread(reader, 4096, at * 4096)
            try:
                os._exit(0 if not os.read(here, 1) else 1)
            except BlockingIOError:
                pass
for number in range(1, rounds + 1):
    data = number.to_bytes(4, 'little') * (size // 4)
    begin, end = (0, size) if number % 3 == 0 else (4, 5004)
    assert os.pwrite(writer, data[:end - begin], begin) == end - begin
    expected = data[:end - begin]
    assert os.pread(reader, end - begin, begin) == expected, f'read, round {number}'
    assert mapped[begin:end] == expected, f'mapped, round {number}'
";
    for mounted in TestMount::both_ways() {
        let path = mounted.mnt().join("file");
        let python = Command::new("python3").args(["-c", SCRIPT]).arg(&path).arg("300").output();
        let Ok(output) = python else { return println!("SKIPPED: no python3") };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(fs::read(&path).unwrap() == fs::read(mounted.backing().join("file")).unwrap());
    }
}

#[test]
fn data_written_on_one_side_is_read_on_the_other() {
    for mounted in TestMount::both_ways() {
        let (here, there) = (mounted.mnt().join("file"), mounted.backing().join("file"));
        let file = open(&here);
        for i in 0..50u64 {
            file.write_all_at(&[b'x'; 5000], i * 4999).unwrap();
            file.write_all_at(&i.to_ne_bytes(), i * 7).unwrap();
        }
        assert_eq!(fs::read(&here).unwrap(), fs::read(&there).unwrap());
        file.set_len(100).unwrap();
        assert_eq!(fs::read(&there).unwrap().len(), 100);
        file.set_len(9000).unwrap();
        assert_eq!(fs::read(&here).unwrap(), fs::read(&there).unwrap());
        // In the source, and longer than the cached content.
        fs::write(&there, vec![b'y'; 20_000]).unwrap();
        assert_eq!(fs::read(&here).unwrap(), vec![b'y'; 20_000]);
    }
}

#[test]
fn holes_are_those_of_the_backing_file() {
    for mounted in TestMount::both_ways() {
        let file = open(mounted.mnt().join("sparse"));
        for at in [0, 1 << 20, 5 * GIB, (5 * GIB) + (1 << 16), 3 << 40] {
            file.write_all_at(&[b'd'; 5000], at).unwrap();
        }
        // File systems that allocate late add blocks of their own when they write: ext4 one for the fifth extent.
        file.sync_all().unwrap();
        let there = open(mounted.backing().join("sparse"));
        assert_eq!(data(&file), data(&there));
        let (here, there) = (file.metadata().unwrap(), there.metadata().unwrap());
        assert_eq!((here.size(), here.blocks()), (there.size(), there.blocks()));
        assert!(here.blocks() < 1000, "{} blocks", here.blocks());
    }
}

#[test]
fn space_is_allocated_punched_and_zeroed_as_in_a_plain_directory() {
    for mounted in TestMount::both_ways() {
        let keep = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let (punch, zero) = (FallocateFlags::FALLOC_FL_PUNCH_HOLE, FallocateFlags::FALLOC_FL_ZERO_RANGE);
        let _ = mounted.same(|dir| {
            let path = dir.join("allocated");
            let file = open(&path);
            file.write_all_at(&[b'x'; 100_000], 0).unwrap();
            [
                (FallocateFlags::empty(), 90_000, 50_000),
                (keep, 200_000, 50_000),
                (punch | keep, 8192, 8192),
                (punch, 8192, 8192),
                (zero, 20_001, 3),
                (zero, 190_000, 20_000),
                (zero | keep, 300_000, 10),
                (FallocateFlags::empty(), 0, 0),
                (FallocateFlags::empty(), i64::MAX - 10, 10),
            ]
            .map(|(mode, offset, len)| {
                let result = fallocate(&file, mode, offset, len);
                (result, file.metadata().unwrap().size(), data(&file), fs::read(&path).unwrap())
            })
        });
        // The FUSE client of the kernel supports no other mode.
        let file = open(mounted.mnt().join("allocated"));
        for mode in [FallocateFlags::FALLOC_FL_COLLAPSE_RANGE, FallocateFlags::FALLOC_FL_INSERT_RANGE] {
            assert_eq!(fallocate(&file, mode, 0, 4096), Err(Errno::EOPNOTSUPP));
        }
    }
}

#[test]
fn files_beyond_four_gibibytes_are_copied_and_truncated_as_in_a_plain_directory() {
    for mounted in TestMount::both_ways() {
        let sizes = mounted.same(|dir| {
            let (from, to) = (open(dir.join("from")), open(dir.join("to")));
            from.write_all_at(b"at five", 5 * GIB).unwrap();
            let (mut at, mut target) = (5 * GIB as i64, 7 * GIB as i64);
            let copied = copy_file_range(&from, Some(&mut at), &to, Some(&mut target), 100).unwrap();
            let mut read = [0; 7];
            to.read_exact_at(&mut read, 7 * GIB).unwrap();
            assert_eq!(&read, b"at five");
            let overlapping = copy_file_range(&from, Some(&mut 0), &from, Some(&mut 1), 10);
            let read_only = File::open(dir.join("to")).unwrap();
            let refused = copy_file_range(&from, Some(&mut 0), &read_only, Some(&mut 0), 10);
            let mut copy = open(dir.join("copy"));
            let whole = std::io::copy(&mut (&from).take(1 << 20), &mut copy).unwrap();
            copy.seek(SeekFrom::Start(6 * GIB)).unwrap();
            let sent = sendfile(&copy, &from, Some(&mut { 5 * GIB as i64 }), 1000);
            to.set_len(4 * GIB + 1).unwrap();
            let sizes = [&from, &to, &copy].map(|file| file.metadata().unwrap().size());
            (copied, at, target, overlapping, refused, whole, sent, sizes)
        });
        assert_eq!(sizes.7, [5 * GIB + 7, 4 * GIB + 1, 6 * GIB + 7]);
    }
}

#[test]
fn running_programs_of_a_mount_are_busy() {
    for mounted in TestMount::both_ways() {
        let program = mounted.mnt().join("program");
        copy_program("/bin/sleep".as_ref(), &program);
        let mut running = Command::new(&program).arg("60").spawn().unwrap();
        let busy = OpenOptions::new().write(true).open(&program).unwrap_err();
        let cut = nix::unistd::truncate(&program, 0);
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!((busy.raw_os_error(), cut), (Some(Errno::ETXTBSY as i32), Err(Errno::ETXTBSY)));
        // A process that reads the memory of the program, as ps(1) does, can delay its end.
        let open_to_write = || OpenOptions::new().write(true).open(&program).ok();
        let mut writer = None;
        wait_until("the end of the program", || {
            writer = open_to_write();
            writer.is_some()
        });
        let busy = Command::new(&program).arg("0").status().unwrap_err();
        assert_eq!(busy.raw_os_error(), Some(Errno::ETXTBSY as i32));
        drop(writer);
        // Programs that other tests are starting may have inherited the writing descriptor.
        wait_until("the end of the last writer", || match Command::new(&program).arg("0").status() {
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(Errno::ETXTBSY as i32));
                false
            }
            Ok(status) => status.success(),
        });
    }
}

#[test]
fn a_program_running_in_the_source_is_busy_through_the_mount() {
    for mounted in TestMount::both_ways() {
        let there = mounted.backing().join("program");
        copy_program("/bin/sleep".as_ref(), &there);
        let mut running = Command::new(&there).arg("60").spawn().unwrap();
        let busy = OpenOptions::new().write(true).open(mounted.mnt().join("program")).unwrap_err();
        running.kill().unwrap();
        running.wait().unwrap();
        assert_eq!(busy.raw_os_error(), Some(Errno::ETXTBSY as i32));
    }
}
