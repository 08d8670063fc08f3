//! The state of a mount that survives its server: whatever a predecessor has left in it, a server takes over what it can, and nothing
//! else is read or written.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use namegate_mount::MountJournal;
use namegate_mount::passthrough::TreeJournal;
use namegate_survive::journal::{self, LeftRequest};
use namegate_survive::{MOST_READERS, SurvivalState};
use namegate_wire::{Recovery, RequestJournal};

const BUFFER: usize = 1 << 16;

/// A word and its value: of 32 and of 64 bits.
const CHANGE: usize = 12;

fuzz_target!(|changes: &[u8]| {
    static STATE: OnceLock<&SurvivalState> = OnceLock::new();
    let state = *STATE.get_or_init(|| SurvivalState::with_buffers(BUFFER).expect("there is memory"));
    let changes = changes.chunks_exact(CHANGE).map(|change| {
        let (word, value) = change.split_first_chunk::<4>().expect("it is long enough");
        let value = u64::from_le_bytes(value.try_into().expect("eight bytes are left"));
        // Most words are those of tables with millions of slots, of which the first ones are as good as any. The head counts how many are
        // in use.
        let word = u32::from_le_bytes(*word) as usize;
        let begin = state.table((word >> 16) % 6);
        let value = if begin == 0 { value % (1 << 12) } else { value };
        (begin + word % (1 << 12), value)
    });
    let changes: Vec<_> = changes.collect();
    changes.iter().for_each(|&(word, value)| state.overwrite(word, value));
    assert!(state.devices().len() <= MOST_READERS);
    let _ = (state.place(), state.mode(), state.negotiated(), state.progress());
    let fds = state.needed_descriptors().count();
    let nodes = state.take_over_nodes();
    let opens = state.take_over_opens();
    assert!(fds <= 1 + MOST_READERS + nodes.len() + opens.len());
    let _ = (state.lost_backings(), state.uncached_names());
    for LeftRequest { entry, message, .. } in state.in_flight().expect("messages can be read") {
        assert!(message.len() <= BUFFER);
        if let Recovery::Reply(_, bytes) = entry.recovery() {
            assert!(bytes.len() <= 512);
        }
        let unique = entry.unique();
        journal::set_current(entry);
        let _ = journal::start(|| [1, 2]);
        journal::note_lookup(7);
        journal::note_forget(7);
        state.note_forgotten(state.forgotten().saturating_add(1));
        journal::hand_on().ok().flatten().into_iter().for_each(journal::set_current);
        state.replying(unique, 0, &[b"reply"]);
        state.finished();
    }
    nodes.into_iter().for_each(|(slot, _)| state.remove_node(slot));
    opens.into_iter().for_each(|(slot, _)| state.remove_open(slot));
    changes.iter().for_each(|&(word, _)| state.overwrite(word, 0));
});
