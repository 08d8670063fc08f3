//! The sizes of files, which a scan of names does not look at.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use namegate_sys::stat;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use parking_lot::Mutex;

use super::{DirectoryBatch, Source, SourceEvent};
use crate::progress::Observer;

/// The bytes of the files of a tree.
#[derive(Debug, Default)]
pub struct TreeSize {
    /// Of regular files, each counted once, whatever its number of hard links.
    pub bytes: u64,
    /// Whether everything could be looked up.
    pub is_whole: bool,
}

/// Reads `source` once more, and adds up its files.
pub fn measure(source: &dyn Source, observer: &dyn Observer) -> TreeSize {
    let size = TreeSize { is_whole: true, ..TreeSize::default() };
    let state = Mutex::new((size, HashSet::new()));
    source.read(&|event| {
        match event {
            SourceEvent::Directory(batch) => add(&batch, &state),
            SourceEvent::Large(parts) => parts.each(&mut |part| add(part, &state)),
            SourceEvent::Fault(_) | SourceEvent::Vanished => state.lock().0.is_whole = false,
            _ => {}
        }
        if observer.is_stopped() {
            state.lock().0.is_whole = false;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    state.into_inner().0
}

/// Adds the files of a directory. Of files with several names, `state` keeps which were counted.
fn add(batch: &DirectoryBatch, state: &Mutex<(TreeSize, HashSet<(u64, u64)>)>) {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let Ok(dir) = open(&batch.dir, flags, Mode::empty()) else {
        state.lock().0.is_whole = false;
        return;
    };
    let (mut bytes, mut shared, mut is_whole) = (0, Vec::new(), true);
    batch.each_name(&mut |_, name| match stat::at(&dir, OsStr::from_bytes(name)) {
        Ok(found) if found.kind == libc::S_IFREG && found.links > 1 => shared.push(found),
        Ok(found) if found.kind == libc::S_IFREG => bytes += found.size,
        Ok(_) => {}
        Err(_) => is_whole = false,
    });
    let (size, counted) = &mut *state.lock();
    for found in shared {
        bytes += if counted.insert((found.device, found.ino)) { found.size } else { 0 };
    }
    size.bytes += bytes;
    size.is_whole &= is_whole;
}
