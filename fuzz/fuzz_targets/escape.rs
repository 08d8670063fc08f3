//! Any bytes: escaping is reversible, gives a valid name, and changes no name that needs none; display never acts on a terminal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namegate_core::name::display::{acts_or_hides, display, width};
use namegate_core::name::escape::{escape, escape_within, is_shortened, unescape};

fuzz_target!(|name: &[u8]| {
    let escaped = escape(name);
    assert_eq!(unescape(&escaped), name);
    assert!(!matches!(&*escaped, "." | "..") && !escaped.contains(['\0', '/']));
    assert!(!is_shortened(&escaped));
    if let Ok(text) = std::str::from_utf8(name) {
        unescape(text);
        escape(&unescape(text));
    }
    let fitted = escape_within(name, 255);
    assert!(fitted.len() <= 255 && (is_shortened(&fitted) || fitted == escaped));
    let shown = display(name).to_string();
    assert!(!shown.chars().any(acts_or_hides));
    assert!(width(name) <= 10 * name.len());
});
