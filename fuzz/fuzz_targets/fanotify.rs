//! Any bytes as events of a fanotify group or an inotify instance: the parsers end, return nothing after an error, and return
//! only names and handles that lie in the bytes.
#![no_main]

use std::os::unix::ffi::OsStrExt;

use libfuzzer_sys::fuzz_target;
use namegate_sys::fanotify_events;
use namegate_watch::inotify;

fuzz_target!(|bytes: &[u8]| {
    let within = |part: &[u8]| part.is_empty() || bytes.as_ptr_range().contains(&part.as_ptr());
    let mut has_ended = false;
    for event in fanotify_events::events(bytes) {
        assert!(!has_ended);
        let Ok(event) = event else {
            has_ended = true;
            continue;
        };
        for entry in [event.entry, event.from, event.to].into_iter().flatten() {
            let name = entry.name.as_bytes();
            assert!(!name.is_empty() && !name.contains(&0) && !name.contains(&b'/'));
            assert!(name == b"." || within(name));
            assert!(within(entry.dir.handle));
        }
        assert!(event.target.is_none_or(|target| within(target.handle)));
    }
    has_ended = false;
    for event in inotify::events(bytes) {
        assert!(!has_ended);
        match event {
            Ok(event) => assert!(event.name.is_none_or(|name| within(name.as_bytes()))),
            Err(_) => has_ended = true,
        }
    }
});
