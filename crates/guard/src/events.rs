//! What the program in the kernel reports: one event for each name that it refuses, or allows to audit it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aya::maps::{Map, MapData, RingBuf};
use namegate_core::name::Span;
use namegate_core::policy::{Policy, Verdict, Violation};
use namegate_sys::bpf::open_pinned;
use namegate_telemetry::audit::{AuditOutcome, AuditRecord, Requester};
use nix::fcntl::Flock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::{ClockId, clock_gettime};

use super::guards::{GuardError, Guards, SlotGuard, inode_in_force};
use super::note::{GuardNote, covered_policy};
use super::table::SLOTS;

/// Maximum length of a name in an event, in bytes.
const KEPT: usize = 256;
/// Maximum length of a path in an event, in bytes.
const PATH: usize = 1024;

/// What stands for an unknown beginning of a path.
const CUT: &str = "\u{2026}";

/// The operations, in the order of their numbers.
const OPERATIONS: [&str; 6] = ["create", "mkdir", "mknod", "symlink", "link", "rename"];

/// An event, as `struct event` in `guard.bpf.c` holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardEvent {
    /// Nanoseconds of the clock CLOCK_MONOTONIC.
    time: u64,
    guard: u64,
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
            guard: u64::from_ne_bytes(*text(8, 8)?.first_chunk()?),
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
    let cut = is_cut.then_some(CUT.as_bytes());
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
    /// The newest policy first: a name may have been refused by one that was replaced since.
    known: BTreeMap<u64, Vec<KnownGuard>>,
    /// When reading began, by the clock of the events.
    begin: u64,
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
        let begin = monotonic().as_nanos() as u64;
        let mut reader = Self { ring, wake, inode, known: BTreeMap::new(), begin, _lock: lock };
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

    /// Takes note of the guards that are on now. Some that were on before stay known: their events can wait.
    pub fn refresh(&mut self, list: Vec<SlotGuard>) {
        /// Maximum number of known guards.
        const KNOWN: usize = 4 * SLOTS as usize;
        for guard in list {
            let known = self.known.entry(guard.id).or_default();
            if known.first().is_none_or(|newest| newest.bytes != guard.note) {
                known.splice(..0, KnownGuard::new(guard));
                known.truncate(2);
            }
        }
        // Numbers grow.
        while self.known.len() > KNOWN {
            self.known.pop_first();
        }
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

    /// Reports whether a policy is known that refuses the name of an event.
    pub fn is_known(&self, event: &GuardEvent) -> bool {
        self.refusing(event).is_some()
    }

    /// Reports whether the event waited for this reader. At most a full buffer did.
    pub fn has_waited(&self, event: &GuardEvent) -> bool {
        event.time < self.begin
    }

    fn refusing(&self, event: &GuardEvent) -> Option<(&KnownGuard, Violation)> {
        self.known.get(&event.guard)?.iter().find_map(|guard| match guard.policy.verdict(&event.name) {
            Verdict::Reject(violation) => Some((guard, violation)),
            _ => None,
        })
    }

    /// Makes the audit record of an event, beside the path of its guard, escaped for display. Without the guard, which can have ended,
    /// there is no path, and the beginning of the directory is unknown; without the policy there is no rule.
    pub fn explain(&self, event: &GuardEvent) -> (Option<Arc<str>>, AuditRecord) {
        let refusing = self.refusing(event);
        let newest = || self.known.get(&event.guard)?.first();
        let guard = refusing.as_ref().map(|(guard, _)| *guard).or_else(newest);
        let command = Some(event.command.clone());
        let requester = match self.has_waited(event) {
            // Another process can have the id by now.
            true => Requester {
                uid: Some(event.user),
                gid: Some(event.group),
                pid: event.process,
                command,
                cgroup: None,
            },
            false => Requester { command, ..Requester::new(event.user, event.group, event.process) },
        };
        let record = AuditRecord {
            count: 1,
            time: wall_time(event.time),
            outcome: if event.is_audit { AuditOutcome::LetThrough } else { AuditOutcome::Refused },
            operation: event.operation,
            name: OsString::from_vec(event.name.clone()),
            target: None,
            parent: Some(match guard.map(|guard| &guard.top) {
                None if event.directory.as_os_str().is_empty() => CUT.into(),
                None if !event.is_cut => Path::new(CUT).join(&event.directory),
                Some(Some(top)) if event.directory.as_os_str().is_empty() => top.clone(),
                Some(Some(top)) if !event.is_cut => top.join(&event.directory),
                _ => event.directory.clone(),
            }),
            rule: refusing.as_ref().map(|(_, violation)| violation.rule),
            span: refusing.map_or(Span::new(0, 0), |(_, violation)| violation.span),
            requester,
        };
        (guard.map(|guard| guard.shown.clone()), record)
    }
}

/// The time of day of a moment of CLOCK_MONOTONIC.
fn wall_time(nanoseconds: u64) -> SystemTime {
    SystemTime::now() - monotonic().saturating_sub(Duration::from_nanos(nanoseconds))
}

fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_as_the_program_writes_it() {
        let mut bytes = vec![0; 60 + KEPT + PATH];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &7_u64.to_ne_bytes());
        put(8, &(3_u64 << 40).to_ne_bytes());
        for (at, number) in [(16, 41_u32), (20, 1000), (24, 100), (28, 3), (56 + KEPT, 9)] {
            put(at, &number.to_ne_bytes());
        }
        put(32, &[5, 1, 0]);
        put(40, b"mv\0junk");
        put(56, b"a\xFFb");
        put(60 + KEPT, b"\x03in\n\x04deep");
        let event = GuardEvent::read(&bytes).unwrap();
        assert_eq!((event.time, event.guard), (7, 3 << 40));
        assert_eq!((event.process, event.user, event.group), (41, 1000, 100));
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
