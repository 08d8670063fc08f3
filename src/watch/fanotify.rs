//! What the kernel writes to a fanotify group, read as bytes.
//!
//! Pure: bytes in, events out. A record is a head of 24 bytes and any number of parts, each with its type and length; parts
//! of types that are not known here are passed over. Whatever does not fit its own length is an error, never a guess.
//! Source: fanotify(7), linux/fanotify.h.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// `struct fanotify_event_metadata`.
const HEAD: usize = 24;
/// `FANOTIFY_METADATA_VERSION`.
const VERSION: u8 = 3;
/// `struct fanotify_event_info_header`: type, padding, length.
const PART_HEAD: usize = 4;
/// A part's head, `__kernel_fsid_t`, and the head of `struct file_handle`.
const OBJECT_HEAD: usize = PART_HEAD + 16;

/// One event. What its parts do not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanotifyEvent<'b> {
    /// What happened: `FAN_` bits.
    pub mask: u64,
    /// Who did it; 0 if that is not to be seen from here.
    pub pid: i32,
    /// The entry that it happened to. `.` stands for the directory itself.
    pub entry: Option<EventEntry<'b>>,
    /// Where something was renamed from.
    pub from: Option<EventEntry<'b>>,
    /// Where something was renamed to.
    pub to: Option<EventEntry<'b>>,
    /// What stands, or stood, under the entry's name.
    pub target: Option<EventObject<'b>>,
}

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventEntry<'b> {
    /// The directory.
    pub dir: EventObject<'b>,
    /// The name, as it stands there.
    pub name: &'b OsStr,
}

/// A file or a directory, by its kernel file handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EventObject<'b> {
    /// The file system.
    pub fsid: [u8; 8],
    /// The handle's type.
    pub kind: i32,
    /// The handle's bytes.
    pub handle: &'b [u8],
}

/// Bytes that are no event.
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

/// The events in `bytes`, what one read filled; it ends with the first that is malformed, because where the next would begin
/// is not known then.
///
/// ```
/// use namegate::watch::fanotify::events;
/// // A queue that overflowed: no descriptor, no parts.
/// let mut record = vec![24, 0, 0, 0, 3, 0, 24, 0, 0, 0x40, 0, 0, 0, 0, 0, 0];
/// record.extend([0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0]);
/// let found: Vec<_> = events(&record).collect();
/// assert!(matches!(found[..], [Ok(event)] if event.mask == 0x4000 && event.entry.is_none()));
/// assert!(events(&record[..20]).next().is_some_and(|event| event.is_err()));
/// ```
pub fn events(bytes: &[u8]) -> FanotifyEvents<'_> {
    FanotifyEvents { bytes, at: 0 }
}

/// See [`events`].
#[derive(Clone, Debug)]
pub struct FanotifyEvents<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Iterator for FanotifyEvents<'b> {
    type Item = Result<FanotifyEvent<'b>, MalformedEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        match event(rest) {
            Ok((event, len)) => {
                self.at += len;
                Some(Ok(event))
            }
            Err(what) => {
                let at = std::mem::replace(&mut self.at, self.bytes.len());
                Some(Err(MalformedEvent { at, what }))
            }
        }
    }
}

/// `N` bytes at `at`.
fn take<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], &'static str> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or("it is cut short")
}

/// The first event of `bytes`, and how many it takes.
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

/// The object that a part names, and what stands behind it.
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
