//! Content that the kernel keeps of files that the server reads and writes: it is read once, and again whenever it has changed.

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use namegate_testkit::metrics::scraped;
use namegate_testkit::mounted::TestMount;
use namegate_testkit::process::wait_for_rest;
use namegate_testkit::wait_until;

const SIZE: usize = 256 << 10;

/// How long a file must not have changed before the kernel may keep its content: until no page of it is dirty.
fn settling() -> Duration {
    const MORE: Duration = Duration::from_secs(12);
    let centiseconds = |name: &str| -> u64 {
        fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap().trim().parse().unwrap()
    };
    let dirty = centiseconds("dirty_expire_centisecs") + centiseconds("dirty_writeback_centisecs");
    MORE + Duration::from_millis(10 * dirty)
}

/// A program that has a file mapped, and changes its first byte in memory.
struct Mapper {
    process: Child,
    asked: ChildStdin,
    done: BufReader<ChildStdout>,
}

impl Mapper {
    const SCRIPT: &str = "import mmap, sys
with open(sys.argv[1], 'r+b') as file:
    mapped = mmap.mmap(file.fileno(), 0)
for line in sys.stdin:
    mapped[0] = ord(line[0])
    print('stored', flush=True)
";

    fn new(path: &Path) -> Option<Self> {
        let mut command = Command::new("python3");
        command.args(["-c", Self::SCRIPT]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut process) = command.spawn() else {
            println!("SKIPPED: no python3 to map files with");
            return None;
        };
        let (asked, done) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Some(Self { process, asked, done: BufReader::new(done) })
    }

    fn store(&mut self, letter: char) {
        writeln!(self.asked, "{letter}").unwrap();
        let mut line = String::new();
        self.done.read_line(&mut line).unwrap();
        assert_eq!(line, "stored\n");
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The first byte of a file of which all is read.
fn first(path: &Path) -> char {
    let content = fs::read(path).unwrap();
    assert_eq!(content.len(), SIZE);
    content[0].into()
}

/// How many reads the kernel has asked for. A read is counted after its reply, on a busy machine long after it.
fn reads(mounted: &TestMount, port: u16) -> f64 {
    wait_for_rest(mounted.server());
    mounted.metrics(port)["namegate_fuse_requests_total{op=\"read\",outcome=\"ok\"}"]
}

#[test]
fn content_is_read_once_and_again_whenever_it_has_changed_behind_the_mount() {
    // Cached attributes must not matter.
    let Some((mounted, port)) = scraped(&["--no-passthrough", "--attr-timeout", "600"]) else { return };
    if statfs(&mounted.backing()).unwrap().filesystem_type() == TMPFS_MAGIC {
        return println!("SKIPPED: on tmpfs a change in memory leaves no trace, so nothing is kept");
    }
    let (there, here) = (|name: &str| mounted.backing().join(name), |name: &str| mounted.mnt().join(name));
    for name in ["read", "rewritten", "written", "mapped"] {
        fs::write(there(name), [b'o'; SIZE]).unwrap();
    }
    let Some(mut mapper) = Mapper::new(&there("mapped")) else { return };
    mapper.store('a');

    // The times are old enough for every clock, but the page is dirty: the next store does not set them.
    sleep(Duration::from_secs(4));
    assert_eq!(first(&here("mapped")), 'a');
    let before = fs::metadata(there("mapped")).unwrap().modified().unwrap();
    mapper.store('b');
    let changed = Instant::now();
    if fs::metadata(there("mapped")).unwrap().modified().unwrap() != before {
        println!("the page was written to disk meanwhile, so the store set the times");
    }
    assert_eq!(first(&here("mapped")), 'b', "a store that set no times shows when the file is opened again");

    sleep(settling().saturating_sub(changed.elapsed()));
    for name in ["read", "rewritten", "written", "mapped"] {
        let expected = if name == "mapped" { 'b' } else { 'o' };
        let none = reads(&mounted, port);
        assert_eq!(first(&here(name)), expected);
        let once = reads(&mounted, port);
        assert!(once > none, "{name} is read");
        for _ in 0..3 {
            assert_eq!(first(&here(name)), expected);
        }
        assert_eq!(reads(&mounted, port), once, "{name} is not read again");
    }

    // With the same size and the same time of modification.
    let modified = fs::metadata(there("rewritten")).unwrap().modified().unwrap();
    let file = OpenOptions::new().write(true).open(there("rewritten")).unwrap();
    file.write_all_at(&[b'n'; SIZE], 0).unwrap();
    file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    assert_eq!(first(&here("rewritten")), 'n');
    mapper.store('c');
    assert_eq!(first(&here("mapped")), 'c');
    OpenOptions::new().write(true).open(here("written")).unwrap().write_all_at(b"w", 0).unwrap();
    assert_eq!(first(&here("written")), 'w');
    assert_eq!(first(&here("read")), 'o');
}

#[test]
fn a_change_behind_an_open_file_shows_in_it_after_the_attribute_timeout() {
    for mounted in TestMount::both_ways() {
        let (there, here) = (mounted.backing().join("file"), mounted.mnt().join("file"));
        fs::write(&there, [b'o'; SIZE]).unwrap();
        let file = File::open(&here).unwrap();
        let read = |len: usize| {
            let mut buffer = vec![0; len];
            file.read_exact_at(&mut buffer, 0).map(|()| buffer)
        };
        assert_eq!(read(SIZE).unwrap(), [b'o'; SIZE]);
        OpenOptions::new().write(true).open(&there).unwrap().write_all_at(b"new", 0).unwrap();
        wait_until("the sight of a change", || read(3).unwrap() == b"new");
        OpenOptions::new().append(true).open(&there).unwrap().write_all(b"more").unwrap();
        wait_until("the sight of more", || read(SIZE + 4).is_ok_and(|content| content.ends_with(b"more")));
        File::options().write(true).open(&there).unwrap().set_len(2).unwrap();
        wait_until("the sight of less", || read(3).is_err());
        assert_eq!(read(2).unwrap(), b"ne");
    }
}
