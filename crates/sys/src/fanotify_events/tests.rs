use proptest::prelude::*;

use super::*;

/// A part of this type, with this content after its head.
fn part(kind: u8, content: &[u8]) -> Vec<u8> {
    // The kernel pads to four bytes.
    let len = (PART_HEAD + content.len()).next_multiple_of(4);
    let mut part = vec![kind, 0];
    part.extend((len as u16).to_ne_bytes());
    part.extend(content);
    part.resize(len, 0);
    part
}

fn object_bytes(fsid: u64, kind: i32, handle: &[u8]) -> Vec<u8> {
    let mut bytes = fsid.to_ne_bytes().to_vec();
    bytes.extend((handle.len() as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(handle);
    bytes
}

fn entry_bytes(handle: &[u8], name: &[u8]) -> Vec<u8> {
    [&object_bytes(5, 1, handle)[..], name, &[0]].concat()
}

fn record(mask: u64, pid: i32, parts: &[Vec<u8>]) -> Vec<u8> {
    let parts = parts.concat();
    let mut record = ((HEAD + parts.len()) as u32).to_ne_bytes().to_vec();
    record.extend([VERSION, 0]);
    record.extend((HEAD as u16).to_ne_bytes());
    record.extend(mask.to_ne_bytes());
    record.extend((-1i32).to_ne_bytes());
    record.extend(pid.to_ne_bytes());
    record.extend(parts);
    record
}

fn all(bytes: &[u8]) -> Vec<Result<FanotifyEvent<'_>, MalformedEvent>> {
    events(bytes).collect()
}

#[test]
fn parts_of_all_types_are_distinguished_and_unknown_ones_are_ignored() {
    let renamed = record(
        libc::FAN_RENAME,
        42,
        &[
            part(99, b"from the future"),
            part(libc::FAN_EVENT_INFO_TYPE_OLD_DFID_NAME, &entry_bytes(b"old.....", b"caf\xE9")),
            part(libc::FAN_EVENT_INFO_TYPE_NEW_DFID_NAME, &entry_bytes(b"new.....", b"caf\xC3\xA9")),
            part(libc::FAN_EVENT_INFO_TYPE_FID, &object_bytes(5, -3, b"target")),
        ],
    );
    let own = record(
        libc::FAN_DELETE_SELF,
        0,
        &[part(libc::FAN_EVENT_INFO_TYPE_DFID, &object_bytes(6, 1, b"")), part(4, &[0; 4])],
    );
    let both = [renamed, own].concat();
    let found = all(&both);
    let [Ok(first), Ok(second)] = found[..] else { panic!("{found:?}") };
    assert_eq!((first.mask, first.pid, first.entry), (libc::FAN_RENAME, 42, None));
    let names =
        [first.from, first.to].map(|entry| entry.map(|entry| (entry.dir.handle, entry.name.as_bytes())));
    assert_eq!(names, [Some((&b"old....."[..], &b"caf\xE9"[..])), Some((b"new.....", b"caf\xC3\xA9"))]);
    let target = first.target.unwrap();
    assert_eq!((target.kind, target.handle, target.fsid), (-3, &b"target"[..], 5u64.to_ne_bytes()));
    assert_eq!(second.entry.map(|entry| entry.name), Some(OsStr::new(".")));
}

#[test]
fn truncated_and_inconsistent_records_are_errors_and_end_the_iteration() {
    let entry = part(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, &entry_bytes(b"handle..", b"name"));
    let whole = record(libc::FAN_CREATE, 1, std::slice::from_ref(&entry));
    for cut in 1..whole.len() {
        let found = all(&whole[..cut]);
        assert!(matches!(found[..], [Err(MalformedEvent { at: 0, .. })]), "{cut}: {found:?}");
    }
    let broken = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        let found = all(&bytes);
        assert!(matches!(found[..], [Err(_), ..]), "byte {at} as {byte}: {found:?}");
    };
    broken(0, 3);
    broken(4, 2);
    broken(6, 8);
    broken(HEAD + 2, 3);
    broken(HEAD + 3, 200);
    broken(HEAD + PART_HEAD + 8, 200);
    let mut no_end = entry.clone();
    no_end.iter_mut().skip(OBJECT_HEAD + 8).for_each(|byte| *byte = b'x');
    assert!(all(&record(0, 0, &[no_end]))[0].is_err());
    for name in [&b""[..], b"a/b"] {
        let part = part(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, &entry_bytes(b"handle..", name));
        assert!(all(&record(0, 0, &[part]))[0].is_err(), "{name:?}");
    }
}

proptest! {
    #[test]
    fn what_was_written_is_read(
        mask: u64, pid: i32, handle in proptest::collection::vec(any::<u8>(), 0..128),
        name in "[^/\0]{1,60}", unknown in 100u8.., noise in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let bytes = record(mask, pid, &[
            part(unknown, &noise),
            part(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, &entry_bytes(&handle, name.as_bytes())),
        ]);
        let twice = [&bytes[..], &bytes].concat();
        for event in all(&twice) {
            let event = event.unwrap();
            let entry = event.entry.unwrap();
            prop_assert_eq!((event.mask, event.pid, entry.dir.handle), (mask, pid, &handle[..]));
            prop_assert_eq!(entry.name.as_bytes(), name.as_bytes());
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm_and_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let found = all(&bytes);
        prop_assert!(found.len() <= bytes.len() / HEAD + 1);
        prop_assert!(found.iter().rev().skip(1).all(|event| event.is_ok()), "nothing follows an error");
    }

    #[test]
    fn a_whole_record_with_any_byte_changed_is_read_without_harm(at in 0usize..80, byte: u8) {
        let mut bytes = record(libc::FAN_CREATE, 1, &[
            part(libc::FAN_EVENT_INFO_TYPE_DFID_NAME, &entry_bytes(b"handle..", b"name")),
            part(libc::FAN_EVENT_INFO_TYPE_FID, &object_bytes(5, 1, b"handle..")),
        ]);
        let len = bytes.len();
        bytes[at % len] = byte;
        let _ = events(&bytes).count();
    }
}
