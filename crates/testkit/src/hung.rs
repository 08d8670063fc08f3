//! A file system that answers until it is told to be silent, and syncs as slowly as it is told. It speaks the kernel's protocol itself (fuse(4), linux/fuse.h),
//! because no library can leave requests unanswered.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Operations that are answered; the others fail with ENOSYS.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const FSYNC: u32 = 20;
const INIT: u32 = 26;
const BATCH_FORGET: u32 = 42;

/// The file system. Dropping it ends all waiting requests with an error.
pub struct Hung {
    on: PathBuf,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_silent: AtomicBool,
    has_ended: AtomicBool,
    syncs: AtomicUsize,
    /// How long a sync takes, in milliseconds.
    sync_time: AtomicU64,
}

/// `struct fuse_attr`.
fn attributes(node: u64) -> Vec<u8> {
    let mode = if node == 1 { libc::S_IFDIR | 0o777 } else { libc::S_IFREG | 0o666 };
    // ino, size, blocks, three times; their nanoseconds; mode, nlink, uid, gid, rdev, blksize, flags.
    let long = [node, 0, 0, 0, 0, 0].into_iter().flat_map(u64::to_ne_bytes);
    long.chain([0, 0, 0, mode, 1, 0, 0, 0, 4096, 0].into_iter().flat_map(u32::to_ne_bytes)).collect()
}

/// The answer to a request, or none.
fn answer(request: &[u8]) -> Option<(i32, Vec<u8>)> {
    let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().unwrap());
    let opcode = u32::from_ne_bytes(request[4..8].try_into().unwrap());
    let node = long(16);
    Some(match opcode {
        FORGET | BATCH_FORGET => return None,
        INIT => {
            // major, minor, max_readahead, flags, max_background and congestion_threshold, max_write, time_gran, …
            let words = [7u32, 31, 0, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            (0, words.into_iter().flat_map(u32::to_ne_bytes).collect())
        }
        LOOKUP => {
            let name = &request[40..request.len() - 1];
            let text = String::from_utf8_lossy(name);
            match text.strip_prefix("file-").and_then(|number| number.parse::<u64>().ok()) {
                // nodeid, generation, and a validity of zero.
                Some(number) => {
                    let head = [number + 2, 0, 0, 0, 0].into_iter().flat_map(u64::to_ne_bytes);
                    (0, head.chain(attributes(number + 2)).collect())
                }
                None => (-libc::ENOENT, Vec::new()),
            }
        }
        FSYNC => (0, Vec::new()),
        GETATTR => (0, [0; 16].into_iter().chain(attributes(node)).collect()),
        _ => (-libc::ENOSYS, Vec::new()),
    })
}

impl Hung {
    /// Mounts on a new directory.
    pub fn new(on: PathBuf) -> Self {
        fs::create_dir(&on).unwrap();
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").unwrap();
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        mount(Some("hung"), &on, Some("fuse"), MsFlags::empty(), Some(data.as_str())).unwrap();
        let state = Arc::<State>::default();
        let hung = Self { on, state: state.clone() };
        thread::spawn(move || serve(device, &state));
        hung
    }

    /// Answers no more requests.
    pub fn falls_silent(&self) {
        self.state.is_silent.store(true, Ordering::SeqCst);
    }

    /// Later syncs take this long.
    pub fn syncs_in(&self, time: Duration) {
        self.state.sync_time.store(time.as_millis() as u64, Ordering::SeqCst);
    }

    /// The number of syncs that have begun.
    pub fn syncs(&self) -> usize {
        self.state.syncs.load(Ordering::SeqCst)
    }
}

/// When this ends, the device is closed, and all waiting requests fail.
fn serve(mut device: File, state: &State) {
    let mut buffer = vec![0; 1 << 17];
    while !state.has_ended.load(Ordering::SeqCst) {
        let mut polled = [PollFd::new(std::os::fd::AsFd::as_fd(&device), PollFlags::POLLIN)];
        let is_asked = poll(&mut polled, PollTimeout::from(10u8)).is_ok_and(|ready| ready > 0);
        if !is_asked || state.is_silent.load(Ordering::SeqCst) {
            // Neither answered nor read: poll(2) returns at once.
            thread::sleep(Duration::from_millis(10));
            continue;
        }
        let Ok(len) = device.read(&mut buffer) else { return };
        let request = &buffer[..len];
        if request[4..8] == FSYNC.to_ne_bytes() {
            state.syncs.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(state.sync_time.load(Ordering::SeqCst)));
        }
        let Some((error, body)) = answer(request) else { continue };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend((16 + body.len() as u32).to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(&request[8..16]);
        reply.extend(body);
        // The client may have gone.
        let _ = device.write_all(&reply);
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::SeqCst);
        let _ = umount2(&self.on, MntFlags::MNT_DETACH);
    }
}
