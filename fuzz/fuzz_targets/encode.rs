//! Any name at a gate that encodes, with any profile and table: what is shown leads back, what a client writes is what it lists, and nothing
//! invalid is stored. The first two bytes choose policy and table.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use namegate_core::gate::{Gate, Intent, Mode, NAME_MAX};
use namegate_core::name::substitutes::KnownMap;
use namegate_core::policy::{Policy, Verdict, profile};

static GATES: LazyLock<Vec<Gate>> = LazyLock::new(|| {
    let tables = [KnownMap::TO_RCLONE, KnownMap::TO_SFM, KnownMap::TO_SFU, KnownMap::TO_CATIA];
    let gate = |p| Gate::new(Arc::new(Policy::from_profiles(&[p])), Mode::Encoding);
    profile::ALL.iter().flat_map(|p| tables.map(|table| gate(p).with_substitutes(table))).collect()
});

fuzz_target!(|input: &[u8]| {
    let Some((&[one, other], name)) = input.split_first_chunk() else { return };
    if name.len() > NAME_MAX || matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| b"\0/".contains(byte)) {
        return;
    }
    let gate = &GATES[usize::from(u16::from_le_bytes([one, other])) % GATES.len()];
    let (shown, _) = gate.show_bytes(name).unwrap();
    assert!(shown.len() <= NAME_MAX && std::str::from_utf8(&shown).is_ok());
    if !gate.is_shortened_bytes(&shown) {
        assert_eq!(gate.admit_bytes(Intent::Address, &shown).unwrap().as_bytes(), name);
    }
    if let Ok(new) = gate.admit_bytes(Intent::Create, name) {
        assert!(matches!(gate.policy().verdict(new.as_bytes()), Verdict::Accept(_)));
        assert_eq!(*gate.show_bytes(new.as_bytes()).unwrap().0, *name);
        assert_eq!(gate.admit_bytes(Intent::Address, name).unwrap().as_bytes(), new.as_bytes());
    }
});
