//! The lower bound of every scan: reads all directories of a tree by getdents64 and ignores the names.
//!
//!     list_tree DIR THREADS
//!
//! Prints the number of entries. `scripts/bench-scan` compares the scan with it.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use namegate_sys::directory;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

/// A directory that waits, in its open parent.
type Waiting = (Arc<OwnedFd>, OsString);

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let threads = args.get(1).and_then(|arg| arg.to_str()?.parse().ok());
    let (Some(dir), Some(threads)) = (args.first(), threads) else {
        eprintln!("list_tree: give a directory and a number of threads");
        return ExitCode::FAILURE;
    };
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let root = match open(&**dir, flags, Mode::empty()) {
        Ok(root) => root,
        Err(error) => {
            eprintln!("list_tree: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (entries, busy) = (AtomicU64::new(0), AtomicUsize::new(0));
    let waiting = Mutex::new(Vec::<Waiting>::new());
    let mut buffer = vec![0; 1 << 16];
    waiting.lock().expect("nobody has it yet").extend(list(root, &mut buffer, &entries));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut buffer = vec![0; 1 << 16];
                let mut own = Vec::<Waiting>::new();
                loop {
                    if own.is_empty() {
                        let mut waiting = waiting.lock().expect("no thread panics");
                        // A few at a time, so that the lock is not what is measured.
                        let from = waiting.len().saturating_sub(16);
                        own.extend(waiting.drain(from..));
                        busy.fetch_add(usize::from(!own.is_empty()), Relaxed);
                    }
                    let Some((above, name)) = own.pop() else {
                        if busy.load(Relaxed) == 0 {
                            return;
                        }
                        std::thread::yield_now();
                        continue;
                    };
                    if let Ok(dir) = openat(&*above, &*name, flags | OFlag::O_NOFOLLOW, Mode::empty()) {
                        let below = list(dir, &mut buffer, &entries);
                        if !below.is_empty() {
                            waiting.lock().expect("no thread panics").extend(below);
                        }
                    }
                    if own.is_empty() {
                        busy.fetch_sub(1, Relaxed);
                    }
                }
            });
        }
    });
    println!("{}", entries.into_inner());
    ExitCode::SUCCESS
}

/// Reads one directory; returns its subdirectories.
fn list(dir: OwnedFd, buffer: &mut [u8], entries: &AtomicU64) -> Vec<Waiting> {
    let (mut below, mut count) = (Vec::new(), 0);
    while let Ok(filled @ 1..) = directory::read(dir.as_fd(), buffer) {
        let mut rest = &buffer[..filled];
        while let Some((kind, len)) = head(rest) {
            count += 1;
            if kind == libc::DT_DIR {
                let (entry, _) = directory::first(rest).expect("its head is there");
                if entry.name != "." && entry.name != ".." {
                    below.push(entry.name.to_owned());
                }
            }
            rest = &rest[len..];
        }
    }
    entries.fetch_add(count - count.min(2), Relaxed);
    let dir = Arc::new(dir);
    below.into_iter().map(|name| (Arc::clone(&dir), name)).collect()
}

/// Type and length of the first entry, without reading its name.
fn head(filled: &[u8]) -> Option<(u8, usize)> {
    Some((*filled.get(18)?, usize::from(u16::from_ne_bytes([filled[16], filled[17]]))))
}
