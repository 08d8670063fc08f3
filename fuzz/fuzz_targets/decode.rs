//! Any bytes: the decoder agrees with std, its findings are in order, the arena agrees with the decoder, and everything
//! derived from a name (its readings, its explanation) works.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namegate_core::name::arena::Arena;
use namegate_core::name::{reading, ucs4, utf8};

fuzz_target!(|bytes: &[u8]| {
    let std = std::str::from_utf8(bytes);
    match utf8::validate(bytes) {
        Ok(text) => assert_eq!(Ok(text), std),
        Err(found) => assert_eq!(std.map_err(|e| e.valid_up_to()), Err(found.span.start)),
    }
    let mut at = 0;
    for found in utf8::ill_formed(bytes) {
        assert!(found.span.start >= at && found.span.end > found.span.start);
        assert!(std::str::from_utf8(&bytes[at..found.span.start]).is_ok());
        at = found.span.end;
    }
    assert!(std::str::from_utf8(&bytes[at..]).is_ok());
    let parts: usize = utf8::well_formed_parts(bytes).map(|(_, part)| part.len()).sum();
    assert!(parts <= bytes.len());
    if let Some((value, len)) = ucs4::decode(bytes) {
        assert_eq!(ucs4::encode_in(value, len).unwrap().as_slice(), &bytes[..len]);
    }

    let mut arena = Arena::new();
    let names: Vec<&[u8]> = bytes.split(|&b| b == 0).collect();
    names.iter().for_each(|name| {
        arena.push(name).unwrap();
    });
    let bad: Vec<&[u8]> = arena.ill_formed().map(|(_, name)| name).collect();
    let expected: Vec<&[u8]> = names.into_iter().filter(|name| std::str::from_utf8(name).is_err()).collect();
    assert_eq!(bad, expected);

    reading::likeliest(bytes);
    reading::structural(bytes);
    namegate::explain::Explanation::new(bytes, namegate::explain::DEFAULT_PROFILES);
});
