//! What the program in the kernel reports: one event for each name that it refuses, or allows to audit it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aya::maps::{Map, MapData, RingBuf};
use nix::fcntl::Flock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};

use super::guards::{GuardError, Guards, SlotGuard, inode_in_force};
use super::note::{GuardNote, covered_policy};
use crate::policy::{Policy, Verdict};
use crate::sys::bpf::open_pinned;
use crate::telemetry::audit::{AuditOutcome, AuditRecord, Requester};

/// Maximum length of a name in an event, in bytes.
const KEPT: usize = 256;
/// Maximum length of a path in an event, in bytes.
const PATH: usize = 1024;

/// The operations, in the order of their numbers.
const OPERATIONS: [&str; 6] = ["create", "mkdir", "mknod", "symlink", "link", "rename"];

/// An event, as `struct event` in `guard.bpf.c` holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardEvent {
    /// Nanoseconds of the clock CLOCK_MONOTONIC.
    time: u64,
    slot: u32,
    process: u32,
    user: u32,
    group: u32,
    operation: &'static str,
    is_audit: bool,
    command: Vec<u8>,
    name: Vec<u8>,
    /// Whether the directory is too deep, and has `…` for its beginning.
    is_cut: bool,
    /// The directory, relative to the top of the tree.
    directory: PathBuf,
}

impl GuardEvent {
    /// Decodes an event; `None` for bytes that are none.
    fn read(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let text = |at: usize, len: usize| bytes.get(at..)?.get(..len);
        let flags = text(32, 3)?;
        let command = text(40, 16)?;
        let path = text(60 + KEPT, PATH.min(number(56 + KEPT)? as usize))?;
        Some(Self {
            time: u64::from_ne_bytes(*bytes.first_chunk()?),
            slot: number(8)?,
            process: number(16)?,
            user: number(20)?,
            group: number(24)?,
            operation: OPERATIONS.get(usize::from(flags[0])).copied()?,
            is_audit: flags[1] != 0,
            command: command.split(|byte| *byte == 0).next()?.to_vec(),
            name: text(56, KEPT.min(number(28)? as usize))?.to_vec(),
            is_cut: flags[2] != 0,
            directory: directory(path, flags[2] != 0),
        })
    }
}

/// The path of the directories that are written innermost first, each behind its length.
fn directory(mut written: &[u8], is_cut: bool) -> PathBuf {
    let mut names = Vec::new();
    while let [len, rest @ ..] = written {
        let Some((name, behind)) = rest.split_at_checked(usize::from(*len)) else { break };
        names.push(name);
        written = behind;
    }
    let cut = is_cut.then_some("\u{2026}".as_bytes());
    let names: Vec<&[u8]> = cut.into_iter().chain(names.into_iter().rev()).collect();
    OsString::from_vec(names.join(&b'/')).into()
}

/// Path and policy of a guard, to find the rule of an event.
struct KnownGuard {
    bytes: Vec<u8>,
    /// The path of the guard, escaped for display.
    shown: Arc<str>,
    /// The directory at which paths of events begin, if it is known.
    top: Option<PathBuf>,
    policy: Policy,
}

impl KnownGuard {
    fn new(guard: SlotGuard) -> Option<Self> {
        let note = GuardNote::from_bytes(&guard.note).ok()?;
        let policy = covered_policy(&note.policy().ok()?);
        let top = note.is_top.then(|| OsString::from_vec(note.path.base64.0).into());
        Some(Self { bytes: guard.note, shown: note.path.shown.into(), top, policy })
    }
}

/// Reads the events of all guards. There can be one such reader.
pub struct EventReader {
    ring: RingBuf<MapData>,
    /// Another descriptor of the ring, to wait for events.
    wake: OwnedFd,
    /// The directory of the guards, to notice that others took their place.
    inode: u64,
    /// By slot, the newest first: a name may have been refused by a policy that was replaced since.
    known: HashMap<u32, Vec<KnownGuard>>,
    lost: HashMap<u32, u64>,
    _lock: Flock<File>,
}

impl EventReader {
    /// Opens the events of these guards.
    ///
    /// # Errors
    /// [`GuardError`].
    pub fn new(guards: &Guards) -> Result<Self, GuardError> {
        let (path, lock) = guards.events()?;
        let opened = MapData::from_pin(&path).map(Map::RingBuf).and_then(RingBuf::<MapData>::try_from);
        let failed = |e| GuardError::Io("open", path.clone(), e);
        let ring = opened.map_err(|e| failed(io::Error::other(e)))?;
        let wake = open_pinned(&path).map_err(failed)?;
        let inode = guards.inode().map_err(failed)?;
        let mut reader = Self { ring, wake, inode, known: HashMap::new(), lost: HashMap::new(), _lock: lock };
        // What was lost before is not lost by this reader.
        reader.refresh(guards.list()?);
        Ok(reader)
    }

