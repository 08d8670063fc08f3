//! Requests of the kernel's FUSE protocol: any bytes are taken apart or refused, and nothing in them is read beyond their end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use namegate_wire::{Operation, Request};

fuzz_target!(|message: &[u8]| {
    let Ok(request) = Request::parse(message) else { return };
    let len = message.len();
    match request.operation {
        Operation::BatchForget(nodes) => assert!(nodes.count() <= len / 16),
        Operation::Lookup { name } | Operation::Create { name, .. } => {
            assert!(name.len() < len && !name.as_encoded_bytes().contains(&0));
        }
        Operation::Write { arg, data } => assert_eq!(data.len(), arg.size as usize),
        Operation::Setxattr { name, value, .. } => assert!(name.len() + value.len() < len),
        _ => {}
    }
});
