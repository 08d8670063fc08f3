//! The table of a guard, as the program in the kernel reads it: `struct table` in `guard.bpf.c`.

use std::fmt;

use nix::errno::Errno;

use crate::policy::automaton::Automaton;

/// Maximum number of transitions in a table. The largest profile, `portable`, needs 36,146.
const CELLS: usize = 1 << 16;

/// Size of a table in bytes: eight for the inode, ten numbers, the class of each byte, the transitions.
pub const SIZE: u32 = 8 + 10 * 4 + 256 + 2 * CELLS as u32;

/// Where a guard applies, and what it does with a name that its policy refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardScope {
    /// The device number of the file system in the kernel: its major number times 2^20, plus its minor number.
    pub device: u32,
    /// The inode of the top directory of the tree; `None` for the whole file system.
    pub root: Option<u64>,
    /// The errno for the caller; `None` reports the name and allows it.
    pub refusal: Option<Errno>,
}

/// The policy has more transitions than fit into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTransitions(usize);

impl fmt::Display for TooManyTransitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the policy needs {} transitions, and a guard has room for {CELLS}: reserve fewer names",
            self.0
        )
    }
}

impl std::error::Error for TooManyTransitions {}

/// Encodes the table.
///
/// # Errors
/// [`TooManyTransitions`] for policies with thousands of reserved names.
pub fn table(scope: GuardScope, automaton: &Automaton) -> Result<Vec<u8>, TooManyTransitions> {
    let cells = automaton.transitions();
    if cells.len() > CELLS {
        return Err(TooManyTransitions(cells.len()));
    }
    let error = -(scope.refusal.unwrap_or(Errno::EPERM) as i32);
    let limits = automaton.limits();
    let numbers = [
        scope.device,
        scope.refusal.is_none().into(),
        error.cast_unsigned(),
        automaton.stride() as u32,
        automaton.start().into(),
        automaton.first_refusing().into(),
        limits.bytes,
        limits.utf16,
        limits.code_points,
        0,
    ];
    let mut bytes = Vec::with_capacity(SIZE as usize);
    bytes.extend(scope.root.unwrap_or(0).to_ne_bytes());
    bytes.extend(numbers.into_iter().flat_map(u32::to_ne_bytes));
    bytes.extend(automaton.classes());
    bytes.extend(cells.iter().flat_map(|cell| cell.to_ne_bytes()));
    bytes.resize(SIZE as usize, 0);
    Ok(bytes)
}
