use std::ffi::OsStr;
use std::mem::forget;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;

use namegate_mount::passthrough::{BackingRecord, NodeData, OpenData, TreeJournal};
use namegate_mount::{MountJournal, MountRecord};
use namegate_wire::{Negotiated, Recovery, RequestJournal};

use super::journal::{CRASHED, JournalEntry, KILLED, LeftRequest, PriorAttempt};
use super::state::head;
use super::*;

const BUFFER: usize = 1 << 16;

fn state() -> &'static SurvivalState {
    SurvivalState::with_buffers(BUFFER).unwrap()
}

/// Puts a message into the buffer of a reading thread, as the kernel does.
fn message(buffer: &mut [u8], unique: u64, len: usize) {
    buffer[..4].copy_from_slice(&(len as u32).to_ne_bytes());
    buffer[8..16].copy_from_slice(&unique.to_ne_bytes());
    buffer[40..len].fill(unique as u8);
}

/// Serves a request in a thread that ends in the middle of it.
fn dies(work: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(work).join().unwrap());
}

/// Finishes the current request when it is dropped.
struct Current(&'static SurvivalState);

impl Drop for Current {
    fn drop(&mut self) {
        self.0.finished();
    }
}

fn set_current(state: &'static SurvivalState, entry: JournalEntry) -> Current {
    journal::set_current(entry);
    Current(state)
}

fn begin(state: &'static SurvivalState, reader: usize, unique: u64) -> Current {
    let mut header = [0; 40];
    header[8..16].copy_from_slice(&unique.to_ne_bytes());
    set_current(state, JournalEntry::begin(state, reader, &header))
}

/// Takes nodes to forget, `count` of `all`, as a server does. Returns the first one.
fn forget_nodes(state: &SurvivalState, all: u64, count: usize) -> u64 {
    let done = state.forgotten();
    (done..all).take(count).for_each(|node| state.note_forgotten(node + 1));
    done
}

fn in_flight(state: &'static SurvivalState) -> Vec<(u64, usize, Recovery)> {
    let all = state.in_flight().unwrap();
    let found = all.iter().map(|LeftRequest { entry, reader, message }| {
        assert!(
            message[40..].iter().all(|&byte| byte == entry.unique() as u8),
            "it is the message of the request"
        );
        (entry.unique(), *reader, entry.recovery())
    });
    let found = found.collect();
    // The next server finds them again.
    all.into_iter().for_each(forget);
    found
}

#[test]
fn records_are_what_they_were_and_those_that_were_dropped_are_not_there() {
    let state = state();
    let node = NodeData {
        id: 1 << 63 | 7,
        dev: 3,
        ino: u64::MAX,
        lookups: 2,
        kind: libc::S_IFREG,
        number: 9,
        handle: Some((-1, (0..records::LONGEST_HANDLE as u8).collect())),
        mount: Some(0),
        fd: Some(0),
        uid: Some(u32::MAX),
        backing: BackingRecord::Registered(u32::MAX),
        is_revoked: true,
    };
    let plain = NodeData { id: 2, ..NodeData::default() };
    let too_long = NodeData { handle: Some((1, vec![0; records::LONGEST_HANDLE + 1])), ..plain.clone() };
    assert!(state.add_node(&too_long).is_none());
    let open = OpenData {
        fh: 5,
        node: 2,
        is_directory: true,
        flags: -1,
        unique: 4,
        fd: Some(1),
        opener: [1, 2, 3, 4],
    };
    // The number of the current request is recorded with what it opens.
    let current = begin(state, 0, open.unique);
    let _ = (state.add_node(&node), state.add_open(&open));
    forget(current);
    state.remove_node(state.add_node(&NodeData { id: 3, ..plain.clone() }).unwrap());
    state.remove_open(state.add_open(&OpenData { fh: 6, ..open }).unwrap());
    let _ = state.add_node(&plain);
    state.set_root(0);
    let mut needed: Vec<_> = state.needed_descriptors().collect();
    needed.sort_unstable();
    assert_eq!(needed, [0, 0, 1], "of the source, the node and the open directory");
    let (slots, found): (Vec<_>, Vec<_>) = state.take_over_nodes().into_iter().unzip();
    assert_eq!(found, [node, plain]);
    slots.into_iter().for_each(|slot| state.remove_node(slot));
    let (slot, found) = state.take_over_opens().pop().unwrap();
    assert_eq!(found, open);
    state.set_open_fd(slot, None);
    assert_eq!(state.needed_descriptors().count(), 1, "that of the source");
}

fn record<'r>(mountpoint: &'r Path, device: Option<&'r str>) -> MountRecord<'r> {
    MountRecord { source: Path::new("/source"), mountpoint, device, root_number: 1, export_key: None }
}

#[test]
fn the_head_remembers_the_mount() {
    let state = state();
    assert!(!state.is_serving() && state.devices().is_empty() && state.mode().is_none());
    let negotiated = Negotiated { minor: 45, flags: 1 << 63 };
    state.connected(negotiated, &[3, 4]);
    assert_eq!((state.negotiated(), state.devices()), (negotiated, vec![3, 4]));
    let place = Path::new(OsStr::from_bytes(b"/mnt/caf\xE9"));
    state.mounted(&record(place, Some("0:45"))).unwrap();
    assert_eq!(state.place(), (place.into(), Some("0:45".into())));
    assert!(state.mounted(&record(Path::new(&"x".repeat(1 << 14)), None)).is_err());
    state.set_mode(Some(0));
    assert_eq!((state.mode(), state.begin_server(), state.begin_server()), (Some(0), 1, 2));
    let places = [state.releasing(0), state.releasing(9)];
    state.released(places[0].unwrap());
    assert_eq!((state.take_over_closing(), state.take_over_closing()), (vec![9], vec![]));
}

#[test]
fn a_successor_knows_how_far_each_request_has_come() {
    let state = state();
    state.connected(Negotiated { minor: 45, flags: 0 }, &[3, 4, 5, 6, 7]);
    let mut buffers: Vec<_> = (0..5).map(|reader| state.buffer(reader).unwrap()).collect();
    let progress = state.progress();
    assert!(in_flight(state).is_empty());
    // One that is finished, one that was only read, one that has begun a change, one whose reply is recorded, and a long reply.
    for (reader, buffer) in buffers.iter_mut().enumerate() {
        message(buffer, 10 + reader as u64, 100 + reader);
    }
    drop(begin(state, 0, 10));
    dies(|| {
        let current = begin(state, 2, 12);
        assert_eq!((journal::unique(), journal::start(|| [7, 8])), (12, None));
        journal::note_lookup(20);
        journal::note_lookup(21);
        journal::note_forget(22);
        journal::note_forget(21);
        forget(current);
    });
    dies(|| {
        let current = begin(state, 3, 13);
        journal::note_lookup(20);
        state.replying(99, 0, &[b"of another request"]);
        state.replying(13, -5, &[b"a", b"reply"]);
        state.replying(13, 0, &[b"a second one"]);
        forget(current);
    });
    dies(|| {
        let current = begin(state, 4, 14);
        journal::note_lookup(20);
        state.replying(14, 0, &[&[0; 513]]);
        forget(current);
    });
    assert_ne!(state.progress(), progress);
    let serve = |nodes: &[u64]| Recovery::Serve(nodes.to_vec());
    let reply = Recovery::Reply(-5, b"areply".to_vec());
    let expected = [(11, 1, serve(&[])), (12, 2, serve(&[20])), (13, 3, reply.clone()), (14, 4, serve(&[]))];
    state.set_crash_score(KILLED);
    assert_eq!(in_flight(state), expected);
    // The next one finds the change as the first one has recorded it.
    let entry = |unique| {
        state.in_flight().unwrap().into_iter().find(|one| one.entry.unique() == unique).unwrap().entry
    };
    dies(|| {
        let current = set_current(state, entry(12));
        let Some(PriorAttempt { observed: [7, 8], begun }) = journal::start(|| panic!("not asked again"))
        else {
            panic!()
        };
        assert!(begun.0 > 1 << 30);
        forget(current);
    });
    // A request of which servers crash is not tried for ever; a recorded reply is sent in any case.
    state.set_crash_score(CRASHED);
    assert_eq!(in_flight(state)[1], (12, 2, serve(&[])));
    assert_eq!(in_flight(state)[1..3], [(12, 2, Recovery::Fail), (13, 3, reply)]);
    drop(set_current(state, entry(12)));
    assert!(in_flight(state).iter().all(|(unique, ..)| *unique != 12));
}

#[test]
fn a_request_in_the_pool_has_a_journal_of_its_own() {
    let state = state();
    state.connected(Negotiated { minor: 45, flags: 0 }, &[3]);
    let buffer = state.buffer(0).unwrap();
    for (unique, len) in [(20, 100), (21, 9000), (22, BUFFER)] {
        message(buffer, unique, len);
        let current = begin(state, 0, unique);
        journal::note_lookup(unique);
        assert_eq!(journal::start(|| [unique, 0]), None);
        forget(journal::hand_on().unwrap().unwrap());
        assert!(journal::unique() == 0 && journal::hand_on().unwrap().is_none());
        drop(current);
    }
    let expected = [20, 21, 22].map(|unique| (unique, 0, Recovery::Serve(vec![unique])));
    assert_eq!(in_flight(state), expected);
    // Forgetting goes on behind what was taken.
    message(buffer, 23, 100);
    dies(|| {
        let current = begin(state, 0, 23);
        assert_eq!(forget_nodes(state, 5, 2), 0);
        forget(current);
        let _current = begin(state, 1, 0);
        assert_eq!(forget_nodes(state, 2, 2), 0);
    });
    dies(|| {
        let entry = state.in_flight().unwrap().pop().unwrap().entry;
        let _current = set_current(state, entry);
        assert_eq!(forget_nodes(state, 5, 5), 2);
    });
}

#[test]
fn whatever_was_left_is_taken_over_as_far_as_it_goes() {
    let state = state();
    // xorshift64*
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut random = || {
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        seed.wrapping_mul(0x2545_F491_4F6C_DD1D)
    };
    let mut found = 0;
    for _ in 0..2000 {
        let mut change = |word: usize, most: u64| {
            let value = if random() % 2 == 0 { random() % most } else { random() };
            (state.table(random() as usize % 6) + random() as usize % word, value)
        };
        let mut changes: Vec<(usize, u64)> = (0..40).map(|_| change(400, 64)).collect();
        // Some slots of each table are in use.
        let (used, id) = (1 + changes[0].1 % 32, 1 + changes[1].1 / 2);
        changes.extend((head::USED..head::USED + 4).map(|word| (word, used)));
        changes.extend((1..6).map(|table| (state.table(table), id)));
        changes.iter().for_each(|&(word, value)| state.overwrite(word, value));
        let fds = state.needed_descriptors().count();
        let (nodes, opens) = (state.take_over_nodes(), state.take_over_opens());
        assert!(fds <= 1 + MOST_READERS + nodes.len() + opens.len());
        let _ = (state.place(), state.mode(), state.take_over_closing());
        for LeftRequest { entry, .. } in state.in_flight().unwrap() {
            found += 1;
            let (_, unique) = (entry.recovery(), entry.unique());
            let _current = set_current(state, entry);
            let _ = journal::start(|| [1, 2]);
            journal::note_lookup(7);
            journal::note_forget(7);
            let _ = forget_nodes(state, 3, 3);
            state.replying(unique, 0, &[b"reply"]);
        }
        found += nodes.len() + opens.len();
        nodes.into_iter().for_each(|(slot, _)| state.remove_node(slot));
        opens.into_iter().for_each(|(slot, _)| state.remove_open(slot));
        changes.iter().for_each(|&(word, _)| state.overwrite(word, 0));
    }
    assert!(found > 1000, "{found}");
}