    /// A descriptor that is readable when there are events.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Whether these guards are still in force: another process may have turned the last one off.
    pub fn is_in_force(&self) -> bool {
        inode_in_force() == Some(self.inode)
    }

    /// Takes note of the guards that are on now, and returns how many events found no room since the last time.
    pub fn refresh(&mut self, list: Vec<SlotGuard>) -> u64 {
        let mut lost = 0;
        self.lost.retain(|slot, _| list.iter().any(|guard| guard.slot == *slot));
        for guard in list {
            let before = self.lost.insert(guard.slot, guard.counts.lost).unwrap_or(0);
            lost += guard.counts.lost.saturating_sub(before);
            let known = self.known.entry(guard.slot).or_default();
            if known.first().is_none_or(|newest| newest.bytes != guard.note) {
                known.splice(..0, KnownGuard::new(guard));
                known.truncate(2);
            }
        }
        lost
    }

    /// Takes the next event, if there is one.
    pub fn next_event(&mut self) -> Option<GuardEvent> {
        loop {
            // aya 0.13 reads on without an event if another reader took the first ones of a ring: the kernel says whether there
            // is one.
            let mut polled = [PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)];
            if poll(&mut polled, PollTimeout::ZERO) != Ok(1) {
                return None;
            }
            match GuardEvent::read(&self.ring.next()?) {
                Some(event) => return Some(event),
                None => log::error!("the kernel wrote an event that this version does not know"),
            }
        }
    }

    /// Finds the rule of an event, and makes its audit record, beside the path of the guard, escaped for display. `None` if the policy is
    /// not known that the name breaks.
    pub fn explain(&self, event: &GuardEvent) -> Option<(Arc<str>, AuditRecord)> {
        let mut known = self.known.get(&event.slot).into_iter().flatten();
        let (guard, violation) = known.find_map(|guard| match guard.policy.verdict(&event.name) {
            Verdict::Reject(violation) => Some((guard, violation)),
            _ => None,
        })?;
        let record = AuditRecord {
            time: wall_time(event.time),
            outcome: if event.is_audit { AuditOutcome::LetThrough } else { AuditOutcome::Refused },
            operation: event.operation,
            name: OsString::from_vec(event.name.clone()),
            target: None,
            parent: Some(match &guard.top {
                Some(top) if event.directory.as_os_str().is_empty() => top.clone(),
                Some(top) if !event.is_cut => top.join(&event.directory),
                _ => event.directory.clone(),
            }),
            rule: Some(violation.rule),
            span: violation.span,
            requester: Requester {
                command: Some(event.command.clone()),
                ..Requester::new(event.user, event.group, event.process)
            },
        };
        Some((guard.shown.clone(), record))
    }
}

/// The time of day of a moment of CLOCK_MONOTONIC.
fn wall_time(nanoseconds: u64) -> SystemTime {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    SystemTime::now() - now.saturating_sub(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn an_event_is_read_as_the_program_writes_it() {
        let mut bytes = vec![0; 60 + KEPT + PATH];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &7_u64.to_ne_bytes());
        for (at, number) in [(8, 3_u32), (12, 9), (16, 41), (20, 1000), (24, 100), (28, 3), (56 + KEPT, 9)] {
            put(at, &number.to_ne_bytes());
        }
        put(32, &[5, 1, 0]);
        put(40, b"mv\0junk");
        put(56, b"a\xFFb");
        put(60 + KEPT, b"\x03in\n\x04deep");
        let event = GuardEvent::read(&bytes).unwrap();
        assert_eq!((event.time, event.slot, event.process, event.user, event.group), (7, 3, 41, 1000, 100));
        assert_eq!((event.operation, event.is_audit), ("rename", true));
        assert_eq!((event.command.as_slice(), event.name.as_slice()), (&b"mv"[..], &b"a\xFFb"[..]));
        assert_eq!(event.directory, Path::new("deep/in\n"));
        bytes[34] = 1;
        assert_eq!(GuardEvent::read(&bytes).unwrap().directory, Path::new("\u{2026}/deep/in\n"));
        bytes[32] = 6;
        assert_eq!(GuardEvent::read(&bytes), None);
        assert_eq!(GuardEvent::read(&bytes[..100]), None);
        assert_eq!(directory(b"", false), Path::new(""));
        assert_eq!(directory(b"\x09short", false), Path::new(""));
    }
}
