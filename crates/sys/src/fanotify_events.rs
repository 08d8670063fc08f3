//! Parses the events of a fanotify group.
//!
//! Pure: bytes in, events out. A record is a head of 24 bytes and any number of parts, each with its type and length; parts
//! of unknown types are ignored. A length that does not fit is an error. Sources: fanotify(7), linux/fanotify.h.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use crate::handle::KernelHandle;

/// `struct fanotify_event_metadata`.
const HEAD: usize = 24;
/// `FANOTIFY_METADATA_VERSION`.
const VERSION: u8 = 3;
/// `struct fanotify_event_info_header`: type, padding, length.
const PART_HEAD: usize = 4;
/// A part's head, `__kernel_fsid_t`, and the head of `struct file_handle`.
const OBJECT_HEAD: usize = PART_HEAD + 16;

/// One event. A field is `None` if the record has no such part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanotifyEvent<'b> {
    /// What happened: `FAN_` bits.
    pub mask: u64,
    /// The process that caused it; 0 if it is in another PID namespace.
    pub pid: i32,
    /// The entry that the event is about. `.` is the directory itself.
    pub entry: Option<EventEntry<'b>>,
    /// The old name of a renamed entry.
    pub from: Option<EventEntry<'b>>,
    /// The new name of a renamed entry.
    pub to: Option<EventEntry<'b>>,
    /// The file that has, or had, the entry's name.
    pub target: Option<EventObject<'b>>,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventEntry<'b> {
    pub dir: EventObject<'b>,
    /// The name in the directory.
    pub name: &'b OsStr,
}

/// A file or a directory, by its kernel file handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventObject<'b> {
    /// The file system.
    pub fsid: [u8; 8],
    /// The type of the handle.
    pub kind: i32,
    pub handle: &'b [u8],
}

impl EventObject<'_> {
    /// The inode number in the handle; `None` for file systems whose handles are not known to contain it.
    pub fn number(&self) -> Option<u64> {
        KernelHandle::from_parts(self.kind, self.handle)?.number()
    }
}

/// Bytes that are not a valid event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedEvent {
    /// Where the event begins.
    pub at: usize,
    /// What is wrong with it.
    pub what: &'static str,
}

impl fmt::Display for MalformedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the event at byte {}: {}", self.at, self.what)
    }
}

impl Error for MalformedEvent {}

/// Parses the events in `bytes`, the result of one read. The iterator ends after the first malformed event, because the start of
/// the next one is then unknown.
///
/// ```
/// use namegate_sys::fanotify_events::events;
/// // A queue that overflowed: no descriptor, no parts.
/// let mut record = vec![24, 0, 0, 0, 3, 0, 24, 0, 0, 0x40, 0, 0, 0, 0, 0, 0];
/// record.extend([0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]);
/// let found: Vec<_> = events(&record).collect();
/// assert!(matches!(found[..], [Ok(event)] if event.mask == 0x4000 && event.entry.is_none()));
/// assert!(events(&record[..20]).next().is_some_and(|event| event.is_err()));
/// ```
pub fn events(bytes: &[u8]) -> impl Iterator<Item = Result<FanotifyEvent<'_>, MalformedEvent>> {
    parse_all(bytes, event)
}

/// Parses one event after another by `parse`, which returns the first one with its length, or what is wrong with it.
pub fn parse_all<'b, E>(
    bytes: &'b [u8],
    parse: fn(&'b [u8]) -> Result<(E, usize), &'static str>,
) -> impl Iterator<Item = Result<E, MalformedEvent>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let (event, end) = match parse(rest) {
            Ok((event, len)) => (Ok(event), at + len),
            Err(what) => (Err(MalformedEvent { at, what }), bytes.len()),
        };
        at = end;
        Some(event)
    })
}

/// Reads `N` bytes at `at`.
fn take<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], &'static str> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or("it is cut short")
}

/// Parses the first event of `bytes`. Returns it with its length.
fn event(bytes: &[u8]) -> Result<(FanotifyEvent<'_>, usize), &'static str> {
    let len = u32::from_ne_bytes(take(bytes, 0)?) as usize;
    let [version, _] = take(bytes, 4)?;
    let head = usize::from(u16::from_ne_bytes(take(bytes, 6)?));
    if version != VERSION {
        return Err("it has another version than 3");
    }
    if head < HEAD || len < head {
        return Err("its lengths contradict each other");
    }
    let record = bytes.get(..len).ok_or("it is cut short")?;
    let mut event = FanotifyEvent {
        mask: u64::from_ne_bytes(take(record, 8)?),
        pid: i32::from_ne_bytes(take(record, 20)?),
        ..FanotifyEvent::default()
    };
    let mut parts = &record[head..];
    while !parts.is_empty() {
        let [kind, _] = take(parts, 0)?;
        let len = usize::from(u16::from_ne_bytes(take(parts, 2)?));
        if len < PART_HEAD {
            return Err("a part of it is shorter than its head");
        }
        let part = parts.get(..len).ok_or("a part of it is cut short")?;
        match kind {
            libc::FAN_EVENT_INFO_TYPE_FID => event.target = Some(object(part)?.0),
            libc::FAN_EVENT_INFO_TYPE_DFID_NAME => event.entry = Some(entry(part)?),
            libc::FAN_EVENT_INFO_TYPE_DFID => {
                event.entry = Some(EventEntry { dir: object(part)?.0, name: OsStr::new(".") });
            }
            libc::FAN_EVENT_INFO_TYPE_OLD_DFID_NAME => event.from = Some(entry(part)?),
            libc::FAN_EVENT_INFO_TYPE_NEW_DFID_NAME => event.to = Some(entry(part)?),
            _ => {}
        }
        parts = &parts[len..];
    }
    Ok((event, len))
}

/// Parses the object at the start of a part. Returns it with the rest of the part.
fn object(part: &[u8]) -> Result<(EventObject<'_>, &[u8]), &'static str> {
    let fsid = take(part, PART_HEAD)?;
    let len = u32::from_ne_bytes(take(part, PART_HEAD + 8)?) as usize;
    let kind = i32::from_ne_bytes(take(part, PART_HEAD + 12)?);
    let behind = part.get(OBJECT_HEAD..).ok_or("a file handle in it is cut short")?;
    let (handle, rest) = behind.split_at_checked(len).ok_or("a file handle in it is cut short")?;
    Ok((EventObject { fsid, kind, handle }, rest))
}

fn entry(part: &[u8]) -> Result<EventEntry<'_>, &'static str> {
    let (dir, rest) = object(part)?;
    let end = memchr::memchr(0, rest).ok_or("a name in it has no end")?;
    if end == 0 || rest[..end].contains(&b'/') {
        return Err("a name in it is none");
    }
    Ok(EventEntry { dir, name: OsStr::from_bytes(&rest[..end]) })
}

#[cfg(test)]
mod tests;
