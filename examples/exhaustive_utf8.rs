//! Compares `name::utf8` with the standard library on all 2^32 strings of four bytes. Run by `scripts/test-exhaustive`.
//!
//! Each string is accepted if and only if `std::str::from_utf8` accepts it; otherwise the first finding starts where the
//! standard library finds it, findings are in order and inside the string, and the bytes between them are well-formed. The
//! number of accepted strings must be the one that follows from the numbers of code points of each length.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use namegate_core::name::utf8;

/// Number of code points that take one, two, three and four bytes (without surrogates).
const CODE_POINTS: [u64; 4] = [0x80, 0x800 - 0x80, 0x1_0000 - 0x800 - 0x800, 0x11_0000 - 0x1_0000];

/// The ways to fill four bytes with whole code points.
const fn well_formed() -> u64 {
    let [one, two, three, four] = CODE_POINTS;
    one * one * one * one + 3 * one * one * two + two * two + 2 * one * three + four
}

fn main() -> ExitCode {
    let (next, refused, begun) = (AtomicU32::new(0), AtomicU64::new(0), Instant::now());
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut bad = 0;
        loop {
            let first = next.fetch_add(1, Relaxed);
            let Ok(first) = u8::try_from(first) else { break };
            for rest in 0..1_u32 << 24 {
                let [_, a, b, c] = rest.to_be_bytes();
                bad += u64::from(!check(&[first, a, b, c]));
            }
            eprint!("\r{:3} of 256 first bytes, {} s ", u32::from(first) + 1, begun.elapsed().as_secs());
        }
        refused.fetch_add(bad, Relaxed);
    };
    let panicked = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        threads.into_iter().any(|thread| thread.join().is_err())
    });
    if panicked {
        eprintln!("\nfailed");
        return ExitCode::FAILURE;
    }
    let accepted = (1_u64 << 32) - refused.into_inner();
    if accepted != well_formed() {
        eprintln!("\n{accepted} strings were accepted, and {} are well-formed", well_formed());
        return ExitCode::FAILURE;
    }
    println!(
        "\nall 2^32 strings of 4 bytes agree with std: {accepted} accepted, {} s",
        begun.elapsed().as_secs()
    );
    ExitCode::SUCCESS
}

/// Panics if the law is broken; returns whether the string was accepted.
fn check(bytes: &[u8; 4]) -> bool {
    match (std::str::from_utf8(bytes), utf8::validate(bytes)) {
        (Ok(_), Ok(_)) => return true,
        (Err(e), Err(i)) => assert_eq!(e.valid_up_to(), i.span.start, "{bytes:02X?}"),
        _ => panic!("{bytes:02X?}: std and namegate differ"),
    }
    let mut at = 0;
    for found in utf8::ill_formed(bytes) {
        let span = found.span;
        assert!(span.start >= at && span.start < span.end && span.end <= 4, "{bytes:02X?}: {found:?}");
        assert!(std::str::from_utf8(&bytes[at..span.start]).is_ok(), "{bytes:02X?}: {found:?}");
        at = span.end;
    }
    assert!(std::str::from_utf8(&bytes[at..]).is_ok(), "{bytes:02X?}");
    false
}
