//! Parses the events of an inotify instance. Pure: bytes in, events out. Source: inotify(7).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use namegate_sys::fanotify_events::{MalformedEvent, parse_all};

/// `struct inotify_event` without its name.
const HEAD: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InotifyEvent<'b> {
    /// The watch that it belongs to; -1 for none.
    pub watch: i32,
    /// What happened: `IN_` bits.
    pub mask: u32,
    /// The same for both halves of a rename.
    pub cookie: u32,
    /// The entry that the event is about; `None` for the directory itself.
    pub name: Option<&'b OsStr>,
}

/// Parses the events in `bytes`, the result of one read. The iterator ends after the first malformed event.
///
/// ```
/// use namegate_watch::inotify::events;
/// let mut record = vec![1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
/// record.extend(b"ab\0\0");
/// let found: Vec<_> = events(&record).collect();
/// assert!(matches!(found[..], [Ok(event)] if event.watch == 1 && event.name == Some("ab".as_ref())));
/// assert!(events(&record[..18]).next().is_some_and(|event| event.is_err()));
/// ```
pub fn events(bytes: &[u8]) -> impl Iterator<Item = Result<InotifyEvent<'_>, MalformedEvent>> {
    parse_all(bytes, |rest| event(rest).ok_or("it is cut short"))
}

fn event(bytes: &[u8]) -> Option<(InotifyEvent<'_>, usize)> {
    let word = |at: usize| bytes.get(at..)?.first_chunk().copied();
    let len = HEAD.checked_add(u32::from_ne_bytes(word(12)?) as usize)?;
    let padded = bytes.get(HEAD..len)?;
    let name = &padded[..memchr::memchr(0, padded).unwrap_or(padded.len())];
    let event = InotifyEvent {
        watch: i32::from_ne_bytes(word(0)?),
        mask: u32::from_ne_bytes(word(4)?),
        cookie: u32::from_ne_bytes(word(8)?),
        name: (!name.is_empty()).then(|| OsStr::from_bytes(name)),
    };
    Some((event, len))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm_and_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
            prop_assert!(events(&bytes).count() <= bytes.len() / HEAD + 1);
        }
    }
}
